"""A cross-encoder as a reranker: a tiny one with random weights, made here, in the nox session `torch` only."""

import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from catena.backends import CrossEncoderReranker
from catena.backends import sentence_transformers as backend
from catena.effects import Rate, Reranker, Services, ask, run
from catena.model import ParameterError, ServiceError

QUERY = "which fuse does the pump need"
TEXTS = ("the pump needs a fuse", "tighten the screws", "a fuse")
WORDS = ("the", "a", "pump", "needs", "need", "fuse", "which", "does", "tighten", "screws", "cover", "water")
LIMIT = 48  # tokens of a pair
LONG = " ".join(WORDS[index % 7 + (index % 5)] for index in range(300))


def tiny(folder: Path, labels: int = 1) -> str:
    """Write a BERT of two layers with random weights and a vocabulary of a few words and letters."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    letters = [sign for letter in "abcdefghijklmnopqrstuvwxyz0123456789" for sign in (letter, f"##{letter}")]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *(set(letters) - set(WORDS))]
    vocabulary[5 + len(WORDS) :] = sorted(vocabulary[5 + len(WORDS) :])
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=LIMIT)
    torch.manual_seed(7)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LIMIT,
        num_labels=labels,
        initializer_range=0.5,  # so that random weights tell texts apart
    )
    transformers.BertForSequenceClassification(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def model(path):
    from sentence_transformers import CrossEncoder

    return CrossEncoder(path, device="cpu")


@pytest.fixture(scope="module")
def reranker(model):
    return CrossEncoderReranker(model, logits=True)


@pytest.mark.torch
def test_a_short_text_has_the_logit_the_model_gives(model, reranker):
    import torch

    wanted = model.predict([(QUERY, text) for text in TEXTS], activation_fn=torch.nn.Identity())
    assert reranker.score(QUERY, TEXTS) == pytest.approx(wanted, abs=1e-5)
    assert len(set(reranker.score(QUERY, TEXTS))) == 3


@pytest.mark.torch
def test_by_default_a_score_is_the_sigmoid_of_the_logit(model, reranker):
    logits = np.array(reranker.score(QUERY, TEXTS))
    assert CrossEncoderReranker(model).score(QUERY, TEXTS) == pytest.approx(1 / (1 + np.exp(-logits)), abs=1e-6)


@pytest.mark.torch
def test_a_long_text_scores_as_its_best_window_and_nothing_of_it_is_cut_off(model, reranker):
    windows = backend.fitting_windows(model.tokenizer, LONG, reranker._room(QUERY))
    assert "".join(windows) == LONG
    assert len(windows) > 5
    lengths = [len(model.tokenizer(QUERY, window)["input_ids"]) for window in windows]
    assert 0.9 * LIMIT < max(lengths) <= LIMIT
    alone = reranker.score(QUERY, windows)
    assert reranker.score(QUERY, [LONG]) == pytest.approx([max(alone)], abs=1e-5)
    assert len(set(alone)) > 3


@pytest.mark.torch
def test_order_and_empty_texts(reranker):
    forward = reranker.score(QUERY, (*TEXTS, "", LONG))
    assert len(forward) == 5
    assert np.isfinite(forward).all()
    assert reranker.score(QUERY, (LONG, "", *TEXTS[::-1])) == pytest.approx(forward[::-1], abs=1e-5)
    assert reranker.score(QUERY, ()) == ()


@pytest.mark.torch
def test_a_question_that_leaves_no_room_is_refused(reranker):
    with pytest.raises(ParameterError, match="at most 36 of 48"):
        reranker.score("pump " * 40, TEXTS)


@pytest.mark.torch
def test_the_callers_model_is_left_as_it_was(model, reranker):
    own = model.activation_fn
    reranker.score(QUERY, TEXTS)
    assert model.activation_fn is own


@pytest.mark.torch
def test_threads_may_share_it(reranker):
    wanted, got = reranker.score(QUERY, (*TEXTS, LONG)), []
    threads = [threading.Thread(target=lambda: got.append(reranker.score(QUERY, (*TEXTS, LONG)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [pytest.approx(wanted, abs=1e-5)] * 4


@pytest.mark.torch
def test_it_is_a_reranker_with_a_name_and_answers_the_driver(path, reranker):
    assert isinstance(reranker, Reranker)
    by_path = CrossEncoderReranker(path)
    assert by_path.identity.startswith("sentence-transformers/tiny@")
    assert reranker.identity.endswith(";logits")
    assert reranker.identity.split("@")[1] == by_path.identity.split("@")[1] + ";logits"
    (scores,) = run(ask([Rate(query=QUERY, texts=TEXTS)]), Services(reranker=by_path))
    assert scores == pytest.approx(by_path.score(QUERY, TEXTS))


@pytest.mark.torch
def test_a_model_with_several_labels_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="labels of the model must be 1"):
        CrossEncoderReranker(tiny(tmp_path / "three", labels=3))


@pytest.mark.torch
def test_a_model_that_fails_is_our_error(reranker, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(reranker, "_model", SimpleNamespace(**vars(reranker._model)), raising=True)
    monkeypatch.setattr(backend, "fitting_windows", lambda *_: ["text"])
    monkeypatch.setattr(reranker, "_room", lambda _: 10)
    reranker._model.tokenizer, reranker._model.activation_fn, reranker._model.predict = None, None, fail
    with pytest.raises(ServiceError, match="scoring 2 texts failed: RuntimeError"):
        reranker.score(QUERY, TEXTS[:2])

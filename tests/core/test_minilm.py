"""The embedder of catena-minilm: what its vectors are, that nothing but the text decides them, and how it fails."""

import asyncio
import pickle
import shutil
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from catena.backends import SentenceTransformerEmbedder, fitting_windows
from catena.effects import Embedder
from catena.model import ParameterError, ServiceError
from catena.testing import EmbedderSubject, report_of_embedder
from catena_minilm import MiniLMEmbedder, embedder

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXTS = (
    "The pump starts when the water level falls.", "", "heart attack", "a\ud800b \u5317\u4eac [SEP]", "x" * 5_000,
    "Paragraph by paragraph, the maintenance of the pump is described. " * 60,
)  # fmt: skip


@pytest.fixture(scope="module")
def minilm() -> MiniLMEmbedder:
    return MiniLMEmbedder(threads=1)


def test_the_vectors_are_those_of_the_first_release(minilm: MiniLMEmbedder) -> None:
    vector = minilm.embed_query(TEXTS[0])
    assert minilm.identity == "catena-minilm-int8/1:2a8ab52a"
    assert vector.shape == (minilm.dim,) == (384,)
    # the original model: [-0.0667, -0.0202, -0.0102, -0.0177], 0.749; processors of another kind round otherwise
    assert vector[:4] == pytest.approx([-0.0658, -0.0183, -0.0151, -0.0151], abs=1.5e-2)
    assert vector @ minilm.embed_query("When does the pump start?") == pytest.approx(0.756, abs=1.5e-2)


def test_a_vector_depends_on_its_text_alone_to_the_last_bit(minilm: MiniLMEmbedder) -> None:
    order = Random(1).sample(range(len(TEXTS)), len(TEXTS))
    together, shuffled = minilm.embed_documents(TEXTS), minilm.embed_documents([TEXTS[place] for place in order])
    assert np.array_equal(together[order], shuffled)
    assert np.array_equal(together, MiniLMEmbedder(threads=2).embed_documents(TEXTS))
    assert np.array_equal(together[0], minilm.embed_query(TEXTS[0]))
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)


def test_a_long_text_is_the_mean_of_windows_that_tile_it(minilm: MiniLMEmbedder) -> None:
    windows = fitting_windows(minilm._encoded, TEXTS[-1], 254)
    assert "".join(windows) == TEXTS[-1]
    assert 2 < len(windows) < 5
    pieces = [len(minilm._tokenizer.encode(window).ids) for window in windows]  # a short rest says little
    total = np.sum([n * minilm.embed_query(w) for n, w in zip(pieces, windows, strict=True)], axis=0)
    assert minilm.embed_query(TEXTS[-1]) == pytest.approx(total / np.linalg.norm(total), abs=1e-6)


def test_it_keeps_what_the_suite_for_embedders_asks(minilm: MiniLMEmbedder) -> None:
    def embed(texts: list[str], made: MiniLMEmbedder = minilm) -> list[list[float]]:
        return made.embed_documents(texts).tolist()

    def embed_query(text: str) -> list[float]:
        return minilm.embed_query(text).tolist()

    subject = EmbedderSubject(
        name="MiniLMEmbedder", embed=embed, embed_query=embed_query, aembed=partial(asyncio.to_thread, embed),
        aembed_query=partial(asyncio.to_thread, embed_query),
        copies={"pickled": partial(embed, made=pickle.loads(pickle.dumps(minilm)))},
    )  # fmt: skip
    assert report_of_embedder(subject).problems == ()
    assert isinstance(minilm, Embedder)
    assert minilm.embed_documents([]).shape == (0, 384)


def test_what_is_wrong_is_said(minilm: MiniLMEmbedder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shipped = embedder.SHIPPED
    with pytest.raises(ParameterError, match=r"threads must be 0, .* got -1"):
        MiniLMEmbedder(threads=-1)
    with pytest.raises(ServiceError, match="embedding a text of 3 word pieces failed"):
        minilm._vector([0, 1, 1_000_000])
    monkeypatch.setattr(embedder, "SHIPPED", tmp_path)
    for _ in ("nothing is there", "no network is there"):
        with pytest.raises(ServiceError, match=r"cannot be read .*reinstall catena-minilm"):
            MiniLMEmbedder()
        for name in ("metadata.json", "tokenizer.json"):
            shutil.copy(shipped / name, tmp_path)
        (tmp_path / "model.onnx").write_bytes(b"no network")


@pytest.mark.torch
def test_it_is_the_original_model_but_for_rounding(minilm: MiniLMEmbedder, sentence_model: Any) -> None:
    original = SentenceTransformerEmbedder(sentence_model)
    pages = [page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md"))]
    texts = [page[at : at + 700] for page in pages for at in range(0, min(len(page), 7_000), 700)]
    texts += [TEXTS[0], *TEXTS[-2:]]
    ours, theirs = minilm.embed_documents(texts), original.embed_documents(texts)
    cosines = (ours * theirs).sum(axis=1)
    assert (cosines.mean() > 0.995, cosines.min() > 0.985) == (True, True), (cosines.mean(), cosines.min())
    nearest = [np.argsort(-(rows @ rows.T), axis=1)[:, :11] for rows in (ours, theirs)]  # first the text itself
    shared = np.mean([len({*one} & {*other}) - 1 for one, other in zip(*nearest, strict=True)]) / 10
    assert shared > 0.9

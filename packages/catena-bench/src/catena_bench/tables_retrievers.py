"""The retrievers of `catena-bench tables`, by name: the columns of the paper's Table 2, as far as they are here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import PurePath

import numpy as np

from catena.backends import TfidfScorer
from catena.enrichment import StaticEmbedder
from catena.model import MissingExtraError, ParameterError
from catena_bench.views_retrievers import MINILM, Bm25, Dense, Retriever, Scores, minilm, sentence_transformer

USUAL = ("bm25", "tfidf", "static")
_EXTRA = "sentence-transformers"


class Tfidf:
    """Cosine of TF-IDF vectors with the statistics of the texts that are searched; needs scikit-learn."""

    name = "tfidf"

    def __init__(self) -> None:
        TfidfScorer(())  # a missing package is told before any work

    def scores(self, texts: Sequence[str], questions: Sequence[str], *, truncated: bool) -> Scores:
        """Return shape (questions, texts), -inf where no word asked stands in a text."""
        scorer = TfidfScorer(texts)
        return np.stack([scorer.score(question) for question in questions])


def _static() -> Retriever:
    return Dense("static", StaticEmbedder())


def _minilm() -> Retriever:
    if find_spec("sentence_transformers") is None:
        raise MissingExtraError("sentence-transformers", _EXTRA)
    if find_spec(MINILM) is None:
        raise ParameterError("retriever 'minilm'", MINILM, "a package that is installed, or --embedder PATH instead")
    return minilm()


KNOWN: Mapping[str, Callable[[], Retriever]] = {
    "bm25": Bm25,
    "tfidf": Tfidf,
    "static": _static,
    "minilm": _minilm,
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
    if find_spec("sentence_transformers") is None:
        raise MissingExtraError("sentence-transformers", _EXTRA)
    name = PurePath(embedder).name.replace(".", "_") or "embedder"
    return (*found, sentence_transformer(name if name not in KNOWN else f"{name}_given", embedder))


def embedder_of(retrievers: Sequence[Retriever]) -> Dense:
    """Return the first of them that embeds, to cluster by; the shipped embedding where none does."""
    return next((each for each in retrievers if isinstance(each, Dense)), Dense("static", StaticEmbedder()))

"""What a walk begins with: the usual BM25, the cosine of an embedder, and both fused by rank, over the whole corpus.

| ranking | score |
|---|---|
| bm25 | the package bm25s with its defaults (Lucene, k1 = 1.5, b = 0.75), English stop words, the Snowball stemmer |
| dense | cosine of the question's and the passage's vector |
| hybrid | `sum 1 / (60 + rank)` over the first hundred of both |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from catena.model import Chunk, Hit, Provenance, Ranking, Scale
from catena.retrieval import reciprocal_rank_fusion
from catena_bench.graph_data import Split
from catena_bench.views_ranking import DEPTH, best_first
from catena_bench.views_retrievers import ReferenceBm25, Scores

BM25, DENSE, HYBRID = "bm25", "dense", "hybrid"
_TOGETHER = 100  # questions: so many rows of scores of the whole corpus are held at a time

Rankings: TypeAlias = "tuple[Ranking, ...]"
"""One per question, in their order."""


def first_rankings(
    split: Split, vectors: NDArray[np.float32], asked: NDArray[np.float32], tell: Callable[[str], None]
) -> dict[str, Rankings]:
    """Return the three rankings of every question, at most a hundred chunks each, ties by chunk id.

    Hits say where the routes "lexical" (BM25) and "dense" had them, as those of a library do.

    Args:
        split: the corpus and the questions.
        vectors: of the chunks, shape (chunks, dim), of unit length.
        asked: of the questions, shape (questions, dim).
        tell: is told how far the ranking is.
    """
    tell("ranking by words")
    scored = ReferenceBm25().fitted([chunk.text for chunk in split.chunks])
    texts = [question.text for question in split.questions]
    words = _ranked("lexical", split.chunks, (scored(texts[at : at + _TOGETHER]) for at in _starts(texts)))
    tell("ranking by vectors")
    cosines = ((asked[at : at + _TOGETHER] @ vectors.T).astype(np.float64) for at in _starts(texts))
    near = _ranked("dense", split.chunks, cosines)
    fused = (
        reciprocal_rank_fusion({"lexical": one, "dense": other}, top=DEPTH)
        for one, other in zip(words, near, strict=True)
    )
    return {BM25: words, DENSE: near, HYBRID: tuple(fused)}


def _starts(texts: Sequence[str]) -> range:
    return range(0, len(texts), _TOGETHER)


def _ranked(route: str, chunks: Sequence[Chunk], batches: Iterator[Scores]) -> Rankings:
    return tuple(_ranking(route, chunks, row) for scores in batches for row in scores)


def _ranking(route: str, chunks: Sequence[Chunk], row: NDArray[np.float64]) -> Ranking:
    found = enumerate(best_first(row), start=1)
    hits = (
        Hit(chunks[at], float(row[at]), (Provenance(route=route, rank=rank, score=float(row[at])),))
        for rank, at in found
    )
    return Ranking(tuple(hits), Scale.SIMILARITY)

"""From scores of texts to rankings of chunks: the best text of each chunk, alone or fused over two retrievers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from catena.model import Chunk, Hit, Ranking, Scale
from catena.retrieval import SECTION_FUSION, ScoreFusion
from catena_bench.views_retrievers import Scores
from catena_bench.views_units import Units

DEPTH = 100  # chunks of a ranking: more than any cutoff or budget of the figures reads
RRF = 60.0
FUSION = SECTION_FUSION


def best_text(scores: Scores, units: Units) -> Scores:
    """Return shape (questions, chunks): each chunk scores as its best text, one without a text as nothing (-inf)."""
    best = np.full((len(scores), len(units.chunks)), -np.inf)
    np.maximum.at(best.T, np.array(units.owner, np.intp), scores.T)
    return best


def by_score(lexical: Scores, cosines: Scores, passages: Scores | None = None, how: ScoreFusion = FUSION) -> Scores:
    """Return the library's fusion by score of whole rankings, without critical terms.

    `alpha (1 + cos) / 2 + (1 - alpha) r`, r the BM25 over the best BM25 of the question, of whole texts or, in the
    share that the fusion says, of best passages: as `catena.retrieval.fusion.ScoreFusion`.
    """
    words = _of_best(lexical)
    if passages is not None:
        words = (1 - how.passages) * words + how.passages * _of_best(passages)
    near = np.where(np.isfinite(cosines), (1 + cosines) / 2, 0.0)
    return how.alpha * near + (1 - how.alpha) * words


def _of_best(lexical: Scores) -> Scores:
    words = np.maximum(np.where(np.isfinite(lexical), lexical, 0.0), 0.0)
    best = words.max(axis=1, keepdims=True, initial=0.0)
    return words / np.where(best > 0, best, 1.0)


def by_rank(*several: Scores) -> Scores:
    """Return reciprocal-rank fusion of the first hundred of each: `sum 1 / (60 + rank)`, ranks from 1."""
    fused = np.zeros_like(several[0])
    for scores in several:
        for row, order in enumerate(map(best_first, scores)):
            fused[row, order] += 1 / (RRF + np.arange(1, len(order) + 1))
    return np.where(fused > 0, fused, -np.inf)


def best_first(row: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the numbers of the best chunks of one question, ties in reading order, nothing that was not found."""
    order = np.argsort(-row, kind="stable")[:DEPTH]
    return order[np.isfinite(row[order])]


def ranking(row: NDArray[np.float64], chunks: Sequence[Chunk]) -> Ranking:
    """Return the best chunks of one question as the library's rankings are."""
    return Ranking(tuple(Hit(chunks[at], float(row[at])) for at in best_first(row)), Scale.SIMILARITY)

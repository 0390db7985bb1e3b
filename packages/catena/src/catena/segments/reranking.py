"""Rerank by scores of question and text together, and turn scores into probabilities for segment extraction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from catena.effects.steps import Failed, Rate, Step
from catena.model import Chunk, Degraded, Hit, Provenance, Ranking, Scale
from catena.model.errors import ParameterError, ScaleError, ServiceError
from catena.segments.calibration import Calibration, Constant

OnFailure: TypeAlias = Literal["raise", "rank"]

ROUTE = "rerank"  # name in the provenance
BATCH = 100  # texts per request; requests of one step run side by side

_ROUNDING = 1e-9  # by which a later probability may exceed an earlier one before the rule is said to break the order


def chunk_text(chunk: Chunk) -> str:
    """Return the chunk's own text, without header."""
    return chunk.text


def rerank(
    query: str,
    ranking: Ranking,
    *,
    calibration: Calibration,
    text_of: Callable[[Chunk], str] = chunk_text,
    k: int | None = None,
    batch: int = BATCH,
    on_failure: OnFailure = "raise",
) -> Step[Ranking]:
    """Order a ranking by a reranker's scores, and turn these into P(relevant | query, chunk).

    Hits are ordered by raw score, ties by their old rank; `p = calibration(raw)`. Asks `Rate`; nothing
    where there are no hits.

    Args:
        query: the question.
        ranking: of any scale; all of its hits are scored.
        calibration: of this reranker: `COHERE`, `VOYAGE`, a fitted one, or `Constant()` to believe only the order.
        text_of: what the reranker reads of a chunk; with a header above the text it knows the document.
        k: most hits to return; None returns all.
        batch: most texts per request, >= 1.
        on_failure: "raise" raises what the reranker raised. "rank" then keeps the old order, as `by_rank` does, and
            says so in `degraded`; errors of the caller's own are raised all the same.

    Returns:
        The hits in `Scale.PROBABILITY`, each with its old provenance and one of the route "rerank": its new rank, and
        the raw score.

    Raises:
        ParameterError: an argument is out of its domain, or the calibration does not keep the order.
        ServiceError: the reranker failed.
        MissingServiceError: there is none.
    """
    if k is not None and (not isinstance(k, int) or k < 0):
        raise ParameterError("k", k, "an integer >= 0, or None")
    if not isinstance(batch, int) or batch < 1:
        raise ParameterError("batch", batch, "an integer >= 1")
    if on_failure not in get_args(OnFailure):
        raise ParameterError("on_failure", on_failure, "'raise' or 'rank'")
    if not ranking.hits:
        return replace(ranking, scale=Scale.PROBABILITY)
    texts = tuple(text_of(hit.chunk) for hit in ranking.hits)
    replies = yield [Rate(query=query, texts=texts[at : at + batch]) for at in range(0, len(texts), batch)]
    for reply in replies:
        if isinstance(reply, Failed):
            if on_failure == "raise" or not isinstance(reply.error, ServiceError):
                raise reply.error
            kept = by_rank(ranking)
            lost = Degraded("reranker", f"{reply.error}; the old order, every probability {Constant().value:g}")
            return _first(replace(kept, degraded=(*kept.degraded, lost)), k)
    scores = [float(score) for reply in replies for score in reply]
    order = sorted(range(len(scores)), key=lambda place: -scores[place])  # stable: ties keep their old rank
    probabilities = _probabilities([scores[place] for place in order], calibration)
    hits = (
        Hit(
            ranking.hits[place].chunk,
            probability,
            (*ranking.hits[place].provenance, Provenance(route=ROUTE, rank=rank, score=scores[place])),
        )
        for rank, (place, probability) in enumerate(zip(order, probabilities, strict=True), start=1)
    )
    return _first(replace(ranking, hits=tuple(hits), scale=Scale.PROBABILITY), k)


def calibrated(ranking: Ranking, calibration: Calibration) -> Ranking:
    """Turn a ranking's own scores into probabilities, without a reranker; order and provenance stay.

    For cosines of a vector store, or fused scores: with a calibration that was fitted to such scores.

    Raises:
        ScaleError: the scores are probabilities already, values of segments, or say no more than the order, for which
            there is `by_rank`.
        ParameterError: the calibration does not keep the order, or the hits are not best first.
    """
    if ranking.scale not in (Scale.SIMILARITY, Scale.NORMALIZED):
        raise ScaleError("calibration", "similarity or normalized", ranking.scale.value)
    probabilities = _probabilities([hit.score for hit in ranking.hits], calibration)
    hits = tuple(
        Hit(hit.chunk, probability, hit.provenance)
        for hit, probability in zip(ranking.hits, probabilities, strict=True)
    )
    return replace(ranking, hits=hits, scale=Scale.PROBABILITY)


def by_rank(ranking: Ranking, value: float = Constant().value) -> Ranking:
    """Give every hit the same probability, so that only its rank counts in what follows.

    Args:
        ranking: of any scale.
        value: in [0, 1].
    """
    same = float(Constant(value)(0.0))
    hits = tuple(Hit(hit.chunk, same, hit.provenance) for hit in ranking.hits)
    return replace(ranking, hits=hits, scale=Scale.PROBABILITY)


def probabilities(ranking: Ranking, calibration: Calibration | None) -> Ranking:
    """Return a ranking in `Scale.PROBABILITY`: its own probabilities, or what its scores say of relevance.

    Where only the order means anything every probability is the same: that of the calibration where it is a
    `Constant`, else 0.8; see `by_rank`.

    Args:
        ranking: of any scale but that of segments.
        calibration: of its scores; not needed where they are probabilities, or missing.

    Raises:
        ParameterError: there are scores and no calibration.
        ScaleError: the scores are values of segments.
    """
    if ranking.scale is Scale.PROBABILITY or not ranking.hits:
        return replace(ranking, scale=Scale.PROBABILITY)
    if ranking.scale is Scale.RANK:
        return by_rank(ranking, calibration.value if isinstance(calibration, Constant) else Constant().value)
    if calibration is None:
        allowed = (
            "given, because the scores are no probabilities: a rule for such scores, as COHERE or a fitted one, or "
            "Constant() to believe their order alone; or let a reranker with a calibration score before"
        )
        raise ParameterError("calibration", None, allowed)
    return calibrated(ranking, calibration)


def _first(ranking: Ranking, k: int | None) -> Ranking:
    return ranking if k is None else ranking.top(k)


def _probabilities(scores: Sequence[float], calibration: Calibration) -> list[float]:
    """Return the probabilities of scores that fall, never rising: what rounding lifts is pressed down."""
    if not scores:
        return []
    found = np.asarray(calibration(np.asarray(scores, dtype=np.float64)), dtype=np.float64)
    if found.shape != (len(scores),) or not np.all((found >= 0.0) & (found <= 1.0)):
        raise ParameterError("calibration", _name(calibration), "a rule that gives one number in [0, 1] per score")
    falling = np.minimum.accumulate(found)
    if np.any(found - falling > _ROUNDING):
        raise ParameterError("calibration", _name(calibration), "a rule that keeps the order, on hits best first")
    return [float(probability) for probability in falling]


def _name(calibration: object) -> str:
    return str(getattr(calibration, "identity", type(calibration).__name__))

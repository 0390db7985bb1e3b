"""Several rankings of one query into one: by score (HiQA's formula) or by rank alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from numbers import Real
from typing import Annotated

from annotated_types import Ge, Gt, Le

from catena.model import Degraded, Hit, Provenance, Ranking, Scale
from catena.model.errors import ParameterError, ScaleError
from catena.model.options import check_options
from catena.retrieval.normalization import Bounds, Normalizer, by_maximum, half_cosine, log_count

_LARGEST = 1e100  # of a number that is multiplied with scores


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFusion:
    """HiQA's formula: `score = alpha * v + (1 - alpha) * r + beta * ln(1 + |C|)`.

    v is the dense route's cosine as `(1 + cos) / 2`, r the lexical route's BM25 over the best BM25 of the
    query, and |C| the weighted number of the query's critical terms that the chunk carries. Of long chunks that
    are found by their passages, too, `r = (1 - passages) * r_whole + passages * r_best_passage`.

    Attributes:
        alpha: share of the dense route against the lexical one, in [0, 1].
        beta: weight of the critical terms, >= 0.
        passages: share of the best passage in r, in [0, 1]; of the route "passages", where it is asked.
        dense, lexical, keyword: how raw scores become v, r and the last part.

    Source: HiQA (arXiv 2402.01767), formula 2; the defaults are measured in docs/decisions/0008-ranking.md.
    """

    alpha: Annotated[float, Ge(0), Le(1)] = 0.65
    beta: Annotated[float, Ge(0), Le(_LARGEST)] = 0.3
    passages: Annotated[float, Ge(0), Le(1)] = 0.0
    dense: Normalizer = half_cosine
    lexical: Normalizer = by_maximum
    keyword: Normalizer = log_count

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def parts(self) -> Mapping[str, tuple[float, Normalizer]]:
        """Return route -> (weight, normaliser)."""
        by_words = 1.0 - self.alpha
        return {
            "dense": (self.alpha, self.dense),
            "lexical": (by_words * (1.0 - self.passages), self.lexical),
            "passages": (by_words * self.passages, self.lexical),
            "keyword": (self.beta, self.keyword),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFusion:
    """Reciprocal-rank fusion: `score = sum_i weight_i / (k + rank_i)`, ranks from 1; any routes.

    Attributes:
        k: damping, in ranks; the larger, the less the first ranks stand out.
        weights: per route, >= 0; a route that is not named has weight 1.
    """

    k: Annotated[float, Gt(0), Le(_LARGEST)] = 60.0
    weights: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        check_options(self)
        for route, weight in (self.weights or {}).items():
            if not isinstance(weight, Real) or not 0 <= weight <= _LARGEST:
                raise ParameterError(f"weights[{route!r}]", weight, "a finite number >= 0")


def check_scores(rankings: Mapping[str, Ranking]) -> None:
    """Raise `ScaleError` where of a route only the order means anything: its scores add up with no other's."""
    for route in sorted(rankings):
        if rankings[route].scale is Scale.RANK:
            raise ScaleError(f"ScoreFusion of route {route!r} (RankFusion takes any)", "similarity", "rank")


def weighted_sum(
    rankings: Mapping[str, Ranking],
    parts: Mapping[str, tuple[float, Normalizer]],
    *,
    bounds: Mapping[str, Bounds] | None = None,
    k: int | None = None,
) -> Ranking:
    """Fuse rankings by score: `score(c) = sum_i weight_i * normalise_i(score_i(c))`.

    Args:
        rankings: per route, with scores in the route's own unit (`Scale.SIMILARITY`).
        parts: per route, its weight (>= 0) and how its scores are normalised.
        bounds: per route, the bounds to normalise by; those of the ranking itself where absent.
        k: how many chunks to return; all that were seen when None.

    Returns:
        The chunks seen, best first, in `Scale.NORMALIZED`; a chunk that a route did not return gets
        nothing from it. Provenance of all routes is kept.

    Raises:
        ParameterError: a route has no part, a weight is negative, or a score is infinite.
    """
    unknown = sorted(set(rankings) - set(parts))
    if unknown:
        raise ParameterError("routes", unknown, f"among {sorted(parts)}; RankFusion takes any route")
    shares: dict[str, list[float]] = {}
    for route in sorted(rankings):
        weight, normalise = parts[route]
        if not weight >= 0:
            raise ParameterError(f"weight of {route}", weight, "a number >= 0")
        span = (bounds or {}).get(route) or Bounds.of(rankings[route])
        for hit in rankings[route].hits:
            shares.setdefault(hit.chunk.id, []).append(weight * normalise(hit.score, span))
    return _merged(rankings, shares, Scale.NORMALIZED, k)


def reciprocal_rank_fusion(
    rankings: Mapping[str, Ranking],
    *,
    weights: Mapping[str, float] | None = None,
    k: float = 60.0,
    top: int | None = None,
) -> Ranking:
    """Fuse rankings by rank alone: `score(c) = sum_i weights[i] / (k + rank_i(c))`, ranks from 1.

    Args:
        rankings: per route, of any lengths and scales.
        weights: per route, >= 0; 1 where absent.
        k: damping, in ranks.
        top: how many chunks to return; all that were seen when None.

    Returns:
        The chunks seen, best first, in `Scale.RANK`.

    Raises:
        ParameterError: a weight is negative, or k is not positive.

    Source: Cormack, Clarke and Buettcher, SIGIR 2009, doi:10.1145/1571941.1572114.
    """
    weights = RankFusion(k=k, weights=weights).weights or {}
    shares: dict[str, list[float]] = {}
    for route in sorted(rankings):
        for rank, hit in enumerate(rankings[route].hits, start=1):
            shares.setdefault(hit.chunk.id, []).append(weights.get(route, 1.0) / (k + rank))
    return _merged(rankings, shares, Scale.RANK, top)


def _merged(
    rankings: Mapping[str, Ranking], shares: Mapping[str, Sequence[float]], scale: Scale, k: int | None
) -> Ranking:
    """Return one hit per chunk with the sum of its shares and the provenance of every route: the k best.

    Routes come in the order of their names, also in the sums: floats do not add up the same in every order.
    """
    scores = {chunk_id: sum(shares[chunk_id]) for chunk_id in shares}
    best = nsmallest(len(scores) if k is None else k, scores, key=lambda chunk_id: (-scores[chunk_id], chunk_id))
    found: dict[str, list[Hit]] = {chunk_id: [] for chunk_id in best}
    degraded: list[Degraded] = []
    for route in sorted(rankings):
        degraded.extend(rankings[route].degraded)
        for rank, hit in enumerate(rankings[route].hits, start=1):
            if hit.chunk.id in found:
                known = hit if hit.provenance else replace(hit, provenance=(_way(route, rank, hit),))
                found[hit.chunk.id].append(known)
    merged = (
        Hit(hits[0].chunk, scores[chunk_id], tuple(way for hit in hits for way in hit.provenance))
        for chunk_id, hits in found.items()
    )
    return Ranking(tuple(merged), scale, tuple(degraded))


def _way(route: str, rank: int, hit: Hit) -> Provenance:
    return Provenance(route=route, rank=rank, score=hit.score)

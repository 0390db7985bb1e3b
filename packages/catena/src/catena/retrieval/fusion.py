"""Fuse several rankings of one query: by score (HiQA's formula), by rank, or in turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from math import isfinite, log1p
from numbers import Real
from typing import Annotated, ClassVar, TypeAlias

from annotated_types import Ge, Gt, Le

from catena.model import Chunk, Degraded, Hit, ParameterError, Provenance, Ranking, Scale, ScaleError
from catena.model.options import Doc, check_options


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreBounds:
    """The lowest and the highest raw score that one route gave for one query."""

    low: float
    high: float

    @classmethod
    def of(cls, ranking: Ranking) -> ScoreBounds:
        """Return the bounds of a ranking; both 0 when it is empty.

        Raises:
            ParameterError: a score is infinite.
        """
        scores = [hit.score for hit in ranking.hits]
        if not all(map(isfinite, scores)):
            raise ParameterError("scores", [s for s in scores if not isfinite(s)], "finite")
        return cls(low=min(scores, default=0.0), high=max(scores, default=0.0))


Normalizer: TypeAlias = Callable[[float, ScoreBounds], float]


def by_maximum(score: float, bounds: ScoreBounds) -> float:
    """Return `score / high`, in [0, 1] for scores >= 0; 0 when the best score is not positive.

    The best hit gets 1 and a chunk that shares no word 0, however long the query is: unlike min-max, it
    does not depend on how deep the ranking goes.
    """
    return max(score, 0.0) / bounds.high if bounds.high > 0 else 0.0


def min_max(score: float, bounds: ScoreBounds) -> float:
    """Return `(score - low) / (high - low)`, clipped to [0, 1]; a tie of all gives 1 to each."""
    spread = bounds.high - bounds.low
    if spread <= 0:
        return 1.0 if score >= bounds.high else 0.0
    return min(max((score - bounds.low) / spread, 0.0), 1.0)


def half_cosine(score: float, bounds: ScoreBounds) -> float:
    """Return `(1 + score) / 2` for a cosine in [-1, 1]: 0 for opposite vectors, 1 for equal ones."""
    return min(max((1.0 + score) / 2.0, 0.0), 1.0)


def log_count(score: float, bounds: ScoreBounds) -> float:
    """Return `ln(1 + score)` for a count of matched terms."""
    return log1p(max(score, 0.0))


_LARGEST = 1e100  # of a number that is multiplied with scores


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFusion:
    """Sum of scores: `score = alpha * v + (1 - alpha) * r + beta * ln(1 + |C|)`.

    v is the dense route's score and r the lexical route's, each between 0 for the worst candidate of the question and
    1 for the best, and |C| the weighted number of the query's critical terms that the chunk carries. Of long chunks
    that are found by their passages, too, `r = (1 - passages) * r_whole + passages * r_best_passage`.

    Attributes:
        alpha: share of the dense route against the lexical one, in [0, 1]; None lets each question decide, by
            `dense_share`.
        beta: weight of the critical terms, >= 0.
        passages: share of the best passage in r, in [0, 1]; of the route "passages", where it is asked.
        dense, lexical, keyword: how raw scores become v, r and the last part.
        others: routes of your own, by name: a weight >= 0, and how raw scores become numbers that may be added to the
            formula, `others={"mine": (0.3, by_maximum)}`.

    Source: the form is that of HiQA (arXiv 2402.01767), formula 2, which `hiqa` gives as it stands; the defaults
    are measured in docs/decisions/0008-ranking.md.
    """

    alpha: Annotated[
        float | None, Ge(0), Le(1), Doc("Share of the dense route against the lexical one; else as far as they agree")
    ] = None
    beta: Annotated[float, Ge(0), Le(_LARGEST), Doc("Weight of the critical terms")] = 0.1
    passages: Annotated[float, Ge(0), Le(1)] = 0.0
    dense: Normalizer = min_max
    lexical: Normalizer = min_max
    keyword: Normalizer = log_count
    others: Mapping[str, tuple[float, Normalizer]] | None = None
    scale: ClassVar[Scale] = Scale.NORMALIZED

    @classmethod
    def hiqa(cls, *, alpha: float = 0.65, beta: float = 0.3) -> ScoreFusion:
        """Return HiQA's own formula, with fixed weights: v is `(1 + cos) / 2`, r BM25 over the best of the query."""
        return cls(alpha=alpha, beta=beta, dense=half_cosine, lexical=by_maximum)

    def __post_init__(self) -> None:
        check_options(self)
        for route, part in (self.others or {}).items():
            name = f"others[{route!r}]"
            if route in ("dense", "lexical", "passages", "keyword"):
                allowed = "a route that is not in the formula already: use alpha, beta, passages"
                raise ParameterError(name, part, allowed)
            if not isinstance(part, tuple) or len(part) != 2 or not callable(part[1]):
                raise ParameterError(name, part, "a weight and a function, as (0.3, by_maximum)")
            _check_weight(name, part[0])

    def parts(self, rankings: Mapping[str, Ranking] | None = None) -> Mapping[str, tuple[float, Normalizer]]:
        """Return route -> (weight, normaliser), for a question of these rankings."""
        alpha = dense_share(rankings or {}) if self.alpha is None else self.alpha
        by_words = 1.0 - alpha
        return {
            "dense": (alpha, self.dense),
            "lexical": (by_words * (1.0 - self.passages), self.lexical),
            "passages": (by_words * self.passages, self.lexical),
            "keyword": (self.beta, self.keyword),
            **(self.others or {}),
        }


_FIRST = 10  # hits of each route that are compared


def dense_share(rankings: Mapping[str, Ranking]) -> float:
    """Return how much the dense route counts against the lexical one for a question: `o / (1.5 + o)`, in [0, .4].

    o is the share of its first ten hits that are among the lexical route's first ten. An embedder that cannot tell
    these texts apart, as one that does not know their language, finds others than the words do, and counts for
    nothing; no label is needed. Where no word is found, meaning decides alone: 1.

    Args:
        rankings: per route, the best first.
    """
    words, meaning = (rankings[name].hits[:_FIRST] if name in rankings else () for name in ("lexical", "dense"))
    if not words or not meaning:
        return 0.0 if words else 1.0
    by_words = {hit.chunk.id for hit in words}
    agreed = sum(hit.chunk.id in by_words for hit in meaning) / len(meaning)
    return agreed / (1.5 + agreed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFusion:
    """Reciprocal-rank fusion: `score = sum_i weight_i / (k + rank_i)`, ranks from 1; any routes.

    Attributes:
        k: damping, in ranks; the larger, the less the first ranks stand out.
        weights: per route, >= 0; a route that is not named has weight 1. None lets each question decide what the
            dense route weighs, `s / (1 - s)` with s of `dense_share`; `RankFusion(k=60, weights={})` is Cormack's.
    """

    k: Annotated[float, Gt(0), Le(_LARGEST)] = 10.0
    weights: Mapping[str, float] | None = None
    scale: ClassVar[Scale] = Scale.RANK

    def __post_init__(self) -> None:
        check_options(self)
        for route, weight in (self.weights or {}).items():
            _check_weight(f"weights[{route!r}]", weight)


def _check_weight(name: str, weight: float) -> None:
    if not isinstance(weight, Real) or not 0 <= weight <= _LARGEST:
        raise ParameterError(name, weight, "a finite number >= 0")


Fusion: TypeAlias = ScoreFusion | RankFusion
"""The rule by which the routes' rankings become one; its `scale` is that of the scores."""


def fuse(rankings: Mapping[str, Ranking], fusion: Fusion, *, k: int) -> Ranking:
    """Fuse the rankings of routes by a rule: `weighted_sum` or `reciprocal_rank_fusion`; the k best.

    Args:
        rankings: per route.
        fusion: the rule.
        k: how many chunks to return.

    Raises:
        ScaleError: `ScoreFusion` is asked for a route of which only the order means anything.
        ParameterError: as of `weighted_sum`.
    """
    if isinstance(fusion, RankFusion):
        weights = fusion.weights
        if weights is None:
            share = dense_share(rankings)
            weights = {"dense": share / (1.0 - share)} if share < 1.0 else {}
        return reciprocal_rank_fusion(rankings, weights=weights, k=fusion.k, top=k)
    parts = fusion.parts(rankings)
    for route in sorted(rankings):
        if rankings[route].scale is Scale.RANK and route in parts:
            raise ScaleError(f"ScoreFusion of route {route!r} (RankFusion takes any)", "similarity", "rank")
    return weighted_sum(rankings, parts, k=k)


def weighted_sum(
    rankings: Mapping[str, Ranking], parts: Mapping[str, tuple[float, Normalizer]], *, k: int | None = None
) -> Ranking:
    """Fuse rankings by score: `score(c) = sum_i weight_i * normalise_i(score_i(c))`.

    Args:
        rankings: per route, with scores in the route's own unit (`Scale.SIMILARITY`).
        parts: per route, its weight (>= 0) and how its scores are normalised.
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
    shares: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for route in sorted(rankings):
        weight, normalise = parts[route]
        _check_weight(f"weight of {route}", weight)
        span = ScoreBounds.of(rankings[route])
        for hit in rankings[route].hits:
            shares[hit.chunk.id][route] = weight * normalise(hit.score, span)
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
    shares: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for route in sorted(rankings):
        for rank, hit in enumerate(rankings[route].hits, start=1):
            shares[hit.chunk.id][route] = weights.get(route, 1.0) / (k + rank)
    return _merged(rankings, shares, Scale.RANK, top)


def _merged(
    rankings: Mapping[str, Ranking], shares: Mapping[str, Mapping[str, float]], scale: Scale, k: int | None
) -> Ranking:
    """Return one hit per chunk with the sum of its shares and the provenance of every route: the k best.

    Routes come in the order of their names, also in the sums: floats do not add up the same in every order.
    """
    scores = {chunk_id: sum(by_route.values()) for chunk_id, by_route in shares.items()}
    best = nsmallest(len(scores) if k is None else k, scores, key=lambda chunk_id: (-scores[chunk_id], chunk_id))
    chunks: dict[str, Chunk] = {}
    found: dict[str, list[Provenance]] = {chunk_id: [] for chunk_id in best}
    degraded: list[Degraded] = []
    for route in sorted(rankings):
        degraded.extend(rankings[route].degraded)
        for rank, hit in enumerate(rankings[route].hits, start=1):
            if hit.chunk.id in found:
                chunks.setdefault(hit.chunk.id, hit.chunk)
                ways = hit.provenance or (Provenance(route=route, rank=rank, score=hit.score),)
                share = shares[hit.chunk.id][route]
                found[hit.chunk.id] += (replace(way, share=share) for way in ways)
    merged = (Hit(chunks[chunk_id], scores[chunk_id], tuple(ways)) for chunk_id, ways in found.items())
    counted = {route for by_route in shares.values() for route, share in by_route.items() if share}
    left_out = tuple(route for route in sorted(rankings) if rankings[route].hits and route not in counted)
    return Ranking(tuple(merged), scale, tuple(degraded), left_out=left_out)


NAME_ROUTE = "name"  # in the provenance of a hit: found as the share of a name, which is its `view`


def interleave(shares: Mapping[str, Ranking], general: Ranking) -> Ranking:
    """Take turns: each share gives its best hit, then the general ranking its best that is not there yet, and again.

    A single share has two turns for one of the general ranking, which so never has more than a third of them.

    Args:
        shares: name -> the ranking of what bears it.
        general: the ranking of everything; what no name covers is found by it.

    Returns:
        Each chunk once, at its first turn, in `Scale.RANK` with the score 1 / place. Its provenance is the general
        ranking's, where that has it, and says the name in whose turn it came.
    """
    ways: defaultdict[str, list[Provenance]] = defaultdict(list)
    for name, share in shares.items():
        for rank, hit in enumerate(share.hits, start=1):
            ways[hit.chunk.id].append(Provenance(route=NAME_ROUTE, rank=rank, score=hit.score, view=name))
    first = {hit.chunk.id: hit for hit in general.hits}  # where both found a chunk, the general ranking says how
    turns = [share.hits for share in shares.values()]
    order = _turns([*turns, *(turns if len(turns) == 1 else ()), general.hits])
    found = (first.get(hit.chunk.id) or unranked(hit) for hit in order)
    numbered = enumerate(found, start=1)
    hits = (Hit(hit.chunk, 1.0 / place, (*hit.provenance, *ways[hit.chunk.id])) for place, hit in numbered)
    return replace(general, hits=tuple(hits), scale=Scale.RANK)


def _turns(lists: Sequence[Sequence[Hit]]) -> Iterator[Hit]:
    """Yield, turn by turn, the best hit of each list that was not yielded yet."""
    waiting = [iter(hits) for hits in lists]
    seen: set[str] = set()
    while waiting:
        for hits in tuple(waiting):
            fresh = next((hit for hit in hits if hit.chunk.id not in seen), None)
            if fresh is None:
                waiting.remove(hits)
            else:
                seen.add(fresh.chunk.id)
                yield fresh


def unranked(hit: Hit) -> Hit:
    """Return the hit without ranks: it was asked for by id or by document, so its place in the whole is unknown."""
    if all(way.rank is None for way in hit.provenance):
        return hit
    return Hit(hit.chunk, hit.score, tuple(replace(way, rank=None) for way in hit.provenance))

"""By which rule the rankings of several views become one: quotas per view, or fusion by rank or by score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from math import isfinite
from typing import Annotated, ClassVar, Protocol, TypeAlias, runtime_checkable

from annotated_types import Ge

from catena.model import Ranking, Scale
from catena.model.errors import ParameterError
from catena.model.options import check_options
from catena.retrieval.fusion import RankFusion, reciprocal_rank_fusion, weighted_sum
from catena.retrieval.normalization import Normalizer, min_max

Chosen: TypeAlias = Sequence[tuple[str, float]]
"""(chunk id, score in the rule's scale), best first, each chunk once."""

PRINTED_QUOTAS: Mapping[float, tuple[int, ...]] = {1.5: (1,), 3: (1, 2), 5: (3,), 10: (6, 7)}
"""k -> the numbers of chunks from each view that the paper names. Source: MC-indexing, appendix E.1."""


@runtime_checkable
class ViewRule(Protocol):
    """How the rankings of several views become one; a frozen dataclass of one's own is a rule too."""

    @property
    def scale(self) -> Scale:
        """The unit of the scores that `choose` gives."""
        ...

    def choose(self, rankings: Mapping[str, Ranking], k: float) -> Chosen:
        """Return the chunks to return, out of rankings by kind of view in the order given, each chunk once in each.

        A ranking may be empty, where a view found nothing or failed; all of them, where only k is to be judged.

        Raises:
            ParameterError: the rule has no result for this k, or a score is infinite.
        """
        ...


def quota(k: float) -> tuple[int, ...]:
    """Return how many chunks the paper takes from each of three views in place of k: `k' ~ 2k/3`.

    k = 1.5 gives (1,), 3 gives (2,), 5 gives (3,), 10 gives (6, 7): there a measure is the mean of both. Any other
    k gives `round(2k/3)`, at least 1. For k = 3 the paper says "1 or 2" (`PRINTED_QUOTAS`); 2 is what its formula
    gives. Its reason is that 3k'/2 chunks remain when what several views found is counted once.

    Raises:
        ParameterError: k is not a finite number > 0.

    Source: MC-indexing (Dong et al., 2024), section 3.3 and appendix E.1.
    """
    if isinstance(k, bool) or not isinstance(k, int | float) or not (isfinite(k) and k > 0):
        raise ParameterError("k", k, "a finite number > 0")
    return (2,) if k == 3 else PRINTED_QUOTAS.get(k) or (max(1, round(2 * k / 3)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperQuota:
    """The paper's rule: the union of the first k' chunks of each view, without duplicates; its length varies.

    Of n views that give k' chunks or more, at least k' and at most n k' chunks come back: k is what the paper
    *expects* of three views, not what it returns. Where views disagree the union is longer than k, and a figure "at
    k" is flattered by it; `ExactUnion` returns k.

    They come by rank, and of one rank in the order of the views, with the score 1 / place.

    Attributes:
        per_view: k', >= 1; by default that of `quota(k)` which is nearest to 2k/3 (7 for k = 10).

    Source: MC-indexing (Dong et al., 2024), section 3.3.
    """

    per_view: Annotated[int, Ge(1)] | None = None
    scale: ClassVar[Scale] = Scale.RANK

    def __post_init__(self) -> None:
        check_options(self)

    def choose(self, rankings: Mapping[str, Ranking], k: float) -> Chosen:
        """Return the union; a k of 0 gives nothing."""
        if k == 0:
            return ()
        most = self.per_view or min(quota(k), key=lambda of_view: abs(of_view - 2 * k / 3))
        return placed(by_rank([ranking.top(most) for ranking in rankings.values()]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactUnion:
    """The union that stops when exactly k chunks are there, or when there are no more.

    All first chunks in the order of the views, then all second ones, and so on, each chunk once, with the score
    1 / place. So what is measured at k is measured with k chunks.
    """

    scale: ClassVar[Scale] = Scale.RANK

    def choose(self, rankings: Mapping[str, Ranking], k: float) -> Chosen:
        """Return the first k of the union."""
        return placed(islice(by_rank(list(rankings.values())), whole(k)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRankFusion:
    """Reciprocal-rank fusion over views: `score(c) = sum_v weight_v / (k + rank_v(c))`, ranks from 1; the k best.

    Attributes:
        weights: by kind of view, >= 0; 1 for one that is not named. A view of weight 0 has no say.
        k: damping, in ranks; the larger, the less the first ranks stand out.

    Source: Cormack, Clarke and Buettcher, SIGIR 2009, doi:10.1145/1571941.1572114.
    """

    weights: Mapping[str, float] | None = None
    k: float = 60.0
    scale: ClassVar[Scale] = Scale.RANK

    def __post_init__(self) -> None:
        check_options(self)
        RankFusion(k=self.k)
        _check_weights(self.weights)

    def choose(self, rankings: Mapping[str, Ranking], k: float) -> Chosen:
        """Return the k best of the sum."""
        heard = _heard(rankings, self.weights)
        return _scored(reciprocal_rank_fusion(heard, weights=self.weights, k=self.k, top=whole(k)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewScoreFusion:
    """Fusion of scores over views: `score(c) = sum_v weight_v * normalise(score_v(c))`; the k best.

    Scores of one view are normalised by the bounds of that view's ranking before any are added: the same text in
    keywords and in prose has scores that do not compare. A view that did not find a chunk adds nothing to it.

    Attributes:
        weights: by kind of view, >= 0; 1 for one that is not named. A view of weight 0 has no say.
        normalise: from a raw score and the view's bounds to a number that may be added. `min_max` takes scores of any
            unit and sign, and gives the last of a ranking as much as one that was not found; `by_maximum` suits
            scores >= 0 that mean something at 0, as BM25's.
    """

    weights: Mapping[str, float] | None = None
    normalise: Normalizer = min_max
    scale: ClassVar[Scale] = Scale.NORMALIZED

    def __post_init__(self) -> None:
        check_options(self)
        _check_weights(self.weights)

    def choose(self, rankings: Mapping[str, Ranking], k: float) -> Chosen:
        """Return the k best of the sum."""
        heard, weights = _heard(rankings, self.weights), self.weights or {}
        parts = {kind: (weights.get(kind, 1.0), self.normalise) for kind in heard}
        return _scored(weighted_sum(heard, parts, k=whole(k)))


def whole(k: float) -> int:
    """Return k as a number of chunks.

    Raises:
        ParameterError: k is not a whole number >= 0; only the paper's rule is defined at 1.5.
    """
    if not _is_whole(k) or k < 0:
        raise ParameterError("k", k, "a whole number >= 0; only PaperQuota takes others")
    return int(k)


def _is_whole(number: object) -> bool:
    return (
        isinstance(number, int | float)
        and not isinstance(number, bool)
        and isfinite(number)
        and number == int(number)
    )


def by_rank(rankings: Sequence[Ranking]) -> Iterator[str]:
    """Yield each chunk once: all of rank 1 in the order of the rankings, then all of rank 2, and so on."""
    levels = zip_longest(*(ranking.hits for ranking in rankings))
    return iter(dict.fromkeys(hit.chunk.id for level in levels for hit in level if hit is not None))


def placed(ids: Iterable[str]) -> Chosen:
    """Return the chunks with the score 1 / place, places from 1."""
    return tuple((chunk_id, 1.0 / place) for place, chunk_id in enumerate(ids, start=1))


def _scored(ranking: Ranking) -> Chosen:
    return tuple((hit.chunk.id, hit.score) for hit in ranking.hits)


def _check_weights(weights: Mapping[str, float] | None) -> None:
    for kind, weight in (weights or {}).items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not (weight >= 0 and isfinite(weight)):
            raise ParameterError(f"weights[{kind!r}]", weight, "a finite number >= 0")


def _heard(rankings: Mapping[str, Ranking], weights: Mapping[str, float] | None) -> Mapping[str, Ranking]:
    """Return the rankings of the views that have a weight above 0."""
    weights = weights or {}
    if unknown := sorted(set(weights) - set(rankings)):
        raise ParameterError("weights of views", unknown, f"among the views asked: {', '.join(rankings)}")
    heard = {kind: ranking for kind, ranking in rankings.items() if weights.get(kind, 1.0) > 0}
    if not heard:
        raise ParameterError("weights", dict(weights), "above 0 for at least one view")
    return heard

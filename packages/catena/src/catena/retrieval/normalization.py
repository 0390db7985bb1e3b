"""From a route's raw scores to numbers that may be added: what each rule does, and what a tie becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, log1p
from typing import TypeAlias

from catena.model import Ranking
from catena.model.errors import ParameterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The lowest and the highest raw score that one route gave for one query."""

    low: float
    high: float

    @classmethod
    def of(cls, ranking: Ranking) -> Bounds:
        """Return the bounds of a ranking; both 0 when it is empty.

        Raises:
            ParameterError: a score is infinite.
        """
        scores = [hit.score for hit in ranking.hits]
        if not all(map(isfinite, scores)):
            raise ParameterError("scores", [s for s in scores if not isfinite(s)], "finite")
        return cls(low=min(scores, default=0.0), high=max(scores, default=0.0))


Normalizer: TypeAlias = Callable[[float, Bounds], float]


def by_maximum(score: float, bounds: Bounds) -> float:
    """Return `score / high`, in [0, 1] for scores >= 0; 0 when the best score is not positive.

    The best hit gets 1 and a chunk that shares no word 0, whatever the query's length: unlike min-max, it
    does not depend on how deep the ranking goes.
    """
    return max(score, 0.0) / bounds.high if bounds.high > 0 else 0.0


def min_max(score: float, bounds: Bounds) -> float:
    """Return `(score - low) / (high - low)`, clipped to [0, 1]; a tie of all gives 1 to each."""
    spread = bounds.high - bounds.low
    if spread <= 0:
        return 1.0 if score >= bounds.high else 0.0
    return min(max((score - bounds.low) / spread, 0.0), 1.0)


def half_cosine(score: float, bounds: Bounds) -> float:
    """Return `(1 + score) / 2` for a cosine in [-1, 1]: 0 for opposite vectors, 1 for equal ones."""
    return min(max((1.0 + score) / 2.0, 0.0), 1.0)


def log_count(score: float, bounds: Bounds) -> float:
    """Return `ln(1 + score)` for a count of matched terms."""
    return log1p(max(score, 0.0))

"""Greedy selection: take the best segment that still fits, again and again; the article's rule, and dsRAG's."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from catena.segments.track import Floats, Ints, Limits, Pick, Track, prefix_sums, reaches, rounding

_FEW = 8  # one start in so many places, or fewer: their sums are added one by one


def greedy(track: Track, limits: Limits, *, joint: bool = False) -> tuple[Pick, ...]:
    """Pick disjoint segments one by one, each the best that is left, until budget or queries are used up.

    A candidate lies in one run, begins and ends with a value >= 0, overlaps no earlier pick (of any query) and
    fits the limits and what is left of the budget. Its value is the sum of its chunks' values, added left to
    right. Of equal ones the lowest start wins, then the shortest, then the lowest query. A query whose best
    candidate is worth less than the minimum, or that has none, retires.

    It costs O(n log max_chunks) per query at first (window maxima over prefix sums), then a scan and
    O(max_chunks) corrections for each pick; sums that rounding could have put out of order are added again.

    Args:
        track: the values of all queries.
        limits: of one segment and of all.
        joint: pick the best of all queries each time; else each query has its turn (dsRAG).

    Returns:
        The picks, in the order they were made.

    Source: dsRAG 0.5.6, `get_best_segments`; the article, "best segments".
    """
    budget = _Budget(track, limits, limits.budget, reaches(track, limits))
    queries = [_Query.of(number, row, limits) for number, row in enumerate(track.values)]
    picks: list[Pick] = []
    while queries and budget.left > 0:
        asked = list(queries) if joint else queries[:1]
        bests = {query.number: query.best(budget) for query in asked}
        found = [pick for pick in bests.values() if pick is not None]
        queries = [query for query in queries if bests.get(query.number, True) is not None]
        if not found:
            continue
        pick = min(found, key=lambda pick: (-pick.value, pick.start, pick.end, pick.query))
        picks.append(pick)
        budget.take(pick)
        for query in queries:
            query.forget(pick, budget)
        if not joint:
            queries = queries[1:] + queries[:1]
    return tuple(picks)


@dataclass(slots=True)
class _Budget:
    """What is left, and how far a segment from each start may reach; a start inside a pick reaches nowhere."""

    track: Track
    limits: Limits
    left: int
    reach: Ints
    shrunk: int = 0  # how often the whole reach was cut because little is left
    widest: int = field(init=False)  # no segment within reach costs more

    def __post_init__(self) -> None:
        self.widest = self._widest()

    def take(self, pick: Pick) -> None:
        """Pay for a pick, and keep later ones out of it."""
        self.left -= int(self._costs(np.array([pick.start]), np.array([pick.end]))[0])
        low = max(0, pick.start - self.limits.max_chunks)
        np.minimum(self.reach[low : pick.start], pick.start, out=self.reach[low : pick.start])
        self.reach[pick.start : pick.end] = np.arange(pick.start, pick.end)
        if self.left < self.widest:
            np.minimum(self.reach, reaches(self.track, self.limits, self.left), out=self.reach)
            self.shrunk += 1
            self.widest = self._widest()

    def _widest(self) -> int:
        if not self.limits.in_tokens:
            return min(self.limits.max_chunks, self.left)
        starts = np.arange(len(self.reach))
        return int(self._costs(starts, self.reach).max(initial=0))

    def _costs(self, starts: Ints, ends: Ints) -> Ints:
        return self.track.tokens_of(starts, ends) if self.limits.in_tokens else ends - starts


@dataclass(slots=True)
class _Query:
    """One query's values, the starts that may still be picked, and the best sum from each, up to rounding."""

    number: int
    values: Floats
    minimum: float
    starts: Ints  # ascending
    sums: Floats | None = None  # one per start; they only ever become smaller
    shrunk: int = 0  # the state of the budget for which `sums` were made
    rounding: float = 0.0
    kept: Pick | None = None  # the best one, as long as nothing has come in its way

    @classmethod
    def of(cls, number: int, values: Floats, limits: Limits) -> _Query:
        return cls(number, values, limits.minimum_value, np.flatnonzero(values >= 0))

    def best(self, budget: _Budget) -> Pick | None:
        """Return the best candidate left, or None if it is worth less than the minimum."""
        if self.kept is not None:
            return self.kept
        sums = self.sums
        if sums is None or self.shrunk != budget.shrunk:
            sums = self._best_sums(budget)
        top = float(sums.max(initial=-np.inf))
        if top == -np.inf:
            return None
        near = self.starts[sums >= top - 2 * self.rounding]
        exact, ends = best_sums(self.values, near, budget.reach)
        first = int(exact.argmax())
        value = float(exact[first])
        if value >= self.minimum:
            self.kept = Pick(int(near[first]), int(ends[first]), value, self.number)
        return self.kept

    def forget(self, pick: Pick, budget: _Budget) -> None:
        """Take note that a pick was made: nothing may overlap it."""
        kept = self.kept
        if kept is not None and (budget.reach[kept.start] < kept.end or pick.start <= kept.start < pick.end):
            self.kept = None
        if self.sums is not None and self.shrunk == budget.shrunk:
            low, high = np.searchsorted(self.starts, (pick.start - budget.limits.max_chunks, pick.end)).tolist()
            self.sums[low:high] = best_sums(self.values, self.starts[low:high], budget.reach)[0]

    def _best_sums(self, budget: _Budget) -> Floats:
        """Make the sums anew, and drop the starts from which no candidate is worth the minimum any more."""
        n = len(self.values)
        if len(self.starts) * _FEW < n:
            sums, _ = best_sums(self.values, self.starts, budget.reach)
        else:
            prefix = prefix_sums(self.values)
            self.rounding = rounding(prefix, budget.limits.max_chunks)
            sums = (window_maxima(prefix, budget.reach) - prefix[:-1])[self.starts]
        alive = (sums >= self.minimum - self.rounding) & (sums > -np.inf)
        self.starts, self.sums, self.shrunk = self.starts[alive], sums[alive], budget.shrunk
        return self.sums


def window_maxima(prefix: Floats, reach: Ints) -> Floats:
    """Return `max(prefix[i + 1 : reach[i] + 1])` for each place i; -inf where that is empty.

    Maxima over windows of 1, 2, 4, ... places are made one from the other; two of them cover any window.
    """
    widths = reach - np.arange(len(reach))
    best = np.full(len(reach), -np.inf)
    widest = int(widths.max(initial=0))
    if widest <= 0:
        return best
    table, span = prefix[1:], 1  # table[i]: the maximum of the `span` places after i
    while 2 * span <= widest:
        which = np.flatnonzero((widths >= span) & (widths < 2 * span))
        best[which] = np.maximum(table[which], table[which + widths[which] - span])
        table = np.maximum(table[:-span], table[span:])
        span *= 2
    which = np.flatnonzero((widths >= span) & (widths < widest))
    best[which] = np.maximum(table[which], table[which + widths[which] - span])
    rest = widest - span  # windows of full width, which most are: all at once, as slices
    count = len(table) - rest
    full = np.maximum(table[:count], table[rest:])
    np.copyto(best[:count], full, where=widths[:count] == widest)
    return best


def best_sums(values: Floats, starts: Ints, reach: Ints) -> tuple[Floats, Ints]:
    """Return the best sum of a candidate from each start, added left to right, and its end: the first of equal ones.

    Args:
        values: of one query.
        starts: ascending, each with a value >= 0.
        reach: for every place, the last end allowed; where that is the start itself, the sum is -inf.
    """
    widths = reach[starts] - starts
    sums = np.zeros(len(starts))
    best, ends = np.full(len(starts), -np.inf), starts.copy()
    for length in range(1, int(widths.max(initial=0)) + 1):
        within = widths >= length
        added = values[np.where(within, starts + length - 1, starts)]
        sums += added
        better: NDArray[np.bool_] = within & (added >= 0) & (sums > best)
        best[better], ends[better] = sums[better], starts[better] + length
    return best, ends

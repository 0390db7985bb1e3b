"""Greedy selection: take the best segment that still fits, again and again; the article's rule, and dsRAG's."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from catena.extraction.track import Floats, Ints, Limits, Pick, Track, prefix_sums, reaches, rounding


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
    widest: int = field(init=False)  # what the dearest segment within reach costs

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
        starts = np.arange(len(self.reach))
        return int(self._costs(starts, self.reach).max(initial=0))

    def _costs(self, starts: Ints, ends: Ints) -> Ints:
        return self.track.tokens_of(starts, ends) if self.limits.in_tokens else ends - starts


@dataclass(slots=True)
class _Query:
    """One query's values, and for each start the best sum of a segment from there, up to rounding."""

    number: int
    values: Floats
    prefix: Floats
    minimum: float
    rounding: float
    sums: Floats | None = None
    shrunk: int = -1  # the state of the budget for which `sums` were made
    kept: Pick | None = None  # the best one, as long as nothing has come in its way

    @classmethod
    def of(cls, number: int, values: Floats, limits: Limits) -> _Query:
        prefix = prefix_sums(values)
        return cls(number, values, prefix, limits.minimum_value, rounding(prefix, limits.max_chunks))

    def best(self, budget: _Budget) -> Pick | None:
        """Return the best candidate left, or None if it is worth less than the minimum."""
        if self.kept is not None:
            return self.kept
        if self.sums is None or self.shrunk != budget.shrunk:
            self.sums = self._best_sums(budget.reach, 0, len(budget.reach))
            self.shrunk = budget.shrunk
        top = float(self.sums.max(initial=-np.inf))
        if top == -np.inf or top < self.minimum - self.rounding:
            return None
        near = np.flatnonzero(self.sums >= top - 2 * self.rounding)
        start, end, value = exact_best(self.values, near, budget.reach)
        self.kept = Pick(start, end, value, self.number) if value >= self.minimum else None
        return self.kept

    def forget(self, pick: Pick, budget: _Budget) -> None:
        """Take note that a pick was made: nothing may overlap it."""
        kept = self.kept
        if kept is not None and (budget.reach[kept.start] < kept.end or pick.start <= kept.start < pick.end):
            self.kept = None
        if self.sums is not None and self.shrunk == budget.shrunk:
            low = max(0, pick.start - budget.limits.max_chunks)
            self.sums[low : pick.end] = self._best_sums(budget.reach, low, pick.end)

    def _best_sums(self, reach: Ints, low: int, high: int) -> Floats:
        """Return for starts [low, high) the best sum within reach, up to rounding; -inf where none may begin."""
        sums = window_maxima(self.prefix, reach[low:high], low) - self.prefix[low:high]
        sums[(self.values[low:high] < 0) | (reach[low:high] <= np.arange(low, high))] = -np.inf
        return sums


def window_maxima(prefix: Floats, reach: Ints, low: int) -> Floats:
    """Return `max(prefix[i + 1 : reach[i - low] + 1])` for each i from `low` on; -inf where that is empty.

    Maxima over windows of 1, 2, 4, ... places are made one from the other; two of them cover any window.
    """
    widths = reach - np.arange(low, low + len(reach))
    best = np.full(len(reach), -np.inf)
    widest = int(widths.max(initial=0))
    if widest <= 0:
        return best
    table, span = prefix[low + 1 : low + len(reach) + widest], 1  # table[i] = max of `span` places from low + 1 + i
    while 2 * span <= widest:
        which = np.flatnonzero((widths >= span) & (widths < 2 * span))
        best[which] = np.maximum(table[which], table[which + widths[which] - span])
        table = np.maximum(table[:-span], table[span:])
        span *= 2
    which = np.flatnonzero((widths >= span) & (widths < widest))
    best[which] = np.maximum(table[which], table[which + widths[which] - span])
    rest = widest - span  # windows of full width, which most are: all at once, as slices
    count = min(len(reach), len(table) - rest)
    full = np.maximum(table[:count], table[rest : rest + count])
    np.copyto(best[:count], full, where=widths[:count] == widest)
    return best


def exact_best(values: Floats, starts: Ints, reach: Ints) -> tuple[int, int, float]:
    """Return the best candidate from these starts as start, end and sum; sums are added left to right.

    Of equal ones the lowest start wins, then the shortest.

    Args:
        values: of one query.
        starts: ascending, not empty, each with a value >= 0.
        reach: for every place, the last end allowed, beyond the start for these starts.
    """
    widths = reach[starts] - starts
    sums = np.zeros(len(starts))
    best, ends = np.full(len(starts), -np.inf), starts.copy()
    for length in range(1, int(widths.max()) + 1):
        within = widths >= length
        added = values[np.where(within, starts + length - 1, starts)]
        sums += added
        better: NDArray[np.bool_] = within & (added >= 0) & (sums > best)
        best[better], ends[better] = sums[better], starts[better] + length
    first = int(best.argmax())
    return int(starts[first]), int(ends[first]), float(best[first])

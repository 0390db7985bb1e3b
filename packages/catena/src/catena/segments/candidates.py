"""Candidates of optimal selection: every segment that could be picked, or those worth a price for what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catena.segments.track import Floats, Ints, Limits, Track, prefix_sums, reaches, rounding


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Segments [starts, ends) with what each is worth, up to rounding, and what it costs; parallel arrays."""

    starts: Ints
    ends: Ints
    values: Floats
    costs: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, which: Ints | NDArray[np.bool_]) -> Candidates:
        """Return some of them: by number, or by a mask."""
        return Candidates(self.starts[which], self.ends[which], self.values[which], self.costs[which])

    @classmethod
    def of(cls, parts: Sequence[Candidates]) -> Candidates:
        """Return them all, by end and then by start."""
        none = np.empty(0, np.int64)
        starts = np.concatenate([none, *(part.starts for part in parts)])
        ends = np.concatenate([none, *(part.ends for part in parts)])
        values = np.concatenate([np.empty(0), *(part.values for part in parts)])
        costs = np.concatenate([none, *(part.costs for part in parts)])
        return cls(starts, ends, values, costs).take(np.lexsort((starts, ends)))


class Scan:
    """Goes through all candidates of a track, shortest first, a vector operation per length and query.

    A candidate of a query lies in one run, begins and ends with a value >= 0, fits the limits of one segment and
    is worth the minimum; it is worth the most that it is to a query of which it is a candidate.
    """

    def __init__(self, track: Track, limits: Limits) -> None:
        self.track, self.limits = track, limits
        self.reach = reaches(track, limits)
        prefixes = [prefix_sums(row) for row in track.values]
        self.rounding = max((rounding(prefix, limits.max_chunks) for prefix in prefixes), default=0.0)
        # A difference of these is a sum, or -inf where a query's candidate may not begin or end.
        self._begins = [
            np.where(row >= 0, prefix[:-1], np.inf) for row, prefix in zip(track.values, prefixes, strict=True)
        ]
        self._ends = [
            np.where(row >= 0, prefix[1:], -np.inf) for row, prefix in zip(track.values, prefixes, strict=True)
        ]

    def best_for_cost(self, size: int) -> tuple[Candidates, float]:
        """Return about `size` candidates, and a price: all those worth more than their cost at that price.

        The price is 0 where these are all the candidates that are worth anything.
        """
        price, parts, held = 0.0, list[Candidates](), 0
        for found in self._lengths(price, 0.0):
            part = found.take(found.values > price * found.costs)
            parts.append(part)
            held += len(part)
            if held > 2 * size:
                pool = Candidates.of(parts)
                density = pool.values / np.maximum(pool.costs, 1e-9)
                price = float(np.partition(density, len(pool) - size)[len(pool) - size])
                parts = [pool.take(pool.values > price * pool.costs)]
                held = len(parts[0])
        return Candidates.of(parts), price

    def near(self, price: float, slack: float) -> Candidates:
        """Return the candidates with `value - price * cost >= -slack`."""
        return Candidates.of(list(self._lengths(price, slack)))

    def _lengths(self, price: float, slack: float) -> Iterator[Candidates]:
        """Return for each length the candidates worth at least the price, less the slack."""
        n, widest = self.track.size, int((self.reach - np.arange(self.track.size)).max(initial=0))
        for length in range(1, widest + 1):
            count = n - length + 1
            worth = np.full(count, -np.inf)
            for begins, ends in zip(self._begins, self._ends, strict=True):
                np.maximum(worth, ends[length - 1 :] - begins[:count], out=worth)
            least = self.limits.minimum_value - self.rounding
            if not self.limits.in_tokens:
                least = max(least, price * length - slack)
            starts = np.flatnonzero((worth >= least) & (worth > 0))
            starts = starts[self.reach[starts] >= starts + length]
            yield self._checked(starts, length, worth[starts], price, slack)

    def _checked(self, starts: Ints, length: int, values: Floats, price: float, slack: float) -> Candidates:
        ends = starts + length
        costs = self.track.tokens_of(starts, ends) if self.limits.in_tokens else np.full(len(starts), length)
        keep = values >= price * costs - slack
        near = np.flatnonzero(keep & (values <= self.limits.minimum_value + self.rounding))
        if len(near):  # so near the minimum that only the sum as greedy adds it can tell
            keep[near] = exact_values(self.track, starts[near], ends[near])[0] >= self.limits.minimum_value
        return Candidates(starts, ends, values, costs).take(keep)


def exact_values(track: Track, starts: Ints, ends: Ints) -> tuple[Floats, Ints]:
    """Return what segments are worth and to which query, sums added left to right; of equal ones the lowest query."""
    best = np.full(len(starts), -np.inf)
    queries = np.zeros(len(starts), np.int64)
    widest = int((ends - starts).max(initial=0))
    for query, row in enumerate(track.values):
        sums = np.zeros(len(starts))
        for step in range(widest):
            within = starts + step < ends
            sums[within] += row[starts[within] + step]
        better = (row[starts] >= 0) & (row[ends - 1] >= 0) & (sums > best)
        best[better], queries[better] = sums[better], query
    return best, queries

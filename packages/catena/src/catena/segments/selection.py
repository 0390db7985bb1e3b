"""Select segments of a chunk sequence: greedily, as the article and dsRAG do, or with the largest sum of values.

Greedy selection takes the best segment that still fits, again and again.

Optimal selection replaces the budget by a price for a unit of cost (Lagrange): no selection within the budget is
worth more than price * budget plus the best sum of (value - price * cost) over disjoint segments, and that best sum
needs no budget, so that one sweep finds it. The bound and a selection that comes close leave few candidates that
could close the gap; these go through an exact dynamic programme over place and cost, whose states are dropped by the
same bound.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from catena.segments.sequence import (
    ChunkSequence,
    Floats,
    Ints,
    SelectedSegment,
    SelectionBounds,
    prefix_sums,
    reaches,
    rounding,
)

_FEW = 8  # one start in so many places, or fewer: their sums are added one by one


def greedy(sequence: ChunkSequence, limits: SelectionBounds, *, joint: bool = False) -> tuple[SelectedSegment, ...]:
    """SelectedSegment disjoint segments one by one, each the best that is left, until budget or queries are used up.

    A candidate lies in one run, begins and ends with a value >= 0, overlaps no earlier pick (of any query) and
    fits the limits and what is left of the budget. Its value is the sum of its chunks' values, added left to
    right. Of equal ones the lowest start wins, then the shortest, then the lowest query. A query whose best
    candidate is worth less than the minimum, or that has none, retires.

    It costs O(n log max_chunks) per query at first (window maxima over prefix sums), then a scan and
    O(max_chunks) corrections for each pick; sums that rounding could have put out of order are added again.

    Args:
        sequence: the values of all queries.
        limits: of one segment and of all.
        joint: pick the best of all queries each time; else each query has its turn (dsRAG).

    Returns:
        The picks, in the order they were made.

    Source: dsRAG 0.5.6, `get_best_segments`; the article, "best segments".
    """
    budget = _Budget(sequence, limits, limits.budget, reaches(sequence, limits))
    queries = [_Query.of(number, row, limits) for number, row in enumerate(sequence.values)]
    picks: list[SelectedSegment] = []
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
    """The budget left, and the last end allowed for each start; a start inside a pick reaches nowhere."""

    sequence: ChunkSequence
    limits: SelectionBounds
    left: int
    reach: Ints
    shrunk: int = 0  # how often the whole reach was cut because little is left
    widest: int = field(init=False)  # no segment within reach costs more

    def __post_init__(self) -> None:
        self.widest = self._widest()

    def take(self, pick: SelectedSegment) -> None:
        """Pay for a pick, and keep later ones out of it."""
        self.left -= int(self._costs(np.array([pick.start]), np.array([pick.end]))[0])
        low = max(0, pick.start - self.limits.max_chunks)
        np.minimum(self.reach[low : pick.start], pick.start, out=self.reach[low : pick.start])
        self.reach[pick.start : pick.end] = np.arange(pick.start, pick.end)
        if self.left < self.widest:
            np.minimum(self.reach, reaches(self.sequence, self.limits, self.left), out=self.reach)
            self.shrunk += 1
            self.widest = self._widest()

    def _widest(self) -> int:
        if not self.limits.in_tokens:
            return min(self.limits.max_chunks, self.left)
        starts = np.arange(len(self.reach))
        return int(self._costs(starts, self.reach).max(initial=0))

    def _costs(self, starts: Ints, ends: Ints) -> Ints:
        return self.sequence.tokens_of(starts, ends) if self.limits.in_tokens else ends - starts


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
    kept: SelectedSegment | None = None  # the best one, as long as nothing has come in its way

    @classmethod
    def of(cls, number: int, values: Floats, limits: SelectionBounds) -> _Query:
        return cls(number, values, limits.minimum_value, np.flatnonzero(values >= 0))

    def best(self, budget: _Budget) -> SelectedSegment | None:
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
            self.kept = SelectedSegment(int(near[first]), int(ends[first]), value, self.number)
        return self.kept

    def forget(self, pick: SelectedSegment, budget: _Budget) -> None:
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


@dataclass(frozen=True, slots=True, eq=False)
class CandidateSegments:
    """Segments [starts, ends) with their values, up to rounding, and their costs; parallel arrays."""

    starts: Ints
    ends: Ints
    values: Floats
    costs: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, which: Ints | NDArray[np.bool_]) -> CandidateSegments:
        """Return some of them: by number, or by a mask."""
        return CandidateSegments(self.starts[which], self.ends[which], self.values[which], self.costs[which])

    @classmethod
    def of(cls, parts: Sequence[CandidateSegments]) -> CandidateSegments:
        """Return them all, by end and then by start."""
        none = np.empty(0, np.int64)
        starts = np.concatenate([none, *(part.starts for part in parts)])
        ends = np.concatenate([none, *(part.ends for part in parts)])
        values = np.concatenate([np.empty(0), *(part.values for part in parts)])
        costs = np.concatenate([none, *(part.costs for part in parts)])
        return cls(starts, ends, values, costs).take(np.lexsort((starts, ends)))


class CandidateScan:
    """Go through all candidates of a sequence, shortest first, a vector operation per length and query.

    A candidate of a query lies in one run, begins and ends with a value >= 0, fits the limits of one segment and
    is worth the minimum; it is worth the most that it is to a query of which it is a candidate.
    """

    def __init__(self, sequence: ChunkSequence, limits: SelectionBounds) -> None:
        self.sequence, self.limits = sequence, limits
        self.reach = reaches(sequence, limits)
        prefixes = [prefix_sums(row) for row in sequence.values]
        self.rounding = max((rounding(prefix, limits.max_chunks) for prefix in prefixes), default=0.0)
        # A difference of these is a sum, or -inf where a query's candidate may not begin or end.
        self._begins = [
            np.where(row >= 0, prefix[:-1], np.inf) for row, prefix in zip(sequence.values, prefixes, strict=True)
        ]
        self._ends = [
            np.where(row >= 0, prefix[1:], -np.inf) for row, prefix in zip(sequence.values, prefixes, strict=True)
        ]

    def best_for_cost(self, size: int) -> tuple[CandidateSegments, float]:
        """Return about `size` candidates, and a price: all those worth more than their cost at that price.

        The price is 0 where these are all the candidates that are worth anything.
        """
        price, parts, held = 0.0, list[CandidateSegments](), 0
        for found in self._lengths(price, 0.0):
            part = found.take(found.values > price * found.costs)
            parts.append(part)
            held += len(part)
            if held > 2 * size:
                pool = CandidateSegments.of(parts)
                density = pool.values / np.maximum(pool.costs, 1e-9)
                price = float(np.partition(density, len(pool) - size)[len(pool) - size])
                parts = [pool.take(pool.values > price * pool.costs)]
                held = len(parts[0])
        return CandidateSegments.of(parts), price

    def near(self, price: float, slack: float) -> CandidateSegments:
        """Return the candidates with `value - price * cost >= -slack`."""
        return CandidateSegments.of(list(self._lengths(price, slack)))

    def _lengths(self, price: float, slack: float) -> Iterator[CandidateSegments]:
        """Return for each length the candidates worth at least the price, less the slack."""
        n, widest = self.sequence.size, int((self.reach - np.arange(self.sequence.size)).max(initial=0))
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

    def _checked(self, starts: Ints, length: int, values: Floats, price: float, slack: float) -> CandidateSegments:
        ends = starts + length
        costs = self.sequence.tokens_of(starts, ends) if self.limits.in_tokens else np.full(len(starts), length)
        keep = values >= price * costs - slack
        near = np.flatnonzero(keep & (values <= self.limits.minimum_value + self.rounding))
        if len(near):  # so near the minimum that only the sum as greedy adds it can tell
            keep[near] = exact_values(self.sequence, starts[near], ends[near])[0] >= self.limits.minimum_value
        return CandidateSegments(starts, ends, values, costs).take(keep)


def exact_values(sequence: ChunkSequence, starts: Ints, ends: Ints) -> tuple[Floats, Ints]:
    """Return the values of segments and their queries, sums added left to right; of equal ones the lowest query."""
    best = np.full(len(starts), -np.inf)
    queries = np.zeros(len(starts), np.int64)
    widest = int((ends - starts).max(initial=0))
    for query, row in enumerate(sequence.values):
        sums = np.zeros(len(starts))
        for step in range(widest):
            within = starts + step < ends
            sums[within] += row[starts[within] + step]
        better = (row[starts] >= 0) & (row[ends - 1] >= 0) & (sums > best)
        best[better], queries[better] = sums[better], query
    return best, queries


SAME = 1e-11  # relative: sums that differ by less count as equal: they may have been added in another order
_FILLING = 2_000  # candidates tried, best first, to fill what a selection leaves of the budget

Side: TypeAlias = Callable[[Ints], Floats]
"""From places to the most that candidates on one side of them can add."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """The problem with a price instead of a budget.

    Attributes:
        pool: candidates; all that are worth more than their cost at the price are among them.
        complete: the pool has every candidate there is.
        price: of a unit of cost.
        bound: no selection within the budget is worth more.
        chosen: a selection within the budget, in order of place.
        worth: of that selection.
    """

    pool: CandidateSegments
    complete: bool
    price: float
    bound: float
    chosen: list[tuple[int, int]]
    worth: float


@dataclass(frozen=True, slots=True, eq=False)
class _Schedule:
    """The best disjoint candidates at a price: their numbers, their value and cost, and the value less the cost."""

    numbers: list[int]
    value: float
    cost: int
    net: float


def priced(scan: CandidateScan) -> Relaxed:
    """Find the price with the lowest bound; the pool of candidates grows until it holds all that count there."""
    sequence, budget = scan.sequence, scan.limits.budget
    usual = max(1.0, float(np.median(np.diff(sequence.spent)))) if scan.limits.in_tokens and sequence.size else 1.0
    size = max(1_000, int(32 * budget / usual))
    while True:
        pool, least = scan.best_for_cost(size)
        low, high = _best_schedule(pool, least), _Schedule([], 0.0, 0, 0.0)
        if low.cost > budget or least == 0.0:
            break
        size *= 4
    price = least
    if low.cost <= budget:
        high = low
    else:
        price, high = _search(pool, low, high, budget)
    bound = price * budget + _best_schedule(pool, price).net
    chosen = _filled(pool, high, price, budget)
    worth = float(pool.values[chosen].sum())
    spans = sorted(zip(pool.starts[chosen].tolist(), pool.ends[chosen].tolist(), strict=True))
    return Relaxed(pool, least == 0.0, price, bound, spans, worth)


def _search(pool: CandidateSegments, low: _Schedule, high: _Schedule, budget: int) -> tuple[float, _Schedule]:
    """Return the best price, between one whose schedule is too dear and one that fits, and the schedule that fits.

    The next price is always that at which both are worth the same; when none is better there, it is the best.
    """
    while True:
        price = (low.value - high.value) / (low.cost - high.cost)
        here = _best_schedule(pool, price)
        line = high.value - price * high.cost
        if here.net <= line + rounded_off(high.value) or here.cost in (low.cost, high.cost):
            return price, high
        low, high = (low, here) if here.cost <= budget else (here, high)


def _best_schedule(pool: CandidateSegments, price: float) -> _Schedule:
    """Return the disjoint candidates with the largest sum of value less cost at the price."""
    nets = pool.values - price * pool.costs
    which = np.flatnonzero(nets > 0)
    best, taken, before = _sweep(pool.starts[which], pool.ends[which], nets[which])
    numbers: list[int] = []
    at = len(which)
    while at > 0:
        if taken[at - 1]:
            numbers.append(int(which[at - 1]))
            at = before[at - 1]
        else:
            at -= 1
    numbers.reverse()
    return _Schedule(numbers, float(pool.values[numbers].sum()), int(pool.costs[numbers].sum()), best[-1])


def _sweep(starts: Ints, ends: Ints, nets: Floats) -> tuple[list[float], list[bool], list[int]]:
    """Return the best sums over the first k candidates (by end), which are taken, and how many end before each."""
    before: list[int] = np.searchsorted(ends, starts, side="right").tolist()
    best, taken = [0.0], []
    for net, earlier in zip(nets.tolist(), before, strict=True):
        with_it = best[earlier] + net
        taken.append(with_it > best[-1])
        best.append(max(with_it, best[-1]))
    return best, taken, before


def _filled(pool: CandidateSegments, schedule: _Schedule, price: float, budget: int) -> list[int]:
    """Return a schedule with what else fits its budget, the best at the price first."""
    numbers, left = list(schedule.numbers), budget - schedule.cost
    places = sorted((int(pool.starts[n]), int(pool.ends[n])) for n in numbers)
    nets = pool.values - price * pool.costs
    for number in np.argsort(-nets, kind="stable")[:_FILLING].tolist():
        if left <= 0:
            break
        place = (int(pool.starts[number]), int(pool.ends[number]))
        at = bisect_left(places, place)
        free = (at == 0 or places[at - 1][1] <= place[0]) and (at == len(places) or places[at][0] >= place[1])
        if free and pool.costs[number] <= left:
            places.insert(at, place)
            numbers.append(number)
            left -= int(pool.costs[number])
    return numbers


def either_side(pool: CandidateSegments, price: float) -> tuple[Side, Side]:
    """Return two bounds at the price: the most that candidates before a place add, and that those after it add."""
    nets = pool.values - price * pool.costs
    good = pool.take(nets > 0)
    gains = nets[nets > 0]
    left = np.array(_sweep(good.starts, good.ends, gains)[0])
    back = np.lexsort((-good.ends, -good.starts))  # the same from the right: places are counted from the end
    right = np.array(_sweep(-good.ends[back], -good.starts[back], gains[back])[0])
    ends, starts = good.ends, -good.starts[back]
    return (
        lambda places: left[np.searchsorted(ends, places, side="right")],
        lambda places: right[np.searchsorted(starts, -places, side="right")],
    )


def rounded_off(value: float) -> float:
    """Return the difference from which on another sum counts as unequal to this one."""
    return SAME * max(1.0, abs(value))


_SHARES = tuple(4.0**-step for step in range(6, -1, -1))  # of the gap between bound and floor

_Chain: TypeAlias = "tuple[int, _Chain] | None"  # a candidate's number, and those before it
_State: TypeAlias = tuple[int, float, _Chain]  # cost, value, candidates


def optimal(sequence: ChunkSequence, limits: SelectionBounds) -> tuple[SelectedSegment, ...]:
    """Return the selection of disjoint segments with the largest sum of values within the budget.

    A candidate of a query lies in one run, begins and ends with a value >= 0 of that query, fits the limits of one
    segment, and is worth the minimum. A segment counts with the most that it is worth to a query of which it is a
    candidate (of equal ones the lowest), so queries are taken together, and the result is never worth less than
    what `greedy` finds, in turns or joint.

    Ties: greedy's joint selection is returned unless another is worth more by a relative 1e-11; which of several
    such depends on the values alone, never on an order of hashing. Segments of one query that touch are one where
    the limits allow it: they are worth the same together.

    Cost: a vector operation over n for each length and query, twice, then work on the few candidates near the
    best price. Where very many selections are all but equal, the programme holds up to budget + 1 states a place.

    Args:
        sequence: the values of all queries.
        limits: of one segment and of all.

    Returns:
        The segments, in order of place.
    """
    known = _as_picks(sequence, sorted((pick.start, pick.end) for pick in greedy(sequence, limits, joint=True)))
    scan = CandidateScan(sequence, limits)
    relaxed = priced(scan)
    floor = max(_worth(known), relaxed.worth)
    chosen = relaxed.chosen
    if relaxed.bound - floor > rounded_off(relaxed.bound):
        better = _improved(scan, relaxed, floor)
        chosen = chosen if better is None else better
    found = _fused(sequence, limits, _as_picks(sequence, chosen))
    return found if _worth(found) > _worth(known) + rounded_off(relaxed.bound) else known


def _worth(picks: Iterable[SelectedSegment]) -> float:
    return fsum(pick.value for pick in picks)


def _as_picks(sequence: ChunkSequence, spans: Sequence[tuple[int, int]]) -> tuple[SelectedSegment, ...]:
    """Return segments as picks, with their exact values."""
    starts, ends = (np.array([span[side] for span in spans], np.int64) for side in (0, 1))
    values, queries = exact_values(sequence, starts, ends)
    return tuple(map(SelectedSegment, starts.tolist(), ends.tolist(), values.tolist(), queries.tolist()))


def _fused(
    sequence: ChunkSequence, limits: SelectionBounds, picks: Sequence[SelectedSegment]
) -> tuple[SelectedSegment, ...]:
    """Return the picks with those made one that touch, are of one query, and may be one segment."""
    spans: list[tuple[int, int]] = []
    queries: list[int] = []
    reach = reaches(sequence, limits)
    for pick in picks:
        if spans and spans[-1][1] == pick.start and queries[-1] == pick.query and pick.end <= reach[spans[-1][0]]:
            spans[-1] = (spans[-1][0], pick.end)
        else:
            spans.append((pick.start, pick.end))
            queries.append(pick.query)
    return _as_picks(sequence, spans)


def _improved(scan: CandidateScan, relaxed: Relaxed, floor: float) -> list[tuple[int, int]] | None:
    """Return the best selection if it is worth more than `floor`; else None.

    The optimum mostly lies much nearer to the bound than to the floor: so it is looked for close below the
    bound first, where few states live, and then in steps four times as wide.
    """
    gap = relaxed.bound - floor
    pool = relaxed.pool if relaxed.complete else scan.near(relaxed.price, gap)
    sides = either_side(relaxed.pool, relaxed.price)
    for share in _SHARES:
        least = max(floor + rounded_off(relaxed.bound), relaxed.bound - gap * share)
        found = _programme(pool, relaxed, sides, least, scan.limits.budget)
        if found is not None:
            return found
    return None


def _programme(
    pool: CandidateSegments, relaxed: Relaxed, sides: tuple[Side, Side], least: float, budget: int
) -> list[tuple[int, int]] | None:
    """Return the best selection of those worth more than `least`, by place and cost; None if there is none."""
    price, (before, after) = relaxed.price, sides
    nets = pool.values - price * pool.costs
    hopes = price * budget + before(pool.starts) + nets + after(pool.ends)
    pool = pool.take(hopes > least)
    borders = np.unique(np.concatenate([pool.starts, pool.ends]))
    hope_after = (after(borders) + price * budget).tolist()
    ending = np.searchsorted(pool.ends, borders, side="left").tolist()
    from_border = np.searchsorted(borders, pool.starts).tolist()
    values, costs = pool.values.tolist(), pool.costs.tolist()
    tables: list[list[_State]] = []
    for at, hope in enumerate(hope_after):
        states: list[_State] = list(tables[-1]) if tables else [(0, 0.0, None)]
        last = ending[at + 1] if at + 1 < len(ending) else len(values)
        for number in range(ending[at], last):
            value, cost = values[number], costs[number]
            states += [
                (spent + cost, worth + value, (number, chain))
                for spent, worth, chain in tables[from_border[number]]
                if spent + cost <= budget
            ]
        tables.append(_undominated(states, price, hope, least))
        if tables[-1] and tables[-1][-1][1] >= relaxed.bound - rounded_off(relaxed.bound):
            break  # nothing can be worth more
    _, worth, chain = max(tables[-1] if tables else [], key=lambda state: state[1], default=(0, 0.0, None))
    if worth <= least:
        return None
    spans: list[tuple[int, int]] = []
    while chain is not None:
        number, chain = chain
        spans.append((int(pool.starts[number]), int(pool.ends[number])))
    return spans[::-1]


def _undominated(states: list[_State], price: float, hope: float, least: float) -> list[_State]:
    """Return the states by cost, each worth more than all cheaper ones, that may still come to more than `least`."""
    kept: list[_State] = []
    best = -np.inf
    for state in sorted(states, key=lambda state: (state[0], -state[1])):
        if state[1] > best:
            best = state[1]
            if best - price * state[0] + hope > least:
                kept.append(state)
    return kept

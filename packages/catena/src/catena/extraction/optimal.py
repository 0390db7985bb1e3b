"""Optimal selection: the disjoint segments whose values add up to the most that the budget allows.

For any price of a unit of cost, the best sum of (value - price * cost) over disjoint segments, plus price * budget,
is an upper bound of what a selection within the budget can be worth (Lagrange). At the best price the bound lies
close above a selection that fits. Only candidates that could still close the gap are put through an exact
programme over place and cost, whose states are dropped by the same bound; all others are out for certain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import TypeAlias

import numpy as np

from catena.extraction.candidates import Candidates, Scan, exact_values
from catena.extraction.greedy import greedy
from catena.extraction.track import Floats, Ints, Limits, Pick, Track

SAME = 1e-11  # relative: sums that differ by less count as equal, in whatever order they were added
_SHARES = tuple(4.0**-step for step in range(6, -1, -1))  # of the gap between bound and floor
_FILLING = 2_000  # candidates tried, best first, to fill what a selection leaves of the budget

_Side: TypeAlias = Callable[[Ints], Floats]
_Chain: TypeAlias = "tuple[int, _Chain] | None"  # a candidate's number, and those before it
_State: TypeAlias = tuple[int, float, _Chain]  # cost, value, candidates


def optimal(track: Track, limits: Limits) -> tuple[Pick, ...]:
    """Return the selection of disjoint segments with the largest sum of values within the budget.

    A candidate of a query lies in one run, begins and ends with a value >= 0 of that query, fits the limits of one
    segment, and is worth the minimum. A segment counts with the most that it is worth to a query of which it is a
    candidate (of equal ones the lowest), so queries are taken together, and the result is never worth less than
    what `greedy` finds, in turns or joint.

    Ties: greedy's joint selection is returned unless another is worth more by a relative 1e-11; which of several
    such depends on the values alone, never on an order of hashing.

    Cost: a vector operation over n for each length and query, twice, then work on the few candidates near the
    best price. Where very many selections are all but equal, the programme holds up to budget + 1 states a place.

    Args:
        track: the values of all queries.
        limits: of one segment and of all.

    Returns:
        The segments, in order of place.
    """
    known = _as_picks(track, sorted((pick.start, pick.end) for pick in greedy(track, limits, joint=True)))
    scan = Scan(track, limits)
    relaxed = _priced(scan, limits.budget, track)
    floor = max(_worth(known), relaxed.worth)
    chosen = relaxed.chosen
    if relaxed.bound - floor > _same(relaxed.bound):
        better = _improved(scan, relaxed, floor, limits.budget)
        chosen = chosen if better is None else better
    found = _as_picks(track, chosen)
    return found if _worth(found) > _worth(known) + _same(relaxed.bound) else known


def _same(value: float) -> float:
    """Return by how much a sum must differ from this one to be another."""
    return SAME * max(1.0, abs(value))


def _worth(picks: Iterable[Pick]) -> float:
    return fsum(pick.value for pick in picks)


def _as_picks(track: Track, spans: Sequence[tuple[int, int]]) -> tuple[Pick, ...]:
    """Return segments as picks, with their exact values."""
    starts, ends = (np.array([span[side] for span in spans], np.int64) for side in (0, 1))
    values, queries = exact_values(track, starts, ends)
    return tuple(map(Pick, starts.tolist(), ends.tolist(), values.tolist(), queries.tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class _Relaxed:
    """The problem with a price instead of a budget.

    Attributes:
        pool: candidates; all that are worth more than their cost at the price are among them.
        bound: no selection within the budget is worth more.
        chosen: a selection within the budget, in order of place.
        worth: of that selection.
    """

    pool: Candidates
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


def _priced(scan: Scan, budget: int, track: Track) -> _Relaxed:
    """Find the price with the lowest bound; the pool of candidates grows until it holds all that count there."""
    usual = max(1.0, float(np.median(np.diff(track.spent)))) if scan.limits.in_tokens and track.size else 1.0
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
    return _Relaxed(pool, least == 0.0, price, bound, spans, worth)


def _search(pool: Candidates, low: _Schedule, high: _Schedule, budget: int) -> tuple[float, _Schedule]:
    """Return the best price, between one whose schedule is too dear and one that fits, and the schedule that fits.

    The next price is always that at which both are worth the same; when none is better there, it is the best.
    """
    while True:
        price = (low.value - high.value) / (low.cost - high.cost)
        here = _best_schedule(pool, price)
        line = high.value - price * high.cost
        if here.net <= line + _same(high.value) or here.cost in (low.cost, high.cost):
            return price, high
        low, high = (low, here) if here.cost <= budget else (here, high)


def _best_schedule(pool: Candidates, price: float) -> _Schedule:
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


def _filled(pool: Candidates, schedule: _Schedule, price: float, budget: int) -> list[int]:
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


def _improved(scan: Scan, relaxed: _Relaxed, floor: float, budget: int) -> list[tuple[int, int]] | None:
    """Return the best selection if it is worth more than `floor`; else None.

    The optimum mostly lies much nearer to the bound than to the floor: so it is looked for close below the
    bound first, where few states live, and then in steps four times as wide.
    """
    gap = relaxed.bound - floor
    pool = relaxed.pool if relaxed.complete else scan.near(relaxed.price, gap)
    sides = _sides(relaxed.pool, relaxed.price)
    for share in _SHARES:
        least = max(floor + _same(relaxed.bound), relaxed.bound - gap * share)
        found = _programme(pool, relaxed, sides, least, budget)
        if found is not None:
            return found
    return None


def _programme(
    pool: Candidates, relaxed: _Relaxed, sides: tuple[_Side, _Side], least: float, budget: int
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
        if tables[-1] and tables[-1][-1][1] >= relaxed.bound - _same(relaxed.bound):
            break  # nothing can be worth more
    _, worth, chain = max(tables[-1] if tables else [], key=lambda state: state[1], default=(0, 0.0, None))
    if worth <= least:
        return None
    spans: list[tuple[int, int]] = []
    while chain is not None:
        number, chain = chain
        spans.append((int(pool.starts[number]), int(pool.ends[number])))
    return spans[::-1]


def _sides(pool: Candidates, price: float) -> tuple[_Side, _Side]:
    """Return what candidates before a place, and what those after it, can add at most at the price."""
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

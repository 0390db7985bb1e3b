"""The budget replaced by a price (Lagrange): an upper bound of any selection's worth, and one that comes close.

For any price of a unit of cost, no selection within the budget is worth more than price * budget plus the best sum
of (value - price * cost) over disjoint segments. That best sum needs no budget, so it is found in one sweep.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from catena.segments.candidates import Candidates, Scan
from catena.segments.track import Floats, Ints

SAME = 1e-11  # relative: sums that differ by less count as equal, in whatever order they were added
_FILLING = 2_000  # candidates tried, best first, to fill what a selection leaves of the budget

Side: TypeAlias = Callable[[Ints], Floats]
"""What candidates on one side of a place can add at most."""


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


def priced(scan: Scan) -> Relaxed:
    """Find the price with the lowest bound; the pool of candidates grows until it holds all that count there."""
    track, budget = scan.track, scan.limits.budget
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
    return Relaxed(pool, least == 0.0, price, bound, spans, worth)


def _search(pool: Candidates, low: _Schedule, high: _Schedule, budget: int) -> tuple[float, _Schedule]:
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


def either_side(pool: Candidates, price: float) -> tuple[Side, Side]:
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


def rounded_off(value: float) -> float:
    """Return by how much a sum must differ from this one to be another."""
    return SAME * max(1.0, abs(value))

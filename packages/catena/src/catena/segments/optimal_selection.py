"""Optimal selection: the disjoint segments whose values add up to the most that the budget allows.

A price for a unit of cost gives an upper bound and a selection that comes close (`catena.segments.pricing`). Only
the candidates that could close the gap are put through an exact programme over place and cost, whose states are
dropped by the same bound; all others are out for certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum
from typing import TypeAlias

import numpy as np

from catena.segments.candidates import Candidates, Scan, exact_values
from catena.segments.greedy_selection import greedy
from catena.segments.pricing import Relaxed, Side, either_side, priced, rounded_off
from catena.segments.track import Limits, Pick, Track, reaches

_SHARES = tuple(4.0**-step for step in range(6, -1, -1))  # of the gap between bound and floor

_Chain: TypeAlias = "tuple[int, _Chain] | None"  # a candidate's number, and those before it
_State: TypeAlias = tuple[int, float, _Chain]  # cost, value, candidates


def optimal(track: Track, limits: Limits) -> tuple[Pick, ...]:
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
        track: the values of all queries.
        limits: of one segment and of all.

    Returns:
        The segments, in order of place.
    """
    known = _as_picks(track, sorted((pick.start, pick.end) for pick in greedy(track, limits, joint=True)))
    scan = Scan(track, limits)
    relaxed = priced(scan)
    floor = max(_worth(known), relaxed.worth)
    chosen = relaxed.chosen
    if relaxed.bound - floor > rounded_off(relaxed.bound):
        better = _improved(scan, relaxed, floor)
        chosen = chosen if better is None else better
    found = _fused(track, limits, _as_picks(track, chosen))
    return found if _worth(found) > _worth(known) + rounded_off(relaxed.bound) else known


def _worth(picks: Iterable[Pick]) -> float:
    return fsum(pick.value for pick in picks)


def _as_picks(track: Track, spans: Sequence[tuple[int, int]]) -> tuple[Pick, ...]:
    """Return segments as picks, with their exact values."""
    starts, ends = (np.array([span[side] for span in spans], np.int64) for side in (0, 1))
    values, queries = exact_values(track, starts, ends)
    return tuple(map(Pick, starts.tolist(), ends.tolist(), values.tolist(), queries.tolist()))


def _fused(track: Track, limits: Limits, picks: Sequence[Pick]) -> tuple[Pick, ...]:
    """Return the picks with those made one that touch, are of one query, and may be one segment."""
    spans: list[tuple[int, int]] = []
    queries: list[int] = []
    reach = reaches(track, limits)
    for pick in picks:
        if spans and spans[-1][1] == pick.start and queries[-1] == pick.query and pick.end <= reach[spans[-1][0]]:
            spans[-1] = (spans[-1][0], pick.end)
        else:
            spans.append((pick.start, pick.end))
            queries.append(pick.query)
    return _as_picks(track, spans)


def _improved(scan: Scan, relaxed: Relaxed, floor: float) -> list[tuple[int, int]] | None:
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
    pool: Candidates, relaxed: Relaxed, sides: tuple[Side, Side], least: float, budget: int
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

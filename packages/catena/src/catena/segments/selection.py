"""Select segments of a chunk sequence: greedily, as the article and dsRAG do, or with the largest sum of values.

Greedy selection takes the best segment that still fits, again and again.

Optimal selection is an exact dynamic programme over places and costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import NamedTuple

import numpy as np

from catena.segments.sequence import ChunkSequence, Floats, Ints, SelectedSegment, SelectionBounds, reaches

_FEW = 100  # starts whose sums are added first


def greedy(sequence: ChunkSequence, limits: SelectionBounds, *, joint: bool = False) -> tuple[SelectedSegment, ...]:
    """Select disjoint segments one by one, each the best that is left, until budget or queries are used up.

    A candidate lies in one run, begins and ends with a value >= 0, overlaps no earlier pick (of any query) and
    fits the limits and what is left of the budget. Its value is the sum of its chunks' values, added left to
    right. Of equal ones the lowest start wins, then the shortest, then the lowest query. A query whose best
    candidate is worth less than the minimum, or that has none, retires.

    It costs a few vector operations over n for each pick; sums are added only from starts whose bound says that
    they could be the best.

    Args:
        sequence: the values of all queries.
        limits: of one segment and of all.
        joint: pick the best of all queries each time; else each query has its turn (dsRAG).

    Returns:
        The picks, in the order they were made.

    Source: dsRAG 0.5.6, `get_best_segments`; the article, "best segments".
    """
    reach, left = reaches(sequence, limits), limits.budget
    bounds = [_bounds(row, reach, limits.max_chunks) for row in sequence.values]
    # of the queries that were asked, as long as nothing is in their way
    bests: dict[int, SelectedSegment | None] = {}
    turns = list(range(len(bounds))) if sequence.size else []
    picks: list[SelectedSegment] = []
    while turns and left > 0:
        asked = turns if joint else turns[:1]
        for query in asked:
            if query not in bests:
                bests[query] = _best(query, sequence.values[query], bounds[query], reach, limits.minimum_value)
        found = [best for query in asked if (best := bests[query])]
        turns = [query for query in turns if bests.get(query, True)]
        if not found:
            continue
        pick = min(found, key=lambda pick: (-pick.value, pick.start, pick.end, pick.query))
        picks.append(pick)
        tokens = int(sequence.tokens_of(np.array([pick.start]), np.array([pick.end]))[0])
        left -= tokens if limits.in_tokens else pick.end - pick.start
        np.minimum(reach, reaches(sequence, limits, left), out=reach)
        np.minimum(reach[: pick.start], pick.start, out=reach[: pick.start])
        reach[pick.start : pick.end] = np.arange(pick.start, pick.end)
        bests = {query: best for query, best in bests.items() if best and best.end <= reach[best.start]}
        if not joint:
            turns = turns[1:] + turns[:1]
    return tuple(picks)


def _bounds(values: Floats, reach: Ints, longest: int) -> Floats:
    """Return for each start what no candidate from there is worth more than: all its values > 0; -inf for none."""
    prefix = np.concatenate(([0.0], np.cumsum(np.maximum(values, 0.0))))
    # `cumsum` adds in order, each time wrong by half a unit in the last place of the largest sum at most
    rounding = 4.0 * (longest + 2) * float(np.finfo(np.float64).eps) * prefix[-1]
    return np.where(values >= 0, prefix[reach] - prefix[:-1] + rounding, -np.inf)


def _best(query: int, values: Floats, bounds: Floats, reach: Ints, minimum: float) -> SelectedSegment | None:
    """Return a query's best candidate, or None if it is worth less than the minimum.

    The best of a few starts shows which others could be better: their sums are added, and are their bounds then.
    """
    few = np.argpartition(-bounds, min(_FEW, len(bounds) - 1))[:_FEW]
    sums, _ = _best_sums(values, few[bounds[few] >= minimum], reach)
    starts = np.flatnonzero(bounds >= max(minimum, sums.max(initial=-np.inf)))
    sums, ends = _best_sums(values, starts, reach)
    bounds[starts] = sums
    if sums.max(initial=-np.inf) < minimum:
        return None
    first = int(sums.argmax())
    return SelectedSegment(int(starts[first]), int(ends[first]), float(sums[first]), query)


def _best_sums(values: Floats, starts: Ints, reach: Ints) -> tuple[Floats, Ints]:
    """Return the best sum of a candidate from each start, added left to right, and its end: the first of equal ones.

    Args:
        values: of one query.
        starts: each with a value >= 0.
        reach: for every place, the last end allowed; where that is the start itself, the sum is -inf.
    """
    widths = reach[starts] - starts
    sums = np.zeros(len(starts))
    best, ends = np.full(len(starts), -np.inf), starts.copy()
    for length in range(1, int(widths.max(initial=0)) + 1):
        within = widths >= length
        added = values[np.where(within, starts + length - 1, starts)]
        sums += added
        better = within & (added >= 0) & (sums > best)
        best[better], ends[better] = sums[better], starts[better] + length
    return best, ends


SAME = 1e-11  # relative: sums that differ by less count as equal: they may have been added in another order


def optimal(sequence: ChunkSequence, limits: SelectionBounds) -> tuple[SelectedSegment, ...]:
    """Return the selection of disjoint segments with the largest sum of values within the budget.

    A candidate of a query lies in one run, begins and ends with a value >= 0 of that query, fits the limits of one
    segment, and is worth the minimum. A segment counts with the most that it is worth to a query of which it is a
    candidate (of equal ones the lowest), so queries are taken together, and the result is never worth less than
    what `greedy` finds, in turns or joint.

    Ties: greedy's joint selection is returned unless another is worth more by a relative 1e-11; which of several
    such depends on the values alone, never on an order of hashing. Segments of one query that touch are one where
    the limits allow it: they are worth the same together.

    Cost: a vector operation over n for each length and query, then one over the budget for each candidate. The
    memory is a byte for each unit of the budget at each place where candidates begin or end (two bytes where
    segments may be longer than 255 chunks): 400 MB for a budget of 4,000 tokens where they do at 100,000 places.

    Args:
        sequence: the values of all queries.
        limits: of one segment and of all.

    Returns:
        The segments, in order of place.
    """
    known = _as_picks(sequence, sorted((pick.start, pick.end) for pick in greedy(sequence, limits, joint=True)))
    best = _best_disjoint(_candidates(sequence, limits), limits.budget)
    found = _fused(sequence, limits, _as_picks(sequence, best))
    least = fsum(pick.value for pick in known)
    return found if fsum(pick.value for pick in found) > least + SAME * max(1.0, least) else known


class _Candidates(NamedTuple):
    """Segments that may be selected, by end and then by start: parallel arrays."""

    starts: Ints
    ends: Ints
    values: Floats
    costs: Ints


def _candidates(sequence: ChunkSequence, limits: SelectionBounds) -> _Candidates:
    """Return all candidates that are worth anything, or as many of a length as can matter.

    Where each costs its length, few of a length can: the other segments of a selection have at most
    `budget - length` chunks, each of which is in `length` segments of that length. So among one more than
    `(budget - length) * length` of them is one that overlaps none of the others and could be taken instead.
    """
    reach, n = reaches(sequence, limits), sequence.size
    sums, edges = np.zeros_like(sequence.values), sequence.values >= 0
    starts, ends, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
    for length in range(1, int((reach - np.arange(n)).max(initial=0)) + 1):
        count = n - length + 1
        sums = sums[:, :count] + sequence.values[:, length - 1 :]  # of the `length` values from each place
        allowed = edges[:, :count] & edges[:, length - 1 :]
        worth = np.where(allowed, sums, -np.inf).max(axis=0, initial=-np.inf)
        within = reach[:count] >= np.arange(length, n + 1)
        which = np.flatnonzero(within & (worth >= limits.minimum_value) & (worth > 0))
        if not limits.in_tokens:
            most = (limits.budget - length) * length + 1
            which = which[np.argsort(-worth[which], kind="stable")[:most]]
        starts.append(which)
        ends.append(which + length)
        values.append(worth[which])
    first, last, value = np.concatenate(starts), np.concatenate(ends), np.concatenate(values)
    order = np.lexsort((first, last))
    first, last = first[order], last[order]
    costs = sequence.tokens_of(first, last) if limits.in_tokens else last - first
    return _Candidates(first, last, value[order], costs)


def _best_disjoint(candidates: _Candidates, budget: int) -> list[tuple[int, int]]:
    """Return the disjoint candidates worth most together whose cost is within the budget, in order of place.

    From one border (where a candidate begins or ends) to the next: the most that candidates up to here are worth
    for each cost is what it was at the border before, or a candidate that ends here and the most up to its start.
    """
    starts, ends, values, costs = candidates
    borders = np.unique(np.concatenate([starts, ends]))
    begins, closes = np.searchsorted(borders, starts), np.searchsorted(borders, ends)
    ending = np.searchsorted(closes, np.arange(len(borders) + 1)).tolist()
    budget, longest = min(budget, int(costs.sum())), int((closes - begins).max(initial=0))
    best = np.zeros((longest + 1, budget + 1))  # at the last borders: each takes the place of one out of reach
    last = np.zeros((len(borders), budget + 1), np.min_scalar_type(longest))  # of those ending there; 0: none
    for at in range(1, len(borders)):
        here = best[at % len(best)]
        here[:] = best[(at - 1) % len(best)]
        for number in range(ending[at], ending[at + 1]):
            cost = costs[number]
            with_it = best[begins[number] % len(best), : budget + 1 - cost] + values[number]
            better = with_it > here[cost:]
            if better.any():
                here[cost:][better] = with_it[better]
                last[at, cost:][better] = number - ending[at] + 1
    chosen: list[tuple[int, int]] = []
    at, left = len(borders) - 1, budget
    while at > 0:
        if last[at, left]:
            number = ending[at] + int(last[at, left]) - 1
            chosen.append((int(starts[number]), int(ends[number])))
            at, left = int(begins[number]), left - int(costs[number])
        else:
            at -= 1
    return chosen[::-1]


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

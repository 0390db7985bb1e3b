"""Greedy and optimal selection: by hand, against the rule as published, against brute force, and as laws."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise
from math import fsum, nextafter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.model import ParameterError
from catena.segments import ChunkSequence, SelectedSegment, SelectionBounds, greedy, optimal
from catena.segments.selection import exact_values
from conftest import needs_data

Rows = list[list[float]]


def track(
    rows: Sequence[Sequence[float]], ends: Sequence[int] | None = None, **counted: Sequence[int]
) -> ChunkSequence:
    values = np.array(rows, np.float64).reshape(len(rows), -1)
    arrays: Any = {name: np.array(numbers, np.int64) for name, numbers in counted.items()}
    return ChunkSequence(
        values=values, ends=np.array([values.shape[1]] if ends is None else ends, np.int64), **arrays
    )


def limits(longest: int, budget: int, minimum: float = 0.0, **more: Any) -> SelectionBounds:
    return SelectionBounds(max_chunks=longest, budget=budget, minimum_value=minimum, **more)


def spans(picks: Sequence[SelectedSegment]) -> list[tuple[int, int]]:
    return [(pick.start, pick.end) for pick in picks]


def worth(picks: Sequence[SelectedSegment]) -> float:
    return fsum(pick.value for pick in picks)


def as_published(rows: Rows, ends: Sequence[int], of: SelectionBounds) -> list[SelectedSegment]:
    """The published rule, candidate by candidate: scan starts, then ends; strictly better wins; queries in turns."""
    picks: list[SelectedSegment] = []
    retired: set[int] = set()
    query, used = 0, 0
    while used < of.budget and len(retired) < len(rows):
        best = None
        for start in range(len(rows[query]) if query not in retired else 0):
            for end in range(start + 1, min(start + of.max_chunks, len(rows[query])) + 1):
                blocked = (
                    min(rows[query][start], rows[query][end - 1]) < 0
                    or any(start < pick.end and end > pick.start for pick in picks)
                    or any(start < border < end for border in ends)
                    or used + end - start > of.budget
                )
                value = 0.0
                for number in rows[query][start:end]:
                    value += number
                if not blocked and (best is None or value > best.value):
                    best = SelectedSegment(start, end, value, query)
        if best is None or best.value < of.minimum_value:
            retired.add(query)
        else:
            picks.append(best)
            used += best.end - best.start
        query = (query + 1) % len(rows)
    return picks


def brute_force(on: ChunkSequence, of: SelectionBounds) -> float:
    """The best sum of all selections, place by place and unit by unit of the budget."""
    found: dict[int, list[tuple[int, float, int]]] = {}
    for start in range(on.size):
        for end in range(start + 1, min(start + of.max_chunks, int(on.run_ends[start])) + 1):
            sums = [sum(row[start:end].tolist()) for row in on.values if min(row[start], row[end - 1]) >= 0]
            tokens = int(on.tokens_of(np.array([start]), np.array([end]))[0])
            if sums and max(sums) >= of.minimum_value and tokens <= (of.max_tokens or tokens):
                found.setdefault(start, []).append((end, max(sums), tokens if of.in_tokens else end - start))

    @cache
    def best(start: int, left: int) -> float:
        if start >= on.size:
            return 0.0
        taken = [value + best(end, left - cost) for end, value, cost in found.get(start, ()) if cost <= left]
        return max([best(start + 1, left), *taken])

    return best(0, of.budget)


numbers = st.one_of(
    st.sampled_from([-0.2, -0.1, -0.0, 0.0, 0.1, 0.2, 0.3]), st.floats(-1, 1).map(lambda value: round(value, 3))
)


@st.composite
def problems(draw: st.DrawFn, *, tokens: bool = True) -> tuple[ChunkSequence, SelectionBounds]:
    size, queries = draw(st.integers(0, 14)), draw(st.integers(1, 3))
    rows = [draw(st.lists(numbers, min_size=size, max_size=size)) for _ in range(queries)]
    ends = [*sorted(draw(st.sets(st.integers(1, size - 1), max_size=3))), size] if size > 1 else [size]
    in_tokens = tokens and draw(st.booleans())
    counts = st.lists(st.integers(0, 9), min_size=size, max_size=size)
    return (
        track(rows, ends, tokens=draw(counts), heads=draw(counts)),
        limits(
            draw(st.integers(1, 6)),
            draw(st.integers(1, 40 if in_tokens else 10)),
            draw(st.sampled_from([-1.0, 0.0, 0.1, 0.3, 0.5])),
            in_tokens=in_tokens,
            max_tokens=draw(st.none() | st.integers(1, 20)) if tokens else None,
        ),
    )


# By hand.


def test_the_best_run_is_picked_first_and_a_gap_is_crossed_if_that_pays() -> None:
    on = track([[0.3, -0.1, 0.4, -0.9, 0.5]])
    assert greedy(on, limits(5, 5, 0.2)) == (
        SelectedSegment(0, 3, pytest.approx(0.6), 0),
        SelectedSegment(4, 5, 0.5, 0),
    )
    assert spans(greedy(on, limits(5, 1, 0.2))) == [(4, 5)]
    assert spans(greedy(on, limits(2, 5, 0.2))) == [(4, 5), (2, 3), (0, 1)]
    assert greedy(on, limits(5, 5, 0.7)) == ()


def test_queries_take_turns_or_the_best_goes_first() -> None:
    on = track([[0.9, -1, 0.8, -1, 0.1], [0.1, -1, 0.2, -1, 0.5]])
    assert [(pick.start, pick.query) for pick in greedy(on, limits(1, 3))] == [(0, 0), (4, 1), (2, 0)]
    assert [(pick.start, pick.query) for pick in greedy(on, limits(1, 2), joint=True)] == [(0, 0), (2, 0)]


def test_ties_go_to_the_lowest_start_then_the_shortest_then_the_lowest_query() -> None:
    assert spans(greedy(track([[0.5, 0.0, 0.5]]), limits(1, 1))) == [(0, 1)]
    assert spans(greedy(track([[0.0, 0.5, 0.0]]), limits(3, 1 + 2))) == [(0, 2), (2, 3)]
    for select in (partial(greedy, joint=True), optimal):
        assert select(track([[0.5], [0.5]]), limits(1, 1))[0].query == 0
    joint = greedy(track([[-1, 0.5, -1], [0.5, -1, -1]]), limits(1, 1), joint=True)
    assert [(pick.start, pick.query) for pick in joint] == [(0, 1)]  # the start counts before the query
    shorter = greedy(track([[0.25, 0.25], [0.5, -1]]), limits(2, 1 + 1), joint=True)[0]
    assert (shorter.start, shorter.end, shorter.query) == (0, 1, 1)  # and so does the length


def test_sums_that_only_rounding_tells_apart_are_added_again() -> None:
    """The prefix sums of equal values are not equally rounded; the picks must not depend on that."""
    on = track([[0.1] * 60])
    assert spans(greedy(on, limits(3, 9))) == [(0, 3), (3, 6), (6, 9)]


def test_a_budget_in_tokens_counts_headers() -> None:
    on = track([[0.5, 0.4, -0.6, 0.95]], tokens=[10, 10, 10, 10], heads=[5, 5, 5, 5])
    assert spans(greedy(on, limits(4, 40, in_tokens=True))) == [(3, 4), (0, 2)]
    assert spans(greedy(on, limits(4, 39, in_tokens=True))) == [(3, 4), (0, 1)]
    assert spans(greedy(on, limits(4, 4, max_tokens=24))) == [(3, 4), (0, 1), (1, 2)]
    assert spans(optimal(on, limits(4, 30, in_tokens=True))) == [(0, 1), (3, 4)]


def test_the_best_sum_is_found_where_greedy_takes_too_much_at_once() -> None:
    on = track([[0.5, -0.3, 0.6, -1, 0.7]])
    of = limits(3, 3, 0.5)  # the first is worth exactly that
    assert greedy(on, of) == (SelectedSegment(0, 3, pytest.approx(0.8), 0),)
    assert spans(optimal(on, of)) == [(0, 1), (2, 3), (4, 5)]
    assert worth(optimal(on, of)) == pytest.approx(1.8)


def test_a_gap_is_crossed_where_the_parts_alone_are_below_the_minimum() -> None:
    on = track([[0.4, -0.1, 0.4]])
    assert optimal(on, limits(3, 3, 0.5)) == (SelectedSegment(0, 3, pytest.approx(0.7), 0),)


def test_a_segment_counts_for_the_query_that_values_it_most() -> None:
    """Neighbours that different queries value most are two segments, for each its own."""
    on = track([[0.3, 0.3, -1, -1], [0.1, 0.9, -1, 0.2]])
    assert [(pick.start, pick.end, pick.query) for pick in optimal(on, limits(2, 4))] == [
        (0, 1, 0),
        (1, 2, 1),
        (3, 4, 1),
    ]
    assert [(pick.start, pick.end, pick.query) for pick in optimal(on, limits(2, 4, 0.4))] == [(0, 2, 1)]


@pytest.mark.parametrize("select", [greedy, optimal])
def test_a_segment_worth_exactly_the_minimum_is_taken(select: Any) -> None:
    assert select(track([[0.1, 0.2]]), limits(2, 2, 0.1 + 0.2)) == (SelectedSegment(0, 2, 0.1 + 0.2, 0),)
    assert select(track([[0.1, 0.2]]), limits(2, 2, nextafter(0.1 + 0.2, 1.0))) == ()
    assert select(track([[0.1, 0.2]]), limits(2, 2, 0.3000001)) == () == select(track([[0.5]]), limits(1, 1, 0.51))


def test_a_segment_is_worth_nothing_to_a_query_that_would_not_begin_or_end_there() -> None:
    values, queries = exact_values(track([[-0.1, 0.9], [0.3, 0.2]]), np.array([0, 1]), np.array([2, 2]))
    assert (values.tolist(), queries.tolist()) == ([0.5, 0.9], [1, 0])


@pytest.mark.parametrize("select", [greedy, optimal])
def test_nothing_comes_of_nothing(select: Any) -> None:
    assert select(track([[]]), limits(3, 3)) == ()
    assert select(track([[-0.1, -0.2]]), limits(3, 3, -5)) == ()


# Against the reference.


def test_every_reference_selection_comes_out() -> None:
    oracle = json.loads(needs_data("segments_oracle.json").read_text())
    for case in oracle["direct_best_segments"]:
        on = track(case["relevance_values"], case["document_splits"])
        picks = greedy(on, limits(case["max_length"], case["overall_max_length"], case["minimum_value"]))
        assert spans(picks) == [tuple(span) for span in case["segments"]], case["name"]
        assert [pick.value for pick in picks] == case["scores"], case["name"]


# Laws.


@given(problems(tokens=False))
def test_greedy_picks_what_the_published_rule_picks(problem: tuple[ChunkSequence, SelectionBounds]) -> None:
    on, of = problem
    assert list(greedy(on, of)) == as_published(on.values.tolist(), on.ends.tolist(), of)


@pytest.mark.parametrize("seed", range(4))
def test_greedy_picks_the_same_where_few_sums_are_added(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums are added from the starts whose bounds are high: none that could be the best may be left out."""
    monkeypatch.setattr("catena.segments.selection._FEW", 3)
    draw = np.random.default_rng(seed)
    values = draw.normal(-0.02, 0.35, (3, 120)) if seed % 2 else draw.choice([-0.3, -0.2, -0.1, 0.1], (3, 120))
    sparse = np.where(draw.random((3, 120)) < 0.07, 0.4, -0.18)
    for rows in (values, sparse):
        on, of = track(rows.tolist(), [50, 51, 120]), limits(7, 30, 0.2)
        assert list(greedy(on, of)) == as_published(rows.tolist(), [50, 51, 120], of)


@given(problems())
def test_optimal_is_what_brute_force_finds(problem: tuple[ChunkSequence, SelectionBounds]) -> None:
    on, of = problem
    assert worth(optimal(on, of)) == pytest.approx(brute_force(on, of), abs=1e-9)


@pytest.mark.parametrize("in_tokens", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_optimal_agrees_with_a_dense_programme_where_few_candidates_can_matter(seed: int, in_tokens: bool) -> None:
    """Where each costs its length, only the best of a length are kept."""
    draw = np.random.default_rng(seed)
    values = draw.normal(0.1, 0.5, 1_500)
    tokens = draw.integers(3, 9, 1_500)
    on = track([values.tolist()], tokens=tokens, heads=0 * tokens)
    of = limits(6, 61 if in_tokens else 12, 0.2, in_tokens=in_tokens)
    best = np.zeros((on.size + 1, of.budget + 1))
    prefix = np.concatenate(([0.0], np.cumsum(values)))
    for end in range(1, on.size + 1):
        best[end] = best[end - 1]
        for start in range(max(0, end - of.max_chunks), end):
            value = prefix[end] - prefix[start]
            cost = int(tokens[start:end].sum()) if in_tokens else end - start
            if min(values[start], values[end - 1]) >= 0 and value >= of.minimum_value and cost <= of.budget:
                best[end, cost:] = np.maximum(best[end, cost:], best[start, : of.budget + 1 - cost] + value)
    assert worth(optimal(on, of)) == pytest.approx(best[-1, -1], abs=1e-9)


@given(problems(), st.sampled_from(["turns", "joint", "optimal"]))
def test_selections_keep_to_every_limit(problem: tuple[ChunkSequence, SelectionBounds], how: str) -> None:
    on, of = problem
    before = on.values.copy()
    picks = optimal(on, of) if how == "optimal" else greedy(on, of, joint=how == "joint")
    starts, ends = (np.array([getattr(pick, side) for pick in picks], np.int64) for side in ("start", "end"))
    tokens = on.tokens_of(starts, ends)
    assert (ends - starts <= of.max_chunks).all()
    assert (on.run_ends[starts] >= ends).all()
    assert (tokens <= (of.max_tokens or tokens.max(initial=0))).all()
    assert (tokens.sum() if of.in_tokens else (ends - starts).sum()) <= of.budget
    assert all(pick.value >= of.minimum_value for pick in picks)
    ordered = sorted(spans(picks))
    assert all(one[1] <= other[0] for one, other in pairwise(ordered))
    for pick in picks:
        row = on.values[pick.query]
        assert min(row[pick.start], row[pick.end - 1]) >= 0
        assert pick.value == sum(row[pick.start : pick.end].tolist())
    assert (on.values == before).all()


# What is refused.


def test_a_track_must_fit_together() -> None:
    with pytest.raises(ParameterError, match="finite numbers"):
        track([[0.1, float("nan")]])
    with pytest.raises(ParameterError, match="ends must be ascending ends of runs, the last 2"):
        track([[0.1, 0.2]], [1])
    with pytest.raises(ParameterError, match="ends"):
        track([[0.1, 0.2]], [2, 1, 2])
    with pytest.raises(ParameterError, match="tokens must be one number for each of 2 chunks"):
        track([[0.1, 0.2]], tokens=[1])

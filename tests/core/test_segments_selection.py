"""Settings of extraction, values of chunks, and the selection of the best runs: by hand, by references, as laws."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from math import exp, fsum, nextafter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.model import Hit, ParameterError, Ranking, Scale, ScaleError
from catena.segments import (
    BALANCED,
    FIND_ALL,
    PRECISION,
    ChunkSequence,
    ExtractionParams,
    SelectedSegment,
    SelectionBounds,
    check_probabilities,
    chunk_values,
    documents_considered,
    dsrag_compatible,
    greedy,
    length_factors,
    length_for_penalty,
    optimal,
    penalty_for_length,
    preset,
    weighted_values,
    within_budget,
)
from catena.segments.params import PENALTY_LENGTHS
from catena.segments.selection import _best_sums, exact_values
from catena.segments.sequence import neighbour_bonus
from conftest import needs_data

NUMBERS = (
    "max_chunks", "overall_max_chunks", "minimum_value", "irrelevance_penalty", "extension", "decay_rate", "top_k",
)  # fmt: skip
THEIRS = (
    "max_length", "overall_max_length", "minimum_value", "irrelevant_chunk_penalty", "overall_max_length_extension",
    "decay_rate", "top_k_for_document_selection",
)  # fmt: skip


def numbers(params: ExtractionParams) -> tuple[float, ...]:
    return tuple(getattr(params, name) for name in NUMBERS)


def test_the_presets_are_the_published_ones_and_compatible_settings_are_dsrags() -> None:
    assert numbers(BALANCED) == (15, 30, 0.5, 0.18, 5, 30, 10)
    assert numbers(PRECISION) == (15, 30, 0.7, 0.2, 5, 30, 10)
    assert numbers(FIND_ALL) == (40, 200, 0.4, 0.18, 0, 200, 200)
    assert ExtractionParams() == BALANCED == preset("balanced")
    assert (BALANCED.length_adjustment, BALANCED.reference_length) == ("scale", 700)
    assert [BALANCED.budget_in_chunks(queries) for queries in (0, 1, 2, 6)] == [30, 30, 35, 55]
    params = dsrag_compatible(PRECISION)
    assert numbers(params) == numbers(PRECISION)
    assert (params.length_adjustment, params.selection, params.joint) == ("boost_only", "greedy", False)
    assert (params.order, params.merge) == ("picked", False)


def test_the_presets_are_those_of_the_reference() -> None:
    path = needs_data("segments_oracle.json")
    for name, theirs in json.loads(path.read_text())["presets"].items():
        assert numbers(preset(name)) == tuple(theirs[key] for key in THEIRS)


def test_optimal_selection_takes_the_queries_together() -> None:
    assert not BALANCED.joint
    assert replace(BALANCED, selection="optimal").joint
    assert replace(BALANCED, queries="joint").joint
    with pytest.raises(ParameterError, match="it has no turns"):
        replace(BALANCED, selection="optimal", queries="round_robin")


def test_settings_out_of_their_domain_are_named() -> None:
    wrong: Any
    for wrong in ({"minimum_value": float("nan")}, {"irrelevance_penalty": 1.01}, {"lending": 1.0}, {"merge": 1}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            ExtractionParams(**wrong)
    with pytest.raises(ParameterError, match="one of balanced, precision, find_all, got 'precise'"):
        preset("precise")
    for wrong in (0, float("nan"), "4", True):
        with pytest.raises(ParameterError, match="chunks must be a finite number > 0"):
            penalty_for_length(wrong)
    for wrong in (-0.1, 1.1, None):
        with pytest.raises(ParameterError, match="penalty must be a number in"):
            length_for_penalty(wrong)
    for wrong in ({"penalty": 0.0}, {"penalty": 0.9}, {"believed": 1.5}, {"share": 0.0}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            within_budget([ranking(3)], 100, count=words, **wrong)


@pytest.mark.parametrize(("penalty", "fewest", "most"), PENALTY_LENGTHS)
def test_each_row_of_the_table_gives_its_own_penalty(penalty: float, fewest: int, most: int) -> None:
    assert penalty_for_length((fewest * most) ** 0.5) == pytest.approx(penalty)
    assert fewest <= length_for_penalty(penalty) <= most


def test_penalties_outside_the_table_stay_at_its_ends() -> None:
    assert [penalty_for_length(chunks) for chunks in (1_000, 0.01)] == pytest.approx([0.05, 0.4])
    assert [length_for_penalty(penalty) for penalty in (0, 1)] == [length_for_penalty(end) for end in (0.05, 0.4)]


@given(st.floats(0.05, 0.4))
def test_penalty_and_length_are_inverse(penalty: float) -> None:
    assert penalty_for_length(length_for_penalty(penalty)) == pytest.approx(penalty)


WORDS = 6  # of each chunk


def words(text: str) -> int:
    return len(text.split())


def ranking(n: int) -> Ranking:
    text = " ".join(["word"] * WORDS)
    chunks = (chunk(f"c{i:03}", text, position=i, start=40 * i) for i in range(n))
    return Ranking(tuple(Hit(chunk, 1.0) for chunk in chunks), Scale.RANK)


def test_the_first_rank_without_room_is_worth_nothing_and_headers_queries_and_neighbours_leave_less() -> None:
    params = within_budget([ranking(10)], 4 * WORDS + 1, count=words, lending=0.0, share=1.0)
    assert 0.8 * exp(-4 / params.decay_rate) == pytest.approx(0.1)
    assert (params.overall_max_tokens, params.minimum_value, params.irrelevance_penalty) == (25, 0.0, 0.1)
    assert (params.length_adjustment, params.lending, params.top_k, params.max_chunks) == ("off", 0.0, 10, 15)
    with_header = within_budget([ranking(10)], 25, count=words, header=lambda found: "a b c", share=1.0)
    assert 0.8 * exp(-2 / with_header.decay_rate) == pytest.approx(0.1), "25 hold two chunks of 6 with headers of 3"
    of_two = within_budget([ranking(10), ranking(3)], 25, count=words, share=1.0)
    assert 0.8 * exp(-2 / of_two.decay_rate) == pytest.approx(0.1), "12 hold two chunks of 6"
    alone = within_budget([ranking(99)], 600, count=words, lending=0.0, share=1.0)
    bringing = within_budget([ranking(99)], 600, count=words)
    assert bringing.lending == 0.5
    assert bringing.decay_rate == pytest.approx(alone.decay_rate / 2)
    assert alone.top_k == bringing.top_k == 99


# Values of chunks: the formulas by hand and by the reference's grids, and which documents are considered.


def hit(document: str, position: int, score: float) -> Hit:
    return Hit(chunk(f"{document}{position}", document_id=document, position=position), score)


def test_a_value_is_the_decayed_probability_less_the_penalty_and_lengths_weigh_as_each_rule_says() -> None:
    values = chunk_values([0, 30, 60], [0.9, 0.9, 0.0], penalty=0.18, decay_rate=30)
    assert values.tolist() == pytest.approx([0.72, 0.9 * exp(-1) - 0.18, -0.18])
    lengths = [0, 70, 350, 700, 1400]
    assert length_factors(lengths, "scale").tolist() == [0, 0.1, 0.5, 1, 2]
    assert length_factors(lengths, "floor").tolist() == [0.5, 0.5, 0.5, 1, 2]
    assert length_factors(lengths, "boost_only").tolist() == [1, 1, 1, 1, 2]
    assert length_factors(lengths, "off").tolist() == [1, 1, 1, 1, 1]
    assert length_factors([100], "scale", reference=200).tolist() == [0.5]


@pytest.mark.parametrize(
    ("adjustment", "absent"), [("scale", -0.36), ("floor", -0.09), ("boost_only", -0.18), ("off", -0.18)]
)
def test_crossing_a_chunk_costs_what_reading_it_costs_in_scale_alone(adjustment: Any, absent: float) -> None:
    ranks, lengths = np.array([[0, -1]]), np.array([700, 1400])
    params = replace(BALANCED, length_adjustment=adjustment)
    values, decays, _, factors = weighted_values(ranks, np.array([[0.5, 0.0]]), lengths, params=params)
    assert values.tolist() == [pytest.approx([0.32, absent])]
    assert decays.tolist() == [[1.0, 0.0]]
    assert values == pytest.approx((decays * [0.5, 0] - 0.18) * factors)


def test_a_hit_lends_to_its_neighbours_and_to_no_other_run() -> None:
    worths = np.array([[0.0, 0.8, 0.0, 0.0, 0.4], [0.6, 0.5, 0.0, 0.0, 0.0]])
    lent = neighbour_bonus(worths, np.array([3, 5]), 0.5)
    assert lent.tolist() == [[0.4, 0.0, 0.4, 0.2, 0.0], [0.25, 0.3, 0.25, 0.0, 0.0]]
    ranks, lengths = np.array([[-1, 0, -1]]), np.array([700, 700, 1400])
    params = replace(BALANCED, lending=0.5)
    found = weighted_values(ranks, np.array([[0.0, 0.8, 0.0]]), lengths, params=params, ends=np.array([3]))
    assert found.values.tolist() == [pytest.approx([0.4 - 0.18, 0.8 - 0.18, 2 * (0.4 - 0.18)])]
    assert found.bonuses.tolist() == [[0.4, 0.0, 0.4]]


def test_the_reference_grids_come_out() -> None:
    oracle = json.loads(needs_data("segments_oracle.json").read_text())
    for rank, probability, penalty, decay, value in oracle["chunk_value_grid"]:
        found = float(chunk_values(rank, probability, penalty=penalty, decay_rate=decay))
        assert found == pytest.approx(value, abs=1e-12)
    for value, length, today, seed_era in oracle["length_adjust_grid"]:
        assert value * length_factors(length, "boost_only") == pytest.approx(today, abs=1e-12)
        assert value * length_factors(length, "scale") == pytest.approx(seed_era, abs=1e-12)


def test_lengths_without_meaning_are_refused() -> None:
    wrong: Any = (([-1], "scale", 700), ([1], "scale", 0), ([1], "no", 1))
    for lengths, adjustment, reference in wrong:
        with pytest.raises(ParameterError):
            length_factors(lengths, adjustment, reference=reference)


def test_documents_are_those_of_the_first_chunks_by_best_rank_then_id() -> None:
    first = Ranking((hit("b", 0, 0.9), hit("b", 1, 0.8), hit("a", 0, 0.7), hit("c", 0, 0.6)), Scale.PROBABILITY)
    second = Ranking((hit("d", 0, 0.9), hit("a", 3, 0.8)), Scale.PROBABILITY)
    assert documents_considered([first, second], 2) == ("b", "d", "a")
    assert documents_considered([first, second], 3) == ("b", "d", "a")
    assert documents_considered([first], 4) == ("b", "a", "c")
    assert documents_considered([], 4) == ()


def test_similarities_are_no_probabilities() -> None:
    good = Ranking((hit("a", 0, 0.5),), Scale.PROBABILITY)
    check_probabilities([good])
    with pytest.raises(ScaleError, match=r"ranking 1.*rerank and calibrate first.*got 'similarity'"):
        check_probabilities([good, Ranking((), Scale.SIMILARITY)])
    with pytest.raises(ParameterError, match=r"score of chunk 'a0' must be a probability in \[0, 1\], got 1.5"):
        check_probabilities([Ranking((hit("a", 0, 1.5),), Scale.PROBABILITY)])


# Greedy and optimal selection: by hand, against the rule as published, against brute force, and as laws.

Rows = list[list[float]]


def track(rows: Sequence[Sequence[float]], ends: Any = None, **counted: Sequence[int]) -> ChunkSequence:
    values = np.array(rows, np.float64).reshape(len(rows), -1)
    counted["ends"] = [values.shape[1]] if ends is None else ends
    arrays: Any = {name: np.array(numbers, np.int64) for name, numbers in counted.items()}
    return ChunkSequence(values=values, **arrays)


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


amounts = st.one_of(
    st.sampled_from([-0.2, -0.1, -0.0, 0.0, 0.1, 0.2, 0.3]), st.floats(-1, 1).map(lambda value: round(value, 3))
)


Problem = tuple[ChunkSequence, SelectionBounds]


@st.composite
def problems(draw: st.DrawFn, *, tokens: bool = True) -> Problem:
    size, queries = draw(st.integers(0, 14)), draw(st.integers(1, 3))
    rows = [draw(st.lists(amounts, min_size=size, max_size=size)) for _ in range(queries)]
    ends = [*sorted(draw(st.sets(st.integers(1, size - 1), max_size=3))), size] if size > 1 else [size]
    in_tokens = tokens and draw(st.booleans())
    counts = st.lists(st.integers(0, 9), min_size=size, max_size=size)
    most, minimum = draw(st.none() | st.integers(1, 20)), draw(st.sampled_from([-1.0, 0.0, 0.1, 0.3, 0.5]))
    longest, budget = draw(st.integers(1, 6)), draw(st.integers(1, 40 if in_tokens else 10))
    of = limits(longest, budget, minimum, in_tokens=in_tokens, max_tokens=most if tokens else None)
    return track(rows, ends, tokens=draw(counts), heads=draw(counts)), of


# By hand.


def test_the_best_run_is_picked_first_over_a_gap_if_that_pays_and_queries_take_turns_or_not() -> None:
    on = track([[0.3, -0.1, 0.4, -0.9, 0.5]])
    best, other = SelectedSegment(0, 3, pytest.approx(0.6), 0), SelectedSegment(4, 5, 0.5, 0)
    assert greedy(on, limits(5, 5, 0.2)) == (best, other)
    assert spans(greedy(on, limits(5, 1, 0.2))) == [(4, 5)]
    assert spans(greedy(on, limits(2, 5, 0.2))) == [(4, 5), (2, 3), (0, 1)]
    assert greedy(on, limits(5, 5, 0.7)) == ()
    on = track([[0.9, -1, 0.8, -1, 0.1], [0.1, -1, 0.2, -1, 0.5]])
    assert [(pick.start, pick.query) for pick in greedy(on, limits(1, 3))] == [(0, 0), (4, 1), (2, 0)]
    assert [(pick.start, pick.query) for pick in greedy(on, limits(1, 2), joint=True)] == [(0, 0), (2, 0)]


def test_ties_go_to_the_lowest_start_then_the_shortest_then_the_lowest_query() -> None:
    assert spans(greedy(track([[0.5, 0.0, 0.5]]), limits(1, 1))) == [(0, 1)]
    assert spans(greedy(track([[0.0, 0.5, 0.0]]), limits(3, 1 + 2))) == [(0, 2), (2, 3)]
    for select in (partial(greedy, joint=True), optimal):
        assert select(track([[0.5], [0.5]]), limits(1, 1))[0].query == 0
    assert spans(optimal(track([[0.25] * 3]), limits(2, 3))) == [(0, 2), (2, 3)]  # as greedy has it
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


def test_the_best_sum_is_found_where_greedy_takes_too_much_and_a_gap_is_crossed_where_parts_are_too_little() -> None:
    on = track([[0.5, -0.3, 0.6, -1, 0.7]])
    of = limits(3, 3, 0.5)  # the first is worth exactly that
    assert greedy(on, of) == (SelectedSegment(0, 3, pytest.approx(0.8), 0),)
    assert spans(optimal(on, of)) == [(0, 1), (2, 3), (4, 5)]
    assert worth(optimal(on, of)) == pytest.approx(1.8)
    on = track([[0.4, -0.1, 0.4]])
    assert optimal(on, limits(3, 3, 0.5)) == (SelectedSegment(0, 3, pytest.approx(0.7), 0),)


def test_a_segment_counts_for_the_query_that_values_it_most() -> None:
    """Neighbours that different queries value most are two segments, for each its own."""
    on = track([[0.3, 0.3, -1, -1], [0.1, 0.9, -1, 0.2]])
    for minimum, expected in ((0.0, [(0, 1, 0), (1, 2, 1), (3, 4, 1)]), (0.4, [(0, 2, 1)])):
        assert [(pick.start, pick.end, pick.query) for pick in optimal(on, limits(2, 4, minimum))] == expected


@pytest.mark.parametrize("select", [greedy, optimal])
def test_a_segment_worth_exactly_the_minimum_is_taken(select: Any) -> None:
    assert select(track([[0.1, 0.2]]), limits(2, 2, 0.1 + 0.2)) == (SelectedSegment(0, 2, 0.1 + 0.2, 0),)
    assert select(track([[0.1, 0.2]]), limits(2, 2, nextafter(0.1 + 0.2, 1.0))) == ()
    assert select(track([[0.1, 0.2]]), limits(2, 2, 0.3000001)) == () == select(track([[0.5]]), limits(1, 1, 0.51))
    assert select(track([[]]), limits(3, 3)) == () == select(track([[-0.1, -0.2]]), limits(3, 3, -5))


def test_a_segment_is_worth_nothing_to_a_query_that_would_not_begin_or_end_there() -> None:
    values, queries = exact_values(track([[-0.1, 0.9], [0.3, 0.2]]), np.array([0, 1]), np.array([2, 2]))
    assert (values.tolist(), queries.tolist()) == ([0.5, 0.9], [1, 0])


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
def test_greedy_picks_what_the_published_rule_picks(problem: Problem) -> None:
    on, of = problem
    assert list(greedy(on, of)) == as_published(on.values.tolist(), on.ends.tolist(), of)


@pytest.mark.parametrize("seed", range(4))
def test_greedy_picks_the_same_where_few_sums_are_added(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums are added from the starts whose bounds are high: none that could be the best may be left out."""
    monkeypatch.setattr("catena.segments.selection._FEW", 3)
    added: list[int] = []
    monkeypatch.setattr(
        "catena.segments.selection._best_sums",
        lambda values, starts, reach: added.append(len(starts)) or _best_sums(values, starts, reach),
    )
    draw = np.random.default_rng(seed)
    values = draw.normal(-0.02, 0.35, (3, 120)) if seed % 2 else draw.choice([-0.3, -0.2, -0.1, 0.1], (3, 120))
    sparse = np.where(draw.random((3, 120)) < 0.07, 0.4, -0.18)
    for rows in (values, sparse):
        on, of = track(rows.tolist(), [50, 51, 120]), limits(7, 30, 0.2)
        assert list(greedy(on, of)) == as_published(rows.tolist(), [50, 51, 120], of)
    rows = np.where(np.arange(120) % 2, -9.0, np.arange(120) + 1.0)[None]
    added.clear()
    greedy(track(rows.tolist()), limits(1, 1, 0.2))
    assert added == [3, 1]


@given(problems())
def test_optimal_is_what_brute_force_finds(problem: Problem) -> None:
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
def test_selections_keep_to_every_limit(problem: Problem, how: str) -> None:
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
    for values, given_, said in (
        ([0.1, float("nan")], {}, "finite numbers"),
        ([0.1, 0.2], {"ends": [1]}, "ends must be ascending ends of runs, the last 2"),
        ([0.1, 0.2], {"ends": [2, 1, 2]}, "ends"),
        ([0.1, 0.2], {"tokens": [1]}, "tokens must be one number for each of 2 chunks"),
    ):
        with pytest.raises(ParameterError, match=said):
            track([values], **given_)

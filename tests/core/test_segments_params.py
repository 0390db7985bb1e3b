"""Settings of extraction: the published presets, the penalty table, refusals, and the settings for a budget."""

from __future__ import annotations

import json
from dataclasses import replace
from math import exp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.model import Hit, ParameterError, Ranking, Scale
from catena.segments import (
    BALANCED,
    FIND_ALL,
    PRECISION,
    ExtractionParams,
    dsrag_compatible,
    length_for_penalty,
    penalty_for_length,
    preset,
    within_budget,
)
from catena.segments.params import PENALTY_LENGTHS
from conftest import needs_data


def numbers(params: ExtractionParams) -> tuple[float, ...]:
    return (
        params.max_chunks,
        params.overall_max_chunks,
        params.minimum_value,
        params.irrelevance_penalty,
        params.extension,
        params.decay_rate,
        params.top_k,
    )


def test_the_presets_are_the_published_ones() -> None:
    assert numbers(BALANCED) == (15, 30, 0.5, 0.18, 5, 30, 10)
    assert numbers(PRECISION) == (15, 30, 0.7, 0.2, 5, 30, 10)
    assert numbers(FIND_ALL) == (40, 200, 0.4, 0.18, 0, 200, 200)
    assert ExtractionParams() == BALANCED == preset("balanced")
    assert (BALANCED.length_adjustment, BALANCED.reference_length) == ("scale", 700)


def test_the_presets_are_those_of_the_reference() -> None:
    path = needs_data("segments_oracle.json")
    for name, theirs in json.loads(path.read_text())["presets"].items():
        assert numbers(preset(name)) == (
            theirs["max_length"],
            theirs["overall_max_length"],
            theirs["minimum_value"],
            theirs["irrelevant_chunk_penalty"],
            theirs["overall_max_length_extension"],
            theirs["decay_rate"],
            theirs["top_k_for_document_selection"],
        )


def test_the_budget_grows_with_each_further_query() -> None:
    assert [BALANCED.budget_in_chunks(queries) for queries in (0, 1, 2, 6)] == [30, 30, 35, 55]


def test_compatible_settings_are_dsrags() -> None:
    params = dsrag_compatible(PRECISION)
    assert numbers(params) == numbers(PRECISION)
    assert (params.length_adjustment, params.selection, params.joint) == ("boost_only", "greedy", False)
    assert (params.order, params.merge) == ("picked", False)


def test_optimal_selection_takes_the_queries_together() -> None:
    assert not BALANCED.joint
    assert replace(BALANCED, selection="optimal").joint
    assert replace(BALANCED, queries="joint").joint
    with pytest.raises(ParameterError, match="it has no turns"):
        replace(BALANCED, selection="optimal", queries="round_robin")


def test_settings_out_of_their_domain_are_named() -> None:
    wrong: Any
    for wrong in (
        *({"max_chunks": 0}, {"top_k": -1}, {"extension": False}, {"minimum_value": float("nan")}, {"lending": 1.0}),
        *(
            {"irrelevance_penalty": 1.01},
            {"decay_rate": 0},
            {"length_adjustment": "on"},
            {"order": "value"},
            {"merge": 1},
        ),
    ):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            ExtractionParams(**wrong)
    with pytest.raises(ParameterError, match="one of balanced, precision, find_all, got 'precise'"):
        preset("precise")
    for chunks in (0, float("nan"), "4", True):
        with pytest.raises(ParameterError, match="chunks must be a finite number > 0"):
            penalty_for_length(chunks)  # type: ignore[arg-type]
    for penalty in (-0.1, 1.1, None):
        with pytest.raises(ParameterError, match="penalty must be a number in"):
            length_for_penalty(penalty)  # type: ignore[arg-type]
    for wrong in ({"penalty": 0.0}, {"penalty": 0.9}, {"believed": 1.5}, {"share": 0.0}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            within_budget([ranking(3)], 100, count=words, **wrong)


@pytest.mark.parametrize(("penalty", "fewest", "most"), PENALTY_LENGTHS)
def test_each_row_of_the_table_gives_its_own_penalty(penalty: float, fewest: int, most: int) -> None:
    typical = (fewest * most) ** 0.5
    assert penalty_for_length(typical) == pytest.approx(penalty)
    assert length_for_penalty(penalty) == pytest.approx(typical)
    assert fewest <= length_for_penalty(penalty) <= most


def test_penalties_outside_the_table_stay_at_its_ends() -> None:
    assert penalty_for_length(1_000) == pytest.approx(0.05)
    assert penalty_for_length(0.01) == pytest.approx(0.4)
    assert length_for_penalty(0) == length_for_penalty(0.05)
    assert length_for_penalty(1) == length_for_penalty(0.4)


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


def test_the_first_rank_that_does_not_fit_is_worth_nothing() -> None:
    params = within_budget([ranking(10)], 4 * WORDS + 1, count=words, lending=0.0, share=1.0)
    assert 0.8 * exp(-4 / params.decay_rate) == pytest.approx(0.1)
    assert (params.overall_max_tokens, params.minimum_value, params.irrelevance_penalty) == (25, 0.0, 0.1)
    assert (params.length_adjustment, params.lending, params.top_k, params.max_chunks) == ("off", 0.0, 10, 15)


def test_headers_and_further_queries_leave_room_for_fewer() -> None:
    with_header = within_budget([ranking(10)], 25, count=words, header=lambda found: "a b c", share=1.0)
    assert 0.8 * exp(-2 / with_header.decay_rate) == pytest.approx(0.1), "25 hold two chunks of 6 with headers of 3"
    of_two = within_budget([ranking(10), ranking(3)], 25, count=words, share=1.0)
    assert 0.8 * exp(-2 / of_two.decay_rate) == pytest.approx(0.1), "12 hold two chunks of 6"


def test_hits_that_bring_their_neighbours_are_fewer() -> None:
    alone = within_budget([ranking(99)], 600, count=words, lending=0.0, share=1.0)
    bringing = within_budget([ranking(99)], 600, count=words)
    assert bringing.lending == 0.5
    assert bringing.decay_rate == pytest.approx(alone.decay_rate / 2)
    assert alone.top_k == bringing.top_k == 99

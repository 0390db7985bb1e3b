"""Settings of segment extraction: the published presets, the article's penalty table, and what is refused."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.model import ParameterError
from catena.segments import (
    BALANCED,
    FIND_ALL,
    PRECISION,
    PRESETS,
    ExtractionParams,
    dsrag_compatible,
    length_for_penalty,
    penalty_for_length,
    preset,
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


def test_an_unknown_preset_is_named_with_those_that_there_are() -> None:
    with pytest.raises(ParameterError, match="one of balanced, precision, find_all, got 'precise'"):
        preset("precise")


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


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            (name, value)
            for name in ("max_chunks", "overall_max_chunks", "top_k")
            for value in (0, -1, 1.5, True, "3")
        ),
        *(("extension", value) for value in (-1, 0.5, False)),
        *((name, value) for name in ("max_tokens", "overall_max_tokens") for value in (0, -5, 2.0, True)),
        *(("minimum_value", value) for value in (float("nan"), float("inf"), "0.5", None)),
        *(("irrelevance_penalty", value) for value in (-0.1, 1.01, float("nan"), None)),
        *(("lending", value) for value in (-0.1, 1, 1.0, float("nan"), None)),
        *(("decay_rate", value) for value in (0, -1.0, float("inf"), float("nan"), "30")),
        *(("reference_length", value) for value in (0, 700.0)),
        *(("length_adjustment", value) for value in ("on", True, None, ["scale"])),
        *(("selection", value) for value in ("best", None)),
        *(("queries", value) for value in ("all", 1, ["joint"])),
        *(("order", value) for value in ("value", None)),
        *(("merge", value) for value in (1, None)),
    ],
)
def test_every_field_is_checked(field: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=field) as caught:
        ExtractionParams(**{field: value})
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(("penalty", "fewest", "most"), PENALTY_LENGTHS)
def test_each_row_of_the_table_gives_its_own_penalty(penalty: float, fewest: int, most: int) -> None:
    typical = (fewest * most) ** 0.5
    assert penalty_for_length(typical) == pytest.approx(penalty)
    assert length_for_penalty(penalty) == pytest.approx(typical)
    assert fewest <= length_for_penalty(penalty) <= most


def test_the_table_is_the_articles() -> None:
    assert PENALTY_LENGTHS == ((0.05, 20, 50), (0.1, 10, 20), (0.2, 4, 10), (0.3, 2, 6), (0.4, 1, 3))


def test_penalties_outside_the_table_stay_at_its_ends() -> None:
    assert penalty_for_length(1_000) == pytest.approx(0.05)
    assert penalty_for_length(0.01) == pytest.approx(0.4)
    assert length_for_penalty(0) == length_for_penalty(0.05)
    assert length_for_penalty(1) == length_for_penalty(0.4)


@given(st.floats(0.05, 0.4))
def test_penalty_and_length_are_inverse(penalty: float) -> None:
    assert penalty_for_length(length_for_penalty(penalty)) == pytest.approx(penalty)


@given(st.floats(0.1, 100), st.floats(0.1, 100))
def test_longer_segments_need_a_lower_penalty(one: float, other: float) -> None:
    shorter, longer = sorted((one, other))
    assert penalty_for_length(longer) <= penalty_for_length(shorter) + 1e-12


@pytest.mark.parametrize("chunks", [0, -3, float("nan"), float("inf"), "4", True])
def test_a_length_must_be_a_positive_number(chunks: Any) -> None:
    with pytest.raises(ParameterError, match="chunks must be a finite number > 0"):
        penalty_for_length(chunks)


@pytest.mark.parametrize("penalty", [-0.1, 1.1, float("nan"), None])
def test_a_penalty_must_be_in_its_domain(penalty: Any) -> None:
    with pytest.raises(ParameterError, match="penalty must be a number in"):
        length_for_penalty(penalty)


def test_presets_by_name_are_all_there() -> None:
    assert list(PRESETS) == ["balanced", "precision", "find_all"]

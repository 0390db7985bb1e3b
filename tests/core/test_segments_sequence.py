"""Values of chunks: the formulas by hand and by the reference's grids, and which documents are considered."""

from __future__ import annotations

import json
from dataclasses import replace
from math import exp
from typing import Any

import numpy as np
import pytest
from retrieval_cases import chunk

from catena.model import Hit, ParameterError, Ranking, Scale, ScaleError
from catena.segments import (
    BALANCED,
    LengthAdjustment,
    check_probabilities,
    chunk_values,
    documents_considered,
    length_factors,
    weighted_values,
)
from catena.segments.sequence import neighbour_bonus
from conftest import needs_data


def hit(document: str, position: int, score: float) -> Hit:
    return Hit(chunk(f"{document}{position}", document_id=document, position=position), score)


def test_a_value_is_the_decayed_probability_less_the_penalty() -> None:
    values = chunk_values([0, 30, 60], [0.9, 0.9, 0.0], penalty=0.18, decay_rate=30)
    assert values.tolist() == pytest.approx([0.72, 0.9 * exp(-1) - 0.18, -0.18])


def test_lengths_weigh_as_each_rule_says() -> None:
    lengths = [0, 70, 350, 700, 1400]
    assert length_factors(lengths, "scale").tolist() == [0, 0.1, 0.5, 1, 2]
    assert length_factors(lengths, "floor").tolist() == [0.5, 0.5, 0.5, 1, 2]
    assert length_factors(lengths, "boost_only").tolist() == [1, 1, 1, 1, 2]
    assert length_factors(lengths, "off").tolist() == [1, 1, 1, 1, 1]
    assert length_factors([100], "scale", reference=200).tolist() == [0.5]


@pytest.mark.parametrize(
    ("adjustment", "absent"), [("scale", -0.36), ("floor", -0.09), ("boost_only", -0.18), ("off", -0.18)]
)
def test_crossing_a_chunk_costs_what_reading_it_costs_in_scale_alone(
    adjustment: LengthAdjustment, absent: float
) -> None:
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
        assert float(chunk_values(rank, probability, penalty=penalty, decay_rate=decay)) == pytest.approx(
            value, abs=1e-12
        )
    for value, length, today, seed_era in oracle["length_adjust_grid"]:
        assert value * length_factors(length, "boost_only") == pytest.approx(today, abs=1e-12)
        assert value * length_factors(length, "scale") == pytest.approx(seed_era, abs=1e-12)


@pytest.mark.parametrize(
    ("lengths", "adjustment", "reference"), [([-1], "scale", 700), ([1], "scale", 0), ([1], "no", 1)]
)
def test_lengths_without_meaning_are_refused(lengths: Any, adjustment: Any, reference: int) -> None:
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

"""Settings for rankings whose order alone is believed: as many ranks are worth reading as the budget holds."""

from __future__ import annotations

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.model import Chunk, Hit, ParameterError, Ranking, Scale
from catena.segments import within_budget

WORDS = 6  # of each chunk


def words(text: str) -> int:
    return len(text.split())


def ranking(n: int) -> Ranking:
    text = " ".join(["word"] * WORDS)
    chunks = (
        Chunk(id=f"c{i:03}", document_id="d", position=i, start=40 * i, end=40 * i + len(text), text=text)
        for i in range(n)
    )
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


@given(st.integers(0, 30), st.integers(0, 200), st.integers(0, 4))
def test_there_are_settings_for_every_ranking_and_budget(n: int, budget: int, queries: int) -> None:
    params = within_budget([ranking(n)] * queries, max(1, budget), count=words)
    assert params.decay_rate > 0
    assert params.top_k >= 10


@pytest.mark.parametrize("given", [{"penalty": 0.0}, {"penalty": 0.9}, {"believed": 1.5}, {"share": 0.0}])
def test_numbers_out_of_their_domain_are_named(given: dict) -> None:
    with pytest.raises(ParameterError, match=next(iter(given))):
        within_budget([ranking(3)], 100, count=words, **given)

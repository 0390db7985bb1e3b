"""Explanations of extraction: each chunk's share in the decision, and the reason where it is in no segment."""

from __future__ import annotations

import json
from dataclasses import replace
from math import exp

import pytest

from catena.effects import Services, run
from catena.model import Chunk, Hit, Ranking, Scale
from catena.segments import BALANCED, Explanation, ExtractionParams, explain, extract

PLAIN = replace(BALANCED, length_adjustment="off", max_chunks=3)


def chunk(name: str, number: int) -> Chunk:
    return Chunk(
        id=f"{name}{number}", document_id=name, position=number, start=9 * number, end=9 * number + 5, text="words"
    )


def explained(*found: tuple[str, int, float], params: ExtractionParams = PLAIN) -> Explanation:
    ranking = Ranking(tuple(Hit(chunk(name, number), score) for name, number, score in found), Scale.PROBABILITY)
    return explain(run(extract([ranking], params=params, count=len), Services(store=Empty())))


class Empty:
    """A store that holds no chunk and no text."""

    identity, routes = "empty", ()

    def search(self, request: object) -> Ranking:
        return Ranking((), Scale.SIMILARITY)


def test_every_chunk_shows_what_made_its_value() -> None:
    told = explained(("a", 4, 0.9), ("a", 5, 0.8))
    assert [(row.document_id, row.position, row.segment, row.why) for row in told.chunks] == [
        ("a", 4, 0, ""),
        ("a", 5, 0, ""),
    ]
    (worth,) = told.chunks[1].worths
    assert (worth.query, worth.rank, worth.probability, worth.penalty, worth.factor) == (0, 1, 0.8, 0.18, 1.0)
    assert worth.decay == pytest.approx(exp(-1 / 30))
    assert worth.value == pytest.approx(0.8 * exp(-1 / 30) - 0.18)
    assert (told.spans, told.used, told.budget) == ((("a", 4, 6, pytest.approx(0.72 + worth.value)),), 2, 30)


def reason(told: Explanation, name: str, number: int) -> str:
    (row,) = [row for row in told.chunks if (row.document_id, row.position) == (name, number)]
    assert row.segment is None
    return row.why


def test_every_reason_is_given_where_it_holds() -> None:
    told = explained(("a", 0, 0.9), ("a", 9, 0.4), ("a", 20, 0.1), ("b", 0, 0.9), params=replace(PLAIN, top_k=3))
    assert reason(told, "a", 9) == "the best segment with it is worth 0.207, less than the minimum of 0.5"
    assert reason(told, "a", 20) == "worth less than 0 to every query, and no segment gains by crossing it"
    assert reason(told, "b", 0) == "its document is not among those of the first 3 chunks of a ranking"
    told = explained(("a", 0, 0.9), ("a", 9, 0.85), params=replace(PLAIN, overall_max_chunks=1))
    assert reason(told, "a", 9) == "within the budget, other segments are worth more"
    told = explained(("a", 0, 0.9), params=replace(PLAIN, max_tokens=4))
    assert reason(told, "a", 0) == "alone more than the 4 tokens that there is room for"


def test_a_left_out_chunk_has_no_value() -> None:
    told = explained(("a", 0, 0.9), ("b", 0, 0.9), params=replace(PLAIN, top_k=1))
    assert told.chunks[-1].worths[0].value is None
    assert told.chunks[-1].worths[0].rank == 1


def test_it_is_a_table_and_json() -> None:
    told = explained(("a", 4, 0.9), ("a", 5, 0.8), ("b", 1, 0.2))
    lines = told.table().splitlines()
    assert lines[0].split() == [
        "document", "chunk", "query", "rank", "P", "decay", "lent", "penalty", "length", "factor", "value", "segment",
    ]  # fmt: skip
    assert lines[1].split() == ["a", "4", "0", "0", "0.900", "1.000", "-", "0.18", "5", "1.00", "+0.720", "0"]
    assert len(lines) == 4
    again = json.loads(json.dumps(told.as_dict()))
    assert again["chunks"][0]["worths"][0]["value"] == pytest.approx(0.72)
    assert again["params"]["irrelevance_penalty"] == 0.18


def test_tokens_used_are_told_where_the_budget_is_in_tokens() -> None:
    told = explained(("a", 4, 0.9), params=replace(PLAIN, overall_max_tokens=50))
    assert (told.in_tokens, told.used, told.budget) == (True, 5, 50)

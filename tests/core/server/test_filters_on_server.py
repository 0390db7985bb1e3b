"""Filters on a server mean what they mean in the embedded library: the clauses, evaluated in Python."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from typing import Any

import pytest
from fake_server import holds
from filter_cases import fields, filters
from hypothesis import example, given, settings
from hypothesis import strategies as st

from catena.model import Chunk, Document, FilterError, matches
from catena_server.filters import CONTAINED, DEEPEST, LONGEST, facet_fields, field_of, fields_seen, filter_query
from catena_server.index_layout import FACETS, LONGEST_KEYWORD


@settings(deadline=None)
@given(st.sets(st.text(max_size=20) | st.sampled_from(["", "%", "%%", "a.b", "\ud800"]), max_size=4))
def test_the_fields_of_a_chunk_can_be_told_from_what_is_indexed(names: set[str]) -> None:
    assert sorted(map(str, map(field_of, facet_fields(dict.fromkeys(names, 1))["has"]))) == sorted(names)
    assert field_of(facet_fields({"a" * 600: 1})["has"][0]) is None


@given(filters, fields)
@example({"a": {"$contains": "ab"}}, {"a": ["ab*", "x"]})
@example({"a": {"$contains": "ab"}}, {"a": "x" * (LONGEST - 1) + "ab"})
@example({"a": {"$in": ["y", 1]}}, {"a": "y"})
@example({"a": {"$in": []}}, {"a": 1})
@example({"a": {"$gt": 2**53}}, {"a": 2**53 + 1})
@example({"a": {"$gt": 2**53 + 1}}, {"a": 2**53})
@example({"a": {"$lt": 2**53 + 3}}, {"a": 2**53 + 4})
@example({"a": {"$lt": -(2**53) - 0.0}}, {"a": -(2**53) - 1})
@example({"a": {"$gt": math.inf}}, {"a": 10**400})
@example({"a": {"$lte": 2.5}}, {"a": -(10**400)})
@example({"a": {"$contains": "\ud7fe"}}, {"a": "\ud800"})
@example({"a": {"$gt": "\ud7ff"}}, {"a": "\ud800"})
def test_a_clause_holds_where_the_filter_does(where: dict, values: dict) -> None:
    assert holds(filter_query(where), _as_sent(values)) == matches(where, values)


@given(st.integers(0, 3 * LONGEST), st.integers(1, CONTAINED))
def test_every_part_of_a_long_string_is_found(start: int, length: int) -> None:
    text = "".join(chr(0x4E00 + number % 20_011) for number in range(3 * LONGEST + CONTAINED))
    clause = filter_query({"a": {"$contains": text[start : start + length]}})
    assert holds(clause, {"facets": facet_fields({"a": text})})


def test_what_is_indexed() -> None:
    values = {"a": 1, "b": ["x", "y", "x", 2.5, True], "c": None, "d.e": -0.0, "f": 2**53 + 1, "g": math.nan, "h": []}
    assert facet_fields(values) == {
        "has": ["a", "b", "c", "d%2Ee", "f", "g", "h"],
        "many": ["b", "h"],
        "s": {"b": ["x", "y"]},
        "n": {"a": 1.0, "b": 2.5, "d%2Ee": 0.0},
        "i": {"f": "30000000e20000000000001"},
        "b": {"b": True},
    }
    assert math.copysign(1, facet_fields({"a": -0.0})["n"]["a"]) == 1


def test_many_values_are_asked_for_in_clauses_that_a_server_takes() -> None:
    clause = filter_query({"a": {"$in": list(range(100_000))}})
    assert [len(part["terms"]["facets.n.a"]) for part in clause["bool"]["should"]] == [65_536, 34_464]


def test_reserved_fields_come_before_metadata_and_pages_only_where_there_are_any() -> None:
    document = Document(id="d", text="x", title="T", metadata={"vendor": "A", "title": "other", "page": 7, "size": 1})
    chunk = Chunk(id="c", document_id="d", position=0, start=0, end=1, text="x", metadata={"size": 2, "kind": "k"})
    assert fields_seen(document, chunk) == {
        "vendor": "A", "size": 2, "page": 7, "document_id": "d", "chunk_id": "c", "title": "T", "source": "",
        "kind": "text", "path": (),
    }  # fmt: skip
    paged = fields_seen(document, replace(chunk, pages=(3, 4)))
    assert paged | {"page": 3, "last_page": 4} == paged


def test_nothing_indexed_is_longer_than_a_server_takes() -> None:
    values = {"a": "\U0001f600" * 20_000, "k" * 40_000: "\ud800" * 9_000}
    facets = facet_fields(values)
    assert set(facets) - {"has", "many"} <= set(FACETS)
    for text in (*facets["has"], *_strings(facets)):
        assert len(text.encode()) < 32_767
        assert len(text.encode("utf-16-le")) <= 2 * LONGEST_KEYWORD


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ({"a": {"$contains": "x" * (CONTAINED + 1)}}, r"\$contains looks for at most 256 characters on a server"),
        ({"a": {"$gt": "x" * LONGEST}}, r"\$gt compares with at most 3936 characters on a server, not 4000"),
        ({"a": {"$regex": "x"}}, r"unknown operator '\$regex'"),
    ],
)
def test_what_a_server_cannot_obey_is_refused(where: dict, what: str) -> None:
    with pytest.raises(FilterError, match=what) as caught:
        filter_query(where)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_deep_nests_are_made_flat_and_deeper_ones_refused() -> None:
    flat: dict = {"a": 1}
    for _ in range(24):
        flat = {"$not": {"$and": [flat]}}
    assert filter_query(flat) == {"term": {"facets.n.a": 1.0}}
    deep: dict = {"a": 1}
    for number in range(DEEPEST):
        deep = {"$and" if number % 2 else "$or": [deep, {"b": number}]}
    with pytest.raises(FilterError, match=f"nested {DEEPEST + 1} deep; a server takes {DEEPEST}"):
        filter_query(deep)


def _as_sent(values: dict[str, Any]) -> dict[str, Any]:
    sent = json.dumps({"facets": facet_fields(values)}, ensure_ascii=False, allow_nan=False)
    return json.loads(sent.encode("utf-8"))  # fails where it is not valid


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in _strings(part)]

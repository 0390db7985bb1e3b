"""Filters on metadata."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.model import FilterError, check, checked, compiled, matches, plain_metadata, surely
from catena.model.filters import nowhere_in_filter, spelled

FIELDS = {
    "vendor": "Atmel", "ram": 512, "clock": 16.0, "new": True, "path": ["Manual", "Hardware"], "page": 3,
    "empty": None, "a'; DROP TABLE documents; --": "odd",
}  # fmt: skip

scalars = st.one_of(st.text(max_size=3), st.integers(-3, 3), st.floats(-3, 3), st.booleans())
names = st.sampled_from(["a", "b", "c"])
conditions = st.one_of(
    scalars,
    st.fixed_dictionaries({"$ne": scalars}),
    st.fixed_dictionaries({"$in": st.lists(scalars, max_size=3)}),
    st.fixed_dictionaries({"$gt": st.integers(-3, 3)}),
    st.fixed_dictionaries({"$contains": st.text(max_size=1)}),
    st.fixed_dictionaries({"$exists": st.booleans()}),
)
filters = st.dictionaries(names, conditions, max_size=2)
fields = st.dictionaries(names, st.one_of(scalars, st.lists(st.text(max_size=2), max_size=2)), max_size=3)


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ({}, True),
        ({"vendor": "Atmel"}, True),
        ({"vendor": "Atmel", "ram": 1}, False),
        ({"ram": 512.0}, True),
        ({"new": 1}, False),
        ({"new": True}, True),
        ({"missing": {"$ne": "x"}}, True),
        ({"missing": {"$nin": ["x"]}}, True),
        ({"missing": {"$exists": False}}, True),
        ({"ram": {"$exists": True}}, True),
        ({"ram": {"$gte": 512, "$lt": 513}}, True),
        ({"ram": {"$gte": 512, "$lt": 512}}, False),
        ({"ram": {"$gt": 512}}, False),
        ({"ram": {"$lte": 512}}, True),
        ({"ram": {"$lte": 511}}, False),
        ({"ram": {"$lt": 512}}, False),
        ({"empty": {"$gt": 5}}, False),
        ({"new": {"$gte": 1}}, False),
        ({"vendor": {"$gt": "Arm"}}, True),
        ({"vendor": {"$in": ["TI", "Atmel"]}}, True),
        ({"vendor": {"$contains": "tme"}}, True),
        ({"path": "Hardware"}, True),
        ({"path": {"$contains": "Hardware"}}, True),
        ({"path": {"$contains": "Hard"}}, False),
        ({"path": {"$ne": "Hardware"}}, False),
        ({"a'; DROP TABLE documents; --": "odd"}, True),
    ],
)
def test_the_grammar(where: dict, holds: bool) -> None:
    assert matches(where, FIELDS) is holds


@settings(deadline=None)
@given(filters, filters, fields)
def test_the_laws_of_logic(one: dict, other: dict, values: dict) -> None:
    a, b = matches(one, values), matches(other, values)
    assert matches({"$and": [one, other]}, values) == (a and b)
    assert matches({"$or": [one, other]}, values) == (a or b)
    assert matches({"$not": one}, values) == (not a)
    assert compiled(one)(values) == a


@given(st.lists(filters, min_size=1, max_size=2), st.sampled_from(["$and", "$or"]), st.booleans(), fields, fields)
def test_what_is_sure_of_some_fields_is_so_whatever_the_others_are(
    parts: list, together: str, negated: bool, known: dict, others: dict
) -> None:
    where = {"$not": {together: parts}} if negated else {together: parts}
    every = {**dict.fromkeys("abc", 0), **known}
    for holds in (True, False):
        assert not surely(where, known, holds=holds) or matches(where, {**others, **known}) is holds
        assert surely(where, every, holds=holds) is (matches(where, every) is holds)


@pytest.mark.parametrize(
    "where",
    [
        "vendor = 'x'", {1: "x"}, {"$nor": [{"a": 1}]}, {"$and": []}, {"$or": ["a"]}, {"$not": [{"a": 1}]}, {"a": {}},
        {"a": {"$regex": ".*"}}, {"a": None}, {"a": float("nan")}, {"a": {"$in": "abc"}}, {"a": {"$gt": True}},
        {"a": {"$exists": 1}},
    ],
)  # fmt: skip
def test_a_malformed_filter_is_refused_whatever_the_data(where: object) -> None:
    with pytest.raises(FilterError) as caught:
        check(where)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_filter_nested_without_end_is_refused() -> None:
    where: dict = {"a": 1}
    for _ in range(10_000):
        where = {"$not": where}
    with pytest.raises(FilterError, match="nested more than 50 deep"):
        check(where)


def test_values_of_other_types_are_in_their_order() -> None:
    east = timezone(timedelta(hours=5))
    kept = plain_metadata(
        {"price": Decimal("12.50"), "at": datetime(2026, 3, 1, 2, tzinfo=east), "n": 7}, "document 'a'"
    )
    midnight = datetime(2026, 3, 1, tzinfo=UTC)
    assert matches({"price": {"$gt": Decimal("9")}, "at": {"$lt": midnight}, "n": {"$gte": Decimal("1")}}, kept)
    assert not matches({"price": {"$lt": 9}}, kept)


@pytest.mark.parametrize("value", [date(2026, 1, 2), np.int64(7), np.float32(0.5), PurePosixPath("a/b.md"), True])
def test_an_operand_is_compared_as_metadata_are_kept(value: object) -> None:
    kept = plain_metadata({"vendor": value}, "document 'a'")
    for where in ({"vendor": value}, {"vendor": {"$in": [value]}}, {"$not": {"vendor": {"$nin": {value}}}}):
        assert matches(where, kept)
        assert matches(checked(where, FIELDS), kept)
        assert json.dumps(checked(where, FIELDS))


@given(st.lists(filters, min_size=1, max_size=3), st.sampled_from(["$and", "$or"]), st.booleans(), fields)
def test_nothing_is_refused_that_could_be_found(parts: list, together: str, negated: bool, has: dict) -> None:
    where = {"$not": {together: parts}} if negated else {together: parts}
    try:
        checked(where, {*has, "page"})
    except FilterError:
        assert not matches(where, has)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"heading_path": "Manual › 4 Mounting › 4.2 Cover"}, True),
        ({"headings": {"$in": ["x", "4 Mounting › 4.2 Cover"]}}, True),
        ({"header_path": "/4 Mounting/4.2 Cover/"}, True),
        ({"header_path": "/4 Mounting/A\\/B/"}, False),
        ({"heading_path": {"$ne": "4 Mounting › 4.2 Cover"}}, False),
        ({"heading_path": "4 Mounting › 5 Use"}, False),
        ({"header_path": "/4 Mounting/4.2 Cover"}, False),  # which neither writes
        ({"headings": {"$contains": "4 Mounting › 4.2 Cover"}}, False),
        ({"headings": {"$nin": ["4.2 Cover"]}}, False),
    ],
)
def test_a_path_is_taken_as_hits_show_it(said: dict, found: bool) -> None:
    fields = {"path": ("4 Mounting", "4.2 Cover"), "title": "Manual"}
    assert matches(checked(said, ["path", "title"]), fields) == found


@pytest.mark.parametrize(
    ("where", "told"),
    [
        *((where, None) for where in ({}, {"page": 3}, {"lang": {"$ne": "de"}}, {"$not": {"lang": "de"}})),
        ({"last_page": 3}, None),  # always a field, also where no document has pages
        ({"$or": [{"lang": "de"}, {"ram": 512}]}, None),
        ({"ram": 512, "vendro": {"$in": ["Atmel"]}}, r"has the field 'vendro'\. Did you mean 'vendor'\?"),
        ({"vendro": {"$exists": True}}, r"has the field 'vendro'\. Did you mean 'vendor'\?"),
        ({"$and": [{"ram": 1}, {"$or": [{"vendro": 1}, {"vendro": {"$gt": 2}}]}]}, "has the field 'vendro'"),
        ({"first_line": 1}, "has the field 'first_line'.*hits show it, filters do not know it"),
        ({"file_name": 1}, "has the field 'file_name'.*Did you mean 'source'"),
        ({"id": 1}, "has the field 'id'.*Did you mean 'document_id'"),
        ({"zzz": 1}, "'zzz'; known: document_id, chunk_id, "),
        ({"a": {"$regex": "x"}}, r"unknown operator '\$regex' for field 'a'; known: \$eq, \$ne, \$in"),
    ],
)
def test_a_field_that_is_nowhere_is_refused_with_the_nearest_unless_the_filter_may_hold(
    where: dict, told: str
) -> None:
    if told is None:
        assert matches(checked(where, FIELDS), FIELDS) in (True, False)
    else:
        with pytest.raises(FilterError, match=told):
            checked(where, FIELDS)


HELD = {
    "vendor": ["Atmel", "TI"], "year": [2022, 2023], "version": ["3", "4"], "mixed": [3, "3"], "flag": [True],
    "few": [*range(12)], "many": [*range(13)], "chunk_id": ["a"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ({"vendor": "atmel"}, {"vendor": {"$in": ["Atmel"]}}),
        ({"vendor": {"$in": ["ti", "x"]}}, {"vendor": {"$in": ["TI", "x"]}}),
        ({"vendor": {"$ne": "ti"}}, {"vendor": {"$nin": ["TI"]}}),
        ({"vendor": {"$contains": "T"}}, {"vendor": {"$in": ["Atmel", "TI"]}}),
        ({"vendor": {"$contains": "."}}, {"vendor": {"$contains": "."}}),
        ({"year": "2022"}, {"year": {"$in": [2022]}}),
        ({"mixed": 3}, {"mixed": {"$in": [3]}}),
        ({"mixed": "3"}, {"mixed": {"$in": ["3"]}}),
        ({"flag": True}, {"flag": {"$in": [True]}}),
        ({"year": {"$gt": 2000, "$ne": "2022"}}, {"$and": [{"year": {"$gt": 2000}}, {"year": {"$nin": [2022]}}]}),
        ({"$or": [{"vendor": "ti"}, {"$not": {"chunk_id": "A"}}]}, None),
        ({"chunk_id": "A", "other": "x"}, {"chunk_id": "A", "other": "x"}),
    ],
)
def test_a_filter_is_written_with_the_values_that_are_there(typed: dict, written: dict | None) -> None:
    found = spelled(typed, HELD, lambda _, one: lambda other: one.lower() == other.lower())
    assert found == (written or {"$or": [{"vendor": {"$in": ["TI"]}}, {"$not": {"chunk_id": "A"}}]})


@pytest.mark.parametrize(
    ("where", "told"),
    [
        *((where, "") for where in ({"vendor": "TI"}, {"other": 1}, {"vendor": {"$ne": "x"}}, {"year": {"$gt": 1}})),
        ({"vendor": {"$contains": "tm"}}, ""),
        ({"vendor": {"$in": ["x", "y"]}}, "nothing here has the vendor 'x' or 'y'; there are 'Atmel', 'TI'"),
        ({"vendor": {"$contains": "z"}}, "nothing here has the vendor 'z'; there are 'Atmel', 'TI'"),
        ({"vendor": "Atmal"}, "nothing here has the vendor 'Atmal'; there are 'Atmel', 'TI'. Did you mean 'Atmel'?"),
        ({"year": 2022, "vendor": "x"}, "nothing here has the vendor 'x'"),
        ({"few": 99}, f"nothing here has the few 99; there are {', '.join(map(str, range(12)))}"),
        ({"many": 99}, f"nothing here has the many 99; there are {', '.join(map(str, range(12)))}, …"),
        ({"year": {"$gt": "2020"}}, "year is a number here, as 2022, and is compared with '2020'"),
        ({"vendor": {"$lte": 5}}, "vendor is a text here, as 'Atmel', and is compared with 5"),
    ],
)
def test_what_in_a_filter_stands_nowhere_is_told_with_what_there_is(where: dict, told: str) -> None:
    assert nowhere_in_filter(where, HELD) == told

"""Conflicts between passages: what is certain to differ is told, what is merely written differently is not."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest
from case_files import rows_of
from hypothesis import given
from hypothesis import strategies as st

from catena.answering import conflicts, integrate
from catena.answering.fields import are_variants, fields_in, same_section, split
from catena.answering.quantities import differ, numbers_of, value_of
from catena.effects import Services, run
from catena.library import read
from catena.library.ingestion import ingest
from catena.model import Chunk, ParameterError
from catena.testing.strategies import texts


def passage(text: str, document: str = "a", *, title: str = "", path: Sequence[str] = (), line: int = 10) -> Chunk:
    return Chunk(
        id=f"{document}-{line}", document_id=document, position=0, start=0, end=len(text), text=text,
        path=tuple(path), pages=(7, 7), lines=(line, line + text.count("\n")),
        metadata={"title": title} if title else {},
    )  # fmt: skip


def found(*passages: Chunk) -> list[tuple[str, str, list[str]]]:
    return [(each.kind, each.label, [stated.value for stated in each.stated]) for each in conflicts(passages)]


# Values

SAME = rows_of("cases_values_same.txt")
UNLIKE = rows_of("cases_values_unlike.txt")


@pytest.mark.parametrize(
    ("one", "other", "expected"), [*((*pair, False) for pair in SAME), *((*pair, True) for pair in UNLIKE)]
)
def test_values_differ_only_where_that_is_certain(one, other, expected):
    assert differ(value_of(one), value_of(other)) == expected == differ(value_of(other), value_of(one))


def test_numbers_of_any_language():
    for written, numbers in (
        ("5", (5.0,)), ("1,200", (1.2, 1200.0)), ("0.075", (0.075,)), ("1,20", (1.2,)), ("1.234,5", (1234.5,)),
        ("1,234.5", (1234.5,)), ("1.234.567", (1234567.0,)), ("10 000", (10000.0,)), ("12'500.5", (12500.5,)),
        ("1234,567", (1234.567,)), ("123,456", (123.456, 123456.0)), (".500", (0.5,)), ("1,2345", (1.2345,)),
    ):  # fmt: skip
        assert numbers_of(written) == numbers


@given(*[st.text(alphabet="12590.,-+±%^×x/½³⁻ VmkGBto~≤()", max_size=24) | st.text(max_size=40)] * 2)
def test_differing_is_symmetric_and_nothing_differs_from_itself(one, other):
    first, second = value_of(one), value_of(other)
    assert differ(first, second) == differ(second, first)
    assert not differ(first, first)


@given(st.integers(1, 999), st.integers(1, 999), st.sampled_from(["V", "mA", "kHz", "bar", "mm", "%", "N·m"]))
def test_quantities_differ_by_their_numbers(one, other, unit):
    assert differ(value_of(f"{one} {unit}"), value_of(f"{other}{unit}")) == (one != other)
    is_near = abs(one - other) * 10 <= max(one, other)
    assert differ(value_of(f"{one} {unit}"), value_of(f"about {other}{unit}")) != is_near
    shifted = value_of(f"{one}.0 {unit}"), value_of(f"{one},0 {unit}")
    assert not differ(*shifted)


# Fields

TABLE = "| Quantity | Value | Note |\n| --- | --- | --- |\n| Supply voltage (V) | 24 | dc |\n| Mass | **2 kg** | |"


SIX = "one two three four five six"


def fields(text: str) -> list[tuple[str, tuple[str, ...], str, int]]:
    return [(field.label, field.key, field.value.printed, field.line) for field in fields_in(text)]


def test_the_fields_of_a_text():
    text = (
        f"# 3 Ratings\n\n{TABLE}\n\n- **Torque:** 2.4 N·m\nFuse (F1) = 250 mA\nThe mass of the cover is 1.15 kg. "
        "The colour is nice.\nWarning: wait 5 minutes\n```\nboard = M4\n```\nIt costs 5: see page 3\n"
    )
    assert fields(text) == [
        ("Supply voltage (V)", ("", "supply voltage"), "24", 4),
        ("Supply voltage (V), Note", ("note", "supply voltage"), "dc", 4),
        ("Mass", ("", "mass"), "2 kg", 5),
        ("Torque", ("", "torque"), "2.4 N·m", 7),
        ("Fuse (F1)", ("", "fuse f1"), "250 mA", 8),
        ("mass of the cover", ("", "mass of cover"), "1.15 kg", 9),
    ]
    assert {field.title for field in fields_in(text)} == {"3 Ratings"}
    assert fields_in(TABLE, "Above")[0].title == "Above"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("| Voltage | 24 V |\n| --- | --- |\n| Mass | 2 kg |", [("Voltage", "24 V", 0), ("Mass", "2 kg", 2)]),
        ("| Mass | 2 kg |\n| Fuse | 1 A |", [("Mass", "2 kg", 0), ("Fuse", "1 A", 1)]),
        ("\n| Voltage | 24 V |\n| --- | --- |", [("Voltage", "24 V", 1)]),
        (f"| {SIX} | 1 V |\n| {SIX} seven | 2 V |", [(SIX, "1 V", 0)]),
        ("| a | 1 | 2 |", []),
        ("| Item | Part |\n| --- | --- |\n| 1 | x |\n| 1 | y |\n| 2 | z |", []),
        ("| Code | Value |\n| --- | --- |\n| E1 | 5 |\n| E1 | 6 |\n| E2 | 7 |", [("E2", "7", 4)]),
        ("| a | | |\n| --- | --- | --- |\n| x | 1 | 2 |", []),
        ("<table>\n<tr><th>A<th>Value</tr>\n<tr><td>Mass</td>\n<td>2 kg</td></tr>\n</table>", [("Mass", "2 kg", 2)]),
        ("Note: 5 mm", []),
        ("the time that it takes: 5 s", []),
        ("https://example.org: 5", []),
        ("The pump is red. The range is 5 to 10 bar. The limit is 10.", [("range", "5 to 10 bar", 0)]),
        ("The value is 5 V in the factory.", []),
    ],
)
def test_fields_of_other_forms(text, expected):
    assert [(field.label, field.value.printed, field.line) for field in fields_in(text)] == expected


@given(texts())
def test_any_text_has_fields_of_its_own_lines(text):
    lines = text.split("\n")
    for field in fields_in(text):
        assert field.line < len(lines)
        assert field.value.printed
    tables, others = split(text)
    places = [place for place, _ in others]
    assert places == sorted(set(places))
    assert all(lines[place] == line for place, line in others)
    assert not set(places) & {row.line for table in tables for row in table.rows if len(row.cells) > 1}


@pytest.mark.parametrize(
    ("one", "other", "same", "variants"),
    [
        ("3.1 Ratings", "4.2 ratings", True, False), ("Channel 1", "Channel 2", False, True),
        ("Model A", "Model B", False, True), ("2 HX200", "3 HX210", False, True), ("Ratings", "Wiring", False, False),
        ("Wiring of the supply", "Electrical ratings", False, False),
    ],
)  # fmt: skip
def test_titles_of_sections(one, other, same, variants):
    assert (same_section(one, other), are_variants(one, other)) == (same, variants)


# Conflicts


def test_two_documents_that_disagree():
    first = passage("# R\n\n" + TABLE, "a", title="Pump manual", path=("Pump manual", "R"))
    second = passage("Supply voltage: 12 V\nMass: 2000 g", "b", title="Pump sheet", path=("Pump sheet", "R"), line=3)
    (conflict,) = conflicts([first, second])
    assert conflict.kind == "between_documents"
    assert not conflict.expected
    stated = [(s.number, s.document, s.value, s.pages, s.line) for s in conflict.stated]
    assert stated == [(1, "Pump manual", "24", (7, 7), 14), (2, "Pump sheet", "12 V", (7, 7), 3)]
    assert conflict.stated[1].citation == "Pump sheet › R, page 7, line 3"
    said = "Passages [1] and [2] give different values for 'Supply voltage (V)': 24 [1] / 12 V [2]."
    assert conflict.note == said
    assert pickle.loads(pickle.dumps(conflict)) == conflict


def test_a_document_that_contradicts_itself_and_another_one():
    (conflict,) = conflicts([passage("Supply voltage: 24 V\n\nThe supply voltage is 12 V.")])
    assert (conflict.kind, conflict.numbers) == ("within_document", (1,))
    assert conflict.note == "Passage [1] gives different values for 'Supply voltage': 24 V [1] / 12 V [1]."
    codes = passage("Battery type: CR1220"), passage("Battery type: CR2032", line=40)
    assert found(*codes) == [("within_document", "Battery type", ["CR1220", "CR2032"])]
    here = (
        passage("Supply voltage: 24 V", path=("Ratings",)),
        passage("Supply voltage: 12 V", path=("Wiring",), line=40),
    )
    within = ("within_document", "Supply voltage", ["24 V", "12 V"])
    assert found(*here) == [within]
    there = passage("Supply voltage: 24 V", "b")
    assert found(*here, there) == [within, ("between_documents", "Supply voltage", ["12 V", "24 V"])]


def test_passages_without_line_numbers_are_apart():
    one, other = (replace(passage(f"Supply voltage: {n} V"), lines=None, id=str(n)) for n in (24, 12))
    (conflict,) = conflicts([one, other])  # not one row of a table, though both lines are unknown
    assert (conflict.kind, conflict.numbers) == ("within_document", (1, 2))
    again = replace(one, id="again")
    (conflict,) = conflicts([one, again, passage("Supply voltage: 12 V", "b")])
    assert conflict.numbers == (1, 2, 3)  # both state it
    same = passage("Supply voltage: 24 V")
    (conflict,) = conflicts([same, replace(same, id="again"), passage("Supply voltage: 12 V", "b")])
    assert conflict.numbers == (1, 3)  # one line, shown twice


ROUTES = "| Route | Route type |\n| --- | --- |\n"


DATED = "Entry date: 2024-01-01\nEntry date: 2024-01-02\nEntry date: 2024-01-03"


@pytest.mark.parametrize(
    "parts",
    [
        [("Mass: 2 kg", "a", "Cover"), ("Mass: 3 kg", "b", "Pump")],
        [("Input voltage: 2 V", "a", "Channel 1"), ("Input voltage: 3 V", "a", "Channel 2")],
        [("# A\nMass: 2 kg\n# B\nMass: 3 kg", "a")],
        [(DATED, "a"), ("Entry date: 2025-01-01", "b")],
        [("Supply voltage: 24 V", "a"), ("Supply voltage: 24V DC", "b"), ("Supply voltage: 18-36 V", "c")],
        [("Supply voltage: 24 V", "a"), ("Supply current: 2 A", "b")],
        [("Supply voltage: see below", "a"), ("Supply voltage: as ordered", "b")],
        [("```\nSupply voltage: 24 V\n```", "a"), ("Supply voltage: 12 V", "b")],
        [("Supply voltage: 24 V", "a"), ("Supply voltage: 24 V", "a")],
        [(ROUTES + "| Subnet | static |\n\n" + ROUTES + "| Subnet | open |", "a")],
        [],
    ],
)
def test_what_is_no_conflict(parts):
    passages = [passage(*part[:2], path=part[2:], line=30 * place) for place, part in enumerate(parts, start=1)]
    assert found(*passages) == []


def test_documents_on_different_products_are_expected_to_differ():
    one = passage("Supply voltage: 24 V\nMass: 2 kg", "a", title="HX200 manual")
    two = passage("Supply voltage: 12 V\nMass: 3 kg", "b", title="HX210 manual")
    same = passage("Supply voltage: 9 V", "c", title="HX200 data sheet v2")
    differing = conflicts([one, two])
    assert [conflict.expected for conflict in differing] == [True, True]
    assert "(different products: HX200 manual; HX210 manual)" in differing[0].note
    assert conflicts([one, two], expected=False) == ()
    strict = conflicts([one, two, same], expected=False)
    assert [(conflict.label, conflict.numbers) for conflict in strict] == [("Supply voltage", (1, 3))]
    for titles in (("Manual v2", "Manual v3"), ("HX200 manual", "Manual")):
        named = [passage(f"Supply voltage: {n} V", f"d{n}", title=title) for n, title in enumerate(titles)]
        assert [conflict.expected for conflict in conflicts(named)] == [False]


def test_the_age_of_a_document_is_told_where_it_is_known_and_a_value_cannot_leave_its_note():
    old = replace(passage("Supply voltage: 24 V"), metadata={"version": "2", "date": "2024-05-01", "author": "x"})
    (conflict,) = conflicts([old, passage("Supply voltage: 12 V", "b")])
    assert conflict.note.endswith("24 V [1] (version 2, date 2024-05-01) / 12 V [2].")
    (conflict,) = conflicts([passage("Supply voltage: 24 V </notes>\r[9]"), passage("Supply voltage: 12 V", "b")])
    assert "<" not in conflict.note
    assert len(conflict.note.splitlines()) == 1


def test_passages_of_a_context_are_told_by_their_numbers():
    parts = (passage("Supply voltage: 24 V", "b"), passage("Supply voltage: 12 V", "a"))
    context = integrate([part.as_segment() for part in parts])
    (conflict,) = conflicts(context.passages)
    assert [(stated.number, stated.document_id) for stated in conflict.stated] == [(1, "b"), (2, "a")]
    with pytest.raises(ParameterError, match="all different"):
        conflicts(context.passages[:1] * 2)


SUPPLIES = [f"Supply voltage: {value}" for value in ("24 V", "12 V", "0.024 kV")]
LINES = st.sampled_from([*SUPPLIES, "Mass: 2 kg", "Mass = 3 kg", "", TABLE, "# Part 1"])
PASSAGES = st.lists(st.tuples(st.lists(LINES, max_size=4).map("\n".join), st.sampled_from("abc")), max_size=5)


@given(PASSAGES)
def test_the_laws_of_conflicts(parts):
    passages = [passage(text, document, line=100 * place) for place, (text, document) in enumerate(parts, start=1)]
    given_ = conflicts(passages)
    for conflict in given_:
        documents = {stated.document_id for stated in conflict.stated}
        assert (conflict.kind == "within_document") == (len(documents) == 1)
        values = [value_of(stated.value, "V" if stated.value == "24" else "") for stated in conflict.stated]
        assert all(any(differ(value, other) for other in values) for value in values)
        for stated in conflict.stated:
            chunk = passages[stated.number - 1]
            assert stated.value.split()[0] in chunk.text
            assert stated.line is not None
            assert chunk.lines is not None
            assert chunk.lines[0] <= stated.line <= chunk.lines[1]
    flat = conflicts([replace(each, document_id="a") for each in passages])
    assert all(conflict.kind == "within_document" for conflict in flat)


# Sister manuals


@cache
def manuals() -> dict[str, tuple[Chunk, ...]]:
    found = {}
    for path in sorted((Path(str(files("catena"))) / "data" / "demo").glob("*.pdf")):
        entry = run(ingest(read(path, document_id=path.name)), Services()).entry
        found[path.name.removeprefix("halden-").partition("-")[0]] = entry.chunks
    return found


def test_sister_manuals_differ_where_they_do():
    both = conflicts((*manuals()["hx200"], *manuals()["hx210"]))
    assert {conflict.kind for conflict in both} == {"between_documents"}
    assert all(conflict.expected for conflict in both)
    told = {conflict.label: tuple(stated.value for stated in conflict.stated) for conflict in both}
    expected = {
        "Supply voltage": ("12 to 32 V DC", "18 to 36 V DC"), "Backup battery": ("CR2032", "CR1220"),
        "mass without accessories": ("0.78 kg", "1.15 kg"),
        "Calibrate against a reference, Interval": ("every 24 months", "every 12 months"),
    }  # fmt: skip
    assert {label: told.get(label) for label in (*expected, "Current output")} == {**expected, "Current output": None}
    pages = {stated.pages for conflict in both if conflict.label == "Supply voltage" for stated in conflict.stated}
    assert pages == {(6, 6)}


def test_a_cell_that_is_no_value_is_no_field():
    table = "| Parameter | Value |\n|---|---|\n| Serial number | {} |\n"
    long = [passage(table.format(digit * 100_000), name) for digit, name in (("1", "a"), ("2", "b"))]
    assert conflicts(long) == ()
    assert [len(fields_in(table.format("x" * length))) for length in (300, 301)] == [1, 0]
    assert len(conflicts([passage(table.format("11 V"), "a"), passage(table.format("22 V"), "b")])) == 1

"""Read labelled fields of a passage: table cells, lines "Label: value" or "Label = value", "The X is 5 mm."."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from catena.answering.quantities import PrintedValue, unit_of, value_of
from catena.text import atx_title, tokenise
from catena.text.tables import cells_of, is_rule, read_table

_HEADING = re.compile(r"#{1,6}\s(?P<title>.*)")
_LINE = re.compile(
    r"\s*(?:[-*+•]\s+|\d+[.)]\s+)?(?:\*\*|__)?(?P<label>[^\W\d_][^:=|<>{}*]{1,60}?)(?<!\s)(?:\*\*|__)?"
    r"\s*+(?::|(?<=\s)=)(?:\*\*|__)?\s+(?P<value>\S.{0,79})$"
)
_SENTENCE = re.compile(
    r"\b(?:[Tt]he|[Dd]ie|[Dd]er|[Dd]as)\s++(?P<label>[^.,:;|()!?]{2,50}?)(?<!\s)\s++"
    r"(?:is|are|ist|sind|beträgt|betragen)\s+(?P<value>[^,;:|!?]{1,40}?)(?=[.;](?:\s|\Z)|\Z)"
)
_UNIT_IN_LABEL = re.compile(r"(?:\((?P<round>[^()]{1,12})\)|\[(?P<square>[^\[\]]{1,12})\])\s*$")
_GENERIC = frozenset({"", "value", "values", "wert", "werte", "rating", "specification", "data", "angabe"})
_NO_LABELS = frozenset(
    {"note", "notes", "warning", "caution", "danger", "hint", "tip", "example", "important", "attention", "figure"}
    | {"table", "fig", "page", "source", "see", "http", "https", "hinweis", "achtung", "warnung", "vorsicht"}
    | {"beispiel", "abbildung", "tabelle", "seite"}
)
_RUNS_ON = frozenset({"that", "which", "who", "if", "when", "where", "it", "there", "this", "these", "because"})
_ARTICLES = frozenset({"the", "a", "an", "der", "die", "das", "den", "dem", "des"})
_LONGEST_LABEL = 6  # words
_LONGEST_VALUE = 300  # characters; a longer cell describes, and a long run of digits takes long to read


@dataclass(frozen=True, slots=True)
class Field:
    """A value with its label.

    Attributes:
        label: as printed; for a cell of a table with several columns, the row's label and the column's name.
        key: equal for fields that may be compared: the column's words, "" for what is plainly the value; the label's.
        line: from 0, in the passage.
        title: of the section of the line, "" where that is not known.
    """

    label: str
    key: tuple[str, ...]
    value: PrintedValue
    line: int
    title: str


def fields_in(text: str, title: str = "") -> tuple[Field, ...]:
    """Return the labelled fields of a passage, in the order of their lines.

    Args:
        text: Markdown.
        title: of the section in which the text begins.
    """
    tables, lines = split(text)
    headings = [(place, atx_title(match["title"])) for place, line in lines if (match := _HEADING.match(line))]

    def titled(field: Field) -> Field:
        above = [heading for place, heading in headings if place <= field.line]
        return replace(field, title=above[-1] if above else title)

    found = [field for table in tables for field in _of_table(table)]
    found.extend(field for place, line in lines if not _HEADING.match(line) for field in _of_line(place, line))
    return tuple(sorted(map(titled, found), key=lambda field: (field.line, field.key)))


def _of_table(table: _Table) -> Iterator[Field]:
    """Yield the cells behind the first of each row; none of rows whose label occurs in several of them."""
    header, rows = table.header, [row for row in table.rows if len(row.cells) > 1]
    times = Counter(_words(row.cells[0]) for row in rows)
    if len(times) < len(rows) and all(map(str.isdecimal, times)):
        return  # a column that counts things labels none of them
    for row in rows:
        if times[_words(row.cells[0])] > 1 or (not header and len(row.cells) > 2):
            continue
        for column, cell in enumerate(row.cells[1:], start=1):
            name = header[column] if column < len(header) else ""
            if len(header) > 2 and header.count(name) + (not name) > 1:  # no telling which column is which
                continue
            field = _field(row.cells[0], cell, row.line, name)
            if field is not None:
                yield field


def _of_line(place: int, line: str) -> Iterator[Field]:
    """Yield what a line of text labels: only values with a number, a date or a code, as words go on in prose."""
    match = _LINE.match(line)
    labelled = [match] if match else list(_SENTENCE.finditer(line))
    for each in labelled:
        words = set(tokenise(each["label"]))
        field = _field(each["label"], each["value"].rstrip(" .;"), place)
        if field is None or words & (_RUNS_ON | _NO_LABELS) or not field.value.is_measured:
            continue
        is_plain = not field.value.words - {code for of in field.value.codes for code in tokenise(of)}
        if match is None:
            holds = is_plain and [bool(quantity.dimension) for quantity in field.value.quantities] == [True]
        else:
            holds = not re.search(r"[.!?]\s", each["value"])
        if holds:
            yield field


def _field(label: str, printed: str, line: int, column: str = "") -> Field | None:
    """Return the field; None where there is no label that could be compared, or no value."""
    unit = ""
    name, column_name = label, column
    for written in (label, column):
        match = _UNIT_IN_LABEL.search(written)
        inside = (match["round"] or match["square"]) if match else ""
        if match and unit_of(inside):
            unit = unit or inside
            name, column_name = (
                (name[: match.start()], column) if written is label else (name, column[: match.start()])
            )
    key = _words(name)
    if len(printed) > _LONGEST_VALUE:
        return None
    if not key or not any(map(str.isalnum, printed)) or len(key.split()) > _LONGEST_LABEL:
        return None
    plain = _words(column_name) in _GENERIC
    shown = label.strip() if plain else f"{label.strip()}, {column.strip()}"
    return Field(shown, ("" if plain else _words(column_name), key), value_of(printed, unit), line, "")


def _words(text: str) -> str:
    return " ".join(word for word in tokenise(text) if word not in _ARTICLES)


def same_section(one: str, other: str) -> bool:
    """Say whether two titles of sections are equal but for their numbering, case and punctuation."""
    return _unnumbered(one) == _unnumbered(other)


def are_variants(one: str, other: str) -> bool:
    """Say whether two titles differ as those of siblings do: "Channel 1" and "Channel 2", "HX200" and "HX210"."""
    first, second = _unnumbered(one), _unnumbered(other)
    unlike = set(first) ^ set(second)
    if not unlike:
        return False
    coded = [any(any(map(str.isdigit, word)) for word in words if word in unlike) for words in (first, second)]
    return all(coded) or (
        len(first) == len(second) > 1 and sum(a != b for a, b in zip(first, second, strict=True)) == 1
    )


def _unnumbered(title: str) -> Sequence[str]:
    return tokenise(re.sub(r"^\s*(?:\d+(?:\.\d+)*\.?|[A-Z]\.\d[\d.]*)\s+(?=\S)", "", title))


_FENCE = re.compile(r"\s*(```|~~~)")
_OPENING = re.compile(r"\s*<table\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a table and its line, from 0, in the passage."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    """A table; its header is empty where the passage does not show it."""

    header: tuple[str, ...]
    rows: tuple[_Row, ...]


def split(text: str) -> tuple[tuple[_Table, ...], tuple[tuple[int, str], ...]]:
    """Return the tables of a text, and its other lines with their places, those of code left out."""
    tables: list[_Table] = []
    others: list[tuple[int, str]] = []
    lines = text.split("\n")
    place, fence = 0, ""
    while place < len(lines):
        line = lines[place]
        mark = _FENCE.match(line)
        end = place + 1
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence and line.lstrip().startswith("|"):
            end = next((at for at in range(place, len(lines)) if not lines[at].lstrip().startswith("|")), len(lines))
            tables.append(_piped(place, lines[place:end]))
        elif not fence and _OPENING.match(line):
            end = next((at + 1 for at in range(place, len(lines)) if "</table" in lines[at].lower()), len(lines))
            tables.extend(_marked_up(place, lines[place:end]))
        elif not fence:
            others.append((place, line))
        place = end
    return tuple(tables), tuple(others)


def _piped(first: int, lines: Sequence[str]) -> _Table:
    rows = [_Row(first + at, cells_of(line)) for at, line in enumerate(lines) if not is_rule(line)]
    has_header = bool(rows) and any(map(is_rule, lines[1:2]))
    if has_header and len(rows[0].cells) == 2 and value_of(rows[0].cells[1]).is_measured:  # keys and values
        has_header = False
    return _Table(rows[0].cells, tuple(rows[1:])) if has_header else _Table((), tuple(rows))


def _marked_up(first: int, lines: Sequence[str]) -> Iterator[_Table]:
    text = "\n".join(lines)
    for grid in read_table(text, 0, len(text)):
        listed = zip(grid.row_starts, grid.rows, strict=True)
        rows = tuple(_Row(first + text.count("\n", 0, start), cells) for start, cells in listed)
        yield _Table(grid.header if any(grid.header) else (), rows)

"""The tables in the text of a passage, with the line of each row; a passage may begin in the middle of one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser

from catena.text.cells import cells_of, is_rule
from catena.text.html_table import TABLE_TAGS, HtmlTable

_FENCE = re.compile(r"\s*(```|~~~)")
_OPENING = re.compile(r"\s*<table\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table and its line, from 0, in the passage."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table; its header is empty where the passage does not show it."""

    header: tuple[str, ...]
    rows: tuple[Row, ...]


def split(text: str) -> tuple[tuple[Table, ...], tuple[tuple[int, str], ...]]:
    """Return the tables of a text, and its other lines with their places, those of code left out."""
    tables: list[Table] = []
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


def _piped(first: int, lines: Sequence[str]) -> Table:
    has_header = len(lines) > 1 and is_rule(lines[1])
    rows = [Row(first + at, cells_of(line)) for at, line in enumerate(lines) if not is_rule(line)]
    return Table(rows[0].cells, tuple(rows[1:])) if has_header and rows else Table((), tuple(rows))


def _marked_up(first: int, lines: Sequence[str]) -> Iterator[Table]:
    reader = _Reader()
    reader.feed("\n".join(lines))
    reader.close()
    rows = reader.table.finish()
    header = rows.header if any(rows.header) else ()
    listed = zip(rows.starts, rows.rows, strict=True)
    yield Table(header, tuple(Row(first + start - 1, tuple(cells)) for start, cells in listed))


class _Reader(HTMLParser):
    """Reads the cells of the tables in a piece of HTML as those of one; a row begins where its line does, from 1."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.table = HtmlTable(1)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in TABLE_TAGS:
            self.table.open(tag, {name: value or "" for name, value in attrs}, self.getpos()[0])

    def handle_endtag(self, tag: str) -> None:
        if tag in TABLE_TAGS:
            self.table.close(tag)

    def handle_data(self, data: str) -> None:
        self.table.add(" ".join(data.split()))

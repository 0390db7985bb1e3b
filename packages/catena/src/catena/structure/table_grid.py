"""Tables read from Markdown: pipe tables and HTML tables as named columns and rows, with where each row stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import accumulate, pairwise

from markdown_it.rules_block.table import escapedSplit

from catena.model.merged_cells import Merged, Row, unmerged
from catena.structure.blocks import Block
from catena.structure.titles import plain_title
from catena.text.html_table import TABLE_TAGS, HtmlRows, HtmlTable

_OPENING = re.compile(r"<table\b", re.IGNORECASE)
_TAGS = re.compile(r"<(/?)table\b", re.IGNORECASE)
_BREAK = re.compile(r"<br\b[^<>]*+>", re.IGNORECASE)
_LINE = re.compile(r"[^\r\n]+")
_UNSEEN = frozenset({"script", "style", "template"})
MAX_HEADER = 1_000  # characters: a header is repeated with each later piece of its table
MAX_FILLED = 500_000  # cells that the rows of one pipe table may lack
_LONGEST_UNIT = 5  # letters: "MHz", "°C", "mA/V", "kByte"

# Quantities one after the other, each a number with a unit or none. What follows a digit is taken whole (`*+`), so
# that no text can be split in many ways. "1N4148" is none: a unit has no digits after it.
_QUANTITIES = re.compile(
    rf"\W*+(?:\d[\d\W]*+(?:[^\W\d_]{{1,{_LONGEST_UNIT}}}+(?:/[^\W\d_]{{1,{_LONGEST_UNIT}}}+)?(?!\d)\W*+)?)++"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGrid:
    """What a table says and where.

    Attributes:
        start, end: the table's own span in the text, half-open, without the caption above a pipe table.
        body_start: where the rows begin: the header ends before it.
        header: one name per column, "" for a column without; empty in all columns: there is no header.
        rows: cells as they read, without marks of Markdown; rows are as wide as the header.
        row_starts: where each row begins; the last one ends at `end`.
        caption: of an HTML table; that of a pipe table is text before it.
    """

    start: int
    end: int
    body_start: int
    header: Row
    rows: tuple[Row, ...]
    row_starts: tuple[int, ...]
    caption: str = ""

    def rows_in(self, start: int, end: int) -> tuple[Row, ...]:
        """Return the rows of which a part lies in [start, end)."""
        ends = (*self.row_starts, self.end)[1:]
        spans = zip(self.rows, self.row_starts, ends, strict=True)
        return tuple(row for row, first, last in spans if first < end and last > start)


def tables_in(text: str, blocks: Sequence[Block]) -> list[TableGrid]:
    """Return the tables of a text in order, given its blocks; tables inside lists and quotes are left alone."""
    found: list[TableGrid] = []
    for block in whole_tables(text, blocks):
        if block.kind == "table":
            found.extend(read_table(text, block.start, block.end))
    return found


def whole_tables(text: str, blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks with every HTML block that holds a table as a block of kind "table".

    A blank line ends an HTML block, even inside a table: what follows, up to the end of the table, is joined
    to it again. A table that is not closed before the next heading is left as it is.
    """
    if not any(block.kind == "html" for block in blocks):
        return list(blocks)
    closed = _closed_tables(text, blocks)
    made: list[Block] = []
    index = 0
    while index < len(blocks):
        block, last = blocks[index], closed.get(index)
        if last is None or block.kind != "html":
            made.append(block)
            index += 1
        else:
            made.append(Block("table", block.start, blocks[last].end))
            index = last + 1
    return made


def _closed_tables(text: str, blocks: Sequence[Block]) -> dict[int, int]:
    """Return, by the block in which a <table> begins, the last block in which one of these ends: in one pass."""
    open_in: list[int] = []
    closed: dict[int, int] = {}
    for index, block in enumerate(blocks):
        if block.kind == "heading":
            open_in.clear()
        elif open_in or block.kind == "html":
            for tag in _TAGS.finditer(text, block.start, block.end):
                if not tag[1]:
                    open_in.append(index)
                elif open_in:
                    closed[open_in.pop()] = index
    return closed


def read_table(text: str, start: int, end: int) -> list[TableGrid]:
    """Return the table of a block of kind "table": one, or those of an HTML block.

    None is one whose rows lack more than `MAX_FILLED` cells: short rows below a wide header would cost its square.
    """
    if text[start:end].lstrip().startswith("<") and _OPENING.search(text, start, end):
        return _html_grids(text, start, end)
    lines = list(_LINE.finditer(text, start, end))
    written = [_cells(line[0]) for line in lines]
    lacking = sum(max(0, len(written[1]) - len(row)) for row in written)
    return [_pipe_grid(lines, written, start, end)] if lacking <= MAX_FILLED else []


def header_at(text: str, grids: Iterable[TableGrid], place: int) -> str:
    """Return the header, at most `MAX_HEADER` of it, of the table whose rows go on at a place; "" where none do."""
    for grid in grids:
        if grid.body_start <= place < grid.end:
            return text[grid.start : min(grid.body_start, grid.start + MAX_HEADER)].rstrip()
    return ""


def is_quantity(cell: str) -> bool:
    """Return whether a cell is a value: a number, with a unit or without, a range, a date, or no word at all."""
    return not any(map(str.isalnum, cell)) or bool(_QUANTITIES.fullmatch(cell.strip()))


def _pipe_grid(lines: Sequence[re.Match[str]], written: Sequence[Sequence[str]], start: int, end: int) -> TableGrid:
    """Read a pipe table from its lines and their cells: its header, the delimiter row, its rows."""
    width = len(written[1])
    head, *body = [tuple([*row, *[""] * width][:width]) for row in (written[0], *written[2:])]
    starts = [line.start() for line in lines[2:]]
    header = [head]
    if body and _continues_header(head, body[0]):
        header, body, starts = [head, body[0]], body[1:], starts[1:]
    names = unmerged(header, _groups(head) if len(header) > 1 else (), header=len(header))[0]
    return TableGrid(
        start=start,
        end=end,
        body_start=starts[0] if starts else end,
        header=names,
        rows=tuple(body),
        row_starts=tuple(starts),
    )


def _cells(line: str) -> list[str]:
    """Return the cells of a line as GFM has them: an escaped pipe is no border, the outer ones are optional."""
    cells = escapedSplit(line.strip())
    if cells and not cells[0].strip():
        cells = cells[1:]
    if cells and not cells[-1].strip():
        cells = cells[:-1]
    return [plain_title(_BREAK.sub(" ", cell)) for cell in cells]


def _continues_header(head: Row, below: Row) -> bool:
    """Whether the first row of the body belongs to the header.

    Markdown has one header row; tables with two are written with blanks beside the name of a group, and the
    names inside the group in the first row below: a row of words, where the first column says nothing new.
    """
    first = next((place for place, name in enumerate(head) if name and place), len(head))
    grouped = [place for place in range(first, len(head)) if not head[place]]
    return (
        bool(grouped)
        and below[0] in {"", head[0]}
        and all(below[place] for place in grouped)
        and not any(cell and is_quantity(cell) for cell in below)
    )


def _groups(head: Row) -> Iterator[Merged]:
    """Yield each name of a header with the blanks after it as one merged cell."""
    named = [place for place, name in enumerate(head) if name or not place]
    for place, following in pairwise([*named, len(head)]):
        if place:
            yield Merged(0, place, 1, following - place)


def _html_grids(text: str, start: int, end: int) -> list[TableGrid]:
    """Read the tables of an HTML block; a table inside a cell is text of this cell."""
    reader = _Reader(text[start:end], start)
    return [
        TableGrid(
            start=first,
            end=last,
            body_start=rows.starts[0] if rows.starts else last,
            header=rows.header,
            rows=rows.rows,
            row_starts=rows.starts,
            caption=rows.caption,
        )
        for first, last, rows in reader.found
    ]


class _Reader(HTMLParser):
    """Finds the outermost tables of some HTML: start, end, and what each says."""

    def __init__(self, html: str, offset: int) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[int, int, HtmlRows]] = []
        self._html, self._offset = html, offset
        self._lines = list(accumulate((len(line) + 1 for line in html.split("\n")), initial=offset))
        self._table = HtmlTable()
        self._depth = 0
        self._start = 0
        self._unseen = 0
        self.feed(html)
        self.close()
        if self._depth:
            self._end(offset + len(html))

    def _at(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in _UNSEEN
        if tag == "table":
            self._depth += 1
            if self._depth == 1:
                self._start = self._at()
                self._table = HtmlTable(self._start)
        elif self._depth == 1 and tag in TABLE_TAGS:
            self._table.open(tag, {name: value or "" for name, value in attrs}, self._at())

    def handle_endtag(self, tag: str) -> None:
        self._unseen = max(0, self._unseen - (tag in _UNSEEN))
        if tag == "table" and self._depth:
            self._depth -= 1
            if not self._depth:
                self._end(self._offset + self._html.index(">", self._at() - self._offset) + 1)
        elif self._depth == 1 and tag in TABLE_TAGS:
            self._table.close(tag)

    def handle_data(self, data: str) -> None:
        if self._depth and not self._unseen:
            self._table.add(" ".join(data.split()))

    def _end(self, at: int) -> None:
        self.found.append((self._start, at, self._table.finish()))
        self._depth = 0

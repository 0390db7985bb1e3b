"""Read tables: pipe tables of Markdown and HTML tables, as named columns and rows, with the place of each row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import accumulate, pairwise

from catena.model.merged_cells import Merged, Row, header_rows, moved, title_rows, unmerged
from catena.text.headings import plain_title

_OPENING = re.compile(r"<table\b", re.IGNORECASE)
_BREAK = re.compile(r"<br\b[^<>]*+>", re.IGNORECASE)
_LINE = re.compile(r"[^\r\n]+")
_RULE = re.compile(r"\|?\s*+:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)*+\|?\s*+$")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_UNSEEN = frozenset({"script", "style", "template"})
MAX_HEADER = 1_000  # characters: a header is repeated with each later piece of its table
MAX_FILLED = 500_000  # cells that the rows of one pipe table may lack
MAX_COLUMNS = 200  # of a table; a colspan may claim any number
MAX_ROWSPAN = 1_000
_LONGEST_UNIT = 5  # letters: "MHz", "°C", "mA/V", "kByte"

# Quantities one after the other, each a number with a unit or none. What follows a digit is taken whole (`*+`), so
# that no text can be split in many ways. "1N4148" is none: a unit has no digits after it.
_QUANTITIES = re.compile(
    rf"\W*+(?:\d[\d\W]*+(?:[^\W\d_]{{1,{_LONGEST_UNIT}}}+(?:/[^\W\d_]{{1,{_LONGEST_UNIT}}}+)?(?!\d)\W*+)?)++"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGrid:
    """A table as read, and its place in the text.

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


def read_table(text: str, start: int, end: int) -> list[TableGrid]:
    """Return the table of a block of kind "table": one, or those of an HTML block.

    None is one whose rows lack more than `MAX_FILLED` cells: short rows below a wide header would cost its square.
    """
    if text[start:end].lstrip().startswith("<") and _OPENING.search(text, start, end):
        return _html_grids(text, start, end)
    lines = list(_LINE.finditer(text, start, end))
    written = [[plain_title(_BREAK.sub(" ", cell)) for cell in split_row(line[0])] for line in lines]
    lacking = sum(max(0, len(written[1]) - len(row)) for row in written)
    return [_pipe_grid(lines, written, start, end)] if lacking <= MAX_FILLED else []


def split_row(line: str) -> list[str]:
    """Split a line of a pipe table into cells, as GFM does: outer pipes are optional, an escaped one is no border."""
    cells = [cell.replace("\\|", "|") for cell in _CELL_BORDER.split(line.strip())]
    if len(cells) > 1 and not cells[0].strip():
        del cells[0]
    if len(cells) > 1 and not cells[-1].strip():
        del cells[-1]
    return cells


def cells_of(line: str) -> Row:
    """Return the cells of one line of a pipe table, without the marks around their texts."""
    return tuple(cell.strip(" *_`") for cell in split_row(line))


def is_rule(line: str) -> bool:
    """Return whether a line is the rule between a table's header and its rows."""
    return _RULE.match(line.strip()) is not None


def table_rows(text: str) -> Iterator[Row]:
    """Yield the cells of each row of the pipe tables in a text, header rows and rules left out, in order."""
    lines = [line.strip() for line in text.split("\n")]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("|") and not is_rule(line) and not (following.startswith("|") and is_rule(following)):
            yield cells_of(line)


def table_cells(text: str) -> Row:
    """Return the cells of the pipe tables in a text that are not empty, header rows left out, in order."""
    return tuple(cell for row in table_rows(text) for cell in row if cell)


def table_values(text: str) -> Row:
    """Return the cells of the pipe tables in a text but those of the first column, which names the row's subject."""
    return tuple(cell for row in table_rows(text) for cell in row[1:] if cell)


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


def _continues_header(head: Row, below: Row) -> bool:
    """Return whether the first row of the body belongs to the header.

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


TABLE_TAGS = frozenset({"tr", "td", "th", "caption", "thead", "tbody", "tfoot"})
"""The tags that `HtmlTable` is given; all others are inside its cells."""

_GROUPS = frozenset({"thead", "tbody", "tfoot"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlRows:
    """A table as rows of equal length without merged cells (see `merged_cells.unmerged`).

    Attributes:
        caption: its caption, and a title in a row of its own at the top.
        header: one name per column; all are empty where the table has no header.
        starts: where each of `rows` begins, as told to `HtmlTable.open`.
    """

    caption: str
    header: Row
    rows: tuple[Row, ...]
    starts: tuple[int, ...]


class HtmlTable:
    """Takes cells as their tags open and close; text outside of cells goes to the cell before it.

    Args:
        at: where the table begins, for the starts of its rows.
    """

    def __init__(self, at: int = 0) -> None:
        self._caption = ""
        self._rows: list[list[str]] = []
        self._starts: list[int] = []  # where each row begins, as the caller counts
        self._heads: list[list[bool]] = []  # per row and cell as written: whether it is a header cell
        self._merged: list[Merged] = []
        self._stated = 0  # rows of <thead>, when they come first
        self._group = ""
        self._row: list[str] | None = None
        self._hanging: dict[int, int] = {}  # column -> rows that a cell above still reaches down
        self._cell = ""  # "td", "th", "caption" or "" between them
        self._text = ""
        self._span = (1, 1)
        self._at = at

    def open(self, tag: str, values: Mapping[str, str], at: int = 0) -> None:
        """Begin a group of rows, a row, a cell or the caption; what was open before ends, as browsers have it.

        Args:
            tag: one of `TABLE_TAGS`.
            values: its attributes.
            at: place of the tag.
        """
        self.close(self._cell)
        self._at = at
        if tag in _GROUPS:
            self._end_row()
            self._group = tag
        elif tag == "tr":
            self._end_row()
            self._begin_row()
        else:
            self._cell = tag
            self._span = (_number(values, "colspan", MAX_COLUMNS), _number(values, "rowspan", MAX_ROWSPAN))

    def add(self, text: str) -> None:
        """Add text to the open cell."""
        if text:
            self._text = f"{self._text} {text}".strip()

    def close(self, tag: str) -> None:
        """End a group of rows, a row, a cell or the caption."""
        if tag == "tr" or tag in _GROUPS:
            self.close(self._cell)
            self._end_row()
            self._group = self._group if tag == "tr" else ""
        elif self._cell or self._text:
            self._end_cell()

    def _begin_row(self) -> list[str]:
        self._row = []
        self._starts.append(self._at)
        self._heads.append([])
        return self._row

    def _end_cell(self) -> None:
        cell, text = self._cell, self._text
        self._cell = self._text = ""
        if cell == "caption":
            self._caption = f"{self._caption} {text}".strip()
            return
        row = self._begin_row() if self._row is None else self._row
        columns, rows = self._span
        self._span = (1, 1)
        self._skip_hanging(row)
        self._heads[-1].append(cell == "th")
        if columns * rows > 1 and len(row) < MAX_COLUMNS:
            self._merged.append(Merged(len(self._rows), len(row), rows, min(columns, MAX_COLUMNS - len(row))))
        for position in range(columns):
            if len(row) >= MAX_COLUMNS:
                return
            if rows > 1:
                self._hanging[len(row)] = rows
            row.append(text if position == 0 else "")

    def _skip_hanging(self, row: list[str]) -> None:
        while self._hanging.get(len(row), 0) > 0:
            row.append("")

    def _end_row(self) -> None:
        if self._row is not None:
            self._skip_hanging(self._row)
            self._rows.append(self._row)
            if self._group == "thead" and self._stated == len(self._rows) - 1:
                self._stated += 1
            self._hanging = {column: left - 1 for column, left in self._hanging.items() if left > 1}
        self._row = None

    def finish(self) -> HtmlRows:
        """Return the rows read; a row that shows nothing is left out."""
        self.close("tr")
        width = max((len(row) for row in self._rows), default=0)
        kept = [number for number, row in enumerate(self._rows) if any(row)]
        rows = [[*self._rows[number], *[""] * (width - len(self._rows[number]))] for number in kept]
        merged = moved(self._merged, kept, range(width))
        titles = title_rows(rows, merged)
        caption = " ".join(part for part in (self._caption, *(row[0] for row in rows[:titles])) if part)
        below = [cell._replace(row=cell.row - titles) for cell in merged if cell.row >= titles]
        stated = sum(number < self._stated for number in kept) - titles
        header = stated if stated > 0 else _header(rows[titles:], [self._heads[n] for n in kept[titles:]], below)
        filled = unmerged(rows[titles:], below, header=header)
        starts = [self._starts[number] for number in kept[titles + header :]]
        return HtmlRows(caption=caption, header=filled[0], rows=filled[1:], starts=tuple(starts))


def _header(rows: Sequence[Sequence[str]], heads: Sequence[Sequence[bool]], merged: Sequence[Merged]) -> int:
    """Return the rows of the header where no <thead> states them: those of <th> alone, else the first.

    Where the only header cells are the first of each row there is none: the table lists keys and values.
    """
    leading = 0
    while leading < len(rows) and heads[leading] and all(heads[leading]):
        leading += 1
    if 0 < leading < len(rows):
        return leading
    if heads and all(len(row) > 1 and row[0] and not any(row[1:]) for row in heads):
        return 0
    return header_rows(rows, merged)


def _number(values: Mapping[str, str], name: str, at_most: int) -> int:
    text = values.get(name, "").strip()
    return (
        min(max(int(text), 1), at_most) if text.isdecimal() and len(text) < 10 else 1 if len(text) < 10 else at_most
    )

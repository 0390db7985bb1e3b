"""Read tables: pipe tables of Markdown and HTML tables, as named columns and rows, with the place of each row."""

from __future__ import annotations

import csv
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from html.parser import HTMLParser
from io import StringIO
from itertools import accumulate, groupby, pairwise
from operator import add
from typing import Any

from catena.model.errors import needs
from catena.model.merged_cells import Merged, Row, header_rows, moved, title_rows, unmerged
from catena.model.places import SEPARATOR
from catena.text.headings import plain_title
from catena.text.loose_json import whole_number
from catena.text.periods import timing_of
from catena.text.stems import language_of
from catena.text.words import RAISED, numbers_of, raised, tokenise

_OPENING = re.compile(r"<table\b", re.IGNORECASE)
_BREAK = re.compile(r"<br\b[^<>]*+>", re.IGNORECASE)
_LINE = re.compile(r"[^\r\n]+")
_RULE = re.compile(r"\|?\s*+:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)*+\|?\s*+$")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_TOTAL = re.compile(r"(?:total\b|net cash .*\bactivities|\Z)", re.IGNORECASE)
_EMPTY = re.compile(r"(?:commitments|contingenc)", re.IGNORECASE)  # rows of balance sheets without an amount
_INDENT = re.compile(r"\|? ?(\u2003++)")
_UNSEEN = frozenset({"script", "style", "template"})
MAX_HEADER = 1_000  # characters: a header is repeated with each later piece of its table
LONGEST_CAPTION = 200  # characters of a paragraph above a table that is taken for its caption
MAX_FILLED = 500_000  # cells that the rows of one pipe table may lack
MAX_COLUMNS = 200  # of a table; a colspan may claim any number
MAX_ROWSPAN = 1_000
_LONGEST_UNIT = 5  # letters: "MHz", "°C", "mA/V", "kByte"

# Quantities one after the other, each a number with a unit or none. What follows a digit is taken whole (`*+`), so
# that no text can be split in many ways. "1N4148" is none: a unit has no digits after it.
_QUANTITIES = re.compile(
    rf"\W*+(?:\d[\d\W]*+(?:[^\W\d_]{{1,{_LONGEST_UNIT}}}+(?:/[^\W\d_]{{1,{_LONGEST_UNIT}}}+)?(?!\d)\W*+)?)++"
)


@dataclass(slots=True)
class _Group:
    """A name over the rows below it: how far it is indented, whether it says a time, and whether they are further."""

    name: str
    indent: int
    is_time: bool = False
    indented: bool = False


@dataclass(frozen=True, kw_only=True)  # without slots, for what is kept
class TableGrid:
    """A table as read, and its place in the text.

    Attributes:
        start, end: the table's own span in the text, half-open, without the caption above a pipe table.
        body_start: where the rows begin: the header ends before it.
        header: one name per column, "" for a column without; empty in all columns: there is no header.
        rows: cells as they read, without marks of Markdown; rows are as wide as the header.
        row_starts: where each row begins; the last one ends at `end`.
        caption: of an HTML table; that of a pipe table is text before it.
        indents: how far each row's label is indented, in em spaces; none where no row is.
    """

    start: int
    end: int
    body_start: int
    header: Row
    rows: tuple[Row, ...]
    row_starts: tuple[int, ...]
    caption: str = ""
    indents: tuple[int, ...] = ()

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The place of each row in the text."""
        return tuple(pairwise((*self.row_starts, self.end)))

    @cached_property
    def paths(self) -> tuple[Row, ...]:
        """The names of the groups above each row, outermost first, and its own label last; "" for a row without."""
        rows = zip(self.open_groups, self.rows, strict=True)
        return tuple((*(group.name for group in groups), row[0] if row else "") for groups, row in rows)

    @cached_property
    def open_groups(self) -> tuple[tuple[_Group, ...], ...]:
        """The groups above each row, outermost first.

        A row of nothing but a label names a group. Its members are indented below it; where they are not, they reach
        to the next group, to a row without a label, or to a total, these two included. A group that is nothing but
        a year, or another time, holds other groups and ends at the next time.
        """
        groups: list[_Group] = []
        found: list[tuple[_Group, ...]] = []
        was_group = ends = False
        for number, row in enumerate(self.rows):
            label = row[0] if row else ""
            names = len(row) > 1 and bool(label) and not (any(row[1:]) or _EMPTY.match(label))
            indent = self.indents[number] if self.indents else 0
            is_time = names and not timing_of(label)[1].strip(" :")
            if groups and label:
                groups[-1].indented |= was_group and indent > groups[-1].indent
            if ends:
                groups.pop()
            while groups and label and not (was_group and indent >= groups[-1].indent):
                group = groups[-1]
                level = indent == group.indent
                inner = 2 * (group.is_time - is_time) + label.endswith(":") - group.name.endswith(":")
                if indent > group.indent or (level and not group.indented and (not names or inner > 0)):
                    break  # "Current assets:" is a part of "ASSETS"
                groups.pop()
                was_group = False
                if names and level and not inner:
                    break
            found.append(tuple(groups))
            open_ended = not groups or groups[-1].indented or groups[-1].is_time
            ends = not (names or open_ended) and _TOTAL.match(label) is not None
            was_group = names
            if names:
                groups.append(_Group(label, indent, is_time))
        return tuple(found)

    def rows_in(self, start: int, end: int) -> tuple[Row, ...]:
        """Return the rows of which a part lies in [start, end)."""
        rows = zip(self.rows, self.spans, strict=True)
        return tuple(row for row, (first, last) in rows if first < end and last > start)


def read_table(text: str, start: int, end: int) -> list[TableGrid]:
    """Return the table of a block of kind "table": one, or those of an HTML block.

    None is one whose rows lack more than `MAX_FILLED` cells: short rows below a wide header would cost its square.
    """
    if text[start:end].lstrip().startswith("<") and _OPENING.search(text, start, end):
        return _HtmlTables(text[start:end], start).found
    lines = list(_LINE.finditer(text, start, end))
    written = [[plain_title(_BREAK.sub(" ", cell)) for cell in split_row(line[0])] for line in lines]
    lacking = sum(max(0, len(written[1]) - len(row)) for row in written)
    return [_pipe_grid(lines, written, start, end)] if lacking <= MAX_FILLED else []


def cell_spans(line: str) -> list[tuple[int, int]]:
    """Return where the cells of a line of a pipe table begin and end, as GFM has it: outer pipes are optional."""
    borders = [match.start() for match in _CELL_BORDER.finditer(line)]
    spans = [(a + 1, b) for a, b in pairwise([-1, *borders, len(line)])]
    for outer in (0, -1):
        if len(spans) > 1 and not line[slice(*spans[outer])].strip():
            del spans[outer]
    return spans


def split_row(line: str) -> list[str]:
    """Split a line of a pipe table into cells; an escaped pipe is no border."""
    line = line.strip()
    return [line[start:end].replace("\\|", "|") for start, end in cell_spans(line)]


def cells_of(line: str) -> Row:
    """Return the cells of one line of a pipe table, without the marks around their texts."""
    return tuple(cell.strip(" *_`") for cell in split_row(line))


def table_row(cells: Sequence[str]) -> str:
    """Write one row, pipes escaped and white space made single, but for em spaces that indent a label."""
    written = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    indents = ("\u2003" * (len(cell) - len(cell.lstrip("\u2003"))) for cell in cells)
    return "| " + " | ".join(map(add, indents, written)) + " |"


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


def header_at(text: str, grids: Iterable[TableGrid], place: int, before: int = 0) -> str:
    """Return what a reader needs above rows of a table that go on at a place; "" where none do.

    That is the caption that stands after `before`, the header, at most `MAX_HEADER` of it, and of a pipe table the
    names of the groups that are open there. A place inside a row adds the row's label and a border for each cell
    before it, and then a space: the text goes on in that line.
    """
    for grid in grids:
        if not grid.body_start <= place < grid.end:
            continue
        parts = [text[grid.start : min(grid.body_start, grid.start + MAX_HEADER)].rstrip()]
        caption = caption_above(text, before, grid.start)
        if text[grid.start] != "<":
            row = bisect_right(grid.row_starts, place) - 1
            names = ("\u2003" * group.indent + group.name for group in grid.open_groups[row])
            parts += [table_row([name, *[""] * (len(grid.header) - 1)]) for name in names]
            if read := text[grid.row_starts[row] : place].lstrip():
                borders = len(_CELL_BORDER.findall(read)) - read.startswith("|")
                label = grid.paths[row][-1][:LONGEST_CAPTION] if borders else ""
                parts.append(table_row([label, *[""] * borders])[:-1])
        return "\n".join([*filter(None, [caption]), *parts])
    return ""


def caption_above(text: str, start: int, end: int) -> str:
    """Return the paragraph above a table, as one line, where it is short and no heading, else "".

    It stands behind `start`, or announces the table with a colon.
    """
    first = max(0, end - 2 * LONGEST_CAPTION)
    above = text[first:end].rstrip().replace("\r\n", "\n")
    paragraph = above.rpartition("\n\n")[2]
    caption = " ".join(paragraph.split())
    own = first + len(above) - len(paragraph) >= start or caption.endswith(":")
    is_plain = not caption.startswith(("#", "|", "<", "!", "-", "="))
    return caption if own and is_plain and len(caption) <= LONGEST_CAPTION else ""


def is_quantity(cell: str) -> bool:
    """Return whether a cell is a value: a number, with a unit or without, a range, a date, or no word at all."""
    return not any(map(str.isalnum, cell)) or bool(_QUANTITIES.fullmatch(cell.strip()))


def _pipe_grid(lines: Sequence[re.Match[str]], written: Sequence[Sequence[str]], start: int, end: int) -> TableGrid:
    """Read a pipe table from its lines and their cells: its header, the delimiter row, its rows."""
    width = len(written[1])
    head, *body = [tuple([*row, *[""] * width][:width]) for row in (written[0], *written[2:])]
    starts = [line.start() for line in lines[2:]]
    indents = [len(match[1]) if (match := _INDENT.match(line[0])) else 0 for line in lines[2:]]
    header = [head]
    if body and _continues_header(head, body[0]):
        header, body, starts, indents = [head, body[0]], body[1:], starts[1:], indents[1:]
    names = unmerged(header, _groups(head) if len(header) > 1 else (), header=len(header))[0]
    return TableGrid(
        start=start, end=end, body_start=starts[0] if starts else end, header=names, rows=tuple(body),
        row_starts=tuple(starts), indents=tuple(indents) if any(indents) else (),
    )  # fmt: skip


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


class _HtmlTables(HTMLParser):
    """Finds the outermost tables of some HTML; a table inside a cell is text of this cell."""

    def __init__(self, html: str, offset: int) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[TableGrid] = []
        self._html, self._offset = html, offset
        self._lines = list(accumulate((len(line) + 1 for line in html.split("\n")), initial=offset))
        self._table = HtmlTable()
        self._depth = 0
        self._start = 0
        self._unseen = 0
        self._is_raised = False
        self.feed(html)
        self.close()
        if self._depth:
            self._end(offset + len(html))

    def _at(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in _UNSEEN
        self._is_raised = tag == "sup"
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
            text = " ".join(data.split())
            self._table.add(raised(text) if self._is_raised else text)
            self._is_raised = False

    def _end(self, at: int) -> None:
        read = self._table.finish()
        self.found.append(TableGrid(
            start=self._start, end=at, body_start=read.starts[0] if read.starts else at, header=read.header,
            rows=read.rows, row_starts=read.starts, caption=read.caption,
        ))  # fmt: skip
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
        columns = min(columns, MAX_COLUMNS - len(row))
        if columns * rows > 1:
            self._merged.append(Merged(len(self._rows), len(row), rows, columns))
        self._hanging |= dict.fromkeys(range(len(row), len(row) + columns), rows)
        row += [text, *[""] * columns][: max(columns, 0)]

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
    return min(max(whole_number(text), 1), at_most) if text.isdecimal() else 1


_BRACKETS = re.compile(r"[(\[]([^()\[\]]++)[)\]]")
_UNIT = re.compile(r"\b(?:thousand|million|billion|percent|except|dollar|euro|share)s?\b|[$€£¥%]", re.IGNORECASE)
_IN_WORDS = re.compile(r"in (?:[\w.$€£]++ )?(?:thousand|million|billion)s\b", re.IGNORECASE)
_AT_END = re.compile(
    r"\bin (?:[$€£¥%](?: ?(?:thousand|[mb]illion)s?)?|(?:thousand|[mb]illion)s(?: of [\w$€£¥]+)?"
    r"|euros?|(?:US )?dollars|pounds|percent)\Z",
    re.IGNORECASE,
)  # of a title: "Charges in €"
_NUMBER = re.compile(r"\d(?:[\d.,]*\d)?")
_GROUPED = re.compile(r"\d+(?:[.,]\d+)?|\d{1,3}(?:(?:,\d{2,3})*,\d{3}(?:\.\d+)?|(?:\.\d{3})+(?:,\d+)?)")
_BEGINNING = 20_000  # characters that tell the language
_POWER = re.compile(rf"(?<![\d.,])10 ?[{RAISED}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCell:
    """A cell that is not empty, and where it stands.

    Attributes:
        row: the names of the groups above its row, outermost first, and the row's own label last.
        column: the levels of the column's name, from the top.
        text: as printed.
        start, end: its place in the text that was read, half-open; of a cell of HTML that of its row.
        decimal: the mark before decimals in its table, "" if unknown.
    """

    row: Row
    column: Row
    text: str
    start: int
    end: int
    decimal: str = field(default="", repr=False)

    @property
    def number(self) -> float | None:
        """The value as a number, below 0 in brackets, behind a minus or before one at its end.

        None for words, dashes, ranges and powers, and for "1.234" where nothing tells what the point is.
        """
        written = _number_in(self.text)
        if written is None or ("." in written and not self.decimal and len(numbers_of(written)) > 1):
            return None
        value = numbers_of(written)[0 if self.decimal and self.decimal in written else -1]
        sign = self.text.strip(" $€£¥")
        return -value if sign[:1] in {"(", "-", "−", "–"} or re.search(r"\d ?[-−]\Z", sign) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table by the paths of its rows and columns.

    Attributes:
        title: what stands above it; "" where nothing does.
        unit: what its values are in, as printed: "in thousands, except per share data".
        labels: the name of the column of labels.
        columns: the path of each column of values.
        rows: the path of each row, those that only name a group included.
        cells: from left to right and from the top down.
    """

    title: str
    unit: str
    labels: str
    columns: tuple[Row, ...]
    rows: tuple[Row, ...]
    values: tuple[Row, ...]
    cells: tuple[TableCell, ...]

    def markdown(self) -> str:
        """Return the table as Markdown, with one header row and the path of each row as its label."""
        header, *rows = self._lines()
        return "\n".join(map(table_row, (header, ["---"] * len(header), *rows)))

    def csv(self) -> str:
        """Return the table as CSV (RFC 4180), with one header row and the path of each row as its label."""
        out = StringIO()
        csv.writer(out).writerows(self._lines())
        return out.getvalue()

    def html(self) -> str:
        """Return the table as HTML: a row for each level of the header, one cell for a name over several columns."""
        depth = max((len(path) for path in self.columns), default=1)
        unit = f"({self.unit})" if self.unit and self.unit not in self.title else ""
        lines = [f"<caption>{escape(' '.join(filter(None, (self.title, unit))))}</caption>"]
        for level in range(depth):
            first = f"<th>{escape(self.labels)}</th>" if level == depth - 1 else "<th></th>"
            names = groupby(self.columns, lambda path, level=level: (path[: level + 1], len(path) > level))  # type: ignore[misc]
            cells = [(path[level] if is_named else "", len(list(of))) for (path, is_named), of in names]
            spans = "".join(f'<th colspan="{width}">{escape(name)}</th>' for name, width in cells)
            lines.append(f"<tr>{first}{spans}</tr>")
        for label, *row in self._lines()[1:]:
            lines.append(f"<tr><th>{escape(label)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>")
        return "\n".join(("<table>", *lines, "</table>"))

    def pandas(self) -> Any:
        """Return the table as a `pandas.DataFrame` of texts, its paths as index and columns.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        with needs("pandas"):
            from pandas import DataFrame

        (_, *names), *body = self._lines()
        return DataFrame([row[1:] for row in body], index=[row[0] for row in body], columns=names)

    def _lines(self) -> list[Row]:
        """Return the header, and the rows that have values, each with its path as its label."""
        body = ((_joined(path), *cells) for path, cells in zip(self.rows, self.values, strict=True) if any(cells))
        return [(self.labels, *map(_joined, self.columns)), *body]


def read_value(text: str, grid: TableGrid, *, title: str = "", before: int = 0) -> Table:
    """Return a table that `read_table` found as a value.

    Args:
        text: that the table stands in.
        grid: the table.
        title: of what it stands in, where it has none of its own.
        before: where the text above it begins that may be its caption.
    """
    caption = grid.caption or caption_above(text, before, grid.start)
    labels, *names = grid.header or ("",)
    unit = next((found for part in (labels, caption, title) if (found := _unit_in(part))), "")
    columns = tuple(tuple(name.split(SEPARATOR)) if name else () for name in names)
    decimal = _decimal_mark([cell for row in grid.rows for cell in row[1:]], f"{title} {text}")
    cells: list[TableCell] = []
    for path, row, (start, end) in zip(grid.paths, grid.rows, grid.spans, strict=True):
        named = zip(columns, row[1:], _spans(text, start, end, len(row))[1:], strict=True)
        cells += [
            TableCell(row=path, column=name, text=cell, start=a, end=b, decimal=decimal)
            for name, cell, (a, b) in named
            if cell
        ]
    return Table(
        title=caption if caption and caption.strip("()[]") != unit else title, unit=unit, labels=labels,
        columns=columns, rows=grid.paths, values=tuple(row[1:] for row in grid.rows), cells=tuple(cells),
    )  # fmt: skip


def _number_in(cell: str) -> str | None:
    """Return the only number of a cell as written; None where it has words, or another number, too."""
    found = _NUMBER.findall(cell)
    plain = len(found) == 1 and not any(map(str.isalpha, cell)) and not _POWER.search(cell)
    return found[0] if plain and _GROUPED.fullmatch(found[0]) else None


def _decimal_mark(cells: Iterable[str], text: str) -> str:
    """Return what stands before decimals: as a number says it ("12,5", "1.499,00"), else as the language has it."""
    said, unclear = set[str](), False
    for number in filter(None, map(_number_in, cells)):
        marks = re.findall(r"[.,]", number)
        if len(numbers_of(number)) > 1:
            unclear = True
        elif marks:
            is_group = len(marks) > 1 and len(set(marks)) == 1
            said.add(marks[-1] if not is_group else "," if marks[-1] == "." else ".")
    if said or not unclear:
        return said.pop() if len(said) == 1 else ""
    language = language_of(tokenise(text[:_BEGINNING]))
    return "" if language is None else "." if language == "english" else ","


def _unit_in(text: str) -> str:
    """Return what stands in brackets and says a unit, a text that does without brackets, or the end of one."""
    plain = plain_title(text[:LONGEST_CAPTION])
    said = next((found for found in _BRACKETS.findall(plain) if _UNIT.search(found)), "")
    if said or _IN_WORDS.match(plain):
        return said.strip() or plain
    ending = _AT_END.search(plain)
    return ending[0] if ending else ""


def _spans(text: str, start: int, end: int, width: int) -> list[tuple[int, int]]:
    """Return the place of each cell of a row, without the white space around it; of HTML that of the row."""
    line = text[start:end].rstrip()
    if line.startswith("<"):
        return [(start, start + len(line))] * width
    found = []
    for a, b in cell_spans(line):
        cell = line[a:b]
        first = start + a + len(cell) - len(cell.lstrip())
        found.append((first, max(first, start + a + len(cell.rstrip()))))
    return (found + [(end, end)] * width)[:width]


def _joined(path: Sequence[str]) -> str:
    return SEPARATOR.join(filter(None, path))

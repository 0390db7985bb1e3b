"""An HTML table on its way to rows of equal length, with its header, its merged cells and its caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catena.model.merged_cells import Merged, Row, header_rows, moved, title_rows, unmerged

MAX_COLUMNS = 200  # of a table; a colspan may claim any number
MAX_ROWSPAN = 1_000

TABLE_TAGS = frozenset({"tr", "td", "th", "caption", "thead", "tbody", "tfoot"})
"""The tags that a table is told of; all others stand inside its cells."""

_GROUPS = frozenset({"thead", "tbody", "tfoot"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlRows:
    """What a table says, in rows of equal length without merged cells (see `merged_cells.unmerged`).

    Attributes:
        caption: its caption, and a title that stands in a row of its own at the top.
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
            at: where the tag stands.
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
        """Return what was read; a row that shows nothing is left out."""
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

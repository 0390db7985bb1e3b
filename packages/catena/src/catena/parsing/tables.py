"""An HTML table on its way to Markdown: rows of equal length, merged cells filled with empty ones."""

from __future__ import annotations

from collections.abc import Mapping

MAX_COLUMNS = 200  # of a table; a colspan may claim any number
MAX_ROWSPAN = 1_000


class HtmlTable:
    """Takes cells as their tags open and close; text outside of cells goes to the cell before it."""

    def __init__(self) -> None:
        self._caption = ""
        self._rows: list[list[str]] = []
        self._row: list[str] | None = None
        self._hanging: dict[int, int] = {}  # column -> rows that a cell above still reaches down
        self._cell = ""  # "td", "th", "caption" or "" between them
        self._text = ""
        self._span = (1, 1)

    def open(self, tag: str, values: Mapping[str, str]) -> None:
        """Begin a row, a cell or the caption; what was open before ends, as browsers have it."""
        self.close(self._cell)
        if tag == "tr":
            self._end_row()
            self._row = []
            return
        self._cell = tag
        self._span = (_number(values, "colspan", MAX_COLUMNS), _number(values, "rowspan", MAX_ROWSPAN))

    def add(self, text: str) -> None:
        """Add text to the open cell."""
        if text:
            self._text = f"{self._text} {text}".strip()

    def close(self, tag: str) -> None:
        """End a row, a cell or the caption."""
        if tag == "tr":
            self.close(self._cell)
            self._end_row()
        elif self._cell or self._text:
            self._end_cell()

    def _end_cell(self) -> None:
        cell, text = self._cell, self._text
        self._cell = self._text = ""
        if cell == "caption":
            self._caption = f"{self._caption} {text}".strip()
            return
        if self._row is None:
            self._row = []
        columns, rows = self._span
        self._span = (1, 1)
        self._skip_hanging()
        for position in range(columns):
            if len(self._row) >= MAX_COLUMNS:
                return
            if rows > 1:
                self._hanging[len(self._row)] = rows
            self._row.append(text if position == 0 else "")

    def _skip_hanging(self) -> None:
        assert self._row is not None
        while self._hanging.get(len(self._row), 0) > 0:
            self._row.append("")

    def _end_row(self) -> None:
        if self._row is not None:
            self._skip_hanging()
            self._rows.append(self._row)
            self._hanging = {column: left - 1 for column, left in self._hanging.items() if left > 1}
        self._row = None

    def markdown(self) -> list[list[str]]:
        """Return the caption and the table as blocks of lines; a table of one column is plain paragraphs."""
        self.close("tr")
        rows = [row for row in self._rows if any(row)]
        width = max((len(row) for row in rows), default=0)
        blocks = [[self._caption]] if self._caption else []
        if width <= 1:
            return blocks + [[cell] for row in rows for cell in row if cell]
        lines = [_line([*row, *[""] * (width - len(row))]) for row in rows]
        return [*blocks, [lines[0], _line(["---"] * width), *lines[1:]]]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _number(values: Mapping[str, str], name: str, at_most: int) -> int:
    text = values.get(name, "").strip()
    return (
        min(max(int(text), 1), at_most) if text.isdecimal() and len(text) < 10 else 1 if len(text) < 10 else at_most
    )

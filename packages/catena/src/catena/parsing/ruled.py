"""Tables with drawn borders, through pdfplumber (extra `[tables]`), in the reading process."""

from __future__ import annotations

from io import BytesIO
from types import TracebackType
from typing import Any

from catena.model.layout import RuledTable
from catena.model.merged_cells import Merged
from catena.parsing.runs import readable_text

MAX_EDGES = 20_000  # lines drawn on one page; a map has more, a table has not, and finding cells is quadratic
_SETTINGS = {"vertical_strategy": "lines", "horizontal_strategy": "lines"}


class RuledTables:
    """The drawn tables of one file, page by page; none at all where they are not wanted."""

    def __init__(self, data: bytes, password: str | None, *, wanted: bool) -> None:
        self._file: Any = None
        if wanted:
            import pdfplumber

            self._file = pdfplumber.open(BytesIO(data), password=password)

    def __enter__(self) -> RuledTables:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def on_page(self, number: int) -> tuple[RuledTable, ...]:
        """Return the tables of a page (from 1) with at least two rows and two columns."""
        if self._file is None or number > len(self._file.pages):
            return ()
        page = self._file.pages[number - 1]
        tables = page.find_tables(_SETTINGS) if len(page.edges) <= MAX_EDGES else []
        found = [_table(table) for table in tables]
        page.close()
        return tuple(table for table in found if len(table.rows) > 1 and len(table.rows[0]) > 1)


def _table(table: Any) -> RuledTable:
    x0, top, x1, bottom = table.bbox
    rows = [[readable_text(cell or "").strip() for cell in row] for row in table.extract()]
    width = max(len(row) for row in rows)
    return RuledTable(
        x0=round(float(x0), 2),
        x1=round(float(x1), 2),
        top=round(float(top), 2),
        bottom=round(float(bottom), 2),
        rows=tuple((*row, *[""] * (width - len(row))) for row in rows),
        merged=_merged(table),
    )


def _merged(table: Any) -> tuple[Merged, ...]:
    """Return the cells that reach over the left edge of another column or the top of another row."""
    boxes = [
        (row, column, box) for row, line in enumerate(table.rows) for column, box in enumerate(line.cells) if box
    ]
    lefts, tops = ({box[side] for _, _, box in boxes} for side in (0, 1))
    found = (
        Merged(row, column, sum(top <= y < bottom for y in tops), sum(left <= x < right for x in lefts))
        for row, column, (left, top, right, bottom) in boxes
    )
    return tuple(cell for cell in found if cell.rows * cell.columns > 1)

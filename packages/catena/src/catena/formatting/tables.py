"""Find tables: ruled ones as the parser saw them, and simple unruled ones by the white between their columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from catena.formatting.figure_cells import (
    ROW_GAP,
    LineCell,
    LineCells,
    cells_of_lines,
    figures_in,
    is_figure,
    names_period,
)
from catena.formatting.grids import find_grids
from catena.formatting.headings import contents_pages
from catena.formatting.styled_lines import Measures, Rows, has_leader, key, rows_by_page
from catena.model import Line, Merged, Page, RuledTable, header_rows, moved, title_rows, unmerged

_MIN_GAP = 0.7  # usual line distances between rows of an unruled table; fractions are closer
_MIN_ROWS = 3
_FAVOUR = 1.2  # of a grid of figures: those found by white take marks of footnotes for figures
_DIGITS = re.compile(r"\d[\d.]*")
_LIST_MARK = re.compile(
    r"^(?:[•‣◦▪■●○∙·–—*-]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxlIVXL]{1,6})[.)]|\[\d{1,4}\]|\d+(?:\.\d+)+)$"
)


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """A table and the rows (indexes, ascending) it takes the place of.

    Each row of cells has its page; the printed lines of a cell are parted by line breaks.
    """

    indexes: tuple[int, ...]
    cells: tuple[tuple[int, tuple[str, ...]], ...]


def ruled_tables(pages: Sequence[Page], rows: Rows) -> list[PrintedTable]:
    """Return the ruled tables of every page that print the same characters as the lines inside their box."""
    by_page = rows_by_page(rows)
    found: list[PrintedTable] = []
    for page in pages:
        free = by_page[page.number]
        for ruled in page.tables:
            inside = [index for index in free if _inside(rows[index].line, ruled)]
            cells, merged = _without_empty(ruled)
            if len(cells) < 2 or len(cells[0]) < 2 or not _same_characters(cells, [rows[i].text for i in inside]):
                continue
            titles, printed = _titles(cells, merged, [rows[index].text for index in inside])
            below = [cell._replace(row=cell.row - titles) for cell in merged if cell.row >= titles]
            made = unmerged(cells[titles:], below, header=header_rows(cells[titles:], below))
            found.append(PrintedTable(tuple(inside[printed:]), tuple((page.number, row) for row in made)))
            free = [index for index in free if index not in set(inside)]
    return found


def _inside(line: Line, table: RuledTable) -> bool:
    across, down = (line.x0 + line.x1) / 2, (line.top + line.bottom) / 2
    return table.x0 <= across <= table.x1 and table.top <= down <= table.bottom


def _without_empty(table: RuledTable) -> tuple[list[tuple[str, ...]], tuple[Merged, ...]]:
    """Drop rows and columns in which nothing is printed."""
    kept = [number for number, row in enumerate(table.rows) if any(cell.strip() for cell in row)]
    width = len(table.rows[0]) if table.rows else 0
    columns = [column for column in range(width) if any(table.rows[row][column].strip() for row in kept)]
    cells = [tuple(table.rows[row][column] for column in columns) for row in kept]
    return cells, moved(table.merged, kept, columns) if cells else ()


def _titles(cells: Sequence[Sequence[str]], merged: Sequence[Merged], lines: Sequence[str]) -> tuple[int, int]:
    """Return the number of title rows at the top, and of lines that print them: these stay text above the table."""
    titles = title_rows(cells, merged)
    title = key("".join(row[0] for row in cells[:titles]))
    printed = 0
    while printed < len(lines) and len(key("".join(lines[:printed]))) < len(title):
        printed += 1
    return (titles, printed) if title and key("".join(lines[:printed])) == title else (0, 0)


def _same_characters(cells: Sequence[Sequence[str]], lines: Sequence[str]) -> bool:
    """Tell if cells and lines have the same letters and digits: nothing dropped, nothing invented."""
    return Counter(key("".join(map("".join, cells)))) == Counter(key("".join(lines)))


def find_tables(pages: Sequence[Page], rows: Rows, measures: Measures, *, unruled: bool) -> list[PrintedTable]:
    """Return the tables of a file: ruled ones, and unless they are switched off, those without drawn borders.

    These are found by the edges of their figures, and by the white between their columns. Where tables claim the same
    lines, those with more evidence stay.
    """
    ruled = ruled_tables(pages, rows)
    if not unruled:
        return ruled
    contents = contents_pages(rows)
    closed = frozenset(i for i, row in enumerate(rows) if row.page in contents or measures.code(row))
    cells = cells_of_lines(rows, measures)
    made = ((grid, [(grid.lines[0], grid.header), *grid.rows]) for grid in find_grids(rows, cells, measures, closed))
    figures = [PrintedTable(grid.lines, tuple((rows[line].page, row) for line, row in body)) for grid, body in made]
    ruled, grids = _better(ruled, figures)
    others = [*ruled, *unruled_tables(rows, cells, measures, _lines(ruled), contents)]
    kept, grids = _better(others, grids, favour=_FAVOUR)
    found = [*kept, *grids]
    if len(kept) == len(others):
        return found
    return found + unruled_tables(rows, cells, measures, _lines(found), contents)


def _lines(tables: Sequence[PrintedTable]) -> frozenset[int]:
    return frozenset(index for table in tables for index in table.indexes)


def _better(
    others: Sequence[PrintedTable], grids: Sequence[PrintedTable], *, favour: float = 1.0
) -> tuple[list[PrintedTable], list[PrintedTable]]:
    """Return of both kinds the tables that claim lines alone, and of rivals those with more evidence."""
    owner = {index: place for place, table in enumerate(others) for index in table.indexes}
    claims: list[tuple[list[PrintedTable], set[int]]] = []  # grids that share a rival, and all their rivals
    for grid in grids:
        rivals = {owner[index] for index in grid.indexes if index in owner}
        if claims and rivals & claims[-1][1]:
            claims[-1] = ([*claims[-1][0], grid], claims[-1][1] | rivals)
        else:
            claims.append(([grid], rivals))
    kept, dropped = [], set[int]()
    for those, rivals in claims:
        if not rivals or favour * sum(map(_evidence, those)) > sum(_evidence(others[place]) for place in rivals):
            kept += those
            dropped |= rivals
    return [table for place, table in enumerate(others) if place not in dropped], kept


def _evidence(table: PrintedTable) -> int:
    """Return how much speaks for a table: named columns and cells of one figure, less those of several."""
    (_, header), *body = table.cells
    named = sum(-1 if is_figure(name) and not names_period(name) else bool(name) for name in header)
    held = (figures_in(cell) for _, row in body for cell in row if not names_period(cell))
    return named + sum(3 - 2 * min(3, figures) for figures in held if figures)


def unruled_tables(
    rows: Rows, cells: LineCells, measures: Measures, taken: frozenset[int], contents: frozenset[int]
) -> list[PrintedTable]:
    """Return runs of at least three lines whose words line up in two or more columns.

    Rows of `taken` (ruled tables), code, and lines with dot leaders or on pages of contents are left alone.
    """
    closed = taken | {i for i, row in enumerate(rows) if row.page in contents or measures.code(row)}
    split = [() if i in closed or has_leader(row.text) else cells[i] for i, row in enumerate(rows)]
    found = []
    index = 0
    while index < len(rows):
        if len(split[index]) < 2:
            index += 1
            continue
        end = index + 1
        while end < len(rows) and split[end] and _follows(rows, index, end, split, measures):
            end += 1
        while len(split[end - 1]) < 2 and split[end - 1][0].x0 <= split[index][0].x1:
            end -= 1
        table = _table(rows, index, end, split, measures)
        if table is not None:
            found.append(table)
        index = end
    return found


def _follows(rows: Rows, start: int, index: int, split: LineCells, measures: Measures) -> bool:
    above, below = rows[index - 1], rows[index]
    if above.block != below.block or not _MIN_GAP <= measures.gap(above, below) <= ROW_GAP:
        return False
    if len(split[index]) >= 2:
        return True
    left = split[index][0].x0  # a lone cell belongs to the table where it continues a column other than the first
    return left > split[start][0].x1 and measures.gap(above, below) <= 1.25


def _table(rows: Rows, start: int, end: int, split: LineCells, measures: Measures) -> PrintedTable | None:
    several = [index for index in range(start, end) if len(split[index]) >= 2]
    if len(several) < _MIN_ROWS:
        return None
    columns = _columns([cell for index in range(start, end) for cell in split[index]], 0.5 * rows[start].size)
    if len(columns) < 2 or len(columns) > 12:
        return None
    marks = sum(bool(_LIST_MARK.match(split[index][0].text)) for index in several)
    if len(columns) == 2 and 2 * marks > len(several):
        return None
    lines = [(index, _placed(split[index], columns)) for index in range(start, end)]
    filled = sum(bool(cell) for index, cells in lines if len(split[index]) >= 2 for cell in cells)
    if filled < 0.6 * len(several) * len(columns):
        return None
    cells = _merged(rows, lines, measures)
    numbered = [_DIGITS.sub("#", row[0]) for _, row in cells]
    alike = "#" in numbered[0] and 2 * numbered.count(numbered[0]) > len(cells)
    if alike or any(is_figure(cell) and re.search(r"\d", cell) and not names_period(cell) for cell in cells[0][1]):
        # a row like those below, or of figures, names no columns
        cells.insert(0, (cells[0][0], ("",) * len(columns)))
    return PrintedTable(tuple(range(start, end)), tuple(cells))


def _columns(cells: Sequence[LineCell], stream: float) -> list[tuple[float, float]]:
    """Return the columns: what is left between white streams that run through all the lines."""
    columns: list[tuple[float, float]] = []
    for x0, x1, *_ in sorted(cells):
        if columns and x0 < columns[-1][1] + stream:
            columns[-1] = (columns[-1][0], max(columns[-1][1], x1))
        else:
            columns.append((x0, x1))
    return columns


def _placed(cells: Sequence[LineCell], columns: Sequence[tuple[float, float]]) -> tuple[str, ...]:
    return tuple(" ".join(c.text for c in cells if left <= c.x0 and c.x1 <= right) for left, right in columns)


def _merged(
    rows: Rows, lines: Sequence[tuple[int, tuple[str, ...]]], measures: Measures
) -> list[tuple[int, tuple[str, ...]]]:
    """Join a line that goes on with the cells of the line above it: its first cell is empty and it is close."""
    gaps = [measures.gap(rows[a], rows[b]) for (a, _), (b, _) in pairwise(lines)]
    spaced = max(gaps) > 1.2 * min(gaps)
    merged: list[tuple[int, tuple[str, ...]]] = []
    for position, (index, cells) in enumerate(lines):
        lone = sum(bool(cell) for cell in cells) == 1
        close = position > 0 and gaps[position - 1] <= 1.1 * min(gaps)
        if merged and not cells[0] and close and (lone or spaced):
            page, above = merged[-1]
            merged[-1] = (page, tuple(f"{one}\n{two}".strip() for one, two in zip(above, cells, strict=True)))
        else:
            merged.append((rows[index].page, cells))
    return merged

"""Merged cells: what each column is called and how each row is labelled where a cell spans several of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

Row: TypeAlias = tuple[str, ...]

LONGEST_REPEATED = 200  # characters of a cell that is repeated; what is longer is no name, and stands once


class Merged(NamedTuple):
    """A cell over several rows or columns, by its first place (0-based) and its extent."""

    row: int
    column: int
    rows: int
    columns: int


def moved(merged: Iterable[Merged], rows: Sequence[int], columns: Sequence[int]) -> tuple[Merged, ...]:
    """Return the merged cells by their places in a table of which only some rows and columns are kept, ascending."""
    found = []
    for cell in merged:
        top, left = bisect_left(rows, cell.row), bisect_left(columns, cell.column)
        height = bisect_left(rows, cell.row + cell.rows) - top
        width = bisect_left(columns, cell.column + cell.columns) - left
        if height * width > 1 and rows[top] == cell.row and columns[left] == cell.column:
            found.append(Merged(top, left, height, width))
    return tuple(found)


def title_rows(rows: Sequence[Sequence[str]], merged: Iterable[Merged]) -> int:
    """Return how many rows at the top are one cell as wide as the table: its title, no header."""
    width = len(rows[0]) if rows else 0
    wide = {cell.row for cell in merged if width > 1 and cell.columns >= width and cell.rows == 1}
    count = 0
    while count in wide and count < len(rows) - 1:
        count += 1
    return count


def header_rows(rows: Sequence[Sequence[str]], merged: Iterable[Merged]) -> int:
    """Return how many rows at the top are the header where nothing states it.

    The first row is; and while a row of the header has a cell over several columns, but not over all, the
    row below names what it groups. At least one row is left for the body.
    """
    width = len(rows[0]) if rows else 0
    groups = {cell.row for cell in merged if 1 < cell.columns < width}
    count = 1
    while count - 1 in groups and count < len(rows) - 1:
        count += 1
    return min(count, len(rows))


def unmerged(rows: Sequence[Sequence[str]], merged: Iterable[Merged], *, header: int) -> tuple[Row, ...]:
    """Return the table with one header row and without merged cells; no text is lost.

    A cell of the header names every column that it spans, and the names of a column are joined from the top
    down: "Supply voltage" over "min" and "max" gives "Supply voltage min" and "Supply voltage max". A cell of
    the first column labels every row that it spans. Any other merged cell stands once, at its first place, so
    that no value is counted twice.

    Args:
        rows: of equal length; the text of a merged cell stands in its first place, the others are empty.
        merged: the merged cells.
        header: rows at the top that are the header; 0 gives an empty header row.
    """
    filled = [list(row) for row in rows]
    for cell in merged:
        text = filled[cell.row][cell.column]
        if not text or len(text) > LONGEST_REPEATED:
            continue
        if cell.row < header:
            _fill(filled[cell.row : min(header, cell.row + cell.rows)], cell.column, cell.columns, text)
        elif cell.column == 0:
            _fill(filled[cell.row : cell.row + cell.rows], 0, 1, text)
    width = len(filled[0]) if filled else 0
    names = tuple(_joined(row[column] for row in filled[:header]) for column in range(width))
    return (names, *(tuple(row) for row in filled[header:]))


def _fill(rows: Sequence[list[str]], column: int, columns: int, text: str) -> None:
    """Write a text into the empty places of a block of cells."""
    for row in rows:
        for place in range(column, min(column + columns, len(row))):
            row[place] = row[place] or text


def _joined(names: Iterable[str]) -> str:
    """Return the names of one column from the top down; one that is repeated stands once."""
    kept: list[str] = []
    for name in names:
        if name and name not in kept:
            kept.append(name)
    return " ".join(kept)

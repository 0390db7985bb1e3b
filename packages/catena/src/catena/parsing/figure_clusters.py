"""Shapes that lie together, found on a raster of the page: linear in the shapes, however many there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from catena.parsing.figure_shapes import Box, Shape, union

CELL = 6.0  # points: shapes are together when their cells touch, so up to 6 to 12 points apart
_MOST_CELLS = 400  # along a side of the page, whatever its size
_GROUP_SHARE = 0.6  # of the page: a form that covers more wraps the page, and binds nothing together


class _Run(NamedTuple):
    row: int
    first: int
    last: int


def clusters(shapes: Sequence[Shape], size: tuple[float, float]) -> list[list[Shape]]:
    """Return the shapes in groups that lie together; the shapes of one embedded drawing are never parted.

    Args:
        shapes: of one page.
        size: width and height of the page.
    """
    width, height = size
    cell = max(CELL, width / _MOST_CELLS, height / _MOST_CELLS)
    bound = [shape.box for shape in shapes] + _forms(shapes, width * height)
    rows = [0] * (int(height / cell) + 2)
    for box in bound:
        _paint(rows, box, cell)
    runs, owner = _components(rows)
    by_row: dict[int, list[tuple[_Run, int]]] = {}
    for run, component in zip(runs, owner, strict=True):
        by_row.setdefault(run.row, []).append((run, component))
    groups: dict[int, list[Shape]] = {}
    for shape in shapes:
        row, column = _row(shape.box.top, cell, len(rows)), max(0, int(shape.box.x0 / cell))
        found = next(component for run, component in by_row[row] if run.first <= column <= run.last)
        groups.setdefault(found, []).append(shape)
    return list(groups.values())


def _forms(shapes: Sequence[Shape], page: float) -> list[Box]:
    parts: dict[int, list[Box]] = {}
    for shape in shapes:
        if shape.group:
            parts.setdefault(shape.group, []).append(shape.box)
    boxes = [union(boxes) for boxes in parts.values()]
    return [box for box in boxes if box.area < _GROUP_SHARE * page]


def _row(top: float, cell: float, count: int) -> int:
    return min(count - 1, max(0, int(top / cell)))


def _paint(rows: list[int], box: Box, cell: float) -> None:
    """Set the bits of the cells that a box covers; a row of the raster is one whole number."""
    first, last = max(0, int(box.x0 / cell)), max(0, int(box.x1 / cell))
    mask = ((1 << (last - first + 1)) - 1) << first
    for row in range(_row(box.top, cell, len(rows)), _row(box.bottom, cell, len(rows)) + 1):
        rows[row] |= mask


def _components(rows: Sequence[int]) -> tuple[list[_Run], list[int]]:
    """Return the runs of set bits, and for each the number of the component that it is part of."""
    runs = [run for row, bits in enumerate(rows) for run in _runs(row, bits)]
    parent = list(range(len(runs)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    above = 0
    for index, run in enumerate(runs):
        while runs[above].row < run.row - 1:
            above += 1
        for other in range(above, index):
            if (
                runs[other].row == run.row - 1
                and runs[other].first <= run.last + 1
                and run.first <= runs[other].last + 1
            ):
                parent[root(index)] = root(other)
    return runs, [root(index) for index in range(len(runs))]


def _runs(row: int, bits: int) -> Iterator[_Run]:
    at = 0
    while bits:
        gap = (bits & -bits).bit_length() - 1
        bits >>= gap
        at += gap
        length = (~bits & (bits + 1)).bit_length() - 1
        yield _Run(row, at, at + length - 1)
        bits >>= length
        at += length

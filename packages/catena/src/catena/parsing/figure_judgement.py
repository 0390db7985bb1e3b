"""Whether shapes that lie together draw something, or only rule a table, underline or frame a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from catena.parsing.figure_shapes import RULE, Box, Shape, union

_ALONG = 1.5  # points: edges this near are drawn as one line
_LONG = 0.75  # of the whole: from here on a line of a grid goes through it
_GRID = 0.6  # of the lengths of all lines: with more in long ones, they rule a table
_INK = 0.12  # of the area: what other ink must cover at least on top of a grid
_BAR = 3.0  # points: the smallest side of a bar
_PICTURE = 36.0  # points: the smallest side of a bitmap that is a figure


def draws_something(group: Sequence[Shape], lines: Sequence[Box]) -> bool:
    """Return whether a group of shapes is a drawing.

    A bitmap of some size is. So is ink that is neither line nor rectangle, unless it is a small mark in a
    table. Lines and rectangles alone are when they form no grid: the long lines of a table make up most of
    all its lines, those of a diagram do not. Filled rectangles without text in them are bars.

    Args:
        group: shapes that lie together.
        lines: boxes of the lines of text on the page.
    """
    whole = union(shape.box for shape in group)
    if any(shape.kind == "image" and min(shape.box.width, shape.box.height) >= _PICTURE for shape in group):
        return True
    pictures = [shape.box for shape in group if shape.kind == "image"]
    if pictures and min(union(pictures).width, union(pictures).height) >= _PICTURE:
        return True  # a bitmap that was cut into strips
    ink = [shape for shape in group if shape.kind == "ink"]
    straight = [shape for shape in group if shape.kind in {"rule", "box"}]
    if _bars(straight, lines) >= 2:
        return True
    if not straight:
        return len(ink) > 1 or (bool(ink) and min(whole.width, whole.height) >= _PICTURE)
    grid = _is_grid(straight)
    if ink:
        covered = sum(shape.box.area for shape in group if shape.kind in {"ink", "image"})
        return covered >= _INK * whole.area if grid else True
    return not grid and sum(shape.kind == "box" for shape in straight) >= 3


def _bars(straight: Iterable[Shape], lines: Sequence[Box]) -> int:
    """Return how many filled rectangles have no text in them, those of equal box counted once."""
    bars = {
        tuple(round(side) for side in shape.box)
        for shape in straight
        if shape.kind == "box" and shape.solid and min(shape.box.width, shape.box.height) >= _BAR
        and not any(shape.box.meets(line) for line in lines)
    }  # fmt: skip
    return len(bars)


def _is_grid(straight: Sequence[Shape]) -> bool:
    whole = union(shape.box for shape in straight)
    across: list[tuple[float, float, float]] = []  # height, from, to
    down: list[tuple[float, float, float]] = []
    for shape in straight:
        box = shape.box
        if box.height <= RULE and box.width > box.height:
            across.append((box.top, box.x0, box.x1))
        elif box.width <= RULE:
            down.append((box.x0, box.top, box.bottom))
        else:
            across += [(box.top, box.x0, box.x1), (box.bottom, box.x0, box.x1)]
            down += [(box.x0, box.top, box.bottom), (box.x1, box.top, box.bottom)]
    return _long_share(across, whole.width) >= _GRID and (not down or _long_share(down, whole.height) >= _GRID)


def _long_share(edges: Sequence[tuple[float, float, float]], length: float) -> float:
    """Return how much of all lines is in those that go through most of the length, edges in line joined."""
    joined: list[tuple[float, float, float]] = []
    for at, start, end in sorted((round(at / _ALONG), start, end) for at, start, end in edges):
        if joined and joined[-1][0] == at and start <= joined[-1][2] + _ALONG:
            joined[-1] = (at, joined[-1][1], max(joined[-1][2], end))
        else:
            joined.append((at, start, end))
    total = sum(end - start for _, start, end in joined)
    return sum(end - start for _, start, end in joined if end - start >= _LONG * length) / total if total else 1.0

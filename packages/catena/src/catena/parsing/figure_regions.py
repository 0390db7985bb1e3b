"""Find the figures of a page: shapes that lie together and draw something, with the labels among them.

All lengths are points. Rules, tables, frames around text, backgrounds and small marks are no figures; neither
is what returns page after page, such as a logo.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Literal, NamedTuple, TypeAlias
from zlib import crc32

from catena.model import Line, RuledTable, is_figure_caption
from catena.parsing.figure_shapes import RULE, Box, Drawn, Shape, union

FigureKind: TypeAlias = Literal["bitmap", "drawing"]

MIN_SIDE = 36.0  # half an inch: smaller ones are icons, bullets and ornaments
MIN_AREA = 2_600.0  # a square of 51 points
PAGE_SHARE = 0.8  # of the page: what covers more is its background or frame, not a figure on it
LABEL_GAP = 6.0  # text this near belongs to a drawing
_TITLE_PITCH = 1.6  # of the size of such a title, where that is more
TITLE_GAP = 14.0  # text this near does too where it keeps within the drawing's width or height: the title of an axis
PANEL_GAP = 26.0  # drawings this near to each other, with no text to read between, are panels of one figure
GRID_GAP = 72.0  # grid lines of one chart are no farther apart
MAX_DRAWINGS = 200  # of a page: the largest
_GROWTH = 4  # rounds: tick labels, then the title of the axis, then the title of the panel
_PROSE = 0.4  # of a region's area: with more running text than this inside, it is a page with decorations
_SAME_PLACE, _ANYWHERE = 3, 4  # pages on which one content makes a decoration, at one place or at any
_MARGIN = 0.15  # of the height, at the top and at the bottom: there two pages are enough


class Region(NamedTuple):
    """A figure on a page; `content` is the same for figures that show the same shapes."""

    box: Box
    kind: FigureKind
    content: int


def find_regions(
    drawn: Drawn, lines: Sequence[Line], tables: Sequence[RuledTable], size: tuple[float, float]
) -> list[Region]:
    """Return the figures of one page from top to bottom, then from left to right.

    Args:
        drawn: its shapes, and its text objects: labels among them join a drawing.
        lines: of the page, in reading order.
        tables: whose borders are drawn, where they were looked for.
        size: width and height of the page.
    """
    prose = [box_of(line) for line, reads in zip(lines, running_text(lines, size[0]), strict=True) if reads]
    page = Box(0.0, 0.0, *size)
    kept = [shape for shape in drawn.shapes if not _is_background(shape, page, prose)]
    grids = [Box(table.x0, table.top, table.x1, table.bottom) for table in tables]
    written = [box_of(line) for line in lines]
    drawings = [
        union(shape.box for shape in group)
        for group in clusters(kept, size)
        if draws_something(group, written) and not _in_table(group, grids)
    ]
    free = [text for text in drawn.texts if not any(reads.holds(text) for reads in prose)]
    boxes = _panels(drawings, free, prose, kept)
    regions = [_region(box.common(page), kept) for box in boxes if _is_figure(box.common(page), prose)]
    return sorted(regions, key=lambda region: (region.box.top, region.box.x0))


def _is_background(shape: Shape, page: Box, prose: Sequence[Box]) -> bool:
    """Tell whether a shape is the paper, or a frame or a tint behind paragraphs."""
    if shape.box.area >= PAGE_SHARE * page.area:
        return True
    if shape.kind == "rule":
        return max(shape.box.width / page.width, shape.box.height / page.height) > 0.98
    inside = [box for box in prose if shape.box.holds(box)] if shape.kind == "box" else []
    return len(inside) >= 2 and sum(box.width >= 0.5 * shape.box.width for box in inside) >= 2


def _in_table(group: Sequence[Shape], grids: Sequence[Box]) -> bool:
    box = union(shape.box for shape in group)
    pictures = sum(shape.box.area for shape in group if shape.kind == "image")
    return any(grid.common(box).area > 0.5 * box.area and pictures < 0.3 * box.area for grid in grids)


def _panels(
    drawings: Sequence[Box], texts: Sequence[Box], prose: Sequence[Box], shapes: Sequence[Shape]
) -> list[Box]:
    """Return drawings grown over their labels, those that belong together as one."""
    boxes = sorted(drawings, key=lambda box: (-box.area, box))[:MAX_DRAWINGS]
    boxes = [box for box in boxes if min(box.width, box.height) >= MIN_SIDE / 2]
    for _ in range(_GROWTH):
        boxes = [_with_labels(box, texts, prose) for box in boxes]
        boxes = [_with_shapes(box, shapes, prose) for box in boxes]
        boxes = _joined(boxes, prose)
    return boxes


def _with_labels(box: Box, texts: Sequence[Box], prose: Sequence[Box]) -> Box:
    """Return the box with the texts around it, as far as it does not run into text to be read."""
    for text in texts:
        if _is_near(text, box) and text.area < 0.5 * box.area:
            wider = union((box, text))
            if not _covers_more(wider, box, prose):
                box = wider
    return box


def _is_near(text: Box, box: Box) -> bool:
    if text.meets(box.grown(LABEL_GAP)):
        return True
    reach = box.grown(max(TITLE_GAP, _TITLE_PITCH * min(text.width, text.height)))
    across = box.x0 <= text.x0 and text.x1 <= box.x1
    down = box.top <= text.top and text.bottom <= box.bottom
    return text.meets(reach) and (across or down)


def _with_shapes(box: Box, shapes: Sequence[Shape], prose: Sequence[Box]) -> Box:
    """Return the box with small shapes that touch it, such as the samples of a legend, and all its grid lines."""
    reach = box.grown(2.0)
    grid = {_span(shape.box) for shape in shapes if shape.kind == "rule" and box.holds(shape.box)}
    for shape in shapes:
        touches = shape.kind != "rule" and shape.box.meets(reach) and shape.box.area < box.area
        if touches or (shape.kind == "rule" and _is_next_line(shape.box, box, grid)):
            wider = union((box, shape.box))
            if not _covers_more(wider, box, prose):
                box = wider
    return box


def _is_next_line(rule: Box, box: Box, grid: Set[tuple[bool, int, int]]) -> bool:
    """Tell whether a rule begins and ends where one inside the drawing does, a line's distance further on."""
    if not rule.meets(box.grown(GRID_GAP)):
        return False
    across, first, last = _span(rule)
    near = ((across, first + i, last + j) for i in (-1, 0, 1) for j in (-1, 0, 1))
    return any(span in grid for span in near)


def _span(rule: Box) -> tuple[bool, int, int]:
    """Return whether a rule runs across the page, and in points where it begins and ends."""
    across = rule.width > rule.height
    return (True, round(rule.x0), round(rule.x1)) if across else (False, round(rule.top), round(rule.bottom))


def _covers_more(wider: Box, box: Box, prose: Sequence[Box]) -> bool:
    return any(wider.holds(read) and not box.holds(read) for read in prose)


def _joined(boxes: Sequence[Box], prose: Sequence[Box]) -> list[Box]:
    """Join boxes that overlap, and panels side by side or above each other."""
    left = list(boxes)
    done: list[Box] = []
    while left:
        box = left.pop()
        for other in left:
            near = box.grown(PANEL_GAP).meets(other) and _in_line(box, other)
            both = union((box, other))
            if box.meets(other) or (
                near and not _covers_more(both, box, prose) and not _covers_more(both, other, prose)
            ):
                left.remove(other)
                left.append(both)
                break
        else:
            done.append(box)
    return done


def _in_line(one: Box, two: Box) -> bool:
    """Tell whether two boxes lie side by side or one above the other, by half of the smaller one or more."""
    across, down = one.common(two).width, one.common(two).height
    return across >= 0.5 * min(one.width, two.width) or down >= 0.5 * min(one.height, two.height)


def _is_figure(box: Box, prose: Sequence[Box]) -> bool:
    if min(box.width, box.height) < MIN_SIDE or box.area < MIN_AREA:
        return False
    return sum(box.common(read).area for read in prose if box.meets(read)) <= _PROSE * box.area


def _region(box: Box, shapes: Sequence[Shape]) -> Region:
    inside = [shape for shape in shapes if box.holds(shape.box)]
    pictures = sum(shape.box.area for shape in inside if shape.kind == "image")
    others = sum(shape.kind != "image" for shape in inside)
    x0, top = box.x0, box.top
    boxes = [(s.kind, s.mark, s.box.x0 - x0, s.box.top - top, s.box.width, s.box.height) for s in inside]
    outline = sorted((kind, mark, *map(round, sides)) for kind, mark, *sides in boxes)
    size = (round(box.width / 4), round(box.height / 4))
    kind: FigureKind = "bitmap" if pictures >= 0.5 * box.area and others <= 2 else "drawing"
    return Region(box, kind, crc32(repr((size, outline)).encode()))


def without_decorations(
    regions: Mapping[int, Sequence[Region]], heights: Mapping[int, float]
) -> dict[int, list[Region]]:
    """Return the regions of each page (from 1) without those that return: logos, icons, ornaments.

    One content is a decoration on three pages at one place, on two within the top or bottom 15% of the page,
    and on four pages anywhere.
    """
    anywhere: dict[int, set[int]] = defaultdict(set)
    placed: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    for number, found in regions.items():
        for region in found:
            anywhere[region.content].add(number)
            placed[_place(region)].add(number)

    def returns(region: Region, height: float) -> bool:
        here = len(placed[_place(region)])
        edge = region.box.bottom <= _MARGIN * height or region.box.top >= (1 - _MARGIN) * height
        return here >= (2 if edge else _SAME_PLACE) or len(anywhere[region.content]) >= _ANYWHERE

    return {
        number: [region for region in found if not returns(region, heights[number])]
        for number, found in regions.items()
    }


def _place(region: Region) -> tuple[int, int, int]:
    return region.content, round(region.box.x0 / 6), round(region.box.top / 6)


CELL = 6.0  # points: shapes are together when their cells touch, so up to 6 to 12 points apart
_MOST_CELLS = 400  # along a side of the page, for any size of page
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
    """Count the filled rectangles that have no text in them; those of equal box count once."""
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
    """Return the share of all lines, by length, that go through most of the length; edges in line are joined."""
    joined: list[tuple[float, float, float]] = []
    for at, start, end in sorted((round(at / _ALONG), start, end) for at, start, end in edges):
        if joined and joined[-1][0] == at and start <= joined[-1][2] + _ALONG:
            joined[-1] = (at, joined[-1][1], max(joined[-1][2], end))
        else:
            joined.append((at, start, end))
    total = sum(end - start for _, start, end in joined)
    return sum(end - start for _, start, end in joined if end - start >= _LONG * length) / total if total else 1.0


_WIDE = 0.6  # of the width of its column: from here on a line is one of running text
_WORDS = 4  # that such a line has at least
_DENSE = 0.8  # of its width: how much of such a line its words cover
_FEWEST = 3  # lines that begin at one place make it the edge of a column
_INDENT = 20.0  # points: of the first line of a paragraph
_PITCH = 1.75  # of the size: lines of one paragraph are no farther apart
_LEFT = 40.0  # points by which the left edges of two lines of one paragraph may differ, as by an indent


def box_of(line: Line) -> Box:
    """Return the box of a line."""
    return Box(line.x0, line.top, line.x1, line.bottom)


def running_text(lines: Sequence[Line], width: float) -> list[bool]:
    """Return, per line, whether it is of a paragraph or of a figure's caption: no drawing takes it in.

    A run of close lines of one size and column is a paragraph as soon as one of them is wide and has several
    words; a short isolated line, such as the title of an axis, is none.

    Args:
        lines: of one page, in reading order.
        width: of the page.
    """
    usual = _column_widths(lines, width)
    edges = Counter((line.column, round(line.x0)) for line in lines if len(line.text.split()) >= _WORDS)
    margins = {edge for edge, count in edges.items() if count >= _FEWEST}
    found = [False] * len(lines)
    start = 0
    for index in range(1, len(lines) + 1):
        if index < len(lines) and _follows(lines[index - 1], lines[index]):
            continue
        run = lines[start:index]
        wide = sum(_is_filled(line, usual[line.column]) for line in run)
        prose = wide and (len(run) > 1 or len(run[0].text.split()) >= 3 * _WORDS)
        if prose or is_figure_caption(run[0].text) or any(_is_sentence(line, margins) for line in run):
            found[start:index] = [True] * (index - start)
        start = index
    return found


def _is_sentence(line: Line, margins: Set[tuple[int, int]]) -> bool:
    """Tell whether a lone line reads as text: several words from where the paragraphs around begin, or an indent."""
    from_margin = any(column == line.column and -1 <= line.x0 - left <= _INDENT for column, left in margins)
    return from_margin and len(line.text.split()) >= _WORDS and _is_dense(line)


def _is_dense(line: Line) -> bool:
    return sum(span.x1 - span.x0 for span in line.spans) >= _DENSE * (line.x1 - line.x0)


def _is_filled(line: Line, usual: float) -> bool:
    """Tell whether words fill most of a column's width; labels along an axis leave white between them."""
    return line.x1 - line.x0 >= _WIDE * usual and len(line.text.split()) >= _WORDS and _is_dense(line)


def _follows(above: Line, below: Line) -> bool:
    if above.column != below.column or is_figure_caption(below.text):
        return False
    size = max(above.size, below.size)
    pitch = (below.top + below.bottom - above.top - above.bottom) / 2
    same = abs(above.size - below.size) <= 0.1 * size and abs(above.x0 - below.x0) <= _LEFT
    return same and 0.3 * size < pitch <= _PITCH * size


def _column_widths(lines: Sequence[Line], width: float) -> dict[int, float]:
    """Return the usual width of the lines of each column: the 90th percentile, at least 30% of the page's."""
    widths: dict[int, list[float]] = {}
    for line in lines:
        widths.setdefault(line.column, []).append(line.x1 - line.x0)
    return {column: max(0.3 * width, sorted(found)[(len(found) - 1) * 9 // 10]) for column, found in widths.items()}

"""Where the figures of a page are: shapes that lie together and draw something, with the labels among them.

All lengths are points. Rules, tables, frames around text, backgrounds and small marks are no figures; neither
is what returns page after page, such as a logo.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Literal, NamedTuple, TypeAlias
from zlib import crc32

from catena.model.layout import Line, RuledTable
from catena.parsing.figure_clusters import clusters
from catena.parsing.figure_judgement import draws_something
from catena.parsing.figure_shapes import Box, Drawn, Shape, union
from catena.parsing.figure_text import box_of, running_text

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
    """Whether a shape is the paper, or a frame or a tint behind paragraphs."""
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
    """Whether a rule begins and ends where one inside the drawing does, a line's distance further on."""
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
    """Whether two boxes stand side by side or one above the other, half of the smaller one or more."""
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
    outline = sorted(
        (
            s.kind,
            s.mark,
            round(s.box.x0 - box.x0),
            round(s.box.top - box.top),
            round(s.box.width),
            round(s.box.height),
        )
        for s in inside
    )
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

"""Find the figures of a page: shapes that lie together and draw something, with the labels among them.

All lengths are points. Rules, tables, frames around text, backgrounds and small marks are no figures; neither
is what returns page after page, such as a logo.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias
from zlib import crc32

from catena.model import Line, RuledTable, is_figure_caption
from catena.parsing.figure_shapes import RULE, Box, Drawn, Shape, union
from catena.text.words import runs_of

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
_MAX_CAPTIONS = 40  # of a page, by which drawings are kept apart
_MOST_GROWN = 4.0  # times: a figure with its labels is not larger than what is drawn of it
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
    spans = [(span.text, Box(span.x0, line.top, span.x1, line.bottom)) for line in lines for span in line.spans]
    written = [box for _, box in spans]
    groups = [group for group in clusters(kept, size) if draws_something(group, written)]
    wired = [union(shape.box for shape in group) for group in groups if connects(group)]
    drawings = [union(shape.box for shape in group) for group in groups if not _in_table(group, grids)] + wired
    if not drawings:
        return []
    free = [text for text in drawn.texts if not any(reads.holds(text) for reads in prose)]
    captions = [box for text, box in spans if is_figure_caption(text)][:_MAX_CAPTIONS]
    boxes = _panels(drawings, free, prose, kept, captions)
    regions = [_region(box.common(page), kept) for box in boxes if _is_figure(box.common(page), prose, wired)]
    return sorted(regions, key=lambda region: (region.box.top, region.box.x0))


def _is_background(shape: Shape, page: Box, prose: Sequence[Box]) -> bool:
    """Tell whether a shape is the paper, or a frame or a tint behind paragraphs."""
    if shape.box.area >= PAGE_SHARE * page.area:
        return True
    if shape.kind == "rule":
        return max(shape.box.width / page.width, shape.box.height / page.height) > 0.98
    inside = [box for box in prose if shape.box.holds(box)] if shape.kind == "box" else []
    return sum(box.width >= 0.5 * shape.box.width for box in inside) >= 2


def _in_table(group: Sequence[Shape], grids: Sequence[Box]) -> bool:
    box = union(shape.box for shape in group)
    pictures = sum(shape.box.area for shape in group if shape.kind == "image")
    return any(grid.common(box).area > 0.5 * box.area and pictures < 0.3 * box.area for grid in grids)


def _panels(
    drawings: Sequence[Box],
    texts: Sequence[Box],
    prose: Sequence[Box],
    shapes: Sequence[Shape],
    captions: Sequence[Box],
) -> list[Box]:
    """Return drawings grown over their labels, those that belong together as one."""
    boxes = sorted(drawings, key=lambda box: (-box.area, box))[:MAX_DRAWINGS]
    boxes = [box for box in boxes if min(box.width, box.height) >= MIN_SIDE / 2]
    for _ in range(_GROWTH):
        boxes = [_with_labels(box, texts, prose) for box in boxes]
        holders = [(shape, [box for box in boxes if box.holds(shape.box)]) for shape in shapes]
        boxes = [_with_shapes(box, [s for s, held in holders if held in ([], [box])], prose) for box in boxes]
        boxes = _joined(boxes, prose, captions)
    inside = [[drawing for drawing in drawings if box.holds(drawing)] for box in boxes]
    return [
        box if box.area <= _MOST_GROWN * sum(drawing.area for drawing in parts) else union(parts)
        for box, parts in zip(boxes, inside, strict=True)
        if parts
    ]


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


def _joined(boxes: Sequence[Box], prose: Sequence[Box], captions: Sequence[Box]) -> list[Box]:
    """Join boxes that overlap, and panels side by side or above each other, unless each has its own caption."""
    left = list(boxes)
    done: list[Box] = []
    while left:
        box = left.pop()
        for other in left:
            near = box.grown(PANEL_GAP).meets(other) and _in_line(box, other) and not _titled(box, other, captions)
            both = union((box, other))
            if box.meets(other) or (near and not any(_covers_more(both, one, prose) for one in (box, other))):
                left.remove(other)
                left.append(both)
                break
        else:
            done.append(box)
    return done


def _titled(one: Box, two: Box, captions: Sequence[Box]) -> bool:
    """Tell whether two captions begin at one height, one below or above each of two boxes."""
    left, right = sorted((one, two))
    return any(
        a.x0 < right.x0 - _ALONG <= b.x0 + LABEL_GAP and abs(a.top - b.top) <= RULE and a.x1 < b.x0
        for a in captions
        for b in captions
        if left.x0 - PANEL_GAP <= a.x0 <= left.x1 and b.x0 <= right.x1
    )


def _in_line(one: Box, two: Box) -> bool:
    """Tell whether two boxes lie side by side or one above the other, by half of the smaller one or more."""
    across, down = one.common(two).width, one.common(two).height
    return across >= 0.5 * min(one.width, two.width) or down >= 0.5 * min(one.height, two.height)


def _is_figure(box: Box, prose: Sequence[Box], wired: Iterable[Box]) -> bool:
    side = MIN_SIDE / 2 if any(map(box.holds, wired)) else MIN_SIDE
    if min(box.width, box.height) < side or box.area < MIN_AREA:
        return False
    return sum(box.common(read).area for read in prose if box.meets(read)) <= _PROSE * box.area


def _region(box: Box, shapes: Sequence[Shape]) -> Region:
    inside = [shape for shape in shapes if box.holds(shape.box)]
    pictures = sum(shape.box.area for shape in inside if shape.kind == "image")
    others = sum(shape.kind != "image" for shape in inside)
    x0, top = box.x0, box.top
    boxes = [(s.kind, s.mark, s.box.x0 - x0, s.box.top - top, s.box.width, s.box.height) for s in inside]
    outline = sorted((kind, mark, *map(round, sides)) for kind, mark, *sides in boxes)
    kind: FigureKind = "bitmap" if pictures >= 0.5 * box.area and others <= 2 else "drawing"
    return Region(box, kind, crc32(repr(outline).encode()))


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


def clusters(shapes: Sequence[Shape], size: tuple[float, float]) -> list[list[Shape]]:
    """Return the shapes in groups that lie together; the shapes of one embedded drawing are never parted.

    Args:
        shapes: of one page.
        size: width and height of the page.
    """
    width, height = size
    cell = max(CELL, width / _MOST_CELLS, height / _MOST_CELLS)
    rows = [0] * (int(height / cell) + 1)
    for box in (*(shape.box for shape in shapes), *_forms(shapes, width * height)):
        for row in range(int(box.top / cell), int(box.bottom / cell) + 1):
            rows[row] |= (2 << int(box.x1 / cell)) - (1 << int(box.x0 / cell))
    components = _components(rows)
    groups: dict[int, list[Shape]] = defaultdict(list)
    for shape in shapes:
        cells = components[int(shape.box.top / cell)]
        groups[next(number for run, number in cells if run >> int(shape.box.x0 / cell) & 1)].append(shape)
    return list(groups.values())


def _forms(shapes: Sequence[Shape], page: float) -> list[Box]:
    parts: dict[int, list[Box]] = defaultdict(list)
    for shape in shapes:
        parts[shape.group].append(shape.box)
    parts.pop(0, None)  # of no form
    boxes = [union(boxes) for boxes in parts.values()]
    return [box for box in boxes if box.area < _GROUP_SHARE * page]


def _components(rows: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return the runs of set bits of each row, and for each the number of the component that it is part of."""
    runs = [list(_runs(row)) for row in rows]
    parent = list(range(sum(map(len, runs))))
    numbers = iter(tuple(parent))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    numbered = [[(run, next(numbers)) for run in row] for row in runs]
    for above, below in pairwise(numbered):
        for run, number in below:
            for other, of_other in above:
                if run & (other >> 1 | other | other << 1):
                    parent[root(number)] = root(of_other)
    return [[(run, root(number)) for run, number in row] for row in numbered]


def _runs(row: int) -> Iterator[int]:
    """Yield each run of set bits, the others being 0."""
    while row:
        run = row & ~(row + (row & -row))
        yield run
        row ^= run


_ALONG = 1.5  # points: edges this near are drawn as one line, or touch
_LONG = 0.75  # of the whole: from here on a line of a grid goes through it
_GRID = 0.6  # of the lengths of all lines: with more in long ones, they rule a table
_INK = 0.12  # of the area: what other ink must cover at least on top of a grid
_BAR = 3.0  # points: the smallest side of a bar
_LABELS = 3  # texts a bar among bars, at most; a table has more to its shaded cells
_MARK = 12.0  # points: ink up to this size is the head of an arrow, a terminal or a tick
_DEPTH = 0.6  # of a box: as far a line from outside may go on behind it, as from centre to centre
_MAX_LINES = 500  # and boxes that are compared with each other; no diagram has more


def draws_something(group: Sequence[Shape], lines: Sequence[Box]) -> bool:
    """Return whether a group of shapes is a drawing.

    A bitmap of some size is. Lines and boxes are where lines lead from box to box, see `connects`; so are bars, which
    are filled rectangles without text. Ink that is neither line nor box is too, unless it is only small marks, or
    little on top of a grid.

    Args:
        group: shapes that lie together.
        lines: boxes of the lines of text on the page.
    """
    whole = union(shape.box for shape in group)
    pictures = [shape.box for shape in group if shape.kind == "image"]
    if pictures and min(union(pictures).width, union(pictures).height) >= MIN_SIDE:
        return True  # also where a bitmap was cut into strips
    ink = [shape for shape in group if shape.kind == "ink"]
    straight = [shape for shape in group if shape.kind in {"rule", "box"}]
    if not straight:
        return len(ink) > 1 or (bool(ink) and min(whole.width, whole.height) >= MIN_SIDE)
    if _bars(straight, lines, whole) >= 2 or connects(group):
        return True
    if all(map(_is_mark, ink)):
        return False
    covered = sum(shape.box.area for shape in group if shape.kind in {"ink", "image"})
    return covered >= _INK * whole.area if _is_grid(straight) else True


def _is_mark(shape: Shape) -> bool:
    return max(shape.box.width, shape.box.height) <= _MARK


def _bars(straight: Iterable[Shape], lines: Sequence[Box], whole: Box) -> int:
    """Count the filled rectangles without text in them or in any that they touch: cells that are shaded have some."""
    solid = [shape.box for shape in straight if shape.kind == "box" and shape.solid]
    bars: set[tuple[int, int]] = set()  # by left and right edge: of a row that is shaded all cells are one
    for island in _islands(solid):
        if not any(box.meets(line) for box in island for line in lines):
            row = len({(round(box.top), round(box.bottom)) for box in island}) == 1
            wide = [box for box in ([union(island)] if row else island) if min(box.width, box.height) >= _BAR]
            bars |= {(round(box.x0), round(box.x1)) for box in wide}
    written = sum(map(whole.holds, lines))
    return len(bars) if written <= _LABELS * len(bars) else 0


def _islands(boxes: Sequence[Box]) -> list[list[Box]]:
    """Return boxes in groups that touch each other; one that lies wholly inside another does not touch it."""
    return [list(boxes)] if len(boxes) > _MAX_LINES else list(_grouped(boxes, _touch))


def _grouped(boxes: Iterable[Box], joins: Callable[[Box, Box], bool]) -> Iterator[list[Box]]:
    """Yield boxes in groups, each of which holds with a box all that it joins."""
    left = list(boxes)
    while left:
        group = [left.pop()]
        for box in group:  # which grows as it is read
            group += [other for other in left if joins(box, other)]
            left = [other for other in left if not joins(box, other)]
        yield group


def _touch(one: Box, two: Box) -> bool:
    small, large = sorted((one, two), key=lambda box: box.area)
    around = small.grown(_ALONG)
    return around.meets(large) and around.common(large) != around


def connects(group: Iterable[Shape]) -> bool:
    """Return whether a line, or several that meet, lead from one box to another, or from a box to a small mark.

    A line leads to a box where it ends there from outside, and not at a corner. Lines of a table do so only here and
    there, at cells over several rows or columns, and form more meshes than they have such ends.
    """
    boxes = [shape.box for shape in group if shape.kind == "box"]
    marks = [shape.box for shape in group if shape.kind == "ink" and _is_mark(shape)]
    drawn = [shape.box for shape in group if shape.kind == "rule"]
    level = _joined_lines(((b.top + b.bottom) / 2, b.x0, b.x1) for b in drawn if b.width > b.height)
    upright = _joined_lines(((b.x0 + b.x1) / 2, b.top, b.bottom) for b in drawn if b.width <= b.height)
    rules, framed = _without_boxes(
        [Box(x0, y, x1, y) for y, x0, x1 in level], [Box(x, y0, x, y1) for x, y0, y1 in upright]
    )
    if len(rules) + len(boxes) + len(marks) > _MAX_LINES:
        return False
    islands = _islands(boxes + framed)
    for net in _grouped(rules, lambda one, other: one.grown(_ALONG).meets(other)):
        meets = sum(one.grown(_ALONG).meets(two) for place, one in enumerate(net) for two in net[:place])
        ends = [end for rule in net for end in _ends(rule, islands, marks)]
        if len(set(ends)) >= 2 and max(ends) >= 0 and len(ends) > meets - len(net) + 1:
            return True
    return False


def _without_boxes(across: Sequence[Box], down: Sequence[Box]) -> tuple[list[Box], list[Box]]:
    """Return lines without those that draw boxes, and the boxes: four lines that end at each other's ends."""
    starts: dict[tuple[int, int], list[Box]] = defaultdict(list)
    for line in (*across, *down):
        starts[round(line.x0 / RULE), round(line.top / RULE)].append(line)

    def begin_at(x: float, y: float) -> list[Box]:
        cells = ((round(x / RULE) + i, round(y / RULE) + j) for i in (-1, 0, 1) for j in (-1, 0, 1))
        return [line for cell in cells for line in starts.get(cell, ()) if _near(line[:2], (x, y))]

    found: list[Box] = []
    used: set[Box] = set()
    for left in down[:_MAX_LINES]:
        for top in (line for line in begin_at(left.x0, left.top) if line.x1 > line.x0):
            rights = [line for line in begin_at(top.x1, top.top) if line.bottom > line.top]
            bottoms = [line for line in begin_at(left.x0, left.bottom) if line.x1 > line.x0]
            for right, bottom in ((a, b) for a in rights for b in bottoms if _near(a[2:], b[2:])):
                found.append(union((left, top, right, bottom)))
                used |= {left, top, right, bottom}
    return [line for line in (*across, *down) if line not in used], found


def _near(one: Sequence[float], two: Sequence[float]) -> bool:
    return all(abs(a - b) <= RULE for a, b in zip(one, two, strict=True))


def _ends(rule: Box, islands: Sequence[Sequence[Box]], marks: Sequence[Box]) -> Iterator[int]:
    """Yield, for each end of a line at a box or a mark, the number of the island it leads to, or one below zero."""
    x0, y0, x1, y1 = rule
    for end, far in ((Box(x0, y0, x0, y0), Box(x1, y1, x1, y1)), (Box(x1, y1, x1, y1), Box(x0, y0, x0, y0))):
        at = next((number for number, mark in enumerate(marks) if mark.grown(_ALONG).meets(end)), None)
        for number, island in enumerate(islands):
            if any(_leads_to(end, far, box) if at is None else box.meets(marks[at].grown(RULE)) for box in island):
                yield number
                break
        else:
            if at is not None:
                yield -1 - at


def _leads_to(end: Box, far: Box, box: Box) -> bool:
    """Return whether a line ends at a box, or not far behind its side, comes from outside, and misses the corners."""
    level = end.top == far.top
    (at, low, high), (near, first, last) = (
        (end.top, box.top, box.bottom), (end.x0, box.x0, box.x1)) if level else (
        (end.x0, box.x0, box.x1), (end.top, box.top, box.bottom))  # fmt: skip
    start = far.x0 if level else far.top
    deep = near - first if start < near else last - near
    outside = start < first - _ALONG if start < near else start > last + _ALONG
    return outside and low + _ALONG < at < high - _ALONG and -RULE <= deep <= _DEPTH * (last - first)


def _is_grid(straight: Sequence[Shape]) -> bool:
    whole = union(shape.box for shape in straight)
    across: list[tuple[float, float, float]] = []  # height, from, to
    down: list[tuple[float, float, float]] = []
    for box in (shape.box for shape in straight):
        if box.height <= RULE and box.width > box.height:
            across.append((box.top, box.x0, box.x1))
        elif box.width <= RULE:
            down.append((box.x0, box.top, box.bottom))
        else:
            across += [(box.top, box.x0, box.x1), (box.bottom, box.x0, box.x1)]
            down += [(box.x0, box.top, box.bottom), (box.x1, box.top, box.bottom)]
    return _long_share(across, whole.width) >= _GRID and (not down or _long_share(down, whole.height) >= _GRID)


def _long_share(edges: Iterable[tuple[float, float, float]], length: float) -> float:
    """Return the share of all lines, by length, that go through most of the length; edges in line are joined."""
    joined = _joined_lines(edges)
    total = sum(end - start for _, start, end in joined)
    return sum(end - start for _, start, end in joined if end - start >= _LONG * length) / total if total else 1.0


def _joined_lines(edges: Iterable[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Return lines as (place, start, end), with those joined that are one behind the other at nearly one place."""
    joined: list[tuple[float, float, float]] = []
    place = None
    for key, start, end, at in sorted((round(at / _ALONG), start, end, at) for at, start, end in edges):
        if key == place and start <= joined[-1][2] + _ALONG:
            joined[-1] = (*joined[-1][:2], max(joined[-1][2], end))
        else:
            joined.append((at, start, end))
        place = key
    return joined


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
    found: list[bool] = []
    for run in runs_of(lines, _follows):
        filled = any(  # words fill most of the column's width; labels along an axis leave white between them
            line.x1 - line.x0 >= _WIDE * usual[line.column] and len(line.text.split()) >= _WORDS and _is_dense(line)
            for line in run
        )
        prose = filled and (len(run) > 1 or len(run[0].text.split()) >= 3 * _WORDS)
        reads = prose or is_figure_caption(run[0].text) or any(_is_sentence(line, margins) for line in run)
        found += [reads] * len(run)
    return found


def _is_sentence(line: Line, margins: Set[tuple[int, int]]) -> bool:
    """Tell whether a lone line reads as text: several words from where the paragraphs around begin, or an indent."""
    from_margin = any(column == line.column and -1 <= line.x0 - left <= _INDENT for column, left in margins)
    return from_margin and len(line.text.split()) >= _WORDS and _is_dense(line)


def _is_dense(line: Line) -> bool:
    return sum(span.x1 - span.x0 for span in line.spans) >= _DENSE * (line.x1 - line.x0)


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

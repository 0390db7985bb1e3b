"""Read what a page draws from PDFium, as boxes with a kind: rules, rectangles, other ink, images."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Iterable, Iterator, Sequence
from math import hypot
from typing import Any, Literal, NamedTuple, TypeAlias

from pypdfium2 import raw

from catena.parsing.pages import IDENTITY, Matrix, multiply, placed

ShapeKind: TypeAlias = Literal["rule", "box", "ink", "image"]
"""A straight line along an axis; a rectangle (corners may be round); any other path or shading; a bitmap."""

RULE = 2.5  # points: a shape thinner than this is a line
_ON = 0.75  # points: how far a point may be from an edge and still lie on it


class Box(NamedTuple):
    """A rectangle on the page as shown, in points, y downwards."""

    x0: float
    top: float
    x1: float
    bottom: float

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def area(self) -> float:
        return max(0.0, self.width) * max(0.0, self.height)

    def grown(self, by: float) -> Box:
        """Return the box with a margin of so many points."""
        return Box(self.x0 - by, self.top - by, self.x1 + by, self.bottom + by)

    def meets(self, other: Box) -> bool:
        """Return whether the two share a point."""
        across = self.x0 <= other.x1 and other.x0 <= self.x1
        return across and self.top <= other.bottom and other.top <= self.bottom

    def common(self, other: Box) -> Box:
        """Return the box that both cover; of negative width or height where they are apart."""
        return Box(
            max(self.x0, other.x0), max(self.top, other.top), min(self.x1, other.x1), min(self.bottom, other.bottom)
        )

    def holds(self, other: Box) -> bool:
        """Return whether the centre of the other lies in this one."""
        across, down = (other.x0 + other.x1) / 2, (other.top + other.bottom) / 2
        return self.x0 <= across <= self.x1 and self.top <= down <= self.bottom


def union(boxes: Iterable[Box]) -> Box:
    """Return the smallest box around all of them; at least one is needed."""
    x0, top, x1, bottom = zip(*boxes, strict=True)
    return Box(min(x0), min(top), max(x1), max(bottom))


class Shape(NamedTuple):
    """One thing that is drawn.

    Attributes:
        solid: filled with a colour that is not white.
        group: number of the form (an embedded drawing) it is part of, 0 for none.
        mark: tells contents of equal size apart, e.g. two bitmaps.
    """

    kind: ShapeKind
    box: Box
    solid: bool = False
    group: int = 0
    mark: int = 0


class Drawn(NamedTuple):
    """The shapes of a page, and the boxes of its text objects, turned ones too."""

    shapes: list[Shape]
    texts: list[Box]


Point: TypeAlias = tuple[float, float]


def kind_of_path(points: Sequence[Point], curved: bool, box: Box) -> ShapeKind:
    """Return the kind of one subpath.

    Args:
        points: its corners and control points, on the page as shown.
        curved: whether there is a curve in it.
        box: what is seen of it.
    """
    if not curved and min(box.width, box.height) <= RULE:
        return "rule"
    whole = union(Box(x, y, x, y) for x, y in points)
    on_border = all(
        min(abs(x - whole.x0), abs(x - whole.x1), abs(y - whole.top), abs(y - whole.bottom)) <= _ON for x, y in points
    )
    straight = [
        (a, b)
        for a, b in zip(points, [*points[1:], points[0]], strict=True)
        if abs(a[0] - b[0]) <= _ON or abs(a[1] - b[1]) <= _ON
    ]
    sides = sum(abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in straight)
    around = 2 * (whole.width + whole.height)
    # the arcs of an ellipse lie on its border too, but no long side does
    return "box" if on_border and len(points) >= 4 and sides >= (0.75 if curved else 0.95) * around else "ink"


MAX_OBJECTS = 20_000  # looked at on one page; what a page draws beyond them is no figure of a document
MAX_SEGMENTS = 200_000  # of all paths of a page
_MAX_PATH = 2_000  # segments of one path that are told apart; a longer one is ink
_MAX_DEPTH = 6  # forms in forms
_CLIPPED = 3.0  # points: smaller objects are not worth asking what clips them
_WIDEST_PEN = 20.0  # points
_WHITE = 250  # of 255: a fill of at least this in red, green and blue is paper


def drawn_on(page: Any, base: Matrix, size: tuple[float, float]) -> Drawn:
    """Return the shapes and text boxes of a page.

    Args:
        page: of pypdfium2.
        base: from its user space to points from the top left corner of the page as shown.
        size: width and height of the page as shown.
    """
    reader = _Reader(Box(0.0, 0.0, *size))
    count = raw.FPDFPage_CountObjects(page)
    for index in range(min(count, MAX_OBJECTS)):
        reader.read(raw.FPDFPage_GetObject(page, index), base, depth=0, group=0)
    return reader.drawn


class _Reader:
    def __init__(self, page: Box) -> None:
        self.drawn = Drawn([], [])
        self._page = page
        self._objects = self._segments = self._groups = 0

    def read(self, handle: Any, base: Matrix, *, depth: int, group: int) -> None:
        self._objects += 1
        if not handle or self._objects > MAX_OBJECTS:
            return
        kind = raw.FPDFPageObj_GetType(handle)
        if kind == raw.FPDF_PAGEOBJ_FORM:
            self._form(handle, base, depth, group)
            return
        if kind == raw.FPDF_PAGEOBJ_PATH:
            self._path(handle, base, group)
            return
        bounds = _bounds(handle, base)
        box = None if bounds is None else self._seen(handle, base, bounds)
        if box is None:
            return
        if kind == raw.FPDF_PAGEOBJ_TEXT:
            self.drawn.texts.append(box)
        elif kind == raw.FPDF_PAGEOBJ_IMAGE:
            thin = min(box.width, box.height) <= RULE  # some programs print their rules as bitmaps
            self.drawn.shapes.append(Shape("rule" if thin else "image", box, group=group, mark=_image_mark(handle)))
        elif kind == raw.FPDF_PAGEOBJ_SHADING:
            self.drawn.shapes.append(Shape("ink", box, solid=True, group=group))

    def _form(self, handle: Any, base: Matrix, depth: int, group: int) -> None:
        if depth >= _MAX_DEPTH:
            return
        if group == 0:
            self._groups += 1
            group = self._groups
        inner = multiply(_matrix(handle), base)
        for index in range(min(raw.FPDFFormObj_CountObjects(handle), MAX_OBJECTS)):
            if self._objects > MAX_OBJECTS:
                return
            self.read(raw.FPDFFormObj_GetObject(handle, index), inner, depth=depth + 1, group=group)

    def _seen(self, handle: Any, base: Matrix, bounds: Box) -> Box | None:
        """Return the part of an object's bounds that is inside its clip and the page, None where there is none."""
        box = bounds.common(self._page)
        if max(box.width, box.height) > _CLIPPED:
            for clip in _clips(handle, base):
                box = box.common(clip)
        return box if box.width >= 0 and box.height >= 0 else None

    def _path(self, handle: Any, base: Matrix, group: int) -> None:
        inked, solid = _paint(handle)
        bounds = _bounds(handle, base) if inked else None
        if bounds is None:
            return
        place = multiply(_matrix(handle), base)
        pen = _pen(handle, place)
        window = self._seen(handle, base, bounds.grown(pen))
        if window is None:
            return
        count = raw.FPDFPath_CountSegments(handle)
        self._segments += max(0, min(count, _MAX_PATH))
        if count > _MAX_PATH or self._segments > MAX_SEGMENTS:
            self.drawn.shapes.append(Shape("ink", window, solid=solid, group=group, mark=count))
            return
        for points, curved in _subpaths(handle, place, count):
            part = union(Box(x, y, x, y) for x, y in points).grown(pen).common(window)
            if part.width >= 0 and part.height >= 0:
                kind = kind_of_path(points, curved, part)
                self.drawn.shapes.append(Shape(kind, part, solid=solid, group=group, mark=len(points)))


def _bounds(handle: Any, base: Matrix) -> Box | None:
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if not raw.FPDFPageObj_GetBounds(handle, left, bottom, right, top):
        return None
    return Box(*placed(base, left.value, bottom.value, right.value, top.value))


def _pen(handle: Any, place: Matrix) -> float:
    """Return half the width of a path's line as printed, 0 for a path that is only filled."""
    fill, stroke, width = ctypes.c_int(), ctypes.c_int(), ctypes.c_float()
    raw.FPDFPath_GetDrawMode(handle, fill, stroke)
    if not stroke.value or not raw.FPDFPageObj_GetStrokeWidth(handle, width):
        return 0.0
    a, b, c, d, _, _ = place
    return min(_WIDEST_PEN, width.value / 2 * max(hypot(a, b), hypot(c, d)))


def _subpaths(handle: Any, place: Matrix, count: int) -> Iterator[tuple[list[Point], bool]]:
    """Yield points and whether there is a curve in it, for each subpath with more than one point."""
    a, b, c, d, e, f = place
    points: list[Point] = []
    curved = False
    x, y = ctypes.c_float(), ctypes.c_float()
    for index in range(count):
        segment = raw.FPDFPath_GetPathSegment(handle, index)
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            if len(points) > 1:
                yield points, curved
            points, curved = [], False
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        points.append((a * x.value + c * y.value + e, b * x.value + d * y.value + f))
        curved = curved or kind == raw.FPDF_SEGMENT_BEZIERTO
    if len(points) > 1:
        yield points, curved


def _paint(handle: Any) -> tuple[bool, bool]:
    """Return whether a path leaves any mark on white paper, and whether it fills with a colour."""
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    raw.FPDFPath_GetDrawMode(handle, fill, stroke)
    solid = bool(fill.value) and _coloured(raw.FPDFPageObj_GetFillColor, handle)
    lined = bool(stroke.value) and _coloured(raw.FPDFPageObj_GetStrokeColor, handle)
    return solid or lined, solid


def _coloured(ask: Any, handle: Any) -> bool:
    red, green, blue, alpha = (ctypes.c_uint(0) for _ in range(4))
    if not ask(handle, red, green, blue, alpha):
        return True  # a pattern
    return alpha.value > 0 and min(red.value, green.value, blue.value) < _WHITE


def _clips(handle: Any, base: Matrix) -> Iterator[Box]:
    path = raw.FPDFPageObj_GetClipPath(handle)
    for index in range(min(max(0, raw.FPDFClipPath_CountPaths(path)) if path else 0, 50)):
        count = raw.FPDFClipPath_CountPathSegments(path, index)
        if not 0 < count <= _MAX_PATH:
            continue
        x, y = ctypes.c_float(), ctypes.c_float()
        xs, ys = [], []
        for at in range(count):
            raw.FPDFPathSegment_GetPoint(raw.FPDFClipPath_GetPathSegment(path, index, at), x, y)
            xs.append(x.value)
            ys.append(y.value)
        yield Box(*placed(base, min(xs), min(ys), max(xs), max(ys)))


def _matrix(handle: Any) -> Matrix:
    matrix = raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(handle, matrix):
        return IDENTITY
    return (matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f)


def _image_mark(handle: Any) -> int:
    """Return a number that two different bitmaps hardly share: of their size and the first of their bytes."""
    width, height = ctypes.c_uint(), ctypes.c_uint()
    raw.FPDFImageObj_GetImagePixelSize(handle, width, height)
    length = raw.FPDFImageObj_GetImageDataRaw(handle, None, 0)
    start = b""
    if 0 < length <= 10_000_000:
        buffer = ctypes.create_string_buffer(length)
        raw.FPDFImageObj_GetImageDataRaw(handle, buffer, length)
        start = buffer.raw
    return zlib.crc32(start, zlib.crc32(f"{width.value}x{height.value}x{length}".encode()))

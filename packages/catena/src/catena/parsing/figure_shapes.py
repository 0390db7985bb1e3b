"""Read what a page draws from PDFium: as boxes with a kind (rules, rectangles, other ink, images), and as SVG."""

from __future__ import annotations

import ctypes
import re
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import islice, pairwise
from math import hypot
from typing import Any, Literal, NamedTuple, TypeAlias

from pypdfium2 import raw

from catena.parsing.pages import IDENTITY, Matrix, multiply, placed
from catena.text.words import runs_of

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
        x0, top = max(self.x0, other.x0), max(self.top, other.top)
        return Box(x0, top, min(self.x1, other.x1), min(self.bottom, other.bottom))

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
        points: its corners and control points, on the page as shown; the first one again where it is closed.
        curved: whether there is a curve in it.
        box: what is seen of it.
    """
    if not curved and min(box.width, box.height) <= RULE:
        return "rule"
    whole = union(Box(x, y, x, y) for x, y in points)
    to_border = ((abs(x - whole.x0), abs(x - whole.x1), abs(y - whole.top), abs(y - whole.bottom)) for x, y in points)
    on_border = all(min(sides) <= _ON for sides in to_border)
    straight = [(a, b) for a, b in pairwise(points) if abs(a[0] - b[0]) <= _ON or abs(a[1] - b[1]) <= _ON]
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
    for child in islice(objects_of(page), MAX_OBJECTS):
        reader.read(child, base, depth=0, group=0)
    return reader.drawn


def objects_of(page: Any) -> Iterator[Any]:
    """Yield the objects of a page, a form as one."""
    return (raw.FPDFPage_GetObject(page, at) for at in range(raw.FPDFPage_CountObjects(page)))


def _children(form: Any) -> Iterator[Any]:
    count = min(raw.FPDFFormObj_CountObjects(form), MAX_OBJECTS)
    return (raw.FPDFFormObj_GetObject(form, at) for at in range(count))


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
        bounds = bounds_of(handle, base)
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
        inner = multiply(matrix_of(handle), base)
        for child in _children(handle):
            if self._objects > MAX_OBJECTS:
                return
            self.read(child, inner, depth=depth + 1, group=group)

    def _seen(self, handle: Any, base: Matrix, bounds: Box) -> Box | None:
        """Return the part of an object's bounds that is inside its clip and the page, None where there is none."""
        box = bounds.common(self._page)
        if max(box.width, box.height) > _CLIPPED:
            for clip in clips_of(handle, base):
                box = box.common(clip)
        return box if box.width >= 0 and box.height >= 0 else None

    def _path(self, handle: Any, base: Matrix, group: int) -> None:
        inked, solid = paint_of(handle)
        bounds = bounds_of(handle, base) if inked else None
        if bounds is None:
            return
        place = multiply(matrix_of(handle), base)
        _, is_lined, width = _draw_mode(handle)
        # half the width of the line as printed
        pen = min(_WIDEST_PEN, width / 2 * _scale(place)) if is_lined else 0.0
        window = self._seen(handle, base, bounds.grown(pen))
        if window is None:
            return
        count = raw.FPDFPath_CountSegments(handle)
        self._segments += max(0, min(count, _MAX_PATH))
        if count > _MAX_PATH or self._segments > MAX_SEGMENTS:
            self.drawn.shapes.append(Shape("ink", window, solid=solid, group=group, mark=count))
            return
        for points, curved in _subpaths(handle, place, count, closed=solid):
            part = union(Box(x, y, x, y) for x, y in points).grown(pen).common(window)
            if part.width >= 0 and part.height >= 0:
                kind = kind_of_path(points, curved, part)
                self.drawn.shapes.append(Shape(kind, part, solid=solid, group=group, mark=len(points)))


def bounds_of(handle: Any, base: Matrix) -> Box | None:
    """Return the bounds of an object on the page as shown, None where PDFium knows none."""
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if not raw.FPDFPageObj_GetBounds(handle, left, bottom, right, top):
        return None
    return Box(*placed(base, left.value, bottom.value, right.value, top.value))


def _scale(place: Matrix) -> float:
    a, b, c, d, _, _ = place
    return max(hypot(a, b), hypot(c, d))


def _draw_mode(handle: Any) -> tuple[int, bool, float]:
    """Return how a path is filled, 0 where it is not, whether its line is drawn, and the width of that."""
    fill, stroke, width = ctypes.c_int(), ctypes.c_int(), ctypes.c_float()
    raw.FPDFPath_GetDrawMode(handle, fill, stroke)
    raw.FPDFPageObj_GetStrokeWidth(handle, width)
    return fill.value, bool(stroke.value), width.value


def _segments(handle: Any, place: Matrix, count: int) -> Iterator[tuple[int, Point, bool]]:
    """Yield kind and end of each segment of a path on the page as shown, and whether the path closes with it."""
    a, b, c, d, e, f = place
    x, y = ctypes.c_float(), ctypes.c_float()
    for index in range(count):
        segment = raw.FPDFPath_GetPathSegment(handle, index)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        point = a * x.value + c * y.value + e, b * x.value + d * y.value + f
        yield raw.FPDFPathSegment_GetType(segment), point, bool(raw.FPDFPathSegment_GetClose(segment))


def _subpaths(handle: Any, place: Matrix, count: int, *, closed: bool) -> Iterator[tuple[list[Point], bool]]:
    """Yield points and whether there is a curve in it, for each subpath with more than one point.

    The first point comes again at the end of one that is closed, as all are that are filled.
    """
    for run in runs_of(_segments(handle, place, count), lambda _, following: following[0] != raw.FPDF_SEGMENT_MOVETO):
        points: list[Point] = []
        for _, point, closes in run:
            points.append(point)
            if closes:
                points.append(points[0])
        if len(points) > 1:
            yield [*points, *points[:closed]], any(kind == raw.FPDF_SEGMENT_BEZIERTO for kind, *_ in run)


def paint_of(handle: Any) -> tuple[bool, bool]:
    """Return whether a path leaves any mark on white paper, and whether it fills with a colour."""
    fill, is_lined, _ = _draw_mode(handle)
    solid = fill > 0 and _coloured(_colour_of(handle))
    return solid or (is_lined and _coloured(_colour_of(handle, stroke=True))), solid


def _coloured(colour: tuple[int, ...] | None) -> bool:
    return colour is None or (colour[3] > 0 and min(colour[:3]) < _WHITE)


def _colour_of(handle: Any, *, stroke: bool = False) -> tuple[int, ...] | None:
    """Return red, green, blue and alpha from 0 to 255; None of a pattern."""
    ask = raw.FPDFPageObj_GetStrokeColor if stroke else raw.FPDFPageObj_GetFillColor
    parts = [ctypes.c_uint() for _ in range(4)]
    return tuple(part.value for part in parts) if ask(handle, *parts) else None


def clips_of(handle: Any, base: Matrix) -> Iterator[Box]:
    """Yield the bounds of each path that clips an object."""
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


def matrix_of(handle: Any) -> Matrix:
    """Return the matrix of an object."""
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


MAX_SVG = 2_000_000  # characters; a drawing of more is only a picture
MAX_TEXTS = 1_000  # PDFium looks through all of the page for each
_FONT = re.compile(r"[^A-Za-z0-9 ]+")
_STEPS = {raw.FPDF_SEGMENT_MOVETO: "M", raw.FPDF_SEGMENT_LINETO: "L", raw.FPDF_SEGMENT_BEZIERTO: "C"}


def svg_of(page: Any, base: Matrix, box: Box, picture: Callable[[Box], bytes]) -> str:
    """Return what a page draws inside a box as SVG; "" for more than `MAX_SVG` or `MAX_TEXTS`.

    All that comes from the file is numbers, and text that is escaped. What clips an object is taken for a rectangle;
    a bitmap or a shading is the picture of the page at its place.

    Args:
        page: of pypdfium2.
        base: from its user space to points from the top left corner of the page as shown.
        box: on the page as shown.
        picture: gives a part of the page as PNG.
    """
    text = raw.FPDFText_LoadPage(page)
    writer, parts, size = _Writer(text, box, picture), list[str](), 0
    try:
        for child in islice(objects_of(page), MAX_OBJECTS):
            for part in writer.object(child, base, 0):
                parts.append(part)
                size += len(part)
                if size > MAX_SVG or writer.texts > MAX_TEXTS:
                    return ""
    finally:
        raw.FPDFText_ClosePage(text)
    sizes = f'width="{box.width:.2f}pt" height="{box.height:.2f}pt"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {sizes} viewBox="{_sides(box)}" overflow="hidden">'
    return "\n".join((opening, *parts, "</svg>\n"))


def _sides(box: Box) -> str:
    return f"{box.x0:.2f} {box.top:.2f} {box.width:.2f} {box.height:.2f}"


def _placed(box: Box) -> str:
    return 'x="{}" y="{}" width="{}" height="{}"'.format(*_sides(box).split())


class _Writer:
    def __init__(self, text: Any, box: Box, picture: Callable[[Box], bytes]) -> None:
        self._text, self._box, self._picture = text, box, picture
        self._left, self.texts = MAX_OBJECTS, 0

    def object(self, handle: Any, base: Matrix, depth: int) -> Iterator[str]:
        kind = raw.FPDFPageObj_GetType(handle)
        self._left -= 1
        bounds = bounds_of(handle, base)
        if bounds is None or not bounds.meets(self._box) or self._left < 0:
            return
        seen = bounds
        for clip in clips_of(handle, base):
            seen = seen.common(clip)
        if seen.width < 0 or seen.height < 0:
            return
        if kind == raw.FPDF_PAGEOBJ_FORM and depth < _MAX_DEPTH:
            inner = multiply(matrix_of(handle), base)
            for child in _children(handle):
                yield from self.object(child, inner, depth + 1)
            return
        if kind == raw.FPDF_PAGEOBJ_PATH:
            shown = _path(handle, multiply(matrix_of(handle), base))
        elif kind == raw.FPDF_PAGEOBJ_TEXT:
            shown = self._words(handle, multiply(matrix_of(handle), base), bounds)
        else:
            part = seen.common(self._box)
            png = b64encode(self._picture(part)).decode("ascii") if min(part.width, part.height) > 0 else ""
            shown = f'<image {_placed(part)} href="data:image/png;base64,{png}"/>' if png else ""
        cut = max(abs(a - b) for a, b in zip(seen, bounds, strict=True)) > 1.0
        if shown and cut and kind == raw.FPDF_PAGEOBJ_PATH:
            shown = f'<svg {_placed(seen)} viewBox="{_sides(seen)}">{shown}</svg>'
        if shown:
            yield shown

    def _words(self, handle: Any, place: Matrix, bounds: Box) -> str:
        self.texts += 1
        if self.texts > MAX_TEXTS:
            return "<text/>"
        length = raw.FPDFTextObj_GetText(handle, self._text, None, 0)
        buffer = ctypes.create_string_buffer(max(2, min(length, 20_000)))
        raw.FPDFTextObj_GetText(handle, self._text, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), len(buffer))
        words = "".join(c for c in buffer.raw.decode("utf-16-le", "replace") if c.isprintable()).rstrip()
        size = ctypes.c_float()
        hidden = raw.FPDFTextObj_GetTextRenderMode(handle) == raw.FPDF_TEXTRENDERMODE_INVISIBLE
        if not words or hidden or not raw.FPDFTextObj_GetFontSize(handle, size):
            return ""
        name = ctypes.create_string_buffer(100)
        raw.FPDFFont_GetBaseFontName(raw.FPDFTextObj_GetFont(handle), name, len(name))
        font = _FONT.sub(" ", name.value.decode("latin-1").partition("+")[2] or name.value.decode("latin-1")).strip()
        weight = ' font-weight="bold"' if "bold" in font.lower() else ""
        a, b, c, d, e, f = place
        level = abs(b) < 1e-6 and abs(c) < 1e-6 and a > 0
        length_of = f' textLength="{bounds.width / a:.2f}" lengthAdjust="spacingAndGlyphs"' if level else ""
        turned = " ".join(f"{value:.4f}" for value in (a, b, -c, -d, e, f))
        look = f'font-size="{size.value:.2f}" font-family="{font}, sans-serif"{weight} fill="{_colour(handle)}"'
        return f'<text transform="matrix({turned})" {look}{length_of} xml:space="preserve">{escape(words)}</text>'


def _path(handle: Any, place: Matrix) -> str:
    steps: list[str] = []
    curve = 0  # points of a curve: only the first of three bears the letter
    for kind, (x, y), closes in _segments(handle, place, min(raw.FPDFPath_CountSegments(handle), MAX_SEGMENTS)):
        step = _STEPS.get(kind, "L")
        curve = (curve + 1) % 3 if step == "C" else 0
        letter = "" if step == "C" and curve != 1 else step
        steps.append(f"{letter}{x:.2f} {y:.2f}{' Z' if closes else ''}")
    fill, is_lined, width = _draw_mode(handle)
    if not steps or not (fill or is_lined):
        return ""
    paint = f'fill="{_colour(handle) if fill else "none"}"'
    if fill == raw.FPDF_FILLMODE_ALTERNATE:
        paint += ' fill-rule="evenodd"'
    if is_lined:
        scale = _scale(place)
        paint += f' stroke="{_colour(handle, stroke=True)}" stroke-width="{max(0.2, width * scale):.2f}"'
        count = raw.FPDFPageObj_GetDashCount(handle)
        if 0 < count <= 20:
            dashes = (ctypes.c_float * count)()
            raw.FPDFPageObj_GetDashArray(handle, dashes, count)
            paint += f' stroke-dasharray="{" ".join(f"{each * scale:.2f}" for each in dashes)}"'
    return f'<path d="{" ".join(steps)}" {paint}/>'


def _colour(handle: Any, *, stroke: bool = False) -> str:
    red, green, blue, alpha = _colour_of(handle, stroke=stroke) or (128, 128, 128, 255)
    return f"#{red:02x}{green:02x}{blue:02x}" + (f"{alpha:02x}" if alpha < 255 else "")

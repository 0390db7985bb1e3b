"""Read a PDF through pypdfium2 (extra `[fast-pdf]`): the same pages as `pdf_pypdf`, several times as fast."""

from __future__ import annotations

import base64
import ctypes
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from math import hypot, sqrt
from typing import Any

import pypdfium2 as pdfium
from pypdfium2 import raw

from catena.model.layout import Page, PageState
from catena.parsing.figure_regions import Region, find_regions, without_decorations
from catena.parsing.figure_shapes import Box, drawn_on
from catena.parsing.lines import page_lines
from catena.parsing.pages import (
    LETTER,
    MAX_BOOKMARK_LEVEL,
    MAX_BOOKMARKS,
    METADATA,
    Matrix,
    Tables,
    about_event,
    bookmark,
    failed_page,
    locked,
    multiply,
    page_frame,
    placed,
    shown_box,
)
from catena.parsing.protocol import Unreadable, reason
from catena.parsing.runs import WHITE, Gathered, PageBox, Run, Style, hidden_by, readable_text, seen_runs, style_of

MAX_ON_PAGE = 40
MAX_IN_FILE = 2_000
MAX_BYTES = 200_000_000  # of all pictures of one file, packed


class FigureFinder:
    """Collects pages, and looks for figures when all of them were sent, so that no page's text waits for that.

    Args:
        dpi: dots per inch of the crops; 0 looks for none.
    """

    def __init__(self, dpi: float) -> None:
        self._dpi = dpi
        self._pages: list[tuple[Page, Matrix]] = []
        self._regions: dict[int, list[Region]] = {}
        self._heights: dict[int, float] = {}
        self._problems: dict[int, str] = {}

    def note(self, shown: Page, base: Matrix) -> None:
        """Keep in mind a page that was read, and the matrix from its user space to its top left corner."""
        if self._dpi and shown.lines:
            self._pages.append((shown, base))

    def look(self, page: Any, shown: Page, base: Matrix) -> None:
        """Note the figures of a page; what goes wrong costs its figures, not its text.

        Args:
            page: of pypdfium2.
            shown: what was read of it.
            base: from its user space to points from the top left corner.
        """
        number, size = shown.number, (shown.width, shown.height)
        try:
            if max(abs(a - b) for a, b in zip(page.get_size(), size, strict=True)) > 1:
                return  # a page whose box says nothing: what is rendered would not be what was measured
            found = find_regions(drawn_on(page, base, size), shown.lines, shown.tables, size)
        except MemoryError:
            raise
        except Exception as error:  # PDFium raises all kinds on broken objects
            self._problems[number] = f"figures were not looked for ({reason(error)})"
            return
        self._heights[number] = shown.height
        self._regions[number] = found[:MAX_ON_PAGE]
        if len(found) > MAX_ON_PAGE:
            self._problems[number] = f"{len(found) - MAX_ON_PAGE} figures more than {MAX_ON_PAGE} were left out"

    def events(self, file: Any) -> Iterator[dict[str, Any]]:
        """Yield one "figure" per crop and one "no-figure" per page where something went wrong."""
        for shown, base in self._pages:
            page = file[shown.number - 1]
            self.look(page, shown, base)
            page.close()
        taken = count = 0
        for number, regions in without_decorations(self._regions, self._heights).items():
            for region in regions:
                if taken > MAX_BYTES or count >= MAX_IN_FILE:
                    self._problems[number] = "figures were left out: the file has more than a document holds"
                    break
                try:
                    event = _event(file, number, region, self._dpi)
                except MemoryError:
                    raise
                except Exception as error:  # as above
                    self._problems[number] = f"a figure was not cropped ({reason(error)})"
                    continue
                taken, count = taken + len(event["png"]), count + 1
                yield event
        for number, why in sorted(self._problems.items()):
            yield {"event": "no-figure", "page": number, "why": why}


def _event(file: Any, number: int, region: Region, dpi: float) -> dict[str, Any]:
    data, width, height = cropped(file[number - 1], region.box, dpi, photo=region.kind == "bitmap")
    return {
        "event": "figure",
        "page": number,
        "box": [round(side, 2) for side in region.box],
        "kind": region.kind,
        "size": [width, height],
        "png": base64.b64encode(data).decode("ascii"),
    }


MARGIN = 4.0  # points around a figure, so that no line on its border is cut
MAX_PIXELS = 4_000_000  # of one figure: a larger one is rendered at fewer dots per inch


def cropped(page: Any, box: Box, dpi: float, *, photo: bool) -> tuple[bytes, int, int]:
    """Return a region as PNG, with its width and height in pixels.

    Args:
        page: of pypdfium2.
        box: in points, from the top left corner of the page as shown.
        dpi: dots per inch.
        photo: whether it is a bitmap rather than a drawing, which decides how it is packed.
    """
    width, height = page.get_size()
    scale = dpi / 72
    area = max(1.0, (box.width + 2 * MARGIN) * (box.height + 2 * MARGIN))
    scale = min(scale, sqrt(MAX_PIXELS / area))
    cut = (
        max(0.0, box.x0 - MARGIN),
        max(0.0, height - box.bottom - MARGIN),
        max(0.0, width - box.x1 - MARGIN),
        max(0.0, box.top - MARGIN),
    )
    bitmap = page.render(scale=scale, crop=cut, rev_byteorder=True)
    try:
        return png(bytes(bitmap.buffer), bitmap.width, bitmap.height, stride=bitmap.stride, photo=photo)
    finally:
        bitmap.close()


def png(pixels: bytes, width: int, height: int, *, stride: int, photo: bool) -> tuple[bytes, int, int]:
    """Encode rows of red, green and blue bytes; a photo's rows as differences from the row above (filter "Up").

    Args:
        pixels: `height` rows of `stride` bytes, of which the first 3 * width count.
        width: in pixels.
        height: in pixels.
        stride: bytes from one row to the next.
        photo: whether neighbouring rows are alike rather than equal.
    """
    row = 3 * width
    body = pixels if stride == row else b"".join(pixels[y * stride : y * stride + row] for y in range(height))
    if photo:
        body = _minus(body, bytes(row) + body[:-row])
    kind = b"\x02" if photo else b"\x00"
    lines = b"".join(kind + body[y * row : (y + 1) * row] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, red green blue
    parts = (_part(b"IHDR", header), _part(b"IDAT", zlib.compress(lines, 6)), _part(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts), width, height


def _minus(left: bytes, right: bytes) -> bytes:
    """Return left - right modulo 256, byte by byte: one subtraction of two long numbers without a borrow."""
    high = int.from_bytes(b"\x80" * len(left), "big")
    a, b = int.from_bytes(left, "big"), int.from_bytes(right, "big")
    difference = ((a | high) - (b & ~high)) ^ ((a ^ ~b) & high)
    return difference.to_bytes(len(left), "big")


def _part(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


MAX_CHARACTERS = 2_000_000  # a page
_LINE_END_HYPHENS = {0x02: "-", 0xFFFE: "-"}  # what PDFium puts for a hyphen at the end of a line
_VIEWS_WITH_TOP = {
    raw.PDFDEST_VIEW_XYZ: 1,
    raw.PDFDEST_VIEW_FITH: 0,
    raw.PDFDEST_VIEW_FITBH: 0,
    raw.PDFDEST_VIEW_FITR: 3,
}
_PASSWORD_ERRORS = frozenset({raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY})


class PdfiumFile:
    """A file as PDFium reads it.

    Args:
        data: the file.
        password: opens it.
        figure_dpi: dots per inch at which figures are cropped; 0 looks for none.

    Raises:
        Unreadable: it is encrypted ("encrypted"), or PDFium finds no PDF in it ("malformed").
    """

    def __init__(self, data: bytes, password: str | None, figure_dpi: float = 0.0) -> None:
        self._file = open_pdf(data, password)
        self.count = len(self._file)
        self._figures = FigureFinder(figure_dpi)

    def page(self, number: int, tables: Tables, *, hidden_text: bool = True) -> Page:
        """Read one page, its hidden text or not; what goes wrong on it is told by its state.

        PDFium shows what it cannot decode as an empty page without a word: "blank" is for another engine to confirm.
        """
        width, height = LETTER
        try:
            page = self._file[number - 1]
            width, height, base = page_frame(shown_box(page.get_mediabox(), page.get_cropbox()), page.get_rotation())
            textpage = page.get_textpage()
            runs = page_runs(textpage, base)
            runs, hidden = seen_runs(runs, (width, height), lambda: _filled(page, base), keep=hidden_text)
            lines = page_lines(runs)
            painted = bool(lines) or _shows(page, textpage)
            textpage.close()
            page.close()
            state: PageState = "text" if lines else "no-text" if painted else "blank"
            found = tables(number) if hidden_text or not hidden else ()
            read = Page(
                number=number, width=width, height=height, lines=lines, state=state, tables=found, hidden=hidden
            )
            self._figures.note(read, base)
        except MemoryError:
            raise
        except Exception as error:  # one broken page must not take the others with it
            return failed_page(number, error, width, height)
        return read

    def about(self) -> dict[str, Any]:
        """Return outline, labels and metadata; a part that cannot be read is empty, and `problems` says so."""
        return about_event(self._file, items=_outline, labels=_labels, metadata=_metadata)

    def figures(self) -> Iterator[dict[str, Any]]:
        """Yield one "figure" per figure of the pages that were read."""
        return self._figures.events(self._file)

    def close(self) -> None:
        """Give back what PDFium holds."""
        self._file.close()


def open_pdf(data: bytes, password: str | None) -> Any:
    """Open a file, with the password if it needs one."""
    for attempt in (None, password):
        try:
            return pdfium.PdfDocument(data, password=attempt)
        except pdfium.PdfiumError as error:
            if error.err_code not in _PASSWORD_ERRORS:
                what = "PDFium finds no PDF structure in it"
                raise Unreadable("malformed", what, "opening it in a viewer and printing it to a new PDF") from None
    raise locked(password)


def _filled(page: Any, base: Matrix) -> Iterator[PageBox]:
    """Yield where something is painted on a page that is not white; of a form, what is in it is not looked at."""
    sides = [ctypes.c_float() for _ in range(4)]
    mode, stroke = ctypes.c_int(), ctypes.c_int()
    for index in range(raw.FPDFPage_CountObjects(page)):
        shown = raw.FPDFPage_GetObject(page, index)
        kind = raw.FPDFPageObj_GetType(shown)
        if kind == raw.FPDF_PAGEOBJ_TEXT or not raw.FPDFPageObj_GetBounds(shown, *sides):
            continue
        if kind == raw.FPDF_PAGEOBJ_PATH:
            raw.FPDFPath_GetDrawMode(shown, mode, stroke)
            if mode.value == 0 or _is_white(raw.FPDFPageObj_GetFillColor, shown)[0]:
                continue
        yield placed(base, *(side.value for side in sides))


def _is_white(asked: Callable[..., Any], *of: Any) -> tuple[bool, float]:
    """Return whether a colour of PDFium is white, and its alpha, from 0 to 1."""
    parts = [ctypes.c_uint(0), ctypes.c_uint(0), ctypes.c_uint(0), ctypes.c_uint(255)]
    asked(*of, *parts)
    return all(part.value >= 255 * WHITE for part in parts[:3]), parts[3].value / 255


def _shows(page: Any, textpage: Any) -> bool:
    """Return whether something is on a page without text that could be read: anything but spaces."""
    objects = [raw.FPDFPage_GetObject(page, index) for index in range(raw.FPDFPage_CountObjects(page))]
    drawn = any(raw.FPDFPageObj_GetType(each) != raw.FPDF_PAGEOBJ_TEXT for each in objects)
    return drawn or (bool(objects) and raw.FPDFText_CountChars(textpage) == 0)


def page_runs(textpage: Any, base: Matrix) -> list[Run]:
    """Return the runs of a page in the order of its content stream.

    Positions are asked for the ends of each word only, and font, size and direction once for each text
    object: a call into PDFium costs more than what it computes.
    """
    handle = textpage.raw
    runs: list[Run] = []
    shown: _Shown | None = None
    fonts: dict[int, Style] = {}
    for start, end, text in _words(handle):
        for first, last, owner in _of_one_object(handle, start, end - 1):
            if shown is None or owner != shown.owner:
                if shown is not None:
                    shown.end(runs)
                shown = _Shown(handle, first, owner, base, fonts)
            shown.add(text[first - start : last + 1 - start], first, last, first == start, runs)
    if shown is not None:
        shown.end(runs)
    return runs


def _words(handle: Any) -> Iterator[tuple[int, int, str]]:
    """Yield [start, end) and the text of each word, in character indices of the page."""
    count = raw.FPDFText_CountChars(handle)
    if count > MAX_CHARACTERS:
        raise Unreadable("bomb", f"more than {MAX_CHARACTERS} characters on one page")
    buffer = (ctypes.c_ushort * (count * 2 + 1))()
    raw.FPDFText_GetText(handle, 0, count, buffer)
    text = bytes(buffer).decode("utf-16-le", "replace")[:count]
    if "\0" in text:  # glyphs without a character were left out: the indices would not fit
        text = "".join(chr(raw.FPDFText_GetUnicode(handle, index) or 32) for index in range(count))
    for word in re.finditer(r"\S+", text):
        yield word.start(), word.end(), word.group().translate(_LINE_END_HYPHENS)


def _of_one_object(handle: Any, first: int, last: int) -> list[tuple[int, int, int]]:
    """Cut the characters [first, last] where the text object, and with it the font, changes; with its address."""
    owner = _object_at(handle, first)
    if first >= last or owner == _object_at(handle, last):
        return [(first, last, owner)]
    middle = (first + last) // 2
    left, right = _of_one_object(handle, first, middle), _of_one_object(handle, middle + 1, last)
    if left[-1][2] == right[0][2]:
        return [*left[:-1], (left[-1][0], right[0][1], left[-1][2]), *right[1:]]
    return left + right


def _object_at(handle: Any, index: int) -> int:
    """Return the address of the text object of a character, 0 for characters that PDFium made up."""
    pointer = raw.FPDFText_GetTextObject(handle, index)
    return ctypes.addressof(pointer.contents) if pointer else 0


class _Shown:
    """The words of one text object, on their way to runs."""

    def __init__(self, handle: Any, index: int, owner: int, base: Matrix, fonts: dict[int, Style]) -> None:
        matrix, x, y = raw.FS_MATRIX(), ctypes.c_double(), ctypes.c_double()
        raw.FPDFText_GetMatrix(handle, index, matrix)
        raw.FPDFText_GetCharOrigin(handle, index, x, y)
        place = multiply((matrix.a, matrix.b, matrix.c, matrix.d, x.value, y.value), base)
        a, b, c, d, _, self.y = place
        # the size that PDFium tells is the operand of Tf: what is printed is that times the matrix
        self.size = round(abs(raw.FPDFText_GetFontSize(handle, index)) * hypot(c, d), 2)
        self.turned = a <= 0 or abs(b) > 0.1 * abs(a)
        self.style = _style(handle, index, fonts)
        self.hidden = _hidden(handle, index)
        self.handle, self.owner, self.base = handle, owner, base
        self.box = raw.FS_RECTF()
        self.gathered = Gathered(em=self.size)

    def add(self, text: str, first: int, last: int, spaced: bool, runs: list[Run]) -> None:
        """Add a word by its first and last character, after a space or not."""
        x0, x1 = self._extent(first)
        if last > first:
            start, end = self._extent(last)
            x0, x1 = min(x0, start), max(x1, end)
        self._emit(self.gathered.add(text, x0, x1, spaced=spaced), runs)

    def _extent(self, index: int) -> tuple[float, float]:
        """Return left and right of a character on the page as shown, its side bearings included."""
        box = self.box
        raw.FPDFText_GetLooseCharBox(self.handle, index, box)
        a, _, c, _, e, _ = self.base
        left, right = a * box.left + c * box.bottom + e, a * box.right + c * box.top + e
        return (left, right) if left <= right else (right, left)

    def end(self, runs: list[Run]) -> None:
        """Emit what is left."""
        self._emit(self.gathered.take(), runs)

    def _emit(self, gathered: tuple[str, float, float] | None, runs: list[Run]) -> None:
        if gathered is None:
            return
        raw_text, x0, x1 = gathered
        text = " ".join(readable_text(raw_text).split())  # some codes turn out to be controls or spaces
        if text and 0 < self.size < 10_000:
            runs.append(Run(text, x0, x1, self.y, self.size, self.style, self.turned, self.hidden))


def _hidden(handle: Any, index: int) -> str:
    """Name the way in which a character is hidden by its paint, "" for none."""
    owner = raw.FPDFText_GetTextObject(handle, index)
    mode = raw.FPDFTextObj_GetTextRenderMode(owner) if owner else 0
    white, alpha = _is_white(raw.FPDFText_GetFillColor, handle, index)
    return hidden_by(mode, white, alpha)


def _style(handle: Any, index: int, fonts: dict[int, Style]) -> Style:
    font = raw.FPDFTextObj_GetFont(raw.FPDFText_GetTextObject(handle, index))
    address = ctypes.addressof(font.contents) if font else 0
    if address not in fonts:
        flags = ctypes.c_int(0)
        length = raw.FPDFText_GetFontInfo(handle, index, None, 0, flags)
        name = ctypes.create_string_buffer(max(length, 1))
        raw.FPDFText_GetFontInfo(handle, index, name, length, flags)
        fonts[address] = style_of(name.value.decode("utf-8", "replace"), flags.value)
    return fonts[address]


def _outline(file: Any) -> list[list[Any]]:
    items = []
    for mark in islice(file.get_toc(max_depth=MAX_BOOKMARK_LEVEL), MAX_BOOKMARKS):
        target = mark.get_dest()
        index = target.get_index() if target is not None else None
        if index is None:
            continue
        items.append(bookmark(mark.level + 1, mark.get_title(), index + 1, _top(file[index], *target.get_view())))
    return items


def _top(page: Any, view: int, values: list[float]) -> float | None:
    at = _VIEWS_WITH_TOP.get(view)
    if at is None or at >= len(values) or values[at] is None or page.get_rotation():
        return None
    _, bottom, _, top = shown_box(page.get_mediabox(), page.get_cropbox())
    return round(min(max(float(top - values[at]), 0.0), float(top - bottom)), 2)


def _labels(file: Any) -> list[str]:
    labels = [file.get_page_label(index)[:100] for index in range(len(file))]
    return labels if any(labels) else []


def _metadata(file: Any) -> dict[str, str]:
    values = {name: " ".join(file.get_metadata_value(key).split())[:1000] for name, key in METADATA.items()}
    return {name: readable_text(value) for name, value in values.items() if value}

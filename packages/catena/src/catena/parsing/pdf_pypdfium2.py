"""Read a PDF through pypdfium2 (extra `[fast-pdf]`): the same pages as `pdf_pypdf`, several times as fast."""

from __future__ import annotations

import base64
import ctypes
import re
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice, repeat
from math import sqrt
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pypdfium2 as pdfium
from pypdfium2 import raw

from catena.model.layout import Line, Page, PageState
from catena.parsing.figure_regions import Region, find_regions, without_decorations
from catena.parsing.figure_shapes import Box, bounds_of, drawn_on, objects_of, paint_of, svg_of
from catena.parsing.lines import page_lines
from catena.parsing.pages import (
    IDENTITY,
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
    page_frame,
    shown_box,
)
from catena.parsing.protocol import Unreadable, reason
from catena.parsing.runs import (
    CELL_GAP,
    DESCENT,
    WHITE,
    WORD_GAP,
    PageBox,
    Run,
    Style,
    hidden_by,
    readable_text,
    seen_runs,
    style_of,
)
from catena.text import raised

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        bases = {shown.number: base for shown, base in self._pages}
        for number, regions in without_decorations(self._regions, self._heights).items():
            for region in regions:
                if taken > MAX_BYTES or count >= MAX_IN_FILE:
                    self._problems[number] = "figures were left out: the file has more than a document holds"
                    break
                try:
                    event = _event(file, number, region, self._dpi, bases.get(number, IDENTITY))
                except MemoryError:
                    raise
                except Exception as error:  # as above
                    self._problems[number] = f"a figure was not cropped ({reason(error)})"
                    continue
                taken, count = taken + len(event["png"]) + len(event.get("svg", "")), count + 1
                yield event
        for number, why in sorted(self._problems.items()):
            yield {"event": "no-figure", "page": number, "why": why}


def _event(file: Any, number: int, region: Region, dpi: float, base: Matrix) -> dict[str, Any]:
    page = file[number - 1]

    def picture(box: Box) -> bytes:
        return cropped(page, box, dpi, photo=True, margin=0.0)[0]

    data, width, height = cropped(page, region.box, dpi, photo=region.kind == "bitmap")
    svg = svg_of(page, base, region.box.grown(MARGIN), picture) if region.kind == "drawing" else ""
    return {
        "event": "figure", "page": number, "box": [round(side, 2) for side in region.box], "kind": region.kind,
        "size": [width, height], "png": base64.b64encode(data).decode("ascii"), "svg": svg,
    }  # fmt: skip


MARGIN = 4.0  # points around a figure, so that no line on its border is cut
MAX_PIXELS = 4_000_000  # of one figure: a larger one is rendered at fewer dots per inch


def cropped(page: Any, box: Box, dpi: float, *, photo: bool, margin: float = MARGIN) -> tuple[bytes, int, int]:
    """Return a region as PNG, with its width and height in pixels.

    Args:
        page: of pypdfium2.
        box: in points, from the top left corner of the page as shown.
        dpi: dots per inch.
        photo: whether it is a bitmap rather than a drawing, which decides how it is packed.
        margin: points around it.
    """
    width, height = page.get_size()
    scale = dpi / 72
    box = box.grown(margin)
    area = max(1.0, box.area)
    scale = min(scale, sqrt(MAX_PIXELS / area))
    cut = (max(0.0, box.x0), max(0.0, height - box.bottom), max(0.0, width - box.x1), max(0.0, box.top))
    bitmap = page.render(scale=scale, crop=cut, rev_byteorder=True)
    try:
        return png(bytes(bitmap.buffer), bitmap.width, bitmap.height, stride=bitmap.stride, photo=photo)
    finally:
        bitmap.close()


_FADED = bytes(round(0.35 * value) for value in range(256))  # blue of what is marked: white becomes yellow


def marked_page(
    data: bytes, password: str | None, number: int, boxes: Sequence[Sequence[float]], dpi: float
) -> bytes:
    """Return a page as PNG, with what is in the boxes marked in yellow.

    Args:
        data: the file.
        password: opens it.
        number: of the page, from 1.
        boxes: left, top, right and bottom, in points from the top left corner of the page as shown.
        dpi: dots per inch; fewer where the page would have more than `MAX_PIXELS`.
    """
    file = open_pdf(data, password)
    if not 1 <= number <= len(file):
        raise Unreadable("malformed", f"it has no page {number}", "indexing the file again")
    page = file[number - 1]
    width, height = page.get_size()
    scale = min(dpi / 72, sqrt(MAX_PIXELS / max(1.0, width * height)))
    bitmap = page.render(scale=scale, rev_byteorder=True)
    pixels = bytearray(bitmap.buffer)
    for x0, top, x1, bottom in boxes:
        left, right = (max(0, min(bitmap.width, round(x * scale))) for x in (x0 - 1, x1 + 1))
        for y in range(max(0, round(top * scale) - 1), min(bitmap.height, round(bottom * scale) + 1)):
            blue = slice(y * bitmap.stride + 3 * left + 2, y * bitmap.stride + 3 * right, 3)
            pixels[blue] = pixels[blue].translate(_FADED)
    return png(bytes(pixels), bitmap.width, bitmap.height, stride=bitmap.stride, photo=False)[0]


def png(pixels: bytes, width: int, height: int, *, stride: int, photo: bool) -> tuple[bytes, int, int]:
    """Encode rows of red, green and blue bytes; a photo's rows as differences from the row above (filter "Up").

    Args:
        pixels: `height` rows of `stride` bytes, of which the first 3 * width count.
        width: in pixels.
        height: in pixels.
        stride: bytes from one row to the next.
        photo: whether neighbouring rows are alike rather than equal.
    """
    rows = np.frombuffer(pixels, np.uint8).reshape(height, stride)[:, : 3 * width]
    if photo:
        rows = np.diff(rows, axis=0, prepend=np.uint8(0))
    lines = np.insert(rows, 0, 2 if photo else 0, axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, red green blue
    parts = (_part(b"IHDR", header), _part(b"IDAT", zlib.compress(lines, 6)), _part(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts), width, height


def _part(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


MAX_CHARACTERS = 2_000_000  # a page
_RAISED = 0.4  # of its height: so far above the line a raised digit begins
_LINE_END_HYPHENS = {0x02: "-", 0xFFFE: "-"}  # what PDFium puts for a hyphen at the end of a line
_VIEWS_WITH_TOP = {
    raw.PDFDEST_VIEW_XYZ: 1, raw.PDFDEST_VIEW_FITH: 0, raw.PDFDEST_VIEW_FITBH: 0, raw.PDFDEST_VIEW_FITR: 3,
}  # fmt: skip
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

    def page(self, number: int, tables: Tables, *, hidden_text: bool) -> Page:
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

    def scanned(self, number: int) -> tuple[Line, ...]:
        """Return the lines that are seen on a page, by OCR (extra `[ocr]`), in reading order."""
        page = self._file[number - 1]
        try:
            return _scanned_lines(page)
        finally:
            page.close()

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
    for shown in objects_of(page):
        kind, bounds = raw.FPDFPageObj_GetType(shown), bounds_of(shown, base)
        paints = paint_of(shown)[1] if kind == raw.FPDF_PAGEOBJ_PATH else kind != raw.FPDF_PAGEOBJ_TEXT
        if paints and bounds is not None:
            yield bounds


def _shows(page: Any, textpage: Any) -> bool:
    """Return whether something is on a page without text that could be read: anything but spaces."""
    kinds = set(map(raw.FPDFPageObj_GetType, objects_of(page)))
    return bool(kinds - {raw.FPDF_PAGEOBJ_TEXT}) or (bool(kinds) and raw.FPDFText_CountChars(textpage) == 0)


def _bulk(function: Any, returns: Any, *takes: Any) -> Callable[..., Any]:
    """Return a function of PDFium that takes addresses as numbers: a call is half as dear, and a page has many."""
    return ctypes.PYFUNCTYPE(returns, *takes)(ctypes.cast(function, ctypes.c_void_p).value or 0)


_ADDRESS, _INDEX, _FLAG = ctypes.c_size_t, ctypes.c_int, ctypes.c_int
_text_object = _bulk(raw.FPDFText_GetTextObject, _ADDRESS, _ADDRESS, _INDEX)
_loose_box = _bulk(raw.FPDFText_GetLooseCharBox, _FLAG, _ADDRESS, _INDEX, _ADDRESS)
_matrix = _bulk(raw.FPDFText_GetMatrix, _FLAG, _ADDRESS, _INDEX, _ADDRESS)
_origin = _bulk(raw.FPDFText_GetCharOrigin, _FLAG, _ADDRESS, _INDEX, _ADDRESS, _ADDRESS)
_inked_box = _bulk(raw.FPDFText_GetCharBox, _FLAG, _ADDRESS, _INDEX, *[_ADDRESS] * 4)
_font_size = _bulk(raw.FPDFText_GetFontSize, ctypes.c_double, _ADDRESS, _INDEX)
_fill_colour = _bulk(raw.FPDFText_GetFillColor, _FLAG, _ADDRESS, _INDEX, *[_ADDRESS] * 4)
_font = _bulk(raw.FPDFTextObj_GetFont, _ADDRESS, _ADDRESS)
_render_mode = _bulk(raw.FPDFTextObj_GetTextRenderMode, _INDEX, _ADDRESS)

_SPACE = np.array([not re.match(r"\S", chr(code)) for code in range(0x3002)])  # the last one stands for all above


def _filled_in(
    function: Callable[..., Any], handle: int, indices: NDArray[Any], out: NDArray[Any], parts: int = 1
) -> None:
    """Let PDFium fill a row of `out` for each character; it takes the row in so many addresses."""
    rows, step = range(out.ctypes.data, out.ctypes.data + out.nbytes, out.strides[0]), out.strides[0] // parts
    places = [range(rows.start + part * step, rows.stop + part * step, rows.step) for part in range(parts)]
    deque(map(function, repeat(handle), indices.tolist(), *places), maxlen=0)


def page_runs(textpage: Any, base: Matrix) -> list[Run]:
    """Return the runs of a page in the order of its content stream.

    A call into PDFium costs more than what it computes. Boxes are asked for the ends of each word only; font, size
    and colour once for each text object.
    """
    handle = ctypes.addressof(textpage.raw.contents)
    text = _text(textpage.raw)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    inked: NDArray[np.bool_] = ~_SPACE[np.minimum(codes, len(_SPACE) - 1)]
    if not inked.any():
        return []
    owners = np.fromiter(map(_text_object, repeat(handle), range(len(text))), np.uint64, len(text))
    # pieces: words, cut where the text object changes
    cuts = np.flatnonzero((inked[1:] != inked[:-1]) | (owners[1:] != owners[:-1])) + 1
    starts, ends = np.concatenate(([0], cuts)), np.concatenate((cuts, [len(text)]))
    starts, ends = starts[inked[starts]], ends[inked[starts]]
    boxes = np.zeros((2, len(starts), 4), np.float32)  # left, top, right, bottom
    _filled_in(_loose_box, handle, starts, boxes[0])
    _filled_in(_loose_box, handle, ends - 1, boxes[1])
    a, _, c, _, e, _ = base
    sides = np.stack((a * boxes[..., 0] + c * boxes[..., 3] + e, a * boxes[..., 2] + c * boxes[..., 1] + e))
    x0, x1 = sides.min(axis=(0, 1)), sides.max(axis=(0, 1))
    changes = np.concatenate(([True], owners[starts[1:]] != owners[starts[:-1]]))
    looks = _looks(handle, starts[changes], owners[starts[changes]], base)
    of = np.cumsum(changes) - 1  # the look of each piece
    size = np.array([look.size for look in looks])[of]
    # a glyph may reach over the space behind it, as an italic "f" does: the word ends before the space
    before = x0[1:] - 1.01 * WORD_GAP * np.maximum(size[1:], size[:-1])
    reach = x1[:-1] - before  # of a glyph; more where a "$" is printed over the number before it
    spaced = (codes[ends[:-1]] == ord(" ")) & (x0[:-1] < before) & (reach > 0) & (reach < size[:-1])
    x1[:-1] = np.where(spaced, before, x1[:-1])
    gaps = np.concatenate(([0.0], x0[1:] - x1[:-1]))
    begins = np.flatnonzero(changes | (gaps >= CELL_GAP * size) | (gaps <= -size))
    stops = np.concatenate((begins[1:], [len(starts)])) - 1
    rows = zip(
        of[begins].tolist(), starts[begins].tolist(), ends[stops].tolist(), x0[begins].tolist(),
        x1[stops].tolist(), strict=True,
    )  # fmt: skip
    text = text.translate(_LINE_END_HYPHENS)
    marked = _with_raised(handle, text, codes)
    return [
        look._replace(text=said, x0=left, x1=right)
        for number, start, end, left, right in rows
        if 0 < (look := looks[number]).size < 10_000
        and (
            said := " ".join(readable_text((text if look.turned else marked)[start:end]).split())
        )  # some codes turn out to be controls or spaces
    ]


def _with_raised(handle: int, text: str, codes: NDArray[np.uint32]) -> str:
    """Return the text with digits as raised ones whose glyphs are: small ones that a font has above the line.

    Only the last digit of each number is looked at, unless one is raised.
    """
    is_digit = (codes >= ord("0")) & (codes <= ord("9"))
    asked = np.flatnonzero(is_digit & ~np.append(is_digit[1:], False))
    high = asked
    for _ in range(2):
        if not len(high):
            return text
        boxes, origins = np.zeros((len(asked), 4)), np.zeros((len(asked), 2))  # left, right, bottom, top
        _filled_in(_inked_box, handle, asked, boxes, 4)
        _filled_in(_origin, handle, asked, origins, 2)
        above = boxes[:, 2] - origins[:, 1]
        high = asked[above > _RAISED * (boxes[:, 3] - boxes[:, 2])]
        asked = np.flatnonzero(is_digit)
    made = list(text)
    for index in high.tolist():
        made[index] = raised(text[index])
        if made[index - 1] in "-+−" and not text[index - 2 : index - 1].isspace():
            made[index - 1 : index + 1] = raised(text[index - 1 : index + 1])
    return "".join(made)


def _text(handle: Any) -> str:
    """Return the text of a page: one character for each index."""
    count = raw.FPDFText_CountChars(handle)
    if count > MAX_CHARACTERS:
        raise Unreadable("bomb", f"more than {MAX_CHARACTERS} characters on one page")
    buffer = (ctypes.c_ushort * (count * 2 + 1))()
    raw.FPDFText_GetText(handle, 0, count, buffer)
    text = bytes(buffer).decode("utf-16-le", "replace")[:count]
    if "\0" in text:  # glyphs without a character were left out: the indices would not fit
        text = "".join(chr(raw.FPDFText_GetUnicode(handle, index) or 32) for index in range(count))
    return text


def _looks(handle: int, indices: NDArray[Any], owners: NDArray[Any], base: Matrix) -> list[Run]:
    """Return a run without text for each text object, given one of its characters and its address (0: made up)."""
    count = len(indices)
    matrices, origins = np.zeros((count, 6), np.float32), np.zeros((count, 2))
    colours = np.full((count, 4), 255, np.uint32)
    colours[:, :3] = 0
    _filled_in(_matrix, handle, indices, matrices)
    _filled_in(_origin, handle, indices, origins, 2)
    _filled_in(_fill_colour, handle, indices, colours, 4)
    p, q, r, s, _, u = base
    a, b, c, d = matrices[:, :4].astype(float).T
    a, b, c, d = a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s
    # the size that PDFium tells is the operand of Tf: what is printed is that times the matrix
    told = np.fromiter(map(_font_size, repeat(handle), indices.tolist()), float, count)
    sizes = (np.abs(told) * np.hypot(c, d)).tolist()
    y = (origins[:, 0] * q + origins[:, 1] * s + u).tolist()
    turned = ((a <= 0) | (np.abs(b) > 0.1 * np.abs(a))).tolist()
    white: list[bool] = np.all(colours[:, :3] >= 255 * WHITE, axis=1).tolist()
    styles: dict[int, Style] = {}
    found = []
    told_of = zip(indices.tolist(), owners.tolist(), colours[:, 3].tolist(), strict=True)
    for number, (index, owner, alpha) in enumerate(told_of):
        font = _font(owner) if owner else 0
        if font not in styles:
            styles[font] = _style(handle, index)
        hidden = hidden_by(_render_mode(owner) if owner else 0, white[number], alpha / 255)
        found.append(Run("", 0.0, 0.0, y[number], round(sizes[number], 2), styles[font], turned[number], hidden))
    return found


def _style(handle: int, index: int) -> Style:
    flags, page = ctypes.c_int(0), ctypes.cast(handle, raw.FPDF_TEXTPAGE)
    length = raw.FPDFText_GetFontInfo(page, index, None, 0, flags)
    name = ctypes.create_string_buffer(max(length, 1))
    raw.FPDFText_GetFontInfo(page, index, name, length, flags)
    return style_of(name.value.decode("utf-8", "replace"), flags.value)


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


OCR_DPI = 150.0  # dots per inch: small print is read, and a page takes seconds
OCR_PIXELS = 8_000_000  # of one page; a larger one is rendered at fewer dots per inch
LETTER_SIZE = 0.8  # of the height of a printed line as it is found
ALIKE = 0.2  # sizes that differ by less from the usual one of the page are that one


@cache
def _recogniser() -> Any:
    from rapidocr import RapidOCR

    # one thread: other processes read other pages
    return RapidOCR(params={"EngineConfig.onnxruntime.intra_op_num_threads": 1, "Global.log_level": "critical"})


def _scanned_lines(page: Any) -> tuple[Line, ...]:
    """Return the lines that are seen on a page of pypdfium2, in reading order."""
    width, height = page.get_size()
    scale = min(OCR_DPI / 72, sqrt(OCR_PIXELS / max(width * height, 1.0)))
    found = _recogniser()(page.render(scale=scale).to_numpy())
    if not found.txts:
        return ()
    lefts, tops = (found.boxes.min(axis=1) / scale).T.tolist()
    rights, bottoms = (found.boxes.max(axis=1) / scale).T.tolist()
    sizes = [LETTER_SIZE * (bottom - top) for top, bottom in zip(tops, bottoms, strict=True)]
    usual = median(sizes)
    sizes = [round(usual if abs(size - usual) < ALIKE * usual else size, 2) for size in sizes]
    return page_lines([
        Run(text, left, right, bottom - DESCENT * size, size, Style())
        for text, left, right, bottom, size in zip(found.txts, lefts, rights, bottoms, sizes, strict=True)
    ])  # fmt: skip

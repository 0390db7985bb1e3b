"""PDF through pypdfium2 (extra `[fast-pdf]`): the same pages as `pdf_pypdf`, several times as fast."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from itertools import islice
from math import hypot
from typing import Any

import pypdfium2 as pdfium
from pypdfium2 import raw

from catena.model.layout import Page, PageState
from catena.parsing.failures import Unreadable, reason
from catena.parsing.figures import FigureFinder
from catena.parsing.frames import LETTER, Matrix, multiply, page_frame, shown_box
from catena.parsing.hidden import WHITE, Box, hidden_by, seen_runs
from catena.parsing.lines import page_lines
from catena.parsing.pages import MAX_BOOKMARK_LEVEL, MAX_BOOKMARKS, failed_page
from catena.parsing.ruled import RuledTables
from catena.parsing.runs import Gathered, Run, Style, readable_text, style_of

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

    def page(self, number: int, tables: RuledTables, *, hidden_text: bool = True) -> Page:
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
            found = tables.on_page(number) if hidden_text or not hidden else ()
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
        return about(self._file)

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
    what = "the password does not open it" if password else "it is encrypted and needs a password"
    raise Unreadable("encrypted", what, "parse(path, password=...)")


def _filled(page: Any, base: Matrix) -> Iterator[Box]:
    """Yield where something is painted on a page that is not white; of a form, what is in it is not looked at."""
    a, b, c, d, e, f = base
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
        left, bottom, right, top = (side.value for side in sides)
        corners = [(a * x + c * y + e, b * x + d * y + f) for x in (left, right) for y in (bottom, top)]
        across, down = zip(*corners, strict=True)
        yield min(across), min(down), max(across), max(down)


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
    """Return how a character is hidden by the way it is painted."""
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


def about(file: Any) -> dict[str, Any]:
    """Return outline, labels and metadata; a part that cannot be read is empty, and `problems` says so."""
    parts: dict[str, Any] = {"event": "about", "items": [], "labels": [], "metadata": {}, "problems": []}
    for name, read in (("items", _outline), ("labels", _labels), ("metadata", _metadata)):
        try:
            parts[name] = read(file)
        except MemoryError:
            raise
        except Exception as error:  # as for pages
            parts["problems"].append(f"{name}: {reason(error)}")
    return parts


def _outline(file: Any) -> list[list[Any]]:
    items = []
    for mark in islice(file.get_toc(max_depth=MAX_BOOKMARK_LEVEL), MAX_BOOKMARKS):
        target = mark.get_dest()
        index = target.get_index() if target is not None else None
        if index is None:
            continue
        title = " ".join(readable_text(mark.get_title()).split())[:1000]
        items.append([mark.level + 1, title, index + 1, _top(file[index], *target.get_view())])
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
    names = {"title": "Title", "author": "Author", "subject": "Subject", "keywords": "Keywords"}
    names |= {"creator": "Creator", "producer": "Producer", "created": "CreationDate", "modified": "ModDate"}
    values = {name: " ".join(file.get_metadata_value(key).split())[:1000] for name, key in names.items()}
    return {name: readable_text(value) for name, value in values.items() if value}

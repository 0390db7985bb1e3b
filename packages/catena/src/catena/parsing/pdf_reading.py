"""Read a PDF as events, each page by the engine that reads most of it, and tell of damage.

The engine that was asked for reads; what it refuses, or shows as empty, the other one tries where it is installed. A
file whose cross-reference table or list of pages does not hold is first given new ones (`pdf_rebuild`). Whoever
reads, the streams of each page are checked (`pdf_damage`): an engine by itself draws what a broken one still gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from catena.model import Merged, Page, RuledTable
from catena.parsing.pages import Tables, failed_page, page_event
from catena.parsing.pdf_content import entry
from catena.parsing.pdf_damage import Damage, StreamCheck, found_objects, rebuilt, unpacked
from catena.parsing.pdf_pypdf import PypdfFile
from catena.parsing.protocol import Unreadable, failure_of, part_of, reason
from catena.parsing.runs import readable_text

_DAMAGED = frozenset({"malformed", "empty"})  # states that another reading may mend
_LIMITS = ("bomb", "limit", "memory", "too-deep")  # states that PDFium, which has no such limits, shall not undo
_HEADER = re.compile(rb"\s*(\d+)\s+(\d+)\s+obj")


def read_pdf(
    data: bytes,
    *,
    password: str | None,
    max_pages: int,
    first: int = 1,
    part: tuple[int, int] = (0, 1),
    ruled_tables: bool = False,
    engine: str = "pypdf",
    figure_dpi: float = 0.0,
    hidden_text: bool = True,
    ocr: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield "start", one "page" a page from `first` on, "about" (outline, labels, metadata), one "figure" a figure.

    Where several read one file, the one that reads its last pages yields what is not of a page.

    Args:
        data: the file.
        password: opens it.
        max_pages: a longer file is refused.
        first: where another reading ended, 1-based.
        part: which part of the pages is read, from 0, and of how many.
        ruled_tables: find tables with drawn borders.
        engine: "pypdf" or "pypdfium2"; only the latter finds figures.
        figure_dpi: dots per inch at which figures are cropped; 0 looks for none.
        hidden_text: keep text that a reader of the page does not see; it is told either way.
        ocr: read what is seen on pages without text.

    Raises:
        Unreadable: encrypted, longer than `max_pages`, without pages, or damaged beyond what can be mended.
    """
    source = opened(data, password)
    pages = _Pages(source, password, engine, figure_dpi, hidden_text=hidden_text, ocr=ocr)
    if pages.count > max_pages:
        raise Unreadable("limit", f"it has {pages.count} pages, more than {max_pages}", "a higher Limits(pages=...)")
    if pages.count == 0:
        raise Unreadable("empty", "it has no pages")
    try:
        yield {"event": "start", "pages": pages.count, "problem": pages.problem}
        with ruled_tables_of(source.data, password, wanted=ruled_tables) as tables:
            own = part_of(pages.count, *part)
            for number in range(max(first, own.start), own.stop):
                yield page_event(pages.page(number, tables))
        if own.stop > pages.count:
            yield pages.about()
            yield from pages.figures()
    finally:
        pages.close()


@dataclass(frozen=True, slots=True)
class Source:
    """A file as it is read.

    Attributes:
        data: the bytes, with a new table of objects where the file's own does not hold.
        file: what pypdf makes of them; None where it refuses.
        refusal: why it does.
        flaw: what a new table or list of pages might mend; empty where the file holds.
        problem: what is told of the whole file, because text may be missing.
    """

    data: bytes
    file: PypdfFile | None = None
    refusal: Unreadable | None = None
    flaw: str = ""
    problem: str = ""

    @property
    def count(self) -> int:
        """The number of its pages."""
        return self.file.count if self.file is not None else 0


def opened(data: bytes, password: str | None) -> Source:
    """Open a file, with a new table of its objects, and a new list of its pages, where its own do not hold."""
    first = _tried(data, password)
    if not first.flaw:
        return first
    best, objects = first, found_objects(data)
    mendable: bytes | None = None
    for own_pages in (False, True):
        new = rebuilt(objects, own_pages=own_pages)
        mended = _tried(new, password) if new is not None else best
        mendable = mendable or new
        if mended.count > best.count or (mended.count == best.count and not mended.flaw):
            best = mended
        if not best.flaw:
            break
    if not best.count and mendable is not None:
        best = replace(best, data=mendable)  # what pypdf refuses PDFium may read
    if best.flaw or own_pages:
        what = f"the list of its pages is damaged: {best.count} were found, others may be missing"
        best = replace(best, problem="; ".join(filter(None, (what, best.problem))))
    return best


def _tried(data: bytes, password: str | None) -> Source:
    try:
        file = PypdfFile(data, password)
        flaw = _table_flaw(file.reader, data) or _tree_flaw(file.reader, file.count)
        return Source(data, file, flaw=flaw, problem=_broken_object_streams(file.reader))
    except MemoryError:
        raise
    except Exception as error:  # pypdf raises all kinds where it is no PDF
        refusal = Unreadable(*failure_of(error))
        return Source(data, refusal=refusal, flaw=refusal.what if refusal.state in _DAMAGED else "")


def _table_flaw(reader: Any, data: bytes) -> str:
    """Return the first object that is not where the cross-reference table says."""
    for generation, places in reader.xref.items():
        for number, place in places.items():
            found = _HEADER.match(data, place, place + 40)
            if found is None or (int(found[1]), int(found[2])) != (number, generation):
                return f"object {number} is not where its table says"
    return ""


def _tree_flaw(reader: Any, count: int) -> str:
    """Return the flaw of the list of pages where the number that it states is not the number that it has."""
    stated = entry(reader.root_object["/Pages"], "/Count")
    listed = {page.indirect_reference for page in reader.pages if page.indirect_reference is not None}
    if stated != count or len(listed) < count:
        return f"it lists {len(listed)} pages, and says that they are {stated}"
    return ""


def _broken_object_streams(reader: Any) -> str:
    """Return which streams of objects are broken: pages and fonts in them are lost, or not what they were."""
    broken = []
    for number in sorted({place for place, _ in reader.xref_objStm.values()}):
        try:
            unpacked(reader.get_object(number))
        except (MemoryError, Unreadable):
            raise
        except Exception:  # it is missing, or none, or a filter of pypdf raises
            broken.append(number)
    return f"object stream {broken[0]} is damaged, so that text may be wrong or missing" if broken else ""


class _Pages:
    """The pages of one file, each from the engine that reads it."""

    def __init__(
        self, source: Source, password: str | None, engine: str, figure_dpi: float, *, hidden_text: bool, ocr: bool
    ) -> None:
        self._source, self._password, self._check = source, password, StreamCheck()
        self._hidden_text, self._ocr = hidden_text, ocr
        self._pypdf, self._tried_pdfium = source.file, False
        self._pdfium: Any = None
        if engine == "pypdfium2" or self._pypdf is None:
            self._open_pdfium(figure_dpi)
        self._lead: Any = self._pdfium or self._pypdf
        if self._lead is None and source.refusal is not None:
            raise source.refusal
        if self._lead is None:
            raise Unreadable("malformed", "it cannot be read")
        self.count: int = self._lead.count
        self.problem = source.problem
        if self._pypdf is None:
            self.problem = "only pypdfium2 opens it, so that damage to it may go unseen"

    def _open_pdfium(self, figure_dpi: float = 0.0) -> Any:
        """Return the file as PDFium sees it; None where it is not installed, refuses, or sees other pages."""
        if not self._tried_pdfium and find_spec("pypdfium2") is not None:
            from catena.parsing.pdf_pypdfium2 import PdfiumFile  # an extra

            try:
                file = PdfiumFile(self._source.data, self._password, figure_dpi)
            except Unreadable:
                file = None
            if file is not None and self._pypdf is not None and file.count != self._pypdf.count:
                file.close()
                file = None
            self._pdfium = file
        self._tried_pdfium = True
        return self._pdfium

    def page(self, number: int, tables: Tables) -> Page:
        """Read one page: damage to its streams makes it "failed", even where an engine shows something."""
        try:
            damage = Damage() if self._pypdf is None else self._check.page(self._pypdf.reader.pages[number - 1])
        except MemoryError:
            raise
        except Exception as error:  # pypdf raises all kinds for a broken page
            return failed_page(number, error)
        if damage.streams:
            return failed_page(number, Unreadable("malformed", damage.streams))
        read: Page = self._lead.page(number, tables, hidden_text=self._hidden_text)
        if damage.parts or read.note or read.state == "blank":
            read = self._second_reading(read, number, tables)
        if self._ocr and read.state == "no-text":
            read = self._scanned(read)
        noted = "; ".join(filter(None, (read.note, damage.parts and f"text may be wrong or missing: {damage.parts}")))
        return replace(read, note=noted)

    def _scanned(self, read: Page) -> Page:
        """Return a page without text with the lines that OCR finds on it, and say so."""
        try:
            lines = self._open_pdfium().scanned(read.number)
        except MemoryError:
            raise
        except Exception as error:  # as above, and all kinds of the models' engine
            return replace(read, note=f"{read.note or 'it has no text layer'}; OCR failed ({reason(error)})")
        return replace(read, lines=lines, state="text", note="read by OCR") if lines else read

    def _second_reading(self, read: Page, number: int, tables: Tables) -> Page:
        """Return the other engine's reading of a page where that is longer, else the first one."""
        if self._lead is self._pdfium:
            if self._pypdf is None:
                return read
            theirs = self._pypdf.page(number, tables, hidden_text=self._hidden_text)
            return theirs if not read.lines or _length(theirs) > _length(read) else read
        if read.state == "blank" or read.note.startswith(_LIMITS) or (pdfium := self._open_pdfium()) is None:
            return read
        second: Page = pdfium.page(number, tables, hidden_text=self._hidden_text)
        if _length(second) <= _length(read):
            return read
        return replace(second, note=f"read by pypdfium2, because pypdf gave less ({read.note})" if read.note else "")

    def about(self) -> dict[str, Any]:
        """Return outline, labels and metadata."""
        found: dict[str, Any] = self._lead.about()
        return found

    def figures(self) -> Iterator[dict[str, Any]]:
        """Yield the figures of the pages that were read."""
        if self._lead is self._pdfium:
            yield from self._pdfium.figures()

    def close(self) -> None:
        """Give back what PDFium holds."""
        if self._pdfium is not None:
            self._pdfium.close()


def _length(page: Page) -> int:
    return sum(len(line.text) for line in page.lines)


MAX_EDGES = 20_000  # lines drawn on one page; a map has more, a table has not, and finding cells is quadratic
_SETTINGS = {"vertical_strategy": "lines", "horizontal_strategy": "lines"}


@contextmanager
def ruled_tables_of(data: bytes, password: str | None, *, wanted: bool) -> Iterator[Tables]:
    """Give the drawn tables of a file, page by page, of two rows and columns or more; none where not wanted."""
    if not wanted:
        yield lambda number: ()
        return
    import pdfplumber

    def on_page(number: int) -> tuple[RuledTable, ...]:
        if number > len(file.pages):
            return ()
        page = file.pages[number - 1]
        found = [_table(table) for table in (page.find_tables(_SETTINGS) if len(page.edges) <= MAX_EDGES else [])]
        page.close()
        return tuple(table for table in found if len(table.rows) > 1 and len(table.rows[0]) > 1)

    with pdfplumber.open(BytesIO(data), password=password) as file:
        yield on_page


def _table(table: Any) -> RuledTable:
    x0, top, x1, bottom = table.bbox
    rows = [[readable_text(cell or "").strip() for cell in row] for row in table.extract()]
    width = max(len(row) for row in rows)
    return RuledTable(
        x0=round(float(x0), 2), x1=round(float(x1), 2), top=round(float(top), 2),
        bottom=round(float(bottom), 2), rows=tuple((*row, *[""] * (width - len(row))) for row in rows),
        merged=_merged(table),
    )  # fmt: skip


def _merged(table: Any) -> tuple[Merged, ...]:
    """Return the cells that reach over the left edge of another column or the top of another row."""
    boxes = [(row, place, box) for row, line in enumerate(table.rows) for place, box in enumerate(line.cells) if box]
    lefts, tops = ({box[side] for _, _, box in boxes} for side in (0, 1))
    found = (
        Merged(row, column, sum(top <= y < bottom for y in tops), sum(left <= x < right for x in lefts))
        for row, column, (left, top, right, bottom) in boxes
    )
    return tuple(cell for cell in found if cell.rows * cell.columns > 1)

"""Read a file into a `Parsed`: ask a reading process, and put its events together."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

from annotated_types import Ge, Le

from catena.model import Document, PageBox
from catena.model.errors import MissingExtraError, ParameterError, ParseError
from catena.model.ids import digest
from catena.model.layout import Layout, Page, PageNote, Parsed
from catena.model.options import check_given
from catena.parsing.pages import outline_of, page_of
from catena.parsing.process import POOL, ask
from catena.parsing.protocol import Limits, Unreadable, too_large
from catena.parsing.readers import OWN, kinds
from catena.text import PAGE_BREAK, PLAIN, is_title, is_visible, stem_text

_DATES = ("created", "modified", "date")  # keys of metadata
_PDF_DATE = re.compile(
    r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:(?P<utc>Z)|(?P<hours>[+-]\d\d)'?(?P<minutes>\d\d)?)?"
)
_MAIL_DATE = re.compile(r"(?:[A-Z][a-z]{2}, ?)?\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d")

Engine: TypeAlias = Literal["pypdf", "pypdfium2"]

DEFAULT_LIMITS = Limits()
FIGURE_DPI = 200.0  # dots per inch of a figure: small print is read, and a page-wide chart has some 250 kB


def parse(
    path: str | Path,
    *,
    document_id: str | None = None,
    source: str | None = None,
    password: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    engine: Engine | None = None,
    ruled_tables: bool = False,
    figures: bool = False,
    figure_dpi: float = FIGURE_DPI,
    hidden_text: bool = True,
    ocr: bool = False,
    workers: Annotated[int, Ge(1)] = 1,
    on_page: Callable[[int, int], None] | None = None,
) -> Parsed:
    """Read a file: PDF, HTML, LaTeX, Markdown or plain text, told apart by content first and by name second.

    Word, PowerPoint and Excel files (extra `[office]`), OpenDocument text and EPUB are told by what is in them, too;
    e-mail is known by its name, as are the kinds of files that `register` adds.

    Another process reads it under `limits`, so that no file can hang or end this one. When the time is up, the
    pages read so far are kept and the state is "partial". A LaTeX source is "partial" too where it takes in other
    files: they are not read, and its `notes` name them.

    Args:
        path: the file.
        document_id: of the document; derived from `source` when not given.
        source: how citations name the file; `path` as given when not given.
        password: opens an encrypted PDF.
        limits: what the file may cost.
        engine: who reads PDF: "pypdfium2" (faster; extra `[fast-pdf]`) or "pypdf"; None is the first that is there.
        ruled_tables: find tables with drawn borders (slow; extra `[tables]`).
        figures: crop the figures of PDFs; only pypdfium2 can, the other engine gives none.
        figure_dpi: dots per inch of the crops, 36 to 600; a large figure gets fewer, see `figure_images`.
        hidden_text: keep text of a PDF that a reader of the page does not see: it is white on white, invisible (as
            the text layer that OCR puts below a scan is), off the page, or too small. `notes` tell of it either way.
        ocr: read what is seen on pages without text (extra `[ocr]`); `notes` name these pages, and the state is
            "partial", since nobody knows what OCR misread.
        workers: processes among which the pages of a long PDF are divided; figures are cropped by one.
        on_page: told of each page how many are read, and of how many; by several threads where there are workers.

    Raises:
        ParseError: no document came of it; `state` is a `FailureState`.
        MissingExtraError: the engine or the table finder is not installed.
        ParameterError: an argument is of another type, the engine is unknown, or `figure_dpi` out of range.
    """
    options = {name: value for name, value in locals().items() if name != "path"}
    check_given(options, parse_bytes)
    source = source or str(path)
    return parse_bytes(file_bytes(path, source=source, limits=limits), str(path), **{**options, "source": source})


def parse_bytes(
    data: bytes | bytearray | memoryview,
    name: str,
    *,
    document_id: str | None = None,
    source: str | None = None,
    password: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    engine: Engine | None = None,
    ruled_tables: bool = False,
    figures: bool = False,
    figure_dpi: Annotated[float, Ge(36), Le(600)] = FIGURE_DPI,
    hidden_text: bool = True,
    ocr: bool = False,
    workers: Annotated[int, Ge(1)] = 1,
    on_page: Callable[[int, int], None] | None = None,
) -> Parsed:
    """Read a file that is in memory; `name` is what it is called. For the rest see `parse`."""
    check_given(locals(), parse_bytes)
    engine = engine or usual_engine()
    _check_installed(engine, ruled_tables, ocr)
    limits = limits.for_ocr() if ocr else limits
    source = source or name
    blank = Document(id=document_id or digest("document", source), text="", source=source)
    request = {
        "name": name, "engine": engine, "password": password, "ruled_tables": ruled_tables,
        "figure_dpi": figure_dpi if figures else 0.0, "hidden_text": hidden_text, "ocr": ocr,
        "kinds": [kind.told for kind in kinds() if kind not in OWN],
        "modules": [os.path.abspath(path) for path in sys.path if path],
    }  # fmt: skip
    try:
        if len(data) > limits.bytes:
            raise too_large(len(data), limits.bytes)
        workers = 1 if figures else workers
        events = ask(POOL, request, cast("bytes", data), limits, workers=workers, on_page=on_page)
        return parsed(events, blank, name)
    except Unreadable as error:
        raise ParseError(source, error.state, error.what, error.do_next) from None


def file_bytes(path: str | Path, *, source: str, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return the bytes of a regular file; a pipe or a device, which may never end, is not opened.

    It is read by another process, so that a disk that does not answer costs `limits.seconds` and no more.

    Args:
        path: the file.
        source: what the error calls it.
        limits: `limits.bytes` is the size above which it is refused unread.

    Raises:
        ParseError: there is no such file, it is none, it is too large, or it cannot be opened in time.
        ParameterError: it is no path.
    """
    try:
        return whole(ask(POOL, {"path": os.path.abspath(path_given(path))}, b"", limits))
    except Unreadable as error:
        raise ParseError(source, error.state, error.what, error.do_next) from None


def page_picture(
    path: str | Path,
    boxes: Sequence[PageBox],
    *,
    password: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    dpi: Annotated[float, Ge(36), Le(600)] = 110.0,
) -> bytes:
    """Return the page of a PDF on which the first of the boxes is, as PNG, with those on it marked.

    Args:
        path: the file, as it was when the boxes were found.
        boxes: at least one, as `Library.boxes` gives them.
        password: opens it.
        limits: of reading it.
        dpi: dots per inch.

    Raises:
        ParseError: it cannot be read.
        MissingExtraError: pypdfium2 is not installed (the extra `fast-pdf`).
        ParameterError: there are no boxes, or `dpi` is out of range.
    """
    check_given({"dpi": dpi}, page_picture)
    if not boxes:
        raise ParameterError("boxes", boxes, "at least one box")
    _check_installed("pypdfium2", ruled_tables=False, ocr=False)
    number = boxes[0].page
    here = [list(box[1:]) for box in boxes if box.page == number]
    request = {"marked": {"password": password, "number": number, "boxes": here, "dpi": dpi}}
    data = file_bytes(path, source=str(path), limits=limits)
    try:
        return whole(ask(POOL, request, data, limits))
    except Unreadable as error:
        raise ParseError(str(path), error.state, error.what, error.do_next) from None


def path_given(path: object) -> Path:
    """Return a path as its own type.

    Raises:
        ParameterError: it is none, or empty, which would be the current folder.
    """
    if not path or not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise ParameterError("path", path, "a string that is not empty, or a pathlib.Path")
    return Path(path)


def usual_engine() -> Engine:
    """Return who reads PDF where nobody is named."""
    return "pypdf" if find_spec("pypdfium2") is None else "pypdfium2"


def _check_installed(engine: str, ruled_tables: bool, ocr: bool) -> None:
    if engine == "pypdfium2" and find_spec("pypdfium2") is None:
        raise MissingExtraError("pypdfium2", "catena-core[fast-pdf]")
    if ruled_tables and find_spec("pdfplumber") is None:
        raise MissingExtraError("pdfplumber", "catena-core[tables]")
    if ocr and (find_spec("rapidocr") is None or find_spec("pypdfium2") is None):
        raise MissingExtraError("rapidocr", "catena-core[ocr]")


_WHY = {"no-text": "it shows something, but has no text layer", "blank": "nothing is on it"}


def parsed(events: Sequence[Mapping[str, Any]], blank: Document, name: str) -> Parsed:
    """Return the document that a reading process gave.

    Raises:
        Unreadable: it gave none; why.
    """
    is_paged = any(event["event"] == "start" for event in events)
    return parsed_pdf(events, blank, name) if is_paged else parsed_text(events, blank, name)


def whole(events: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the bytes that a reading process gave: a file that it has opened, or a picture.

    Raises:
        Unreadable: it gave none; why.
    """
    if events[-1]["event"] == "failed":
        raise _unreadable(events[-1])
    return bytes(events[0].get("data", b""))


def parsed_pdf(events: Sequence[Mapping[str, Any]], blank: Document, name: str) -> Parsed:
    """Return the document and its layout, of events with a "start" among them.

    Raises:
        Unreadable: no page gave text: all blank ("empty"), scanned ("no-text"), or what ended the reading.
    """
    end = events[-1]
    failed = end if end["event"] == "failed" else None
    start = next(event for event in events if event["event"] == "start")
    about: Mapping[str, Any] = next((event for event in events if event["event"] == "about"), {})
    labels = [str(label) for label in about.get("labels", ())]
    count = int(start["pages"])
    labels = labels if len(labels) == count else [""] * count
    read = {event["number"]: event for event in events if event["event"] == "page"}
    given_up = [event for event in events if event["event"] == "unread"]
    why = {event["number"]: f"{event['state']}: {event['what']}" for event in given_up}
    figures: dict[int, list[Mapping[str, Any]]] = {}
    for event in events:
        if event["event"] == "figure":
            figures.setdefault(event["page"], []).append(event)
    missing = f"not read: {failed['what']}" if failed else ""
    pages = tuple(
        page_of(read[number], labels[number - 1], figures.get(number, ()))
        if number in read
        else _unread(number, labels[number - 1], why.get(number, missing))
        for number in range(1, count + 1)
    )
    _check_some_text(pages, failed)
    parsed = _parsed(pages, about, blank, name, str(start.get("problem", "")))
    lost = _lost_figures(events, failed if len(read.keys() | why.keys()) == count else None, count)
    ends = given_up if failed is None else [*given_up, failed]
    cut = [event for event in ends if event["state"] in {"timeout", "memory"}]
    parsed = replace(parsed, retry=str(cut[-1]["do_next"]) if cut else "")
    return parsed if not lost else replace(parsed, state="partial", notes=(*parsed.notes, *lost))


def _unread(number: int, label: str, note: str) -> Page:
    return Page(number=number, width=0.0, height=0.0, lines=(), label=label, state="failed", note=note)


def _lost_figures(
    events: Sequence[Mapping[str, Any]], failed: Mapping[str, Any] | None, pages: int
) -> tuple[PageNote, ...]:
    """Return the pages whose figures are not all there; figures come last, so a reading that ended late lost some."""
    without = (event for event in events if event["event"] == "no-figure")
    notes = [PageNote(page=int(each["page"]), state="text", why=str(each["why"])) for each in without]
    if failed is not None:
        reached = max((int(event["page"]) for event in events if event["event"] == "figure"), default=1)
        known = any(event["event"] == "about" for event in events)
        what = "figures from here on" if known else "the outline, the labels of pages and figures"
        why = f"{what} may be missing: {failed['what']}"
        notes.append(PageNote(page=min(reached, pages), state="text", why=why))
    return tuple(notes)


def _metadata(told: Mapping[str, Any]) -> dict[str, str]:
    found = {str(key): str(value) for key, value in told.items() if value}
    return found | {key: _iso_date(found[key]) for key in _DATES if key in found}


def _iso_date(written: str) -> str:
    """Return a date of a PDF ("D:20240305101112+01'00'") or of a message in ISO 8601, any other as it is written."""
    if match := _PDF_DATE.match(written):
        day, time = ([part for part in match.groups()[at : at + 3] if part] for at in (0, 3))
        hours, minutes = match["hours"] or ("+00" if match["utc"] else ""), match["minutes"] or "00"
        zone = f"{hours}:{minutes}" if hours else ""
        return "-".join(day) + (f"T{':'.join((*time, '00', '00')[:3])}{zone}" if time else "")
    with suppress(ValueError):
        return parsedate_to_datetime(written).isoformat() if _MAIL_DATE.match(written) else written
    return written


def _parsed(pages: tuple[Page, ...], about: Mapping[str, Any], blank: Document, name: str, problem: str) -> Parsed:
    metadata = _metadata(about.get("metadata", {}))
    problems = "; ".join(about.get("problems", ()))
    title = metadata.pop("title", "")
    layout = Layout(
        pages=pages, outline=outline_of(about, len(pages)) if "items" in about else (), title=title,
        metadata={**metadata, "problems": problems} if problems else metadata,
    )  # fmt: skip
    texts = ["\n".join(line.text for line in page.lines) for page in pages]
    starts = tuple(accumulate((len(text) + len(PAGE_BREAK) for text in texts[:-1]), initial=0))
    document = replace(
        blank, text=PAGE_BREAK.join(texts), title=title if is_title(title) else stem_text(name),
        media_type=PLAIN, page_starts=starts,
        page_labels=tuple(page.label for page in pages) if any(page.label for page in pages) else (),
        metadata=metadata,
    )  # fmt: skip
    told = (page for page in pages if page.state != "text" or page.note)
    notes = tuple(PageNote(page=page.number, state=page.state, why=page.note or _WHY[page.state]) for page in told)
    if problem:  # of the whole file
        notes = (PageNote(page=1, state="text", why=problem), *notes)
    partial = any(note.state != "blank" for note in notes)
    notes += tuple(
        PageNote(page=page.number, state="hidden", why=f"hidden text (characters): {page.hidden}")
        for page in pages
        if page.hidden
    )
    return Parsed(document=document, layout=layout, state="partial" if partial else "parsed", notes=notes)


def _check_some_text(pages: Sequence[Page], failed: Mapping[str, Any] | None) -> None:
    if any(is_visible(line.text) for page in pages for line in page.lines):
        return
    if failed is not None:
        raise _unreadable(failed)
    states = {page.state for page in pages}
    if "failed" in states:
        state, _, why = next(page.note for page in pages if page.state == "failed").partition(": ")
        raise Unreadable(state, f"none of its {len(pages)} pages can be read ({why})")
    if "no-text" in states:
        what = f"none of its {len(pages)} pages has a text layer: it is a scan"
        raise Unreadable("no-text", what, "parse(path, ocr=True)")
    what = "have nothing on them that can be seen" if "text" in states else "are blank"
    raise Unreadable("empty", f"all of its {len(pages)} pages {what}")


def _unreadable(failed: Mapping[str, Any]) -> Unreadable:
    return Unreadable(str(failed["state"]), str(failed["what"]), str(failed["do_next"]))


def parsed_text(events: Sequence[Mapping[str, Any]], blank: Document, name: str) -> Parsed:
    """Return the document of a file without pages; "partial" where some of it is missing.

    Raises:
        Unreadable: it has no text, or what ended the reading.
    """
    if events[-1]["event"] == "failed":
        raise _unreadable(events[-1])
    about = next((event for event in events if event["event"] == "text"), None)
    if about is None:  # of a reader that was registered
        raise Unreadable("malformed", "nothing could be read from it")
    notes = tuple(PageNote(page=1, state="text", why=str(why)) for why in about.get("notes", ()))
    document = replace(
        blank, text="".join(str(event["text"]) for event in events if event["event"] == "piece"),
        title=str(about["title"]) or stem_text(name), media_type=str(about["media_type"]),
        page_starts=tuple(map(int, about["page_starts"])), page_labels=tuple(map(str, about["page_labels"])),
        metadata=_metadata(about["metadata"]),
    )  # fmt: skip
    return Parsed(document=document, state="partial" if notes else "parsed", notes=notes)

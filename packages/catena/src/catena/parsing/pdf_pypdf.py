"""PDF through pypdf: pages, outline, labels and metadata as events, in the reading process only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

from pypdf import PasswordType, PdfReader
from pypdf._configuration import overwrite_configuration
from pypdf.generic import RectangleObject

from catena.layout import Page
from catena.parsing.content import FontCache, page_text
from catena.parsing.failures import Unreadable, failure_of, reason
from catena.parsing.frames import LETTER, Sides, page_frame, shown_box
from catena.parsing.lines import page_lines
from catena.parsing.outline import outline_items
from catena.parsing.pages import page_event
from catena.parsing.ruled import RuledTables


def read_pdf(data: bytes, password: str | None, max_pages: int, ruled_tables: bool) -> Iterator[dict[str, Any]]:
    """Yield "start", one "page" per page, "about" (outline, labels, metadata).

    Raises:
        Unreadable: encrypted, longer than `max_pages`, or without pages.
    """
    overwrite_configuration(jbig2dec_binary=None)  # no other program is ever started
    reader = open_pdf(data, password)
    count = len(reader.pages)
    if count > max_pages:
        raise Unreadable("limit", f"it has {count} pages, more than {max_pages}", "a higher Limits(pages=...)")
    if count == 0:
        raise Unreadable("empty", "it has no pages")
    yield {"event": "start", "pages": count}
    fonts = FontCache()
    with RuledTables(data, password, wanted=ruled_tables) as tables:
        for number in range(1, count + 1):
            yield page_event(_page(reader, number, fonts, tables))
    yield about(reader)


def open_pdf(data: bytes, password: str | None) -> PdfReader:
    """Open a file, with the password if it needs one; files locked by an empty password just open."""
    reader = PdfReader(BytesIO(data))
    if reader.is_encrypted:
        opened = reader.decrypt("")
        if opened is PasswordType.NOT_DECRYPTED and password:
            opened = reader.decrypt(password)
        if opened is PasswordType.NOT_DECRYPTED:
            what = "the password does not open it" if password else "it is encrypted and needs a password"
            raise Unreadable("encrypted", what, "parse(path, password=...)")
    return reader


def _page(reader: PdfReader, number: int, fonts: FontCache, tables: RuledTables) -> Page:
    """Read one page; what goes wrong on it is told by its state, and the others are read all the same."""
    width, height = LETTER
    try:
        page = reader.pages[number - 1]
        shown = shown_box(_sides(page.mediabox), _sides(page.cropbox))
        width, height, base = page_frame(shown, int(page.rotation))
        found = page_text(page, base, fonts)
        lines = page_lines(found.runs)
        ruled = tables.on_page(number)
    except MemoryError:
        raise
    except Exception as error:  # pypdf leaves what broken pages raise to its callers
        state, what, _ = failure_of(error)
        note = f"{state}: {what}"
        return Page(number=number, width=width, height=height, lines=(), state="failed", note=note)
    state = "text" if lines else "no-text" if found.painted else "blank"
    return Page(number=number, width=width, height=height, lines=lines, state=state, tables=ruled)  # type: ignore[arg-type]


def about(reader: PdfReader) -> dict[str, Any]:
    """Return outline, labels and metadata; a part that cannot be read is empty, and `problems` says so."""
    parts: dict[str, Any] = {"event": "about", "items": [], "labels": [], "metadata": {}, "problems": []}
    for name, read in (("items", outline_items), ("labels", _labels), ("metadata", _metadata)):
        try:
            parts[name] = read(reader)
        except MemoryError:
            raise
        except Exception as error:  # as for pages
            parts["problems"].append(f"{name}: {reason(error)}")
    return parts


def _labels(reader: PdfReader) -> list[str]:
    if "/PageLabels" not in reader.root_object:
        return []
    return [str(label)[:100] for label in reader.page_labels]


def _metadata(reader: PdfReader) -> dict[str, str]:
    found: Mapping[str, Any] = reader.metadata or {}
    keys = {"title": "/Title", "author": "/Author", "subject": "/Subject", "keywords": "/Keywords"}
    keys |= {"creator": "/Creator", "producer": "/Producer", "created": "/CreationDate", "modified": "/ModDate"}
    values = {name: found[key] for name, key in keys.items() if key in found}
    return {name: " ".join(value.split())[:1000] for name, value in values.items() if isinstance(value, str)}


def _sides(box: RectangleObject) -> Sides:
    return float(box.left), float(box.bottom), float(box.right), float(box.top)

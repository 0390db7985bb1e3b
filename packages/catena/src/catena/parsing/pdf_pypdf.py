"""PDF through pypdf: pages, outline, labels and metadata, in the reading process only."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from pypdf import PasswordType, PdfReader
from pypdf._configuration import overwrite_configuration
from pypdf.generic import RectangleObject

from catena.model.layout import Page, PageState
from catena.parsing.content import FontCache, page_text
from catena.parsing.failures import Unreadable, reason
from catena.parsing.frames import LETTER, Sides, page_frame, shown_box
from catena.parsing.hidden import seen_runs
from catena.parsing.lines import page_lines
from catena.parsing.outline import outline_items
from catena.parsing.pages import failed_page
from catena.parsing.ruled import RuledTables


class PypdfFile:
    """A file as pypdf reads it.

    Raises:
        Unreadable: it is encrypted.
        Exception: whatever pypdf raises where it is no PDF.
    """

    def __init__(self, data: bytes, password: str | None) -> None:
        overwrite_configuration(jbig2dec_binary=None)  # no other program is ever started
        self.reader = open_pdf(data, password)
        self.count = len(self.reader.pages)
        self._fonts = FontCache()

    def page(self, number: int, tables: RuledTables, *, hidden_text: bool = True) -> Page:
        """Read one page, its hidden text or not; what goes wrong on it is told by its state.

        A page is "blank" when there is nothing on it to draw. It is "failed" when there is, and nothing comes of it.
        """
        width, height = LETTER
        try:
            page = self.reader.pages[number - 1]
            width, height, base = page_frame(_shown(page), int(page.rotation))
            found = page_text(page, base, self._fonts)
            runs, hidden = seen_runs(found.runs, (width, height), lambda: found.filled, keep=hidden_text)
            lines = page_lines(runs)
            ruled = tables.on_page(number) if hidden_text or not hidden else ()
        except MemoryError:
            raise
        except Exception as error:  # pypdf leaves what broken pages raise to its callers
            return failed_page(number, error, width, height)
        if not lines and not found.painted and (found.meaningless or found.unread):
            return failed_page(number, Unreadable("malformed", "its content stream draws nothing"), width, height)
        state: PageState = "text" if lines else "no-text" if found.painted else "blank"
        note = f"{found.unread} characters are in fonts that are not there" if found.unread else ""
        return Page(
            number=number,
            width=width,
            height=height,
            lines=lines,
            state=state,
            tables=ruled,
            note=note,
            hidden=hidden,
        )

    def about(self) -> dict[str, Any]:
        """Return outline, labels and metadata; a part that cannot be read is empty, and `problems` says so."""
        return about(self.reader)


def _shown(page: Any) -> Sides:
    """Return what is shown of a page; one whose box says nothing is taken for a letter."""
    try:
        return shown_box(_sides(page.mediabox), _sides(page.cropbox))
    except (ValueError, TypeError, AttributeError):
        return (0.0, 0.0, *LETTER)


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

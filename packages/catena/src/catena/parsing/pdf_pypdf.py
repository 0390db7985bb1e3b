"""Read a PDF through pypdf: pages, outline, labels and metadata, in the reading process only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any

from pypdf import PasswordType, PdfReader
from pypdf._configuration import overwrite_configuration
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject, RectangleObject

from catena.model.layout import Page, PageState
from catena.parsing.lines import page_lines
from catena.parsing.pages import (
    LETTER,
    MAX_BOOKMARKS,
    METADATA,
    Sides,
    Tables,
    about_event,
    bookmark,
    failed_page,
    locked,
    page_frame,
    shown_box,
)
from catena.parsing.pdf_content import FontCache, entry, page_text, raw_entry
from catena.parsing.protocol import Unreadable
from catena.parsing.runs import seen_runs


class PypdfFile:
    """A file as pypdf reads it.

    Raises:
        Unreadable: it is encrypted.
        Exception: any that pypdf raises where it is no PDF.
    """

    def __init__(self, data: bytes, password: str | None) -> None:
        overwrite_configuration(jbig2dec_binary=None)  # no other program is ever started
        self.reader = open_pdf(data, password)
        self.count = len(self.reader.pages)
        self._fonts = FontCache()

    def page(self, number: int, tables: Tables, *, hidden_text: bool) -> Page:
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
            ruled = tables(number) if hidden_text or not hidden else ()
        except MemoryError:
            raise
        except Exception as error:  # pypdf leaves what broken pages raise to its callers
            return failed_page(number, error, width, height)
        if not lines and not found.painted and (found.meaningless or found.unread):
            return failed_page(number, Unreadable("malformed", "its content stream draws nothing"), width, height)
        state: PageState = "text" if lines else "no-text" if found.painted else "blank"
        note = f"{found.unread} characters are in fonts that are not there" if found.unread else ""
        read = Page(number=number, width=width, height=height, lines=lines, state=state, tables=ruled)
        return replace(read, note=note, hidden=hidden)

    def about(self) -> dict[str, Any]:
        """Return outline, labels and metadata; a part that cannot be read is empty, and `problems` says so."""
        return about_event(self.reader, items=outline_items, labels=_labels, metadata=_metadata)


def _shown(page: Any) -> Sides:
    """Return the part of a page that is shown; one whose box says nothing is taken for a letter."""
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
            raise locked(password)
    return reader


def _labels(reader: PdfReader) -> list[str]:
    if "/PageLabels" not in reader.root_object:
        return []
    return [str(label)[:100] for label in reader.page_labels]


def _metadata(reader: PdfReader) -> dict[str, str]:
    found: Mapping[str, Any] = reader.metadata or {}
    values = {name: found[f"/{key}"] for name, key in METADATA.items() if f"/{key}" in found}
    return {name: " ".join(value.split())[:1000] for name, value in values.items() if isinstance(value, str)}


def _sides(box: RectangleObject) -> Sides:
    return float(box.left), float(box.bottom), float(box.right), float(box.top)


def outline_items(reader: PdfReader) -> list[list[Any]]:
    """Return [level from 1, title, page from 1, top in points or None] in the order of the tree."""
    root = entry(reader.root_object, "/Outlines")
    if not isinstance(root, DictionaryObject):
        return []
    numbers = {page.indirect_reference.idnum: k for k, page in enumerate(reader.pages, 1) if page.indirect_reference}
    items: list[list[Any]] = []
    seen: set[int] = set()
    waiting: list[tuple[Any, int]] = [(raw_entry(root, "/First"), 1)]
    while waiting and len(items) < MAX_BOOKMARKS:
        link, level = waiting.pop()
        node = link.get_object() if link is not None else None
        key = link.idnum if isinstance(link, IndirectObject) else id(node)
        if not isinstance(node, DictionaryObject) or key in seen:
            continue
        seen.add(key)
        title, (page, top) = entry(node, "/Title"), _target(reader, node, numbers)
        if isinstance(title, str) and page:
            items.append(bookmark(level, title, page, top))
        waiting.append((raw_entry(node, "/Next"), level))
        waiting.append((raw_entry(node, "/First"), level + 1))  # taken first: children before the next sibling
    return items


def _target(reader: PdfReader, node: DictionaryObject, numbers: dict[int, int]) -> tuple[int, float | None]:
    """Return the page (0 when it points nowhere in this file) and the height on it."""
    action = entry(node, "/A")
    if not isinstance(action, DictionaryObject):
        target = entry(node, "/Dest")
    else:
        target = entry(action, "/D") if entry(action, "/S") == "/GoTo" else None
    if isinstance(target, (str, bytes)):
        named = reader.named_destinations.get(str(target))
        target = named.dest_array if named is not None else None
    if isinstance(target, DictionaryObject):
        target = entry(target, "/D")
    if not isinstance(target, ArrayObject) or not target:
        return 0, None
    page = numbers.get(getattr(target[0], "idnum", -1), 0)
    heights = {"/XYZ": 3, "/FitH": 2, "/FitBH": 2, "/FitR": 5}  # where each kind of destination keeps its top
    at = heights.get(str(target[1]), 0) if len(target) > 1 else 0
    y = target[at] if 0 < at < len(target) else None
    if not page or not isinstance(y, (int, float)):
        return page, None
    shown = reader.pages[page - 1]
    top, height = float(shown.cropbox.top), float(shown.cropbox.height)
    return page, None if shown.rotation % 360 else round(min(max(top - y, 0.0), height), 2)  # from its top edge

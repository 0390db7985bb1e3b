"""The bookmarks of a PDF, walked without recursion: cyclic and very deep ones end where a limit says."""

from __future__ import annotations

from typing import Any

from pypdf import PdfReader
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject

from catena.parsing.pages import MAX_BOOKMARK_LEVEL, MAX_BOOKMARKS
from catena.parsing.runs import readable_text


def outline_items(reader: PdfReader) -> list[list[Any]]:
    """Return [level from 1, title, page from 1, top in points or None] in the order of the tree."""
    root = _value(reader.root_object, "/Outlines")
    if not isinstance(root, DictionaryObject):
        return []
    numbers = {page.indirect_reference.idnum: k for k, page in enumerate(reader.pages, 1) if page.indirect_reference}
    items: list[list[Any]] = []
    seen: set[int] = set()
    waiting: list[tuple[Any, int]] = [(_raw(root, "/First"), 1)]
    while waiting and len(items) < MAX_BOOKMARKS:
        reference, level = waiting.pop()
        node = reference.get_object() if reference is not None else None
        key = reference.idnum if isinstance(reference, IndirectObject) else id(node)
        if not isinstance(node, DictionaryObject) or key in seen:
            continue
        seen.add(key)
        title, (page, top) = _value(node, "/Title"), _target(reader, node, numbers)
        if isinstance(title, str) and page:
            items.append([min(level, MAX_BOOKMARK_LEVEL), " ".join(readable_text(title).split())[:1000], page, top])
        waiting.append((_raw(node, "/Next"), level))
        waiting.append((_raw(node, "/First"), level + 1))  # taken first: children before the next sibling
    return items


def _target(reader: PdfReader, node: DictionaryObject, numbers: dict[int, int]) -> tuple[int, float | None]:
    """Return the page (0 when it points nowhere in this file) and the height on it."""
    action = _value(node, "/A")
    if not isinstance(action, DictionaryObject):
        target = _value(node, "/Dest")
    else:
        target = _value(action, "/D") if _value(action, "/S") == "/GoTo" else None
    if isinstance(target, (str, bytes)):
        named = reader.named_destinations.get(str(target))
        target = named.dest_array if named is not None else None
    if isinstance(target, DictionaryObject):
        target = _value(target, "/D")
    if not isinstance(target, ArrayObject) or not target:
        return 0, None
    page = numbers.get(getattr(target[0], "idnum", -1), 0)
    heights = {"/XYZ": 3, "/FitH": 2, "/FitBH": 2, "/FitR": 5}  # where each kind of destination keeps its top
    at = heights.get(str(target[1]), 0) if len(target) > 1 else 0
    y = target[at] if 0 < at < len(target) else None
    if not page or not isinstance(y, (int, float)):
        return page, None
    return page, _from_top(reader.pages[page - 1], float(y))


def _from_top(page: Any, y: float) -> float | None:
    """Return a height in user space as a distance from the top edge of the page as shown."""
    if page.rotation % 360:
        return None
    return round(min(max(float(page.cropbox.top) - y, 0.0), float(page.cropbox.height)), 2)


def _raw(node: DictionaryObject, key: str) -> Any:
    return node.raw_get(key) if key in node else None


def _value(node: DictionaryObject, key: str) -> Any:
    """Return an entry with its reference followed (`get` does not), or None."""
    return node[key] if key in node else None  # noqa: SIM401

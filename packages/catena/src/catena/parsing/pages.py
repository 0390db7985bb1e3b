"""Describe pages of a PDF as data: their frame, and their form on the pipe between the two processes."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Literal, TypeAlias

from catena.model.layout import FigureCrop, Line, OutlineItem, Page, PageState, RuledTable, Span
from catena.model.merged_cells import Merged
from catena.parsing.protocol import Unreadable, failure_of, reason
from catena.parsing.runs import readable_text

Sides: TypeAlias = tuple[float, float, float, float]  # left, bottom, right, top
Matrix: TypeAlias = tuple[float, float, float, float, float, float]
IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
Tables: TypeAlias = Callable[[int], tuple[RuledTable, ...]]
"""Gives the tables with drawn borders of a page, from 1."""
LETTER = (612.0, 792.0)  # points; for a page whose box says nothing


def multiply(m: Matrix, n: Matrix) -> Matrix:
    """Return the matrix that applies `m` first and `n` then, for row vectors as PDF has them."""
    a, b, c, d, e, f = m
    p, q, r, s, t, u = n
    return (a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u)


def shown_box(media: Sides, crop: Sides) -> Sides:
    """Return the part of a page that a viewer shows: the crop box within the media box, or else the latter.

    The corners of either may come in any order (ISO 32000-2, 7.9.5 and 14.11.2).
    """
    media, crop = _ordered(media), _ordered(crop)
    left, bottom = max(media[0], crop[0]), max(media[1], crop[1])
    right, top = min(media[2], crop[2]), min(media[3], crop[3])
    return (left, bottom, right, top) if left < right and bottom < top else media


def _ordered(box: Sides) -> Sides:
    left, bottom, right, top = box
    return min(left, right), min(bottom, top), max(left, right), max(bottom, top)


def page_frame(box: Sides, rotation: int) -> tuple[float, float, Matrix]:
    """Return width and height of a page as shown, and the matrix from its user space to its top left corner.

    Args:
        box: left, bottom, right, top of the crop box, in user space.
        rotation: clockwise, in degrees.
    """
    left, bottom, right, top = box
    width, height = right - left, top - bottom
    if not (0 < width < 1e6 and 0 < height < 1e6 and isfinite(left) and isfinite(bottom)):
        left, bottom, (width, height) = 0.0, 0.0, LETTER
    right, top = left + width, bottom + height
    match rotation % 360:
        case 90:
            return height, width, (0.0, 1.0, 1.0, 0.0, -bottom, -left)
        case 180:
            return width, height, (-1.0, 0.0, 0.0, 1.0, right, -bottom)
        case 270:
            return height, width, (0.0, -1.0, -1.0, 0.0, top, right)
        case _:
            return width, height, (1.0, 0.0, 0.0, -1.0, -left, top)


MAX_BOOKMARKS = 20_000  # of a file; the rest is left out
MAX_BOOKMARK_LEVEL = 50  # deeper ones are listed at this level, or left out
METADATA = {
    **{"title": "Title", "author": "Author", "subject": "Subject", "keywords": "Keywords"},
    **{"creator": "Creator", "producer": "Producer", "created": "CreationDate", "modified": "ModDate"},
}
"""Names of metadata, and the keys under which a PDF has them."""

_BOLD, _ITALIC, _MONO = 1, 2, 4
_STATES: Mapping[str, PageState] = {"text": "text", "no-text": "no-text", "blank": "blank"}


def placed(base: Matrix, left: float, bottom: float, right: float, top: float) -> tuple[float, float, float, float]:
    """Return the left, top, right and bottom of a rectangle of user space on the page as shown."""
    a, b, c, d, e, f = base
    xs = [a * x + c * y + e for x in (left, right) for y in (bottom, top)]
    ys = [b * x + d * y + f for x in (left, right) for y in (bottom, top)]
    return min(xs), min(ys), max(xs), max(ys)


def locked(password: str | None) -> Unreadable:
    """Return the refusal of an encrypted file that the password, if one was given, does not open."""
    what = "the password does not open it" if password else "it is encrypted and needs a password"
    return Unreadable("encrypted", what, "parse(path, password=...)")


def about_event(file: Any, **readers: Callable[[Any], Any]) -> dict[str, Any]:
    """Read the outline ("items"), labels and metadata of a file, each by its reader, for the event "about".

    A part that cannot be read is empty, and `problems` says so.
    """
    parts: dict[str, Any] = {"event": "about", "items": [], "labels": [], "metadata": {}, "problems": []}
    for name, read in readers.items():
        try:
            parts[name] = read(file)
        except MemoryError:
            raise
        except Exception as error:  # engines raise all kinds where a file is broken
            parts["problems"].append(f"{name}: {reason(error)}")
    return parts


def bookmark(level: int, title: str, page: int, top: float | None) -> list[Any]:
    """Return an item of the outline as JSON-ready data: level and page from 1, `top` in points."""
    return [min(level, MAX_BOOKMARK_LEVEL), " ".join(readable_text(title).split())[:1000], page, top]


def failed_page(number: int, error: Exception, width: float = LETTER[0], height: float = LETTER[1]) -> Page:
    """Return a page that gave nothing, with the reason; lengths in points."""
    state, what, _ = failure_of(error)
    return Page(number=number, width=width, height=height, lines=(), state="failed", note=f"{state}: {what}")


def page_event(page: Page) -> dict[str, Any]:
    """Return a page as JSON-ready data."""
    return {
        "event": "page", "number": page.number, "size": [page.width, page.height], "state": page.state,
        "note": page.note, "hidden": page.hidden, "lines": [_line_data(line) for line in page.lines],
        "tables": [[t.x0, t.x1, t.top, t.bottom, t.rows, t.merged] for t in page.tables],
    }  # fmt: skip


def page_of(event: Mapping[str, Any], label: str, figures: Sequence[Mapping[str, Any]] = ()) -> Page:
    """Rebuild a page from its event and those of its figures."""
    width, height = map(float, event["size"])
    return Page(
        number=int(event["number"]), width=width, height=height, lines=tuple(map(_line_of, event["lines"])),
        label=label, state=_STATES.get(str(event["state"]), "failed"), note=str(event["note"]),
        hidden=str(event.get("hidden", "")), tables=tuple(map(_table_of, event["tables"])),
        figures=tuple(map(_figure_of, figures)),
    )  # fmt: skip


def outline_of(event: Mapping[str, Any], pages: int) -> tuple[OutlineItem, ...]:
    """Rebuild the outline; bookmarks to pages that are not there are left out."""
    return tuple(
        OutlineItem(level=int(level), title=str(title), page=int(page), top=None if top is None else float(top))
        for level, title, page, top in event["items"]
        if 1 <= int(page) <= pages
    )


def _line_data(line: Line) -> list[Any]:
    spans = [[s.text, s.x0, s.x1, s.size, _BOLD * s.bold | _ITALIC * s.italic | _MONO * s.mono] for s in line.spans]
    return [line.text, line.x0, line.x1, line.top, line.bottom, line.column, spans]


def _line_of(data: Sequence[Any]) -> Line:
    x0, x1, top, bottom = map(float, data[1:5])
    text, column, spans = str(data[0]), int(data[5]), tuple(map(_span_of, data[6]))
    return Line(text=text, x0=x0, x1=x1, top=top, bottom=bottom, spans=spans, column=column)


def _span_of(data: Sequence[Any]) -> Span:
    x0, x1, size = map(float, data[1:4])
    bold, italic, mono = (bool(data[4] & style) for style in (_BOLD, _ITALIC, _MONO))
    return Span(text=str(data[0]), x0=x0, x1=x1, size=size, bold=bold, italic=italic, mono=mono)


def _table_of(data: Sequence[Any]) -> RuledTable:
    x0, x1, top, bottom = map(float, data[:4])
    rows = tuple(tuple(map(str, row)) for row in data[4])
    merged = tuple(Merged(*map(int, cell)) for cell in data[5])
    return RuledTable(x0=x0, x1=x1, top=top, bottom=bottom, rows=rows, merged=merged)


def _figure_of(event: Mapping[str, Any]) -> FigureCrop:
    x0, top, x1, bottom = map(float, event["box"])
    (width, height), png = map(int, event["size"]), base64.b64decode(event["png"])
    kind: Literal["bitmap", "drawing"] = "bitmap" if event["kind"] == "bitmap" else "drawing"
    sides = {"x0": x0, "x1": x1, "top": top, "bottom": bottom}
    return FigureCrop(**sides, kind=kind, png=png, width=width, height=height, svg=str(event.get("svg", "")))

"""Pages as data: how both PDF engines describe a page on the wire, and how the parent rebuilds it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from catena.model.layout import FigureCrop, Line, OutlineItem, Page, PageState, RuledTable, Span
from catena.model.merged_cells import Merged
from catena.parsing.failures import failure_of
from catena.parsing.frames import LETTER

MAX_BOOKMARKS = 20_000  # of a file; the rest is left out
MAX_BOOKMARK_LEVEL = 50  # deeper ones are listed at this level, or left out

_BOLD, _ITALIC, _MONO = 1, 2, 4


def failed_page(number: int, error: Exception, width: float = LETTER[0], height: float = LETTER[1]) -> Page:
    """Return a page that gave nothing, with the reason; lengths in points."""
    state, what, _ = failure_of(error)
    return Page(number=number, width=width, height=height, lines=(), state="failed", note=f"{state}: {what}")


def page_event(page: Page) -> dict[str, Any]:
    """Return a page as JSON-ready data."""
    return {
        "event": "page",
        "number": page.number,
        "size": [page.width, page.height],
        "state": page.state,
        "note": page.note,
        "hidden": page.hidden,
        "lines": [_line_data(line) for line in page.lines],
        "tables": [[t.x0, t.x1, t.top, t.bottom, t.rows, t.merged] for t in page.tables],
    }


def page_of(event: Mapping[str, Any], label: str, figures: Sequence[Mapping[str, Any]] = ()) -> Page:
    """Rebuild a page from its event and those of its figures."""
    return Page(
        number=int(event["number"]),
        width=float(event["size"][0]),
        height=float(event["size"][1]),
        lines=tuple(_line_of(data) for data in event["lines"]),
        label=label,
        state=_state(event["state"]),
        note=str(event["note"]),
        hidden=str(event.get("hidden", "")),
        tables=tuple(_table_of(data) for data in event["tables"]),
        figures=tuple(_figure_of(data) for data in figures),
    )


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
    text, x0, x1, top, bottom, column, spans = data
    return Line(
        text=str(text),
        x0=float(x0),
        x1=float(x1),
        top=float(top),
        bottom=float(bottom),
        spans=tuple(_span_of(span) for span in spans),
        column=int(column),
    )


def _span_of(data: Sequence[Any]) -> Span:
    text, x0, x1, size, style = data
    return Span(
        text=str(text),
        x0=float(x0),
        x1=float(x1),
        size=float(size),
        bold=bool(style & _BOLD),
        italic=bool(style & _ITALIC),
        mono=bool(style & _MONO),
    )


def _table_of(data: Sequence[Any]) -> RuledTable:
    x0, x1, top, bottom, rows, merged = data
    return RuledTable(
        x0=float(x0),
        x1=float(x1),
        top=float(top),
        bottom=float(bottom),
        rows=tuple(tuple(str(cell) for cell in row) for row in rows),
        merged=tuple(Merged(*map(int, cell)) for cell in merged),
    )


def _figure_of(event: Mapping[str, Any]) -> FigureCrop:
    x0, top, x1, bottom = map(float, event["box"])
    width, height = map(int, event["size"])
    return FigureCrop(
        x0=x0,
        x1=x1,
        top=top,
        bottom=bottom,
        kind="bitmap" if event["kind"] == "bitmap" else "drawing",
        png=base64.b64decode(event["png"]),
        width=width,
        height=height,
    )


def _state(value: object) -> PageState:
    return (
        "text" if value == "text" else "no-text" if value == "no-text" else "blank" if value == "blank" else "failed"
    )

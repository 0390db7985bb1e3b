"""Name the place of a passage in the words of a reader: document, heading path, page and lines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath

from catena.model import PATH_SEPARATOR, TABLE_HEADER, Chunk, PageBox, Place, Segment, Span
from catena.text.words import same_words

TITLE = "title"
"""Metadata key of a chunk: the title of its document."""

SOURCE = "source"
"""Metadata key of a chunk: its document's file, as the caller named it."""

FILE_IN_CITATION = "file_in_citation"
"""Metadata key of a chunk that was found: what tells its document from others of its title."""

GENERATED_TITLE = "generated_title"
"""Metadata key of a chunk: its section's title, where that was made and is not printed as a heading."""

SEPARATOR = PATH_SEPARATOR


def shown_text(found: Chunk | Segment) -> str:
    """Return the text for a reader: below the caption and header of the table that it goes on with, if it does."""
    header = str(found.metadata.get(TABLE_HEADER, ""))
    begun = header.endswith(" ")  # the row that the text goes on with
    return f"{header}{'' if begun else chr(10)}{found.text}" if header else found.text


def told_apart(documents: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return what tells each document from the others of its title: its file's name, or its id where that does not.

    Args:
        documents: (title, source) of each, by its id. A title that no other document has tells enough.
    """
    by_title: dict[str, dict[str, str]] = {}
    for document_id, (title, source) in documents.items():
        by_title.setdefault(title, {})[document_id] = PurePath(source).name or document_id
    shared = (files for title, files in by_title.items() if title and len(files) > 1)
    counted = ((files, Counter(files.values())) for files in shared)
    return {name: file if count[file] == 1 else name for files, count in counted for name, file in files.items()}


def document_name(found: Chunk | Segment, title: str = "") -> str:
    """Return the title of a document, with its file where others have that title; its id where it has none."""
    name, file = title or str(found.metadata.get(TITLE) or found.document_id), found.metadata.get(FILE_IN_CITATION)
    return f"{name} ({file})" if file else name


def citation(found: Chunk | Segment, *, title: str = "", place: Place | None = None) -> str:
    """Return e.g. "HX210 manual › 3 Mounting › 3.2 Cover, page 7, lines 120-131".

    The document is called as by `document_name`. Pages are called as the file prints them; where that is not their
    number, this follows: "page 53 (59th of the file)". A slide or a sheet is cited whole: its lines are of a text
    that nobody sees. A section's title that was made, and is not printed there, stands in square brackets.

    Args:
        found: a chunk or a segment of a document.
        title: of the document; what the metadata say, or else the document's id, where it is not given.
        place: of a part of it, such as a quote; its own where none is given.
    """
    place = place or found.place
    name = title or str(found.metadata.get(TITLE) or found.document_id)
    path = found.path[1:] if found.path and same_words(found.path[0], name) else found.path
    if path and path[-1] == found.metadata.get(GENERATED_TITLE):
        path = (*path[:-1], f"[{path[-1]}]")
    where = [SEPARATOR.join((document_name(found, title), *path))]
    lines = "" if _says_what_it_is(place) else _span("line", place.lines)
    where.extend(filter(None, (pages_in_words(place), lines)))
    return ", ".join(where)


def pages_in_words(place: Place) -> str:
    """Return e.g. "page 7", "pages iv-vi (6th-8th of the file)" or "slide 3"; "" for a place without pages."""
    if place.page_labels is None or place.pages is None:
        return _span("page", place.pages)
    if _says_what_it_is(place):
        return " to ".join(dict.fromkeys(place.page_labels))
    counted = "-".join(dict.fromkeys(map(_ordinal, place.pages)))
    return f"{_span('page', place.page_labels)} ({counted} of the file)"


def _says_what_it_is(place: Place) -> bool:
    return place.page_labels is not None and " " in place.page_labels[0]


BOXES = "boxes"
"""Metadata key of a framework's document or node: a list of [page, x0, top, x1, bottom] in JSON, see `PageBox`."""

PLACE_KEYS = ("first_page", "last_page", "page_label", "last_page_label", "first_line", "last_line", BOXES)
"""Metadata keys of a framework's documents and nodes: where the text stands."""


def place_metadata(place: Place) -> dict[str, int | str]:
    """Return a place under flat keys, those of `PLACE_KEYS` that are known."""
    found: dict[str, int | str] = {}
    if place.pages is not None:
        found |= {"first_page": place.pages[0], "last_page": place.pages[1]}
    if place.page_labels is not None:
        found |= {"page_label": place.page_labels[0], "last_page_label": place.page_labels[1]}
    if place.lines is not None:
        found |= {"first_line": place.lines[0], "last_line": place.lines[1]}
    if place.boxes:
        found[BOXES] = json.dumps(place.boxes)
    return found


def place_in(metadata: Mapping[str, object]) -> Place:
    """Return the place that `place_metadata` wrote, or that a store gave back with 3.0 for 3."""

    def pair(unit: str) -> Span | None:
        first, last = (metadata.get(f"{end}_{unit}") for end in ("first", "last"))
        if not isinstance(first, int | float) or not isinstance(last, int | float) or first % 1 or last % 1:
            return None
        return int(first), int(last)

    pages, lines = pair("page"), pair("line")
    label = str(metadata.get("page_label") or "")
    printed = (label, str(metadata.get("last_page_label") or label))
    place = Place() if pages is None else Place.of_pages(pages, printed)
    return replace(place, lines=lines, boxes=_boxes_in(metadata.get(BOXES)))


def _boxes_in(written: object) -> tuple[PageBox, ...]:
    try:
        return tuple(PageBox(int(page), *map(float, sides)) for page, *sides in json.loads(str(written)))
    except (TypeError, ValueError):  # none, or somebody else's key of that name
        return ()


def _span(unit: str, span: Span | tuple[str, str] | None) -> str:
    if span is None:
        return ""
    first, last = map(str, span)
    dash = " to " if "-" in first + last else "-"  # labels such as "A-3"
    return f"{unit} {first}" if first == last else f"{unit}s {first}{dash}{last}"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"

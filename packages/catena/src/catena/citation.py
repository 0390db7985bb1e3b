"""Where a passage stands, in the words a reader uses: document, heading path, page and lines."""

from __future__ import annotations

from catena.model import Chunk, Segment
from catena.text import same_words

TITLE = "title"
"""Metadata key of a chunk: the title of its document."""

SOURCE = "source"
"""Metadata key of a chunk: its document's file, as the caller named it."""

GENERATED_TITLE = "generated_title"
"""Metadata key of a chunk: its section's title, where that was made and is not printed as a heading."""

SEPARATOR = " › "


def citation(found: Chunk | Segment, *, title: str = "") -> str:
    """Return e.g. "HX210 manual › 3 Mounting › 3.2 Cover, page 7, lines 120-131".

    A section's title that was made, and is not printed there, stands in square brackets.

    Args:
        found: a chunk or a segment of a document.
        title: of the document; what the metadata say, or else the document's id, where it is not given.
    """
    name = title or str(found.metadata.get(TITLE) or found.document_id)
    path = found.path[1:] if found.path and same_words(found.path[0], name) else found.path
    if path and path[-1] == found.metadata.get(GENERATED_TITLE):
        path = (*path[:-1], f"[{path[-1]}]")
    where = [SEPARATOR.join((name, *path))]
    if found.pages is not None:
        where.append(_span("page", found.pages))
    if found.lines is not None:
        where.append(_span("line", found.lines))
    return ", ".join(where)


def _span(unit: str, span: tuple[int, int]) -> str:
    first, last = span
    return f"{unit} {first}" if first == last else f"{unit}s {first}-{last}"

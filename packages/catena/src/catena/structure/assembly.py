"""From spans to chunks: trimmed, numbered, with their ids, pages and lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from catena.model import NO_METADATA, Chunk, ChunkKind, Document, FrozenMetadata, Metadata, Section
from catena.model.ids import span_id

HEADING_ONLY = "heading_only"
"""Metadata key: True on a chunk that is the heading of a section without any text of its own."""

TABLE_HEADER = "table_header"
"""Metadata key: the header rows of the table that a chunk continues."""


class Piece(NamedTuple):
    """A future chunk: a span of the text inside one section, and what it is."""

    start: int
    end: int
    kind: ChunkKind = "text"
    section: Section | None = None
    metadata: Metadata = NO_METADATA


_BARE = FrozenMetadata({HEADING_ONLY: True})


def heading_metadata(text: str, section: Section) -> Metadata:
    """Return the metadata of a section's chunks: they say so when it is a heading without any text."""
    bare = section.level > 0 and not text[section.body_start : section.end].strip()
    return _BARE if bare else NO_METADATA


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without white space at its end and blank lines at its start; indentation stays."""
    piece = text[start:end]
    end = start + len(piece.rstrip())
    first = start + len(piece) - len(piece.lstrip())
    if first >= end:
        return start, start
    while first > start and text[first - 1] in " \t":
        first -= 1
    at_line_start = first == 0 or text[first - 1] in "\r\n"
    return (first if at_line_start else start + len(piece) - len(piece.lstrip())), end


def assemble(document: Document, pieces: Iterable[Piece]) -> tuple[Chunk, ...]:
    """Return the chunks of ascending pieces; blank ones give none.

    Lines are counted along the way, as `model.lines_in` counts them, once over the whole text.
    """
    text = document.text
    chunks: list[Chunk] = []
    line, counted = 1, 0
    for piece in pieces:
        start, end = trimmed(text, piece.start, piece.end)
        if start == end:
            continue
        first = line + text.count("\n", counted, start)
        line, counted = first + text.count("\n", start, end - 1), end - 1
        section, place = piece.section, document.pages_of(start, end)
        chunks.append(
            Chunk(
                id=span_id(document.id, piece.kind, start, end),
                document_id=document.id,
                position=len(chunks),
                start=start,
                end=end,
                text=text[start:end],
                kind=piece.kind,
                path=section.path if section else (),
                section=section.position if section else 0,
                pages=place.pages,
                page_labels=place.page_labels,
                lines=(first, line),
                metadata=piece.metadata,
            )
        )
    return tuple(chunks)

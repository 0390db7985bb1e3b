"""From a chunk back to the section it was cut from: the whole section is returned on request."""

from __future__ import annotations

from collections.abc import Sequence

from catena.model import Chunk, Document, Section, Segment, common_metadata
from catena.model.errors import ParameterError
from catena.model.ids import span_id
from catena.structure.assembly import trimmed


def section_of(sections: Sequence[Section], chunk: Chunk) -> Section:
    """Return the section that a chunk was cut from.

    Raises:
        ParameterError: the sections are not those of the chunk's document.
    """
    if chunk.section < len(sections):
        section = sections[chunk.section]
        if section.document_id == chunk.document_id and section.start <= chunk.start and chunk.start < section.end:
            return section
    raise ParameterError("sections", f"{len(sections)} sections", f"the sections that chunk {chunk.id} was cut from")


def section_segment(
    document: Document,
    sections: Sequence[Section],
    chunk: Chunk,
    *,
    chunks: Sequence[Chunk] = (),
    descendants: bool = False,
) -> Segment:
    """Return the section of a chunk as one segment for the reader.

    Args:
        document: the chunk's document.
        sections: its sections.
        chunk: a chunk cut from one of them.
        chunks: the chunks of the document; those inside the segment are named in it. Without them only
            `chunk` is.
        descendants: whether the sections below it come along.

    Raises:
        ParameterError: the sections are not those of the chunk's document.
    """
    section = section_of(sections, chunk)
    start, end = trimmed(document.text, section.start, section.tree_end if descendants else section.end)
    place = document.place_of(start, end)
    inside = [other for other in chunks if start <= other.start and other.end <= end] or [chunk]
    return Segment(
        id=span_id(document.id, "segment", start, end),
        document_id=document.id,
        start=start,
        end=end,
        text=document.text[start:end],
        path=section.path,
        chunk_ids=tuple(other.id for other in inside),
        pages=place.pages,
        page_labels=place.page_labels,
        lines=place.lines,
        positions=(inside[0].position, inside[-1].position),
        metadata=common_metadata(inside),
    )

"""Passages of long chunks: slices that any encoder reads whole, so that a long chunk is found by its best one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from catena.model import Chunk, Document, Section, View
from catena.model.errors import ParameterError
from catena.model.ids import span_id
from catena.structure.assembly import HEADING_ONLY
from catena.structure.cascade import body_of, headed_views, searchable
from catena.structure.chunking import ChunkOptions, cut
from catena.structure.division import Counter
from catena.structure.tokens import count_tokens

PASSAGE = "passage"
"""Kind of the views that are slices of a chunk under its titles; a chunk scores as the best of its own."""

PASSAGE_TOKENS = 100
"""Tokens of a passage, its titles not counted: what one vector says best, and any encoder reads whole."""

_SHORTEST = 24  # tokens: what is shorter joins its neighbour, as in other chunks


def passages_of(
    chunk: Chunk, *, max_tokens: int = PASSAGE_TOKENS, count: Counter = count_tokens, document: Document | None = None
) -> tuple[Chunk, ...]:
    """Return the passages of a chunk, in reading order: exact slices of its document that cover the chunk's text.

    They are cut as `catena.structure.chunking.cut` cuts a section: between blocks, sentences and rows, none longer
    than `max_tokens`. Their positions are those among the passages, from 0. One that is a heading alone says so in
    its metadata (`heading_only`), as such chunks do; `catena.structure.cascade.searchable` leaves it out.

    Args:
        chunk: of any length; one of up to `max_tokens` is its only passage.
        max_tokens: the cap, >= 1.
        count: tokens of a text.
        document: the chunk's document, which says whether it is Markdown, and the page of each passage; without it
            the text is taken for Markdown, and a passage is said to be on the pages of its chunk.

    Raises:
        ParameterError: `max_tokens` is below 1.
    """
    if not isinstance(max_tokens, int) or max_tokens < 1:
        raise ParameterError("max_tokens", max_tokens, "an integer >= 1")
    if count(chunk.text) <= max_tokens:
        return (replace(chunk, position=0),)
    lengths = ChunkOptions(max_tokens=max_tokens, min_tokens=min(_SHORTEST, max_tokens))
    found = cut(*_alone(chunk, document), options=lengths, count=count)
    return tuple(_placed(chunk, passage, document) for passage in found)


def passage_views(
    document: Document, chunks: Iterable[Chunk], *, max_tokens: int = PASSAGE_TOKENS, count: Counter = count_tokens
) -> tuple[View, ...]:
    """Return the views of kind "passage" of each chunk: its passages under its titles, a short one's as a whole.

    A passage that is a heading alone gives none, unless there is nothing else.

    Raises:
        ParameterError: `max_tokens` is below 1.

    Source: the best window of a long text (MaxP: Dai and Callan, SIGIR 2019, doi:10.1145/3331184.3331303).
    """
    return tuple(
        View(chunk_id=chunk.id, kind=PASSAGE, text=view.text)
        for chunk in chunks
        for view in headed_views(document, searchable(_passages(document, chunk, max_tokens, count)))
    )


def _passages(document: Document, chunk: Chunk, max_tokens: int, count: Counter) -> tuple[Chunk, ...]:
    return passages_of(chunk, max_tokens=max_tokens, count=count, document=document)


def _alone(chunk: Chunk, document: Document | None) -> tuple[Document, list[Section]]:
    """Return a chunk as a document of one section: what another chunker tore apart is not put together again."""
    size = len(chunk.text)
    media_type = document.media_type if document is not None else "text/markdown"
    section = Section(
        id=chunk.id,
        document_id=chunk.document_id,
        position=0,
        level=0,
        title=chunk.path[-1] if chunk.path else "",
        path=chunk.path,
        start=0,
        body_start=0,
        end=size,
        tree_end=size,
    )
    return Document(id=chunk.document_id, text=chunk.text, media_type=media_type), [section]


def _placed(chunk: Chunk, passage: Chunk, document: Document | None) -> Chunk:
    """Return a slice of a chunk as a slice of its document."""
    start, end = chunk.start + passage.start, chunk.start + passage.end
    place = document.pages_of(start, end) if document is not None else chunk.place
    lines = None
    if chunk.lines is not None and passage.lines is not None:
        lines = (chunk.lines[0] - 1 + passage.lines[0], chunk.lines[0] - 1 + passage.lines[1])
    bare = {} if body_of(passage).strip() else {HEADING_ONLY: True}
    return replace(
        passage,
        id=span_id(chunk.document_id, PASSAGE, start, end),
        start=start,
        end=end,
        section=chunk.section,
        pages=place.pages,
        page_labels=place.page_labels,
        lines=lines,
        metadata={**chunk.metadata, **passage.metadata, **bare},
    )

"""Turn a chunk into passages (slices that any encoder reads whole) or into its section, a section into sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from catena.model import (
    FILE_IN_CITATION,
    TABLE_HEADER,
    Chunk,
    Document,
    ParameterError,
    Section,
    Segment,
    common_metadata,
)
from catena.model.ids import span_id
from catena.model.values import View
from catena.structure.blocks import Block, blocks_of
from catena.structure.chunking import DEFAULT_OPTIONS, HEADING_ONLY, ChunkOptions, by_section, cut, trimmed
from catena.structure.division import LEVELS, Counter, Span, blank_lines, divide, items, tables_in, units
from catena.structure.headings import tree_of
from catena.structure.views import body_of, headed_views, is_contents, searchable
from catena.text.tables import TableGrid, header_at
from catena.text.words import count_tokens, sentence_ends

PASSAGE = "passage"
"""Kind of the views that are slices of a chunk under its titles; a chunk scores as the best of its own."""


PASSAGE_TOKENS = 100
"""Tokens of a passage, its titles not counted: what one vector says best, and any encoder reads whole."""

_SHORT_SENTENCE = 12  # tokens: a shorter one, or a heading, joins what follows it
_ITEM = re.compile(r"\s*(?:[-+*•]|\d{1,9}[.)])\s+")


def passages_of(
    chunk: Chunk, *, max_tokens: int = PASSAGE_TOKENS, count: Counter = count_tokens, document: Document | None = None
) -> tuple[Chunk, ...]:
    """Return the passages of a chunk, in reading order: exact slices of its document that cover the chunk's text.

    They are cut as `catena.structure.chunking.cut` cuts a section: between blocks, sentences and rows, none longer
    than `max_tokens`. Their positions are those among the passages, from 0. One that is a heading alone says so in
    its metadata (`heading_only`), as such chunks do; `catena.structure.views.searchable` leaves it out.

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
    media_type = document.media_type if document is not None else "text/markdown"
    alone = Document(id=chunk.document_id, text=chunk.text, media_type=media_type)
    sections = [replace(section, path=chunk.path) for section in tree_of(alone, [])]
    lengths = ChunkOptions(max_tokens=max_tokens, min_tokens=min(DEFAULT_OPTIONS.min_tokens, max_tokens))
    found = cut(alone, sections, options=lengths, count=count)
    return tuple(_placed(chunk, passage, document) for passage in found)


def sentences_of(chunk: Chunk) -> tuple[Chunk, ...]:
    """Return the sentences of a chunk, in reading order: exact slices of its document that cover the chunk's text.

    List items count as sentences; short ones and headings join the next. A table, a figure or code stays whole. None
    is longer than 100 tokens: such a one is cut between rows, lines or words.
    """
    return tuple(slice_of(chunk, *span) for span in _sentence_spans(chunk.text))


@lru_cache(maxsize=4_096)  # the same chunks are read for many questions
def _sentence_spans(text: str) -> tuple[Span, ...]:
    """Return spans that tile a text."""
    spans: list[Span] = []
    start = 0
    for unit in units(text, 0, len(text), blocks_of(Document(id="", text=text, media_type="text/markdown"))):
        borders = (blank_lines, items, sentence_ends) if unit.kind == "text" else ()
        inner = {end for of in borders for end in of(text, unit.start, unit.end) if unit.start < end < unit.end}
        for end in sorted({*inner, unit.end}):
            if count_tokens(text[start:end]) >= _SHORT_SENTENCE or end == len(text):
                spans += divide(text, (start, end), LEVELS[unit.kind], limit=PASSAGE_TOKENS, count=count_tokens)
                start = end
    return tuple(spans)


def slice_of(chunk: Chunk, start: int, end: int) -> Chunk:
    """Return a slice of a chunk, without white space around it; its pages are those of the chunk.

    One that goes on with a table says the table's header in its metadata.

    Args:
        chunk: any; a slice of all its text is itself.
        start: first character, in the chunk's text.
        end: one after the last.
    """
    text = chunk.text
    start, end = trimmed(text, start, end)
    if (start, end) == (0, len(text)):
        return chunk
    lines = chunk.lines
    if lines is not None:
        first = lines[0] + text.count("\n", 0, start)
        lines = (first, first + text.count("\n", start, end))
    at = (chunk.start + start, chunk.start + end)
    named = span_id(chunk.document_id, PASSAGE, *at)
    header = header_at(text, _tables_in(text), start) if chunk.kind == "table" else ""
    metadata = {**chunk.metadata, TABLE_HEADER: header} if header else chunk.metadata
    piece = replace(chunk, id=named, start=at[0], end=at[1], text=text[start:end], lines=lines, boxes=())
    return replace(piece, metadata=metadata)


@lru_cache(maxsize=512)  # a table is cut into many slices
def _tables_in(text: str) -> tuple[TableGrid, ...]:
    return tuple(tables_in(text, blocks_of(Document(id="", text=text, media_type="text/markdown"))))


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
        for view in headed_views(
            document, searchable(passages_of(chunk, max_tokens=max_tokens, count=count, document=document))
        )
    )


def _placed(chunk: Chunk, passage: Chunk, document: Document | None) -> Chunk:
    """Return a slice of a chunk as a slice of its document."""
    made = slice_of(chunk, passage.start, passage.end)
    place = document.pages_of(made.start, made.end) if document is not None else chunk.place
    bare = {} if body_of(passage).strip() else {HEADING_ONLY: True}
    return replace(
        made, position=passage.position, kind=passage.kind, pages=place.pages, page_labels=place.page_labels,
        metadata={**chunk.metadata, **passage.metadata, **bare},
    )  # fmt: skip


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
    told = {FILE_IN_CITATION: file} if (file := chunk.metadata.get(FILE_IN_CITATION)) else {}
    inside = [other for other in chunks if start <= other.start and other.end <= end] or [chunk]
    return Segment(
        id=span_id(document.id, "segment", start, end),
        document_id=document.id,
        start=start,
        end=end,
        text=document.text[start:end],
        path=section.path,
        chunk_ids=tuple(other.id for other in inside),
        **place.parts,
        positions=(inside[0].position, inside[-1].position),
        metadata={**common_metadata(inside), **told},
    )


def prose(
    document: Document, sections: Sequence[Section], *, blocks: Sequence[Block] | None = None
) -> tuple[tuple[str, ...], ...]:
    """Return the sentences in the paragraphs and list items of each section, white space as single spaces.

    Left out are headings, tables, code, quotes, HTML, pictures and tables of contents: their words are no sentences.

    Args:
        document: whose text it is.
        sections: of this document, in order.
        blocks: what `blocks_of` gave for it, to scan it once.

    Returns:
        One tuple per section, in order.
    """
    divided = by_section(sections, blocks_of(document) if blocks is None else blocks)
    prose = ((section, [b for b in inside if b.kind in {"paragraph", "item"}]) for section, inside in divided)
    spans = ([(max(b.start, section.body_start), min(b.end, section.end)) for b in own] for section, own in prose)
    return tuple(tuple(each for span in own for each in _sentences(document.text, *span)) for own in spans)


def _sentences(text: str, start: int, end: int) -> list[str]:
    if start >= end or is_contents(text[start:end]):
        return []
    marker = _ITEM.match(text, start, end)
    start = marker.end() if marker else start
    ends = [start, *sentence_ends(text, start, end), end]
    return [said for a, b in pairwise(ends) if (said := " ".join(text[a:b].split())) and "![" not in said]

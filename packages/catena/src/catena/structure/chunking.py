"""Cut a document into chunks: by size within its sections, by section (MC-indexing), or by a fixed length.

The law of every chunker here: chunks are exact slices in reading order that do not overlap;
between them is nothing but white space; none is blank, and none is longer than the cap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Annotated, NamedTuple

from annotated_types import Ge

from catena.model import NO_METADATA, TABLE_HEADER, Chunk, ChunkKind, Document, FrozenMetadata, Metadata, Section
from catena.model.errors import ParameterError
from catena.model.ids import span_id
from catena.model.options import Doc, as_tuples, check_options
from catena.structure.blocks import Block, blocks_of
from catena.structure.division import (
    LEVELS,
    Counter,
    Span,
    Unit,
    blank_lines,
    divide,
    even_share,
    lines,
    pack,
    units,
    words,
)
from catena.text.headings import numbered_title
from catena.text.tables import header_at, read_table
from catena.text.words import count_tokens, sentence_ends

HEADING_ONLY = "heading_only"
"""Metadata key: True on a chunk that is the heading of a section without any text of its own."""


_BARE = FrozenMetadata({HEADING_ONLY: True})
_COMMENTS = re.compile(r"(?:\s*<!--(?:(?!-->).)*-->)+\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOptions:
    """Lengths of chunks, in tokens of the counter given to `cut`."""

    # a hard cap: only a single character that counts more may pass it
    max_tokens: Annotated[int, Ge(1), Doc("Most tokens of a passage")] = 320
    min_tokens: Annotated[int, Ge(0)] = 24  # shorter text joins a neighbour in its section; 0 joins nothing

    def __post_init__(self) -> None:
        check_options(self)
        if self.min_tokens > self.max_tokens:
            raise ParameterError("min_tokens", self.min_tokens, f"between 0 and max_tokens ({self.max_tokens})")


DEFAULT_OPTIONS = ChunkOptions()


def cut(
    document: Document,
    sections: Sequence[Section],
    *,
    options: ChunkOptions = DEFAULT_OPTIONS,
    count: Counter = count_tokens,
    blocks: Sequence[Block] | None = None,
) -> tuple[Chunk, ...]:
    """Cut each section into chunks: text, tables and figures.

    A section of up to `max_tokens` of text is one chunk. A longer one is cut between its blocks, then at
    blank lines, list items, sentences, lines, words and, in the end, characters, into pieces of about equal
    length. A table with its caption is a chunk (a long one is cut between rows, and its later pieces carry the
    header, at most 1,000 characters of it, as metadata `table_header`), and so is a figure. Text shorter than
    `min_tokens` joins what follows it in its section, so a lead-in its table, else what precedes it. A heading
    belongs to the first chunk of its section; that of a section without any text is a chunk with the metadata
    `heading_only`.

    Args:
        document: its text is Markdown, or plain where `media_type` says so.
        sections: as `outline` gives them; chunks never cross their borders.
        options: the lengths.
        count: tokens of a text.
        blocks: what `blocks_of` gave for this document, where `outline` was given it too; else it is asked.

    Returns:
        Chunks in reading order under the law of this module; none for a blank document.
    """
    text = document.text
    pieces: list[ChunkSpan] = []
    for section, inside in by_section(sections, blocks_of(document) if blocks is None else blocks):
        metadata = heading_metadata(text, section)
        found = units(text, section.start, section.end, inside)
        parts = list(_pieces(text, found, options.max_tokens, count))
        joined = _join_small(text, parts, options, count)
        pieces.extend(piece._replace(section=section, metadata=piece.metadata or metadata) for piece in joined)
    return assemble(document, pieces)


def by_section(sections: Iterable[Section], blocks: Sequence[Block]) -> Iterator[tuple[Section, list[Block]]]:
    """Yield each section with its blocks; one that a border cuts through counts on both sides of it."""
    index = 0
    for section in sections:
        inside: list[Block] = []
        while index < len(blocks) and blocks[index].start < section.end:
            block = blocks[index]
            inside.append(block if block.start >= section.start else block._replace(start=section.start))
            if block.end > section.end:
                break
            index += 1
        yield section, inside


def _pieces(text: str, found: Iterable[Unit], limit: int, count: Counter) -> Iterator[ChunkSpan]:
    for is_prose, run in groupby(found, key=lambda unit: unit.kind in {"text", "code"}):
        if is_prose:
            yield from _prose(text, list(run), limit, count)
        else:
            for unit in run:
                yield from _whole(text, unit, limit, count)


def _prose(text: str, run: Sequence[Unit], limit: int, count: Counter) -> Iterator[ChunkSpan]:
    span = (run[0].start, run[-1].end)
    total = count(text[span[0] : span[1]])
    if total <= limit:
        yield ChunkSpan(*span)
        return
    levels = {unit.end: LEVELS[unit.kind] for unit in run}

    def deeper(part: Span) -> Iterator[Span]:
        return divide(text, part, levels[part[1]], limit=limit, count=count)

    spans = [(unit.start, unit.end) for unit in run]
    for start, end in pack(text, spans, deeper, limit=limit, share=even_share(total, limit), count=count):
        yield ChunkSpan(start, end)


def _whole(text: str, unit: Unit, limit: int, count: Counter) -> Iterator[ChunkSpan]:
    """Yield a table or figure as one piece, or as several where it is too long."""
    kind: ChunkKind = "table" if unit.kind == "table" else "figure"
    spans = list(divide(text, (unit.start, unit.end), LEVELS[unit.kind], limit=limit, count=count))
    grids = read_table(text, unit.core, unit.end) if kind == "table" and len(spans) > 1 else []
    for start, end in spans:
        header = header_at(text, grids, start, unit.start)
        yield ChunkSpan(start, end, kind, metadata=FrozenMetadata({TABLE_HEADER: header}) if header else NO_METADATA)


def _join_small(text: str, parts: Sequence[ChunkSpan], options: ChunkOptions, count: Counter) -> Sequence[ChunkSpan]:
    """Join text shorter than `min_tokens` to the piece after it, or else to the one before it."""
    if len(parts) == 1:
        return parts
    joined: list[ChunkSpan] = []
    for part in parts:
        small = _is_small(text, joined[-1], options, count) if joined else False
        if small and count(text[joined[-1].start : part.end]) <= options.max_tokens:
            joined[-1] = part._replace(start=joined[-1].start)
        else:
            joined.append(part)
    if len(joined) > 1 and _is_small(text, joined[-1], options, count):
        before, last = joined[-2:]
        if count(text[before.start : last.end]) <= options.max_tokens:
            joined[-2:] = [before._replace(end=last.end)]
    return joined


def _is_small(text: str, piece: ChunkSpan, options: ChunkOptions, count: Counter) -> bool:
    return piece.kind == "text" and count(text[piece.start : piece.end]) < options.min_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionChunkOptions:
    """Choice of the divisions that become chunks.

    Attributes:
        min_characters: visible characters (white space and comments not counted) below the heading, >= 1,
            that a division must have; what has fewer gives no chunk.
        leave_out: titles of divisions that give none, nor does anything below them ("See also", "Notes",
            "References"); case, punctuation and a number before the title do not count.
    """

    min_characters: Annotated[int, Ge(1)] = 1
    leave_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        as_tuples(self, "leave_out")
        check_options(self)
        if not all(numbered_title(title).words for title in self.leave_out):
            raise ParameterError("leave_out", self.leave_out, "a tuple of titles, each with a word")


def cut_sections(
    document: Document,
    sections: Sequence[Section],
    *,
    options: SectionChunkOptions = SectionChunkOptions(),
    blocks: Sequence[Block] | None = None,
) -> tuple[Chunk, ...]:
    """Return one chunk per smallest division: the own span of each section, heading line included.

    A chunk is an exact slice, never cut and never joined to a neighbour, so that no answer inside one
    division is torn. A division without visible text below its heading gives none, because its words are
    in the paths of the divisions below it; where no division has any, the headings are chunks. A
    division that is one table, or one figure, with its caption is a chunk of that kind.

    A text without headings is one division, of level 0, and therefore one chunk of any length; cut such a text
    with `cut_fixed`, as the paper does, or give sections from a segmentation.

    Args:
        document: its text is Markdown, or plain where `media_type` says so.
        sections: as `content_outline` or `outline` gives them; none mean the whole text.
        options: which divisions to pass over.
        blocks: what `blocks_of` gave for this document, where it was asked already.

    Returns:
        Chunks in reading order, path, section, pages and lines filled in; none for a blank document, and for
        one of which everything is left out.

    Source: content-aware chunking of MC-indexing (Dong et al., 2024), section 3.2; leaving out sections of
    references, section 4.
    """
    text = document.text
    if not sections:
        return assemble(document, [ChunkSpan(0, len(text))])
    unwanted = {numbered_title(title).words for title in options.leave_out}
    inside = [
        (section, within)
        for section, within in by_section(sections, blocks_of(document) if blocks is None else blocks)
        if not unwanted or not any(numbered_title(title).words in unwanted for title in section.path)
    ]
    seen = [(section, within, _visible(text, section, within)) for section, within in inside]
    # where nothing is long enough: what has any text, else the headings, else what there is
    chosen = (
        [each for each in seen if each[2] >= options.min_characters]
        or [each for each in seen if each[2]]
        or [each for each in seen if each[0].level]
        or seen
    )
    kinds = ((section, _kind(text, section, within)) for section, within, _ in chosen)
    spans = (ChunkSpan(one.start, one.end, kind, one, heading_metadata(text, one)) for one, kind in kinds)
    return assemble(document, spans)


def _visible(text: str, section: Section, blocks: Sequence[Block]) -> int:
    """Return how many characters of a section's body a reader sees, rules, comments and spaces not counted."""
    body = text[section.body_start : section.end]
    unseen = sum(
        _inked(text[block.start : block.end])
        for block in blocks
        if block.start >= section.body_start
        and (block.kind == "rule" or (block.kind == "html" and _COMMENTS.fullmatch(text, block.start, block.end)))
    )
    return _inked(body) - unseen


def _inked(text: str) -> int:
    return sum(map(len, text.split()))


def _kind(text: str, section: Section, blocks: Sequence[Block]) -> ChunkKind:
    found = units(text, section.start, section.end, blocks)
    only = found[0].kind if len(found) == 1 else "text"
    return only if only in {"table", "figure"} else "text"


def cut_fixed(
    document: Document, sections: Sequence[Section] | None = None, *, tokens: int = 200, count: Counter = count_tokens
) -> tuple[Chunk, ...]:
    """Cut a document into runs of whole sentences of at most `tokens` tokens (FLC-100, -200, -300).

    Sentences are joined while their sum stays within the cap; only one that is longer by itself is cut, at
    lines, words and characters. The law of this module holds.

    Args:
        document: its text.
        sections: chunks stay inside these; None cuts across headings, and gives chunks without a path.
        tokens: the cap, >= 1.
        count: tokens of a text.

    Returns:
        Chunks of kind "text" in reading order.

    Raises:
        ParameterError: `tokens` is below 1.

    Source: the fixed-length baselines FLC of MC-indexing (Dong et al., 2024).
    """
    if not isinstance(tokens, int) or tokens < 1:
        raise ParameterError("tokens", tokens, "an integer >= 1")
    text = document.text
    if sections is None:
        return assemble(document, (ChunkSpan(*span) for span in _sentences(text, (0, len(text)), tokens, count)))
    cut = ((one, span) for one in sections for span in _sentences(text, (one.start, one.end), tokens, count))
    pieces = (ChunkSpan(*span, "text", one, heading_metadata(text, one)) for one, span in cut)
    return assemble(document, pieces)


def _sentences(text: str, span: Span, limit: int, count: Counter) -> Iterator[Span]:
    """Yield sentences joined while they fit; what is longer by itself is divided before, so that no other is."""
    start, end = span
    borders = {*sentence_ends(text, start, end), *blank_lines(text, start, end)} - {start, end}
    parts = [
        part
        for sentence in pairwise([start, *sorted(borders), end])
        for part in divide(text, sentence, (lines, words), limit=limit, count=count)
    ]
    # what `pack` finds too long is a single character of more tokens than the cap: it stays as it is
    yield from pack(text, parts, lambda span: iter((span,)), limit=limit, share=limit, count=count)


class ChunkSpan(NamedTuple):
    """A future chunk: a span of the text inside one section, and what it is."""

    start: int
    end: int
    kind: ChunkKind = "text"
    section: Section | None = None
    metadata: Metadata = NO_METADATA


def heading_metadata(text: str, section: Section) -> Metadata:
    """Return the metadata of a section's chunks: they say so when it is a heading without any text."""
    bare = section.level > 0 and not text[section.body_start : section.end].strip()
    return _BARE if bare else NO_METADATA


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without white space at its end and blank lines at its start; indentation stays."""
    piece = text[start:end]
    end = start + len(piece.rstrip())
    first = filled = start + len(piece) - len(piece.lstrip())
    if first >= end:
        return start, start
    while first > start and text[first - 1] in " \t":
        first -= 1
    return (first if text[first - 1 : first] in "\r\n" else filled), end  # at the start of a line, or of all


def assemble(document: Document, pieces: Iterable[ChunkSpan]) -> tuple[Chunk, ...]:
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

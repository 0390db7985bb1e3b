"""Content-aware chunks: the smallest division of a document is the chunk, cut further only when too long.

The law of every chunker in this folder: chunks are exact slices in reading order that do not overlap;
between them is nothing but white space; none is blank, and none is longer than the cap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated

from annotated_types import Ge

from catena.model import NO_METADATA, Chunk, ChunkKind, Document, FrozenMetadata, Section
from catena.model.errors import ParameterError
from catena.model.options import check_options
from catena.structure.assembly import TABLE_HEADER, Piece, assemble, heading_metadata
from catena.structure.blocks import Block, blocks_of
from catena.structure.division import CODE, PROSE, ROWS, Counter, Span, divide, even_share, pack
from catena.structure.table_grid import header_at, read_table
from catena.structure.tokens import count_tokens
from catena.structure.units import Unit, units

_LEVELS = {"text": PROSE, "code": CODE, "table": ROWS, "figure": PROSE}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOptions:
    """How long chunks may be, in tokens of the counter given to `cut`."""

    max_tokens: Annotated[int, Ge(1)] = 320  # a hard cap, >= 1; only a single character that counts more may pass it
    min_tokens: Annotated[int, Ge(0)] = (
        24  # shorter text joins a neighbour in its section where both fit; 0 joins nothing
    )

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
    pieces: list[Piece] = []
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


def _pieces(text: str, found: Iterable[Unit], limit: int, count: Counter) -> Iterator[Piece]:
    for is_prose, run in groupby(found, key=lambda unit: unit.kind in {"text", "code"}):
        if is_prose:
            yield from _prose(text, list(run), limit, count)
        else:
            for unit in run:
                yield from _whole(text, unit, limit, count)


def _prose(text: str, run: Sequence[Unit], limit: int, count: Counter) -> Iterator[Piece]:
    span = (run[0].start, run[-1].end)
    total = count(text[span[0] : span[1]])
    if total <= limit:
        yield Piece(*span)
        return
    levels = {unit.end: _LEVELS[unit.kind] for unit in run}

    def deeper(part: Span) -> Iterator[Span]:
        return divide(text, part, levels[part[1]], limit=limit, count=count)

    spans = [(unit.start, unit.end) for unit in run]
    for start, end in pack(text, spans, deeper, limit=limit, share=even_share(total, limit), count=count):
        yield Piece(start, end)


def _whole(text: str, unit: Unit, limit: int, count: Counter) -> Iterator[Piece]:
    """Yield a table or figure as one piece, or as several where it is too long."""
    kind: ChunkKind = "table" if unit.kind == "table" else "figure"
    spans = list(divide(text, (unit.start, unit.end), _LEVELS[unit.kind], limit=limit, count=count))
    grids = read_table(text, unit.core, unit.end) if kind == "table" and len(spans) > 1 else []
    for start, end in spans:
        header = header_at(text, grids, start)
        yield Piece(start, end, kind, metadata=FrozenMetadata({TABLE_HEADER: header}) if header else NO_METADATA)


def _join_small(text: str, parts: Sequence[Piece], options: ChunkOptions, count: Counter) -> Sequence[Piece]:
    """Join text shorter than `min_tokens` to the piece after it, or else to the one before it."""
    if len(parts) == 1:
        return parts
    joined: list[Piece] = []
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


def _is_small(text: str, piece: Piece, options: ChunkOptions, count: Counter) -> bool:
    return piece.kind == "text" and count(text[piece.start : piece.end]) < options.min_tokens

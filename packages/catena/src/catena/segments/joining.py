"""One text out of adjacent chunks: the exact slice of their document where it can be had, else joined by offsets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from catena.model import Chunk, Place, Segment, common_metadata
from catena.model.ids import span_id

WIDEST_GAP = 100  # characters: splitters strip white space between chunks; a wider gap is text that is not there
BLANK_LINE = "\n\n"


def joint(before: Chunk, after: Chunk) -> str | None:
    """Return what stands between two neighbours by their offsets, or None where the offsets are of no use.

    Chunks that overlap (and agree where they do) or that follow each other have "" between them, chunks with a
    gap of n characters (n <= 100) n characters of white space, so that every offset stays true.
    """
    gap = after.start - before.end
    same = (after.start, after.end) == (before.start, before.end)  # two chunks at one place: nothing told them apart
    backwards = after.end < before.end or (before.start < before.end and (same or after.start < before.start))
    if backwards or gap > WIDEST_GAP:
        return None
    if gap >= 0:
        return " " if gap == 1 else "\n" * gap
    return "" if after.text.startswith(before.text[gap:]) else None


def in_reading_order(chunks: Sequence[Chunk]) -> bool:
    """Say whether no chunk begins or ends before the one before it: only then can one slice hold them all."""
    return all(before.start <= after.start and before.end <= after.end for before, after in pairwise(chunks))


def have_offsets(chunks: Sequence[Chunk]) -> bool:
    """Say whether the chunks' offsets place them one after the other in their document."""
    return all(joint(before, after) is not None for before, after in pairwise(chunks))


def joined(chunks: Sequence[Chunk]) -> str:
    """Return the chunks' texts as one: by their offsets, or with a blank line between where these are of no use."""
    if not have_offsets(chunks):
        return BLANK_LINE.join(chunk.text for chunk in chunks)
    parts = [chunks[0].text]
    for before, after in pairwise(chunks):
        parts += [joint(before, after) or "", after.text[max(0, before.end - after.start) :]]
    return "".join(parts)


def is_slice_of(text: str | None, chunks: Sequence[Chunk]) -> bool:
    """Say whether a text is the slice from the first to the last of the chunks: each stands at its place in it."""
    start = chunks[0].start
    return (
        text is not None
        and len(text) == chunks[-1].end - start
        and all(text.startswith(chunk.text, chunk.start - start) for chunk in chunks)
    )


def segment_of(chunks: Sequence[Chunk], text: str | None = None) -> Segment:
    """Return the segment of adjacent chunks of one document.

    Its path is what the chunks' paths have in common, its metadata what all of them say.

    Args:
        chunks: in reading order, at least one.
        text: the slice of the document, as a store has it; if it does not agree with the chunks, or is None, their
            own texts are joined. Where even offsets are missing, `end` is where the joined text ends.
    """
    first = chunks[0]
    whole = text if text is not None and is_slice_of(text, chunks) else joined(chunks)
    end, place = first.start + len(whole), Place.around(chunk.place for chunk in chunks)
    return Segment(
        id=span_id(first.document_id, "segment", first.position, chunks[-1].position + 1),
        document_id=first.document_id,
        start=first.start,
        end=end,
        text=whole,
        path=common_path([chunk.path for chunk in chunks]),
        chunk_ids=tuple(chunk.id for chunk in chunks),
        pages=place.pages,
        page_labels=place.page_labels,
        lines=place.lines,
        metadata=common_metadata(chunks),
        positions=(first.position, chunks[-1].position),
    )


def common_path(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the headings that all paths begin with."""
    lowest, highest = min(paths), max(paths)
    same = next((n for n, (a, b) in enumerate(zip(lowest, highest, strict=False)) if a != b), None)
    return lowest[: len(lowest) if same is None else same]

"""Put chunks next to each other: join adjacent ones to a segment, and place those that have links or offsets alone.

In order: one text out of adjacent chunks (the exact slice of their document where it can be had, else joined by
offsets), neighbours fetched by links from chunk to chunk, and positions for chunks that have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise, takewhile
from typing import TypeAlias

from catena.effects import Step, ask
from catena.model import Chunk, Place, Segment, common_metadata, span_id

ChunkPlace: TypeAlias = tuple[str, int]
"""Document id, and position of a chunk in it, from 0."""

ChunkSpan: TypeAlias = tuple[str, int, int]
"""Document id, first position, end position."""

WIDEST_GAP = 100  # characters: splitters strip white space between chunks; a wider gap is text that is not there
BLANK_LINE = "\n\n"


def joint(before: Chunk, after: Chunk) -> str | None:
    """Return the white space between two neighbours by their offsets, or None where the offsets are of no use.

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
    """Say whether a text is the slice from the first to the last of the chunks: each is found at its place in it."""
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
        **place.parts,
        metadata=common_metadata(chunks),
        positions=(first.position, chunks[-1].position),
    )


def common_path(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the headings that all paths begin with."""
    return tuple(at[0] for at in takewhile(lambda at: len(set(at)) == 1, zip(*paths, strict=False)))


@dataclass(frozen=True, slots=True)
class Linked:
    """A chunk, and the ids of the chunks before and after it in its document, None where none is known."""

    chunk: Chunk
    previous: str | None = None
    next: str | None = None

    @property
    def place(self) -> ChunkPlace:
        return self.chunk.document_id, self.chunk.position


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLinked:
    """Ask a store for chunks by id; the reply is `Linked` values in any order, without those that it lacks."""

    ids: tuple[str, ...]
    purpose: str = field(default="neighbours by id", compare=False)


def follow_links(spans: Sequence[ChunkSpan], known: Iterable[Linked]) -> Step[tuple[tuple[Chunk, ...], ...]]:
    """Fetch chunks by place from a store that knows them by id alone; reply as to `FetchChunks`.

    From the known chunks beside a span the links are followed inwards, all spans side by side, so that a span of n
    chunks takes at most `ceil(n / 2)` requests from both sides, n from one. A link that leads to nothing, or to a
    chunk of another place than it should, ends the walk there.

    Args:
        spans: (document id, first position, end position), 0-based and half-open.
        known: chunks with their links, those around the spans among them.

    Returns:
        Per span the chunks that were reached, in reading order.

    Raises:
        CatenaError: the store failed.
    """
    places = {linked.place: linked for linked in known}
    tried: set[tuple[ChunkPlace, str]] = set()
    while wanted := _reachable(spans, places, tried):
        tried.update(wanted.items())
        (reply,) = yield from ask([FetchLinked(ids=tuple(dict.fromkeys(wanted.values())))])
        places.update((linked.place, linked) for linked in reply if linked.place in wanted)
    return tuple(
        tuple(places[document, position].chunk for position in range(first, end) if (document, position) in places)
        for document, first, end in spans
    )


def _reachable(
    spans: Sequence[ChunkSpan], places: Mapping[ChunkPlace, Linked], tried: Set[tuple[ChunkPlace, str]]
) -> dict[ChunkPlace, str]:
    """Return the missing places that a link of a known neighbour leads to, each with the id it names."""
    wanted: dict[ChunkPlace, str] = {}
    for document, first, end in spans:
        for place in ((document, position) for position in range(first, end)):
            before, after = places.get((document, place[1] - 1)), places.get((document, place[1] + 1))
            links = (before and before.next, after and after.previous)
            link = next((each for each in links if each and (place, each) not in tried), None)
            if place not in places and link:
                wanted[place] = link
    return wanted


def placed_by_offsets(chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
    """Number chunks by their offsets alone, so that those that follow each other are neighbours.

    Between chunks that do not touch, a position stays free: their gap is unknown. Chunks of different pages
    do not touch: they may have been cut page by page, with offsets that begin anew on each.

    Args:
        chunks: of any documents, in any order; their positions are not looked at.

    Returns:
        The chunks by document and offset, with positions.
    """
    placed: list[Chunk] = []
    for chunk in sorted(chunks, key=lambda chunk: (chunk.document_id, chunk.pages or (0, 0), chunk.start, chunk.end)):
        before = placed[-1] if placed and placed[-1].document_id == chunk.document_id else None
        if before is None:
            position = 0
        else:
            touches = before.pages == chunk.pages and joint(before, chunk) is not None
            position = before.position + (1 if touches else 2)
        placed.append(replace(chunk, position=position))
    return tuple(placed)


def placed_by_links(chunks: Iterable[Chunk], after: Mapping[str, str]) -> tuple[Chunk, ...]:
    """Return the chunks with positions: what follows a chunk has the next one, and all else is apart.

    Between two runs of chunks one position stays free. No store has a chunk there, so that no segment crosses it.
    Runs are in order of their first chunk's offset, then id.

    Args:
        chunks: of any documents, each once.
        after: chunk id -> id of the chunk that follows it. Ids of other chunks, of other documents, and a second link
            to one chunk are left out of account.

    Returns:
        Per document, in order of ids, the chunks in order of their positions, from 0.
    """
    by_document = sorted(chunks, key=lambda chunk: (chunk.document_id, chunk.start, chunk.end, chunk.id))
    numbered: list[Chunk] = []
    for _, group in groupby(by_document, key=lambda chunk: chunk.document_id):
        position = 0
        for run in _runs(list(group), after):
            numbered += [replace(chunk, position=at) for at, chunk in enumerate(run, start=position)]
            position += len(run) + 1
    return tuple(numbered)


def gather_links(found: Iterable[Linked], *, hops: int) -> Step[tuple[Linked, ...]]:
    """Follow the links forward from the chunks found, until they meet or so many hops were made.

    So it is known which of them stand near each other, where no position says so. All chains advance side by side,
    one request a hop.

    Args:
        found: chunks with their links.
        hops: chunks fetched behind each of them at most; more than a segment holds serves nothing.

    Returns:
        The chunks found, and those fetched.

    Raises:
        CatenaError: the store failed.
    """
    known = {linked.chunk.id: linked for linked in found}
    left = dict.fromkeys(known, hops)
    ends = list(known.values())
    while wanted := {
        end.next: left[end.chunk.id] - 1 for end in ends if end.next and end.next not in known and left[end.chunk.id]
    }:
        (reply,) = yield from ask([FetchLinked(ids=tuple(wanted))])
        ends = [linked for linked in reply if linked.chunk.id in wanted]
        for linked in ends:
            known[linked.chunk.id], left[linked.chunk.id] = linked, wanted[linked.chunk.id]
    return tuple(known.values())


def links_between(chunks: Iterable[Linked]) -> dict[str, str]:
    """Return chunk id -> id of the chunk that follows it, as either says; where they disagree, as the first says."""
    known = tuple(chunks)
    backward = {linked.previous: linked.chunk.id for linked in known if linked.previous}
    return {**backward, **{linked.chunk.id: linked.next for linked in known if linked.next}}


def _runs(chunks: Sequence[Chunk], after: Mapping[str, str]) -> list[list[Chunk]]:
    """Return the chunks of one document in runs; a ring of links is opened at its first chunk."""
    waiting = {chunk.id: chunk for chunk in chunks}
    linked = {after[chunk.id] for chunk in chunks if chunk.id in after}
    runs: list[list[Chunk]] = []
    for chunk in sorted(chunks, key=lambda chunk: chunk.id in linked):  # stable: those that nothing precedes first
        if chunk.id not in waiting:
            continue
        run = [waiting.pop(chunk.id)]
        while (follower := waiting.pop(after.get(run[-1].id, ""), None)) is not None:
            run.append(follower)
        runs.append(run)
    return sorted(runs, key=lambda run: (run[0].start, run[0].id))

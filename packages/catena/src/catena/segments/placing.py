"""Places for chunks that nobody counted, as those of a framework's own store: by what is linked to what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from catena.effects import Step, ask
from catena.model import Chunk
from catena.segments.links import FetchLinked, Linked


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
    """Return chunk id -> id of the chunk that follows it, as the one or the other says."""
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

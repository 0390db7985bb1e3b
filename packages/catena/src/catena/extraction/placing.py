"""Places for chunks that nobody counted, as those of a framework's own store: by what is linked to what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from catena.model import Chunk


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

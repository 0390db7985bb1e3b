"""The document tree of a report: documents and their sections, with the hits that were cut from each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from catena.model import Entry, Ranking
from catena.model.places import pages_in_words
from catena.report.values import DocumentRow, SectionRow, Tree

if TYPE_CHECKING:
    from catena.server.contents import DocumentInfo as ServerDocumentInfo
    from catena.store.store import DocumentInfo


def in_order(infos: Sequence[DocumentInfo | ServerDocumentInfo], ranking: Ranking) -> list[str]:
    """Return the ids of all documents: those with hits by their best rank, then the others, ascending."""
    held = {info.id for info in infos}
    first = [name for name in dict.fromkeys(hit.chunk.document_id for hit in ranking.hits) if name in held]
    return first + sorted(held.difference(first))


def tree_shown(
    infos: Sequence[DocumentInfo | ServerDocumentInfo],
    order: Sequence[str],
    entries: Mapping[str, Entry],
    ranking: Ranking,
) -> Tree:
    """Return the tree of some documents.

    Args:
        infos: of all documents.
        order: ids of those that are listed.
        entries: of those that were read.
        ranking: whose hits are marked.
    """
    by_id = {info.id: info for info in infos}
    ranks: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for rank, hit in enumerate(ranking.hits, start=1):
        ranks[hit.chunk.document_id].append((hit.chunk.section, rank))
    rows = tuple(
        DocumentRow(
            id=name,
            title=by_id[name].title or name,
            state=by_id[name].state,
            chunks=by_id[name].chunks,
            pages=by_id[name].pages,
            hits=tuple(rank for _, rank in ranks[name]),
            sections=sections_shown(entries[name], ranks[name]) if name in entries else None,
        )
        for name in order
    )
    return Tree(documents=rows, more=len(infos) - len(rows))


def sections_shown(entry: Entry, hits: Sequence[tuple[int, int]]) -> tuple[SectionRow, ...]:
    """Return the sections of a document in reading order; `hits` are pairs of section position and rank."""
    chunks = Counter(chunk.section for chunk in entry.chunks)
    return tuple(
        SectionRow(
            position=section.position,
            level=section.level,
            title=section.title or "Before the first heading",
            where=pages_in_words(entry.document.pages_of(section.start, section.end)),
            chunks=chunks[section.position],
            hits=tuple(rank for position, rank in hits if position == section.position),
        )
        for section in entry.sections
    )

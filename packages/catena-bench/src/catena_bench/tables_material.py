"""What the tables compare, as one step: each document cut in all ways, and views, units and trees made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias

from catena.effects import Failed, Step, together
from catena.enrichment import (
    KEYWORDS,
    SUMMARY,
    ClusterSummaries,
    Keywords,
    RaptorOptions,
    RaptorTree,
    Summaries,
    SummaryTree,
    make_views,
    raptor_tree,
)
from catena.model import Chunk, Degraded, View
from catena.structure import AtomicChunks, cut_atomic, cut_fixed, cut_sentences
from catena_bench.tables_data import TabledDocument
from catena_bench.views_data import AskedDocument, word_pieces
from catena_bench.views_units import LENGTHS, Units, section_chunks

By: TypeAlias = Literal["llm", "offline"]

SECTIONS = "sections"
LEAVES = 300  # word pieces of a leaf of the tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is made, and by whom.

    Attributes:
        viewed: which chunks get keywords and summaries: "sections", "fixed200", "fixed300".
        units: whether there are atomic units, or sentences where no model is asked.
        tree: whether RAPTOR's tree is grown.
        views_by: who makes views.
        by: who divides into units and summarises the clusters of the tree.
    """

    viewed: tuple[str, ...]
    units: bool
    tree: bool
    views_by: By
    by: By


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """One document, cut in every way that is compared.

    Attributes:
        chunks: by name: "fixed100", "fixed100_content", …, "sections".
        views: by the name of the chunks and the kind of view; a chunk of which none could be made offline has its own
            text there, what a model failed at is missing.
        units: atomic units, or sentences; None where no table has them.
        tree: of summaries over "fixed300"; None where no table has it.
        degraded: what a model was asked for and did not give.
    """

    source: TabledDocument
    chunks: Mapping[str, tuple[Chunk, ...]]
    views: Mapping[str, Mapping[str, Units]]
    units: tuple[Chunk, ...] | None
    tree: SummaryTree | None
    degraded: tuple[Degraded, ...]

    @property
    def asked(self) -> AskedDocument:
        """The document and its questions."""
        return self.source.asked


def make_material(sources: Sequence[TabledDocument], wanted: Wanted) -> Step[tuple[Material, ...]]:
    """Cut all documents, and make of them what is wanted, side by side.

    Raises:
        CatenaError: not a failure of a model, but of what surrounds it (nobody answers, the budget, the journal).
    """
    made: list[Any] = yield from together([_of_document(source, wanted) for source in sources])
    return tuple(_succeeded(made))


def _of_document(source: TabledDocument, wanted: Wanted) -> Step[Material]:
    asked, count = source.asked, word_pieces()
    chunks = {f"fixed{size}": cut_fixed(asked.document, tokens=size, count=count) for size in LENGTHS}
    for size in LENGTHS:
        chunks[f"fixed{size}_content"] = cut_fixed(asked.document, asked.sections, tokens=size, count=count)
    chunks[SECTIONS] = section_chunks(asked)
    results: list[Any] = yield from together(
        [
            *(_views(chunks[name], asked.document.title, wanted.views_by) for name in wanted.viewed),
            *([_units(asked, wanted.by)] if wanted.units else []),
            *([_tree(asked, chunks[f"fixed{LEAVES}"], wanted.by)] if wanted.tree else []),
        ]
    )
    rest = iter(_succeeded(results))
    views = {name: next(rest) for name in wanted.viewed}
    units: AtomicChunks | None = next(rest) if wanted.units else None
    tree: RaptorTree | None = next(rest) if wanted.tree else None
    made_by = [lost for _, lost in views.values()] + [each.degraded for each in (units, tree) if each is not None]
    return Material(
        source=source,
        chunks=chunks,
        views={name: _by_kind(found, chunks[name], wanted.views_by) for name, (found, _) in views.items()},
        units=None if units is None else units.chunks,
        tree=None if tree is None else tree.tree,
        degraded=tuple(chain.from_iterable(made_by)),
    )


def _views(chunks: tuple[Chunk, ...], title: str, by: By) -> Step[tuple[tuple[View, ...], tuple[Degraded, ...]]]:
    return (yield from make_views(chunks, (Keywords(by=by), Summaries(by=by)), title=title))


def _units(asked: AskedDocument, by: By) -> Step[AtomicChunks]:
    if by == "llm":
        return (yield from cut_atomic(asked.document, count=word_pieces()))
    return AtomicChunks(chunks=cut_sentences(asked.document, count=word_pieces()))


def _tree(asked: AskedDocument, leaves: tuple[Chunk, ...], by: By) -> Step[RaptorTree]:
    options = RaptorOptions(summaries=ClusterSummaries(by=by))
    title, count = asked.document.title, word_pieces()
    return (yield from raptor_tree(asked.document.id, leaves, options, title=title, count=count))


def _by_kind(views: Iterable[View], chunks: tuple[Chunk, ...], by: By) -> dict[str, Units]:
    number = {chunk.id: place for place, chunk in enumerate(chunks)}
    found: dict[str, list[tuple[int, str]]] = {KEYWORDS: [], SUMMARY: []}
    for view in views:
        found[view.kind].append((number[view.chunk_id], view.text))
    for of_kind in found.values() if by == "offline" else ():
        viewed = {owner for owner, _ in of_kind}
        of_kind += [(owner, chunk.text) for owner, chunk in enumerate(chunks) if owner not in viewed]
    return {
        kind: Units(
            chunks=chunks,
            texts=tuple(text for _, text in sorted(of_kind)),
            owner=tuple(owner for owner, _ in sorted(of_kind)),
        )
        for kind, of_kind in found.items()
    }


def _succeeded(results: Iterable[Any]) -> list[Any]:
    found = list(results)
    for each in found:
        if isinstance(each, Failed):
            raise each.error
    return found

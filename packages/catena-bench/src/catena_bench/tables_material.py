"""Read documents with questions, and cut each in all ways that are compared, with views, units and trees.

The folder is as `catena questions` and `catena_bench.questions.dataset.write_scope_dataset` write it; several of
them may lie below the one that is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

from catena import Chunk, Degraded, Document, View
from catena.effects import Failed, Step, together
from catena.enrichment import KEYWORDS, SUMMARY, Keywords, Summaries, make_views
from catena.model import EvaluationError
from catena.structure import cut_fixed
from catena_bench.baselines import (
    AtomicChunks,
    ClusterSummaries,
    RaptorOptions,
    RaptorTree,
    SummaryTree,
    cut_atomic,
    cut_sentences,
    raptor_tree,
)
from catena_bench.collection import stored
from catena_bench.questions import ScopeDataset, ScopeQuestion, read_scope_dataset
from catena_bench.segments_data import find_collections
from catena_bench.views_data import (
    LENGTHS,
    AskedDocument,
    ScopedQuestion,
    Units,
    section_chunks,
    token_starts,
    untitled,
    word_pieces,
)

BETWEEN = " … "  # the evidence of one question, where it stands in for an answer


By: TypeAlias = Literal["llm", "offline"]
SECTIONS = "sections"
LEAVES = 300  # word pieces of a leaf of the tree


@dataclass(frozen=True, slots=True, kw_only=True)
class TabledDocument:
    """A document with its questions, and what a judge compares answers with.

    Attributes:
        references: per question, the answer that the data set gives, or else what its evidence says.
        divided: whether the data set gives it sections; without any, the whole of it is one.
    """

    asked: AskedDocument
    references: tuple[str, ...]
    divided: bool


def read_tabled_documents(data: Path, most: int | None = None) -> tuple[TabledDocument, ...]:
    """Read all data sets at or below a folder, in the order of their paths, but for documents without a question.

    Args:
        data: the folder; at most three above the files.
        most: keep only so many questions of each document, in their order; all of them for None.

    Raises:
        EvaluationError: there is no question, or a file is not of the layout; with file and line.
    """
    folders = {
        name: folder for name, folder in find_collections(data).items() if stored(folder, "documents") is not None
    }
    found: dict[str, TabledDocument] = {}
    for name, folder in (folders or {data.name: data}).items():
        for document in _documents(read_scope_dataset(folder), most):
            known_as = document.asked.name if document.asked.name not in found else f"{name}/{document.asked.name}"
            found[known_as] = replace(document, asked=replace(document.asked, name=known_as))
    if not found:
        raise EvaluationError(
            f"{data.name} holds no question. Try: `catena questions` writes a data set from documents of your own"
        )
    return tuple(found.values())


def _documents(dataset: ScopeDataset, most: int | None) -> Iterator[TabledDocument]:
    for document in dataset.documents:
        asked = [question for question in dataset.questions if question.document == document.id][:most]
        if not asked:
            continue
        sections = dataset.sections[document.id]
        yield TabledDocument(
            asked=AskedDocument(
                name=document.id,
                document=untitled(document),
                sections=sections,
                questions=tuple(
                    ScopedQuestion(id=each.id, text=each.text, evidence=_visible(each, document)) for each in asked
                ),
                token_starts=token_starts(document.text),
                section_starts=tuple(section.start for section in sections),
            ),
            references=tuple(
                each.answer or BETWEEN.join(" ".join(document.text[slice(*span)].split()) for span in each.evidence)
                for each in asked
            ),
            divided=len(sections) > 1 or any(section.level for section in sections),
        )


def _visible(question: ScopeQuestion, document: Document) -> tuple[tuple[int, int], ...]:
    """Return the evidence that is not blank.

    Raises:
        EvaluationError: all of it is: no recall is defined.
    """
    spans = tuple(span for span in question.evidence if document.text[slice(*span)].strip())
    if not spans:
        raise EvaluationError(
            f"question {question.id!r}: its evidence in document {document.id!r} is blank. "
            "Try: without the question, or with offsets into the text as it stands in the file"
        )
    return spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The parts to make, and their makers.

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
class TableMaterial:
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


def make_material(sources: Sequence[TabledDocument], wanted: Wanted) -> Step[tuple[TableMaterial, ...]]:
    """Cut all documents, and make of them what is wanted, side by side.

    Raises:
        CatenaError: not a failure of a model, but of what surrounds it (no service, the budget, the journal).
    """
    made: list[Any] = yield from together([_of_document(source, wanted) for source in sources])
    return tuple(_succeeded(made))


def _of_document(source: TabledDocument, wanted: Wanted) -> Step[TableMaterial]:
    asked, count = source.asked, word_pieces()
    chunks = {f"fixed{size}": cut_fixed(asked.document, tokens=size, count=count) for size in LENGTHS}
    for size in LENGTHS:
        chunks[f"fixed{size}_content"] = cut_fixed(asked.document, asked.sections, tokens=size, count=count)
    chunks[SECTIONS] = section_chunks(asked)
    makers = (Keywords(by=wanted.views_by), Summaries(by=wanted.views_by))
    results: list[Any] = yield from together(
        [
            *(make_views(chunks[name], makers, title=asked.document.title) for name in wanted.viewed),
            *([_units(asked, wanted.by)] if wanted.units else []),
            *([_tree(asked, chunks[f"fixed{LEAVES}"], wanted.by)] if wanted.tree else []),
        ]
    )
    rest = iter(_succeeded(results))
    views = {name: next(rest) for name in wanted.viewed}
    units: AtomicChunks | None = next(rest) if wanted.units else None
    tree: RaptorTree | None = next(rest) if wanted.tree else None
    made_by = [lost for _, lost in views.values()] + [each.degraded for each in (units, tree) if each is not None]
    return TableMaterial(
        source=source,
        chunks=chunks,
        views={name: _by_kind(found, chunks[name], wanted.views_by) for name, (found, _) in views.items()},
        units=None if units is None else units.chunks,
        tree=None if tree is None else tree.tree,
        degraded=tuple(chain.from_iterable(made_by)),
    )


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

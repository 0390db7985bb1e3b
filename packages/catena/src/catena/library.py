"""The embedded library as users meet it: files in, ranked and cited passages out, one path on disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, Unpack

from catena.discovery import discover
from catena.effects import (
    Budget,
    Cancel,
    Event,
    Failed,
    Plan,
    Services,
    Step,
    Tariff,
    arun,
    plan,
    run,
    together,
)
from catena.enrichment.entities import query_entities
from catena.errors import (
    CancelledError,
    LibraryError,
    ParameterError,
)
from catena.extraction import Extraction
from catena.figures import FIGURE
from catena.file_ingestion import SIDE_BY_SIDE, Batch, FileIngestion, Source, grouped
from catena.graph.paper_scorer import PaperScorer
from catena.graph_search import GraphResult, GraphSearch, search_graph, widen
from catena.indexing.store import DocumentInfo, LibraryStats, LibraryStore
from catena.ingestion import PLANNED_ANSWERS
from catena.library_graph import LibraryGraph
from catena.model import Chunk, Entry, Figure, Hit, Outcome, Ranking, Segment, Where
from catena.pipeline import Preparation, embed
from catena.retrieval.adaptation import CorpusStatistics, adapted
from catena.retrieval.figure_search import search_figures
from catena.retrieval.fusion import ScoreFusion
from catena.retrieval.multi_route import Fusion, OnRouteError, OnUnknown, retrieve
from catena.retrieval.reading import ReadingOptions, check_budget
from catena.retrieval.routes import Route
from catena.section_search import SECTION_FUSION, SECTION_ROUTES, ViewSearch, read_passages, search_views
from catena.segment_answer import AnswerOptions, SegmentAnswer, answer_from
from catena.segment_search import SegmentSearch, find_segments
from catena.structure.passages import PASSAGE
from catena.structure.sections import section_segment

if TYPE_CHECKING:
    from catena.graph.chunk_graph import ChunkGraph, GraphProgress
    from catena.graph.edge_kinds import TermEdges
    from catena.graph.options import GraphOptions
    from catena.journal import Journal
    from catena.ports import LLM, Captioner, Embedder, EntityRecognizer, Reranker
    from catena.vectors import ViewVectors

    Addition: TypeAlias = tuple[Entry, ViewVectors]


class SegmentSearchOptions(TypedDict, total=False):
    """How to search for segments; what each means is said at `catena.retrieval.retrieve`."""

    routes: Sequence[str] | Mapping[str, Route]
    where: Where | None
    fusion: Fusion | None
    on_route_error: OnRouteError
    by_name: bool
    entities: Sequence[str]
    on_unknown: OnUnknown


class SearchOptions(SegmentSearchOptions, total=False):
    """How to search for chunks; what each means is said at `catena.retrieval.retrieve`."""

    k: int
    depth: int | None


@dataclass(frozen=True, slots=True)
class Progress:
    """One input of a run has ended: its outcome, and how far the run is."""

    outcome: Outcome
    done: int
    total: int


class Library:
    """Documents, chunks, views, vectors and indexes at one path; open it with `Library.open`.

    A document's id is its path relative to the folder that holds the library, so that a project can be moved
    as a whole, and a new version of a file replaces the old one.
    """

    def __init__(
        self,
        store: LibraryStore,
        embedder: Embedder,
        preparation: Preparation,
        journal: Journal | None,
        captioner: Captioner | None = None,
        *,
        llm: LLM | None = None,
        recognizer: EntityRecognizer | None = None,
        reranker: Reranker | None = None,
        budget: Budget | None = None,
        graph_kinds: Iterable[TermEdges] = (),
    ) -> None:
        self._store = store
        self._graph = LibraryGraph(store, graph_kinds)
        self._embedder = embedder
        self.preparation = preparation
        self._services = Services(
            embedder=embedder,
            store=store,
            graph=self._graph,
            journal=journal,
            captioner=captioner,
            llm=llm,
            recognizer=recognizer,
            reranker=reranker,
            budget=budget,
        )
        # Threads of one interpreter that search one store in it only wait for each other: 8 ms became 12.
        self._in_turn = replace(self._services, max_concurrency=1)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        embedder: Embedder | None = None,
        lexical: Literal["tantivy", "rank-bm25"] = "tantivy",
        preparation: Preparation | None = None,
        journal: Journal | None = None,
        captioner: Captioner | None = None,
        llm: LLM | None = None,
        recognizer: EntityRecognizer | None = None,
        reranker: Reranker | None = None,
        budget: Budget | None = None,
        graph_kinds: Iterable[TermEdges] = (),
        create: bool = True,
    ) -> Library:
        """Open the library at a path, or make an empty one there.

        Args:
            path: a folder of its own.
            embedder: the dense route's model; the shipped static embedding by default.
            lexical: the lexical engine; "rank-bm25" (an extra) is the reference.
            preparation: how files become chunks, views and terms.
            journal: keeps the replies of all models: nothing is asked or paid for twice, also after a kill.
            captioner: says what each figure shows when a file is indexed with `Preparation(figures=True)`.
            llm: writes the Markdown of files for `Preparation(format_with_llm=FormatOptions())`, finds critical
                entities for `Preparation(detectors=[LLMDetector()])`, divides documents for
                `Preparation(segmentation=SegmentOptions())`, and makes titles and summaries for
                `Preparation(context=ContextOptions())`; writes what `answer` returns, and queries for `segments`.
            recognizer: finds them for `Preparation(detectors=[RecognizerDetector()])`.
            reranker: scores question and passage together for `segments(SegmentSearch(rerank=True))`.
            budget: the cap that indexing does not pass.
            graph_kinds: kinds of edge of your own with which the graph of this library was built.
            create: False refuses to make a new library.

        Raises:
            ModelMismatchError: the library holds vectors of another model.
            LibraryError: the path holds something else, or there is nothing and `create` is False.
        """
        if embedder is None:
            from catena.enrichment.static_embedding import StaticEmbedder

            embedder = StaticEmbedder()
        store = LibraryStore.open(
            path, embedder_identity=embedder.identity, dim=embedder.dim, lexical=lexical, create=create
        )
        how = preparation or Preparation()
        return cls(
            store,
            embedder,
            how,
            journal,
            captioner,
            llm=llm,
            recognizer=recognizer,
            reranker=reranker,
            budget=budget,
            graph_kinds=graph_kinds,
        )

    def __enter__(self) -> Library:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release files and locks; what was added is on disk already."""
        self._graph.close()
        self._store.close()

    @property
    def store(self) -> LibraryStore:
        """The storage engine, for parts that bring their own chunks and vectors."""
        return self._store

    @property
    def _asks_models(self) -> bool:
        captioned = self.preparation.figures and self._services.captioner is not None
        return captioned or bool(self.preparation.may_ask)

    @property
    def _files(self) -> FileIngestion:
        return FileIngestion(self._store, self._services, self.preparation)

    @property
    def services(self) -> Services:
        """What answers the steps of this library: its store and its models."""
        return self._services

    def add(self, *sources: Source, password: str | None = None) -> tuple[str, ...]:
        """Add new documents, all of them or none, and return their ids.

        Args:
            sources: files, or documents already parsed.
            password: opens encrypted PDFs.

        Raises:
            ParseError: a file gave no document.
            DuplicateDocumentError: a document is there already.
            LibraryBusyError: another process is writing.
        """
        entries = self._entries(sources, password)
        self._store.add([(entry, self._vectors(entry)) for entry in entries])
        return tuple(entry.document.id for entry in entries)

    def replace(self, *sources: Source, password: str | None = None) -> tuple[str, ...]:
        """Put documents in place of their older versions, all or none; return the ids of those that changed.

        What is not there yet is added; the same bytes cut in the same way are left alone. The old version is
        found until the new one is complete.

        Raises:
            ParseError: a file gave no document; the older version stays.
            LibraryBusyError: another process is writing.
        """
        entries = self._entries(sources, password)
        # one without a fingerprint lacks what a model failed at: it is never as the store has it
        held = self._store.fingerprint
        changed = [e for e in entries if not e.fingerprint or e.fingerprint != held(e.document.id)]
        return self._store.replace([(entry, self._vectors(entry)) for entry in changed])

    def delete(self, document_id: str) -> None:
        """Remove a document with every chunk, view, vector and posting of it.

        Raises:
            UnknownDocumentError: there is no document of this id.
        """
        self._store.delete(document_id)

    def index(
        self,
        paths: str | Path | Iterable[str | Path],
        *,
        password: str | None = None,
        progress: Callable[[Progress], None] | None = None,
        watch: Callable[[Event], None] | None = None,
        cancel: Cancel | None = None,
    ) -> tuple[Outcome, ...]:
        """Index files and whole folders; what changed is replaced, what did not is skipped.

        A file that fails loses nothing of the others, and an older version of it stays. Every file ends in
        the ledger. Killed or stopped at any point, the next call goes on where this one ended; with a journal it
        pays for nothing twice. What a model failed at is said in the outcome's reason, and asked for again by the
        next call. Where models are asked, several files go side by side.

        Args:
            paths: files, or folders that are searched for files of the types Catena reads; or one of them.
            password: opens encrypted PDFs.
            progress: called after each file.
            watch: told of each request to a model, see `Services.progress`.
            cancel: another thread may stop the run with it.

        Returns:
            One outcome per file, in the order of the files.

        Raises:
            CancelledError: the run was stopped; what was done is kept.
            BudgetExceededError: the next request would pass the budget; what was done is kept.
            ParameterError: the preparation asks a model that was not given.
            MissingServiceError: a detector of your own does.
            JournalError: a reply could not be kept.
            LibraryError: the library cannot be written.
        """
        self._files.check_models()
        files = list(discover(paths, leave_out=self._store.path))
        services = replace(self._services, progress=watch, cancel=cancel)
        outcomes: list[Outcome] = []
        batch = Batch(self._store)
        try:
            for group in grouped(files, SIDE_BY_SIDE if self._asks_models else 1):
                if cancel is not None and cancel.is_set:
                    raise CancelledError
                steps = [self._files.ingested(path, source, password) for path, source in group]
                for result in run(together(steps), services):
                    if isinstance(result, Failed):
                        raise result.error
                    outcomes.append(result[0])
                    batch.take(*result)
                    if progress is not None:
                        progress(Progress(result[0], len(outcomes), len(files)))
        finally:
            batch.write()
        return tuple(outcomes)

    def plan(
        self, paths: str | Path | Iterable[str | Path], *, password: str | None = None, tariff: Tariff | None = None
    ) -> tuple[Plan, tuple[Outcome, ...]]:
        """Say what indexing these files would ask of language models, recognisers and captioners; nothing is asked.

        Vectors are not counted. What the journal holds, and files that are in the library unchanged, cost nothing.

        Args:
            paths: as for `index`.
            password: opens encrypted PDFs.
            tariff: prices; those of the budget by default.

        Returns:
            The plan, and how each file would end if every answer were good.

        Raises:
            ParameterError: the preparation asks a model that was not given.
        """
        self._files.check_models()
        outcomes: list[Outcome] = []

        def all_files() -> Step[None]:
            for path, source in discover(paths, leave_out=self._store.path):
                outcome, _ = yield from self._files.ingested(path, source, password, embedded=False)
                outcomes.append(outcome)

        return plan(all_files(), self._services, tariff=tariff, stand_ins=PLANNED_ANSWERS), tuple(outcomes)

    def search(self, query: str, *, detect: bool = False, **options: Unpack[SearchOptions]) -> Ranking:
        """Return the k best chunks for a question, best first, each with every route that found it.

        Args:
            query: what the user asks, as typed.
            detect: let the detectors of `Preparation(detectors=...)` find names in the question, too, besides
                `entities`: one that stands nowhere is then said even where it does not look like a code.
            options: see `SearchOptions`.

        Raises:
            ParameterError: an option is out of range, or there are no detectors.
        """
        return run(self._found(query, detect, options), self._in_turn)

    async def asearch(self, query: str, *, detect: bool = False, **options: Unpack[SearchOptions]) -> Ranking:
        """As `search`, without blocking the event loop."""
        step = await asyncio.to_thread(self._found, query, detect, options)
        return await arun(step, self._services)

    def _found(self, query: str, detect: bool, options: SearchOptions) -> Step[Ranking]:
        if "passages" in options.get("routes", SECTION_ROUTES) and self._store.has_view(PASSAGE):
            by_passages: SearchOptions = {"routes": SECTION_ROUTES, "fusion": SECTION_FUSION}
            options = {**by_passages, **options}
        if not detect:
            return retrieve(query, **options)
        if not self.preparation.detectors:
            raise ParameterError("detect", detect, "False in a library without Preparation(detectors=...)")
        self._files.check_models()
        return self._detected(query, options)

    def _detected(self, query: str, options: SearchOptions) -> Step[Ranking]:
        found = yield from query_entities(query, self.preparation.detectors)
        named: SearchOptions = {**options, "entities": (*options.get("entities", ()), *found.names)}
        ranking = yield from retrieve(query, **named)
        return replace(ranking, degraded=(*found.degraded, *ranking.degraded))

    def search_views(
        self, query: str, how: ViewSearch | None = None, *, k: float = 3, where: Where | None = None
    ) -> Ranking:
        """Return chunks found under several views, each with the views that found it and its rank in them.

        For a library whose preparation makes views: `Preparation(chunks=SectionChunkOptions(), views=[Keywords(),
        Summaries()])`.

        Args:
            query: as typed.
            how: which views, and by which rule they become one; the article's by default.
            k: how many; the article's rule takes 1.5 too, and returns as many as its views differ.
            where: a filter that every view obeys.

        Raises:
            ParameterError: an option is out of range, or the library holds no views of a kind that is asked for.
            ViewError: all views failed.
        """
        return run(self._by_views(query, how, k, where), self._in_turn)

    async def asearch_views(
        self, query: str, how: ViewSearch | None = None, *, k: float = 3, where: Where | None = None
    ) -> Ranking:
        """As `search_views`, without blocking the event loop."""
        step = await asyncio.to_thread(self._by_views, query, how, k, where)
        return await arun(step, self._services)

    def _by_views(self, query: str, how: ViewSearch | None, k: float, where: Where | None) -> Step[Ranking]:
        how = ViewSearch() if how is None else how
        if not isinstance(how, ViewSearch):
            raise ParameterError("how", how, "ViewSearch(views=..., rule=...) or None")
        held = self._store.view_kinds()
        made = {maker.kind for maker in self.preparation.views}  # short sections alone have no summary, say
        missing = [kind for kind in how.views if kind not in held and kind not in made]
        if missing and held:
            what = f"kinds of view that this library holds ({', '.join(held)}); Preparation(views=...) makes others"
            raise ParameterError("views", missing, what)
        return search_views(query, how, k=k, where=where)

    def search_graph(
        self, query: str, how: GraphSearch | None = None, *, k: int = 10, where: Where | None = None
    ) -> GraphResult:
        """Return the chunks that answer a question together, and the chains by which the graph led to them.

        For questions whose answer stands in several places, each of which says where the next one is: a first
        ranking, then a walk over the graph from there. `build_graph` makes the graph.

        Args:
            query: as typed.
            how: first ranking, walk and scorer; see `catena.graph_search`.
            k: length of the ranking, >= 0.
            where: a filter that every route obeys, and the graph.

        Raises:
            LibraryError: the library has no graph.
            ParameterError: an option is out of range, a model is asked for that was not given, or the scorer was
                trained with another embedder.
            CatenaError: the walk failed, and `how.on_graph_error` is "raise".
        """
        self._check_graph(how)
        return run(search_graph(query, how, k=k, where=where), self._in_turn)

    async def asearch_graph(
        self, query: str, how: GraphSearch | None = None, *, k: int = 10, where: Where | None = None
    ) -> GraphResult:
        """As `search_graph`, without blocking the event loop."""
        await asyncio.to_thread(self._check_graph, how)
        return await arun(search_graph(query, how, k=k, where=where), self._services)

    def widen(
        self, query: str, ranking: Ranking, how: GraphSearch | None = None, *, k: int = 10, where: Where | None = None
    ) -> GraphResult:
        """Return a ranking of any retriever over this library's chunks, widened by a walk over its graph from there.

        Args:
            query: as typed.
            ranking: of chunks of this library, in any scale.
            how: walk and scorer; its first ranking is the one that is given.
            k: length of the ranking, >= 0.
            where: a filter that the graph obeys; the given ranking is believed to obey it.

        Raises:
            LibraryError: the library has no graph.
            ParameterError: an option is out of range, a model is asked for that was not given, or the scorer was
                trained with another embedder.
            CatenaError: the walk failed, and `how.on_graph_error` is "raise".
        """
        self._check_graph(how)
        return run(widen(query, ranking, how, k=k, where=where), self._in_turn)

    async def awiden(
        self, query: str, ranking: Ranking, how: GraphSearch | None = None, *, k: int = 10, where: Where | None = None
    ) -> GraphResult:
        """As `widen`, without blocking the event loop."""
        await asyncio.to_thread(self._check_graph, how)
        return await arun(widen(query, ranking, how, k=k, where=where), self._services)

    def _check_graph(self, how: GraphSearch | None) -> None:
        if not isinstance(how, GraphSearch | None):
            raise ParameterError("how", how, "GraphSearch(walk=..., scorer=...) or None")
        if how is not None and isinstance(how.scorer, PaperScorer):
            how.scorer.for_encoder(self._embedder.identity)
        if not self.has_graph:
            raise LibraryError(str(self._store.path), "it has no graph", "Library.build_graph, or catena graph build")
        asks = how is not None and how.keywords_by == "llm" and how.walk.needs_keywords
        self._check_given({"llm": asks})

    def passages(
        self, query: str, *, budget_tokens: int = 1_000, reading: ReadingOptions | None = None,
        **options: Unpack[SearchOptions],
    ) -> Ranking:  # fmt: skip
        """Return the passages that say most about a question, out of the best chunks, within a budget.

        Whole sections are long: where a budget holds one or two of them, this reads the best passages of the first
        twenty instead. They are exact slices, with their pages and lines.

        Args:
            query: as typed.
            budget_tokens: of all passages together.
            reading: how many chunks are looked into, and how their passages are ranked.
            options: as for `search`.
        """
        return self._paged(run(self._passages(query, budget_tokens, reading, options), self._in_turn))

    async def apassages(
        self, query: str, *, budget_tokens: int = 1_000, reading: ReadingOptions | None = None,
        **options: Unpack[SearchOptions],
    ) -> Ranking:  # fmt: skip
        """As `passages`, without blocking the event loop."""
        step = await asyncio.to_thread(self._passages, query, budget_tokens, reading, options)
        return await asyncio.to_thread(self._paged, await arun(step, self._services))

    def _paged(self, ranking: Ranking) -> Ranking:
        """Return passages with their own pages: a chunk alone says only on which pages it is itself."""
        of_several = [
            hit.chunk for hit in ranking.hits if hit.chunk.pages and hit.chunk.pages[0] < hit.chunk.pages[1]
        ]
        spans = [(chunk.document_id, chunk.start, chunk.end) for chunk in of_several]
        pages = dict(zip((chunk.id for chunk in of_several), self._store.pages(spans), strict=True))
        hits = (
            replace(hit, chunk=replace(hit.chunk, pages=pages.get(hit.chunk.id) or hit.chunk.pages))
            for hit in ranking.hits
        )
        return replace(ranking, hits=tuple(hits))

    def _passages(
        self, query: str, budget_tokens: int, reading: ReadingOptions | None, options: SearchOptions
    ) -> Step[Ranking]:
        if not isinstance(reading, ReadingOptions | None):
            raise ParameterError("reading", reading, "ReadingOptions(...) or None")
        check_budget(budget_tokens)
        wanted: SearchOptions = {"k": (reading or ReadingOptions()).hits, **options}
        found, tokens = self._found(query, False, wanted), self.preparation.passage_tokens

        def read_found() -> Step[Ranking]:
            ranking = yield from found
            steps = read_passages(query, ranking, budget_tokens=budget_tokens, passage_tokens=tokens, options=reading)
            return (yield from steps)

        return read_found()

    def segments(
        self, question: str, how: SegmentSearch | None = None, **options: Unpack[SegmentSearchOptions]
    ) -> Extraction:
        """Return the segments that answer a question: runs of adjacent chunks, each an exact slice of its document.

        Args:
            question: as typed.
            how: queries, reranker, calibration, and what a segment is worth; see `catena.segment_search`.
            options: as for `search`.

        Raises:
            ParameterError: an option is out of range, or a model is asked for that was not given.
        """
        return run(self._segments(question, how, options), self._services)

    async def asegments(
        self, question: str, how: SegmentSearch | None = None, **options: Unpack[SegmentSearchOptions]
    ) -> Extraction:
        """As `segments`, without blocking the event loop."""
        return await arun(self._segments(question, how, options), self._services)

    def _segments(self, question: str, how: SegmentSearch | None, options: SegmentSearchOptions) -> Step[Extraction]:
        how = how or SegmentSearch()
        self._check_given({"reranker": how.rerank, "llm": how.queries_by == "llm"})
        return find_segments(question, how, **options)

    def answer(
        self,
        question: str,
        how: SegmentSearch | None = None,
        answering: AnswerOptions | None = None,
        **options: Unpack[SegmentSearchOptions],
    ) -> SegmentAnswer:
        """Write an answer from the segments for a question, each of its quotes looked up in its source.

        Args:
            question: as typed.
            how: the segments, as for `segments`.
            answering: what the model is given.
            options: as for `search`.

        Raises:
            ParameterError: an option is out of range, or the library has no language model.
            ServiceError: the model failed.
        """
        self._check_given({"llm": True})
        found = self.segments(question, how, **options)
        return run(self._answer(question, found, answering), self._services)

    async def aanswer(
        self,
        question: str,
        how: SegmentSearch | None = None,
        answering: AnswerOptions | None = None,
        **options: Unpack[SegmentSearchOptions],
    ) -> SegmentAnswer:
        """As `answer`, without blocking the event loop."""
        self._check_given({"llm": True})
        found = await self.asegments(question, how, **options)
        step = await asyncio.to_thread(self._answer, question, found, answering)
        return await arun(step, self._services)

    def _answer(self, question: str, found: Extraction, answering: AnswerOptions | None) -> Step[SegmentAnswer]:
        ids = dict.fromkeys(hit.segment.document_id for hit in found.segments)
        documents = [self._store.get(each, pictures=False).document for each in ids]
        return answer_from(question, found.segments, answering, nowhere=found.unknown, documents=documents)

    @property
    def has_graph(self) -> bool:
        """Whether this library has a chunk-interaction graph; nothing of it is read."""
        return self._graph.exists

    @property
    def graph(self) -> ChunkGraph:
        """The chunk-interaction graph of what the library holds now.

        It is read when it is first needed, and follows every change of the documents. Steps that ask a graph need not
        be given it: `services` answers them.

        Raises:
            LibraryError: there is none yet: `build_graph` makes it.
        """
        return self._graph.current()

    def build_graph(
        self,
        options: GraphOptions | None = None,
        *,
        progress: Callable[[GraphProgress], None] | None = None,
        cancel: Cancel | None = None,
    ) -> ChunkGraph:
        """Join all chunks of the library by what they share, and keep that graph with it from now on.

        Documents that come, go or change later reach the graph at its next use. A chunk's keywords are those that
        `Preparation(views=[GraphKeywords(by="llm")])` had made, where it has such, else they are found offline.

        Args:
            options: which edges, see `GraphOptions`; another graph that is there is replaced.
            progress: told how far the building is.
            cancel: another thread may stop it with this.

        Raises:
            CancelledError: it was stopped; the graph that was there stays.
            LibraryError: the library cannot be written.
        """
        return self._graph.build(options, progress=progress, cancel=cancel)

    def drop_graph(self) -> None:
        """Remove the graph, where there is one; nothing else of the library changes."""
        self._graph.drop()

    def adapted(self) -> ScoreFusion:
        """Return HiQA's formula with weights by the shape of this library: its headings, documents and pages.

        For `search(fusion=...)`; not the default, see `catena.retrieval.adaptation`. It reads every document.
        """
        ids = [info.id for info in self._store.documents()]
        return adapted(CorpusStatistics.of(self._store.get(each, pictures=False) for each in ids))

    def search_figures(self, query: str, *, k: int = 10, where: Where | None = None) -> Ranking:
        """Return the k best figures for a question, by their titles, the text around them and their captions."""
        return run(search_figures(query, k=k, where=where), self._in_turn)

    async def asearch_figures(self, query: str, *, k: int = 10, where: Where | None = None) -> Ranking:
        """As `search_figures`, without blocking the event loop."""
        return await arun(search_figures(query, k=k, where=where), self._services)

    def figure(self, found: Hit | Chunk) -> Figure:
        """Return the figure that a hit or a chunk shows: its picture, page, title and caption.

        Raises:
            LibraryError: it shows none, or the library does not hold it any more.
        """
        return self._store.figure(*self._figure_of(found))

    def figure_file(self, found: Hit | Chunk) -> Path:
        """Write the picture of a figure into the library's folder `figures`, where it is not yet; return its path.

        The file is derived: it goes with its document, and is written anew when asked for again.

        Raises:
            LibraryError: there is no figure, or the file cannot be written.
        """
        return self._store.figure_file(*self._figure_of(found))

    def _figure_of(self, found: Hit | Chunk) -> tuple[str, str]:
        chunk = found.chunk if isinstance(found, Hit) else found
        name = chunk.metadata.get(FIGURE)
        if not isinstance(name, str):
            what = f"chunk {chunk.id!r} of {chunk.document_id!r} shows no figure"
            raise LibraryError(str(self._store.path), what, "search_figures, or a hit whose kind is 'figure'")
        return chunk.document_id, name

    def get(self, document_id: str) -> Entry:
        """Return a document with its sections, chunks and views.

        Raises:
            UnknownDocumentError: there is no document of this id.
        """
        return self._store.get(document_id)

    def section(self, found: Hit | Chunk, *, descendants: bool = False) -> Segment:
        """Return the whole section that a hit or a chunk was cut from.

        Args:
            found: of this library.
            descendants: whether the sections below it come along.
        """
        chunk = found.chunk if isinstance(found, Hit) else found
        entry = self._store.get(chunk.document_id, pictures=False)
        return section_segment(entry.document, entry.sections, chunk, chunks=entry.chunks, descendants=descendants)

    def sections(self, ranking: Ranking, *, descendants: bool = False) -> tuple[tuple[Segment, Hit], ...]:
        """Return the whole sections of a ranking, each once and with its best hit, best first."""
        found: dict[str, tuple[Segment, Hit]] = {}
        for hit in ranking.hits:
            segment = self.section(hit, descendants=descendants)
            found.setdefault(segment.id, (segment, hit))
        return tuple(found.values())

    def documents(self) -> tuple[DocumentInfo, ...]:
        """Return what is known of each document, by id."""
        return self._store.documents()

    def ledger(self) -> tuple[Outcome, ...]:
        """Return how each file that was ever given ended, by source."""
        return self._store.ledger()

    def stats(self) -> LibraryStats:
        """Return the size of the library."""
        return self._store.stats()

    def verify(self) -> tuple[str, ...]:
        """Check every invariant of what is stored and return what is wrong, in words; empty when all is well."""
        return (*self._store.verify(), *self._graph.problems())

    def _entries(self, sources: Sequence[Source], password: str | None) -> list[Entry]:
        self._files.check_models()
        return [run(self._files.entry(source, password), self._services) for source in sources]

    def _check_given(self, needed: Mapping[str, bool]) -> None:
        for name in (name for name, needs in needed.items() if needs and getattr(self._services, name) is None):
            raise ParameterError(name, None, "given to Library.open: what is asked for asks it")

    def _vectors(self, entry: Entry) -> ViewVectors:
        known = self._store.known_vectors(entry.document.id)
        return run(embed(entry, known=known), self._services)

    def document_id(self, path: str | Path) -> str:
        """Return the id of a file's document: its path relative to the folder that holds this library."""
        return self._files.document_id(path)

    def vanished(self) -> tuple[str, ...]:
        """Return the ids of indexed files that are gone from disk; they are found until they are deleted.

        Documents that were not read from a file, and files whose names are no valid text, are left alone.
        """
        home = Path(os.path.abspath(self._store.path.parent))
        files = {outcome.document_id for outcome in self._store.ledger()}
        held = (info.id for info in self._store.documents())
        return tuple(name for name in held if name in files and "\\" not in name and not (home / name).exists())

"""Questions to a library, wherever its documents lie: chunks, views, chains, passages, segments, answers, figures.

Each method drives one step of the stages with what answers it; its async twin awaits the same step.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

from catena.call_names import checked_names
from catena.effects import Services, Step, arun, run
from catena.enrichment.entities import query_entities
from catena.errors import ParameterError
from catena.extraction import Extraction
from catena.filters import check_fields
from catena.graph.paper_scorer import PaperScorer
from catena.graph_search import GraphResult, GraphSearch, search_graph, widen
from catena.library_reading import LibraryReading
from catena.model import Ranking, Where
from catena.retrieval.figure_search import search_figures
from catena.retrieval.multi_route import Fusion, OnRouteError, OnUnknown, retrieve
from catena.retrieval.reading import ReadingOptions, check_budget
from catena.retrieval.routes import Route
from catena.section_search import SECTION_FUSION, SECTION_ROUTES, ViewSearch, read_passages, search_views
from catena.segment_answer import AnswerOptions, SegmentAnswer, answer_from
from catena.segment_search import SegmentSearch, find_segments
from catena.structure.passages import PASSAGE


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
    """How to search for chunks; what each means is said at `catena.retrieval.retrieve`.

    `k` is how many hits there are at most, 10 where it is not given; 0 returns none.
    """

    k: int
    depth: int | None


class LibraryQuestions(LibraryReading):
    """A library that is open, in a folder or on a server: what is asked of it."""

    _in_turn: Services  # what answers a question of one thread

    @property
    @abstractmethod
    def _encoder(self) -> str:
        """The identity of the model whose vectors the library holds."""

    @property
    def _field_names(self) -> frozenset[str]:
        """The fields by which chunks can be filtered here, none where that is not known."""
        return frozenset()

    def check_filter(self, where: Where | None) -> None:
        """Raise where a filter could find nothing; every search of the library does so itself.

        Raises:
            FilterError: the filter is malformed, or asks for a field that nothing here has; it names the nearest.
        """
        if where is None:
            return
        known = self._field_names
        if known:
            check_fields(where, known)

    @abstractmethod
    def _require_graph(self) -> None:
        """Raise `LibraryError` where there is no graph: a mistake, and no failure to go on without."""

    @checked_names(SearchOptions.__annotations__)
    def search(self, query: str, *, detect: bool = False, **options: Unpack[SearchOptions]) -> Ranking:
        """Return the k best chunks for a question, best first, each with every route that found it.

        Args:
            query: what the user asks, as typed.
            detect: let the detectors of `Preparation(detectors=...)` find names in the question, too, besides
                `entities`: one that stands nowhere is then said even where it does not look like a code.
            options: see `SearchOptions`.

        Raises:
            ParameterError: an option is out of range, or there are no detectors.
            FilterError: `where` is malformed, or asks for a field that nothing there has.
        """
        return run(self._found(query, detect, options), self._in_turn)

    @checked_names(SearchOptions.__annotations__)
    async def asearch(self, query: str, *, detect: bool = False, **options: Unpack[SearchOptions]) -> Ranking:
        """As `search`, without blocking the event loop."""
        step = await asyncio.to_thread(self._found, query, detect, options)
        return await arun(step, self._services)

    def _found(self, query: str, detect: bool, options: SearchOptions) -> Step[Ranking]:
        self.check_filter(options.get("where"))
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

    @checked_names()
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

    @checked_names()
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
        self.check_filter(where)
        return search_views(query, how, k=k, where=where)

    @checked_names()
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
        self._check_graph(how, where)
        return run(search_graph(query, how, k=k, where=where), self._in_turn)

    @checked_names()
    async def asearch_graph(
        self, query: str, how: GraphSearch | None = None, *, k: int = 10, where: Where | None = None
    ) -> GraphResult:
        """As `search_graph`, without blocking the event loop."""
        await asyncio.to_thread(self._check_graph, how, where)
        return await arun(search_graph(query, how, k=k, where=where), self._services)

    @checked_names()
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
        self._check_graph(how, where)
        return run(widen(query, ranking, how, k=k, where=where), self._in_turn)

    @checked_names()
    async def awiden(
        self, query: str, ranking: Ranking, how: GraphSearch | None = None, *, k: int = 10, where: Where | None = None
    ) -> GraphResult:
        """As `widen`, without blocking the event loop."""
        await asyncio.to_thread(self._check_graph, how, where)
        return await arun(widen(query, ranking, how, k=k, where=where), self._services)

    def _check_graph(self, how: GraphSearch | None, where: Where | None) -> None:
        if not isinstance(how, GraphSearch | None):
            raise ParameterError("how", how, "GraphSearch(walk=..., scorer=...) or None")
        if how is not None and isinstance(how.scorer, PaperScorer):
            how.scorer.for_encoder(self._encoder)
        self._require_graph()
        asks = how is not None and how.keywords_by == "llm" and how.walk.needs_keywords
        self._check_given({"llm": asks})
        self.check_filter(where)

    @checked_names(SearchOptions.__annotations__)
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

    @checked_names(SearchOptions.__annotations__)
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

    @checked_names(SegmentSearchOptions.__annotations__)
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

    @checked_names(SegmentSearchOptions.__annotations__)
    async def asegments(
        self, question: str, how: SegmentSearch | None = None, **options: Unpack[SegmentSearchOptions]
    ) -> Extraction:
        """As `segments`, without blocking the event loop."""
        step = await asyncio.to_thread(self._segments, question, how, options)
        return await arun(step, self._services)

    def _segments(self, question: str, how: SegmentSearch | None, options: SegmentSearchOptions) -> Step[Extraction]:
        how = how or SegmentSearch()
        self._check_given({"reranker": how.rerank, "llm": how.queries_by == "llm"})
        self.check_filter(options.get("where"))
        return find_segments(question, how, **options)

    @checked_names(SegmentSearchOptions.__annotations__)
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

    @checked_names(SegmentSearchOptions.__annotations__)
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

    @checked_names()
    def search_figures(self, query: str, *, k: int = 10, where: Where | None = None) -> Ranking:
        """Return the k best figures for a question, by their titles, the text around them and their captions."""
        self.check_filter(where)
        return run(search_figures(query, k=k, where=where), self._in_turn)

    @checked_names()
    async def asearch_figures(self, query: str, *, k: int = 10, where: Where | None = None) -> Ranking:
        """As `search_figures`, without blocking the event loop."""
        await asyncio.to_thread(self.check_filter, where)
        return await arun(search_figures(query, k=k, where=where), self._services)

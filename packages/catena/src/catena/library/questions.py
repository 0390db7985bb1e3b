"""Questions to a library, wherever its documents lie: chunks, views, chains, passages, segments, answers, figures.

Each method drives one step of `catena.library.ask`; its async twin awaits the same step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar, Unpack

from catena.answering.segment_answer import AnswerOptions, SegmentAnswer
from catena.effects import Services, Step, arun, run
from catena.enrichment.detectors import Detector
from catena.graph.search import GraphResult, GraphSearch
from catena.library.ask import (
    SearchOptions,
    SegmentSearchOptions,
    answer_step,
    figures_step,
    graph_step,
    passages_step,
    search_step,
    segments_step,
    usual_formula,
    views_step,
    widen_step,
)
from catena.library.reading import LibraryReading
from catena.model import Ranking, Where
from catena.model.call_names import checked_names
from catena.model.errors import ParameterError
from catena.retrieval.fusion import ScoreFusion
from catena.retrieval.multi_route import Fusion
from catena.retrieval.reading import ReadingOptions
from catena.retrieval.routes import Route
from catena.retrieval.section_search import ViewSearch
from catena.retrieval.tuned import Tuned
from catena.segments import Extraction
from catena.segments.search import SegmentSearch
from catena.structure.passages import PASSAGE

T = TypeVar("T")


class LibraryQuestions(LibraryReading):
    """A library that is open, in a folder or on a server: what is asked of it."""

    _in_turn: Services  # what answers a question of one thread

    def _asked(self, step: Step[T]) -> T:
        return run(step, self._in_turn)

    async def _awaited(self, step: Step[T]) -> T:
        return await arun(step, self._services)

    def formula(self, routes: Sequence[str] | Mapping[str, Route] | None = None) -> ScoreFusion:
        """Return the formula by which this library ranks where none is given.

        Args:
            routes: that are asked; None for all that `search` asks by itself.
        """
        return usual_formula(routes, has_passages=self._store.has_view(PASSAGE))

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
        return self._asked(search_step(query, options, detectors=self._detectors(detect)))

    @checked_names(SearchOptions.__annotations__)
    async def asearch(self, query: str, *, detect: bool = False, **options: Unpack[SearchOptions]) -> Ranking:
        """As `search`, without blocking the event loop."""
        return await self._awaited(search_step(query, options, detectors=self._detectors(detect)))

    def _detectors(self, detect: bool) -> Sequence[Detector]:
        if not detect:
            return ()
        if not self.preparation.detectors:
            raise ParameterError("detect", detect, "False in a library without Preparation(detectors=...)")
        self._files.check_models()
        return self.preparation.detectors

    @checked_names()
    def search_views(
        self, query: str, how: ViewSearch | None = None, *, k: float | None = None, where: Where | None = None
    ) -> Ranking:
        """Return chunks found under several views, each with the views that found it and its rank in them.

        For a library whose preparation makes views: `Preparation(chunks=SectionChunkOptions(), views=[Keywords(),
        Summaries()])`.

        Args:
            query: as typed.
            how: which views, and by which rule they become one; the article's by default.
            k: how many, 3 by default; the article's rule takes 1.5 too, and returns as many as its views differ.
            where: a filter that every view obeys.

        Raises:
            ParameterError: an option is out of range, or the library holds no views of a kind that is asked for.
            ViewError: all views failed.
        """
        return self._asked(views_step(query, how, k=k, where=where, preparation=self.preparation))

    @checked_names()
    async def asearch_views(
        self, query: str, how: ViewSearch | None = None, *, k: float | None = None, where: Where | None = None
    ) -> Ranking:
        """As `search_views`, without blocking the event loop."""
        return await self._awaited(views_step(query, how, k=k, where=where, preparation=self.preparation))

    @checked_names()
    def search_graph(
        self, query: str, how: GraphSearch | None = None, *, k: int | None = None, where: Where | None = None
    ) -> GraphResult:
        """Return the chunks that answer a question together, and the chains by which the graph led to them.

        For questions whose answer stands in several places, each of which says where the next one is: a first
        ranking, then a walk over the graph from there. `build_graph` makes the graph.

        Args:
            query: as typed.
            how: first ranking, walk and scorer; see `catena.graph.search`.
            k: length of the ranking, >= 0; 10 by default.
            where: a filter that every route obeys, and the graph.

        Raises:
            LibraryError: the library has no graph.
            ParameterError: an option is out of range, a model is asked for that was not given, or the scorer was
                trained with another embedder.
            CatenaError: the walk failed, and `how.on_graph_error` is "raise".
        """
        self._check_walk(how)
        return self._asked(graph_step(query, how, k=k, where=where))

    @checked_names()
    async def asearch_graph(
        self, query: str, how: GraphSearch | None = None, *, k: int | None = None, where: Where | None = None
    ) -> GraphResult:
        """As `search_graph`, without blocking the event loop."""
        self._check_walk(how)
        return await self._awaited(graph_step(query, how, k=k, where=where))

    @checked_names()
    def widen(
        self, query: str, ranking: Ranking, how: GraphSearch | None = None, *, k: int | None = None,
        where: Where | None = None,
    ) -> GraphResult:  # fmt: skip
        """Return a ranking of any retriever over this library's chunks, widened by a walk over its graph from there.

        Args:
            query: as typed.
            ranking: of chunks of this library, in any scale.
            how: walk and scorer; its first ranking is the one that is given.
            k: length of the ranking, >= 0; 10 by default.
            where: a filter that the graph obeys; the given ranking is believed to obey it.

        Raises:
            LibraryError: the library has no graph.
            ParameterError: an option is out of range, a model is asked for that was not given, or the scorer was
                trained with another embedder.
            CatenaError: the walk failed, and `how.on_graph_error` is "raise".
        """
        self._check_walk(how)
        return self._asked(widen_step(query, ranking, how, k=k, where=where))

    @checked_names()
    async def awiden(
        self, query: str, ranking: Ranking, how: GraphSearch | None = None, *, k: int | None = None,
        where: Where | None = None,
    ) -> GraphResult:  # fmt: skip
        """As `widen`, without blocking the event loop."""
        self._check_walk(how)
        return await self._awaited(widen_step(query, ranking, how, k=k, where=where))

    def _check_walk(self, how: GraphSearch | None) -> None:
        asks = isinstance(how, GraphSearch) and how.keywords_by == "llm" and how.walk.needs_keywords
        self._check_given({"llm": asks})

    @checked_names(SearchOptions.__annotations__)
    def passages(
        self, query: str, *, budget_tokens: int | None = None, reading: ReadingOptions | None = None,
        views: ViewSearch | None = None, **options: Unpack[SearchOptions],
    ) -> Ranking:  # fmt: skip
        """Return the passages that say most about a question, out of the best chunks, within a budget.

        Whole sections are long: where a budget holds one or two of them, this reads the best passages of the first
        twenty instead. They are exact slices, with their pages and lines, and obey `where` with these.

        Args:
            query: as typed.
            budget_tokens: of all passages together; 1,000 by default.
            reading: how many chunks are looked into, and how their passages are ranked.
            views: find the chunks under several views, as `search_views` does.
            options: as for `search`; with `views`, `k` and `where` alone.
        """
        step = passages_step(
            query, options, budget_tokens=budget_tokens, reading=reading, views=views, preparation=self.preparation
        )
        return self._asked(step)

    @checked_names(SearchOptions.__annotations__)
    async def apassages(
        self, query: str, *, budget_tokens: int | None = None, reading: ReadingOptions | None = None,
        views: ViewSearch | None = None, **options: Unpack[SearchOptions],
    ) -> Ranking:  # fmt: skip
        """As `passages`, without blocking the event loop."""
        step = passages_step(
            query, options, budget_tokens=budget_tokens, reading=reading, views=views, preparation=self.preparation
        )
        return await self._awaited(step)

    @checked_names(SegmentSearchOptions.__annotations__)
    def segments(
        self, question: str, how: SegmentSearch | None = None, **options: Unpack[SegmentSearchOptions]
    ) -> Extraction:
        """Return the segments that answer a question: runs of adjacent chunks, each an exact slice of its document.

        Args:
            question: as typed.
            how: queries, reranker, calibration, and what a segment is worth; see `catena.segments.search`.
            options: as for `search`.

        Raises:
            ParameterError: an option is out of range, or a model is asked for that was not given.
        """
        self._check_models(how)
        return run(segments_step(question, how, options), self._services)

    @checked_names(SegmentSearchOptions.__annotations__)
    async def asegments(
        self, question: str, how: SegmentSearch | None = None, **options: Unpack[SegmentSearchOptions]
    ) -> Extraction:
        """As `segments`, without blocking the event loop."""
        self._check_models(how)
        return await self._awaited(segments_step(question, how, options))

    def _check_models(self, how: SegmentSearch | None, *, answers: bool = False) -> None:
        asked = how if isinstance(how, SegmentSearch) else SegmentSearch()
        self._check_given({"reranker": asked.rerank, "llm": answers or asked.queries_by == "llm"})

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
        self._check_models(how, answers=True)
        return run(answer_step(question, how, answering, options), self._services)

    @checked_names(SegmentSearchOptions.__annotations__)
    async def aanswer(
        self,
        question: str,
        how: SegmentSearch | None = None,
        answering: AnswerOptions | None = None,
        **options: Unpack[SegmentSearchOptions],
    ) -> SegmentAnswer:
        """As `answer`, without blocking the event loop."""
        self._check_models(how, answers=True)
        return await self._awaited(answer_step(question, how, answering, options))

    @checked_names()
    def search_figures(
        self, query: str, *, k: int | None = None, where: Where | None = None, fusion: Fusion | Tuned | None = None
    ) -> Ranking:
        """Return the k best figures for a question, by their titles, the text around them and their captions."""
        return self._asked(figures_step(query, k=k, where=where, fusion=fusion))

    @checked_names()
    async def asearch_figures(
        self, query: str, *, k: int | None = None, where: Where | None = None, fusion: Fusion | Tuned | None = None
    ) -> Ranking:
        """As `search_figures`, without blocking the event loop."""
        return await self._awaited(figures_step(query, k=k, where=where, fusion=fusion))

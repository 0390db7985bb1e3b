"""Segments in LlamaIndex: as a postprocessor over the user's own stores, and as a retriever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal, Unpack

from llama_index.core.bridge.pydantic import Field, PrivateAttr, field_serializer
from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle

from catena.effects import Handler, Search, Services, Step, arun, ask, run
from catena.library import SegmentSearchOptions, segments_step
from catena.model import Hit, ParameterError, Ranking, Scale
from catena.segments import BALANCED, Calibration, Extraction, ExtractionParams, SegmentSearch, preset, probabilities
from catena.structure import DSRAG, HeaderTemplate
from llama_index_catena.arguments import Remade, checked_arguments, checked_with
from llama_index_catena.components import Component, revived_options, written_options
from llama_index_catena.convert import notice_node
from llama_index_catena.filters import Filters, where_of
from llama_index_catena.libraries import AnyLibrary, check_source
from llama_index_catena.neighbours import Neighbours, NeighbourStore
from llama_index_catena.reranking import CALIBRATIONS, core_reranker, reranking_told
from llama_index_catena.retrieval import tell
from llama_index_catena.segment_nodes import apart, carried_node, ranking_of, segment_node
from llama_index_catena.services import LlamaIndexLLM, language_model
from llama_index_catena.stores import retriever_store

dispatcher = get_dispatcher(__name__)

_ROUTE = "retriever"
_KINDS: dict[str, Any] = {"ExtractionParams": ExtractionParams, "HeaderTemplate": HeaderTemplate, **CALIBRATIONS}


class CatenaSegmentPostprocessor(Component, BaseNodePostprocessor):
    """Turns nodes that were found into the segments that answer: runs of adjacent nodes, each an exact slice.

    What stands between the nodes found is fetched from the user's own store, where a segment could cross it; without
    a store only nodes that were found themselves are joined. Told like a reranker: as `ReRankStartEvent` and
    `ReRankEndEvent`. It works on nodes of any node parser that links
    neighbours, as LlamaIndex's own do, on Catena's by their `position`, and without either by offsets.

    Segments come best first (their value is the score), with the metadata `citation`, first and last page, line and
    position, `chunk_ids`, `queries`. Notices stay, last. Nodes given stay as they are.

    Args:
        neighbours: the docstore of the index or pipeline, a vector store that gives its nodes, or a Catena library.
        params: what a segment is worth and how long it may be; or the name of a preset, "balanced", "precision" or
            "find_all".
        calibration: what a node's score says of relevance. Not needed where `CatenaRerank` made it a probability, and
            where there is none: then the order counts. `Constant()` believes the order of any score.
        never_empty: return the best segment, and say so, where none is worth `params.minimum_value`.
        header: the words before a segment, counted where a budget is in tokens; None where the reader is given none.
        fields: those of every LlamaIndex postprocessor. With `from_dict`, neighbours are given again, and so
            is a calibration of your own.

    Raises:
        ParameterError: an argument is out of range, or neighbours are none.
    """

    neighbours: Any = Field(default=None, description="Where the nodes beside those found are.")
    params: Any = Field(default=BALANCED, description="What a segment is worth and how long it may be.")
    calibration: Any = Field(default=None, description="What a node's score says of relevance.")
    never_empty: bool = Field(default=True, description="Return the best segment where none is worth enough.")
    header: Any = Field(default=DSRAG, description="The words before a segment.")
    _outside: Services = PrivateAttr(default_factory=Services)  # one, so that a dead store is remembered

    @checked_arguments
    def __init__(
        self,
        neighbours: Neighbours | None = None,
        *,
        params: ExtractionParams | Literal["balanced", "precision", "find_all"] = BALANCED,
        calibration: Calibration | None = None,
        never_empty: bool = True,
        header: HeaderTemplate | None = DSRAG,
        **fields: Any,
    ) -> None:
        revived = {"calibration": revived_options(calibration, _KINDS), "header": revived_options(header, _KINDS)}
        how = preset(params) if isinstance(params, str) else revived_options(params, _KINDS)
        if not isinstance(how, ExtractionParams):
            raise ParameterError("params", params, "ExtractionParams or the name of a preset")
        NeighbourStore(neighbours, how)  # refuses what is no store now, not at the first question
        own = {"neighbours": neighbours, "params": how, "never_empty": never_empty}
        super().__init__(**{**fields, **own, **revived})

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which the postprocessor is serialised."""
        return "CatenaSegmentPostprocessor"

    @field_serializer("params", "calibration", "header")
    def _options(self, value: Any) -> Any:
        return written_options(value, _KINDS)

    @field_serializer("neighbours")
    def _store(self, value: Any) -> str | None:
        return None if value is None else type(value).__name__

    def extraction(self, nodes: Sequence[NodeWithScore], query: str = "") -> Extraction:
        """Return the core's extraction, which `catena.segments.explain` explains."""
        step, services = self._step(nodes, query)
        return run(step, services)

    async def aextraction(self, nodes: Sequence[NodeWithScore], query: str = "") -> Extraction:
        """As `extraction`, without blocking the event loop."""
        step, services = await asyncio.to_thread(self._step, nodes, query)  # reads what the nodes say of themselves
        return await arun(step, services)

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        with self._told(nodes, query_bundle) as returned:
            returned.extend(self._nodes(nodes, self.extraction(nodes, _query(query_bundle))))
        return returned

    @dispatcher.span
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        with self._told(nodes, query_bundle) as returned:
            returned.extend(self._nodes(nodes, await self.aextraction(nodes, _query(query_bundle))))
        return returned

    def _told(
        self, nodes: Sequence[NodeWithScore], query_bundle: QueryBundle | None
    ) -> AbstractContextManager[list[NodeWithScore]]:
        name, asked = f"catena-segments/{self.params.selection}", _query(query_bundle)
        return reranking_told(self.callback_manager, name, asked, nodes, self.params.overall_max_chunks)

    def _step(self, nodes: Sequence[NodeWithScore], query: str) -> tuple[Step[Extraction], Services]:
        passages, _ = apart(nodes)
        ranking = probabilities(ranking_of(passages), self.calibration)
        store = NeighbourStore(self.neighbours, self.params)
        how = SegmentSearch(extraction=self.params, never_empty=self.never_empty, header=self.header)
        step = segments_step(query, how, ranked=lambda _: _given(ranking), place=store.place)
        return step, replace(self._outside, store=store, handlers=store.handlers)

    def _nodes(self, nodes: Sequence[NodeWithScore], found: Extraction) -> list[NodeWithScore]:
        passages, notices = apart(nodes)
        known = ranking_of(passages).degraded
        tell(Ranking((), found.ranking().scale, tuple(part for part in found.degraded if part not in known)))
        return [*(segment_node(hit, found) for hit in found.segments), *notices]


class CatenaSegmentRetriever(Remade, BaseRetriever):
    """Finds the segments that answer a question, in a library or by any LlamaIndex retriever.

    Nodes are as those of `CatenaSegmentPostprocessor`; what failed and what stands nowhere is told as
    `CatenaRetriever` tells it.

    Args:
        source: an open library, services that answer `Search`, or a retriever; of the latter, how many nodes it finds
            is set there.
        options: queries, reranker, calibration, and what a segment is worth, see `catena.segments.search`.
        neighbours: of a retriever: where the nodes beside those found are.
        reranker: the core's, or a LlamaIndex postprocessor that scores; given, it is used.
        llm: writes the queries, where the options say `queries_by="llm"`.
        notice: False leaves out the first node, which says where a name in the question stands nowhere.
        callback_manager: told of each retrieval, as by every LlamaIndex retriever.
        verbose: as LlamaIndex has it.
        filters: LlamaIndex's `MetadataFilters`, of a library or services; so may `where` be.
        search: of a library or services: routes, where, fusion, by_name, …, as `Library.segments` takes them.

    Raises:
        ParameterError: the options ask for a model that is not given; neighbours or search options that do not go
            with the source.
    """

    @checked_with(SegmentSearchOptions.__annotations__)
    def __init__(
        self,
        source: AnyLibrary | Services | BaseRetriever,
        *,
        options: SegmentSearch | None = None,
        neighbours: Neighbours | None = None,
        reranker: Any = None,
        llm: LLM | LlamaIndexLLM | None = None,
        notice: bool = True,
        filters: Filters | None = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
        **search: Unpack[SegmentSearchOptions],
    ) -> None:
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        check_source("source", source, Services, BaseRetriever)
        if (where := where_of(search.get("where"), filters)) is not None:
            search["where"] = where
        given = source.services if isinstance(source, AnyLibrary) else source
        own = given if isinstance(given, Services) else Services()
        self._services = replace(
            own,
            llm=own.llm if llm is None else language_model(llm),
            reranker=own.reranker if reranker is None else core_reranker(reranker),
        )
        how = options or SegmentSearch()
        self.options = replace(how, rerank=how.rerank or reranker is not None)
        self._retriever = source if isinstance(source, BaseRetriever) else None
        self.library = source if isinstance(source, AnyLibrary) else None
        if self._retriever is None and neighbours is not None:
            raise ParameterError("neighbours", type(neighbours).__name__, "None where the source is no retriever")
        if self._retriever is not None and search:
            raise ParameterError("search", sorted(search), "set on the retriever, where the source is one")
        for name, service in (("reranker", self._services.reranker), ("llm", self._services.llm)):
            wanted = self.options.rerank if name == "reranker" else self.options.queries_by == "llm"
            if wanted and service is None:
                raise ParameterError(name, None, "given: the options ask for it")
        NeighbourStore(neighbours, self.options.extraction or BALANCED)
        self.notice, self.search, self._neighbours = notice, search, neighbours

    def extraction(self, question: str) -> Extraction:
        """Return the core's extraction, which `catena.segments.explain` explains."""
        step, services = self._step(question)
        return run(step, services)

    async def aextraction(self, question: str) -> Extraction:
        """As `extraction`, without blocking the event loop."""
        step, services = self._step(question)
        return await arun(step, services)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(query_bundle.query_str, self.extraction(query_bundle.query_str))

    @dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(query_bundle.query_str, await self.aextraction(query_bundle.query_str))

    def _step(self, question: str) -> tuple[Step[Extraction], Services]:
        if self._retriever is None:
            return segments_step(question, self.options, self.search), self._services
        routes = retriever_store({_ROUTE: self._retriever})
        store = NeighbourStore(self._neighbours, self.options.extraction or BALANCED)
        searching = Handler(identity=_ROUTE, call=routes.search, acall=routes.asearch)
        handlers = {**store.handlers, Search: searching}
        services = replace(self._services, store=store, handlers=handlers)
        step = segments_step(question, self.options, ranked=self._ranked, place=store.place)
        return step, services

    def _ranked(self, query: str) -> Step[Ranking]:
        (found,) = yield from ask([Search(route=_ROUTE, query=query, k=self.options.depth)])
        scored = found.scale is not Scale.RANK
        nodes = [NodeWithScore(node=node, score=hit.score if scored else None) for node, hit in _nodes_of(found)]
        return ranking_of(apart(nodes)[0])

    def _nodes(self, question: str, found: Extraction) -> list[NodeWithScore]:
        ranking = found.ranking()
        tell(ranking)
        told = [notice_node(question, ranking)] if found.unknown and self.notice else []
        return [*told, *(segment_node(hit, found) for hit in found.segments)]


def _nodes_of(found: Ranking) -> Iterator[tuple[BaseNode, Hit]]:
    for hit in found.hits:
        if (node := carried_node(hit.chunk)) is not None:
            yield node, hit


def _given(ranking: Ranking) -> Step[Ranking]:
    """Return a ranking that is there already."""
    yield from ask([])
    return ranking


def _query(query_bundle: QueryBundle | None) -> str:
    return "" if query_bundle is None else query_bundle.query_str

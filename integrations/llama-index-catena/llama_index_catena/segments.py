"""Find the segments that answer, as a postprocessor over the user's own stores, and as a retriever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

from llama_index.core.bridge.pydantic import Field, PrivateAttr, field_serializer
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle

from catena import Hit, ParameterError, Ranking, Scale, Services, arun, run
from catena.effects import Handler, Search, Step, ask
from catena.library import BaseLibrary, SegmentSearchOptions, segments_step
from catena.segments import BALANCED, Calibration, Extraction, ExtractionParams, SegmentSearch, preset, probabilities
from catena.structure import DSRAG, HeaderTemplate
from llama_index_catena.components import (
    CoreRetriever,
    checked_arguments,
    checked_with,
    revived_options,
    tell_degraded,
    written_options,
)
from llama_index_catena.convert import notice_node
from llama_index_catena.filters import Filters, where_of
from llama_index_catena.neighbours import Neighbours, NeighbourStore
from llama_index_catena.reranking import CALIBRATIONS, CorePostprocessor
from llama_index_catena.retrieval import RouteDegradedEvent, check_source, tell
from llama_index_catena.segment_nodes import apart, carried_node, ranking_of, segment_node
from llama_index_catena.services import LlamaIndexLLM, core_reranker, language_model
from llama_index_catena.stores import retriever_store

_ROUTE = "retriever"

_KINDS: dict[str, Any] = {"ExtractionParams": ExtractionParams, "HeaderTemplate": HeaderTemplate, **CALIBRATIONS}


class CatenaSegmentPostprocessor(CorePostprocessor):
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

    @field_serializer("params", "calibration", "header")
    def _options(self, value: Any) -> Any:
        return written_options(value, _KINDS)

    @field_serializer("neighbours")
    def _store(self, value: Any) -> str | None:
        return None if value is None else type(value).__name__

    def extraction(self, nodes: Sequence[NodeWithScore], query: str = "") -> Extraction:
        """Return the core's extraction, which `catena.segments.explain` explains."""
        return run(*self._question(apart(nodes)[0], QueryBundle(query)))

    async def aextraction(self, nodes: Sequence[NodeWithScore], query: str = "") -> Extraction:
        """As `extraction`, without blocking the event loop."""
        step, services = await asyncio.to_thread(self._question, apart(nodes)[0], QueryBundle(query))
        return await arun(step, services)

    def _question(self, passages: Sequence[NodeWithScore], asked: QueryBundle) -> tuple[Step[Extraction], Services]:
        ranking = probabilities(ranking_of(passages), self.calibration)
        store = NeighbourStore(self.neighbours, self.params)
        how = SegmentSearch(extraction=self.params, never_empty=self.never_empty, header=self.header)
        step = segments_step(asked.query_str, how, ranked=lambda _: _given(ranking), place=store.place)
        return step, replace(self._outside, store=store, handlers=store.handlers)

    def _nodes(self, passages: Sequence[NodeWithScore], found: Extraction) -> list[NodeWithScore]:
        known = ranking_of(passages).degraded
        tell_degraded((part for part in found.degraded if part not in known), RouteDegradedEvent)
        return [segment_node(hit, found) for hit in found.segments]

    def _named(self, count: int) -> tuple[str, int]:
        return f"catena-segments/{self.params.selection}", self.params.overall_max_chunks


class CatenaSegmentRetriever(CoreRetriever[Extraction]):
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
        source: BaseLibrary | Services | BaseRetriever,
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
        given = source.services if isinstance(source, BaseLibrary) else source
        own = given if isinstance(given, Services) else Services()
        self._services = replace(
            own,
            llm=own.llm if llm is None else language_model(llm),
            reranker=own.reranker if reranker is None else core_reranker(reranker),
        )
        how = options or SegmentSearch()
        self.options = replace(how, rerank=how.rerank or reranker is not None)
        self._retriever = source if isinstance(source, BaseRetriever) else None
        self.library = source if isinstance(source, BaseLibrary) else None
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
        return self._found(question)

    async def aextraction(self, question: str) -> Extraction:
        """As `extraction`, without blocking the event loop."""
        return await self._afound(question)

    def _question(self, asked: QueryBundle) -> tuple[Step[Extraction], Services]:
        question = asked.query_str
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

    def _nodes(self, asked: QueryBundle, found: Extraction) -> list[NodeWithScore]:
        ranking = found.ranking()
        tell(ranking)
        told = [notice_node(asked.query_str, ranking)] if found.unknown and self.notice else []
        return [*told, *(segment_node(hit, found) for hit in found.segments)]


def _nodes_of(found: Ranking) -> Iterator[tuple[BaseNode, Hit]]:
    for hit in found.hits:
        if (node := carried_node(hit.chunk)) is not None:
            yield node, hit


def _given(ranking: Ranking) -> Step[Ranking]:
    """Return a ranking that is there already."""
    yield from ask([])
    return ranking

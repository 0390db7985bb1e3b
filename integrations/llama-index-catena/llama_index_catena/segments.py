"""Find the segments that answer, as a postprocessor over the user's own stores, and as a retriever."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias, Unpack, cast

from llama_index.core.bridge.pydantic import Field, PrivateAttr, field_serializer
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from catena import Chunk, Hit, ParameterError, Ranking, Services, arun, run
from catena.effects import (
    FetchChunks,
    FetchPlaces,
    FetchText,
    Handler,
    Request,
    Retry,
    Step,
    answered_by,
    ask,
    called,
    calling,
)
from catena.library import BaseLibrary, SegmentSearchOptions, boxed, segments_step
from catena.segments import (
    BALANCED,
    Calibration,
    Extraction,
    ExtractionParams,
    FetchLinked,
    Linked,
    SegmentSearch,
    calibration_for,
    documents_considered,
    follow_links,
    gather_links,
    links_between,
    placed_by_links,
    placed_by_offsets,
    preset,
)
from catena.structure import DSRAG, HeaderTemplate
from llama_index_catena.components import (
    CoreRetriever,
    checked_arguments,
    checked_with,
    given_options,
    revived_options,
    tell_degraded,
    written_options,
)
from llama_index_catena.convert import notice_node
from llama_index_catena.filters import Filters, where_of
from llama_index_catena.reranking import CALIBRATIONS, CorePostprocessor
from llama_index_catena.retrieval import RouteDegradedEvent, check_source, tell
from llama_index_catena.segment_nodes import (
    POSITION,
    apart,
    carried_node,
    counts_positions,
    linked_chunk,
    ranking_of,
    segment_node,
)
from llama_index_catena.services import LlamaIndexLLM, core_reranker, inherits, language_model
from llama_index_catena.stores import retrieved

Neighbours: TypeAlias = BaseDocumentStore | BasePydanticVectorStore | BaseLibrary

DOCUMENT_ID = "document_id"
"""Metadata key under which LlamaIndex's vector stores keep the id of a node's document."""

_IDENTITY = "llama-index neighbours"

_KINDS: dict[str, Any] = {"ExtractionParams": ExtractionParams, "HeaderTemplate": HeaderTemplate, **CALIBRATIONS}


class NeighbourStore:
    """Fetches the nodes beside those found for one question; made anew for each question.

    Nodes whose metadata name their `position` are fetched by it, in a docstore by the links from node to node, in
    a vector store by filters. Nodes without, as other node parsers make them, are placed by their links; `place` does
    so before segments are sought. Without a store, only nodes that were found themselves stand beside each other.

    Args:
        neighbours: a docstore, a vector store that gives its nodes, a library; None for no store.
        params: how long a segment may be: so far links are followed.

    Raises:
        ParameterError: it is none of these.
    """

    def __init__(self, neighbours: Neighbours | None, params: ExtractionParams) -> None:
        if neighbours is not None and not isinstance(neighbours, Neighbours):
            allowed = "a docstore, a vector store, a Library, or None; after from_dict, given again"
            raise ParameterError("neighbours", type(neighbours).__name__, allowed)
        if isinstance(neighbours, BasePydanticVectorStore) and inherits(
            neighbours, BasePydanticVectorStore, "get_nodes"
        ):  # as that of FAISS, which holds vectors alone
            allowed = "a vector store that gives its nodes (get_nodes), which it does not; the docstore of the index"
            raise ParameterError("neighbours", type(neighbours).__name__, allowed)
        self._neighbours, self._params = neighbours, params
        self._known: dict[str, Linked] = {}
        self._placed: dict[tuple[str, int], Chunk] = {}
        self._documents: frozenset[str] = frozenset()  # those that `place` numbered
        self._services = _services(neighbours)

    @property
    def handlers(self) -> Mapping[type[Request], Handler]:
        """The handlers of all that is asked while segments are sought."""
        steps: Mapping[type[Request], Any] = {FetchChunks: self._chunks, FetchText: self._texts}
        own = {kind: answered_by(_IDENTITY, step, self._services) for kind, step in steps.items()}
        if self._neighbours is None:
            return own
        kind = FetchPlaces if isinstance(self._neighbours, BaseLibrary) else FetchLinked
        return {**own, kind: self._services.handler(kind)}

    def place(self, rankings: tuple[Ranking, ...]) -> Step[tuple[Ranking, ...]]:
        """Return the rankings with the positions of their chunks, and remember their links.

        Chunks of documents in which every node found names its position keep these.
        """
        considered = frozenset(documents_considered(rankings, self._params.top_k))
        found = {hit.chunk.id: hit.chunk for ranking in rankings for hit in ranking.hits}
        self._known = {chunk.id: _linked(chunk) for chunk in found.values()}
        self._documents = frozenset(chunk.document_id for chunk in found.values() if not counts_positions(chunk))
        without = [each for each in self._known.values() if each.chunk.document_id in self._documents]
        if without and self._neighbours is not None and not isinstance(self._neighbours, BaseLibrary):
            near = [each for each in without if each.chunk.document_id in considered]
            far = [each for each in without if each.chunk.document_id not in considered]
            without = [*far, *(yield from gather_links(near, hops=self._params.max_chunks - 1))]
        numbered = {chunk.id: chunk for chunk in _numbered(without)}
        self._placed = {(chunk.document_id, chunk.position): chunk for chunk in numbered.values()}
        return tuple(_with_places(ranking, numbered) for ranking in rankings)

    def _chunks(self, request: FetchChunks) -> Step[tuple[tuple[Chunk, ...], ...]]:
        elsewhere = tuple(span for span in request.spans if span[0] not in self._documents)
        fetched = dict(zip(elsewhere, (yield from self._fetched(elsewhere)), strict=True))
        return tuple(
            fetched[span]
            if span in fetched
            else tuple(self._placed[span[0], at] for at in range(span[1], span[2]) if (span[0], at) in self._placed)
            for span in request.spans
        )

    def _fetched(self, spans: tuple[tuple[str, int, int], ...]) -> Step[tuple[tuple[Chunk, ...], ...]]:
        if not spans or self._neighbours is None:
            return ((),) * len(spans)
        if isinstance(self._neighbours, BaseDocumentStore):
            return (yield from follow_links(spans, self._known.values()))
        (reply,) = yield from ask([FetchChunks(spans=spans)])
        return tuple(reply)

    def _texts(self, request: FetchText) -> Step[tuple[str | None, ...]]:
        if isinstance(self._neighbours, BaseLibrary):
            (reply,) = yield from ask([request])
            return tuple(reply)
        if not isinstance(self._neighbours, BaseDocumentStore):
            return (None,) * len(request.spans)
        ids = tuple(dict.fromkeys(document_id for document_id, _, _ in request.spans))
        (documents,) = yield from ask([FetchLinked(ids=ids)])
        texts = {linked.chunk.id: linked.chunk.text for linked in documents}
        return tuple(
            None if document_id not in texts else texts[document_id][start:end]
            for document_id, start, end in request.spans
        )


def _linked(chunk: Chunk) -> Linked:
    node = carried_node(chunk)
    return Linked(chunk) if node is None else replace(linked_chunk(node), chunk=chunk)


def _numbered(without: Sequence[Linked]) -> tuple[Chunk, ...]:
    """Return chunks with positions: by their links, those of documents without any link by their offsets."""
    linked_documents = {each.chunk.document_id for each in without if each.previous or each.next}
    by_offsets = [each.chunk for each in without if each.chunk.document_id not in linked_documents]
    by_links = [each for each in without if each.chunk.document_id in linked_documents]
    return (
        *placed_by_links((each.chunk for each in by_links), links_between(by_links)),
        *placed_by_offsets(by_offsets),
    )


def _with_places(ranking: Ranking, numbered: dict[str, Chunk]) -> Ranking:
    hits = (Hit(numbered.get(hit.chunk.id, hit.chunk), hit.score, hit.provenance) for hit in ranking.hits)
    return replace(ranking, hits=tuple(hits))


def _services(neighbours: Neighbours | None) -> Services:
    if neighbours is None:
        return Services()
    if isinstance(neighbours, BaseLibrary):
        return Services(store=neighbours.store)
    identity, store = f"llama-index:{type(neighbours).__name__}", cast("Any", neighbours)
    vectors = isinstance(neighbours, BasePydanticVectorStore)
    blocks = vectors and inherits(neighbours, BasePydanticVectorStore, "aget_nodes")
    calls = Services(handlers=calling(identity), retry=Retry(attempts=1))  # who asks tries again

    def nodes(**which: Any) -> Step[list[Linked]]:
        get, aget = partial(store.get_nodes, **which), partial(store.aget_nodes, **which)
        return list(map(linked_chunk, (yield from called(get, partial(asyncio.to_thread, get) if blocks else aget))))

    def linked(request: FetchLinked) -> Step[list[Linked]]:
        return nodes(node_ids=list(request.ids), **({} if vectors else {"raise_error": False}))

    def between(request: FetchChunks) -> Step[tuple[tuple[Chunk, ...], ...]]:
        found = []
        for span in request.spans:
            chunks = [each.chunk for each in (yield from nodes(**_within(*span)))]
            found.append(tuple(sorted(chunks, key=lambda chunk: (chunk.position, chunk.id))))
        return tuple(found)

    steps: Mapping[type[Request], Any] = {FetchLinked: linked, FetchChunks: between}
    return Services(handlers={kind: answered_by(identity, step, calls) for kind, step in steps.items()})


def _within(document_id: str, first: int, end: int) -> dict[str, Any]:
    """Return which nodes stand in these places, as vector stores are asked; Chroma's wants both named."""
    within = [
        MetadataFilter(key=DOCUMENT_ID, value=document_id),
        MetadataFilter(key=POSITION, value=first, operator=FilterOperator.GTE),
        MetadataFilter(key=POSITION, value=end, operator=FilterOperator.LT),
    ]
    return {"node_ids": None, "filters": MetadataFilters(filters=[*within])}


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
            "find_all". None takes what `budget_tokens` allows, as `catena.segments.search.SegmentSearch` does.
        calibration: what a node's score says of relevance. Not needed where `CatenaRerank` made it a probability, and
            where there is none: then the order counts. `Constant()` believes the order of any score.
        never_empty: return the best segment, and say so, where none is worth `params.minimum_value`.
        header: the words before a segment, counted where a budget is in tokens; None where the reader is given none.
        fields: `budget_tokens`, of all segments together, headers counted, not looked at where `params` are given;
            and those of every LlamaIndex postprocessor. With `from_dict`, neighbours are given again, and so is a
            calibration of your own.

    Raises:
        ParameterError: an argument is out of range, or neighbours are none.
    """

    neighbours: Any = Field(default=None, description="Where the nodes beside those found are.")
    params: Any = Field(default=None, description="What a segment is worth and how long it may be.")
    budget_tokens: int = Field(default=SegmentSearch().budget_tokens, ge=1, description="Of all segments together.")
    calibration: Any = Field(default=None, description="What a node's score says of relevance.")
    never_empty: bool = Field(default=True, description="Return the best segment where none is worth enough.")
    header: Any = Field(default=DSRAG, description="The words before a segment.")
    _outside: Services = PrivateAttr(default_factory=Services)  # one, so that a dead store is remembered

    @checked_arguments
    def __init__(
        self,
        neighbours: Neighbours | None = None,
        *,
        params: ExtractionParams | Literal["balanced", "precision", "find_all"] | None = None,
        calibration: Calibration | None = None,
        never_empty: bool = True,
        header: HeaderTemplate | None = DSRAG,
        **fields: Any,
    ) -> None:
        revived = {"calibration": revived_options(calibration, _KINDS), "header": revived_options(header, _KINDS)}
        given = preset(params) if isinstance(params, str) else params
        how = given_options("params", given, {"ExtractionParams": ExtractionParams})
        NeighbourStore(neighbours, how or BALANCED)  # refuses what is no store now, not at the first question
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
        ranking, store = ranking_of(passages), NeighbourStore(self.neighbours, self.params or BALANCED)
        how = SegmentSearch(
            extraction=self.params,
            budget_tokens=self.budget_tokens,
            never_empty=self.never_empty,
            header=self.header,
            calibration=calibration_for(ranking, self.calibration),
        )
        step = segments_step(asked.query_str, how, ranked=lambda _: _given(ranking), place=store.place)
        return boxed(step), replace(self._outside, handlers=store.handlers)

    def _nodes(self, passages: Sequence[NodeWithScore], found: Extraction) -> list[NodeWithScore]:
        known = ranking_of(passages).degraded
        tell_degraded((part for part in found.degraded if part not in known), RouteDegradedEvent)
        return [segment_node(hit, found) for hit in found.segments]

    def _named(self, count: int) -> tuple[str, int]:
        params = self.params or BALANCED
        return f"catena-segments/{params.selection}", params.overall_max_chunks


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
        for name, wanted in {"reranker": self.options.rerank, "llm": self.options.queries_by == "llm"}.items():
            if wanted and getattr(self._services, name) is None:
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
            return boxed(segments_step(question, self.options, self.search)), self._services
        store = NeighbourStore(self._neighbours, self.options.extraction or BALANCED)
        services = replace(self._services, handlers={**store.handlers, **calling("retriever")})
        return boxed(segments_step(question, self.options, ranked=self._ranked, place=store.place)), services

    def _ranked(self, query: str) -> Step[Ranking]:
        assert self._retriever is not None
        found = yield from retrieved(self._retriever, QueryBundle(query), "search", waited_for=True)
        ranking = ranking_of(apart(found)[0])
        return replace(ranking, hits=ranking.hits[: self.options.depth])

    def _nodes(self, asked: QueryBundle, found: Extraction) -> list[NodeWithScore]:
        ranking = found.ranking()
        tell(ranking)
        told = [notice_node(asked.query_str, ranking)] if found.unknown and self.notice else []
        return [*told, *(segment_node(hit, found) for hit in found.segments)]


def _given(ranking: Ranking) -> Step[Ranking]:
    """Return a ranking that is there already."""
    yield from ask([])
    return ranking

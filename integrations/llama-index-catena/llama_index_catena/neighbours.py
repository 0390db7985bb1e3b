"""Fetch the nodes beside those found from the user's own docstore or vector store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from llama_index.core.schema import BaseNode
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from catena import Chunk, Hit, ParameterError, Ranking, Services, arun, run
from catena.effects import FetchChunks, FetchText, Handler, Request, Search, Step, ask, service_error
from catena.library import BaseLibrary
from catena.segments import (
    ExtractionParams,
    FetchLinked,
    Linked,
    documents_considered,
    follow_links,
    gather_links,
    links_between,
    placed_by_links,
    placed_by_offsets,
)
from llama_index_catena.segment_nodes import POSITION, carried_node, counts_positions, linked_chunk
from llama_index_catena.services import inherits

Neighbours: TypeAlias = BaseDocumentStore | BasePydanticVectorStore | BaseLibrary

DOCUMENT_ID = "document_id"
"""Metadata key under which LlamaIndex's vector stores keep the id of a node's document."""


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

    identity = "llama-index neighbours"
    routes = ()

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
        """The handlers of the requests of `place`."""
        known = self._services.handlers
        return {kind: handler for kind, handler in known.items() if kind is FetchLinked}

    def search(self, request: Search) -> Ranking:
        """Refuse: it finds nothing for a query."""
        raise ParameterError("route", request.route, "none: this store only knows neighbours")

    def chunks(self, request: FetchChunks) -> tuple[tuple[Chunk, ...], ...]:
        """Return the chunks of each span, as far as they are known or can be reached."""
        return run(self._chunks(request), self._services)

    async def achunks(self, request: FetchChunks) -> tuple[tuple[Chunk, ...], ...]:
        """As `chunks`, without blocking the event loop."""
        return await arun(self._chunks(request), self._services)

    def texts(self, request: FetchText) -> tuple[str | None, ...]:
        """Return slices of documents, where the store holds these too, as an ingestion pipeline's docstore does."""
        return run(self._texts(request), self._services)

    async def atexts(self, request: FetchText) -> tuple[str | None, ...]:
        """As `texts`, without blocking the event loop."""
        return await arun(self._texts(request), self._services)

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
    nodes = _Nodes(neighbours)
    handlers: dict[type, Handler] = {
        FetchLinked: Handler(identity=nodes.identity, call=nodes.linked, acall=nodes.alinked),
        FetchChunks: Handler(identity=nodes.identity, call=nodes.between, acall=nodes.abetween),
    }
    return Services(handlers=handlers)


class _Nodes:
    """The nodes of a docstore or a vector store, by id or by place."""

    def __init__(self, store: BaseDocumentStore | BasePydanticVectorStore) -> None:
        self._store = store
        self.identity = f"llama-index:{type(store).__name__}"

    def linked(self, request: FetchLinked) -> tuple[Linked, ...]:
        """Return the nodes of these ids that the store has."""
        return self._all(lambda: self._by_id(request))

    async def alinked(self, request: FetchLinked) -> tuple[Linked, ...]:
        """As `linked`, without blocking the event loop."""
        if isinstance(self._store, BasePydanticVectorStore):
            if inherits(self._store, BasePydanticVectorStore, "aget_nodes"):
                return await asyncio.to_thread(self.linked, request)
            return await self._aall(self._store.aget_nodes(node_ids=list(request.ids)))
        return await self._aall(self._store.aget_nodes(list(request.ids), raise_error=False))

    def between(self, request: FetchChunks) -> tuple[tuple[Chunk, ...], ...]:
        """Return the nodes of these places, as a vector store finds them by filters."""
        return tuple(
            _in_order(self._all(lambda span=span: self._filtered(span)))  # type: ignore[misc]
            for span in request.spans
        )

    async def abetween(self, request: FetchChunks) -> tuple[tuple[Chunk, ...], ...]:
        """As `between`, without blocking the event loop."""
        store = self._store
        if isinstance(store, BaseDocumentStore) or inherits(store, BasePydanticVectorStore, "aget_nodes"):
            return await asyncio.to_thread(self.between, request)
        return tuple(
            [
                _in_order(await self._aall(store.aget_nodes(node_ids=None, filters=_within(span))))
                for span in request.spans
            ]
        )

    def _by_id(self, request: FetchLinked) -> Sequence[BaseNode]:
        if isinstance(self._store, BasePydanticVectorStore):
            return self._store.get_nodes(node_ids=list(request.ids))
        return self._store.get_nodes(list(request.ids), raise_error=False)

    def _filtered(self, span: tuple[str, int, int]) -> Sequence[BaseNode]:
        store: Any = self._store
        return list(store.get_nodes(node_ids=None, filters=_within(span)))  # Chroma's store asks for both

    def _all(self, fetch: Callable[[], Sequence[BaseNode]]) -> tuple[Linked, ...]:
        try:
            return tuple(map(linked_chunk, fetch()))
        except Exception as error:
            raise service_error(error, self.identity, holder=self._store) from None

    async def _aall(self, fetching: Coroutine[Any, Any, Sequence[BaseNode]]) -> tuple[Linked, ...]:
        try:
            return tuple(map(linked_chunk, await fetching))
        except Exception as error:
            raise service_error(error, self.identity, holder=self._store) from None


def _within(span: tuple[str, int, int]) -> MetadataFilters:
    document_id, first, end = span
    return MetadataFilters(
        filters=[
            MetadataFilter(key=DOCUMENT_ID, value=document_id),
            MetadataFilter(key=POSITION, value=first, operator=FilterOperator.GTE),
            MetadataFilter(key=POSITION, value=end, operator=FilterOperator.LT),
        ]
    )


def _in_order(found: Iterable[Linked]) -> tuple[Chunk, ...]:
    return tuple(sorted((linked.chunk for linked in found), key=lambda chunk: (chunk.position, chunk.id)))

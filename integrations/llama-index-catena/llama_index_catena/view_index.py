"""Keep an index of views and a docstore of their parents in step with documents that change."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Literal, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from llama_index.core import VectorStoreIndex
from llama_index.core.callbacks import CallbackManager
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    NodeRelationship,
    NodeWithScore,
    ObjectType,
    QueryBundle,
    QueryType,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterCondition,
    MetadataFilter,
    MetadataFilters,
)

from catena import Chunk, Degraded, ParameterError, Ranking, Services, arun, run
from catena.effects import Retry, Search, Step, answered_by, called, calling
from catena.enrichment import (
    KEYWORDS,
    LEDGER,
    SUMMARY,
    Held,
    ParentViews,
    ViewRecord,
    add_views,
    delete_views,
    record_key,
    replace_views,
)
from catena.enrichment import ViewChanges as ViewChanges  # noqa: PLC0414  # a name of this package, too
from catena.model import digest
from catena.retrieval import (
    FoundViews,
    OnViewError,
    PaperQuota,
    Route,
    ViewRule,
    dense_by_texts,
    found_by,
    rank_parents,
    retrieve_views,
    search_kind,
    stored,
)
from catena.structure import PASSAGE
from llama_index_catena.components import CoreRetriever, ajournalled, checked_arguments, journalled, tell_degraded
from llama_index_catena.convert import scores_of, to_node, with_told
from llama_index_catena.documents import document_of, text_of
from llama_index_catena.retrieval import tell
from llama_index_catena.segment_nodes import carried_node, linked_chunk
from llama_index_catena.services import LlamaIndexEmbedder, inherits
from llama_index_catena.stores import copied, retrieved
from llama_index_catena.views import VIEW, CatenaViewExtractor, ViewsDegradedEvent, parent_of, with_content_ids

VIEWS = (PASSAGE, KEYWORDS, SUMMARY)
"""The kinds that `CatenaViewExtractor` makes by default."""

Parents: TypeAlias = BaseDocumentStore | Mapping[str, BaseNode]
"""Where the nodes are that views lead to: a docstore, or id -> node as of LlamaIndex's `RecursiveRetriever`."""

Filtering: TypeAlias = Literal["filter", "over-fetch"]
"""How an index is searched for views of one kind: by its vector store's filter on metadata, or by more hits than
needed, of which those of the kind are kept."""

Find: TypeAlias = Callable[[Search], Step[FoundViews[BaseNode]]]
"""From a request to about `k` views of its kind."""


class CatenaMultiViewRetriever(CoreRetriever[Ranking]):
    """Finds nodes under several views, as MC-indexing does, and returns each once, in raw text.

        CatenaMultiViewRetriever(VectorStoreIndex(nodes), views=("passage", "keywords", "summary"), parents=docstore)
        CatenaMultiViewRetriever({"headed": BM25Retriever.from_defaults(nodes=sections), "summary": dense},
                                 parents={node.node_id: node for node in sections}, rule=ViewRankFusion())

    Views are `IndexNode`s that lead to a parent by `index_id`, or carry it as `obj`, as `CatenaViewExtractor` or any
    recipe for recursive retrieval makes them; of several views of a parent the best counts. A node that leads to no
    other is a parent itself; where retrievers know one that tells its place in its document under several ids, it is
    one.

    `llama_index_catena.convert.provenance(node)` says by which `views` a node was found (kind -> rank there, from 1),
    and by which `routes` (with raw scores; distances, which rise down a list, as negative numbers).

    A view that fails, and one whose parent is missing, is told in that provenance, in the log and as a
    `RouteDegradedEvent`. A question is embedded once for all views of an index.

    Args:
        source: an index of views of all kinds, told apart by `metadata["view"]`, or kind -> any retriever of views
            (or of parents) of this kind.
        views: kinds in the order in which they take turns; by default those that `CatenaViewExtractor` makes, or all
            retrievers.
        rule: how the views' rankings become one: `PaperQuota()`, whose number of nodes varies, `ExactUnion()`,
            `ViewRankFusion()`, `ViewScoreFusion()`.
        similarity_top_k: nodes returned; the paper's rule takes 1.5, too.
        parents: the docstore, or id -> node; by default the docstore of the index. Not needed where views carry their
            parents or retrievers return these.
        depth: views looked at per kind, at least; by default max(3 k, 30). More of an index, where these lead to
            fewer than k.
        filters: on the views' metadata, in an index.
        filtering: how an index finds views of one kind; "over-fetch" where its store cannot filter.
        on_view_error: "degrade" goes on with the other views; "raise" raises.
        callback_manager: told of each retrieval, as by every LlamaIndex retriever.
        verbose: as LlamaIndex has it.

    Raises:
        ParameterError: there is no source, views without a retriever are named, or filters without an index.
    """

    @checked_arguments
    def __init__(
        self,
        source: VectorStoreIndex | Mapping[str, BaseRetriever],
        *,
        views: Sequence[str] | None = None,
        rule: ViewRule | None = None,
        similarity_top_k: float = 3,
        parents: Parents | None = None,
        depth: int | None = None,
        filters: MetadataFilters | None = None,
        filtering: Filtering = "filter",
        on_view_error: OnViewError = "degrade",
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        self._index = source if isinstance(source, VectorStoreIndex) else None
        self._retrievers = dict(source) if isinstance(source, Mapping) else {}
        if self._index is None and not self._retrievers:
            raise ParameterError("source", type(source).__name__, "a VectorStoreIndex, or kind of view -> retriever")
        self.views = tuple(views if views is not None else self._retrievers or VIEWS)
        if self._index is None and (unknown := sorted(set(self.views) - set(self._retrievers))):
            raise ParameterError("views", unknown, f"of those with a retriever {sorted(self._retrievers)}")
        if self._index is None and filters is not None:
            raise ParameterError("filters", filters, "set on the retrievers, where there are some")
        if filtering not in ("filter", "over-fetch"):
            raise ParameterError("filtering", filtering, "'filter' or 'over-fetch'")
        if parents is not None and not isinstance(parents, BaseDocumentStore | Mapping):
            raise ParameterError("parents", type(parents).__name__, "a docstore, id -> node, or None")
        self.parents = self._index.docstore if parents is None and self._index is not None else parents
        self.rule, self.similarity_top_k, self.depth = rule or PaperQuota(), similarity_top_k, depth
        self.filters, self.filtering, self.on_view_error = filters, filtering, on_view_error
        embed_model: Any = getattr(self._index, "_embed_model", None)  # LlamaIndex has no public name for it
        embedder = None if embed_model is None else LlamaIndexEmbedder(embed_model)
        self._outside = Services(embedder=embedder)  # one, so that a dead view is remembered

    def ranking(self, query: QueryType) -> Ranking:
        """Return the core's ranking: parents with the views that found them, and what failed."""
        return self._found(query)

    async def aranking(self, query: QueryType) -> Ranking:
        """As `ranking`, without blocking the event loop."""
        return await self._afound(query)

    def _question(self, asked: QueryBundle) -> tuple[Step[Ranking], Services]:
        find = self._in_retriever(asked) if self._index is None else self._in_index
        services = Services(handlers=calling("llama-index"), retry=Retry(attempts=1))  # who asks tries again

        def ranked(request: Search) -> Step[Ranking]:
            route = type(self._index or self._retrievers[str(request.view)]).__name__
            return rank_parents(request, find, self._parents_of, route=route, k=self.similarity_top_k)

        handler = answered_by("llama-index:views", ranked, services)
        return self._step(asked), replace(self._outside, handlers={Search: handler})

    def _nodes(self, asked: QueryBundle, found: Ranking) -> list[NodeWithScore]:
        return view_results(found)

    def _step(self, asked: QueryBundle) -> Step[Ranking]:
        route = self._route(asked)
        ranking = yield from retrieve_views(
            asked.query_str,
            views=self.views,
            k=self.similarity_top_k,
            rule=self.rule,
            search=lambda kind: route,
            depth=self.depth,
            on_view_error=self.on_view_error,
        )
        return ranking if self._index is not None else named(ranking)

    def _route(self, asked: QueryBundle) -> Route:
        """Return how a view is asked for: with the question's vector where an index compares vectors."""
        if self._index is None or not self._index.vector_store.is_embedding_query:
            return stored("views")
        return dense_by_texts(asked.embedding_strs) if asked.embedding is None else _by_vector(asked.embedding)

    def _in_retriever(self, asked: QueryBundle) -> Find:
        """Return the search for views by one retriever per kind, which decides itself how many it gives."""

        def find(request: Search) -> Step[FoundViews[BaseNode]]:
            retriever = self._retrievers[str(request.view)]
            return _views((yield from retrieved(retriever, copied(asked), f"view {request.view}")), all=True)

        return find

    def _in_index(self, request: Search) -> Step[FoundViews[BaseNode]]:
        """Find views in an index that holds all kinds, told apart by `metadata["view"]`."""
        index, kind = self._index, str(request.view)
        assert index is not None
        of_kind = None if self.filtering == "over-fetch" else _filters(kind, self.filters)

        def search(size: int, filtered: bool) -> Step[list[NodeWithScore]]:
            held, ids = of_kind if filtered else self.filters, list(index.index_struct.nodes_dict.values())
            retriever = _ViewRetriever(index, similarity_top_k=size, filters=held, node_ids=ids)
            vector = None if request.vector is None else [float(value) for value in request.vector]
            return retrieved(retriever, QueryBundle(request.query, embedding=vector), f"view {kind}")

        views, is_all, degraded = yield from search_kind(
            request,
            len(self.views),
            search,
            lambda found: found.node.metadata.get(VIEW) == kind,
            filters=of_kind is not None,
            store=type(index.vector_store).__name__,
            key=VIEW,
            instead="searched without",
        )
        return _views(views, all=is_all, degraded=degraded)

    def _parents_of(self, found: Sequence[BaseNode]) -> Step[tuple[list[Chunk | None], list[str]]]:
        carried = {node.node_id: node.obj for node in found if isinstance(node, IndexNode)}
        carried = {name: parent for name, parent in carried.items() if isinstance(parent, BaseNode)}
        ids = [None if node.node_id in carried else parent_of(node) for node in found]
        wanted = list(dict.fromkeys(name for name in ids if name is not None))
        held = yield from fetched(self.parents, wanted)
        parents = [
            self._chunk(carried.get(node.node_id, node) if name is None else held.get(name))
            for name, node in zip(ids, found, strict=True)
        ]
        return parents, [name for name in wanted if name not in held]

    def _chunk(self, parent: BaseNode | None) -> Chunk | None:
        if parent is None:
            return None
        chunk = linked_chunk(parent).chunk
        return replace(chunk, id=(_place(parent) if self._index is None else None) or chunk.id)


def _by_vector(vector: Sequence[float]) -> Route:
    """Return the dense route with this vector in place of the query's."""

    def route(query: str) -> Step[Search]:
        yield from ()  # a step, though it has nothing to ask
        return Search(route="dense", query=query, vector=vector, k=0)

    return route


def view_results(ranking: Ranking) -> list[NodeWithScore]:
    """Return hits as nodes whose `provenance(node)["views"]` says by which views, and tell what failed."""
    tell(ranking)
    return [with_told(to_node(hit, ranking), views=found_by(hit)) for hit in ranking.hits]


def _views(found: Sequence[NodeWithScore], *, all: bool, degraded: tuple[Degraded, ...] = ()) -> FoundViews[BaseNode]:
    scores, scale = scores_of(found)
    views = [(each.node, score) for each, score in zip(found, scores, strict=True)]
    return FoundViews(views=views, all=all, scale=scale, degraded=degraded)


def named(ranking: Ranking) -> Ranking:
    """Return hits under the ids of their nodes again."""
    hits = []
    for hit in ranking.hits:
        node = carried_node(hit.chunk)
        hits.append(hit if node is None else replace(hit, chunk=replace(hit.chunk, id=node.node_id)))
    return replace(ranking, hits=tuple(hits))


def _place(node: BaseNode) -> str | None:
    """Return what names a node whatever id a store or an index gave it; None where it tells no place."""
    if not isinstance(node, TextNode) or node.ref_doc_id is None:
        return None
    start, end = node.start_char_idx, node.end_char_idx
    return None if start is None or end is None else digest("place", node.ref_doc_id, str(start), str(end), length=32)


class _ViewRetriever(VectorIndexRetriever):
    """Gives views as they stand in the index; as its base it would give some of their parents, without their rank."""

    def _handle_recursive_retrieval(
        self, query_bundle: QueryBundle, nodes: list[NodeWithScore]
    ) -> list[NodeWithScore]:
        return nodes

    async def _ahandle_recursive_retrieval(
        self, query_bundle: QueryBundle, nodes: list[NodeWithScore]
    ) -> list[NodeWithScore]:
        return nodes


def fetched(parents: Parents | None, ids: list[str]) -> Step[dict[str, BaseNode]]:
    """Return id -> parent of those that are there."""
    if not ids:
        return {}
    if parents is None:
        raise ParameterError("parents", None, "given: what is found leads to its parent by id")
    if isinstance(parents, Mapping):
        return {name: parents[name] for name in ids if name in parents}
    nodes = yield from called(
        lambda: parents.get_nodes(ids, raise_error=False),
        lambda: parents.aget_nodes(ids, raise_error=False),
        purpose="parents",
    )
    return {node.node_id: node for node in nodes}


def _filters(kind: str, filters: MetadataFilters | None) -> MetadataFilters | None:
    """Return the filter for a kind beside the user's own; None where both do not go into one flat filter."""
    of_kind = MetadataFilter(key=VIEW, value=kind)
    if filters is None or not filters.filters:
        return MetadataFilters(filters=[of_kind])
    if filters.condition not in (None, FilterCondition.AND) and len(filters.filters) > 1:
        return None  # few stores read filters within filters
    return MetadataFilters(filters=[of_kind, *filters.filters])


T = TypeVar("T")

_GUARD = Lock()

_WRITING: WeakKeyDictionary[VectorStoreIndex, Lock] = WeakKeyDictionary()


class CatenaViewIndex:
    """Writes views into an index and their parents into its docstore, and keeps both as the documents are.

        parser = CatenaNodeParser(chunks=SectionChunkOptions())
        views = CatenaViewIndex(VectorStoreIndex([], embed_model=...), CatenaViewExtractor(llm=llm))
        views.add(parser.get_nodes_from_documents(documents))
        views.replace(parser.get_nodes_from_documents(changed))
        views.delete("manuals/hx210.md")
        retriever = views.retriever(similarity_top_k=3)

    All views of a section that changed are replaced, and none of one that did not: no model is asked for it, and
    nothing of it is embedded. What is made offline is made again from the whole new document, as the weight of a
    keyword depends on it; only texts that came out otherwise are written. Parents are named by their contents, see
    `with_content_ids`.

    What stands where is kept in the docstore, one record per document, as a node of that document. New views are
    written before old ones are removed; a call that failed anywhere is made good by the same or any later one for
    that document, and what a model wrote before it failed is not asked for again once it was noted. One process at a
    time may change a document.

    Delete documents here: LlamaIndex's own `index.delete_ref_doc` stops half-way at nodes that stand in the docstore
    alone, or leaves them where the vector store keeps texts; `delete` then removes the rest. The docstore holds views
    and records, too: fill a lexical retriever with the nodes that are given here, not with all that it holds.

    Args:
        index: with a vector store that deletes nodes by id, and a docstore that is persisted where the index is.
        views: which views, and by which model.
        ledger: what the ids of records begin with.

    Raises:
        ParameterError: there is no index, its vector store deletes no nodes by id, or views carry their parents.
    """

    @checked_arguments
    def __init__(
        self, index: VectorStoreIndex, views: CatenaViewExtractor | None = None, *, ledger: str = LEDGER
    ) -> None:
        if not isinstance(index, VectorStoreIndex):
            raise ParameterError("index", type(index).__name__, "a VectorStoreIndex")
        store: Any = index.vector_store
        if inherits(store, BasePydanticVectorStore, "delete_nodes"):
            raise ParameterError("vector_store", type(store).__name__, "one that deletes nodes by id (delete_nodes)")
        self.views = CatenaViewExtractor() if views is None else views
        if self.views.parents != "beside":
            raise ParameterError("parents", self.views.parents, "'beside': the docstore keeps each parent once")
        self.index, self.ledger = index, ledger

    def add(self, nodes: Sequence[BaseNode]) -> ViewChanges:
        """Add new documents.

        Args:
            nodes: all parents (sections) of each document, in reading order.

        Raises:
            DuplicateDocumentError: a document is there already, with other parents; nothing was changed.
            ServiceError: a store failed; the same call makes it good.
        """
        return self._run(add_views(self._stores, self._by_document(nodes)))

    async def aadd(self, nodes: Sequence[BaseNode]) -> ViewChanges:
        """As `add`, without blocking the event loop."""
        return await self._arun(add_views(self._stores, self._by_document(nodes)))

    def replace(self, nodes: Sequence[BaseNode], *, sources: Sequence[str] = ()) -> ViewChanges:
        """Bring documents, new or known, to what is given; what did not change is left alone.

        Args:
            nodes: as for `add`. A section of a known document that is not among them is removed.
            sources: ids of all documents that were read. One that gave no node, an empty file, is not seen
                otherwise, and would stay as it was.

        Raises:
            ServiceError: a store failed; the same call makes it good.
        """
        return self._run(self._replaced(nodes, sources))

    async def areplace(self, nodes: Sequence[BaseNode], *, sources: Sequence[str] = ()) -> ViewChanges:
        """As `replace`, without blocking the event loop."""
        return await self._arun(self._replaced(nodes, sources))

    def delete(self, *ref_doc_ids: str) -> ViewChanges:
        """Remove documents with all their parents and views; one that is not there is as it should be.

        Raises:
            ServiceError: a store failed; the same call makes it good.
        """
        return self._run(delete_views(self._stores, ref_doc_ids))

    async def adelete(self, *ref_doc_ids: str) -> ViewChanges:
        """As `delete`, without blocking the event loop."""
        return await self._arun(delete_views(self._stores, ref_doc_ids))

    def sources(self) -> tuple[str, ...]:
        """Return the ids of the documents that are there, sorted."""
        return self._run(self._stores.sources())

    async def asources(self) -> tuple[str, ...]:
        """As `sources`, without blocking the event loop."""
        return await self._arun(self._stores.sources())

    def retriever(self, **options: Any) -> CatenaMultiViewRetriever:
        """Return a retriever over index and docstore; options as of `CatenaMultiViewRetriever`."""
        return CatenaMultiViewRetriever(self.index, **{"views": self.views.kinds, **options})

    @property
    def _stores(self) -> _Stores:
        return _Stores(self.index, self.views, self.ledger)

    def _run(self, step: Step[T]) -> T:
        with journalled(self._services(), self.views.journal) as services:
            return run(step, services)

    async def _arun(self, step: Step[T]) -> T:
        async with ajournalled(self._services(), self.views.journal) as services:
            return await arun(step, services)

    def _services(self) -> Services:
        services = self.views.services
        identity = f"llama-index:{type(self.index.vector_store).__name__} and {type(self.index.docstore).__name__}"
        return replace(services, handlers={**services.handlers, **calling(identity)})

    def _replaced(self, nodes: Sequence[BaseNode], read: Sequence[str]) -> Step[ViewChanges]:
        if isinstance(read, str):
            raise ParameterError("sources", read, "a sequence of ids of documents")
        return replace_views(self._stores, self._by_document(nodes), read)

    def _by_document(self, nodes: Sequence[BaseNode]) -> dict[str, dict[str, BaseNode]]:
        given = [node for node in nodes if VIEW not in node.metadata]
        documents: dict[str, dict[str, BaseNode]] = defaultdict(dict)
        for node in with_content_ids(given, metadata_keys=self.views.metadata_keys):
            documents[document_of(node)][node.node_id] = node
        return documents


class _Stores:
    """An index of views, and its docstore with their parents and records, as steps; see `ViewStores`."""

    where = "index of views"

    def __init__(self, index: VectorStoreIndex, views: CatenaViewExtractor, ledger: str) -> None:
        self._index, self._views, self._ledger = index, views, ledger

    @property
    def version(self) -> str:
        return self._views.version

    def sources(self) -> Step[tuple[str, ...]]:
        docstore = self._index.docstore
        known = yield from called(docstore.get_all_ref_doc_info, docstore.aget_all_ref_doc_info)
        return tuple(sorted((yield from self.records(list(known or ())))))

    def records(self, sources: Sequence[str]) -> Step[dict[str, ViewRecord]]:
        ids = [record_key(self._ledger, name) for name in dict.fromkeys(sources)]
        docstore = self._index.docstore
        found = yield from called(
            lambda: docstore.get_nodes(ids, raise_error=False), lambda: docstore.aget_nodes(ids, raise_error=False)
        )
        records = (ViewRecord.from_json(text_of(node), node.node_id) for node in found)
        return {record.source: record for record in records}

    def hash_of(self, parent: BaseNode) -> str:
        return digest(parent.to_json(), length=32)

    def made(
        self, source: str, parents: Sequence[BaseNode], held: Held
    ) -> Step[tuple[ParentViews[IndexNode], dict[str, IndexNode]]]:
        made = yield from self._views.made(source, parents, held)
        tell_degraded(made.degraded, ViewsDegradedEvent, of=source)
        return made, {view.node_id: view for views in made.views.values() for view in views}

    def noted(self, record: ViewRecord) -> Step[None]:
        """Keep a record as a node, which belongs to the document, and goes with it."""
        source = RelatedNodeInfo(node_id=record.source, node_type=ObjectType.DOCUMENT)
        key = record_key(self._ledger, record.source)
        node = TextNode(id_=key, text=record.to_json(), relationships={NodeRelationship.SOURCE: source})
        return self.parents_kept({key: node})

    def forgotten(self, record: ViewRecord) -> Step[None]:
        return self.parents_dropped([record_key(self._ledger, record.source)])

    def parents_kept(self, parents: Mapping[str, BaseNode]) -> Step[None]:
        docstore, nodes = self._index.docstore, list(parents.values())
        if nodes:
            yield from called(lambda: docstore.add_documents(nodes), lambda: docstore.async_add_documents(nodes))

    def parents_dropped(self, ids: Sequence[str]) -> Step[None]:
        docstore = self._index.docstore

        def drop() -> None:
            for name in ids:
                docstore.delete_document(name, raise_error=False)

        if ids:  # its async twin leaves the ids in the document's `RefDocInfo`
            yield from called(drop, lambda: asyncio.to_thread(drop))

    def views_added(self, views: Mapping[str, IndexNode], *, again: bool) -> Step[int]:
        """Embed views and write them; not every store replaces equal ids."""
        index, nodes = self._index, list(views.values())
        own = not inherits(index.vector_store, BasePydanticVectorStore, "async_add")
        if again:
            yield from self._out_of_index(list(views))
        if nodes:
            ado = (lambda: index.ainsert_nodes(nodes)) if own else None
            yield from self._alone(lambda: index.insert_nodes(nodes), ado, purpose="new views")
        return len(nodes)

    def views_dropped(self, ids: Sequence[str]) -> Step[int]:
        yield from self._out_of_index(ids)
        yield from self.parents_dropped(ids)
        return len(ids)

    def _out_of_index(self, ids: Sequence[str]) -> Step[None]:
        """Take views out of the vector store, and out of the index, which keeps them where the store has texts."""
        store: Any = self._index.vector_store
        own, gone = not inherits(store, BasePydanticVectorStore, "adelete_nodes"), list(ids)
        if gone:
            ado = (lambda: store.adelete_nodes(gone)) if own else None
            yield from self._alone(lambda: store.delete_nodes(gone), ado, purpose="old views")
            yield from self._forgotten(set(gone))

    def _forgotten(self, gone: set[str]) -> Step[None]:
        index = self._index

        def forget() -> None:
            struct = index.index_struct
            for text_id in [key for key, node_id in struct.nodes_dict.items() if node_id in gone]:
                struct.delete(text_id)
            index.storage_context.index_store.add_index_struct(struct)

        async def aforget() -> None:  # where the index itself notes what it was given: on the event loop
            with _lock_of(index):
                forget()

        inherited = inherits(index.vector_store, BasePydanticVectorStore, "async_add")
        yield from self._alone(forget, None if inherited else aforget)

    def _alone(
        self, do: Callable[[], Any], ado: Callable[[], Awaitable[Any]] | None, *, purpose: str = "store"
    ) -> Step[None]:
        """Write into the index, one thread at a time, or by asyncio where its store can."""
        index = self._index

        def alone() -> None:
            with _lock_of(index):
                do()

        yield from called(alone, ado or (lambda: asyncio.to_thread(alone)), purpose=purpose)


def _lock_of(index: VectorStoreIndex) -> Lock:
    """Return the lock under which threads write into an index: it and stores in memory serve one at a time."""
    with _GUARD:
        return _WRITING.setdefault(index, Lock())

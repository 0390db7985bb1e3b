"""Keep an index of views and a docstore of their parents in step with documents that change."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import BaseNode, IndexNode, NodeRelationship, ObjectType, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from catena import ParameterError, Services, arun, run
from catena.effects import Step
from catena.enrichment import (
    LEDGER,
    Held,
    Moves,
    ParentViews,
    ViewRecord,
    add_views,
    delete_views,
    record_key,
    replace_views,
)
from catena.enrichment import ViewChanges as ViewChanges  # noqa: PLC0414  # a name of this package, too
from catena.model import digest
from llama_index_catena.components import ajournalled, checked_arguments, journalled, tell_degraded
from llama_index_catena.documents import document_of, text_of
from llama_index_catena.services import inherits
from llama_index_catena.stores import called, calling
from llama_index_catena.view_retrieval import CatenaMultiViewRetriever
from llama_index_catena.views import VIEW, CatenaViewExtractor, ViewsDegradedEvent, with_content_ids

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
            DuplicateDocumentError: a document is there already; nothing was changed.
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

    def moved(
        self, old: ViewRecord, new: ViewRecord, parents: Mapping[str, BaseNode], views: Mapping[str, IndexNode]
    ) -> Step[ViewChanges]:
        record = self._record(new)
        yield from self._kept([self._record(old.and_then(new))])
        moves = Moves.between(old, new)
        yield from self._kept([parents[name] for name in moves.parents_written])
        if not old.whole:  # some may be there already, and not every store replaces equal ids
            yield from self._views_deleted(moves.views_added)
        yield from self._views_added([views[name] for name in moves.views_added])
        yield from self._views_deleted(moves.views_deleted)
        yield from self._dropped([*moves.views_deleted, *moves.parents_deleted])
        yield from self._kept([record]) if new.parents else self._dropped([record.node_id])
        return ViewChanges(
            views_added=len(moves.views_added),
            views_deleted=len(moves.views_deleted),
            views_kept=len(new.views) - len(moves.views_added),
            parents_written=len(moves.parents_written),
            parents_deleted=len(moves.parents_deleted),
        )

    def _record(self, record: ViewRecord) -> TextNode:
        """Return the node as which a record is kept; it belongs to the document, and goes with it."""
        source = RelatedNodeInfo(node_id=record.source, node_type=ObjectType.DOCUMENT)
        key = record_key(self._ledger, record.source)
        return TextNode(id_=key, text=record.to_json(), relationships={NodeRelationship.SOURCE: source})

    def _views_added(self, views: list[IndexNode]) -> Step[None]:
        """Embed views and write them."""
        index = self._index
        own = not inherits(index.vector_store, BasePydanticVectorStore, "async_add")
        if views:
            ado = (lambda: index.ainsert_nodes(views)) if own else None
            yield from self._alone(lambda: index.insert_nodes(views), ado, purpose="new views")

    def _views_deleted(self, ids: Sequence[str]) -> Step[None]:
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

    def _kept(self, nodes: Sequence[BaseNode]) -> Step[None]:
        """Write nodes into the docstore."""
        docstore = self._index.docstore
        if nodes:
            yield from called(lambda: docstore.add_documents(nodes), lambda: docstore.async_add_documents(nodes))

    def _dropped(self, ids: Sequence[str]) -> Step[None]:
        """Remove nodes from the docstore, those that are there."""
        docstore = self._index.docstore

        def drop() -> None:
            for name in ids:
                docstore.delete_document(name, raise_error=False)

        if ids:  # its async twin leaves the ids in the document's `RefDocInfo`
            yield from called(drop, lambda: asyncio.to_thread(drop))

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

"""An index of views and a docstore of their parents, kept in step with documents that come, change and go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import BaseNode, IndexNode
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from catena.effects import Services, Step, arun, run
from catena.enrichment import LEDGER, Moves, ViewChanges, ViewRecord, record_key, written_by_model
from catena.model import DuplicateDocumentError, ParameterError, digest
from llama_index_catena.arguments import checked_arguments
from llama_index_catena.calls import called, calling
from llama_index_catena.services import ajournalled, inherits, journalled
from llama_index_catena.view_ledger import as_ledger, as_record
from llama_index_catena.view_nodes import VIEW, document_of, with_content_ids
from llama_index_catena.view_retrieval import CatenaMultiViewRetriever
from llama_index_catena.view_writing import dropped, forgotten, inserted, kept
from llama_index_catena.views import CatenaViewExtractor, tell

T = TypeVar("T")


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
        return self._run(self._added(nodes))

    async def aadd(self, nodes: Sequence[BaseNode]) -> ViewChanges:
        """As `add`, without blocking the event loop."""
        return await self._arun(self._added(nodes))

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
        return self._run(self._deleted(ref_doc_ids))

    async def adelete(self, *ref_doc_ids: str) -> ViewChanges:
        """As `delete`, without blocking the event loop."""
        return await self._arun(self._deleted(ref_doc_ids))

    def sources(self) -> tuple[str, ...]:
        """Return the ids of the documents that are there, sorted."""
        return self._run(self._sources())

    async def asources(self) -> tuple[str, ...]:
        """As `sources`, without blocking the event loop."""
        return await self._arun(self._sources())

    def retriever(self, **options: Any) -> CatenaMultiViewRetriever:
        """Return a retriever over index and docstore; options as of `CatenaMultiViewRetriever`."""
        return CatenaMultiViewRetriever(self.index, **{"views": self.views.kinds, **options})

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

    def _added(self, nodes: Sequence[BaseNode]) -> Step[ViewChanges]:
        documents = self._by_document(nodes)
        records = yield from self._records(list(documents))
        if known := [name for name, record in records.items() if record.whole]:
            raise DuplicateDocumentError("index of views", f"{known[0]!r} is there already", "replace")
        return (yield from self._all_changed(documents, records))

    def _replaced(self, nodes: Sequence[BaseNode], read: Sequence[str]) -> Step[ViewChanges]:
        if isinstance(read, str):
            raise ParameterError("sources", read, "a sequence of ids of documents")
        documents = self._by_document(nodes)
        records = yield from self._records(list(documents))
        changes = yield from self._all_changed(documents, records)
        return changes + (yield from self._deleted([name for name in read if name not in documents]))

    def _deleted(self, ref_doc_ids: Sequence[str]) -> Step[ViewChanges]:
        records = yield from self._records(ref_doc_ids)
        changes = ViewChanges()
        for record in records.values():
            changes += yield from self._moved(record, ViewRecord(source=record.source), {}, {})
        return changes

    def _sources(self) -> Step[tuple[str, ...]]:
        docstore = self.index.docstore
        known = yield from called(docstore.get_all_ref_doc_info, docstore.aget_all_ref_doc_info)
        return tuple(sorted((yield from self._records(list(known or ())))))

    def _by_document(self, nodes: Sequence[BaseNode]) -> dict[str, list[BaseNode]]:
        given = [node for node in nodes if VIEW not in node.metadata]
        documents: dict[str, list[BaseNode]] = defaultdict(list)
        for node in with_content_ids(given, metadata_keys=self.views.metadata_keys):
            documents[document_of(node)].append(node)
        return documents

    def _records(self, ref_doc_ids: Sequence[str]) -> Step[dict[str, ViewRecord]]:
        """Return the records of those documents that have one."""
        ids = [record_key(self.ledger, name) for name in dict.fromkeys(ref_doc_ids)]
        docstore = self.index.docstore
        found = yield from called(
            lambda: docstore.get_nodes(ids, raise_error=False), lambda: docstore.aget_nodes(ids, raise_error=False)
        )
        return {record.source: record for record in map(as_record, found)}

    def _all_changed(
        self, documents: Mapping[str, Sequence[BaseNode]], records: Mapping[str, ViewRecord]
    ) -> Step[ViewChanges]:
        changes = ViewChanges()
        for source, parents in documents.items():
            changes += yield from self._changed(records.get(source) or ViewRecord(source=source), parents)
        return changes

    def _changed(self, old: ViewRecord, given: Sequence[BaseNode]) -> Step[ViewChanges]:
        """Bring one document to what is given."""
        parents = {node.node_id: node for node in given}
        hashes = {name: digest(node.to_json(), length=32) for name, node in parents.items()}
        fingerprint = digest(self.views.version, *parents, length=32)
        if old.whole and old.fingerprint == fingerprint:  # sections at most moved: their views are as they were
            if old.parents == hashes:
                return ViewChanges(views_kept=len(old.views))
            return (yield from self._moved(old, replace(old, parents=hashes), parents, {}))
        made = yield from self.views.made(old.source, list(parents.values()), old.held)
        tell([made])
        views = {view.node_id: view for found in made.views.values() for view in found}
        new = ViewRecord(
            source=old.source,
            fingerprint="" if made.degraded else fingerprint,
            parents=hashes,
            views=tuple(views),
            written=written_by_model(made.entry.views),
        )
        changes = yield from self._moved(old, new, parents, views)
        return replace(changes, degraded=made.degraded)

    def _moved(
        self, old: ViewRecord, new: ViewRecord, parents: Mapping[str, BaseNode], views: Mapping[str, IndexNode]
    ) -> Step[ViewChanges]:
        """Take index and docstore from one record to another: what comes is written before anything goes."""
        record = as_ledger(new, self.ledger)
        yield from kept(self.index, [as_ledger(old.and_then(new), self.ledger)])
        moves = Moves.between(old, new)
        yield from kept(self.index, [parents[name] for name in moves.parents_written])
        if not old.whole:  # some may be there already, and not every store replaces equal ids
            yield from forgotten(self.index, moves.views_added)
        yield from inserted(self.index, [views[name] for name in moves.views_added])
        yield from forgotten(self.index, moves.views_deleted)
        yield from dropped(self.index, [*moves.views_deleted, *moves.parents_deleted])
        yield from kept(self.index, [record]) if new.parents else dropped(self.index, [record.node_id])
        return ViewChanges(
            views_added=len(moves.views_added),
            views_deleted=len(moves.views_deleted),
            views_kept=len(new.views) - len(moves.views_added),
            parents_written=len(moves.parents_written),
            parents_deleted=len(moves.parents_deleted),
        )

"""A vector store of views and a docstore of their parents, kept in step with documents that come, change and go."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from langchain_core.documents import Document
from langchain_core.load import dumps
from langchain_core.stores import BaseStore, ByteStore
from langchain_core.vectorstores import VectorStore

from catena.effects import Services, Step, arun, run
from catena.enrichment import LEDGER, ViewChanges, ViewRecord, record_key, written_by_model
from catena.model import DuplicateDocumentError, ParameterError, digest
from langchain_catena.calls import called, calling
from langchain_catena.content_ids import source_of, with_content_ids
from langchain_catena.docstores import fetch, one_docstore
from langchain_catena.view_ledger import as_record
from langchain_catena.view_retrieval import CatenaMultiViewRetriever
from langchain_catena.view_writing import TwoStores
from langchain_catena.views import CatenaViewTransformer, tell

T = TypeVar("T")


class CatenaViewIndex:
    """Writes views into a vector store and their parents into a docstore, and keeps both as the documents are.

        index = CatenaViewIndex(vectorstore=store, docstore=InMemoryStore(), views=CatenaViewTransformer(llm=model))
        index.add(transformer.split_documents(documents))
        index.replace(transformer.split_documents(changed))
        index.delete("manuals/hx210.md")
        retriever = index.retriever(k=3)

    All views of a section that changed are replaced, and none of one that did not: no model is asked for it, and
    nothing of it is embedded. What is made offline is made again from the whole new document, as the weight of a
    keyword depends on it; only texts that came out otherwise are written. Parents are named by their contents, see
    `with_content_ids`.

    What stands where is kept in the docstore, one record per source. New views are written before old ones are
    removed; a call that failed anywhere is made good by the same or any later one for that source, and what a model
    wrote before it failed is not asked for again once it was noted. One process at a time may change a source.

    Args:
        vectorstore: with `add_documents` and `delete` by id. Where it has `get_by_ids`, too, an id is never added
            twice or removed twice, which some stores refuse.
        docstore: a store of documents; or `byte_store`, a store of bytes, as of `MultiVectorRetriever`.
        byte_store: in place of a docstore.
        views: which views, and by which model.
        ledger: prefix of the keys of records.

    Raises:
        ParameterError: there is no store to write to.
    """

    def __init__(
        self,
        *,
        vectorstore: VectorStore,
        docstore: BaseStore[str, Document] | None = None,
        byte_store: ByteStore | None = None,
        views: CatenaViewTransformer | None = None,
        ledger: str = LEDGER,
    ) -> None:
        if not isinstance(vectorstore, VectorStore):
            raise ParameterError("vectorstore", type(vectorstore).__name__, "a VectorStore")
        found = one_docstore(docstore, byte_store)
        if not isinstance(found, BaseStore):
            raise ParameterError("docstore", type(found).__name__, "a store that can be written to (BaseStore)")
        self.vectorstore, self.docstore, self.ledger = vectorstore, found, ledger
        self._stores = TwoStores(vectorstore=vectorstore, docstore=found, ledger=ledger)
        self.views = CatenaViewTransformer() if views is None else views

    def add(self, documents: Sequence[Document]) -> ViewChanges:
        """Add new sources.

        Args:
            documents: all parents (sections) of each source, in reading order; each says by its `source`, or else
                `document_id`, whose it is.

        Raises:
            DuplicateDocumentError: a source is there already; nothing was changed.
            ParameterError: a document does not say whose it is.
            ServiceError: a store failed; the same call makes it good.
        """
        return self._run(self._added(documents))

    async def aadd(self, documents: Sequence[Document]) -> ViewChanges:
        """As `add`, without blocking the event loop."""
        return await self._arun(self._added(documents))

    def replace(self, documents: Sequence[Document], *, sources: Sequence[str] = ()) -> ViewChanges:
        """Bring sources, new or known, to what is given; what did not change is left alone.

        Args:
            documents: as for `add`. A section of a known source that is not among them is removed.
            sources: names of all sources that were read. One that gave no document, an empty file, is not seen
                otherwise, and would stay as it was.

        Raises:
            ParameterError: a document does not say whose it is.
            ServiceError: a store failed; the same call makes it good.
        """
        return self._run(self._replaced(documents, sources))

    async def areplace(self, documents: Sequence[Document], *, sources: Sequence[str] = ()) -> ViewChanges:
        """As `replace`, without blocking the event loop."""
        return await self._arun(self._replaced(documents, sources))

    def delete(self, *sources: str) -> ViewChanges:
        """Remove sources with all their parents and views; one that is not there is as it should be.

        Raises:
            ServiceError: a store failed; the same call makes it good.
        """
        return self._run(self._deleted(sources))

    async def adelete(self, *sources: str) -> ViewChanges:
        """As `delete`, without blocking the event loop."""
        return await self._arun(self._deleted(sources))

    def sources(self) -> tuple[str, ...]:
        """Return the sources that are there, sorted."""
        return self._run(self._sources())

    async def asources(self) -> tuple[str, ...]:
        """As `sources`, without blocking the event loop."""
        return await self._arun(self._sources())

    def retriever(self, **options: Any) -> CatenaMultiViewRetriever:
        """Return a retriever over both stores; options as of `CatenaMultiViewRetriever`."""
        made = self.views
        own = {"views": made.kinds, "id_key": made.id_key, "view_key": made.view_key}
        return CatenaMultiViewRetriever(vectorstore=self.vectorstore, docstore=self.docstore, **{**own, **options})

    def _run(self, step: Step[T]) -> T:
        return run(step, self._services())

    async def _arun(self, step: Step[T]) -> T:
        return await arun(step, await asyncio.to_thread(self._services))  # reads the shipped vectors

    def _services(self) -> Services:
        services = self.views.services
        identity = f"langchain:{type(self.vectorstore).__name__} and {type(self.docstore).__name__}"
        return replace(services, handlers={**services.handlers, **calling(identity)})

    def _added(self, documents: Sequence[Document]) -> Step[ViewChanges]:
        sources = self._by_source(documents)
        records = yield from self._records(list(sources))
        if known := [name for name, record in records.items() if record.whole]:
            where = f"{type(self.vectorstore).__name__} of views"
            raise DuplicateDocumentError(where, f"{known[0]!r} is there already", "replace")
        return (yield from self._all_changed(sources, records))

    def _replaced(self, documents: Sequence[Document], read: Sequence[str]) -> Step[ViewChanges]:
        if isinstance(read, str):
            raise ParameterError("sources", read, "a sequence of names")
        sources = self._by_source(documents)
        records = yield from self._records(list(sources))
        changes = yield from self._all_changed(sources, records)
        return changes + (yield from self._deleted([name for name in read if name not in sources]))

    def _deleted(self, sources: Sequence[str]) -> Step[ViewChanges]:
        records = yield from self._records(sources)
        changes = ViewChanges()
        for record in records.values():
            changes += yield from self._stores.moved(record, ViewRecord(source=record.source), {}, {})
        return changes

    def _sources(self) -> Step[tuple[str, ...]]:
        async def keys() -> list[str]:
            return [str(key) async for key in self.docstore.ayield_keys(prefix=self.ledger)]

        found = yield from called(lambda: list(self.docstore.yield_keys(prefix=self.ledger)), keys)
        records = yield from fetch(self.docstore, found)
        return tuple(sorted(as_record(document).source for document in records.values()))

    def _by_source(self, documents: Sequence[Document]) -> dict[str, list[Document]]:
        key, repeated = self.views.source_key, self.views.metadata_keys
        sources: dict[str, list[Document]] = defaultdict(list)
        for document in with_content_ids(documents, source_key=key, metadata_keys=repeated):
            sources[source_of(document, key)].append(document)
        return sources

    def _records(self, sources: Sequence[str]) -> Step[dict[str, ViewRecord]]:
        """Return the records of those sources that have one."""
        found = yield from fetch(self.docstore, [record_key(self.ledger, source) for source in sources])
        return {record.source: record for record in map(as_record, found.values())}

    def _all_changed(
        self, sources: Mapping[str, Sequence[Document]], records: Mapping[str, ViewRecord]
    ) -> Step[ViewChanges]:
        changes = ViewChanges()
        for source, parents in sources.items():
            changes += yield from self._changed(records.get(source) or ViewRecord(source=source), parents)
        return changes

    def _changed(self, old: ViewRecord, given: Sequence[Document]) -> Step[ViewChanges]:
        """Bring one source to what is given."""
        parents = {str(document.id): document for document in given}
        hashes = {name: digest(dumps(document), length=32) for name, document in parents.items()}
        fingerprint = digest(self.views.version, *parents, length=32)
        if old.whole and old.fingerprint == fingerprint:  # sections at most moved: their views are as they were
            if old.parents == hashes:
                return ViewChanges(views_kept=len(old.views))
            return (yield from self._stores.moved(old, replace(old, parents=hashes), parents, {}))
        made = yield from self.views.made(old.source, list(parents.values()), old.held)
        tell([made])
        views = {str(view.id): view for found in made.views.values() for view in found}
        new = ViewRecord(
            source=old.source,
            fingerprint="" if made.degraded else fingerprint,
            parents=hashes,
            views=tuple(views),
            written=written_by_model(made.entry.views),
        )
        changes = yield from self._stores.moved(old, new, parents, views)
        return replace(changes, degraded=made.degraded)

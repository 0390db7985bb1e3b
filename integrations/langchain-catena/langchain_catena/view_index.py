"""Keep a vector store of views and a docstore of their parents in step with documents that come, change and go."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from langchain_core.documents import Document
from langchain_core.load import dumps
from langchain_core.stores import BaseStore, ByteStore
from langchain_core.vectorstores import VectorStore

from catena import ParameterError, ServiceError, Services, arun, run
from catena.effects import Step, called, calling
from catena.enrichment import (
    LEDGER,
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
from langchain_catena.places import source_of, with_content_ids
from langchain_catena.stores import fetch, method, one_docstore
from langchain_catena.views import CatenaMultiViewRetriever, CatenaViewTransformer, tell

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
        self.views = CatenaViewTransformer() if views is None else views
        self._stores = _Stores(vectorstore, found, ledger, self.views)

    def add(self, documents: Sequence[Document]) -> ViewChanges:
        """Add new sources.

        Args:
            documents: all parents (sections) of each source, in reading order; each says by its `source`, or else
                `document_id`, whose it is.

        Raises:
            DuplicateDocumentError: a source is there already, with other parents; nothing was changed.
            ParameterError: a document does not say whose it is.
            ServiceError: a store failed; the same call makes it good.
        """
        return self._run(add_views(self._stores, self._by_source(documents)))

    async def aadd(self, documents: Sequence[Document]) -> ViewChanges:
        """As `add`, without blocking the event loop."""
        return await self._arun(add_views(self._stores, self._by_source(documents)))

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
        return self._run(delete_views(self._stores, sources))

    async def adelete(self, *sources: str) -> ViewChanges:
        """As `delete`, without blocking the event loop."""
        return await self._arun(delete_views(self._stores, sources))

    def sources(self) -> tuple[str, ...]:
        """Return the sources that are there, sorted."""
        return self._run(self._stores.sources())

    async def asources(self) -> tuple[str, ...]:
        """As `sources`, without blocking the event loop."""
        return await self._arun(self._stores.sources())

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

    def _replaced(self, documents: Sequence[Document], read: Sequence[str]) -> Step[ViewChanges]:
        if isinstance(read, str):
            raise ParameterError("sources", read, "a sequence of names")
        return replace_views(self._stores, self._by_source(documents), read)

    def _by_source(self, documents: Sequence[Document]) -> dict[str, dict[str, Document]]:
        key, repeated = self.views.source_key, self.views.metadata_keys
        sources: dict[str, dict[str, Document]] = defaultdict(dict)
        for document in with_content_ids(documents, source_key=key, metadata_keys=repeated):
            sources[source_of(document, key)][str(document.id)] = document
        return sources


@dataclass(frozen=True, slots=True)
class _Stores:
    """A vector store of views, and a docstore of their parents and, as documents beside them, of the records."""

    vectorstore: VectorStore
    docstore: BaseStore[str, Document]
    ledger: str
    views: CatenaViewTransformer

    @property
    def where(self) -> str:
        return f"{type(self.vectorstore).__name__} of views"

    @property
    def version(self) -> str:
        return self.views.version

    def sources(self) -> Step[tuple[str, ...]]:
        """Return the sources that have a record, sorted."""

        async def keys() -> list[str]:
            return [str(key) async for key in self.docstore.ayield_keys(prefix=self.ledger)]

        found = yield from called(lambda: list(self.docstore.yield_keys(prefix=self.ledger)), keys)
        records = yield from fetch(self.docstore, found)
        return tuple(sorted(_as_record(document).source for document in records.values()))

    def records(self, sources: Sequence[str]) -> Step[dict[str, ViewRecord]]:
        found = yield from fetch(self.docstore, [record_key(self.ledger, source) for source in sources])
        return {record.source: record for record in map(_as_record, found.values())}

    def hash_of(self, parent: Document) -> str:
        return digest(dumps(parent), length=32)

    def made(
        self, source: str, parents: Sequence[Document], held: Held
    ) -> Step[tuple[ParentViews[Document], Mapping[str, Document]]]:
        made = yield from self.views.made(source, parents, held)
        tell([made])
        return made, {str(view.id): view for found in made.views.values() for view in found}

    def noted(self, record: ViewRecord) -> Step[None]:
        key = record_key(self.ledger, record.source)
        return self.parents_kept({key: Document(id=key, page_content=record.to_json(), metadata={"kind": "ledger"})})

    def forgotten(self, record: ViewRecord) -> Step[None]:
        return self.parents_dropped([record_key(self.ledger, record.source)])

    def parents_kept(self, parents: Mapping[str, Document]) -> Step[None]:
        if parents:
            yield from method(self.docstore, "mset", list(parents.items()))

    def parents_dropped(self, ids: Sequence[str]) -> Step[None]:
        if ids:
            yield from method(self.docstore, "mdelete", ids)

    def views_added(self, views: Mapping[str, Document], *, again: bool) -> Step[int]:
        present = (yield from self._present(list(views))) or frozenset[str]()
        absent = [name for name in views if name not in present]
        if absent:
            yield from method(self.vectorstore, "add_documents", [views[name] for name in absent], ids=absent)
        return len(absent)

    def views_dropped(self, ids: Sequence[str]) -> Step[int]:
        present = yield from self._present(ids)
        gone = [name for name in ids if present is None or name in present]
        if gone:
            done = yield from method(self.vectorstore, "delete", gone, purpose="old views")
            if done is False:
                raise ServiceError(type(self.vectorstore).__name__, f"did not delete {len(gone)} views")
        return len(gone)

    def _present(self, ids: Sequence[str]) -> Step[frozenset[str] | None]:
        """Return which of the views are in the vector store; None where it cannot tell.

        Some give documents without their ids, or with ids written otherwise, as stores of UUIDs do.
        """
        if not ids or type(self.vectorstore).get_by_ids is VectorStore.get_by_ids:
            return None
        found = yield from method(self.vectorstore, "get_by_ids", list(ids))
        present = frozenset(str(view.id) for view in found)
        return present if present <= frozenset(ids) else None


def _as_record(document: Document) -> ViewRecord:
    return ViewRecord.from_json(document.page_content, str(document.id))

"""A vector store of views and a docstore of their parents, kept in step with documents that come, change and go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from langchain_core.documents import Document
from langchain_core.load import dumps
from langchain_core.stores import BaseStore, ByteStore
from langchain_core.vectorstores import VectorStore

from catena.effects import Services, Step, arun, run
from catena.errors import DuplicateDocumentError, ParameterError, ServiceError
from catena.ids import digest
from catena.model import Degraded
from langchain_catena.calls import called, calling
from langchain_catena.docstores import fetch, one_docstore
from langchain_catena.view_ledger import LEDGER, Record, as_record, record_key, written_by_model
from langchain_catena.view_retrieval import CatenaMultiViewRetriever
from langchain_catena.views import CatenaViewTransformer, source_of, tell, with_content_ids

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewChanges:
    """What one call changed: numbers of views in the vector store and of parents in the docstore.

    Attributes:
        views_added, views_deleted, views_kept: a kept one was neither embedded nor written.
        parents_written, parents_deleted: a parent that only moved is written anew, with its new place.
        degraded: views that a model did not give; the next call for the same source asks again.
    """

    views_added: int = 0
    views_deleted: int = 0
    views_kept: int = 0
    parents_written: int = 0
    parents_deleted: int = 0
    degraded: tuple[Degraded, ...] = ()

    def __add__(self, other: ViewChanges) -> ViewChanges:
        """Return both together."""
        return ViewChanges(
            views_added=self.views_added + other.views_added,
            views_deleted=self.views_deleted + other.views_deleted,
            views_kept=self.views_kept + other.views_kept,
            parents_written=self.parents_written + other.parents_written,
            parents_deleted=self.parents_deleted + other.parents_deleted,
            degraded=(*self.degraded, *other.degraded),
        )


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

    def replace(self, documents: Sequence[Document]) -> ViewChanges:
        """Bring sources, new or known, to what is given; what did not change is left alone.

        Args:
            documents: as for `add`. A section of a known source that is not among them is removed.

        Raises:
            ParameterError: a document does not say whose it is.
            ServiceError: a store failed; the same call makes it good.
        """
        return self._run(self._replaced(documents))

    async def areplace(self, documents: Sequence[Document]) -> ViewChanges:
        """As `replace`, without blocking the event loop."""
        return await self._arun(self._replaced(documents))

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
        return await arun(step, self._services())

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

    def _replaced(self, documents: Sequence[Document]) -> Step[ViewChanges]:
        sources = self._by_source(documents)
        records = yield from self._records(list(sources))
        return (yield from self._all_changed(sources, records))

    def _deleted(self, sources: Sequence[str]) -> Step[ViewChanges]:
        records = yield from self._records(sources)
        changes = ViewChanges()
        for record in records.values():
            changes += yield from self._moved(record, Record(source=record.source), {}, {})
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

    def _records(self, sources: Sequence[str]) -> Step[dict[str, Record]]:
        """Return the records of those sources that have one."""
        found = yield from fetch(self.docstore, [record_key(self.ledger, source) for source in sources])
        return {record.source: record for record in map(as_record, found.values())}

    def _all_changed(
        self, sources: Mapping[str, Sequence[Document]], records: Mapping[str, Record]
    ) -> Step[ViewChanges]:
        changes = ViewChanges()
        for source, parents in sources.items():
            changes += yield from self._changed(records.get(source) or Record(source=source), parents)
        return changes

    def _changed(self, old: Record, given: Sequence[Document]) -> Step[ViewChanges]:
        """Bring one source to what is given."""
        parents = {str(document.id): document for document in given}
        hashes = {name: digest(dumps(document), length=32) for name, document in parents.items()}
        fingerprint = digest(self.views.version, *parents, length=32)
        if old.whole and old.fingerprint == fingerprint:  # sections at most moved: their views are as they were
            if old.parents == hashes:
                return ViewChanges(views_kept=len(old.views))
            return (yield from self._moved(old, replace(old, parents=hashes), parents, {}))
        made = yield from self.views.made(old.source, list(parents.values()), old.held)
        tell([made])
        views = {str(view.id): view for found in made.views.values() for view in found}
        new = Record(
            source=old.source,
            fingerprint="" if made.degraded else fingerprint,
            parents=hashes,
            views=tuple(views),
            written=written_by_model(made.entry.views),
        )
        changes = yield from self._moved(old, new, parents, views)
        return replace(changes, degraded=made.degraded)

    def _moved(
        self, old: Record, new: Record, parents: Mapping[str, Document], views: Mapping[str, Document]
    ) -> Step[ViewChanges]:
        """Take both stores from one record to another: what comes is written before anything goes."""
        key, record = new.as_document(self.ledger)
        yield from self._kept([old.and_then(new).as_document(self.ledger)])
        known = old.parents if old.whole else {}
        written = [(name, parents[name]) for name, made in new.parents.items() if known.get(name) != made]
        yield from self._kept(written)
        standing = set(old.views) if old.whole else set[str]()
        added = yield from self._views_added([views[name] for name in new.views if name not in standing])
        deleted = yield from self._views_deleted([name for name in old.views if name not in set(new.views)])
        gone = [name for name in old.parents if name not in new.parents]
        yield from self._dropped(gone)
        yield from self._kept([(key, record)]) if new.parents else self._dropped([key])
        return ViewChanges(
            views_added=added,
            views_deleted=deleted,
            views_kept=len(new.views) - added,
            parents_written=len(written),
            parents_deleted=len(gone),
        )

    def _kept(self, pairs: Sequence[tuple[str, Document]]) -> Step[None]:
        if pairs:
            yield from called(lambda: self.docstore.mset(pairs), lambda: self.docstore.amset(pairs))

    def _dropped(self, keys: Sequence[str]) -> Step[None]:
        if keys:
            yield from called(lambda: self.docstore.mdelete(keys), lambda: self.docstore.amdelete(keys))

    def _views_added(self, views: Sequence[Document]) -> Step[int]:
        present = (yield from self._present([str(view.id) for view in views])) or frozenset[str]()
        absent = [view for view in views if view.id not in present]
        if absent:
            ids = [str(view.id) for view in absent]
            yield from called(
                lambda: self.vectorstore.add_documents(absent, ids=ids),
                lambda: self.vectorstore.aadd_documents(absent, ids=ids),
            )
        return len(absent)

    def _views_deleted(self, ids: Sequence[str]) -> Step[int]:
        present = yield from self._present(ids)
        gone = [name for name in ids if present is None or name in present]
        if gone:
            done = yield from called(
                lambda: self.vectorstore.delete(gone), lambda: self.vectorstore.adelete(gone), purpose="old views"
            )
            if done is False:
                raise ServiceError(type(self.vectorstore).__name__, f"did not delete {len(gone)} views")
        return len(gone)

    def _present(self, ids: Sequence[str]) -> Step[frozenset[str] | None]:
        """Return which of the views are in the vector store; None where it cannot tell."""
        if not ids or type(self.vectorstore).get_by_ids is VectorStore.get_by_ids:
            return None
        asked = list(ids)
        found = yield from called(
            lambda: self.vectorstore.get_by_ids(asked), lambda: self.vectorstore.aget_by_ids(asked)
        )
        return frozenset(str(view.id) for view in found)

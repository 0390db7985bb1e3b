"""Both stores of an index of views taken from one state to another, so that what fails half-way can be made good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore

from catena.effects import Step
from catena.enrichment import Moves, ViewChanges, ViewRecord
from catena.model import ServiceError
from langchain_catena.calls import called
from langchain_catena.view_ledger import as_ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoStores:
    """A vector store of views, and a docstore of their parents and of the records of what stands where."""

    vectorstore: VectorStore
    docstore: BaseStore[str, Document]
    ledger: str

    def moved(
        self, old: ViewRecord, new: ViewRecord, parents: Mapping[str, Document], views: Mapping[str, Document]
    ) -> Step[ViewChanges]:
        """Take both stores from one record to another: what comes is written before anything goes."""
        key, record = as_ledger(new, self.ledger)
        yield from self._kept([as_ledger(old.and_then(new), self.ledger)])
        moves = Moves.between(old, new)
        yield from self._kept([(name, parents[name]) for name in moves.parents_written])
        added = yield from self._views_added([views[name] for name in moves.views_added])
        deleted = yield from self._views_deleted(moves.views_deleted)
        yield from self._dropped(moves.parents_deleted)
        yield from self._kept([(key, record)]) if new.parents else self._dropped([key])
        return ViewChanges(
            views_added=added,
            views_deleted=deleted,
            views_kept=len(new.views) - added,
            parents_written=len(moves.parents_written),
            parents_deleted=len(moves.parents_deleted),
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
        """Return which of the views are in the vector store; None where it cannot tell.

        Some give documents without their ids, or with ids written otherwise, as stores of UUIDs do.
        """
        if not ids or type(self.vectorstore).get_by_ids is VectorStore.get_by_ids:
            return None
        asked = list(ids)
        found = yield from called(
            lambda: self.vectorstore.get_by_ids(asked), lambda: self.vectorstore.aget_by_ids(asked)
        )
        present = frozenset(str(view.id) for view in found)
        return present if present <= frozenset(asked) else None

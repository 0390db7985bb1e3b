"""Make the views of parents, and keep an index of views and a store of parents in step with changing documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

from catena.effects import Step
from catena.enrichment.view_makers import Keywords, Summaries
from catena.enrichment.view_records import Moves, ViewChanges, ViewRecord, written_by_model
from catena.enrichment.views import Held, ViewMaker, with_views
from catena.model import Chunk, Degraded, Document, DuplicateDocumentError, Entry, ParameterError, View, digest
from catena.structure import PASSAGE, headed_views, passage_views, raw_views

OwnView: TypeAlias = Literal["raw", "headed", "passage"]
"""The words of a parent itself: its exact text, this under its titles, or slices of this that encoders read whole."""

_OWN: tuple[OwnView, ...] = ("raw", "headed", "passage")

P_contra = TypeVar("P_contra", contravariant=True)  # a parent in the words of a framework
V = TypeVar("V")  # a view in the words of a framework


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentViews(Generic[V]):
    """The parents of one document with all their views.

    Attributes:
        entry: chunks under the parents' ids, in reading order; views in the order of the makers.
        views: parent's id -> its views, as an index is given them.
        degraded: what a model was asked for and did not give.
    """

    entry: Entry
    views: Mapping[str, tuple[V, ...]]
    degraded: tuple[Degraded, ...] = ()


def divided_views(
    views: Sequence[ViewMaker | OwnView] | None, by: Literal["llm", "offline"]
) -> tuple[tuple[OwnView, ...], tuple[ViewMaker, ...]]:
    """Return the names of own views, and the makers of all others, out of both in any order.

    Args:
        views: names and makers; None takes passages, keywords and summaries.
        by: who makes the last two.

    Raises:
        ParameterError: one is neither, or there is none.
    """
    if isinstance(views, str) or (views is not None and (not isinstance(views, Sequence) or not views)):
        raise ParameterError("views", views, "a sequence of at least one view")
    given = ("passage", Keywords(by=by), Summaries(by=by)) if views is None else views
    for view in given:
        if view not in _OWN and not (isinstance(view, ViewMaker) and not isinstance(view, type)):
            raise ParameterError("views", view, "'raw', 'headed', 'passage' or a maker such as Keywords()")
    return tuple(kind for kind in _OWN if kind in given), tuple(view for view in given if not isinstance(view, str))


def views_of_parents(
    document: Document,
    parents: Sequence[Chunk],
    own: Sequence[OwnView],
    makers: Sequence[ViewMaker],
    view_of: Callable[[View, int], V],
    *,
    passage_tokens: int,
    model: str,
    held: Held | None = None,
) -> Step[ParentViews[V]]:
    """Make all views of the parents of one document: their own first, then those of the makers.

    Args:
        document: its id and title.
        parents: in reading order.
        own: names of own views, as `divided_views` returns them.
        makers: of all others.
        view_of: from a view that says something, and its number among those of its parent and kind (from 0), to it in
            the words of a framework.
        passage_tokens: of a passage at most, its titles not counted.
        model: identity of the language model.
        held: views of an older version by `View.made`: a model is not asked for those again.
    """
    made: list[View] = []
    for kind in own:
        if kind == PASSAGE:
            made += passage_views(document, parents, max_tokens=passage_tokens)
        else:
            made += headed_views(document, parents) if kind == "headed" else raw_views(parents)
    entry = Entry(document=document, sections=(), chunks=tuple(parents), views=tuple(made))
    entry, degraded = yield from with_views(entry, makers, model=model, held=held)
    numbers: Counter[tuple[str, str]] = Counter()
    views: dict[str, list[V]] = {parent.id: [] for parent in parents}
    for view in entry.views:
        if view.text.strip():
            views[view.chunk_id].append(view_of(view, numbers[view.chunk_id, view.kind]))
            numbers[view.chunk_id, view.kind] += 1
    return ParentViews(entry=entry, views={name: tuple(each) for name, each in views.items()}, degraded=degraded)


class ViewStores(Protocol[P_contra, V]):
    """An index of views and a store of their parents and records, as steps.

    Attributes:
        where: the name of the index, for errors.
        version: of all that decides which views are made of given parents.
    """

    @property
    def where(self) -> str: ...

    @property
    def version(self) -> str: ...

    def records(self, sources: Sequence[str]) -> Step[dict[str, ViewRecord]]:
        """Return the records of those documents that have one."""

    def hash_of(self, parent: P_contra) -> str:
        """Return the hash of all that is kept of a parent."""

    def made(
        self, source: str, parents: Sequence[P_contra], held: Held
    ) -> Step[tuple[ParentViews[V], Mapping[str, V]]]:
        """Make the views of one document's parents, and return them by the ids of the views, too."""

    def noted(self, record: ViewRecord) -> Step[None]:
        """Keep the record of a document."""

    def forgotten(self, record: ViewRecord) -> Step[None]:
        """Remove the record of a document."""

    def parents_kept(self, parents: Mapping[str, P_contra]) -> Step[None]:
        """Write parents by their ids, new ones and changed ones."""

    def parents_dropped(self, ids: Sequence[str]) -> Step[None]:
        """Remove parents, those that are there."""

    def views_added(self, views: Mapping[str, V], *, again: bool) -> Step[int]:
        """Write views by their ids; `again`: some may be there. Return how many were written."""

    def views_dropped(self, ids: Sequence[str]) -> Step[int]:
        """Remove views, those that are there; return how many were removed."""


Sources: TypeAlias = Mapping[str, Mapping[str, P_contra]]
"""Document's id -> its parents by id, in reading order."""


def add_views(stores: ViewStores[P_contra, V], documents: Sources[P_contra]) -> Step[ViewChanges]:
    """Add new documents to an index of views; one that is there with the same parents stays as it is.

    So a call that failed after some of them, or all, were there can be made again.

    Raises:
        DuplicateDocumentError: one is there already with other parents; nothing was changed.
    """
    records = yield from stores.records(list(documents))
    whole = (record for record in records.values() if record.whole)
    if known := [each.source for each in whole if each.parents != _hashes(stores, documents[each.source])]:
        raise DuplicateDocumentError(stores.where, f"{known[0]!r} is there already", "replace")
    return (yield from _all_changed(stores, documents, records))


def replace_views(
    stores: ViewStores[P_contra, V], documents: Sources[P_contra], read: Sequence[str] = ()
) -> Step[ViewChanges]:
    """Bring documents, new or known, to the parents given; of `read`, those that gave no parent are removed."""
    records = yield from stores.records(list(documents))
    changes = yield from _all_changed(stores, documents, records)
    return changes + (yield from delete_views(stores, [name for name in read if name not in documents]))


def delete_views(stores: ViewStores[P_contra, V], sources: Sequence[str]) -> Step[ViewChanges]:
    """Remove documents with all their parents and views, those that are there."""
    records = yield from stores.records(sources)
    changes = ViewChanges()
    for record in records.values():
        changes += yield from _moved(stores, record, ViewRecord(source=record.source), {}, {})
    return changes


def _all_changed(
    stores: ViewStores[P_contra, V], documents: Sources[P_contra], records: Mapping[str, ViewRecord]
) -> Step[ViewChanges]:
    changes = ViewChanges()
    for source, parents in documents.items():
        changes += yield from _changed(stores, records.get(source) or ViewRecord(source=source), parents)
    return changes


def _changed(stores: ViewStores[P_contra, V], old: ViewRecord, parents: Mapping[str, P_contra]) -> Step[ViewChanges]:
    """Bring one document to the parents given."""
    hashes = _hashes(stores, parents)
    fingerprint = digest(stores.version, *parents, length=32)
    if old.whole and old.fingerprint == fingerprint:  # sections at most moved: their views are as they were
        if old.parents == hashes:
            return ViewChanges(views_kept=len(old.views))
        return (yield from _moved(stores, old, replace(old, parents=hashes), parents, {}))
    made, views = yield from stores.made(old.source, list(parents.values()), old.held)
    new = ViewRecord(
        source=old.source,
        fingerprint="" if made.degraded else fingerprint,
        parents=hashes,
        views=tuple(views),
        written=written_by_model(made.entry.views),
    )
    return replace((yield from _moved(stores, old, new, parents, views)), degraded=made.degraded)


def _hashes(stores: ViewStores[P_contra, V], parents: Mapping[str, P_contra]) -> dict[str, str]:
    return {name: stores.hash_of(parent) for name, parent in parents.items()}


def _moved(
    stores: ViewStores[P_contra, V],
    old: ViewRecord,
    new: ViewRecord,
    parents: Mapping[str, P_contra],
    views: Mapping[str, V],
) -> Step[ViewChanges]:
    """Take the stores from one record to another: all that comes is written before anything is deleted."""
    moves = Moves.between(old, new)
    yield from stores.noted(old.and_then(new))
    yield from stores.parents_kept({name: parents[name] for name in moves.parents_written})
    added = yield from stores.views_added({name: views[name] for name in moves.views_added}, again=not old.whole)
    deleted = yield from stores.views_dropped(moves.views_deleted)
    yield from stores.parents_dropped(moves.parents_deleted)
    yield from stores.noted(new) if new.parents else stores.forgotten(new)
    return ViewChanges(
        views_added=added,
        views_deleted=deleted,
        views_kept=len(new.views) - added,
        parents_written=len(moves.parents_written),
        parents_deleted=len(moves.parents_deleted),
    )

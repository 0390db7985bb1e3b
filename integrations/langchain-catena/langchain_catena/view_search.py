"""One ranking of parents per kind of view: out of a vector store that holds all kinds, or a retriever for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from math import ceil, isfinite
from typing import Any, Literal, TypeAlias

from langchain_core.documents import Document
from langchain_core.runnables import Runnable
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from catena.effects import Handler, Retry, Search, Services, Step, arun, run
from catena.model import (
    SOURCE,
    Chunk,
    Degraded,
    Hit,
    ParameterError,
    Provenance,
    Ranking,
    Scale,
    ServiceError,
    digest,
)
from langchain_catena.calls import called, calling
from langchain_catena.content_ids import chunk_of, source_name
from langchain_catena.convert import SCORE, original_of, to_chunk
from langchain_catena.docstores import Docstore, fetch
from langchain_catena.structure import whole_chunk

Filtering: TypeAlias = Literal["filter", "over-fetch"] | Callable[[str], Mapping[str, Any]]
"""How a vector store is searched for views of one kind: by its filter on metadata, by more hits than needed that are
then grouped, or by a function from the kind to what the store's search takes (`{"expr": "view == 'summary'"}`)."""

_GROWTH = 4  # times as many hits, where those so far lead to too few parents
_SHOWN = 3  # ids in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Views of one kind, best first, with scores that rise with likeness; `all` says whether there are no more."""

    views: Sequence[tuple[Document, float]]
    all: bool
    scale: Scale = Scale.SIMILARITY
    degraded: tuple[Degraded, ...] = ()


Find: TypeAlias = Callable[[str, str, int], Step[_Found]]
"""From a kind of view, a question and a number to about so many views."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSource:
    """What answers the core's `Search` with parents.

    Attributes:
        find: who finds views.
        route: name of who finds them, by kind.
        docstore: where parents are; None where what is found are the parents.
        id_key: metadata key by which a view leads to its parent; a document without it is a parent itself.
        k: how many parents each view should lead to.
        by_place: whether parents come from several stores, which may know one under several ids or none.
    """

    find: Find
    route: Callable[[str], str]
    docstore: Docstore | None
    id_key: str
    k: float
    by_place: bool = False

    @property
    def handler(self) -> Handler:
        """Who answers `Search`."""
        services = Services(handlers=calling("langchain"), retry=Retry(attempts=1))  # who asks tries again
        return Handler(
            identity="langchain:views",
            call=lambda request: run(self._ranked(request), services),
            acall=lambda request: arun(self._ranked(request), services),
        )

    def _ranked(self, request: Search) -> Step[Ranking]:
        kind, size = str(request.view), request.k
        while True:
            found = yield from self.find(kind, request.query, size)
            chunks, missing = yield from self._parents([document for document, _ in found.views])
            if found.all or len({chunk.id for chunk in chunks if chunk is not None}) >= ceil(self.k):
                break
            size *= _GROWTH
        hits: dict[str, Hit] = {}
        for rank, (chunk, (_, score)) in enumerate(zip(chunks, found.views, strict=True), start=1):
            if chunk is not None:  # of several views of a parent the best counts
                way = Provenance(route=self.route(kind), rank=rank, score=score, view=kind)
                hits.setdefault(chunk.id, Hit(chunk, score, (way,)))
        return Ranking(tuple(hits.values()), found.scale, (*found.degraded, *missing)).top(request.k)

    def _parents(self, found: Sequence[Document]) -> Step[tuple[list[Chunk | None], tuple[Degraded, ...]]]:
        """Return the parent of each view, None where the docstore lacks it, and what it lacks."""
        ids = [None if (name := view.metadata.get(self.id_key)) is None else str(name) for view in found]
        wanted = list(dict.fromkeys(name for name in ids if name is not None))
        if wanted and self.docstore is None:
            raise ParameterError("docstore", None, f"given: what is found leads to its parent by {self.id_key!r}")
        held = (yield from fetch(self.docstore, wanted)) if self.docstore is not None else {}
        chunks = {name: self._chunk(parent, name) for name, parent in held.items()}
        lacking = [name for name in wanted if name not in held]
        parents = [
            self._chunk(view, chunk_of(view, source_name(view)).id) if name is None else chunks.get(name)
            for name, view in zip(ids, found, strict=True)
        ]
        shown = ", ".join(lacking[:_SHOWN]) + (", …" if len(lacking) > _SHOWN else "")
        told = (Degraded("parents", f"the docstore lacks {len(lacking)} that views lead to ({shown})"),)
        return parents, told if lacking else ()

    def _chunk(self, parent: Document, name: str) -> Chunk:
        place = _place(parent) if self.by_place else None
        return replace(to_chunk(whole_chunk(parent)), id=name if place is None else place)


def named(ranking: Ranking) -> Ranking:
    """Return hits under the ids of their documents again, those that have one."""
    hits = []
    for hit in ranking.hits:
        document = original_of(hit.chunk)
        name = hit.chunk.id if document is None else document.id or hit.chunk.id
        hits.append(replace(hit, chunk=replace(hit.chunk, id=name)))
    return replace(ranking, hits=tuple(hits))


def _place(document: Document) -> str | None:
    """Return what names a section whatever id a store or an index gave it, or lost; None where it tells no place."""
    start, end = (document.metadata.get(key) for key in ("start_index", "end_index"))
    if not isinstance(start, int) or not isinstance(end, int):
        return None
    whole = (str(document.metadata.get(key)) for key in ("document_id", SOURCE, "page"))
    return digest("place", *whole, str(start), str(end), length=32)


def in_retrievers(retrievers: Mapping[str, Runnable[str, list[Document]]]) -> Find:
    """Return who finds views by one retriever per kind; it gives as many as it gives.

    A hit's score is the document's `relevance_score` where all have a number there, or else `1 / rank`.
    """

    def find(kind: str, query: str, size: int) -> Step[_Found]:
        retriever = retrievers[kind]
        found = yield from called(
            lambda: retriever.invoke(query, {"tags": [f"view:{kind}"]}),
            lambda: retriever.ainvoke(query, {"tags": [f"view:{kind}"]}),
            purpose=f"view {kind}",
        )
        scores = [each.metadata.get(SCORE) for each in found]
        if found and all(_is_number(score) for score in scores):
            return _Found(views=[(each, float(score)) for each, score in zip(found, scores, strict=True)], all=True)
        return _Found(views=_by_rank(found), all=True, scale=Scale.RANK)

    return find


def in_vector_store(store: VectorStore, kinds: Sequence[str], view_key: str, filtering: Filtering) -> Find:
    """Return who finds views in a vector store that holds all kinds, told apart by `metadata[view_key]`.

    A filter that the store refuses or does not obey is told, and the hits are grouped instead. What a function gives
    may keep out more than other kinds: nothing is searched without it.
    """
    tells = type(store).similarity_search_with_score is not VectorStore.similarity_search_with_score
    searches, scale = (_scored, Scale.SIMILARITY) if tells else (_ordered, Scale.RANK)
    own = filtering if callable(filtering) else None

    def grouped(kind: str, query: str, size: int, why: str = "") -> Step[_Found]:
        most = size * len(kinds)
        found = yield from searches(store, query, most, {} if own is None else own(kind))
        told = Degraded("filter", f"{type(store).__name__} {why}; searched further, and grouped by {view_key!r}")
        kept, parts = _of_kind(found, view_key, kind), (told,) if why else ()
        return _Found(views=kept, all=len(found) < most, scale=scale, degraded=parts)

    def find(kind: str, query: str, size: int) -> Step[_Found]:
        how = _filter(store, view_key, kind, filtering)
        if how is None:
            return (yield from grouped(kind, query, size))
        try:
            found = yield from searches(store, query, size, how)
        except ServiceError as refused:
            if own is not None:
                raise
            return (yield from grouped(kind, query, size, f"was not searched by {view_key!r} ({refused.what})"))
        kept = _of_kind(found, view_key, kind)
        if len(kept) < len(found):
            return (yield from grouped(kind, query, size, f"does not obey the filter on {view_key!r}"))
        return _Found(views=kept, all=len(found) < size, scale=scale)

    return find


def _filter(store: VectorStore, view_key: str, kind: str, filtering: Filtering) -> Mapping[str, Any] | None:
    """Return what the store's search takes to find views of one kind; None where hits are grouped."""
    if callable(filtering):
        return filtering(kind)
    if filtering == "over-fetch" or "fetch_k" in signature(store.similarity_search_with_score).parameters:
        return None  # a store with `fetch_k` filters what it fetched, and fetches too little
    if isinstance(store, InMemoryVectorStore):
        return {"filter": lambda document: document.metadata.get(view_key) == kind}
    return {"filter": {view_key: kind}}


def _scored(store: VectorStore, query: str, size: int, how: Mapping[str, Any]) -> Step[list[tuple[Document, float]]]:
    """Return documents, best first, with scores; what rises down the list is a distance, and counts negative."""
    found = yield from called(
        lambda: store.similarity_search_with_score(query, k=size, **how),
        lambda: store.asimilarity_search_with_score(query, k=size, **how),
        purpose="views",
    )
    sign = -1.0 if found and found[-1][1] > found[0][1] else 1.0
    return [(document, sign * float(score)) for document, score in found]


def _ordered(store: VectorStore, query: str, size: int, how: Mapping[str, Any]) -> Step[list[tuple[Document, float]]]:
    """Return documents, best first, of a store that tells no scores: 1 / rank."""
    found = yield from called(
        lambda: store.similarity_search(query, k=size, **how),
        lambda: store.asimilarity_search(query, k=size, **how),
        purpose="views",
    )
    return _by_rank(found)


def _by_rank(found: Sequence[Document]) -> list[tuple[Document, float]]:
    return [(document, 1.0 / rank) for rank, document in enumerate(found, start=1)]


def _is_number(score: object) -> bool:
    return isinstance(score, int | float) and not isinstance(score, bool) and isfinite(score)


def _of_kind(found: Sequence[tuple[Document, float]], view_key: str, kind: str) -> list[tuple[Document, float]]:
    return [(document, score) for document, score in found if document.metadata.get(view_key) == kind]

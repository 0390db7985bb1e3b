"""Retrieve parents under several views: out of any vector store that holds all kinds, or of a retriever for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, ClassVar, Literal, Self, TypeAlias

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from pydantic import Field, InstanceOf, PrivateAttr, model_validator

from catena import Chunk, Degraded, ParameterError, Ranking, Scale, Services, arun, run
from catena.effects import Handler, Retry, Search, Step
from catena.model import SOURCE, digest
from catena.retrieval import (
    FoundViews,
    OnViewError,
    PaperQuota,
    ViewRule,
    rank_parents,
    retrieve_views,
    search_kind,
    stored,
)
from langchain_catena.base import CatenaBaseRetriever
from langchain_catena.convert import SCORE, as_score, original_of, to_chunk, view_documents
from langchain_catena.docstores import Docstore, called, calling, fetch, one_docstore
from langchain_catena.ids import chunk_of, source_name
from langchain_catena.structure import whole_chunk
from langchain_catena.views import PARENT_ID, VIEW

Filtering: TypeAlias = Literal["filter", "over-fetch"] | Callable[[str], Mapping[str, Any]]
"""The way to search a vector store for views of one kind: by its filter on metadata, by more hits than needed that
are grouped, or by a function from the kind to what the store's search takes (`{"expr": "view == 'summary'"}`)."""

_Scored: TypeAlias = tuple[Document, float]
_SHOWN = 3  # ids in a message
_Find: TypeAlias = Callable[[Search], Step[FoundViews[Document]]]


class CatenaMultiViewRetriever(CatenaBaseRetriever):
    """Finds documents under several views, as MC-indexing does, and returns each once, in raw text.

        CatenaMultiViewRetriever(vectorstore=store, docstore=docstore, views=("passage", "keywords", "summary"))
        CatenaMultiViewRetriever(retrievers={"headed": BM25Retriever.from_documents(sections), "summary": dense},
                                 docstore=docstore, rule=ViewRankFusion(weights={"headed": 2.0}))

    Views are documents whose metadata lead to a parent, as `CatenaViewTransformer` or whoever fills a
    `MultiVectorRetriever` writes them; of several views of a parent the best counts. A document that leads to none
    is a parent itself; a section of Catena is one, whatever id or none a retriever of sections knows it by.

    The parents' metadata have, besides their own, `relevance_score` and, under `catena`, `views` (kind -> rank in
    that view, from 1) and `routes` (with raw scores; distances, which rise down a list, as negative numbers).

    A view that fails, and one whose parent is missing, is told in the documents' metadata, in the log and in a custom
    event. `ranking` and `aranking` return the core's `Ranking`.

    Attributes:
        vectorstore: holds the views of all kinds, told apart by `metadata[view_key]`.
        retrievers: or kind -> any retriever of views (or of parents) of this kind.
        docstore: where parents are: a store of documents, or a function (a coroutine function as well) from ids to
            documents, one per id, None where there is none. Not needed where `retrievers` return parents.
        byte_store: a store of bytes in its place, as of `MultiVectorRetriever`.
        views: kinds in the order in which they take turns; with `retrievers` by default all of these.
        rule: how the views' rankings become one: `PaperQuota()`, whose number of documents varies, `ExactUnion()`,
            `ViewRankFusion()`, `ViewScoreFusion()`.
        k: documents returned; the paper's rule takes 1.5, too. `invoke` takes it as well.
        depth: views looked at per kind, at least; by default max(3 k, 30). More where these lead to fewer than k.
        on_view_error: "degrade" goes on with the other views; "raise" raises.
        filtering: how the vector store finds views of one kind: "filter" by `{view_key: kind}`, as most stores have
            it, "over-fetch" without a filter, or a function from the kind to what its search takes, your own
            conditions among it: `lambda kind: {"filter": {"view": kind, "product": "HX210"}}`. A store that filters
            what it fetched, as FAISS, needs `fetch_k` there, too.
        id_key: metadata key of the parent's id.
        view_key: metadata key of a view's kind.
    """

    asked: ClassVar[tuple[str, ...]] = ("k",)
    provider: ClassVar[str] = "catena-views"

    vectorstore: InstanceOf[VectorStore] | None = Field(default=None, exclude=True)
    retrievers: dict[str, InstanceOf[Runnable[str, list[Document]]]] | None = Field(default=None, exclude=True)
    docstore: Any = Field(default=None, exclude=True)
    byte_store: InstanceOf[BaseStore[str, bytes]] | None = Field(default=None, exclude=True)
    views: tuple[str, ...] | None = None
    rule: InstanceOf[ViewRule] = Field(default_factory=PaperQuota)
    k: int | float = 3
    depth: int | None = None
    on_view_error: OnViewError = "degrade"
    filtering: Filtering = Field(default="filter", exclude=True)
    id_key: str = PARENT_ID
    view_key: str = VIEW
    _outside: Services = PrivateAttr(default_factory=Services)  # one, so that a dead view is remembered

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.vectorstore is None) == (not self.retrievers):
            raise ValueError("give either vectorstore=… or retrievers={kind: …}")
        if self.vectorstore is not None and not self.views:
            raise ValueError("vectorstore=… needs views=…: the kinds that it holds, e.g. transformer.kinds")
        if self.retrievers and (unknown := sorted(set(self.views or ()) - set(self.retrievers))):
            raise ValueError(f"views without a retriever: {', '.join(unknown)}")
        self._docstore()
        return self

    def children(self) -> Iterator[object]:
        yield from (self.retrievers or {}).values()

    def _prepared(self, query: str, **asked: Any) -> tuple[Step[Ranking], Services]:
        return self._step(query, **asked), self._services(**asked)

    def _documents(self, found: Ranking) -> list[Document]:
        return view_documents(found)

    def _step(self, query: str, *, k: float | None = None) -> Step[Ranking]:
        ranking = yield from retrieve_views(
            query,
            views=self._kinds(),
            k=self.k if k is None else k,
            rule=self.rule,
            search=lambda kind: stored("views"),
            depth=self.depth,
            on_view_error=self.on_view_error,
        )
        return _under_own_ids(ranking) if self.retrievers else ranking

    def _services(self, *, k: float | None = None) -> Services:
        retrievers, wanted, docstore = self.retrievers or {}, self.k if k is None else k, self._docstore()
        services = Services(handlers=calling("langchain"), retry=Retry(attempts=1))  # who asks tries again
        if self.vectorstore is None:
            find = _in_retrievers(retrievers)
        else:
            find = _in_vector_store(self.vectorstore, self._kinds(), self.view_key, self.filtering)

        def parents_of(found: Sequence[Document]) -> Step[tuple[list[Chunk | None], tuple[Degraded, ...]]]:
            return self._parents_of(found, docstore)

        def ranked(request: Search) -> Step[Ranking]:
            route = type(self.vectorstore or retrievers[str(request.view)]).__name__
            return rank_parents(request, find, parents_of, route=route, k=wanted)

        handler = Handler(
            identity="langchain:views",
            call=lambda request: run(ranked(request), services),
            acall=lambda request: arun(ranked(request), services),
        )
        return replace(self._outside, handlers={Search: handler})

    def _parents_of(
        self, found: Sequence[Document], docstore: Docstore | None
    ) -> Step[tuple[list[Chunk | None], tuple[Degraded, ...]]]:
        """Return the parent of each view, None where the docstore lacks it, and what it lacks."""
        ids = [None if (name := view.metadata.get(self.id_key)) is None else str(name) for view in found]
        wanted = list(dict.fromkeys(name for name in ids if name is not None))
        if wanted and docstore is None:
            raise ParameterError("docstore", None, f"given: what is found leads to its parent by {self.id_key!r}")
        held = (yield from fetch(docstore, wanted)) if docstore is not None else {}
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
        place = _place(parent) if self.vectorstore is None else None  # several stores may know one by several ids
        return replace(to_chunk(whole_chunk(parent)), id=name if place is None else place)

    def _kinds(self) -> Sequence[str]:
        return self.views or tuple(self.retrievers or ())

    def _docstore(self) -> Docstore | None:
        if self.retrievers and self.docstore is None and self.byte_store is None:
            return None
        try:
            return one_docstore(self.docstore, self.byte_store)
        except ParameterError as error:
            raise ValueError(str(error)) from error


def _under_own_ids(ranking: Ranking) -> Ranking:
    """Return hits under the ids of their documents again, those that have one."""
    hits = []
    for hit in ranking.hits:
        document = original_of(hit.chunk)
        name = hit.chunk.id if document is None else document.id or hit.chunk.id
        hits.append(replace(hit, chunk=replace(hit.chunk, id=name)))
    return replace(ranking, hits=tuple(hits))


def _place(document: Document) -> str | None:
    """Return an id made of a section's place, equal in all stores; None where its metadata tell no place."""
    start, end = (document.metadata.get(key) for key in ("start_index", "end_index"))
    if not isinstance(start, int) or not isinstance(end, int):
        return None
    whole = (str(document.metadata.get(key)) for key in ("document_id", SOURCE, "page"))
    return digest("place", *whole, str(start), str(end), length=32)


def _in_retrievers(retrievers: Mapping[str, Runnable[str, list[Document]]]) -> _Find:
    """Return a function that finds views by one retriever per kind; it gives as many as it gives.

    A hit's score is the document's `relevance_score` where all have a number there, or else `1 / rank`.
    """

    def find(request: Search) -> Step[FoundViews[Document]]:
        retriever, config = retrievers[str(request.view)], RunnableConfig(tags=[f"view:{request.view}"])
        found = yield from called(
            lambda: retriever.invoke(request.query, config),
            lambda: retriever.ainvoke(request.query, config),
            purpose=f"view {request.view}",
        )
        scores = [as_score(each.metadata.get(SCORE)) for each in found]
        views = [(each, score) for each, score in zip(found, scores, strict=True) if score is not None]
        if found and len(views) == len(found):
            return FoundViews(views=views, all=True)
        return FoundViews(views=_by_rank(found), all=True, scale=Scale.RANK)

    return find


def _in_vector_store(store: VectorStore, kinds: Sequence[str], view_key: str, filtering: Filtering) -> _Find:
    """Return a function that finds views in a vector store that holds all kinds, told apart by `metadata[view_key]`.

    A filter that the store refuses or does not obey is told, and the hits are grouped instead. What a function gives
    may keep out more than other kinds: nothing is searched without it.
    """
    scale = Scale.SIMILARITY if _tells_scores(store) else Scale.RANK
    own = filtering if callable(filtering) else None

    def find(request: Search) -> Step[FoundViews[Document]]:
        kind = str(request.view)
        how = _filter(store, view_key, kind, filtering)

        def search(size: int, filtered: bool) -> Step[list[_Scored]]:
            given = how if filtered else None if own is None else own(kind)
            return _searched(store, request.query, size, given or {})

        views, is_all, told = yield from search_kind(
            request,
            len(kinds),
            search,
            lambda view: view[0].metadata.get(view_key) == kind,
            filters=how is not None,
            store=type(store).__name__,
            key=view_key,
            instead="searched further",
            strict=own is not None,
        )
        return FoundViews(views=views, all=is_all, scale=scale, degraded=told)

    return find


def _filter(store: VectorStore, view_key: str, kind: str, filtering: Filtering) -> Mapping[str, Any] | None:
    """Return the arguments of a search for views of one kind; None where hits are grouped."""
    if callable(filtering):
        return filtering(kind)
    if filtering == "over-fetch" or "fetch_k" in signature(store.similarity_search_with_score).parameters:
        return None  # a store with `fetch_k` filters what it fetched, and fetches too little
    if isinstance(store, InMemoryVectorStore):
        return {"filter": lambda document: document.metadata.get(view_key) == kind}
    return {"filter": {view_key: kind}}


def _searched(
    store: VectorStore, query: str, size: int, how: Mapping[str, Any]
) -> Step[list[tuple[Document, float]]]:
    """Return documents, best first, with scores; what rises down the list is a distance, and counts negative.

    A store that tells no scores gives 1 / rank.
    """
    if not _tells_scores(store):
        found = yield from called(
            lambda: store.similarity_search(query, k=size, **how),
            lambda: store.asimilarity_search(query, k=size, **how),
            purpose="views",
        )
        return _by_rank(found)
    found = yield from called(
        lambda: store.similarity_search_with_score(query, k=size, **how),
        lambda: store.asimilarity_search_with_score(query, k=size, **how),
        purpose="views",
    )
    sign = -1.0 if found and found[-1][1] > found[0][1] else 1.0
    return [(document, sign * float(score)) for document, score in found]


def _tells_scores(store: VectorStore) -> bool:
    return type(store).similarity_search_with_score is not VectorStore.similarity_search_with_score


def _by_rank(found: Sequence[Document]) -> list[_Scored]:
    return [(document, 1.0 / rank) for rank, document in enumerate(found, start=1)]

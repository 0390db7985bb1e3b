"""Parents found under several views, as one LangChain retriever: any vector store, or any retriever per view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, Literal, Self, TypedDict, Unpack

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.runnables import Runnable
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore
from pydantic import Field, InstanceOf, PrivateAttr, model_validator

from catena.effects import Search, Services, Step, arun, run
from catena.model import ParameterError, Ranking
from catena.retrieval import PaperQuota, ViewRule, found_by, retrieve_views, stored
from langchain_catena.base import CatenaBaseRetriever
from langchain_catena.convert import PROVENANCE, to_document
from langchain_catena.docstores import Docstore, one_docstore
from langchain_catena.retrieval import told
from langchain_catena.running import arun_within, run_within
from langchain_catena.view_search import Filtering, ViewSource, in_retrievers, in_vector_store, named
from langchain_catena.views import PARENT_ID, VIEW


class AskedViews(TypedDict, total=False):
    """What `invoke` takes besides the question; it goes before the retriever's own."""

    k: float | None


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
            `ViewRankFusion()`, `ViewScoreFusion()`, `AdaptiveQuota()`.
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

    asked: ClassVar[type] = AskedViews
    provider: ClassVar[str] = "catena-views"

    vectorstore: InstanceOf[VectorStore] | None = Field(default=None, exclude=True)
    retrievers: dict[str, InstanceOf[Runnable[str, list[Document]]]] | None = Field(default=None, exclude=True)
    docstore: Any = Field(default=None, exclude=True)
    byte_store: InstanceOf[BaseStore[str, bytes]] | None = Field(default=None, exclude=True)
    views: tuple[str, ...] | None = None
    rule: InstanceOf[ViewRule] = Field(default_factory=PaperQuota)
    k: int | float = 3
    depth: int | None = None
    on_view_error: Literal["raise", "degrade"] = "degrade"
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

    def ranking(self, query: str, **asked: Unpack[AskedViews]) -> Ranking:
        """Return the core's ranking: parents with the views that found them, and what failed."""
        return run(self._step(query, **asked), self._services(**asked))

    async def aranking(self, query: str, **asked: Unpack[AskedViews]) -> Ranking:
        """As `ranking`, without blocking the event loop."""
        return await arun(self._step(query, **asked), self._services(**asked))

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **asked: Unpack[AskedViews]
    ) -> list[Document]:
        ranking = run_within(run_manager.get_child(), self._step(query, **asked), self._services(**asked))
        for name, part in told(ranking):
            dispatch_custom_event(name, asdict(part), config={"callbacks": run_manager.get_child()})
        return view_documents(ranking)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **asked: Unpack[AskedViews]
    ) -> list[Document]:
        ranking = await arun_within(run_manager.get_child(), self._step(query, **asked), self._services(**asked))
        for name, part in told(ranking):
            await adispatch_custom_event(name, asdict(part), config={"callbacks": run_manager.get_child()})
        return view_documents(ranking)

    def children(self) -> Iterator[object]:
        yield from (self.retrievers or {}).values()

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
        return named(ranking) if self.retrievers else ranking

    def _services(self, *, k: float | None = None) -> Services:
        kinds, retrievers = self._kinds(), self.retrievers or {}
        if self.vectorstore is None:
            find = in_retrievers(retrievers)
        else:
            find = in_vector_store(self.vectorstore, kinds, self.view_key, self.filtering)
        source = ViewSource(
            find=find,
            route=lambda kind: type(self.vectorstore or retrievers[kind]).__name__,
            docstore=self._docstore(),
            id_key=self.id_key,
            k=self.k if k is None else k,
            by_place=self.vectorstore is None,
        )
        return replace(self._outside, handlers={Search: source.handler})

    def _kinds(self) -> Sequence[str]:
        return self.views or tuple(self.retrievers or ())

    def _docstore(self) -> Docstore | None:
        if self.retrievers and self.docstore is None and self.byte_store is None:
            return None
        try:
            return one_docstore(self.docstore, self.byte_store)
        except ParameterError as error:
            raise ValueError(str(error)) from error


def view_documents(ranking: Ranking) -> list[Document]:
    """Return hits as documents whose `metadata["catena"]["views"]` says which views found them, at which rank."""
    documents = []
    for hit in ranking.hits:
        document = to_document(hit, ranking)
        found = {**document.metadata[PROVENANCE], "views": found_by(hit)}
        documents.append(document.model_copy(update={"metadata": {**document.metadata, PROVENANCE: found}}))
    return documents

"""Make views of documents as documents of their own, and retrieve parents under several views, in any stores."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from inspect import signature
from typing import Any, ClassVar, Literal, Self, TypeAlias

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from pydantic import Field, InstanceOf, PrivateAttr, model_validator

from catena import Chunk, ParameterError, Ranking, Scale, Services, model
from catena.effects import Retry, Search, Step, all_together, answered_by, calling
from catena.enrichment import Held, OwnView, ParentViews, ViewMaker, divided_views, views_of_parents
from catena.model import SOURCE, TITLE, digest
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
from catena.structure import PASSAGE_TOKENS
from langchain_catena.base import CatenaBaseRetriever, CatenaBaseTransformer
from langchain_catena.convert import SCORE, as_score, original_of, scalars, to_chunk, view_documents
from langchain_catena.places import FILTERS, chunk_of, source_name
from langchain_catena.services import LangChainLLM, services_with
from langchain_catena.stores import Docstore, fetch, method, one_docstore
from langchain_catena.structure import whole_chunk

VIEW = "view"
"""Metadata key of a view's kind."""

PARENT_ID = "doc_id"
"""Metadata key by which a view leads to its parent; the one of LangChain's `MultiVectorRetriever`."""

_log = logging.getLogger(__name__)


class CatenaViewTransformer(CatenaBaseTransformer):
    """Makes, out of documents, the views under which a vector store finds them: passages, keywords, summaries.

        sections = CatenaDocumentTransformer(chunks=SectionChunkOptions()).split_documents(documents)
        views = CatenaViewTransformer(llm=model)
        retriever = MultiVectorRetriever(vectorstore=store, docstore=InMemoryStore())
        retriever.vectorstore.add_documents(views.transform_documents(sections))
        retriever.docstore.mset(views.parents(sections))

    A view's `page_content` is its text; its metadata are flat: `doc_id` (the parent's id), `view` (the kind), and
    what `metadata_keys` names of the parent's. Its id is derived from parent, kind, number, text and the two keys, so
    that an equal view replaces itself. `CatenaMultiViewRetriever` ranks parents by their views, and `CatenaViewIndex`
    keeps the stores in step with changed documents.

    Parents are sections as above, or any documents; those of one `source` are read together, in the order given. What
    a model fails at costs that view, and is told in the log.

    Args:
        views: "raw", "headed" and "passage" (see `OwnView`), and makers of others: `Keywords()`, `Summaries()`,
            `Questions()`, or your own. By default passages, keywords and summaries, these two by `llm` where one is
            given and else offline.
        llm: any chat model or LLM.
        embeddings: for offline summaries; by default the shipped ones.
        services: journal, budget and limits of the models' calls; what is given above goes before its models.
        passage_tokens: of a passage at most, its titles not counted, >= 1.
        id_key: metadata key of the parent's id.
        view_key: metadata key of the kind.
        metadata_keys: of the parent's metadata that views repeat, where flat.
        source_key: metadata key of whose a parent is; "source", or else "document_id", where None.

    Raises:
        ParameterError: an option is out of range, or no model is given where one is asked.
    """

    def __init__(
        self,
        views: Sequence[ViewMaker | OwnView] | None = None,
        *,
        llm: BaseLanguageModel[Any] | None = None,
        embeddings: Embeddings | None = None,
        services: Services | None = None,
        passage_tokens: int = PASSAGE_TOKENS,
        id_key: str = PARENT_ID,
        view_key: str = VIEW,
        metadata_keys: Sequence[str] = FILTERS,
        source_key: str | None = None,
    ) -> None:
        self.llm, self.embeddings, self._given = llm, embeddings, services
        has_model = llm is not None or (services is not None and services.llm is not None)
        self.own, self.makers = divided_views(views, "llm" if has_model else "offline")
        if type(passage_tokens) is not int or passage_tokens < 1:
            raise ParameterError("passage_tokens", passage_tokens, "a whole number >= 1")
        if isinstance(metadata_keys, str):
            raise ParameterError("metadata_keys", metadata_keys, f"a sequence of keys, e.g. [{metadata_keys!r}]")
        if id_key == view_key:
            raise ParameterError("view_key", view_key, f"another key than id_key ({id_key!r})")
        self.passage_tokens, self.id_key, self.view_key = passage_tokens, id_key, view_key
        self.metadata_keys, self.source_key = tuple(metadata_keys), source_key
        if any(maker.asks_model for maker in self.makers) and not has_model:
            raise ParameterError("llm", None, "a chat model or LLM: a maker of views asks it")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of view that are made, in order."""
        return tuple(dict.fromkeys((*self.own, *(maker.kind for maker in self.makers))))

    @cached_property
    def services(self) -> Services:
        """The services that answer the makers."""
        computes = any(not maker.asks_model for maker in self.makers)
        return services_with(self._given, llm=self.llm, embeddings=self.embeddings, or_static=computes)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made at need: processes make their own."""
        return {name: value for name, value in self.__dict__.items() if name != "services"}

    @property
    def version(self) -> str:
        """All that decides which views are made of given parents: makers, their versions, the model."""
        makers = [(maker.kind, maker.version) for maker in self.makers]
        keys = (self.id_key, self.view_key, self.metadata_keys)
        return digest(repr((self.own, makers, self._model, self.passage_tokens, keys)), length=32)

    def parents(self, documents: Sequence[Document]) -> list[tuple[str, Document]]:
        """Return the pairs for a docstore's `mset`: each document under the id that its views name."""
        named = ((chunk_of(each, self._source(each)).id, each) for each in documents)
        return [(name, document.model_copy(update={"id": name})) for name, document in named]

    def made(self, source: str, parents: Sequence[Document], held: Held | None = None) -> Step[ParentViews[Document]]:
        """Make the views of the parents of one source, as a step of the core.

        Args:
            source: the name of the file or text.
            parents: all of its parents, in reading order.
            held: views of an older version by `View.made`: a model is not asked for those again.
        """
        given: dict[str, Document] = {}
        chunks: list[model.Chunk] = []
        for document in parents:
            chunk = chunk_of(document, source)
            if chunk.id not in given:
                chunks.append(chunk)
            elif given[chunk.id].page_content != document.page_content:
                raise ParameterError("ids of the documents", chunk.id, "all different")
            given.setdefault(chunk.id, document)
        title = next((str(chunk.metadata[TITLE]) for chunk in chunks if chunk.metadata.get(TITLE)), "")
        whole = model.Document(id=source, text="", title=title)
        own, makers, tokens = self.own, self.makers, self.passage_tokens

        def view_of(view: model.View, number: int) -> Document:
            return self._view(view, number, given[view.chunk_id])

        return views_of_parents(
            whole, chunks, own, makers, view_of, passage_tokens=tokens, model=self._model, held=held
        )

    @property
    def _model(self) -> str:
        if self.llm is not None:
            return LangChainLLM(self.llm).identity
        return "" if self._given is None or self._given.llm is None else self._given.llm.identity

    def _view(self, view: model.View, number: int, parent: Document) -> Document:
        metadata = {
            **{key: value for key, value in scalars(parent.metadata).items() if key in self.metadata_keys},
            self.id_key: view.chunk_id,
            self.view_key: view.kind,
        }
        keys = (self.id_key, self.view_key)  # under other keys it is another document
        own = digest("view", *keys, view.chunk_id, view.kind, str(number), view.text, length=32)
        return Document(id=own, page_content=view.text, metadata=metadata)

    def _asks(self) -> bool:
        return any(maker.asks_model for maker in self.makers)

    def _services(self) -> Services:
        return self.services

    def _step(self, given: Sequence[Document]) -> Step[list[ParentViews[Document]]]:
        """Make the views of all sources side by side."""
        sources: dict[str, list[Document]] = defaultdict(list)
        for document in given:
            sources[self._source(document)].append(document)
        return all_together([self.made(source, parents) for source, parents in sources.items()])

    def _transformed(self, given: Sequence[Document], found: Sequence[ParentViews[Document]]) -> list[Document]:
        """Return the views in the order of their parents, and write what is missing to the log."""
        tell(found)
        views = {name: documents for each in found for name, documents in each.views.items()}
        names = dict.fromkeys(name for name, _ in self.parents(given))
        return [view for name in names for view in views[name]]

    def _source(self, document: Document) -> str:
        return source_name(document, self.source_key)


def tell(made: Iterable[ParentViews[Document]]) -> None:
    """Write to the log which views could not be made."""
    for each in made:
        for part in each.degraded:
            _log.warning("%s: %s: %s", each.entry.document.id, part.what, part.why)


Filtering: TypeAlias = Literal["filter", "over-fetch"] | Callable[[str], Mapping[str, Any]]
"""The way to search a vector store for views of one kind: by its filter on metadata, by more hits than needed that
are grouped, or by a function from the kind to what the store's search takes (`{"expr": "view == 'summary'"}`)."""

_Scored: TypeAlias = tuple[Document, float]
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

        def parents_of(found: Sequence[Document]) -> Step[tuple[list[Chunk | None], list[str]]]:
            return self._parents_of(found, docstore)

        def ranked(request: Search) -> Step[Ranking]:
            route = type(self.vectorstore or retrievers[str(request.view)]).__name__
            return rank_parents(request, find, parents_of, route=route, k=wanted)

        return replace(self._outside, handlers={Search: answered_by("langchain:views", ranked, services)})

    def _parents_of(
        self, found: Sequence[Document], docstore: Docstore | None
    ) -> Step[tuple[list[Chunk | None], list[str]]]:
        """Return the parent of each view, None where the docstore lacks it, and the ids of what it lacks."""
        ids = [None if (name := view.metadata.get(self.id_key)) is None else str(name) for view in found]
        wanted = list(dict.fromkeys(name for name in ids if name is not None))
        if wanted and docstore is None:
            raise ParameterError("docstore", None, f"given: what is found leads to its parent by {self.id_key!r}")
        held = (yield from fetch(docstore, wanted)) if docstore is not None else {}
        chunks = {name: self._chunk(parent, name) for name, parent in held.items()}
        parents = [
            self._chunk(view, chunk_of(view, source_name(view)).id) if name is None else chunks.get(name)
            for name, view in zip(ids, found, strict=True)
        ]
        return parents, [name for name in wanted if name not in held]

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
        found = yield from method(retriever, "invoke", request.query, config, purpose=f"view {request.view}")
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
        return _by_rank((yield from method(store, "similarity_search", query, k=size, purpose="views", **how)))
    found = yield from method(store, "similarity_search_with_score", query, k=size, purpose="views", **how)
    sign = -1.0 if found and found[-1][1] > found[0][1] else 1.0
    return [(document, sign * float(score)) for document, score in found]


def _tells_scores(store: VectorStore) -> bool:
    return type(store).similarity_search_with_score is not VectorStore.similarity_search_with_score


def _by_rank(found: Sequence[Document]) -> list[_Scored]:
    return [(document, 1.0 / rank) for rank, document in enumerate(found, start=1)]

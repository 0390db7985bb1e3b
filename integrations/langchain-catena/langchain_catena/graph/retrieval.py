"""Evidence chains for a question, as a LangChain retriever: over a library, or any store or retriever and a graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, TypedDict, Unpack

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    Callbacks,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from langchain_core.vectorstores import VectorStore
from pydantic import Field, InstanceOf, model_validator

from catena.effects import Failed, Graph, Handler, Services, Step
from catena.graph import GraphResult, GraphSearch, widen
from catena.library import check_graph_step, graph_step
from catena.model import Degraded, FilterError, MissingServiceError, ParameterError, Ranking, Scale
from langchain_catena.base import CatenaBaseRetriever
from langchain_catena.convert import unknown_document
from langchain_catena.graph.nodes import NodeKeys
from langchain_catena.graph.widening import (
    Widened,
    check_source,
    given_ranking,
    one_source,
    walking_services,
    widened,
)
from langchain_catena.libraries import LibraryField
from langchain_catena.retrieval import told
from langchain_catena.running import arun_within, run_within

FIRST_RANKING = "first_ranking"
"""Tag of the run of the retriever whose ranking a walk goes out from."""


class AskedChains(TypedDict, total=False):
    """What `invoke` takes besides the question; each goes before the retriever's own."""

    k: int | None
    where: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Retrieve:
    """Ask the retriever of the first ranking; the reply is its documents."""

    query: str
    purpose: str = field(default="search")


class CatenaGraphRetriever(CatenaBaseRetriever):
    """Finds the documents that answer a question together: a first ranking, then a walk over the graph from there.

        CatenaGraphRetriever(library=library)                                       # after library.build_graph()
        CatenaGraphRetriever(vectorstore=store, graph=build_graph(splits, embeddings))
        CatenaGraphRetriever(retriever=any_retriever, graph=graph, embeddings=embeddings)

    Documents come in the order of the walk, then the rest of the first ranking. What the retriever gave is copied,
    with all its metadata; what the graph brings is as it was when the graph was built. `metadata["catena"]` has,
    besides what `CatenaRetriever` states, `chunk_id` (under which the graph has it) and `chains`, all its places:

    - `chain` (number, from 1), `hop` (place in it, from 1), `score` (of the scorer)
    - `came_from` (`chunk_id` of the document that led here; "" of a seed and of what the first ranking gave)
    - `edges` (kind -> weight of what joins the two), `shared` (kind -> the words that they share)
    - `words` (of the question, that this hop is the first to cover)

    `format_chains` writes them out for a prompt, `chains_of` gives them to the core. `result` and `aresult` return
    the core's `GraphResult`.

    Attributes:
        library: whose graph is walked, and whose chunks are ranked where there is no other retriever.
        retriever: or any retriever for the first ranking, whose documents are (or are also) in the graph. It should
            return many (50 or so). Those that the graph does not have are ranked behind what was walked to.
        vectorstore: or a vector store in its place, asked for `how.depth` documents.
        graph: of `build_graph`, where there is no library.
        embeddings: by which it was built, of LangChain or of the core; by default those of the vector store.
        k: documents returned. `invoke` takes it as well.
        how: walk, scorer, and with a library alone the routes of the first ranking.
        where: a filter on metadata, in the core's grammar. Filter inside the retriever as well: what does not fulfil
            it is left out of its documents, and not replaced.
        id_key, source_key: as the graph was built with, see `GraphDocuments`.
        on_retriever_error: "degrade" walks from where the question's keywords stand in the graph when the retriever
            fails, and says so in each document's metadata, in the log and in a custom event; "raise" raises. What the
            walk itself fails with is treated as `how.on_graph_error` says, and raised where both fail.
        llm: any chat model or LLM, where `how` asks one.
        services: without a library, journal, budget and limits of the calls of models.
        tell_unknown: the first document names what stands nowhere and what is like it; on top of k.
    """

    asked: ClassVar[type] = AskedChains
    provider: ClassVar[str] = "catena-graph"

    library: LibraryField | None = Field(default=None, exclude=True)
    retriever: InstanceOf[Runnable[str, list[Document]]] | None = None
    vectorstore: InstanceOf[VectorStore] | None = Field(default=None, exclude=True)
    graph: InstanceOf[Graph] | None = Field(default=None, exclude=True)
    embeddings: Any = Field(default=None, exclude=True)
    k: int = Field(default=10, ge=0)
    how: InstanceOf[GraphSearch] = Field(default_factory=GraphSearch)
    where: dict[str, Any] | None = None
    id_key: str | None = None
    source_key: str | None = None
    on_retriever_error: Literal["raise", "degrade"] = "degrade"
    llm: InstanceOf[BaseLanguageModel[Any]] | None = Field(default=None, exclude=True)
    services: InstanceOf[Services] | None = Field(default=None, exclude=True)
    tell_unknown: bool = False

    @model_validator(mode="after")
    def _sources(self) -> Self:
        check_source(self.library, self.graph, self.embeddings, self.services)
        if self.retriever is not None and self.vectorstore is not None:
            raise ValueError("give either retriever=… or vectorstore=…")
        if self.graph is not None:
            if self.retriever is None and self.vectorstore is None:
                raise ValueError("graph=… needs retriever=… or vectorstore=…, for the first ranking")
            if self._embeddings() is None:
                raise ValueError("graph=… needs embeddings=…: those by which it was built")
        return self

    def result(self, query: str, **asked: Unpack[AskedChains]) -> GraphResult:
        """Return the core's result: ranking, chains, the first ranking, and what failed."""
        return self._run(None, query, asked).result

    async def aresult(self, query: str, **asked: Unpack[AskedChains]) -> GraphResult:
        """As `result`, without blocking the event loop."""
        return (await self._arun(None, query, asked)).result

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **asked: Unpack[AskedChains]
    ) -> list[Document]:
        found = self._run(run_manager.get_child(), query, asked)
        for name, part in told(found.result.ranking):
            dispatch_custom_event(name, asdict(part), config={"callbacks": run_manager.get_child()})
        return self._documents(found)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **asked: Unpack[AskedChains]
    ) -> list[Document]:
        found = await self._arun(run_manager.get_child(), query, asked)
        for name, part in told(found.result.ranking):
            await adispatch_custom_event(name, asdict(part), config={"callbacks": run_manager.get_child()})
        return self._documents(found)

    def children(self) -> Iterator[object]:
        yield from (self.retriever, self.llm)

    def _run(self, callbacks: Callbacks, query: str, asked: AskedChains) -> Widened:
        return run_within(callbacks, self._step(query, **asked), self._services(**asked))

    async def _arun(self, callbacks: Callbacks, query: str, asked: AskedChains) -> Widened:
        return await arun_within(callbacks, self._step(query, **asked), self._services(**asked))

    def _step(self, query: str, *, k: int | None = None, where: dict[str, Any] | None = None) -> Step[Widened]:
        k, where = self.k if k is None else k, self.where if where is None else where
        if self.retriever is None and self.vectorstore is None:
            return Widened((yield from graph_step(query, self.how, k=k, where=where)), {})
        yield from check_graph_step()
        first: list[Document] | Failed
        (first,) = yield [_Retrieve(query=query)]
        if isinstance(first, Failed):
            nothing = Ranking((), Scale.RANK, (self._failed(first.error),))
            how = replace(self.how, walk=replace(self.how.walk, seeds="keywords"), on_graph_error="raise")
            return Widened((yield from widen(query, nothing, how, k=k, where=where)), {})
        route = type(self._base(k)).__name__
        return (yield from widened(query, first, self._keys(), self.how, route=route, k=k, where=where))

    def _keys(self) -> NodeKeys:
        return NodeKeys(id=self.id_key, source=self.source_key)

    def _failed(self, error: Exception) -> Degraded:
        """Return what is told of a retriever that failed, where that is tolerated."""
        mistaken = isinstance(
            error, (ParameterError, FilterError, MissingServiceError)
        )  # the caller's, never tolerated
        if mistaken or self.on_retriever_error == "raise":
            raise error
        return Degraded("retriever", str(error))

    def _services(self, *, k: int | None = None, where: dict[str, Any] | None = None) -> Services:
        """Return who answers: the models and the graph, and the retriever of the first ranking."""
        source = one_source(self.library, self.graph)
        services = walking_services(source, self._embeddings(), llm=self.llm, services=self.services)
        base = self._base(self.k if k is None else k)
        if base is None:
            return services

        def read(documents: list[Document]) -> list[Document]:
            given_ranking(documents, {}, self._keys(), route="", where=None)  # what cannot be read is its failure
            return documents

        async def aread(request: _Retrieve) -> list[Document]:
            return read(await base.ainvoke(request.query, config={"tags": [FIRST_RANKING]}))

        first = Handler(
            identity=f"langchain:{type(base).__name__}",
            call=lambda request: read(base.invoke(request.query, config={"tags": [FIRST_RANKING]})),
            acall=aread,
        )
        return replace(services, handlers={**services.handlers, _Retrieve: first})

    def _base(self, k: int) -> Runnable[str, list[Document]] | None:
        if not isinstance(k, int) or isinstance(k, bool) or k < 0:
            raise ParameterError("k", k, "an integer >= 0")
        if self.vectorstore is None:
            return self.retriever
        return self.vectorstore.as_retriever(search_kwargs={"k": max(k, self.how.depth)})

    def _embeddings(self) -> Any:
        if self.embeddings is not None or self.vectorstore is None:
            return self.embeddings
        return self.vectorstore.embeddings

    def _documents(self, found: Widened) -> list[Document]:
        ranking = found.result.ranking
        first = [unknown_document(ranking)] if self.tell_unknown and ranking.unknown else []
        return [*first, *found.documents()]

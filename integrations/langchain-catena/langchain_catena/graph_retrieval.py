"""Walk a graph from what a retriever found to the documents that answer a question together, each with its chains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from langchain_core.vectorstores import VectorStore
from pydantic import BaseModel, Field, InstanceOf, model_validator

from catena import CatenaError, Chunk, Degraded, FilterError, Hit, ParameterError, Ranking, Services
from catena.answering import chain_places
from catena.effects import FetchById, Graph, Step, ask, calling
from catena.graph import GraphResult, GraphSearch, widen, widen_without
from catena.library import boxed, check_graph_step, graph_step
from catena.model import MissingServiceError, Provenance, Where, compiled, fields_of
from langchain_catena.answering import CHAINS, NODE
from langchain_catena.base import CatenaBaseCompressor, CatenaBaseRetriever, LibraryField, warn
from langchain_catena.convert import to_chunk, to_document, told_of, with_told
from langchain_catena.graph_building import NodeKeys, from_graph_chunk, node_id, node_ids, to_graph_chunk
from langchain_catena.places import passages_in, ranked
from langchain_catena.retriever_routes import first_documents
from langchain_catena.services import services_with, to_embedder

_MISTAKES = (ParameterError, FilterError, MissingServiceError)  # of the caller: never tolerated


@dataclass(frozen=True, slots=True)
class Widened:
    """The result of a search over the graph, and by id the documents among it that a retriever gave."""

    result: GraphResult
    given: Mapping[str, Document]

    def documents(self) -> list[Document]:
        """Return the hits as documents; those of the retriever are copies of what it gave."""
        places = chain_places(self.result.chains)
        return [self._document(hit, places.get(hit.chunk.id, [])) for hit in self.result.ranking.hits]

    def _document(self, hit: Hit, places: list[dict[str, Any]]) -> Document:
        original = self.given.get(hit.chunk.id) or from_graph_chunk(hit.chunk)
        shown = hit if original is None else replace(hit, chunk=to_chunk(original))
        before = {} if original is None else told_of(original)
        document = to_document(shown, self.result.ranking)
        return with_told(document, **{**before, **told_of(document), NODE: hit.chunk.id, CHAINS: places})


class GraphFields(BaseModel):
    """The graph of a walk and the options of the walk, as fields of a retriever and a compressor.

    Attributes:
        library: whose graph is walked; or `graph`.
        graph: of `build_graph`, where there is no library.
        embeddings: by which it was built, of LangChain or of the core.
        k: documents returned.
        how: walk and scorer.
        where: a filter on metadata, in the core's grammar.
        id_key, source_key: as the graph was built with, see `GraphDocuments`.
        llm: any chat model or LLM, where `how` asks one.
        services: without a library, journal, budget and limits of the calls of models.
    """

    library: LibraryField | None = Field(default=None, exclude=True)
    graph: InstanceOf[Graph] | None = Field(default=None, exclude=True)
    embeddings: Any = Field(default=None, exclude=True)
    k: int = Field(default=10, ge=0)
    how: InstanceOf[GraphSearch] = Field(default_factory=GraphSearch)
    where: dict[str, Any] | None = None
    id_key: str | None = None
    source_key: str | None = None
    llm: InstanceOf[BaseLanguageModel[Any]] | None = Field(default=None, exclude=True)
    services: InstanceOf[Services] | None = Field(default=None, exclude=True)

    @model_validator(mode="after")
    def _one_graph(self) -> Self:
        if (self.library is None) == (self.graph is None):
            raise ValueError("give either library=… or graph=…")
        if self.library is not None and (self.embeddings is not None or self.services is not None):
            raise ValueError("embeddings=… and services=… are for graph=…: a library has its own")
        if self.embeddings is not None:
            try:
                to_embedder(self.embeddings)
            except ParameterError as error:
                raise ValueError(str(error)) from error
        self._check_first()
        if self.graph is not None and self._embeddings() is None:
            raise ValueError("graph=… needs embeddings=…: those by which it was built")
        return self

    def _check_first(self) -> None:
        """Raise where the first ranking cannot be had."""

    def _embeddings(self) -> Any:
        return self.embeddings

    def _keys(self) -> NodeKeys:
        return NodeKeys(id=self.id_key, source=self.source_key)

    def _graph_services(self) -> Services:
        """Return the services of a walk: those of the library, or the graph with the embeddings beside it."""
        if self.library is not None:
            return services_with(self.library.services, llm=self.llm)
        given = replace(self.services or Services(), graph=self.graph, embedder=None)
        return services_with(given, llm=self.llm, embeddings=self._embeddings())

    def _widened(
        self, query: str, documents: Sequence[Document], *, route: str, k: int, where: Where | None
    ) -> Step[Widened]:
        """Widen what a retriever found by a walk over the graph; where that fails and may, it stays as it was found.

        Args:
            query: as typed.
            documents: best first.
            route: the name of who found those that do not say it themselves.
            k: length of the ranking, >= 0.
            where: what does not fulfil it is left out.

        Raises:
            FilterError: the filter is none.
            CatenaError: the graph failed, and that is not tolerated.
        """
        keys = self._keys()
        try:
            known = yield from _known_nodes(documents, keys)
        except _MISTAKES:
            raise
        except CatenaError as error:
            if self.how.on_graph_error == "raise":
                raise
            ranking, given = _given_ranking(documents, {}, keys, route=route, where=where)
            told = (*ranking.degraded, Degraded("graph", str(error)))
            return Widened(GraphResult(replace(ranking.top(k), degraded=told), (), ranking), given)
        ranking, given = _given_ranking(documents, known, keys, route=route, where=where)
        return Widened((yield from boxed(widen(query, ranking, self.how, k=k, where=where))), given)


class CatenaGraphRetriever(GraphFields, CatenaBaseRetriever):
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

    asked: ClassVar[tuple[str, ...]] = ("k", "where")
    provider: ClassVar[str] = "catena-graph"

    retriever: InstanceOf[Runnable[str, list[Document]]] | None = None
    vectorstore: InstanceOf[VectorStore] | None = Field(default=None, exclude=True)
    on_retriever_error: Literal["raise", "degrade"] = "degrade"
    tell_unknown: bool = False

    def _check_first(self) -> None:
        if self.retriever is not None and self.vectorstore is not None:
            raise ValueError("give either retriever=… or vectorstore=…")
        if self.graph is not None and self.retriever is None and self.vectorstore is None:
            raise ValueError("graph=… needs retriever=… or vectorstore=…, for the first ranking")

    def result(self, query: str, **asked: Any) -> GraphResult:
        """Return the core's result: ranking, chains, the first ranking, and what failed."""
        widened: Widened = self._found(query, asked)
        return widened.result

    async def aresult(self, query: str, **asked: Any) -> GraphResult:
        """As `result`, without blocking the event loop."""
        widened: Widened = await self._afound(query, asked)
        return widened.result

    def children(self) -> Iterator[object]:
        yield from (self.retriever, self.llm)

    def _prepared(self, query: str, **asked: Any) -> tuple[Step[Widened], Services]:
        return self._step(query, **asked), self._services(**asked)

    def _ranking_of(self, found: Widened) -> Ranking:
        return found.result.ranking

    def _step(self, query: str, *, k: int | None = None, where: dict[str, Any] | None = None) -> Step[Widened]:
        k, where = self.k if k is None else k, self.where if where is None else where
        base = self._base(k)
        if base is None:
            return Widened((yield from boxed(graph_step(query, self.how, k=k, where=where))), {})
        yield from check_graph_step()
        try:
            first = yield from first_documents(base, query, self._readable, waited_for=False)
        except CatenaError as error:
            if isinstance(error, _MISTAKES) or self.on_retriever_error == "raise":
                raise
            failed = Degraded("retriever", str(error))
            return Widened((yield from boxed(widen_without(query, failed, self.how, k=k, where=where))), {})
        return (yield from self._widened(query, first, route=type(base).__name__, k=k, where=where))

    def _readable(self, documents: list[Document]) -> list[Document]:
        _given_ranking(documents, {}, self._keys(), route="", where=None)  # what cannot be read is its failure
        return documents

    def _services(self, *, k: int | None = None, where: dict[str, Any] | None = None) -> Services:
        """Return the models, the graph and the retriever of the first ranking as services."""
        services = self._graph_services()
        base = self._base(self.k if k is None else k)
        return replace(services, handlers={**services.handlers, **calling(f"langchain:{type(base).__name__}")})

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
        return found.documents()


class CatenaChainCompressor(GraphFields, CatenaBaseCompressor):
    """Widens what any retriever found by a walk over the graph, in LangChain's slot for rerankers.

        wider = CatenaChainCompressor(graph=build_graph(splits, embeddings), embeddings=embeddings, k=8)
        found = store.as_retriever(search_kwargs={"k": 50})
        retriever = ContextualCompressionRetriever(base_compressor=wider, base_retriever=found)

    Documents come in the order of the walk, then the rest of those given; those that the graph does not have stay,
    at their place among this rest. Metadata are those of `CatenaGraphRetriever`. Where the walk fails, the first k of
    the given ones are returned, and the log and `metadata["catena"]["degraded"]` say so. What
    `CatenaRetriever(tell_unknown=True)` tells stays in front, on top of k.

    Its fields are those of `GraphFields`; `where` is for what is given and for what the graph brings.
    """

    def _prepared(self, documents: Sequence[Document], query: str) -> tuple[Step[Widened], Services]:
        return self._step(documents, query), self._graph_services()

    def _step(self, documents: Sequence[Document], query: str) -> Step[Widened]:
        yield from check_graph_step()
        return (yield from self._widened(query, documents, route="documents", k=self.k, where=self.where))

    def _documents(self, found: Widened) -> list[Document]:
        warn(found.result.ranking.degraded)
        return found.documents()


def _known_nodes(documents: Sequence[Document], keys: NodeKeys) -> Step[Mapping[str, Chunk]]:
    """Return the chunks of all nodes that documents may be, by id, asked of the graph at once."""
    names = (name for document in passages_in(documents) for name in node_ids(document, keys))
    if not (ids := tuple(dict.fromkeys(names))):
        return {}
    (found,) = yield from ask([FetchById(chunk_ids=ids)])
    return {name: chunk for name, chunk in zip(ids, found, strict=True) if chunk is not None}


def _given_ranking(
    documents: Sequence[Document], known: Mapping[str, Chunk], keys: NodeKeys, *, route: str, where: Where | None
) -> tuple[Ranking, dict[str, Document]]:
    """Return documents as a ranking of nodes, and by node; those that the graph does not have keep their place.

    Args:
        documents: best first.
        known: the chunks of those that the graph has, by id.
        keys: by which documents say which node they are.
        route: the name of who found those that do not say it themselves.
        where: what does not fulfil it is left out.

    Raises:
        FilterError: the filter is none.
    """
    found: dict[str, Document] = {}
    names = {}
    for document in passages_in(documents):
        names[id(document)] = node_id(document, keys, known)
        found.setdefault(names[id(document)], document)

    def chunk_of(document: Document) -> Chunk:
        name = names[id(document)]
        return known.get(name) or to_graph_chunk(document, name, keys)

    ranking = ranked(documents, chunk_of)
    hits: Iterable[Hit] = ranking.hits
    if where is not None:
        fulfils = compiled(where)
        hits = (hit for hit in hits if fulfils(fields_of(hit.chunk)))
    named = (
        hit if hit.provenance else replace(hit, provenance=(Provenance(route=route, rank=rank, score=hit.score),))
        for rank, hit in enumerate(hits, start=1)
    )
    return replace(ranking, hits=tuple(named)), found

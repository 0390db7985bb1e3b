"""Make LangChain retrievers, and the indexes of LangChain's Elasticsearch stores, routes of the core.

langchain-elasticsearch is not needed here: its objects are known by what they have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig

from catena import Chunk, ParameterError, Ranking, Services
from catena.effects import Search, Step, Store, called
from catena.model import Where, needs
from catena.retrieval import ForeignRoute, RoutedStore, ranked_chunks
from langchain_catena.convert import SCORE, as_score, to_chunk, with_original
from langchain_catena.services import LangChainEmbedder

Retriever: TypeAlias = Runnable[str, list[Document]]

Obey: TypeAlias = Callable[[Where], Mapping[str, Any]]
"""From a filter to what a retriever's `invoke` takes besides the question, e.g. `lambda where: {"filter": where}`."""


FIRST_RANKING = "first_ranking"
"""Tag, in traces, of the run of the retriever whose documents segments are made of, or a walk goes out from."""


def first_documents(
    retriever: Retriever, query: str, read: Callable[[list[Document]], Any] = list, *, waited_for: bool = True
) -> Step[Any]:
    """Ask the retriever of a first ranking; what `read` raises of its documents counts as its own failure.

    A blank question finds nothing, as in the core, and is not asked.
    """
    if not str(query).strip():
        return read([])
    config = RunnableConfig(tags=[FIRST_RANKING])

    async def aread() -> Any:
        return read(await retriever.ainvoke(query, config))

    do = partial(retriever.invoke, query, config)
    return (yield from called(lambda: read(do()), aread, purpose="search", waited_for=waited_for))


@dataclass(frozen=True, eq=False)
class AsyncRetrieverRoute:
    """A LangChain retriever that can only be awaited as a route; see `retriever_route`."""

    retriever: Retriever
    obey: Obey | None
    id_key: str | None
    score_key: str
    name: str | None

    @property
    def filters(self) -> bool:
        return self.obey is not None

    async def arank(self, request: Search) -> Ranking:
        """Rank by the retriever, without blocking the event loop."""
        return self._ranking(await self.retriever.ainvoke(request.query, self._config, **self._options(request)))

    @property
    def _config(self) -> RunnableConfig | None:
        return RunnableConfig(tags=[f"route:{self.name}"]) if self.name else None  # tells its run in a trace

    def _options(self, request: Search) -> dict[str, Any]:
        return dict(self.obey(request.where)) if self.obey is not None and request.where else {}

    def _ranking(self, documents: Sequence[Document]) -> Ranking:
        scores = (as_score(document.metadata.get(self.score_key)) for document in documents)
        return ranked_chunks(list(zip(map(self._chunk, documents), scores, strict=True)))

    def _chunk(self, document: Document) -> Chunk:
        chunk = to_chunk(document)
        named = document.id or (document.metadata.get(self.id_key) if self.id_key else None)
        return replace(chunk, id=str(named)) if named else chunk


class RetrieverRoute(AsyncRetrieverRoute):
    """A LangChain retriever as a route; see `retriever_route`."""

    def rank(self, request: Search) -> Ranking:
        """Rank by the retriever."""
        return self._ranking(self.retriever.invoke(request.query, self._config, **self._options(request)))


def retriever_route(
    retriever: Retriever,
    *,
    obey: Obey | None = None,
    id_key: str | None = None,
    score_key: str = SCORE,
    only_async: bool = False,
    name: str | None = None,
) -> ForeignRoute:
    """Return a retriever, or any runnable from a question to documents, as a route of the core.

        store = RoutedStore({"mine": retriever_route(mine)}, beside=library.store)
        services = Services(embedder=library.services.embedder, store=store)
        retriever = CatenaRetriever(services=services, routes=("dense", "lexical", "mine"), fusion=RankFusion())

    How many documents it finds is set on the retriever; the best `depth` of them count. It is called inside the
    callbacks of whoever asks, so that its run is a child of theirs.

    A document's chunk has its `id`, or else its metadata's `id_key`, or else an id that is made of its source, page,
    offset and text. Hits of several routes with one id are one hit; equal texts under two ids stay two.

    Args:
        retriever: as it stands; it is not changed.
        obey: from a filter of the core to arguments of `invoke`. Without it, searches with a filter are refused.
        id_key: metadata key of ids, for retrievers that leave `Document.id` out.
        score_key: metadata key of the retriever's own score, which is kept in the provenance.
        only_async: it can only be awaited.
        name: in traces, where its run has the tag "route:NAME".

    Raises:
        ParameterError: it is no retriever.
    """
    if not (hasattr(retriever, "invoke") and hasattr(retriever, "ainvoke")):
        raise ParameterError("retriever", type(retriever).__name__, "a LangChain retriever, or a runnable")
    made = AsyncRetrieverRoute if only_async else RetrieverRoute
    return made(retriever, obey, id_key, score_key, name)  # type: ignore[return-value]


class RetrieverStore(RoutedStore):
    """LangChain retrievers as routes of a store of the core, each under its name, made by `retriever_route`.

    Their rankings count by rank: fuse them by `RankFusion`. They cannot be filtered, and say so instead of ignoring
    it.

    Args:
        retrievers: route name -> retriever.
        beside: answers all other routes, e.g. `library.store`.
    """

    def __init__(self, retrievers: Mapping[str, Retriever], beside: Store | None = None) -> None:
        if not retrievers:
            raise ParameterError("retrievers", retrievers, "at least one retriever")
        self.retrievers = dict(retrievers)
        super().__init__({name: retriever_route(one, name=name) for name, one in retrievers.items()}, beside)


def from_elasticsearch_store(
    store: Any,
    *,
    index: str | None = None,
    critical_field: str | None = None,
    document_field: str | None = None,
    unit_vectors: bool = False,
) -> Services:
    """Return services over the index of an `ElasticsearchStore` or `AsyncElasticsearchStore`, which stays as it is.

        services = from_elasticsearch_store(vector_store)
        retriever = CatenaRetriever(services=services, routes=services.store.routes, k=5)

    Its routes are "lexical", by BM25 with the index's own analysis; "dense", where the store has an embedding and its
    strategy keeps vectors; and "keyword", where a field of critical terms is named. Their scores are fused by HiQA's
    formula. Documents come back as the store gives them, with their id, score and provenance; filters of the core
    work on their metadata. The store's own client is used, under the store's own settings.

    Args:
        store: of langchain-elasticsearch; what is taken from it: `client`, `query_field`, `vector_query_field`,
            `embedding` and, of the store inside it, `index` and `retrieval_strategy`.
        index: its name, where the store does not say it.
        critical_field: a keyword field with the critical terms of each text.
        document_field: the field that says of which document a text is; by default `metadata.document_id`, or else
            `metadata.source`, as far as the index has it.
        unit_vectors: the vectors have unit length, which the other distances than cosine and dot_product ask for.

    Raises:
        ParameterError: it is no such store; the message names what is missing.
        MissingExtraError: the client is not installed.
    """
    with needs("catena-server"):
        from catena_server import ElasticsearchTransport, ForeignIndex, ForeignStore, metadata_of

    inner = getattr(store, "_store", None)
    client, text_field = _had(store, "client"), _had(store, "query_field")
    name = index or getattr(inner, "index", None)
    if not isinstance(name, str):
        allowed = f"given: this {type(store).__name__} does not say which index it searches"
        raise ParameterError("index", name, allowed)
    embedding = getattr(store, "embedding", None)
    strategy = getattr(inner, "retrieval_strategy", None)
    has_vectors = strategy is None or strategy.needs_inference()
    embedder = LangChainEmbedder(embedding) if embedding is not None and has_vectors else None
    fields = ForeignIndex(
        text_field=text_field,
        vector_field=_had(store, "vector_query_field") if embedder is not None else None,
        metadata_field="metadata",
        critical_field=critical_field,
        document_field=document_field,
        unit_vectors=unit_vectors,
    )

    def adapt(chunk: Chunk, hit: Mapping[str, Any]) -> Chunk:
        metadata = dict(metadata_of(hit["_source"], fields))
        return with_original(chunk, Document(id=chunk.id, page_content=chunk.text, metadata=metadata))

    transport = ElasticsearchTransport(**{"aclient" if _is_async(client) else "client": client})
    return Services(store=ForeignStore(transport, name, fields, adapt=adapt), embedder=embedder)


def from_elasticsearch_retriever(retriever: Any) -> ForeignRoute:
    """Return an `ElasticsearchRetriever` or `AsyncElasticsearchRetriever` as a route that counts by rank.

        routes = {"mine": from_elasticsearch_retriever(retriever)}
        services = replace(services, store=RoutedStore(routes, beside=services.store))

    What it asks the server only its `body_func` knows: its scores have a unit of their own. Its documents have the
    ids of the server's hits, so that hits of `from_elasticsearch_store` on the same index are the same hits.

    Raises:
        ParameterError: it is no such retriever; the message names what is missing.
    """
    client = _had(retriever, "client")
    _had(retriever, "body_func")
    return retriever_route(retriever, id_key="_id", score_key="_score", only_async=_is_async(client))


def _is_async(client: Any) -> bool:
    return hasattr(client, "__aenter__")


def _had(thing: Any, name: str) -> Any:
    found = getattr(thing, name, None)
    if found is None:
        allowed = "an object of langchain-elasticsearch (known to work: 1.0)"
        raise ParameterError(f"{type(thing).__name__}.{name}", found, f"there, as in {allowed}")
    return found

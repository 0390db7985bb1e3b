"""The index behind a LangChain `ElasticsearchStore`, or an `ElasticsearchRetriever`, for the core's ranking.

langchain-elasticsearch is not needed here: its objects are known by what they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document

from catena import Chunk, ParameterError, Services
from catena.model import needs
from catena.retrieval import ForeignRoute
from langchain_catena.convert import with_original
from langchain_catena.retriever_routes import retriever_route
from langchain_catena.services import LangChainEmbedder

with needs("catena-server"):
    from catena_server import ElasticsearchTransport, ForeignIndex, ForeignStore, metadata_of


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
    inner = getattr(store, "_store", None)
    client, text_field = _had(store, "client"), _had(store, "query_field")
    name = index or getattr(inner, "index", None)
    if not isinstance(name, str):
        raise ParameterError(
            "index", name, f"given: this {type(store).__name__} does not say which index it searches"
        )
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

    return Services(
        store=ForeignStore(_transport(client), name, fields, adapt=adapt),
        embedder=embedder,
    )


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


def _transport(client: Any) -> ElasticsearchTransport:
    return ElasticsearchTransport(aclient=client) if _is_async(client) else ElasticsearchTransport(client)


def _is_async(client: Any) -> bool:
    return hasattr(client, "__aenter__")


def _had(thing: Any, name: str) -> Any:
    found = getattr(thing, name, None)
    if found is None:
        allowed = "an object of langchain-elasticsearch (known to work: 1.0)"
        raise ParameterError(f"{type(thing).__name__}.{name}", found, f"there, as in {allowed}")
    return found

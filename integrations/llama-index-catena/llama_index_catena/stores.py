"""Use LlamaIndex's retrievers and stores in the core: as routes of a store, and as requests of steps.

llama-index-vector-stores-elasticsearch is not needed: its objects are known by what they have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias, cast

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import (
    BaseNode,
    NodeRelationship,
    NodeWithScore,
    ObjectType,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.core.vector_stores.utils import metadata_dict_to_node

from catena import Chunk, ParameterError, Ranking, Services
from catena.effects import Embedder, Search, Step, Store, called
from catena.model import Metadata, Where, needs
from catena.retrieval import RoutedStore
from llama_index_catena.convert import ORIGINAL, to_chunk, to_ranking
from llama_index_catena.services import core_embedder, inherits

_WRITTEN = ("_node_content", "_node_type")  # under which LlamaIndex keeps a whole node, in its metadata


def retrieved(retriever: BaseRetriever, asked: QueryBundle, purpose: str, **about: Any) -> Step[list[NodeWithScore]]:
    """Ask a retriever, and return what it found as it gave it; `about` as of `catena.effects.called`.

    A blank question finds nothing, as in the core, and is not asked.
    """
    if is_blank(asked):
        return []

    def do() -> list[NodeWithScore]:
        return retriever.retrieve(asked)

    async def ado() -> list[NodeWithScore]:
        return await (asyncio.to_thread(do) if blocks(retriever) else retriever.aretrieve(asked))

    return list((yield from called(do, ado, purpose=purpose, **about)))


def is_blank(asked: QueryBundle) -> bool:
    """Return True where a bundle has nothing to search for: no words, no vector, no picture."""
    words = (asked.query_str, *(asked.custom_embedding_strs or ()), asked.image_path or "")
    return asked.embedding is None and not any(str(each).strip() for each in words)


def blocks(retriever: BaseRetriever) -> bool:
    """Return True where a retriever has no async code of its own, or searches a store that has none."""
    store = getattr(retriever, "_vector_store", None) if isinstance(retriever, VectorIndexRetriever) else None
    if isinstance(store, BasePydanticVectorStore) and inherits(store, BasePydanticVectorStore, "aquery"):
        return True
    return inherits(retriever, BaseRetriever, "_aretrieve")


def copied(asked: QueryBundle) -> QueryBundle:
    """Return a bundle of its own for one retriever: some write the question's vector into the one they are given."""
    strings: Any = asked.custom_embedding_strs
    return QueryBundle(asked.query_str, asked.image_path, strings, asked.embedding)


Obey: TypeAlias = Callable[[Where], BaseRetriever]
"""From a filter to a retriever that obeys it."""


class RetrieverRoute:
    """A LlamaIndex retriever as a route; see `retriever_route`."""

    def __init__(self, retriever: BaseRetriever, obey: Obey | None) -> None:
        self.retriever = retriever
        self.filters = obey is not None
        self._obey = obey

    def rank(self, request: Search) -> Ranking:
        """Return what the retriever finds, best first."""
        return to_ranking(self._for(request).retrieve(QueryBundle(request.query)))

    async def arank(self, request: Search) -> Ranking:
        """As `rank`, without blocking the event loop."""
        retriever = self._for(request)
        if blocks(retriever):  # its async code is the sync one of the base class
            return to_ranking(await asyncio.to_thread(retriever.retrieve, QueryBundle(request.query)))
        return to_ranking(await retriever.aretrieve(QueryBundle(request.query)))

    def _for(self, request: Search) -> BaseRetriever:
        return self._obey(request.where) if self._obey is not None and request.where else self.retriever


def retriever_route(retriever: BaseRetriever, *, obey: Obey | None = None) -> RetrieverRoute:
    """Return a LlamaIndex retriever as a route of the core.

        store = RoutedStore({"mine": retriever_route(mine)}, beside=library.store)
        services = Services(embedder=library.services.embedder, store=store)
        retriever = CatenaRetriever(services, routes=["dense", "lexical", "mine"], fusion=RankFusion())

    How many nodes it finds is set on the retriever; the best `depth` of them count. It embeds questions itself, and
    fires its own events. A node's chunk has the node's id: hits of several routes with one id are one hit, equal
    texts under two ids stay two.

    Args:
        retriever: as it stands; it is not changed.
        obey: from a filter of the core to a retriever that obeys it, e.g. one made with `filters=MetadataFilters(…)`.
            Without it, searches with a filter are refused.

    Raises:
        ParameterError: it is no retriever.
    """
    if not (hasattr(retriever, "retrieve") and hasattr(retriever, "aretrieve")):
        raise ParameterError("retriever", type(retriever).__name__, "a LlamaIndex retriever")
    return RetrieverRoute(retriever, obey)


class RetrieverStore(RoutedStore):
    """LlamaIndex retrievers as routes of a core store; see `retriever_store`."""

    def __init__(self, retrievers: Mapping[str, BaseRetriever], beside: Store | None = None) -> None:
        if not retrievers:
            raise ParameterError("retrievers", dict(retrievers), "at least one name with its retriever")
        super().__init__({name: retriever_route(retriever) for name, retriever in retrievers.items()}, beside)


def retriever_store(retrievers: Mapping[str, BaseRetriever], *, beside: Store | None = None) -> RetrieverStore:
    """Return a store whose routes are LlamaIndex retrievers, under the names given, each made by `retriever_route`.

    Their rankings count by rank: fuse them by `RankFusion`. They know nothing of Catena's filters: a search with one
    is refused. Nodes come back as they were.

    Args:
        retrievers: route name -> retriever.
        beside: answers all other routes, e.g. `library.store`.

    Raises:
        ParameterError: there is no retriever.
    """
    return RetrieverStore(retrievers, beside)


def from_elasticsearch_store(
    store: Any,
    embed_model: BaseEmbedding | Embedder | None = None,
    *,
    critical_field: str | None = None,
    document_field: str | None = None,
    unit_vectors: bool = False,
) -> Services:
    """Return services over the index of an `ElasticsearchStore`, which stays as it is.

        services = from_elasticsearch_store(vector_store, embed_model)
        retriever = CatenaRetriever(services, routes=services.store.routes, similarity_top_k=5)

    Its routes are "lexical", by BM25 with the index's own analysis; "dense", where a model is given and the store's
    strategy keeps vectors; and "keyword", where a field of critical terms is named. Their scores are fused by HiQA's
    formula. Nodes come back as they were stored, with id, source, relationships and offsets; filters of the core work
    on their metadata. asyncio uses the store's own client, everything else a sync one with its settings.

    Args:
        store: of llama-index-vector-stores-elasticsearch; what is taken from it: `client`, `index_name`,
            `text_field`, `vector_field`, `retrieval_strategy`.
        embed_model: the model by which the index was filled.
        critical_field: a keyword field with the critical terms of each node.
        document_field: the field that says of which document a node is; by default `metadata.document_id`, which
            LlamaIndex writes.
        unit_vectors: the vectors have unit length, which the other distances than cosine and dot_product ask for.

    Raises:
        ParameterError: it is no such store; the message names what is missing.
        MissingExtraError: the client is not installed.
    """
    with needs("catena-server"):
        from catena_server import ElasticsearchTransport, ForeignIndex, ForeignStore, metadata_of

    strategy = getattr(store, "retrieval_strategy", None)
    has_vectors = embed_model is not None and (strategy is None or strategy.needs_inference())
    fields = ForeignIndex(
        text_field=_had(store, "text_field"),
        vector_field=_had(store, "vector_field") if has_vectors else None,
        metadata_field="metadata",
        critical_field=critical_field,
        document_field=document_field,
        unit_vectors=unit_vectors,
    )

    def adapt(chunk: Chunk, hit: Mapping[str, Any]) -> Chunk:
        node = _node(chunk, metadata_of(hit["_source"], fields))
        found = to_chunk(node)
        # to_node gives the node back
        return replace(found, id=chunk.id, metadata=cast("Metadata", {**found.metadata, ORIGINAL: node}))

    client = _had(store, "client")
    transport = ElasticsearchTransport(**{"aclient" if hasattr(client, "__aenter__") else "client": client})
    return Services(
        store=ForeignStore(transport, _had(store, "index_name"), fields, adapt=adapt),
        embedder=core_embedder(embed_model) if embed_model is not None and has_vectors else None,
    )


def _node(chunk: Chunk, metadata: Mapping[str, Any]) -> BaseNode:
    """Return the node that was stored; of a text that LlamaIndex did not write, one with its id and metadata."""
    try:
        node = metadata_dict_to_node(dict(metadata), chunk.text)
    except Exception:  # not written by LlamaIndex, or by another version of it
        plain = {key: value for key, value in metadata.items() if key not in _WRITTEN}
        source = RelatedNodeInfo(node_id=chunk.document_id, node_type=ObjectType.DOCUMENT)
        relationships = {NodeRelationship.SOURCE: source} if chunk.document_id != chunk.id else {}
        return TextNode(id_=chunk.id, text=chunk.text, metadata=plain, relationships=relationships)
    return node if node.node_id == chunk.id else node.model_copy(update={"id_": chunk.id})


def _had(thing: Any, name: str) -> Any:
    found = getattr(thing, name, None)
    if found is None:
        allowed = "there, as in an ElasticsearchStore of llama-index-vector-stores-elasticsearch (known to work: 0.7)"
        raise ParameterError(f"{type(thing).__name__}.{name}", found, allowed)
    return found

"""Rank the index behind a LlamaIndex `ElasticsearchStore` by the core.

llama-index-vector-stores-elasticsearch is not needed here: its objects are known by what they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import BaseNode, NodeRelationship, ObjectType, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.utils import metadata_dict_to_node

from catena import Chunk, ParameterError, Services
from catena.effects import Embedder
from catena.model import Metadata, needs
from llama_index_catena.convert import ORIGINAL, to_chunk
from llama_index_catena.services import core_embedder

with needs("catena-server"):
    from catena_server import ElasticsearchTransport, ForeignIndex, ForeignStore, metadata_of

_WRITTEN = ("_node_content", "_node_type")  # under which LlamaIndex keeps a whole node, in its metadata


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
        return replace(
            found, id=chunk.id, metadata=cast("Metadata", {**found.metadata, ORIGINAL: node})
        )  # to_node gives the node back

    client = _had(store, "client")
    transport = (
        ElasticsearchTransport(aclient=client) if hasattr(client, "__aenter__") else ElasticsearchTransport(client)
    )
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

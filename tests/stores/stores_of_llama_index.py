"""LlamaIndex's vector stores as these tests make them, and what each can and cannot do."""

from __future__ import annotations

from typing import Any

from llama_index.core.vector_stores import SimpleVectorStore
from manuals import Kind, Place

from llama_index_catena import CatenaEmbedding

EMBEDDING = CatenaEmbedding()
DIM = len(EMBEDDING.get_query_embedding("length"))


def _chroma(place: Place) -> Any:
    import chromadb
    from chromadb.config import Settings
    from llama_index.vector_stores.chroma import ChromaVectorStore

    client = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
    how: Any = {"hnsw": {"space": "cosine"}}
    return ChromaVectorStore(client.create_collection(place.name, configuration=how, embedding_function=None))


def _faiss(place: Place) -> Any:
    import faiss
    from llama_index.vector_stores.faiss import FaissMapVectorStore

    return FaissMapVectorStore(faiss.IndexIDMap2(faiss.IndexFlatL2(DIM)))


def _qdrant(place: Place) -> Any:
    from llama_index.vector_stores.qdrant import QdrantVectorStore
    from qdrant_client import AsyncQdrantClient, QdrantClient

    client, aclient = QdrantClient(":memory:"), AsyncQdrantClient(":memory:")
    aclient._client.collections = client._client.collections  # two clients of one server
    return QdrantVectorStore(place.name, client=client, aclient=aclient)


def _lancedb(place: Place) -> Any:
    import lancedb
    from llama_index.vector_stores.lancedb import LanceDBVectorStore

    return LanceDBVectorStore(connection=lancedb.connect(place.folder), table_name=place.name, mode="create")


def _postgres(place: Place) -> Any:
    from llama_index.vector_stores.postgres import PGVectorStore

    how: Any = {"table_name": place.name, "embed_dim": DIM, "initialization_fail_on_error": True}
    return PGVectorStore(place.url, place.url, **how)


KINDS = (
    Kind(name="SimpleVectorStore", package="llama-index-core", make=lambda place: SimpleVectorStore(), nodes=False),
    Kind(name="ChromaVectorStore", package="llama-index-vector-stores-chroma", make=_chroma),
    Kind(
        name="FaissMapVectorStore", package="llama-index-vector-stores-faiss", make=_faiss, nodes=False,
        filters=False, distances=True, loses_nodes=True,
    ),
    Kind(name="QdrantVectorStore", package="llama-index-vector-stores-qdrant", make=_qdrant, uuids=True),
    Kind(name="LanceDBVectorStore", package="llama-index-vector-stores-lancedb", make=_lancedb, by_id=False),
    Kind(name="PGVectorStore", package="llama-index-vector-stores-postgres", make=_postgres, postgres=True),
)  # fmt: skip

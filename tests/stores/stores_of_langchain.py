"""LangChain's vector stores as these tests make them, and what each can and cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from manuals import Kind, Place

from langchain_catena import CatenaEmbeddings

EMBEDDINGS = CatenaEmbeddings()
DIM = len(EMBEDDINGS.embed_query("length"))


def _chroma(place: Place) -> VectorStore:
    import chromadb
    from chromadb.config import Settings
    from langchain_chroma import Chroma

    client = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
    return Chroma(place.name, EMBEDDINGS, client=client, collection_configuration={"hnsw": {"space": "cosine"}})


def _faiss(place: Place) -> VectorStore:
    import faiss
    from langchain_community.docstore.in_memory import InMemoryDocstore
    from langchain_community.vectorstores import FAISS

    return FAISS(EMBEDDINGS, faiss.IndexFlatL2(DIM), InMemoryDocstore(), {})


def _qdrant(place: Place) -> VectorStore:
    from langchain_qdrant import QdrantVectorStore
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    client.create_collection(
        place.name, vectors_config=models.VectorParams(size=DIM, distance=models.Distance.COSINE)
    )
    return QdrantVectorStore(client, place.name, EMBEDDINGS)


def _in_qdrant(key: str, value: str) -> Mapping[str, Any]:
    from qdrant_client import models

    field = models.FieldCondition(key=f"metadata.{key}", match=models.MatchValue(value=value))
    return {"filter": models.Filter(must=[field])}


def _lancedb(place: Place) -> VectorStore:
    import lancedb
    from langchain_community.vectorstores import LanceDB

    return LanceDB(lancedb.connect(place.folder), EMBEDDINGS, table_name=place.name, mode="append")


def _pgvector(place: Place) -> VectorStore:
    from langchain_postgres import PGVector

    return PGVector(
        EMBEDDINGS, connection=place.url, embedding_length=DIM, collection_name=place.name,
        async_mode=place.awaited, create_extension=not place.awaited,
    )  # fmt: skip


def _pg_vector_store(place: Place) -> VectorStore:
    from langchain_postgres import PGEngine, PGVectorStore

    engine = PGEngine.from_connection_string(place.url)
    engine.init_vectorstore_table(place.name, vector_size=DIM)
    return PGVectorStore.create_sync(engine, EMBEDDINGS, place.name)


def _in_memory(key: str, value: str) -> Mapping[str, Any]:
    def said(document: Document) -> bool:
        return bool(document.metadata.get(key) == value)

    return {"filter": said}


KINDS = (
    Kind(
        name="InMemoryVectorStore", package="langchain-core", make=lambda place: InMemoryVectorStore(EMBEDDINGS),
        where=_in_memory,
    ),
    Kind(name="Chroma", package="langchain-chroma", make=_chroma, distances=True),
    Kind(
        name="FAISS", package="langchain-community", make=_faiss, distances=True,
        where=lambda key, value: {"filter": {key: value}, "fetch_k": 1_000},  # it filters what it fetched
    ),
    Kind(
        name="QdrantVectorStore", package="langchain-qdrant", make=_qdrant, where=_in_qdrant, uuids=True,
        loses_ids=True, adds=frozenset({"_id", "_collection_name"}),
    ),
    Kind(
        name="LanceDB", package="langchain-community", make=_lancedb, loses_ids=True, by_id=False, distances=True,
        where=lambda key, value: {"filter": f"metadata.{key} = '{value}'", "prefilter": True},
    ),
    Kind(name="PGVector", package="langchain-postgres", make=_pgvector, distances=True, postgres=True),
    Kind(
        name="PGVectorStore", package="langchain-postgres", make=_pg_vector_store, distances=True, postgres=True,
        uuids=True,
    ),
)  # fmt: skip

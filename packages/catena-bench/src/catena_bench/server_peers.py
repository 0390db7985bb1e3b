"""The frameworks' own hybrid retrieval over the same index: a vector search and a match, their scores added.

Both can also fuse by rank inside the server, which needs a licence and a module that the free server has not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from logging import ERROR, getLogger
from typing import Any

from catena.enrichment import StaticEmbedder
from catena.server import IndexLayout

Ask = Callable[[str, int], list[str]]
"""From a question and the number of hits to the ids of chunks, best first."""

CANDIDATES = 200  # of the vector search: as many as ours looks at
TEXT = "text"  # the field that a server's own analysis reads, beside our words


@contextmanager
def peers(url: str, layout: IndexLayout, embedder: StaticEmbedder) -> Iterator[dict[str, Ask]]:
    """Yield who of the two is installed, by name; their connections are closed afterwards."""
    makers = {"langchain_hybrid": _langchain, "llamaindex_hybrid": _llamaindex}
    found: dict[str, Ask] = {}
    with ExitStack() as closing:
        for name, make in makers.items():
            try:
                found[name] = make(url, layout, embedder, closing)
            except ImportError:
                continue
        yield found


def _langchain(url: str, layout: IndexLayout, embedder: StaticEmbedder, closing: ExitStack) -> Ask:
    from elasticsearch import Elasticsearch
    from langchain_core.embeddings import Embeddings
    from langchain_elasticsearch import DenseVectorStrategy, ElasticsearchStore

    class Ours(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            rows: list[list[float]] = embedder.embed_documents(texts).tolist()
            return rows

        def embed_query(self, text: str) -> list[float]:
            row: list[float] = embedder.embed_query(text).tolist()
            return row

    client = Elasticsearch(url)
    closing.callback(client.close)
    store = ElasticsearchStore(
        index_name=layout.alias("chunks"),
        embedding=Ours(),
        client=client,  # made from the address, it asks `GET /` first, which servers may deny
        query_field=TEXT,
        vector_query_field=layout.vector(),
        strategy=DenseVectorStrategy(hybrid=True, rrf=False),
    )

    def of(hit: dict[str, Any]) -> Any:
        from langchain_core.documents import Document

        return Document(page_content=hit["_source"].get(TEXT, ""), metadata={"id": hit["_id"]})

    def ask(question: str, k: int) -> list[str]:
        found = store.similarity_search(question, k=k, fetch_k=CANDIDATES, doc_builder=of)
        return [document.metadata["id"] for document in found]

    return ask


def _llamaindex(url: str, layout: IndexLayout, embedder: StaticEmbedder, closing: ExitStack) -> Ask:
    from elasticsearch import AsyncElasticsearch
    from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode
    from llama_index.vector_stores.elasticsearch import AsyncDenseVectorStrategy, ElasticsearchStore

    getLogger("llama_index.vector_stores.elasticsearch").setLevel(ERROR)  # it warns of each hit that it did not write
    client, loop = AsyncElasticsearch(url), asyncio.new_event_loop()
    closing.callback(loop.close)
    closing.callback(lambda: loop.run_until_complete(client.close()))
    store = ElasticsearchStore(
        index_name=layout.alias("chunks"),
        es_client=client,
        text_field=TEXT,
        vector_field=layout.vector(),
        retrieval_strategy=AsyncDenseVectorStrategy(hybrid=True, rrf=False),
    )

    def ask(question: str, k: int) -> list[str]:
        query = VectorStoreQuery(
            query_str=question,
            query_embedding=embedder.embed_query(question).tolist(),
            similarity_top_k=k,
            mode=VectorStoreQueryMode.HYBRID,
        )
        found = loop.run_until_complete(store.aquery(query))
        return list(found.ids or ())

    return ask

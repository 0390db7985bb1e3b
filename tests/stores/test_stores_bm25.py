"""LlamaIndex's own BM25 retriever beside Catena's routes: fused by Catena, in a query engine, and by LlamaIndex.

Its package wants an older PyStemmer than the constraints have, hence here.
"""

from __future__ import annotations

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import BaseNode
from manuals import SCREWS, TEXTS, TITLES

from llama_index_catena import CatenaEmbedding, CatenaMultiViewRetriever, CatenaNodeParser, CatenaRetriever
from llama_index_catena.convert import provenance


@pytest.fixture(scope="module")
def nodes() -> list[BaseNode]:
    documents = [Document(id_=name, text=text, metadata={"title": TITLES[name]}) for name, text in TEXTS.items()]
    return CatenaNodeParser(max_tokens=24, min_tokens=0).get_nodes_from_documents(documents)


@pytest.fixture(scope="module")
def words(nodes: list[BaseNode]) -> BaseRetriever:
    from llama_index.retrievers.bm25 import BM25Retriever

    return BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=4)


@pytest.fixture(scope="module")
def vectors(nodes: list[BaseNode]) -> BaseRetriever:
    return VectorStoreIndex(nodes, embed_model=CatenaEmbedding()).as_retriever(similarity_top_k=4)


async def test_its_words_and_vectors_are_fused_into_an_answer(words: BaseRetriever, vectors: BaseRetriever) -> None:
    ours = CatenaRetriever.over({"words": words, "vectors": vectors}, similarity_top_k=4)
    found = ours.retrieve(SCREWS)
    assert "screws" in found[0].text
    assert {way["route"] for way in provenance(found[0].node)["routes"]} == {"words", "vectors"}
    assert [each.node_id for each in await ours.aretrieve(SCREWS)] == [each.node_id for each in found]
    answer = RetrieverQueryEngine.from_args(ours, llm=MockLLM()).query(SCREWS)
    assert [each.node_id for each in answer.source_nodes] == [each.node_id for each in found]


def test_its_words_are_a_view_beside_ours(words: BaseRetriever, vectors: BaseRetriever) -> None:
    found = CatenaMultiViewRetriever({"raw": words, "headed": vectors}, similarity_top_k=2).retrieve(SCREWS)
    assert "screws" in found[0].text
    assert provenance(found[0].node)["views"].keys() == {"raw", "headed"}

"""LlamaIndex's Elasticsearch store on a real server: Catena ranks what it has filled, and gives the nodes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import IndexNode, NodeRelationship, RelatedNodeInfo, TextNode

from catena.effects import Search
from catena.enrichment import StaticEmbedder
from catena.model import ParameterError
from catena.retrieval import RankFusion, RoutedStore
from llama_index_catena import (
    CatenaEmbedding,
    CatenaRetriever,
    from_elasticsearch_store,
    retriever_route,
)
from llama_index_catena.convert import provenance

es = pytest.importorskip("elasticsearch")
framework = pytest.importorskip(
    "llama_index.vector_stores.elasticsearch", reason="needs llama-index-vector-stores-elasticsearch"
)

QUESTION = "at which pressure does the valve open?"
SOURCES = {"p1": "pump", "v1": "valve", "w1": ""}


def nodes() -> list[TextNode]:
    texts = {
        "p1": "The pump holds a pressure of 3 bar.",
        "v1": "The valve opens at a pressure of 5 bar.",
        "w1": "The red wire carries 24 volts.",
    }
    made: list[TextNode] = []
    for place, (node_id, text) in enumerate(texts.items()):
        kind = IndexNode if node_id == "w1" else TextNode
        more = {"index_id": "other"} if node_id == "w1" else {}
        node = kind(
            id_=node_id, text=text, metadata={"file": f"{node_id}.md", "place": place},
            start_char_idx=7, end_char_idx=7 + len(text), excluded_llm_metadata_keys=["place"], **more,
        )  # fmt: skip
        if SOURCES[node_id]:
            node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=SOURCES[node_id])
        if made:
            node.relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id=made[-1].node_id)
        made.append(node)
    return made


@pytest.fixture
async def store(es_url: str, es_api_key: str, fresh_index: Callable[..., str]) -> AsyncIterator[Any]:
    client = es.AsyncElasticsearch(es_url, api_key=es_api_key or None)
    made = framework.ElasticsearchStore(fresh_index(es_url, "g"), es_client=client)
    filled = [
        node.model_copy(update={"embedding": CatenaEmbedding().get_text_embedding(node.text)}) for node in nodes()
    ]
    await made.async_add(filled)
    yield made
    await client.close()


async def test_three_lines_rank_an_index_and_give_the_nodes_back(store: Any) -> None:
    services = from_elasticsearch_store(store, CatenaEmbedding())
    retriever = CatenaRetriever(services, routes=services.store.routes, similarity_top_k=3)
    found = await retriever.aretrieve(QUESTION)
    assert found[0].node_id == "v1"
    given = {node.node_id: node for node in nodes()}
    for one in found:
        before = given[one.node_id]
        assert type(one.node) is type(before)
        assert one.node.relationships == before.relationships
        assert one.node.ref_doc_id == before.ref_doc_id
        assert (one.node.text, one.node.start_char_idx) == (before.text, 7)
        assert before.metadata.items() <= one.node.metadata.items()
        assert "_node_content" not in one.node.metadata
        assert "place" in one.node.excluded_llm_metadata_keys
    assert provenance(found[0].node)["scale"] == "normalized"
    assert [way["route"] for way in provenance(found[0].node)["routes"]] == ["dense", "lexical"]
    in_thread = await asyncio.to_thread(retriever.retrieve, QUESTION)  # by a sync client with the same settings
    assert [(one.node_id, one.score) for one in in_thread] == [(one.node_id, one.score) for one in found]


async def test_cosines_are_true_though_the_store_gives_them_stretched(store: Any) -> None:
    services = from_elasticsearch_store(store, CatenaEmbedding())
    embedder = StaticEmbedder()
    question = embedder.embed_query(QUESTION)
    found = await services.store.asearch(Search(route="dense", query=QUESTION, k=3, vector=question))
    true = {node.node_id: float(embedder.embed_documents([node.text])[0] @ question) for node in nodes()}
    assert {hit.chunk.id: hit.score for hit in found.hits} == pytest.approx(true, abs=1e-5)


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ({"file": "p1.md"}, {"p1"}),
        ({"place": {"$gte": 1}}, {"v1", "w1"}),
        ({"document_id": "valve"}, {"v1"}),
        ({"document_id": "w1"}, {"w1"}),  # of no document: it is one of its own
        ({"document_id": {"$ne": "valve"}}, {"p1", "w1"}),
    ],
)
async def test_filters_work_on_what_llama_index_writes(store: Any, where: dict[str, Any], left: set[str]) -> None:
    services = from_elasticsearch_store(store)
    assert services.store.routes == ("lexical",)
    found = await services.store.asearch(Search(route="lexical", query="the pump valve wire", k=5, where=where))
    assert {hit.chunk.id for hit in found.hits} == left


async def test_the_frameworks_own_retriever_is_a_route_beside_the_index(store: Any) -> None:
    own = VectorStoreIndex.from_vector_store(store, CatenaEmbedding()).as_retriever(similarity_top_k=3)
    services = from_elasticsearch_store(store, CatenaEmbedding())
    mixed = RoutedStore({"mine": retriever_route(own)}, beside=services.store)
    handled = type(services)(store=mixed, embedder=services.embedder)
    found = await CatenaRetriever(handled, routes=["lexical", "mine"], fusion=RankFusion()).aretrieve(QUESTION)
    assert sorted(one.node_id for one in found) == ["p1", "v1", "w1"]  # each once: ids are those of the nodes
    assert found[0].node_id == "v1"
    ways = {way["route"]: way for way in provenance(found[0].node)["routes"]}
    assert ways["mine"] == {"route": "mine", "rank": 1, "score": 1.0, "view": "raw"}  # min-max, as the store has it
    assert provenance(found[0].node)["scale"] == "rank"


async def test_texts_that_llama_index_did_not_write_are_nodes_too(store: Any) -> None:
    await store.client.index(
        index=store.index_name, id="x", refresh=True,
        document={"content": "A spare gasket.", "metadata": {"file": "x.md", "document_id": "spares"}},
    )  # fmt: skip
    services = from_elasticsearch_store(store)
    (found,) = await CatenaRetriever(services, routes=["lexical"], similarity_top_k=1).aretrieve("gasket")
    assert (found.node_id, found.node.ref_doc_id, found.node.metadata["file"]) == ("x", "spares", "x.md")


def test_what_is_no_store_is_named() -> None:
    with pytest.raises(ParameterError, match=r"object\.text_field must be there, as in an ElasticsearchStore"):
        from_elasticsearch_store(object())

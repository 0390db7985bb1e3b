"""LlamaIndex's Elasticsearch store on a real server: Catena ranks what it has filled, and gives the nodes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from llama_index.core.schema import IndexNode, NodeRelationship, RelatedNodeInfo, TextNode

from catena.effects import Search
from catena.model import ParameterError
from llama_index_catena import CatenaEmbedding, CatenaRetriever, from_elasticsearch_store
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


def test_what_is_no_store_is_named() -> None:
    with pytest.raises(ParameterError, match=r"object\.text_field must be there, as in an ElasticsearchStore"):
        from_elasticsearch_store(object())

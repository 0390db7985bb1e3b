"""LangChain's Elasticsearch store and retriever on a real server: Catena ranks what they have filled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from catena.effects import Search
from catena.model import ParameterError, fields_of, matches
from catena.retrieval import RankFusion, RoutedStore
from langchain_catena import CatenaEmbeddings, CatenaRetriever, from_elasticsearch_retriever, from_elasticsearch_store

es = pytest.importorskip("elasticsearch")
framework = pytest.importorskip("langchain_elasticsearch", reason="needs langchain-elasticsearch")

TEXTS = {
    "p1": ("The pump HX-200 holds a pressure of 3 bar.", {"source": "pump.md", "page": 1, "ok": True}),
    "p2": ("The pump is cleaned with a soft cloth.", {"source": "pump.md", "page": 2, "tags": ["care", "cloth"]}),
    "v1": ("The valve HX-300 opens at a pressure of 5 bar.", {"source": "valve.md", "page": 1, "deep": {"er": 2.5}}),
    "w1": ("The red wire carries 24 volts.", {"source": "wire.md", "page": 1, "price": 0.1}),
}
QUESTION = "at which pressure does the valve open?"


@pytest.fixture
def filled(es_url: str, es_api_key: str, fresh_index: Callable[..., str]) -> Iterator[Callable[..., Any]]:
    client = es.Elasticsearch(es_url, api_key=es_api_key or None)

    def fill(**options: Any) -> Any:
        store = framework.ElasticsearchStore(
            fresh_index(es_url, "g"), client=client, embedding=CatenaEmbeddings(), **options
        )
        store.add_texts([text for text, _ in TEXTS.values()], [said for _, said in TEXTS.values()], ids=list(TEXTS))
        return store

    yield fill
    client.close()


def test_three_lines_rank_an_index_that_langchain_has_filled(filled: Callable[..., Any]) -> None:
    store = filled()
    services = from_elasticsearch_store(store)
    retriever = CatenaRetriever(services=services, routes=services.store.routes, k=3)
    found = retriever.invoke(QUESTION)
    assert found[0].id == "v1"
    text, said = TEXTS["v1"]
    assert found[0].page_content == text
    assert {key: found[0].metadata[key] for key in said} == said  # nested values, too, as the store gives them
    about = found[0].metadata["catena"]
    assert about["scale"] == "normalized"
    assert [way["route"] for way in about["routes"]] == ["dense", "lexical"]
    own = {document.page_content for document in store.similarity_search(QUESTION, k=4)}
    assert {document.page_content for document in found} <= own


FILTERS: list[dict[str, Any]] = [
    {"source": "pump.md"},
    {"source": {"$ne": "pump.md"}},
    {"source": {"$in": ["pump.md", "wire.md"]}, "page": 1},
    {"page": {"$gt": 1}},
    {"page": "1"},
    {"page": 1.5},
    {"ok": True},
    {"ok": 1},
    {"tags": {"$exists": False}},
    {"deep.er": {"$gte": 2.5}},
    {"price": 0.1},
    {"absent": {"$ne": "x"}},
    {"document_id": {"$nin": ["pump.md"]}},
    {"chunk_id": {"$in": ["v1", "x"]}},
    {"$or": [{"page": 2}, {"$not": {"source": "pump.md"}}]},
]


def test_a_filter_holds_on_the_server_where_it_holds_for_the_chunk(filled: Callable[..., Any]) -> None:
    index = from_elasticsearch_store(filled()).store
    request = Search(route="lexical", query="the pump valve wire", k=9)
    seen: dict[str, dict[str, Any]] = {}
    for hit in index.search(request).hits:
        tags = TEXTS[hit.chunk.id][1].get("tags")  # a chunk's metadata hold no lists, the index does
        seen[hit.chunk.id] = {**fields_of(hit.chunk), **({} if tags is None else {"tags": tags})}
    assert len(seen) == 4
    for where in FILTERS:
        kept = {hit.chunk.id for hit in index.search(replace(request, where=where)).hits}
        assert kept == {chunk_id for chunk_id, fields in seen.items() if matches(where, fields)}, where


async def test_the_async_classes_are_awaited(filled: Callable[..., Any], es_url: str, es_api_key: str) -> None:
    index = (await asyncio.to_thread(filled))._store.index
    async with es.AsyncElasticsearch(es_url, api_key=es_api_key or None) as client:
        store = framework.AsyncElasticsearchStore(index, client=client, embedding=CatenaEmbeddings())
        services = from_elasticsearch_store(store)
        body = lambda question: {"query": {"match": {"text": question}}}  # noqa: E731
        own = framework.AsyncElasticsearchRetriever(index, body, content_field="text", client=store.client)
        mine = from_elasticsearch_retriever(own)
        mixed = replace(services, store=RoutedStore({"mine": mine}, beside=services.store))
        retriever = CatenaRetriever(services=services, routes=services.store.routes, k=2)
        assert (await retriever.ainvoke(QUESTION))[0].id == "v1"
        assert (await asyncio.to_thread(retriever.invoke, QUESTION))[0].id == "v1"
        both = CatenaRetriever(services=mixed, routes=("lexical", "mine"), fusion=RankFusion(), k=2)
        assert (await both.ainvoke(QUESTION))[0].id == "v1"


def test_what_is_no_store_is_named() -> None:
    with pytest.raises(ParameterError, match=r"object\.client must be there, as in an object of langchain-elastic"):
        from_elasticsearch_store(object())
    with pytest.raises(ParameterError, match=r"object\.client must be there"):
        from_elasticsearch_retriever(object())

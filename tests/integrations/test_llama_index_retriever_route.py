"""Any LlamaIndex retriever as a route of the core: by rank, never blocking, refused where it cannot obey."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, ClassVar

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from catena.effects import Search, Services
from catena.model import FilterError, ParameterError, Scale
from catena.retrieval import RankFusion, RoutedStore
from catena.testing.fakes import FakeStore
from llama_index_catena import CatenaRetriever, from_elasticsearch_store, retriever_route
from llama_index_catena.convert import provenance, to_chunk


class Fixed(BaseRetriever):
    """Returns what it was given, and remembers in which threads."""

    def __init__(self, *found: tuple[str, float | None]) -> None:
        super().__init__()
        self.found = found
        self.threads: list[threading.Thread] = []

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.threads.append(threading.current_thread())
        return [
            NodeWithScore(node=TextNode(id_=name, text=f"{name} pump"), score=score) for name, score in self.found
        ]


class Awaiting(Fixed):
    """The same, with async code of its own."""

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await asyncio.sleep(0)
        return self._retrieve(query_bundle)


def over(route: Any, **options: Any) -> CatenaRetriever:
    beside = FakeStore({"lexical": [to_chunk(TextNode(id_="b", text="b pump"))]})
    services = Services(store=RoutedStore({"mine": route}, beside=beside))
    return CatenaRetriever(services, routes=["lexical", "mine"], fusion=RankFusion(), **options)


async def test_nodes_of_both_sides_with_one_id_are_one() -> None:
    for retriever in (Fixed(("a", 0.9), ("b", 0.4)), Awaiting(("a", 0.9), ("b", 0.4))):
        with blockbuster_ctx():
            found = await over(retriever_route(retriever)).aretrieve("pump")
        assert [(one.node_id, one.score) for one in found] == [
            ("b", pytest.approx(1 / 61 + 1 / 62)),
            ("a", pytest.approx(1 / 61)),
        ]
        ways = {way["route"]: (way["rank"], way["score"]) for way in provenance(found[0].node)["routes"]}
        assert ways["mine"] == (2, 0.4)
        assert (retriever.threads[0] is threading.main_thread()) == isinstance(retriever, Awaiting)
        assert [one.node_id for one in over(retriever_route(retriever)).retrieve("pump")] == ["b", "a"]


def test_without_scores_the_order_counts() -> None:
    store = RoutedStore({"mine": retriever_route(Fixed(("z", None), ("a", None)))})
    found = store.search(Search(route="mine", query="q", k=5))
    assert [hit.chunk.id for hit in found.hits] == ["z", "a"]
    assert found.scale is Scale.RANK


def test_a_filter_is_refused_or_obeyed() -> None:
    with pytest.raises(FilterError, match="'mine' takes no filter"):
        over(retriever_route(Fixed(("a", 1.0))), where={"page": 2}).retrieve("pump")
    pages = {1: Fixed(("a", 1.0)), 2: Fixed(("c", 1.0))}
    obeying = retriever_route(pages[1], obey=lambda where: pages[where["page"]])
    store = RoutedStore({"mine": obeying})
    assert store.search(Search(route="mine", query="q", k=5, where={"page": 2})).hits[0].chunk.id == "c"
    assert store.search(Search(route="mine", query="q", k=5)).hits[0].chunk.id == "a"


def test_fusion_by_score_is_refused() -> None:
    services = Services(
        store=RoutedStore({"mine": retriever_route(Fixed(("a", 1.0)))}, beside=FakeStore({"lexical": []}))
    )
    with pytest.raises(ParameterError, match="RankFusion"):
        CatenaRetriever(services, routes=["lexical", "mine"]).retrieve("pump")


def test_what_is_no_retriever_or_store_is_named() -> None:
    with pytest.raises(ParameterError, match="retriever must be a LlamaIndex retriever"):
        retriever_route(object())  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"object\.text_field must be there"):
        from_elasticsearch_store(object())


def test_a_dead_retriever_is_asked_twice_and_then_named_in_what_was_found() -> None:
    class Down(BaseRetriever):
        asked: ClassVar[list[str]] = []

        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            self.asked.append(query_bundle.query_str)
            raise ConnectionError("refused")

    asked = CatenaRetriever.over({"up": Fixed(("a", 1.0)), "down": Down()})
    for _ in range(3):
        found = asked.retrieve("q")
    assert len(Down.asked) == 2
    assert "not asked" in str(found[0].metadata["catena"])

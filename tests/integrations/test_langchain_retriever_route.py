"""Any LangChain retriever as a route of the core: by rank, inside the caller's callbacks, refused where it cannot."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_tests.integration_tests import RetrieversIntegrationTests

from catena.effects import Search, Services
from catena.library import Library
from catena.model import FilterError, ParameterError, Scale
from catena.retrieval import RankFusion, RoutedStore
from langchain_catena import (
    CatenaRetriever,
    RetrieverStore,
    from_elasticsearch_retriever,
    from_elasticsearch_store,
    retriever_route,
)

DOCUMENTS = [
    Document(id="a", page_content="The pump holds 3 bar.", metadata={"relevance_score": 7.0, "page": 1}),
    Document(id="b", page_content="The valve opens.", metadata={"relevance_score": 2.0, "page": 2}),
    Document(id="c", page_content="The wire is red.", metadata={"relevance_score": 1.0, "page": 3}),
]


class Fixed(BaseRetriever):
    """Returns what it was given; of a page, where it is asked for one."""

    documents: list[Document]
    asked: list[dict[str, Any]] = []  # noqa: RUF012 - pydantic copies it

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, page: int | None = None, **kwargs: Any
    ) -> list[Document]:
        self.asked.append({"page": page, **kwargs})
        return [one for one in self.documents if page is None or one.metadata["page"] == page]


class Awaiting(Fixed):
    """The same, with async code of its own."""

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any, **kwargs: Any) -> list[Document]:
        await asyncio.sleep(0)
        return self.documents


class Runs(BaseCallbackHandler):
    """Remembers which retrievers ran inside which run."""

    def __init__(self) -> None:
        self.parents: list[Any] = []

    def on_retriever_start(self, *args: Any, parent_run_id: Any = None, **kwargs: Any) -> None:
        self.parents.append(parent_run_id)


def over(route: Any, **options: Any) -> CatenaRetriever:
    services = Services(store=RoutedStore({"mine": route}))
    return CatenaRetriever(services=services, routes=("mine",), **options)


@pytest.fixture
def library(tmp_path: Path) -> Any:
    with Library.open(tmp_path / "l.catena") as opened:
        (tmp_path / "manual.md").write_text("# Pump\n\n## Pressure\n\nThe pump holds a pressure of 3 bar.\n")
        opened.add(tmp_path / "manual.md")
        yield opened


async def test_a_retriever_ranks_beside_a_library(library: Library) -> None:
    store = RoutedStore({"mine": retriever_route(Fixed(documents=DOCUMENTS))}, beside=library.store)
    services = replace(library.services, store=store)
    retriever = CatenaRetriever(services=services, routes=("dense", "lexical", "mine"), fusion=RankFusion(), k=9)
    found = retriever.invoke("which pressure has the pump?")
    assert {"a", "b", "c"} < {document.id for document in found}
    (mine,) = (document for document in found if document.id == "a")
    assert mine.metadata["page"] == 1
    assert mine.metadata["catena"]["routes"] == [{"route": "mine", "rank": 1, "score": 7.0, "view": "raw"}]
    assert mine.metadata["catena"]["scale"] == "rank"
    assert [one.id for one in await retriever.ainvoke("which pressure has the pump?")] == [one.id for one in found]
    with pytest.raises(ParameterError, match="RankFusion"):
        CatenaRetriever(services=services, routes=("dense", "mine")).invoke("pump")


def test_order_rules_and_scores_are_kept_raw() -> None:
    jumbled = [DOCUMENTS[2], DOCUMENTS[0], Document(id="x", page_content="no score")]
    found = RetrieverStore({"mine": Fixed(documents=jumbled)}).search(Search(route="mine", query="q", k=2))
    assert found.scale is Scale.RANK
    assert [(hit.chunk.id, hit.score, hit.provenance[0].score) for hit in found.hits] == [
        ("c", 1.0, 1.0), ("a", 0.5, 7.0)]  # fmt: skip


def test_ids_are_the_documents_or_those_under_a_key_or_made() -> None:
    bare = [Document(page_content="one", metadata={"_id": 5, "_score": 3.5}), Document(page_content="two")]
    request = Search(route="mine", query="q", k=5)
    keyed = RoutedStore({"mine": retriever_route(Fixed(documents=bare), id_key="_id", score_key="_score")})
    first, second = keyed.search(request).hits
    assert (first.chunk.id, first.provenance[0].score) == ("5", 3.5)
    made = RoutedStore({"mine": retriever_route(Fixed(documents=bare))}).search(request).hits
    assert made[1].chunk.id == second.chunk.id != made[0].chunk.id
    assert bare[0].id is None  # inputs are not changed


def test_a_filter_is_refused_or_obeyed() -> None:
    where = {"page": 2}
    deaf = Fixed(documents=DOCUMENTS, asked=[])
    with pytest.raises(FilterError, match="filter inside the retriever"):
        over(retriever_route(deaf)).invoke("q", where=where)
    assert deaf.asked == []
    obeying = retriever_route(Fixed(documents=DOCUMENTS), obey=lambda filter_: {"page": filter_["page"]})
    assert [document.id for document in over(obeying).invoke("q", where=where)] == ["b"]
    assert [document.id for document in over(obeying).invoke("q")] == ["a", "b", "c"]


async def test_callbacks_reach_the_retriever_and_nothing_blocks() -> None:
    runs, aruns = Runs(), Runs()
    over(retriever_route(Fixed(documents=DOCUMENTS))).invoke("q", {"callbacks": [runs]})
    for made in (Fixed, Awaiting):
        asked = over(retriever_route(made(documents=DOCUMENTS)))
        with blockbuster_ctx():
            assert len(await asked.ainvoke("q", {"callbacks": [aruns]})) == 3
    assert [parent is None for parent in (*runs.parents, *aruns.parents)] == [True, False] * 3


async def test_any_runnable_from_a_question_to_documents_is_a_route() -> None:
    asked = over(retriever_route(RunnableLambda(lambda question: DOCUMENTS[: len(question)])))
    assert [document.id for document in asked.invoke("12")] == ["a", "b"]
    assert [document.id for document in await asked.ainvoke("1")] == ["a"]
    waiting = over(retriever_route(Awaiting(documents=DOCUMENTS), only_async=True))
    assert len(await waiting.ainvoke("q")) == 3
    assert len(waiting.invoke("q")) == 3
    with pytest.raises(ParameterError, match="retriever must be a LangChain retriever"):
        retriever_route(object())  # type: ignore[arg-type]


def test_what_is_no_store_of_elasticsearch_is_named() -> None:
    with pytest.raises(ParameterError, match=r"object\.client must be there"):
        from_elasticsearch_store(object())
    with pytest.raises(ParameterError, match=r"object\.client must be there"):
        from_elasticsearch_retriever(object())


class Routed(CatenaRetriever):
    """A retriever over a foreign route, made as LangChain's suite makes one."""

    def __init__(self, **options: Any) -> None:
        services = Services(store=RoutedStore({"mine": retriever_route(Fixed(documents=DOCUMENTS))}))
        super().__init__(services=services, routes=("mine",), **options)


class TestOverAForeignRoute(RetrieversIntegrationTests):
    """LangChain's standard tests."""

    @property
    def retriever_constructor(self) -> type[Routed]:
        return Routed

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {}

    @property
    def retriever_query_example(self) -> str:
        return "which pressure has the pump?"


def test_a_dead_retriever_is_asked_twice_and_then_named_in_what_was_found() -> None:
    class Down(Fixed):
        asked: ClassVar[list[str]] = []

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            self.asked.append(query)
            raise ConnectionError("refused")

    asked = CatenaRetriever.over({"up": Fixed(documents=DOCUMENTS), "down": Down(documents=[])})
    for _ in range(3):
        found = asked.invoke("q")
    assert len(Down.asked) == 2
    assert "not asked" in str(found[0].metadata["catena"]["degraded"])

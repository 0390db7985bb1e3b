"""Every retriever in every way to call it, in traces, dumps and pickles, and in LangChain's standard suites."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.load import dumpd, dumps, loads
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, Runnable, RunnableLambda
from langchain_core.stores import InMemoryByteStore
from langchain_fakes import Fixed, ReplyingChatModel
from langchain_fakes import QUESTION, RETRIEVERS, Traces, children, chunks, retriever_of, small_library, store
from langchain_tests.integration_tests import (
    BaseStoreAsyncTests,
    BaseStoreSyncTests,
    EmbeddingsIntegrationTests,
    RetrieversIntegrationTests,
)
from langchain_tests.unit_tests import EmbeddingsUnitTests

from catena import Library
from catena.model import ParameterError
from catena.segments import Constant
from catena.testing import FakeReranker
from langchain_catena import (
    CatenaEmbeddings,
    CatenaGraphRetriever,
    CatenaMultiViewRetriever,
    CatenaRerank,
    CatenaRetriever,
    CatenaSegmentRetriever,
    DocumentStore,
)

OTHER = "When is the seal of the HX200 checked?"
OF_A_LIBRARY = ("library", "figures", "segments", "sections", "graph")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with small_library(tmp_path_factory.mktemp("manuals")) as opened:
        yield opened


@pytest.fixture(params=RETRIEVERS)
def retriever(request: pytest.FixtureRequest, library: Library) -> BaseRetriever:
    return retriever_of(request.param, library)


# All ways to call one.


async def test_every_way_to_call_it_finds_the_same(retriever: BaseRetriever) -> None:
    found, other = retriever.invoke(QUESTION), retriever.invoke(OTHER)
    assert found
    assert retriever.batch([QUESTION, OTHER]) == [found, other]
    assert list(retriever.stream(QUESTION)) == [found]
    with blockbuster_ctx(["catena", "langchain_catena"]):
        assert await retriever.ainvoke(QUESTION) == found
        assert await retriever.abatch([QUESTION, OTHER]) == [found, other]
        assert [each async for each in retriever.astream(QUESTION)] == [found]


async def test_k_is_obeyed_in_the_call_in_a_chain_and_as_a_configurable_field(retriever: BaseRetriever) -> None:
    (first, *_) = retriever.invoke(QUESTION)
    assert retriever.invoke(QUESTION, k=1)[0].page_content == first.page_content
    counted: Runnable[str, int] = retriever.configurable_fields(k=ConfigurableField(id="k")) | RunnableLambda(len)
    assert counted.invoke(QUESTION, {"configurable": {"k": 1}}) == 1
    assert await counted.ainvoke(QUESTION, {"configurable": {"k": 1}}) == 1
    assert counted.with_config(configurable={"k": 0}).invoke(QUESTION) == 0
    assert [spec.id for spec in counted.config_specs] == ["k"]


def test_it_says_to_a_trace_who_it_is_under_the_tags_of_its_user(retriever: BaseRetriever) -> None:
    traces = Traces()
    named = retriever.model_copy(update={"tags": ["mine"], "metadata": {"team": "pumps"}})
    named.invoke(QUESTION, {**traces.config, "tags": ["call"], "metadata": {"thread": "7"}})
    run = traces.root
    assert (run.run_type, run.inputs) == ("retriever", {"query": QUESTION})
    assert {"mine", "call"} <= set(run.tags or ())
    told = run.extra["metadata"]
    assert (told["team"], told["thread"], told["ls_vector_store_provider"]) == ("pumps", "7", "catena")
    assert told["ls_retriever_name"].startswith("catena")
    assert len(run.outputs["documents"]) == len(retriever.invoke(QUESTION))


# What its children see.


class Moved(Fixed):
    """Returns documents, if it is told by the call's options which."""

    docs: list[Document]


def moving() -> Runnable[str, list[Document]]:
    return Moved(docs=[]).configurable_fields(docs=ConfigurableField(id="docs"))


def over_moving(kind: str) -> BaseRetriever:
    kept = store()
    how: dict[str, Any] = {"retriever": moving(), "neighbours": kept}
    if kind == "over":
        return CatenaRetriever.over({"moving": moving()})
    if kind == "views":
        return CatenaMultiViewRetriever(retrievers={"moving": moving()})
    return CatenaSegmentRetriever(**how)


@pytest.mark.parametrize("kind", ["over", "views", "segments"])
async def test_options_of_a_call_reach_the_retrievers_inside(kind: str) -> None:
    retriever = over_moving(kind)
    assert [spec.id for spec in retriever.config_specs] == ["docs"]
    assert retriever.invoke(QUESTION) == []
    config = {"configurable": {"docs": chunks()[:2]}}
    found = retriever.invoke(QUESTION, config)
    assert found
    assert await retriever.ainvoke(QUESTION, config) == found
    assert (RunnableLambda(lambda x: x) | retriever).invoke(QUESTION, config) == found


async def test_each_route_is_a_child_with_its_tag(library: Library) -> None:
    retriever = retriever_of("over", library)
    for call in ("invoke", "ainvoke"):
        traces = Traces()
        if call == "invoke":
            retriever.invoke(QUESTION, traces.config | {"run_name": "mine", "tags": ["call"]})
        else:
            await retriever.ainvoke(QUESTION, traces.config | {"run_name": "mine", "tags": ["call"]})
        assert traces.root.name == "mine"
        assert children(traces.root) == ["VectorStoreRetriever"] * 2
        assert sorted(tag for child in traces.root.child_runs for tag in child.tags if ":" in tag) == [
            "route:far",
            "route:near",
        ]
        assert all("call" in child.tags for child in traces.root.child_runs)


async def test_models_rerankers_and_first_rankings_are_children(library: Library) -> None:
    kept, llm = store(), ReplyingChatModel(reply=lambda _: json.dumps(["cover screws torque"]))
    segments = CatenaSegmentRetriever(
        retriever=kept.as_retriever(), neighbours=kept, llm=llm, reranker=FakeReranker(), k=2
    )
    for asked in ("invoke", "ainvoke"):
        traces = Traces()
        if asked == "invoke":
            segments.invoke(QUESTION, traces.config)
        else:
            await segments.ainvoke(QUESTION, traces.config)
        inside = children(traces.root)
        assert set(inside) == {"ReplyingChatModel", "VectorStoreRetriever", FakeReranker().identity}
    named = CatenaRetriever(library=library, llm=ReplyingChatModel(reply=lambda _: "[[]]"))
    traces = Traces()
    named.invoke(QUESTION, traces.config)
    assert children(traces.root) == ["ReplyingChatModel"]


# Mistyped names.


def test_a_mistyped_field_and_a_mistyped_option_are_named(retriever: BaseRetriever) -> None:
    with pytest.raises(ValueError, match=r"has no field 'tagz'. Did you mean 'tags'\?"):
        type(retriever)(**dict(retriever), tagz=["x"])
    with pytest.raises(ParameterError, match=r"invoke must be one of k,? ?.*got 'kk'"):
        retriever.invoke(QUESTION, kk=1)
    with pytest.raises(ParameterError, match="got 'kk'"):
        retriever.ranking(QUESTION, kk=1)  # type: ignore[attr-defined]


async def test_a_mistyped_option_is_named_in_async_too(retriever: BaseRetriever) -> None:
    with pytest.raises(ParameterError, match="got 'wheer'"):
        await retriever.ainvoke(QUESTION, wheer={})


def test_a_field_near_to_none_is_told_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"has no field 'zzz'\. There are: calibration, headed"):
        CatenaRerank(reranker=FakeReranker(), calibration=Constant(), zzz=1)
    with pytest.raises(ValueError, match="Did you mean 'graph'"):
        CatenaGraphRetriever(graf=None)


# What leaves the process.


def test_what_is_dumped_holds_no_library_and_no_secret(retriever: BaseRetriever, library: Library) -> None:
    assert dumpd(retriever)["type"] == "not_implemented"
    assert str(Path(library.store.path)) not in dumps(retriever)


class Keyed(FakeReranker):
    def __init__(self) -> None:
        super().__init__()
        self.api_key = "very-secret"


def test_a_compressor_does_not_print_the_key_of_its_reranker() -> None:
    rerank = CatenaRerank(reranker=Keyed(), calibration=Constant())
    assert "very-secret" not in repr(rerank) + dumps(rerank) + rerank.model_dump_json(exclude={"calibration"})
    assert dumpd(rerank)["type"] == "not_implemented"


@pytest.mark.filterwarnings("ignore:The function `loads` is in beta")
def test_what_is_found_can_be_dumped_and_loaded(retriever: BaseRetriever) -> None:
    found = retriever.invoke(QUESTION)
    again = [loads(dumps(document), allowed_objects=[Document]) for document in found]
    assert again == found
    assert json.loads(json.dumps([document.metadata for document in found])) == [each.metadata for each in found]
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("kind", OF_A_LIBRARY)
def test_a_retriever_over_a_library_can_be_pickled(kind: str, library: Library) -> None:
    retriever = retriever_of(kind, library)
    again = pickle.loads(pickle.dumps(retriever))
    try:
        assert again.library is not library
        assert again.invoke(QUESTION) == retriever.invoke(QUESTION)
    finally:
        again.library.close()


def test_one_over_retrievers_can_be_pickled() -> None:
    retriever = CatenaRetriever.over({"fixed": Fixed(docs=chunks())})
    assert pickle.loads(pickle.dumps(retriever)).invoke(QUESTION) == retriever.invoke(QUESTION)


class _Retriever(RetrieversIntegrationTests):
    kind = "library"

    @pytest.fixture(autouse=True)
    def _one(self, library: Library) -> None:
        self._retriever = retriever_of(self.kind, library)

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return type(self._retriever)

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return dict(self._retriever)

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


class TestFigures(_Retriever):
    kind = "figures"

    @property
    def retriever_query_example(self) -> str:
        return "failures by year, and the pressure of the pumps"


for _kind in sorted(RETRIEVERS.keys() - {"figures", "behind"}):
    _name = f"Test_{_kind.replace(' ', '_')}"
    globals()[_name] = type(_name, (_Retriever,), {"kind": _kind, "__module__": __name__})


class TestEmbeddings(EmbeddingsUnitTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return CatenaEmbeddings


class TestEmbeddingsOfTexts(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return CatenaEmbeddings


class _Store:
    @pytest.fixture
    def kv_store(self) -> DocumentStore:
        return DocumentStore(InMemoryByteStore())

    @pytest.fixture
    def three_values(self) -> tuple[Document, Document, Document]:
        return (
            Document(id="a", page_content="one", metadata={"source": "a.md", "pages": [1, 2]}),
            Document(page_content=""),
            Document(id="c", page_content="ﬁ 三 \u2028", metadata={"catena": {"routes": [{"rank": 1}]}}),
        )


class TestDocumentStore(_Store, BaseStoreSyncTests[Document]):
    pass


class TestDocumentStoreInAsync(_Store, BaseStoreAsyncTests[Document]):
    pass

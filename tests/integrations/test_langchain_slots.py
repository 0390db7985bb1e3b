"""Every class in LangChain's slots: in every way to call it, in traces, dumps and pickles, and in standard suites."""

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
from langchain_core.runnables import ConfigurableField, Runnable, RunnableLambda, RunnablePassthrough
from langchain_core.stores import InMemoryByteStore
from langchain_fakes import (
    QUESTION,
    RETRIEVERS,
    Fixed,
    ReplyingChatModel,
    Traces,
    children,
    chunks,
    retriever_of,
    small_library,
    store,
)  # fmt: skip
from langchain_tests.integration_tests import (
    BaseStoreAsyncTests,
    BaseStoreSyncTests,
    EmbeddingsIntegrationTests,
    RetrieversIntegrationTests,
)
from langchain_tests.unit_tests import EmbeddingsUnitTests

import langchain_catena as lc
from catena import Library
from catena.model import ParameterError
from catena.segments import Constant
from catena.testing import FakeReranker
from catena_bench.baselines import Clustering, ClusterSummaries, RaptorOptions

OF_A_LIBRARY = ("library", "figures", "segments", "sections", "graph")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with small_library(tmp_path_factory.mktemp("manuals")) as opened:
        yield opened


@pytest.fixture(params=RETRIEVERS)
def retriever(request: pytest.FixtureRequest, library: Library) -> BaseRetriever:
    return retriever_of(request.param, library)


# Retrievers.


async def test_every_way_to_call_it_finds_the_same(retriever: BaseRetriever) -> None:
    found = retriever.invoke(QUESTION)
    assert list(retriever.stream(QUESTION)) == [found]
    with blockbuster_ctx(["catena", "langchain_catena"]):
        assert [each async for each in retriever.astream(QUESTION)] == [found]
    # k, in the call, in a chain and as a configurable field
    assert retriever.invoke(QUESTION, k=1)[0].page_content == found[0].page_content
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


class Moved(Fixed):
    """Returns documents, if it is told by the call's options which."""

    docs: list[Document]


def moving() -> Runnable[str, list[Document]]:
    return Moved(docs=[]).configurable_fields(docs=ConfigurableField(id="docs"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: lc.CatenaRetriever.over({"moving": moving()}),
        lambda: lc.CatenaMultiViewRetriever(retrievers={"moving": moving()}),
        lambda: lc.CatenaSegmentRetriever(retriever=moving(), neighbours=store()),
    ],
)
async def test_options_of_a_call_reach_the_retrievers_inside(make: Any) -> None:
    retriever, config = make(), {"configurable": {"docs": chunks()[:2]}}
    assert [spec.id for spec in retriever.config_specs] == ["docs"]
    assert retriever.invoke(QUESTION) == []
    found = retriever.invoke(QUESTION, config)
    assert found
    assert await retriever.ainvoke(QUESTION, config) == found
    assert (RunnableLambda(lambda x: x) | retriever).invoke(QUESTION, config) == found


async def traces_of(retriever: BaseRetriever, **config: Any) -> list[Any]:
    """Return the runs of a sync and of an async call."""
    traces = [Traces(), Traces()]
    retriever.invoke(QUESTION, traces[0].config | config)
    await retriever.ainvoke(QUESTION, traces[1].config | config)
    return [each.root for each in traces]


async def test_what_is_called_inside_is_a_child_with_its_tag(library: Library) -> None:
    for root in await traces_of(retriever_of("over", library), run_name="mine", tags=["call"]):
        assert (root.name, children(root)) == ("mine", ["VectorStoreRetriever"] * 2)
        tags = [sorted(child.tags) for child in root.child_runs]
        assert {tag for of_child in tags for tag in of_child if ":" in tag} == {"route:far", "route:near"}
        assert all("call" in of_child for of_child in tags)
    kept, llm = store(), ReplyingChatModel(reply=lambda _: json.dumps(["cover screws torque"]))
    how: dict[str, Any] = {"retriever": kept.as_retriever(), "neighbours": kept}
    for root in await traces_of(lc.CatenaSegmentRetriever(**how, llm=llm, reranker=FakeReranker(), k=2)):
        assert set(children(root)) == {"ReplyingChatModel", "VectorStoreRetriever", FakeReranker().identity}
    named = lc.CatenaRetriever(library=library, llm=ReplyingChatModel(reply=lambda _: "[[]]"))
    assert [children(root) for root in await traces_of(named)] == [["ReplyingChatModel"]] * 2


async def test_mistyped_names_and_numbers_are_named(retriever: BaseRetriever) -> None:
    with pytest.raises(ValueError, match=r"has no field 'tagz'. Did you mean 'tags'\?"):
        type(retriever)(**dict(retriever), tagz=["x"])
    with pytest.raises(ParameterError, match=r"invoke must be one of k,? ?.*got 'kk'"):
        retriever.invoke(QUESTION, kk=1)
    with pytest.raises(ParameterError, match="got 'kk'"):
        retriever.ranking(QUESTION, kk=1)  # type: ignore[attr-defined]
    with pytest.raises(ParameterError, match="got 'wheer'"):
        await retriever.ainvoke(QUESTION, wheer={})
    for k in (-1, "3"):
        with pytest.raises(ParameterError, match=r"^k must be"):
            retriever.invoke(QUESTION, k=k)
        with pytest.raises(ParameterError, match=r"^k must be"):
            await retriever.ainvoke(QUESTION, k=k)


def test_a_field_near_to_none_is_told_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"has no field 'zzz'\. There are: calibration, headed"):
        lc.CatenaRerank(reranker=FakeReranker(), calibration=Constant(), zzz=1)
    with pytest.raises(ValueError, match="Did you mean 'graph'"):
        lc.CatenaGraphRetriever(graf=None)


# What leaves the process.


@pytest.mark.filterwarnings("ignore:The function `loads` is in beta")
def test_what_is_dumped_holds_no_library_and_what_is_found_comes_back(
    retriever: BaseRetriever, library: Library
) -> None:
    assert dumpd(retriever)["type"] == "not_implemented"
    assert str(Path(library.store.path)) not in dumps(retriever)
    found = retriever.invoke(QUESTION)
    assert [loads(dumps(document), allowed_objects=[Document]) for document in found] == found
    assert json.loads(json.dumps([document.metadata for document in found])) == [each.metadata for each in found]
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_compressor_does_not_print_the_key_of_its_reranker() -> None:
    reranker = FakeReranker()
    reranker.api_key = "very-secret"  # type: ignore[attr-defined]
    rerank = lc.CatenaRerank(reranker=reranker, calibration=Constant())
    assert "very-secret" not in repr(rerank) + dumps(rerank) + rerank.model_dump_json(exclude={"calibration"})
    assert dumpd(rerank)["type"] == "not_implemented"


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
    retriever = lc.CatenaRetriever.over({"fixed": Fixed(docs=chunks())})
    assert pickle.loads(pickle.dumps(retriever)).invoke(QUESTION) == retriever.invoke(QUESTION)


# Compressors and transformers as runnables.

COMPRESSORS = [
    lambda: lc.CatenaRerank(reranker=FakeReranker(), calibration=Constant(), top_n=2),
    lambda: lc.CatenaSegmentExtractor(calibration=Constant()),
    lambda: lc.CatenaChainCompressor(
        graph=lc.build_graph(chunks(), lc.CatenaEmbeddings()), embeddings=lc.CatenaEmbeddings(), k=2
    ),
]


@pytest.mark.parametrize("make", COMPRESSORS)
async def test_every_compressor_is_a_runnable_in_a_chain(make: Any) -> None:
    compressor, search, traces = make(), store().as_retriever(), Traces()
    found = search.invoke(QUESTION)
    expected = compressor.compress_documents(found, QUESTION)
    chain = {"documents": search, "query": RunnablePassthrough()} | compressor.as_runnable()
    assert chain.invoke(QUESTION, traces.config) == expected
    assert await chain.ainvoke(QUESTION) == expected
    assert chain.batch([QUESTION]) == [expected]
    runs = {run.name: run for run in traces.root.child_runs}
    inside = [FakeReranker().identity] if isinstance(compressor, lc.CatenaRerank) else []
    assert children(runs[type(compressor).__name__]) == inside
    mine = compressor.as_runnable(name="mine")
    assert mine.get_input_jsonschema()["$defs"]["Compression"]["required"] == ["documents", "query"]
    assert mine.get_name() == "mine"
    if not inside:  # the fake reranker has a lock
        assert pickle.loads(pickle.dumps(compressor)).compress_documents(found, QUESTION) == expected
    with pytest.raises(ParameterError, match="a mapping with 'documents' and 'query'"):
        compressor.as_runnable().invoke({"docs": found})


TRANSFORMERS = [
    lc.CatenaDocumentTransformer(),
    lc.CatenaEntityTransformer(),
    lc.CatenaViewTransformer(["headed", "raw"]),
    lc.CatenaAtomicTransformer(llm=ReplyingChatModel(reply=lambda _: "no use")),
]


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda made: type(made).__name__)
async def test_every_transformer_is_a_runnable_in_a_chain(transformer: Any) -> None:
    text = "# HX210\n\nThe pump holds 3 bar. The valve opens at 5 bar.\n\n## Cover\n\nIt has four screws.\n"
    given = [Document(page_content=text, metadata={"source": name}) for name in ("hx210.md", "hx220.md")]
    expected = transformer.transform_documents(given)
    assert len(expected) >= 2
    assert transformer.transform_documents(each for each in given) == expected  # a generator
    assert await transformer.atransform_documents(each for each in given) == expected
    traces, chain = Traces(), RunnableLambda(lambda _: given) | transformer.as_runnable()
    assert chain.invoke("", traces.config) == expected
    with blockbuster_ctx(["catena", "langchain_catena"]):
        assert await chain.ainvoke("") == expected
    run = next(each for each in traces.root.child_runs if each.name == type(transformer).__name__)
    asks = isinstance(transformer, lc.CatenaAtomicTransformer)
    assert set(children(run)) == ({"ReplyingChatModel"} if asks else set())


# Trees.

THINGS = ("pump pressure bar", "valve opening spring", "fuse ampere current", "cover screw torque")
FACTS = [
    Document(id=f"{m}{n}", page_content=f"{m} {THINGS[n % 4]} value {n}.", metadata={"source": f"{m}.md", "n": n})
    for m in ("hx200", "hx210")
    for n in range(20)
]
TREES = RaptorOptions(summaries=ClusterSummaries(by="offline"), clustering=Clustering(dimensions=3))


@pytest.fixture(scope="module")
def trees() -> lc.CatenaTreeRetriever:
    pytest.importorskip("sklearn")
    embeddings = lc.CatenaEmbeddings()
    return lc.CatenaTreeRetriever(trees=lc.build_trees(FACTS, embeddings, options=TREES), embeddings=embeddings, k=3)


@pytest.mark.slow
async def test_trees_bring_whole_documents_say_by_which_node_and_are_built_the_same_in_async(
    trees: lc.CatenaTreeRetriever,
) -> None:
    assert [len(each.tree.chunks) for each in trees.trees] == [20, 20]
    given = {each.id: each for each in FACTS}
    for document in trees.invoke("hx210 cover screw torque"):
        assert "cover screw torque" in document.page_content
        assert document.metadata["n"] == given[str(document.id)].metadata["n"]
        (way,) = document.metadata["catena"]["routes"]
        assert (way["route"], way["view"] in ("summary", "raw")) == ("tree", True)
    down = trees.model_copy(update={"way": "traversal"})
    assert len(down.invoke("hx210 cover screw torque", k=2)) == 2
    assert pickle.loads(pickle.dumps(trees)).invoke("valve") == trees.invoke("valve")
    embeddings = lc.CatenaEmbeddings()
    how: dict[str, Any] = {"llm": ReplyingChatModel(reply=lambda _: f"{', '.join(THINGS)}: all told of.")}
    how["options"] = RaptorOptions(clustering=TREES.clustering)
    with blockbuster_ctx(["catena", "langchain_catena"]):
        summed = await lc.abuild_trees(FACTS, embeddings, **how)
    there = lc.build_trees(FACTS, embeddings, **how)
    assert [each.tree for each in summed] == [each.tree for each in there]
    assert any("told of" in node.text for node in there[0].tree.nodes)


def test_a_document_that_does_not_say_whose_it_is_makes_no_tree() -> None:
    with pytest.raises(ParameterError, match="source"):
        lc.build_trees([Document(page_content="x")], lc.CatenaEmbeddings())


# Standard suites.


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
        return "failures by year, and the pressure of the pumps" if self.kind == "figures" else QUESTION


for _kind in sorted(RETRIEVERS.keys() - {"behind"}):
    _name = f"Test_{_kind.replace(' ', '_')}"
    globals()[_name] = type(_name, (_Retriever,), {"kind": _kind, "__module__": __name__})


@pytest.mark.slow
class TestTrees(_Retriever):
    @pytest.fixture(autouse=True)
    def _one(self, trees: lc.CatenaTreeRetriever) -> None:  # type: ignore[override]
        self._retriever = trees


class TestEmbeddings(EmbeddingsUnitTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return lc.CatenaEmbeddings


class TestEmbeddingsOfTexts(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return lc.CatenaEmbeddings


class _Store:
    @pytest.fixture
    def kv_store(self) -> lc.DocumentStore:
        return lc.DocumentStore(InMemoryByteStore())

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

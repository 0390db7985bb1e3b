"""The first mistakes of users of both frameworks: they work where the meaning is clear, or name the right call."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_community.retrievers import BM25Retriever
from langchain_core.documents import Document as LangChainDocument
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from llama_index.core import MockEmbedding, Settings
from llama_index.core.llms import MockLLM
from llama_index.core.schema import Document as LlamaIndexDocument
from llama_index.core.schema import NodeWithScore, TextNode

import langchain_catena as lc
import llama_index_catena as li
from catena import Library
from catena.effects import Reranker, Services
from catena.model import Document, ParameterError
from catena.retrieval import RankFusion, named
from catena.segments import Constant
from catena.testing import FakeReranker

TEXT = "# Pump\n\n## Mounting\n\nTighten the cover screws to 4 Nm.\n\n## Care\n\nOil the pump once a year.\n"
QUESTION = "How tight are the cover screws?"


@pytest.fixture
def library(tmp_path: Path) -> Any:
    with Library.open(tmp_path / "library") as library:
        library.add(Document(id="pump", text=TEXT))
        yield library


def test_a_list_of_retrievers_with_a_list_of_weights_is_fused() -> None:
    words = [BM25Retriever.from_texts(texts) for texts in (["the screws"], ["the cover"])]
    fused = lc.CatenaRetriever.over(words, weights=[0.1, 0.9])
    first = fused.invoke("the cover screws")[0]
    assert first.page_content == "the cover"
    assert [route["route"] for route in first.metadata["catena"]["routes"]] == ["BM25Retriever 2"]


@pytest.mark.parametrize("over", [lc.CatenaRetriever.over, li.CatenaRetriever.over])
@pytest.mark.parametrize(
    ("retrievers", "weights", "told"),
    [
        ([], None, "retrievers"),
        ("ab", None, "retrievers"),
        ([1, 2], [0.5], "weights"),
        ([1], 0.5, "weights"),
        ({"a": 1}, {"b": 0.5}, "weights"),
    ],
)
def test_no_list_of_retrievers_is_refused_by_name(over: Any, retrievers: Any, weights: Any, told: str) -> None:
    with pytest.raises(ParameterError, match=f"^{told} must be"):
        over(retrievers, weights=weights)


def test_retrievers_of_one_class_have_names_of_their_own() -> None:
    by_name, fusion = named([1, "a", 2], [0.1, 0.2, 0.3])
    assert by_name == {"int": 1, "str": "a", "int 2": 2}
    assert fusion.weights == {"int": 0.1, "str": 0.2, "int 2": 0.3}


LANGCHAIN = FakeListChatModel(responses=["4 Nm [1]"]), DeterministicFakeEmbedding(size=8)
LLAMA_INDEX = MockLLM(), MockEmbedding(embed_dim=8)


@pytest.mark.parametrize(("llm", "embedder"), [LANGCHAIN, LLAMA_INDEX], ids=["langchain", "llama_index"])
def test_a_frameworks_models_work_in_the_core_as_they_are(tmp_path: Path, llm: Any, embedder: Any) -> None:
    with Library.open(tmp_path / "library", llm=llm, embedder=embedder) as library:
        library.add(Document(id="pump", text=TEXT))
        assert library.search(QUESTION).hits
        assert library.answer(QUESTION).answer is not None
    with Library.open(tmp_path / "library", embedder=embedder) as again:
        assert again.search(QUESTION).hits
    if isinstance(llm, FakeListChatModel):
        assert Services(llm=llm.bind(stop=["y"])).llm.identity  # with something bound to it


@pytest.mark.parametrize("module", ["langchain_catena", "llama_index_catena"])
def test_all_names_can_be_imported_without_catena_bench(module: str) -> None:
    code = f"import sys; sys.modules['catena_bench'] = None\nfrom {module} import *\nCatenaRetriever"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_where_no_adapter_is_imported_the_error_names_its_call() -> None:
    code = """
from langchain_core.language_models import FakeListChatModel
from catena.effects import Services
Services(llm=FakeListChatModel(responses=["x"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "langchain_catena.LangChainLLM(model)" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "documents",
    [
        [LangChainDocument(id="a", page_content=TEXT, metadata={"source": "a.md"})],
        [LlamaIndexDocument(id_="a", text=TEXT, metadata={"source": "a.md"})],
        [Document(id="a", text=TEXT, source="a.md")],
    ],
    ids=["langchain", "llama_index", "catena"],
)
def test_a_list_of_documents_is_indexed(library: Library, documents: list[Any]) -> None:
    (outcome,) = library.index(documents)
    assert (outcome.state, outcome.document_id, outcome.source, outcome.chunks) == ("indexed", "a", "a.md", 2)
    assert [outcome.state for outcome in library.index(documents)] == ["skipped"]
    assert library.vanished() == ()
    (first, twin) = library.index(each for each in (Document(id="t", text="x"), Document(id="t", text="y")))
    assert (first.state, twin.state) == ("indexed", "failed")
    assert "same id" in twin.reason
    (empty,) = library.index([Document(id="e", text=" ")])
    assert empty.state == "failed"
    with pytest.raises(ParameterError, match="paths alone"):
        library.index([*documents, "a.md"])


def test_a_reranker_without_calibration_is_told_what_to_choose() -> None:
    reranker: Reranker = FakeReranker()
    for make in (lambda: lc.CatenaRerank(reranker=reranker), lambda: li.CatenaRerank(reranker)):
        with pytest.raises(ValueError, match=r"COHERE.*Constant\(\)"):
            make()


def test_the_language_model_is_that_of_the_settings(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "_llm", MockLLM())
    retriever = li.CatenaSegmentRetriever(library)
    assert li.CatenaQueryEngine(retriever).query(QUESTION).response
    assert li.CatenaQueryEngine(library).query(QUESTION).response
    nodes = [NodeWithScore(node=TextNode(text="4 Nm"), score=1.0)]
    assert li.CatenaSynthesizer().synthesize(QUESTION, nodes).response
    assert li.CatenaChainSynthesizer().synthesize(QUESTION, nodes).response is not None


def test_retrievers_pickle_and_find_the_same(library: Library) -> None:
    tuned = li.CatenaRetriever(library)
    tuned.similarity_top_k, tuned.fusion = 1, RankFusion()
    over = li.CatenaRetriever.over([li.CatenaRetriever(library), li.CatenaSegmentRetriever(library)])
    for retriever in (tuned, li.CatenaSegmentRetriever(library=library), over):
        again = pickle.loads(pickle.dumps(retriever))
        found = [(node.node_id, node.score) for node in retriever.retrieve(QUESTION)]
        assert found
        assert [(node.node_id, node.score) for node in again.retrieve(QUESTION)] == found
    assert isinstance(pickle.loads(pickle.dumps(Services())), Services)


def test_a_path_in_place_of_a_library_is_told_how_to_open_it() -> None:
    for make in (lambda: lc.CatenaRetriever(library="manuals"), lambda: li.CatenaRetriever("manuals")):
        with pytest.raises(ValueError, match=r"an open Library, as catena\.Library\.open\('manuals'\) gives it"):
            make()


def test_the_log_calls_nothing_failed_that_did_not(caplog: pytest.LogCaptureFixture) -> None:
    nodes = [NodeWithScore(node=TextNode(text="4 Nm", metadata={"position": 0}), score=0.3)]
    with caplog.at_level(logging.WARNING):
        assert li.CatenaSegmentPostprocessor(calibration=Constant()).postprocess_nodes(nodes, query_str=QUESTION)
    assert "failed" not in caplog.text

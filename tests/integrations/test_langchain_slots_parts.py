"""The parts that came last into LangChain's slots: atomic units, trees, late interaction, blobs, queries, answers."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blockbuster import blockbuster_ctx
from langchain_classic.retrievers import MultiQueryRetriever
from langchain_core.document_loaders import BlobLoader
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from langchain_core.messages import BaseMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_fakes import ReplyingChatModel, charts
from langchain_fakes import QUESTION, Traces, children, chunks, store
from langchain_tests.integration_tests import RetrieversIntegrationTests

from catena.model import ParameterError, ParseError
from catena.retrieval.late_interaction import LateInteractionReranker
from catena.segments import Constant
from catena.testing import FakeReranker
from catena_bench.baselines import Clustering, ClusterSummaries, RaptorOptions
from langchain_catena import (
    CatenaAtomicTransformer,
    CatenaBlobParser,
    CatenaCaptionTransformer,
    CatenaChainCompressor,
    CatenaDocumentTransformer,
    CatenaEmbeddings,
    CatenaEntityTransformer,
    CatenaGraphRetriever,
    CatenaRerank,
    CatenaSegmentExtractor,
    CatenaTreeRetriever,
    CatenaViewTransformer,
    abuild_trees,
    build_graph,
    build_trees,
    chain_answer_chain,
    query_writer,
)

# Compressors and transformers as runnables.


def compressors() -> list[Any]:
    graph = build_graph(chunks(), CatenaEmbeddings())
    return [
        CatenaRerank(reranker=FakeReranker(), calibration=Constant(), top_n=2),
        CatenaSegmentExtractor(calibration=Constant()),
        CatenaChainCompressor(graph=graph, embeddings=CatenaEmbeddings(), k=2),
    ]


@pytest.mark.parametrize("number", range(3))
async def test_every_compressor_is_a_runnable_in_a_chain(number: int) -> None:
    compressor, search = compressors()[number], store().as_retriever()
    found = search.invoke(QUESTION)
    expected = compressor.compress_documents(found, QUESTION)
    chain = {"documents": search, "query": RunnablePassthrough()} | compressor.as_runnable()
    traces = Traces()
    assert chain.invoke(QUESTION, traces.config) == expected
    assert await chain.ainvoke(QUESTION) == expected
    assert chain.batch([QUESTION]) == [expected]
    names = {run.name: run for run in traces.root.child_runs}
    assert type(compressor).__name__ in names
    schema = compressor.as_runnable(name="mine").get_input_jsonschema()
    assert schema["$defs"]["Compression"]["required"] == ["documents", "query"]
    assert compressor.as_runnable(name="mine").get_name() == "mine"
    if number:  # the fake reranker of the first has a lock
        assert pickle.loads(pickle.dumps(compressor)).compress_documents(found, QUESTION) == expected
    with pytest.raises(ParameterError, match="a mapping with 'documents' and 'query'"):
        compressor.as_runnable().invoke({"docs": found})


def test_a_reranker_is_a_run_below_its_compressor() -> None:
    traces = Traces()
    rerank = CatenaRerank(reranker=FakeReranker(), calibration=Constant())
    rerank.as_runnable().invoke({"documents": chunks(), "query": QUESTION}, traces.config)
    assert (traces.root.name, children(traces.root)) == ("CatenaRerank", [FakeReranker().identity])


def units(messages: list[Any]) -> str:
    passage = messages[-1].text.split("<passage>\n")[1].split("\n</passage>")[0]
    return "\n".join(f"{part.strip()}." for part in passage.replace("\n", ". ").split(".") if part.strip())


def transformers() -> list[Any]:
    return [
        CatenaDocumentTransformer(),
        CatenaEntityTransformer(),
        CatenaViewTransformer(["headed", "raw"]),
        CatenaAtomicTransformer(llm=ReplyingChatModel(reply=units)),
    ]


TEXT = "# HX210\n\nThe pump holds 3 bar. The valve opens at 5 bar. The fuse is a T4A."
TEXT += "\n\n## Cover\n\nIt has four screws.\n"


@pytest.mark.parametrize("number", range(4))
async def test_every_transformer_is_a_runnable_in_a_chain(number: int) -> None:
    transformer = transformers()[number]
    given = [Document(page_content=TEXT, metadata={"source": "hx210.md"})]
    expected = transformer.transform_documents(given)
    assert expected
    traces = Traces()
    chain = RunnableLambda(lambda _: given) | transformer.as_runnable()
    assert chain.invoke("", traces.config) == expected
    with blockbuster_ctx(["catena", "langchain_catena"]):
        assert await chain.ainvoke("") == expected
    named = next(each for each in traces.root.child_runs if each.name == type(transformer).__name__)
    assert set(children(named)) == ({"ReplyingChatModel"} if number == 3 else set())


# Atomic units.


def test_atomic_units_are_exact_slices_that_know_their_section() -> None:
    made = transformers()[3].transform_documents([Document(page_content=TEXT, metadata={"source": "hx210.md"})])
    assert [each.page_content for each in made] == [
        "# HX210",
        "The pump holds 3 bar.",
        "The valve opens at 5 bar.",
        "The fuse is a T4A.",
        "## Cover",
        "It has four screws.",
    ]
    for each in made:
        assert TEXT[each.metadata["start_index"] : each.metadata["end_index"]] == each.page_content
        assert each.metadata["source"] == "hx210.md"
    assert made[-1].metadata["heading_path"].endswith("Cover")
    with pytest.raises(ParameterError, match="llm must be a chat model"):
        CatenaAtomicTransformer()


# Trees.


def facts() -> list[Document]:
    """Two sources of twenty passages each, about four things."""
    things = ("pump pressure bar", "valve opening spring", "fuse ampere current", "cover screw torque")
    return [
        Document(
            id=f"{source}{number}",
            page_content=f"{source} {things[number % 4]} value {number}.",
            metadata={"source": f"{source}.md", "n": number},
        )
        for source in ("hx200", "hx210")
        for number in range(20)
    ]


TREES = RaptorOptions(summaries=ClusterSummaries(by="offline"), clustering=Clustering(dimensions=3))


@pytest.fixture(scope="module")
def tree_retriever() -> CatenaTreeRetriever:
    pytest.importorskip("sklearn")
    embeddings = CatenaEmbeddings()
    return CatenaTreeRetriever(trees=build_trees(facts(), embeddings, options=TREES), embeddings=embeddings, k=3)


@pytest.mark.slow
class TestTrees(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _give(self, tree_retriever: CatenaTreeRetriever) -> None:
        self._params = dict(tree_retriever)

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return CatenaTreeRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return self._params

    @property
    def retriever_query_example(self) -> str:
        return "torque of the cover screws"


def test_trees_bring_whole_documents_and_say_by_which_node(tree_retriever: CatenaTreeRetriever) -> None:
    assert [len(each.tree.chunks) for each in tree_retriever.trees] == [20, 20]
    assert all(len(each.tree.layers) > 1 for each in tree_retriever.trees)
    found = tree_retriever.invoke("hx210 cover screw torque")
    given = {each.id: each for each in facts()}
    for document in found:
        assert "cover screw torque" in document.page_content
        assert document.page_content == given[document.id].page_content
        assert document.metadata["n"] == given[document.id].metadata["n"]
        (way,) = document.metadata["catena"]["routes"]
        assert (way["route"], way["view"] in ("summary", "raw")) == ("tree", True)
    down = tree_retriever.model_copy(update={"way": "traversal"})
    assert len(down.invoke("hx210 cover screw torque", k=2)) == 2
    assert pickle.loads(pickle.dumps(tree_retriever)).invoke("valve") == tree_retriever.invoke("valve")


@pytest.mark.slow
async def test_trees_are_built_the_same_in_async(tree_retriever: CatenaTreeRetriever) -> None:
    embeddings = CatenaEmbeddings()
    model = ReplyingChatModel(
        reply=lambda _: (
            "pump pressure bar, valve opening spring, fuse ampere current, cover screw torque: all told of."
        )
    )
    by_model = RaptorOptions(clustering=TREES.clustering)
    with blockbuster_ctx(["catena", "langchain_catena"]):
        trees = await abuild_trees(facts(), embeddings, options=TREES)
        assert await tree_retriever.aranking("valve") == tree_retriever.ranking("valve")
        summed = await abuild_trees(facts(), embeddings, llm=model, options=by_model)
    assert [each.tree for each in trees] == [each.tree for each in tree_retriever.trees]
    there = build_trees(facts(), embeddings, llm=model, options=by_model)
    assert [each.tree for each in summed] == [each.tree for each in there]
    assert any("told of" in node.text for node in there[0].tree.nodes)


def test_a_document_that_does_not_say_whose_it_is_makes_no_tree() -> None:
    with pytest.raises(ParameterError, match="source"):
        build_trees([Document(page_content="x")], CatenaEmbeddings())


# Late interaction.


class ByWord:
    """One axis per word of the question and of the texts, as they come."""

    identity = "words"

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def embed_document_tokens(self, texts):
        return [self.embed_query_tokens(text) for text in texts]

    def embed_query_tokens(self, text):
        words = text.lower().split()
        rows = np.zeros((len(words), 64), np.float32)
        for place, word in enumerate(words):
            rows[place, self.seen.setdefault(word, len(self.seen))] = 1.0
        return rows


def test_late_interaction_reranks_what_any_retriever_found() -> None:
    given = [Document(page_content=text) for text in ("a b c", "cover screws of it", "the torque of cover screws")]
    rerank = CatenaRerank(reranker=LateInteractionReranker(ByWord()), calibration=Constant())
    found = rerank.compress_documents(given, "torque of cover screws")
    assert [(each.page_content, each.metadata["catena"]["raw_score"]) for each in found] == [
        ("the torque of cover screws", 4.0),
        ("cover screws of it", 3.0),
        ("a b c", 0.0),
    ]


# Captions.


async def test_pictures_get_captions_and_other_documents_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "cover.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n picture")
    about = {"figure_file": str(file), "figure_title": "Figure 1", "heading_path": "HX210 › Cover"}
    given = [
        Document(id="i", page_content="The cover.", metadata=about),
        Document(id="t", page_content="No picture."),
        Document(id="u", page_content="Gone.", metadata={"figure_file": str(tmp_path / "none.png")}),
    ]
    asked = []

    def seeing(messages: list[BaseMessage]) -> str:
        asked.append(messages[-1].content)
        return "A grey cover with six screws."

    transformer = CatenaCaptionTransformer(llm=ReplyingChatModel(reply=seeing))
    with blockbuster_ctx(["catena", "langchain_catena"]):
        found = await transformer.atransform_documents(given)
    assert found == transformer.transform_documents(given)
    assert [each.metadata.get("caption") for each in found] == ["A grey cover with six screws.", None, None]
    assert all("caption" not in each.metadata for each in given)
    assert all(part in str(asked[0]) for part in ("Figure 1", "HX210 › Cover", "The cover."))
    assert "picture of u" in caplog.text
    shown = CatenaCaptionTransformer(llm=ReplyingChatModel(reply=seeing), picture=lambda _: file.read_bytes())
    assert [len(each.metadata["caption"]) for each in shown.transform_documents(given)] == [29] * 3
    refusing = CatenaCaptionTransformer(llm=ReplyingChatModel(reply=lambda _: "I'm sorry, I cannot see."))
    assert refusing.transform_documents(given) == given
    assert "caption of i" in caplog.text
    with pytest.raises(ParameterError, match="a chat model that sees"):
        CatenaCaptionTransformer()


# Blobs.


class Two(BlobLoader):
    def yield_blobs(self) -> Iterator[Blob]:
        yield Blob.from_data(charts(), path="charts.pdf", metadata={"owner": "me"})
        yield Blob.from_data("# HX210\n\nIt holds 3 bar.\n", path="hx210.md")


def test_blobs_become_markdown_with_their_pages() -> None:
    parser = CatenaBlobParser()
    charted, manual = [document for blob in Two().yield_blobs() for document in parser.lazy_parse(blob)]
    assert (charted.metadata["owner"], charted.metadata["total_pages"], charted.metadata["source"]) == (
        "me",
        2,
        "charts.pdf",
    )
    assert manual.page_content == "# HX210\n\nIt holds 3 bar.\n"
    assert parser.parse(Blob.from_data("# A\n\nb\n", path="a.md"))[0].metadata["title"] == "A"
    with pytest.raises(ParseError, match="empty"):
        parser.parse(Blob.from_data(" \n", path="a.md"))


# Queries and answers.


async def test_a_question_becomes_searches_by_a_model_or_without_one() -> None:
    compound = "When was the pump built? Who built it?"
    assert query_writer().invoke(compound) == await query_writer().ainvoke(compound)
    assert len(query_writer().invoke(compound)) == 2
    model = ReplyingChatModel(reply=lambda _: json.dumps(["pump built when", "builder of the pump"]))
    traces, writer = Traces(), query_writer(model, n=3)
    assert writer.invoke(compound, traces.config) == [compound, "pump built when", "builder of the pump"]
    assert await writer.ainvoke(compound) == writer.invoke(compound)
    assert children(traces.root) == ["ReplyingChatModel"]
    many = MultiQueryRetriever(
        retriever=store().as_retriever(search_kwargs={"k": 1}),
        llm_chain=RunnableLambda(lambda given: given["question"]) | query_writer(),
    )
    assert len(many.invoke("How tight are the cover screws? When is the seal checked?")) == 2


async def test_a_short_answer_is_read_from_chains() -> None:
    graph, kept = build_graph(chunks(), CatenaEmbeddings()), store()
    retriever = CatenaGraphRetriever(vectorstore=kept, graph=graph, k=3)
    chain = chain_answer_chain(retriever, ReplyingChatModel(reply=lambda _: "<answer>4.5 Nm</answer>"))
    traces = Traces()
    answered = chain.invoke(QUESTION, traces.config)
    assert (answered["question"], answered["answer"]) == (QUESTION, "4.5 Nm")
    assert answered["documents"] == retriever.invoke(QUESTION)
    assert (await chain.ainvoke(QUESTION))["answer"] == "4.5 Nm"
    assert {"CatenaGraphRetriever", "ReplyingChatModel"} <= set(children(traces.root))
    nothing = chain_answer_chain(retriever, ReplyingChatModel(reply=lambda _: "not answerable"))
    assert nothing.invoke(QUESTION)["answer"] is None

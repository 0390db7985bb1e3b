"""Real pipelines of LangChain with parts of ours in them: chains, agents, compressors, ensembles, `index()`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_classic.retrievers import ContextualCompressionRetriever, EnsembleRetriever
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langchain_core.tracers.schemas import Run
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import (
    MANUAL,
    QUESTION,
    SUNSET,
    ReplyingChatModel,
    Traces,
    chunks,
    retriever_of,
    small_library,
    store,
)  # fmt: skip
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

import langchain_catena as lc
from catena import Library
from catena.segments import Constant
from catena.testing import FakeReranker

PROMPT = ChatPromptTemplate.from_template("Answer from this alone:\n{context}\n\nQuestion: {question}")
NOWHERE = "How tight are the cover screws of the HX290?"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with small_library(tmp_path_factory.mktemp("manuals")) as opened:
        yield opened


def reads(messages: list[BaseMessage]) -> str:
    """A model that says the first torque that it is given to read."""
    words = messages[-1].text.split()
    return next((f"{words[place - 1]} Nm" for place, word in enumerate(words) if word == "Nm."), "I do not know.")


def joined(documents: Sequence[Document]) -> str:
    return "\n\n".join(f"[{each.metadata.get('citation', '')}] {each.page_content}" for each in documents)


def answering(retriever: Runnable[str, list[Document]]) -> Runnable[str, str]:
    model = ReplyingChatModel(reply=reads)
    return {"context": retriever | joined, "question": RunnablePassthrough()} | PROMPT | model | StrOutputParser()


def every_run(run: Run) -> list[Run]:
    return [run, *(below for child in run.child_runs for below in every_run(child))]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["library", "segments", "sections", "graph", "over"])
async def test_a_chain_answers_from_any_retriever(library: Library, kind: str) -> None:
    chain, traces = answering(retriever_of(kind, library)), Traces()
    assert chain.invoke(QUESTION, traces.config) == await chain.ainvoke(QUESTION) == "4.5 Nm"
    assert chain.batch([QUESTION] * 2) == ["4.5 Nm"] * 2
    assert "".join(chain.stream(QUESTION)) == "4.5 Nm"
    kinds = [run.run_type for run in every_run(traces.root)]
    assert {"chain", "retriever", "prompt", "llm", "parser"} <= set(kinds)


def test_a_chain_can_branch_on_what_stands_nowhere(library: Library) -> None:
    retriever = lc.CatenaRetriever(library=library)

    def told(asked: str) -> str | None:
        return "; ".join(map(str, retriever.ranking(asked).unknown)) or None

    chain = RunnableLambda(lambda asked: told(asked) or answering(retriever))
    assert chain.invoke(NOWHERE).startswith("'HX290' stands nowhere")
    assert chain.invoke(QUESTION) == "4.5 Nm"


# Agents.


class ToolCaller(ReplyingChatModel):
    """Calls the first tool with the question, and answers from what the tool gave."""

    tool: str = ""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> BaseChatModel:
        return self.model_copy(update={"tool": tools[0].name, "reply": self.decide})

    def decide(self, messages: list[BaseMessage]) -> str | AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return reads(messages)
        call = {"name": "search_manuals", "args": {"query": messages[-1].text}, "id": "1", "type": "tool_call"}
        return AIMessage("", tool_calls=[call])


async def test_an_agent_calls_our_retriever_as_a_tool(library: Library) -> None:
    retriever = lc.CatenaRetriever(library=library, k=2, tell_unknown=True)
    how: dict[str, Any] = {"response_format": "content_and_artifact"}
    tool = create_retriever_tool(retriever, "search_manuals", "Searches manuals.", **how)
    agent, asked, traces = create_agent(ToolCaller(reply=reads), [tool]), {"messages": [("user", QUESTION)]}, Traces()
    done = agent.invoke(asked, traces.config)["messages"]
    assert [message.type for message in done] == ["human", "ai", "tool", "ai"]
    assert done[-1].text == "4.5 Nm"
    assert done[2].artifact[0].metadata["citation"] == "HX210 Manual › Mounting, lines 3-5"
    assert {"CatenaRetriever", "search_manuals"} <= {run.name for run in every_run(traces.root)}
    assert (await agent.ainvoke(asked))["messages"][-1].text == "4.5 Nm"
    nowhere = agent.invoke({"messages": [("user", NOWHERE)]})["messages"]
    assert "'HX290' stands nowhere in the documents" in nowhere[2].text
    assert nowhere[-1].text == "I do not know."
    cited = PromptTemplate.from_template("[{citation}] {page_content}")
    plain = create_retriever_tool(retriever, "manuals", "Searches the manuals.", document_prompt=cited)
    assert plain.invoke({"query": QUESTION}).startswith("[HX210 Manual › Mounting, lines 3-5] ##")


class Asked(TypedDict):
    question: str
    documents: list[Document]
    answer: str


async def test_a_graph_of_langgraph_has_it_as_a_node(library: Library) -> None:
    retriever = lc.CatenaRetriever(library=library, k=2)

    async def search(state: Asked) -> dict[str, Any]:
        return {"documents": await retriever.ainvoke(state["question"])}

    def answer(state: Asked) -> dict[str, Any]:
        prompted = PROMPT.invoke({"context": joined(state["documents"]), "question": state["question"]})
        return {"answer": ReplyingChatModel(reply=reads).invoke(prompted).text}

    graph = StateGraph(Asked)
    for name, node in {"search": search, "answer": answer}.items():
        graph.add_node(name, node)
    graph.add_edge(START, "search")
    graph.add_edge("search", "answer")
    graph.add_edge("answer", END)
    traces = Traces()
    done = await graph.compile().ainvoke({"question": QUESTION}, traces.config)
    assert done["answer"] == "4.5 Nm"
    (found,) = [run for run in every_run(traces.root) if run.name == "CatenaRetriever"]
    assert found.parent_run_id is not None


# Compressors and other retrievers.

RERANK = lc.CatenaRerank(reranker=FakeReranker(), calibration=Constant(), top_n=3)
EXTRACT = lc.CatenaSegmentExtractor(calibration=Constant())


@pytest.mark.parametrize(
    "make",
    [
        lambda: RERANK,
        lambda: EXTRACT,
        lambda: DocumentCompressorPipeline(transformers=[RERANK, EXTRACT]),
        lambda: lc.CatenaChainCompressor(
            graph=lc.build_graph(chunks(), lc.CatenaEmbeddings()), embeddings=lc.CatenaEmbeddings()
        ),
    ],
)
async def test_a_compression_retriever_takes_each_compressor(make: Any) -> None:
    retriever = ContextualCompressionRetriever(base_compressor=make(), base_retriever=store().as_retriever())
    found = retriever.invoke(QUESTION)
    assert found
    assert await retriever.ainvoke(QUESTION) == found
    assert answering(retriever).invoke(QUESTION) == "4.5 Nm"


@SUNSET
async def test_bm25_of_langchain_and_an_ensemble_stand_beside_ours(library: Library) -> None:
    from langchain_community.retrievers import BM25Retriever

    lexical = BM25Retriever.from_documents(chunks(), k=3)
    fused = lc.CatenaRetriever.over({"bm25": lexical, "dense": store().as_retriever()}, k=3)
    found = fused.invoke(QUESTION)
    assert found[0].page_content.startswith("HX210 Manual")  # headed text reaches both
    assert {way["route"] for way in found[0].metadata["catena"]["routes"]} == {"bm25", "dense"}
    assert await fused.ainvoke(QUESTION) == found
    ours = lc.CatenaRetriever(library=library, k=3)
    ensemble = EnsembleRetriever(retrievers=[lexical, ours], weights=[0.5, 0.5])
    assert answering(ensemble).invoke(QUESTION) == "4.5 Nm"


# `index()`.


def manuals(torque: str) -> list[Document]:
    texts = [
        MANUAL.format(name="HX200", torque="3.2", months=6, fuse="T2A"),
        MANUAL.format(name="HX210", torque=torque, months=12, fuse="T4A"),
    ]
    about = [{"source": "hx200.md"}, {"source": "hx210.md"}]
    return lc.with_content_ids(lc.CatenaDocumentTransformer(content="headed").create_documents(texts, about))


def counts(done: Any) -> tuple[int, int, int]:
    return done["num_added"], done["num_skipped"], done["num_deleted"]


@pytest.mark.parametrize("cleanup", ["incremental", "full"])
async def test_index_writes_and_removes_what_changed_alone(cleanup: Any) -> None:
    records, kept = InMemoryRecordManager("manuals"), InMemoryVectorStore(lc.CatenaEmbeddings())
    records.create_schema()
    how: dict[str, Any] = {"cleanup": cleanup, "source_id_key": "source", "key_encoder": "sha256"}
    assert counts(index(manuals("4.5"), records, kept, **how)) == (4, 0, 0)
    assert counts(index(manuals("4.5"), records, kept, **how)) == (0, 4, 0)
    edited = index(manuals("5.1"), records, kept, **how)
    assert counts(edited) == (2, 2, 2)  # the section that was edited, and the one that names it as its neighbour
    assert not any("4.5" in document.page_content for document in kept.similarity_search("torque", k=10))
    done = await aindex(manuals("5.1")[:2], records, kept, **how)  # a source that was not read
    assert counts(done) == (0, 2, 2 if cleanup == "full" else 0)

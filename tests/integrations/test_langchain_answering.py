"""LangChain's chains from a question to an answer; what both adapters promise is in test_answers.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from adapter_faces import quoting
from langchain_classic.retrievers import MultiQueryRetriever
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_fakes import QUESTION, ReplyingChatModel, Traces, children, chunks, module_library, store

import langchain_catena as lc
from catena import Library
from catena.effects import Journal, Services

TEXT = "Tighten the cover screws of the HX210 to 4.5 Nm, crosswise."
library = module_library({"hx210.md": f"# HX210 manual\n\n## Cover\n\n{TEXT}\n"})


@pytest.fixture
def model() -> ReplyingChatModel:
    return ReplyingChatModel(reply=lambda messages: quoting(messages[-1].text))


async def test_a_chain_answers_the_same_in_every_way_to_call_it(library: Library, model: Any, tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal.db") as journal:
        chain = lc.segment_answer_chain(library, model, services=Services(journal=journal))
        result = chain.invoke(QUESTION)
        assert chain.batch([QUESTION]) == await chain.abatch([QUESTION]) == [result]
    assert len(model.sent) == 1  # it is paid for once
    headed = lc.CatenaSegmentRetriever(library=library, content="headed")
    assert lc.segment_answer_chain(headed, model).invoke(QUESTION) == result  # headers are not quoted as text
    cited = result["citations"][0]
    passage = result["passages"][cited["number"] - 1]
    assert (passage["document_id"], passage["value"] > 0) == (cited["document_id"], True)
    assert (cited["lines"], cited["pages"]) == ([5, 5], None)


def test_a_citation_says_where_it_stands_if_anybody_does(model: Any) -> None:
    for metadata, start in (({}, None), ({"source": "hx210.md", "start_index": 100}, 100)):
        found = [Document(page_content=TEXT, metadata=metadata)]
        result = lc.segment_answer_chain(RunnableLambda(lambda _, found=found: found), model).invoke(QUESTION)
        assert (result["citations"][0]["verified"], result["citations"][0]["start_index"]) == (True, start)


async def test_callbacks_reach_retriever_and_model_in_larger_chains(library: Library, model: Any) -> None:
    traces, chain = [Traces(), Traces()], lc.segment_answer_chain(library, model)
    larger = {"asked": RunnablePassthrough(), "found": chain} | RunnableLambda(lambda both: len(both["found"]))
    assert larger.invoke(QUESTION) == 9
    chain.invoke(QUESTION, traces[0].config)
    await chain.ainvoke(QUESTION, traces[1].config)
    for root in (each.root for each in traces):
        assert (root.name, children(root)) == ("segment_answer", ["CatenaSegmentRetriever", "ReplyingChatModel"])


async def test_a_short_answer_is_read_from_chains() -> None:
    graph, kept = lc.build_graph(chunks(), lc.CatenaEmbeddings()), store()
    retriever = lc.CatenaGraphRetriever(vectorstore=kept, graph=graph, k=3)
    chain = lc.chain_answer_chain(retriever, ReplyingChatModel(reply=lambda _: "<answer>4.5 Nm</answer>"))
    traces = Traces()
    answered = chain.invoke(QUESTION, traces.config)
    assert (answered["question"], answered["answer"]) == (QUESTION, "4.5 Nm")
    assert answered["documents"] == retriever.invoke(QUESTION)
    assert (await chain.ainvoke(QUESTION))["answer"] == "4.5 Nm"
    assert {"CatenaGraphRetriever", "ReplyingChatModel"} <= set(children(traces.root))
    nothing = lc.chain_answer_chain(retriever, ReplyingChatModel(reply=lambda _: "not answerable"))
    assert nothing.invoke(QUESTION)["answer"] is None


async def test_searches_of_a_question_go_into_a_multi_query_retriever() -> None:
    model = ReplyingChatModel(reply=lambda _: json.dumps(["pump built when", "builder of the pump"]))
    traces, writer = Traces(), lc.query_writer(model, n=3)
    assert writer.invoke("Who?", traces.config) == ["Who?", "pump built when", "builder of the pump"]
    assert await writer.ainvoke("Who?") == writer.invoke("Who?")
    assert children(traces.root) == ["ReplyingChatModel"]
    many = MultiQueryRetriever(
        retriever=store().as_retriever(search_kwargs={"k": 1}),
        llm_chain=RunnableLambda(lambda given: given["question"]) | lc.query_writer(),
    )
    assert len(many.invoke("How tight are the cover screws? When is the seal checked?")) == 2

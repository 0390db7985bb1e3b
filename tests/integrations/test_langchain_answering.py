"""Chains from a question to an answer, with verified citations or in a few words, and the searches of a question."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_classic.retrievers import MultiQueryRetriever
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_fakes import QUESTION, ReplyingChatModel, Traces, children, chunks, module_library, store

import langchain_catena as lc
from catena import Library
from catena.answering import AnswerOptions
from catena.effects import Journal, Services
from catena.model import ServiceError
from catena.segments import ExtractionParams, SegmentSearch

MANUAL = "# {0} manual\n\n## Cover\n\nTighten the cover screws of the {0} to {1} Nm, crosswise, in two passes.\n\n"
MANUAL += "## Data\n\n| Quantity | Value |\n|---|---|\n| Mass of the unit | {2} |\n"
TOLD = (("HX200", "3.2", "2 kg"), ("HX210", "4.5", "3 kg"))
library = module_library({f"{name.lower()}.md": MANUAL.format(name, torque, mass) for name, torque, mass in TOLD})


def quoting(messages: list[BaseMessage]) -> str:
    """Answer with a quote of the passage on the torque of the HX210, and with one that stands nowhere."""
    prompt = str(messages[-1].content)
    for number, body in re.findall(r'<passage number="(\d+)".*?>\n(.*?)</passage>', prompt, re.DOTALL):
        if found := re.search(r"Tighten the cover screws of the HX210 to [\d.]+ Nm", body):
            return (
                f"Tighten them to 4.5 Nm [{number}]. They are of steel [{number}].\n\n"
                f'[{number}] "{found[0]}"\n[{number}] "The screws are made of stainless steel"'
            )
    return "The passages do not say."


@pytest.fixture
def model() -> ReplyingChatModel:
    return ReplyingChatModel(reply=quoting)


def answer(source: Any, model: Any, question: str = QUESTION, **how: Any) -> dict[str, Any]:
    return lc.segment_answer_chain(source, model, **how).invoke(question)


async def test_an_answer_comes_with_what_proves_it_and_what_does_not(library: Library, model: Any) -> None:
    chain = lc.segment_answer_chain(library, model)
    result = chain.invoke(QUESTION)
    with blockbuster_ctx(["catena", "langchain_catena"]):
        assert await chain.ainvoke(QUESTION) == result
    assert chain.batch([QUESTION]) == await chain.abatch([QUESTION]) == [result]
    assert result["question"] == QUESTION
    assert result["answer"].startswith("Tighten them to 4.5 Nm [")
    good, bad = result["citations"]
    known = {"verified": True, "state": "exact", "citation": "HX210 manual, line 5", "lines": [5, 5], "pages": None}
    assert good.items() >= known.items()
    text = library.get(good["document_id"]).document.text
    assert text[good["start_index"] : good["end_index"]] == good["quote"]
    assert (bad["verified"], bad["state"]) == (False, "missing")
    assert any("steel" in statement for statement in result["unsupported"])
    assert 0 < result["coverage"] < 1
    passage = result["passages"][good["number"] - 1]
    assert (passage["number"], passage["document_id"]) == (good["number"], good["document_id"])
    assert good["quote"] in passage["text"]
    assert passage["value"] > 0
    assert json.loads(json.dumps(result)) == result, "all of it is JSON"
    headed = lc.CatenaSegmentRetriever(library=library, content="headed")
    assert answer(headed, model) == result  # headers in the content are not quoted as text


def test_the_model_reads_all_documents_and_is_told_where_they_differ(library: Library, model: Any) -> None:
    result = answer(library, model, "What is the mass of the HX200 and of the HX210?")
    assert {passage["document_id"] for passage in result["passages"]} == {"hx200.md", "hx210.md"}
    (conflict,) = [each for each in result["conflicts"] if "Mass" in each["label"]]
    assert conflict["expected"], "they are different products"
    assert len(conflict["passages"]) == 2
    prompt = str(model.sent[0][-1].content)
    assert "2 kg" in prompt
    assert conflict["note"] in prompt


def test_without_passages_no_model_is_asked_and_what_stands_nowhere_is_told(library: Library, model: Any) -> None:
    for source in (library, lc.CatenaSegmentRetriever(library=library), lc.CatenaRetriever(library=library)):
        result = answer(source, model, "How tight are the cover screws of the HX290?")
        assert (result["answer"], result["coverage"]) == ("", 0.0)
        assert result["passages"] == result["citations"] == []
        assert result["unknown"] == ["'HX290' stands nowhere in the documents; near it: HX200, HX210"]
    assert answer(RunnableLambda(lambda _: []), model)["answer"] == ""
    assert model.sent == []


def test_any_retriever_will_do(model: Any) -> None:
    text = "Tighten the cover screws of the HX210 to 4.5 Nm, crosswise."

    def found(**metadata: Any) -> Any:
        documents = [Document(page_content=text, metadata=metadata), Document(page_content="Nobody says whose.")]
        return answer(RunnableLambda(lambda _: documents), model)

    bare, placed = found(), found(source="hx210.md", start_index=100, title="HX210")
    assert bare["citations"][0]["verified"]
    assert bare["citations"][0]["start_index"] is None, "nobody said where in its document the text begins"
    assert len({passage["document_id"] for passage in bare["passages"]}) == 2
    assert (placed["citations"][0]["start_index"], placed["citations"][0]["citation"]) == (100, "HX210")


async def test_callbacks_reach_retriever_and_model_in_larger_chains(library: Library, model: Any) -> None:
    traces, chain = [Traces(), Traces()], lc.segment_answer_chain(library, model)
    larger = {"asked": RunnablePassthrough(), "found": chain} | RunnableLambda(lambda both: len(both["found"]))
    assert larger.invoke(QUESTION) == 9
    chain.invoke(QUESTION, traces[0].config)
    await chain.ainvoke(QUESTION, traces[1].config)
    for root in (each.root for each in traces):
        assert (root.name, children(root)) == ("segment_answer", ["CatenaSegmentRetriever", "ReplyingChatModel"])


def test_options_budget_and_journal_are_obeyed(library: Library, model: Any, tmp_path) -> None:
    everything = SegmentSearch(extraction=ExtractionParams(minimum_value=0.0, length_adjustment="off"))
    source = lc.CatenaSegmentRetriever(library=library, options=everything)
    with Journal.open(tmp_path / "journal.db") as journal:
        how: dict[str, Any] = {"options": AnswerOptions(budget_tokens=90), "services": Services(journal=journal)}
        small = answer(source, model, **how)
        assert answer(source, model, **how) == small
    assert len(model.sent) == 1
    sizes = [sum(len(each["text"]) for each in found["passages"]) for found in (small, answer(source, model))]
    assert sizes[0] < sizes[1]


def test_a_model_that_fails_is_told_by_name(library: Library) -> None:
    def fail(messages: list[BaseMessage]) -> str:
        raise RuntimeError("no credit")

    with pytest.raises(ServiceError, match="no credit"):
        answer(library, ReplyingChatModel(reply=fail))
    untidy = answer(library, ReplyingChatModel(reply=lambda _: "4.5 Nm [7]."))
    assert untidy["citations"] == []
    assert untidy["unsupported"]
    assert "[7]" not in untidy["answer"]


async def test_a_question_becomes_searches_by_a_model_or_without_one() -> None:
    compound = "When was the pump built? Who built it?"
    assert lc.query_writer().invoke(compound) == await lc.query_writer().ainvoke(compound)
    assert len(lc.query_writer().invoke(compound)) == 2
    model = ReplyingChatModel(reply=lambda _: json.dumps(["pump built when", "builder of the pump"]))
    traces, writer = Traces(), lc.query_writer(model, n=3)
    assert writer.invoke(compound, traces.config) == [compound, "pump built when", "builder of the pump"]
    assert await writer.ainvoke(compound) == writer.invoke(compound)
    assert children(traces.root) == ["ReplyingChatModel"]
    many = MultiQueryRetriever(
        retriever=store().as_retriever(search_kwargs={"k": 1}),
        llm_chain=RunnableLambda(lambda given: given["question"]) | lc.query_writer(),
    )
    assert len(many.invoke("How tight are the cover screws? When is the seal checked?")) == 2


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

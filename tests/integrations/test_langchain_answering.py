"""The chain from a question to an answer with verified citations: over a library and over any retriever."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_fakes import ReplyingChatModel

from catena import Library
from catena.answering import AnswerOptions
from catena.effects import Journal, Services
from catena.model import ServiceError
from catena.segments import ExtractionParams, SegmentSearch
from langchain_catena import CatenaRetriever, CatenaSegmentRetriever, segment_answer_chain

MANUAL = """# {name} manual

## Cover

Tighten the cover screws of the {name} to {torque} Nm, crosswise, in two passes.

## Data

| Quantity | Value |
|---|---|
| Mass of the unit | {mass} |
"""
QUESTION = "How tight are the cover screws of the HX210?"


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


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("manuals")
    for name, torque, mass in (("HX200", "3.2", "2 kg"), ("HX210", "4.5", "3 kg")):
        text = MANUAL.format(name=name, torque=torque, mass=mass)
        (folder / f"{name.lower()}.md").write_text(text, encoding="utf-8")
    with Library.open(folder / "library") as opened:
        opened.index(sorted(folder.glob("*.md")))
        yield opened


def test_an_answer_comes_with_what_proves_it_and_what_does_not(library: Library, model: ReplyingChatModel) -> None:
    result = segment_answer_chain(library, model).invoke(QUESTION)
    assert result["question"] == QUESTION
    assert result["answer"].startswith("Tighten them to 4.5 Nm [")
    good, bad = result["citations"]
    assert good["verified"]
    assert good["state"] == "exact"
    assert good["citation"] == "HX210 manual, line 5"
    text = library.get(good["document_id"]).document.text
    assert text[good["start_index"] : good["end_index"]] == good["quote"]
    assert good["lines"] == [5, 5]
    assert not bad["verified"]
    assert bad["state"] == "missing"
    assert any("steel" in statement for statement in result["unsupported"])
    assert 0 < result["coverage"] < 1
    passage = result["passages"][good["number"] - 1]
    assert passage["number"] == good["number"]
    assert good["quote"] in passage["text"]
    assert json.loads(json.dumps(result)) == result, "all of it is JSON"


def test_the_model_reads_all_documents_and_is_told_where_they_differ(
    library: Library, model: ReplyingChatModel
) -> None:
    result = segment_answer_chain(CatenaSegmentRetriever(library=library), model).invoke(
        "What is the mass of the HX200 and of the HX210?"
    )
    assert {passage["document_id"] for passage in result["passages"]} == {"hx200.md", "hx210.md"}
    (conflict,) = [each for each in result["conflicts"] if "Mass" in each["label"]]
    assert conflict["expected"], "they are different products"
    assert len(conflict["passages"]) == 2
    prompt = str(model.sent[0][-1].content)
    assert "2 kg" in prompt
    assert "different products" in prompt


async def test_async_gives_the_same_without_blocking_the_loop(library: Library, model: ReplyingChatModel) -> None:
    chain = segment_answer_chain(library, model)
    plain = chain.invoke(QUESTION)
    with blockbuster_ctx(["catena", "langchain_catena"]):
        assert await chain.ainvoke(QUESTION) == plain
    assert chain.batch([QUESTION, QUESTION]) == [plain, plain]
    assert await chain.abatch([QUESTION]) == [plain]


def test_without_passages_no_model_is_asked_and_what_stands_nowhere_is_told(
    library: Library, model: ReplyingChatModel
) -> None:
    for source in (library, CatenaSegmentRetriever(library=library), CatenaRetriever(library=library)):
        result = segment_answer_chain(source, model).invoke("How tight are the cover screws of the HX290?")
        assert result["answer"] == ""
        assert result["passages"] == result["citations"] == []
        assert result["coverage"] == 0.0
        assert result["unknown"] == ["'HX290' stands nowhere in the documents; near it: HX200, HX210"]
    assert model.sent == []


def test_any_retriever_will_do(model: ReplyingChatModel) -> None:
    text = "Tighten the cover screws of the HX210 to 4.5 Nm, crosswise."
    bare = [Document(page_content=text), Document(page_content="Something else.", metadata={"source": "x"})]
    result = segment_answer_chain(RunnableLambda(lambda _: bare), model).invoke(QUESTION)
    good = result["citations"][0]
    assert good["verified"]
    assert good["start_index"] is None, "nobody said where in its document the text begins"
    homeless = [Document(page_content=text), Document(page_content="Nobody says whose this is.")]
    apart = segment_answer_chain(RunnableLambda(lambda _: homeless), model).invoke(QUESTION)
    assert len({passage["document_id"] for passage in apart["passages"]}) == 2
    placed = [Document(page_content=text, metadata={"source": "hx210.md", "start_index": 100, "title": "HX210"})]
    result = segment_answer_chain(RunnableLambda(lambda _: placed), model).invoke(QUESTION)
    assert result["citations"][0]["start_index"] == 100
    assert result["citations"][0]["citation"] == "HX210"
    assert segment_answer_chain(RunnableLambda(lambda _: []), model).invoke(QUESTION)["answer"] == ""


def test_headers_in_the_content_are_not_quoted_as_text(library: Library, model: ReplyingChatModel) -> None:
    headed = CatenaSegmentRetriever(library=library, content="headed")
    plain = segment_answer_chain(library, model).invoke(QUESTION)
    assert segment_answer_chain(headed, model).invoke(QUESTION) == plain


class Runs(BaseCallbackHandler):
    """Keeps the names of what ran, and under what."""

    def __init__(self) -> None:
        self.kinds: dict[Any, str] = {}
        self.parents: dict[str, Any] = {}

    def _note(self, kind: str, run_id: Any, parent_run_id: Any) -> None:
        self.kinds[run_id] = kind
        self.parents[kind] = parent_run_id

    def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, **kwargs) -> None:
        self._note(kwargs.get("name") or "chain", run_id, parent_run_id)

    def on_retriever_start(self, serialized, query, *, run_id, parent_run_id=None, **kwargs) -> None:
        self._note("retriever", run_id, parent_run_id)

    def on_chat_model_start(self, serialized, messages, *, run_id, parent_run_id=None, **kwargs) -> None:
        self._note("model", run_id, parent_run_id)

    def check(self) -> None:
        assert self.kinds[self.parents["retriever"]] == "segment_answer"
        assert self.kinds[self.parents["model"]] == "segment_answer"


class AsyncRuns(Runs, AsyncCallbackHandler):
    async def on_chain_start(self, *args, **kwargs) -> None:
        Runs.on_chain_start(self, *args, **kwargs)

    async def on_retriever_start(self, *args, **kwargs) -> None:
        Runs.on_retriever_start(self, *args, **kwargs)

    async def on_chat_model_start(self, *args, **kwargs) -> None:
        Runs.on_chat_model_start(self, *args, **kwargs)


async def test_callbacks_reach_retriever_and_model(library: Library, model: ReplyingChatModel) -> None:
    chain = segment_answer_chain(library, model)
    runs, async_runs = Runs(), AsyncRuns()
    chain.invoke(QUESTION, {"callbacks": [runs]})
    runs.check()
    await chain.ainvoke(QUESTION, {"callbacks": [async_runs]})
    async_runs.check()


def test_it_is_a_part_of_larger_chains(library: Library, model: ReplyingChatModel) -> None:
    chain = {"asked": RunnablePassthrough(), "found": segment_answer_chain(library, model)} | RunnableLambda(
        lambda both: (both["asked"], len(both["found"]["citations"]))
    )
    assert chain.invoke(QUESTION) == (QUESTION, 2)


def test_options_budget_and_journal_are_obeyed(library: Library, model: ReplyingChatModel, tmp_path) -> None:
    everything = SegmentSearch(extraction=ExtractionParams(minimum_value=0.0, length_adjustment="off"))
    source = CatenaSegmentRetriever(library=library, options=everything)
    with Journal.open(tmp_path / "journal.db") as journal:
        chain = segment_answer_chain(
            source, model, options=AnswerOptions(budget_tokens=90), services=Services(journal=journal)
        )
        small = chain.invoke(QUESTION)
        assert chain.invoke(QUESTION) == small
    assert len(model.sent) == 1
    whole = segment_answer_chain(source, model).invoke(QUESTION)
    assert sum(len(each["text"]) for each in small["passages"]) < sum(len(each["text"]) for each in whole["passages"])


def test_a_model_that_fails_is_told_by_name(library: Library) -> None:
    def fail(messages: list[BaseMessage]) -> str:
        raise RuntimeError("no credit")

    with pytest.raises(ServiceError, match="no credit"):
        segment_answer_chain(library, ReplyingChatModel(reply=fail)).invoke(QUESTION)
    untidy = segment_answer_chain(library, FakeListChatModel(responses=["4.5 Nm [7]."])).invoke(QUESTION)
    assert untidy["citations"] == []
    assert untidy["unsupported"]
    assert "[7]" not in untidy["answer"]

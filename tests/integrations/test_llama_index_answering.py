"""CatenaQueryEngine: answers whose quotes are looked up, with all that holds of them in the response."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.schema import QueryBundle
from llama_index_models import Saying
from llama_index_spans import listening
from llama_index_stores import Replying, splitter

from catena import Library
from catena.answering import AnswerOptions
from catena.model import Document as CoreDocument
from catena.model import ServiceError
from catena.segments import BALANCED, Identity, SegmentSearch
from catena.testing import FakeReranker
from llama_index_catena import (
    CatenaEmbedding,
    CatenaQueryEngine,
    CatenaRerank,
    CatenaRetriever,
    CatenaSegmentPostprocessor,
    CatenaSegmentRetriever,
)

MANUAL = """# {name} manual

## Mounting

The {name} is mounted upright.

## Cover

Tighten the cover screws of the {name} to {torque} Nm, crosswise.

Rating of the fuse: {fuse} mA
"""
QUESTION = "What is the tightening torque of the HX210 cover screws?"
LOOSE = SegmentSearch(extraction=replace(BALANCED, minimum_value=0.0, length_adjustment="off"))


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    for name, torque, fuse in (("HX200", "12", "250"), ("HX210", "14", "400")):
        (tmp_path / f"{name}.md").write_text(MANUAL.format(name=name, torque=torque, fuse=fuse), encoding="utf-8")
    with Library.open(tmp_path / "library") as library:
        library.index([tmp_path])
        yield library


def quoting(prompt: str) -> str:
    """Answer with a quote of the passage on the torque, and with one that stands nowhere."""
    for number, body in re.findall(r'<passage number="(\d+)".*?>\n(.*?)</passage>', prompt, re.DOTALL):
        if found := re.search(r"Tighten the cover screws of the HX210 to [\d.]+ Nm", body):
            return (
                f"They are tightened to 14 Nm [{number}]. They are made of gold [{number}].\n\nQUOTES\n"
                f'[{number}] "{found[0]}"\n[{number}] "the screws are made of gold"'
            )
    return "The passages do not say."


def engine_of(library: Library, **fields: object) -> CatenaQueryEngine:
    return CatenaQueryEngine(CatenaSegmentRetriever(library, options=LOOSE), Replying(by=quoting), **fields)


async def test_an_answer_says_what_of_it_is_proved_and_where_sync_and_async(library: Library) -> None:
    engine = engine_of(library)
    response = engine.query(QUESTION)
    assert str(response).startswith("They are tightened to 14 Nm [")
    good, bad = response.metadata["citations"]
    number = good["number"]
    assert (good["verified"], good["state"], good["document_id"]) == (True, "exact", "HX210.md")
    assert (bad["verified"], bad["state"]) == (False, "missing")
    text = library.get("HX210.md").document.text
    assert text[good["start_char_idx"] : good["end_char_idx"]] == good["quote"]
    assert good["citation"] == "HX210 manual, line 9"
    assert good["quote"] in response.source_nodes[number - 1].node.get_content()
    assert response.metadata["unsupported"] == [f"They are made of gold [{number}]."]
    assert response.metadata["coverage"] == 0.5
    assert json.loads(json.dumps(response.metadata)) == response.metadata
    other = await engine.aquery(QUESTION)
    assert (other.response, other.metadata, other.source_nodes) == (
        response.response,
        response.metadata,
        response.source_nodes,
    )


def test_it_is_the_answer_that_the_library_gives(library: Library, tmp_path: Path) -> None:
    from llama_index_catena import LlamaIndexLLM

    response = engine_of(library).query(QUESTION)
    with Library.open(tmp_path / "library", llm=LlamaIndexLLM(Replying(by=quoting))) as again:
        expected = again.answer(QUESTION, LOOSE)
    assert expected.answer is not None
    assert response.response == expected.answer.text
    assert [each.node.get_content() for each in response.source_nodes] == [
        passage.text for passage in expected.context.passages
    ]


def test_values_in_which_documents_differ_are_pointed_out(library: Library) -> None:
    response = engine_of(library).query("What is the rating of the fuse?")
    conflict = next(each for each in response.metadata["conflicts"] if each["label"] == "Rating of the fuse")
    assert conflict["kind"] == "between_documents"
    assert "250 mA" in conflict["note"]
    off = engine_of(library, options=AnswerOptions(conflicts=False)).query("What is the rating of the fuse?")
    assert off.metadata["conflicts"] == []


async def test_a_name_that_stands_nowhere_is_the_answer_and_no_model_is_asked(library: Library) -> None:
    llm = Saying(reply="no")
    engine = CatenaQueryEngine(CatenaSegmentRetriever(library), llm)
    response = engine.query("What is the torque of the HX999 cover?")
    assert str(response).startswith("'HX999' stands nowhere in the documents")
    assert response.metadata["unknown"] == [str(response)[:-1]]
    assert [each.node.metadata["kind"] for each in response.source_nodes] == ["notice"]
    assert (await engine.aquery("What is the torque of the HX999 cover?")).response == response.response
    assert llm.asked == []
    empty = CatenaQueryEngine(CatenaSegmentRetriever(library, where={"document_id": "none.md"}), llm).query("What?")
    assert str(empty) == "Empty Response"
    assert empty.metadata == {
        "citations": [],
        "unsupported": [],
        "coverage": 0.0,
        "conflicts": [],
        "unknown": [],
    }


def test_the_model_is_told_of_a_name_that_stands_nowhere_beside_one_that_does(library: Library) -> None:
    llm = Replying(by=quoting)
    engine = CatenaQueryEngine(CatenaSegmentRetriever(library, options=LOOSE), llm)
    response = engine.query("How do the cover screws of the HX210 and the HX999 differ?")
    (messages, _) = llm.asked[0]
    assert "'HX999' stands nowhere" in "".join(str(message.content) for message in messages)
    assert response.metadata["citations"][0]["verified"]
    assert response.metadata["unknown"][0].startswith("'HX999'")


def test_the_pages_of_a_quote_are_its_own_where_the_library_has_the_document(tmp_path: Path) -> None:
    first, second = "The HX210 is mounted upright.\n\n", "Tighten the cover screws of the HX210 to 14 Nm.\n"
    paged = CoreDocument(id="HX210.md", text=first + second, title="HX210 manual", page_starts=(0, len(first)))
    with Library.open(tmp_path / "paged") as library:
        library.add(paged)
        retriever = CatenaSegmentRetriever(library, options=LOOSE)
        response = CatenaQueryEngine(retriever, Replying(by=quoting)).query(QUESTION)
        assert response.source_nodes[0].node.metadata["last_page"] == 2
        assert response.source_nodes[0].node.metadata["first_page"] == 1
        assert response.metadata["citations"][0]["pages"] == [2, 2]
        nodes = retriever.retrieve(QUESTION)
    without = CatenaQueryEngine(
        VectorStoreIndex([], embed_model=CatenaEmbedding()).as_retriever(), Replying(by=quoting)
    )
    assert without.synthesize(QueryBundle(QUESTION), nodes).metadata["citations"][0]["pages"] == [1, 2]


async def test_any_retriever_with_any_postprocessors_is_answered_from() -> None:
    text = MANUAL.format(name="HX210", torque="14", fuse="400").replace("\n\n", " ")
    nodes = splitter(24, 4).get_nodes_from_documents([Document(id_="HX210", text=text)])
    index = VectorStoreIndex(nodes, embed_model=CatenaEmbedding())
    engine = CatenaQueryEngine(
        index.as_retriever(similarity_top_k=3),
        Replying(by=quoting),
        node_postprocessors=[
            CatenaRerank(FakeReranker(), calibration=Identity()),
            CatenaSegmentPostprocessor(index.docstore, params=LOOSE.extraction),
        ],
    )
    response = engine.query(QUESTION)
    assert response.metadata["citations"][0]["state"] == "exact"
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert (await engine.aquery(QUESTION)).response == response.response


def test_plain_nodes_are_passages_too(library: Library) -> None:
    response = CatenaQueryEngine(CatenaRetriever(library), Replying(by=quoting), library=library).query(QUESTION)
    assert response.metadata["citations"][0]["verified"]
    nodes = CatenaRetriever(library).retrieve(QUESTION)
    for each in nodes:
        each.score = None
    engine = engine_of(library)
    said = engine.synthesize(QueryBundle(QUESTION), nodes, additional_source_nodes=nodes[:1])
    assert said.source_nodes[-1] == nodes[0]
    assert said.metadata["citations"][0]["verified"]


def test_a_budget_leaves_out_what_does_not_fit_and_source_nodes_are_what_was_read(library: Library) -> None:
    llm = Replying(by=quoting)
    engine = CatenaQueryEngine(
        CatenaSegmentRetriever(library, options=LOOSE), llm, options=AnswerOptions(budget_tokens=60)
    )
    response = engine.query(QUESTION)
    prompt = "\n".join(str(message.content) for message in llm.asked[0][0])
    whole = engine_of(library).query(QUESTION)
    assert sum(len(each.node.get_content()) for each in response.source_nodes) < sum(
        len(each.node.get_content()) for each in whole.source_nodes
    )
    for each in response.source_nodes:
        assert each.node.get_content().strip() in prompt
        assert each.node.metadata["citation"]


@pytest.mark.slow
async def test_spans_and_events_are_paired_also_where_the_model_fails(library: Library) -> None:
    for llm, fails in ((Replying(by=quoting), False), (Saying(reply="fail"), True)):
        debug = LlamaDebugHandler(print_trace_on_end=False)
        retriever = CatenaSegmentRetriever(library, options=LOOSE, callback_manager=CallbackManager([debug]))
        engine = CatenaQueryEngine(retriever, llm)
        expectation = pytest.raises(ServiceError, match="cut off") if fails else nullcontext()
        with listening() as told:
            with expectation:
                engine.query(QUESTION)
            with expectation:
                await engine.aquery(QUESTION)
        names = [type(event).__name__ for event in told.events if type(event).__name__.startswith("Synthesize")]
        assert names == ["SynthesizeStartEvent", "SynthesizeEndEvent"] * 2
        assert {"CatenaQueryEngine._query", "CatenaQueryEngine._aquery", "CatenaQueryEngine.asynthesize"} <= set(
            told.spans
        )
        for kind in (CBEventType.QUERY, CBEventType.RETRIEVE, CBEventType.SYNTHESIZE):
            assert [len(pair) for pair in debug.get_event_pairs(kind)] == [2, 2]

"""Retrievers of chunks: cited hits with provenance, names, foreign retrievers as routes, engines, spans, failures."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_fakes import library_of
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index_fakes import Finding, listening

import llama_index_catena as adapters
from catena import Library
from catena.effects import Search
from catena.model import ParameterError
from catena.retrieval import RankFusion, RoutedStore, ViewSearch
from catena.segments import Constant
from catena.testing import FakeEmbedder, FakeReranker
from llama_index_catena.convert import NOTICE, PROVENANCE, UNKNOWN, provenance, to_chunk
from llama_index_catena.services import CatenaEmbedding

NAMES = ("HX200", "HX210", "HX240", "QT55", "QT60", "ZB7")
TEXT = "# {0} manual\n\n## Cover\n\nThe cover torque is {1} Nm.\n\n## Fuse\n\nIt has {1} fuses.\n"
FUSES = "It has 3 fuses."
NOWHERE = "What is the cover torque of the HX230?"
SAID = "'HX230' stands nowhere in the documents; near it: "


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("manuals")
    with library_of(folder, {f"{name.lower()}.md": TEXT.format(name, n) for n, name in enumerate(NAMES)},
                    embedder=FakeEmbedder()) as opened:  # fmt: skip
        yield opened


async def test_a_query_engine_answers_from_cited_passages(library: Library) -> None:
    engine = RetrieverQueryEngine.from_args(adapters.CatenaRetriever(library, similarity_top_k=2), llm=MockLLM())
    with listening() as told:
        answer = engine.query("HX210 cover torque")
        again = await engine.aquery("HX210 cover torque")
    assert str(answer) == str(again)
    assert "citation: HX210 manual › Cover, lines 3-5" in str(answer)
    assert "1 Nm" in answer.source_nodes[0].text
    assert told.ancestors("CatenaRetriever._retrieve")[0] == "CatenaRetriever.retrieve"
    assert "RetrieverQueryEngine.query" in told.ancestors("CatenaRetriever._retrieve")
    assert told.ancestors("CatenaRetriever._aretrieve")[0] == "CatenaRetriever.aretrieve"
    assert "RetrieverQueryEngine.aquery" in told.ancestors("CatenaRetriever._aretrieve")


async def test_the_models_own_spans_stand_inside_ours(tmp_path: Path) -> None:
    embedder = adapters.LlamaIndexEmbedder(CatenaEmbedding(FakeEmbedder()))
    with library_of(tmp_path, {"a.md": "# A\n\nText."}, embedder=embedder) as library, listening() as told:
        adapters.CatenaRetriever(library).retrieve("text")
        await adapters.CatenaRetriever(library).aretrieve("text")
    for way, call in (("", "get_query_embedding"), ("a", "aget_query_embedding")):
        ours = [f"CatenaRetriever._{way}retrieve", f"CatenaRetriever.{way}retrieve"]
        assert told.ancestors(f"CatenaEmbedding.{call}")[:2] == ours


async def test_callbacks_hear_of_every_retrieval(library: Library) -> None:
    told = LlamaDebugHandler(print_trace_on_end=False)
    retriever = adapters.CatenaRetriever(library, similarity_top_k=1, callback_manager=CallbackManager([told]))
    retriever.retrieve("cover")
    await retriever.aretrieve("cover")
    pairs = told.get_event_pairs(CBEventType.RETRIEVE)
    assert [len(end.payload["nodes"]) for _, end in pairs] == [1, 1]


def test_hypothetical_answers_replace_the_query_on_the_dense_route_only(library: Library) -> None:
    asked: list[object] = library.services.embedder.calls  # type: ignore[union-attr]
    bundle = QueryBundle("cover", custom_embedding_strs=[FUSES, FUSES])
    del asked[:]
    (best, *_) = adapters.CatenaRetriever(library, routes=["dense"]).retrieve(bundle)
    assert asked == [FUSES, FUSES]
    assert FUSES in best.text
    (lexical, *_) = adapters.CatenaRetriever(library, routes=["lexical"]).retrieve(bundle)
    assert "cover" in lexical.text
    assert bundle.custom_embedding_strs == [FUSES, FUSES]


async def test_a_name_that_stands_nowhere_gives_a_notice_and_nothing_else(library: Library) -> None:
    retriever = adapters.CatenaRetriever(library)
    (node,) = retriever.retrieve(NOWHERE)
    assert node.text.startswith(SAID)
    assert (node.metadata["kind"], node.score) == (NOTICE, 0.0)
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert node.node.get_content(mode) == node.text
    assert [n.to_dict() for n in await retriever.aretrieve(NOWHERE)] == [node.to_dict()]
    assert to_chunk(node.node).text == node.text
    assert adapters.CatenaRetriever(library, notice=False).retrieve(NOWHERE) == []
    (other,) = retriever.retrieve("Torque of the HX230, please?")
    assert other.node_id != node.node_id


def test_the_log_and_an_event_say_it(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    with listening() as told, caplog.at_level(logging.WARNING):
        adapters.CatenaRetriever(library).retrieve(NOWHERE)
    (event,) = [e for e in told.events if isinstance(e, adapters.UnknownNameEvent)]
    assert (event.text, event.class_name()) == ("HX230", "UnknownNameEvent")
    assert set(event.near) >= {"HX200", "HX210"}
    assert SAID in caplog.text


def test_models_read_it_with_the_passages_about_the_others(library: Library) -> None:
    question = "Which has the greater cover torque, the QT55 or the HX230?"
    notice, *nodes = adapters.CatenaRetriever(library, similarity_top_k=2).retrieve(question)
    assert notice.node.get_content(MetadataMode.LLM).startswith(SAID)
    assert nodes[0].metadata["title"] == "QT55 manual"
    for node in nodes:
        assert f"{UNKNOWN}: {SAID}" in node.node.get_content(MetadataMode.LLM)
        assert UNKNOWN not in node.node.get_content(MetadataMode.EMBED)
        assert [name["text"] for name in provenance(node.node)["unknown"]] == ["HX230"]
        assert UNKNOWN not in to_chunk(node.node).metadata
    (_, section, *_) = adapters.CatenaRetriever(library, expand_to="section").retrieve(question)
    assert f"{UNKNOWN}: {SAID}" in section.node.get_content(MetadataMode.LLM)


@pytest.mark.parametrize("written", ["in words", "[1]", {"routes": []}, 3, None])
def test_a_key_of_somebody_else_with_our_name_is_no_provenance(written: Any) -> None:
    node = TextNode(id_="a", text="The cover takes six screws.", metadata={PROVENANCE: written})
    assert provenance(node) == {}
    rerank = adapters.CatenaRerank(FakeReranker(), calibration=Constant())
    (found,) = rerank.postprocess_nodes([NodeWithScore(node=node, score=0.5)], query_str="cover")
    assert provenance(found.node)["scale"] == "probability"
    assert node.metadata == {PROVENANCE: written}


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_stages_behind_a_retriever_bear_scores_that_are_no_numbers(score: float) -> None:
    given = {"broken": score, "sound": 0.5}
    nodes = [NodeWithScore(node=TextNode(id_=name, text=name), score=told) for name, told in given.items()]
    rerank = adapters.CatenaRerank(FakeReranker(), calibration=Constant())
    assert len(rerank.postprocess_nodes(nodes, query_str="cover")) == 2
    assert adapters.CatenaSegmentPostprocessor().postprocess_nodes(nodes, query_str="cover")  # by their order
    assert [each.score for each in nodes] == [pytest.approx(score, nan_ok=True), 0.5]


def test_a_filter_is_obeyed_by_a_retriever_that_is_made_for_it() -> None:
    pages = {1: Finding([(TextNode(id_="a", text="a"), 1.0)]), 2: Finding([(TextNode(id_="c", text="c"), 1.0)])}
    store = RoutedStore({"mine": adapters.retriever_route(pages[1], obey=lambda where: pages[where["page"]])})
    for where, found in (({"page": 2}, "c"), (None, "a")):
        assert store.search(Search(route="mine", query="q", k=5, where=where)).hits[0].chunk.id == found


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"views": ViewSearch(), "routes": ["lexical"]}, "routes"),
        ({"views": ViewSearch(), "depth": 9}, "depth"),
        ({"views": ViewSearch(), "fusion": RankFusion()}, "fusion"),
        ({"budget_tokens": 10, "expand_to": "section"}, "budget_tokens"),
    ],
)
def test_options_that_contradict_each_other_are_refused(library: Library, options: Any, named: str) -> None:
    with pytest.raises(ParameterError, match=f"^{named}"):
        adapters.CatenaRetriever(library, **options)

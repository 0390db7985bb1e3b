"""Retrievers of chunks: cited hits with provenance, names, foreign retrievers as routes, engines, spans, failures."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index_graphs import Finding
from llama_index_models import Saying
from llama_index_spans import listening

import llama_index_catena as adapters
from catena import Library
from catena.effects import Search, Services
from catena.enrichment import ExpertDetector, ExpertTerms, RecognizerDetector
from catena.model import FilterError, ModelMismatchError, ParameterError
from catena.retrieval import RankFusion, RoutedStore, ScoreFusion, Tuned, ViewSearch
from catena.segments import Constant
from catena.testing import FakeEmbedder, FakeReranker, Flaky
from catena.testing.fakes import FakeRecognizer, FakeStore
from llama_index_catena.convert import NOTICE, PROVENANCE, UNKNOWN, provenance, to_chunk
from llama_index_catena.services import CatenaEmbedding

MANUAL = """# {name} manual

## Mounting

### Cover

Tighten the cover screws to {torque} Nm.

### Tools

Use the supplied key for every screw of the cover.

## Fuses

The same sentence stands in every manual.
"""
SAME = "The same sentence stands in every manual."


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("manuals")
    for name, torque in (("HX200", "3.2"), ("HX210", "4.5")):
        (folder / f"{name.lower()}.md").write_text(MANUAL.format(name=name, torque=torque), encoding="utf-8")
    with Library.open(folder / "library", embedder=FakeEmbedder()) as opened:
        opened.index(sorted(folder.glob("*.md")))
        yield opened


def broken(library: Library) -> Services:
    """Return the library's services with an embedder that never works."""
    embedder = Flaky(library.services.embedder, [ValueError("no such model")] * 99)
    return Services(embedder=embedder, store=library.store)


def test_the_best_node_is_the_cores_best_chunk_with_all_that_is_known_of_it(library: Library) -> None:
    question = "HX210 cover screws torque"
    nodes = adapters.CatenaRetriever(library, similarity_top_k=3).retrieve(question)
    ranking = library.search(question, k=3)
    assert [(n.node_id, n.score, n.text) for n in nodes] == [
        (h.chunk.id, h.score, h.chunk.text) for h in ranking.hits
    ]
    best = nodes[0]
    assert best.metadata["citation"] == "HX210 manual › Mounting › Cover, lines 5-7"
    assert best.metadata["header_path"] == "/HX210 manual/Mounting/Cover/"
    assert (best.metadata["document_id"], best.node.ref_doc_id) == ("hx210.md", "hx210.md")
    assert best.metadata["title"] == "HX210 manual"
    assert best.metadata["source"].endswith("hx210.md")
    ways = provenance(best.node)["routes"]
    assert {way["route"] for way in ways} >= {"dense", "keyword", "lexical"}
    whole = library.get("hx210.md").document.text
    assert whole[best.node.start_char_idx : best.node.end_char_idx] == best.text


def test_a_failing_route_is_left_out_and_told(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    with listening() as told, caplog.at_level(logging.WARNING):
        nodes = adapters.CatenaRetriever(broken(library)).retrieve("HX210 cover screws")
    assert nodes[0].metadata["title"] == "HX210 manual"
    (event,) = [e for e in told.events if isinstance(e, adapters.RouteDegradedEvent)]
    assert (event.what, event.class_name()) == ("route dense", "RouteDegradedEvent")
    assert "no such model" in event.why
    assert provenance(nodes[0].node)["degraded"] == [{"what": "route dense", "why": event.why}]
    assert "route dense: " in caplog.text


async def test_a_query_engine_answers_from_cited_passages(library: Library) -> None:
    engine = RetrieverQueryEngine.from_args(adapters.CatenaRetriever(library, similarity_top_k=2), llm=MockLLM())
    with listening() as told:
        answer = engine.query("HX210 cover screws torque")
        again = await engine.aquery("HX210 cover screws torque")
    assert str(answer) == str(again)
    assert "citation: HX210 manual › Mounting › Cover, lines 5-7" in str(answer)
    assert "4.5 Nm" in answer.source_nodes[0].text
    assert told.ancestors("CatenaRetriever._retrieve")[0] == "CatenaRetriever.retrieve"
    assert "RetrieverQueryEngine.query" in told.ancestors("CatenaRetriever._retrieve")
    assert told.ancestors("CatenaRetriever._aretrieve")[0] == "CatenaRetriever.aretrieve"
    assert "RetrieverQueryEngine.aquery" in told.ancestors("CatenaRetriever._aretrieve")


async def test_the_models_own_spans_stand_inside_ours(tmp_path: Path) -> None:
    with Library.open(
        tmp_path / "library", embedder=adapters.LlamaIndexEmbedder(CatenaEmbedding(FakeEmbedder()))
    ) as library:
        (tmp_path / "a.md").write_text("# A\n\nText.", encoding="utf-8")
        library.index([tmp_path / "a.md"])
        with listening() as told:
            adapters.CatenaRetriever(library).retrieve("text")
            await adapters.CatenaRetriever(library).aretrieve("text")
    assert told.ancestors("CatenaEmbedding.get_query_embedding")[:2] == [
        "CatenaRetriever._retrieve",
        "CatenaRetriever.retrieve",
    ]
    assert told.ancestors("CatenaEmbedding.aget_query_embedding")[:2] == [
        "CatenaRetriever._aretrieve",
        "CatenaRetriever.aretrieve",
    ]


async def test_callbacks_hear_of_every_retrieval(library: Library) -> None:
    told = LlamaDebugHandler(print_trace_on_end=False)
    retriever = adapters.CatenaRetriever(library, similarity_top_k=1, callback_manager=CallbackManager([told]))
    retriever.retrieve("cover")
    await retriever.aretrieve("cover")
    pairs = told.get_event_pairs(CBEventType.RETRIEVE)
    assert [len(end.payload["nodes"]) for _, end in pairs] == [1, 1]


def test_hypothetical_answers_replace_the_query_on_the_dense_route_only(library: Library) -> None:
    asked: list[object] = library.services.embedder.calls  # type: ignore[union-attr]
    bundle = QueryBundle("cover", custom_embedding_strs=[SAME, SAME])
    del asked[:]
    (best, *_) = adapters.CatenaRetriever(library, routes=["dense"]).retrieve(bundle)
    assert asked == [SAME, SAME]
    assert SAME in best.text
    (lexical, *_) = adapters.CatenaRetriever(library, routes=["lexical"]).retrieve(bundle)
    assert "cover" in lexical.text
    assert bundle.custom_embedding_strs == [SAME, SAME]


NAMES = ("HX200", "HX210", "HX240", "QT55", "QT60", "ZB7")
BOTH = "Which has the greater cover torque, the HX200 or the QT55?"
NOWHERE = "What is the cover torque of the HX230?"
SAID = "'HX230' stands nowhere in the documents; near it: "


@pytest.fixture(scope="module")
def manuals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("manuals")
    for number, name in enumerate(NAMES):
        text = (
            f"# {name} manual\n\n## Cover\n\nThe cover torque is {number} Nm.\n\n## Fuse\n\nIt has {number} fuses.\n"
        )
        (folder / f"{name.lower()}.md").write_text(text, encoding="utf-8")
    with Library.open(folder / "library", embedder=FakeEmbedder()) as opened:
        opened.index(sorted(folder.glob("*.md")))
        yield opened


def found(nodes: list[NodeWithScore]) -> list[str]:
    return [node.metadata["title"].removesuffix(" manual") for node in nodes]


async def test_a_name_that_stands_nowhere_gives_a_notice_and_nothing_else(manuals: Library) -> None:
    retriever = adapters.CatenaRetriever(manuals)
    (node,) = retriever.retrieve(NOWHERE)
    assert node.text.startswith(SAID)
    assert (node.metadata["kind"], node.score) == (NOTICE, 0.0)
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert node.node.get_content(mode) == node.text
    assert [n.to_dict() for n in await retriever.aretrieve(NOWHERE)] == [node.to_dict()]
    assert to_chunk(node.node).text == node.text
    assert adapters.CatenaRetriever(manuals, notice=False).retrieve(NOWHERE) == []
    (other,) = retriever.retrieve("Torque of the HX230, please?")
    assert other.node_id != node.node_id


def test_the_log_and_an_event_say_it(manuals: Library, caplog: pytest.LogCaptureFixture) -> None:
    with listening() as told, caplog.at_level(logging.WARNING):
        adapters.CatenaRetriever(manuals).retrieve(NOWHERE)
    (event,) = [e for e in told.events if isinstance(e, adapters.UnknownNameEvent)]
    assert (event.text, event.class_name()) == ("HX230", "UnknownNameEvent")
    assert set(event.near) >= {"HX200", "HX210"}
    assert SAID in caplog.text


def test_models_read_it_with_the_passages_about_the_others(manuals: Library) -> None:
    question = "Which has the greater cover torque, the QT55 or the HX230?"
    notice, *nodes = adapters.CatenaRetriever(manuals, similarity_top_k=2).retrieve(question)
    assert notice.node.get_content(MetadataMode.LLM).startswith(SAID)
    assert found(nodes)[0] == "QT55"
    for node in nodes:
        assert f"{UNKNOWN}: {SAID}" in node.node.get_content(MetadataMode.LLM)
        assert UNKNOWN not in node.node.get_content(MetadataMode.EMBED)
        assert [name["text"] for name in provenance(node.node)["unknown"]] == ["HX230"]
        assert UNKNOWN not in to_chunk(node.node).metadata
    (_, section, *_) = adapters.CatenaRetriever(manuals, expand_to="section").retrieve(question)
    assert f"{UNKNOWN}: {SAID}" in section.node.get_content(MetadataMode.LLM)


QUESTION = "Does the left gripper of the aurelia have a fuse?"


def test_names_are_found_by_detectors_a_model_and_the_caller(manuals: Library) -> None:
    def unknown(entities: tuple[str, ...] = (), **options: Any) -> list[str]:
        ranking = adapters.CatenaRetriever(manuals, **options).ranking(QUESTION, entities=entities)
        return [name.text.lower() for name in ranking.unknown]

    assert unknown() == []
    assert unknown(("Aurelia",)) == ["aurelia"]
    assert unknown(detectors=[ExpertDetector(terms=ExpertTerms(["Borealis"]))]) == []
    assert unknown(detectors=[ExpertDetector(terms=ExpertTerms(["Aurelia"]))]) == ["aurelia"]
    assert unknown(llm=Saying(reply='[["aurelia", "Borealis"]]')) == ["aurelia"]
    recognizing = replace(manuals.services, recognizer=FakeRecognizer({"PRODUCT": ["aurelia"]}))
    retriever = adapters.CatenaRetriever(recognizing, detectors=[RecognizerDetector()])
    assert [name.text.lower() for name in retriever.ranking(QUESTION).unknown] == ["aurelia"]


def weights(model: str) -> Tuned:
    return Tuned(
        alpha=0.1, beta=0.4, adopted=True, chosen=(0.1, 0.4), usual=(0.2, 0.2), objective="log-rank", k=None, n=12,
        depth=10, questions=20, groups=6, left_out=0, held_out=0.9, held_out_usual=0.8, gain=0.1, interval=(0.0, 0.2),
        detectable=0.05, folds=(), alphas=(), betas=(), surface=(), model=model,
    )  # fmt: skip


def test_tuned_weights_are_those_of_the_source(manuals: Library) -> None:
    model = manuals.services.embedder.identity  # type: ignore[union-attr]
    tuned = weights(model)
    retriever = adapters.CatenaRetriever(manuals, fusion=tuned, by_name=False)
    plain = adapters.CatenaRetriever(manuals, fusion=ScoreFusion(alpha=0.1, beta=0.4), by_name=False)
    assert retriever.ranking(BOTH) == plain.ranking(BOTH)
    with pytest.raises(ModelMismatchError, match="other-model"):
        adapters.CatenaRetriever(manuals, fusion=weights("other-model"))


class Fixed(BaseRetriever):
    """Returns what it was given, and remembers in which threads."""

    def __init__(self, *found: tuple[str, float | None]) -> None:
        super().__init__()
        self.found = found
        self.threads: list[threading.Thread] = []

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.threads.append(threading.current_thread())
        return [
            NodeWithScore(node=TextNode(id_=name, text=f"{name} pump"), score=score) for name, score in self.found
        ]


class Awaiting(Fixed):
    """The same, with async code of its own."""

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await asyncio.sleep(0)
        return self._retrieve(query_bundle)


def over(route: Any, **options: Any) -> adapters.CatenaRetriever:
    beside = FakeStore({"lexical": [to_chunk(TextNode(id_="b", text="b pump"))]})
    services = Services(store=RoutedStore({"mine": route}, beside=beside))
    by_rank = RankFusion(k=60, weights={})
    return adapters.CatenaRetriever(services, routes=["lexical", "mine"], fusion=by_rank, **options)


async def test_nodes_of_both_sides_with_one_id_are_one() -> None:
    for retriever in (Fixed(("a", 0.9), ("b", 0.4)), Awaiting(("a", 0.9), ("b", 0.4))):
        with blockbuster_ctx():
            found = await over(adapters.retriever_route(retriever)).aretrieve("pump")
        assert [(one.node_id, one.score) for one in found] == [
            ("b", pytest.approx(1 / 61 + 1 / 62)),
            ("a", pytest.approx(1 / 61)),
        ]
        ways = {way["route"]: (way["rank"], way["score"]) for way in provenance(found[0].node)["routes"]}
        assert ways["mine"] == (2, 0.4)
        assert (retriever.threads[0] is threading.main_thread()) == isinstance(retriever, Awaiting)
        assert [one.node_id for one in over(adapters.retriever_route(retriever)).retrieve("pump")] == ["b", "a"]


def test_a_filter_is_refused_or_obeyed() -> None:
    with pytest.raises(FilterError, match="'mine' takes no filter"):
        over(adapters.retriever_route(Fixed(("a", 1.0))), where={"page": 2}).retrieve("pump")
    pages = {1: Fixed(("a", 1.0)), 2: Fixed(("c", 1.0))}
    obeying = adapters.retriever_route(pages[1], obey=lambda where: pages[where["page"]])
    store = RoutedStore({"mine": obeying})
    assert store.search(Search(route="mine", query="q", k=5, where={"page": 2})).hits[0].chunk.id == "c"
    assert store.search(Search(route="mine", query="q", k=5)).hits[0].chunk.id == "a"


SOUND = TextNode(id_="sound", text="The cover takes six screws.")
BROKEN = TextNode(id_="broken", text="It is painted grey.")


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
async def test_a_score_that_is_no_number_is_none(score: float) -> None:
    found = [(BROKEN, score), (SOUND, 0.5)]
    nodes = [NodeWithScore(node=node, score=told) for node, told in found]
    fused = adapters.CatenaRetriever.over({"odd": Finding(found), "sound": Finding([(SOUND, 0.9)])})
    assert [each.node.node_id for each in fused.retrieve("cover")] == ["sound", "broken"]
    assert [each.node.node_id for each in await fused.aretrieve("cover")] == ["sound", "broken"]
    rerank = adapters.CatenaRerank(FakeReranker(), calibration=Constant())
    assert len(rerank.postprocess_nodes(nodes, query_str="cover")) == 2
    assert adapters.CatenaSegmentPostprocessor().postprocess_nodes(nodes, query_str="cover")  # by their order
    assert [each.score for each in nodes] == [pytest.approx(score, nan_ok=True), 0.5]


@pytest.mark.parametrize("written", ["in words", "[1]", {"routes": []}, 3, None])
def test_a_key_of_somebody_else_with_our_name_is_no_provenance(written: Any) -> None:
    node = TextNode(id_="a", text="The cover takes six screws.", metadata={PROVENANCE: written})
    assert provenance(node) == {}
    rerank = adapters.CatenaRerank(FakeReranker(), calibration=Constant())
    (found,) = rerank.postprocess_nodes([NodeWithScore(node=node, score=0.5)], query_str="cover")
    assert provenance(found.node)["scale"] == "probability"
    assert node.metadata == {PROVENANCE: written}


def test_options_that_contradict_each_other_are_refused(library: Library) -> None:
    views = ViewSearch()
    for options, named in (
        ({"views": views, "routes": ["lexical"]}, "routes"),
        ({"views": views, "depth": 9}, "depth"),
        ({"budget_tokens": 10, "expand_to": "section"}, "budget_tokens"),
    ):
        with pytest.raises(ParameterError, match=f"^{named}"):
            adapters.CatenaRetriever(library, **options)

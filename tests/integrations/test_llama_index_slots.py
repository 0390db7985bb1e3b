"""Synthesizers, engines, questions, trees, captions, judges and metrics in LlamaIndex's slots for them."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import Response
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    TextNode,
)
from llama_index.core.tools import ToolMetadata
from llama_index_graphs import Finding
from llama_index_models import Saying
from llama_index_spans import listening
from llama_index_stores import Replying, splitter
from llama_index_views import Counted

import llama_index_catena as adapters
from catena import Library
from catena.answering import AnswerOptions
from catena.model import Document as CoreDocument
from catena.model import EvaluationError, ServiceError
from catena.segments import BALANCED, Identity, SegmentSearch
from catena.testing import FakeReranker
from catena_bench.baselines import Clustering, ClusterSummaries, RaptorOptions
from llama_index_catena.baselines import SUMMARY, TREE_LEVEL
from llama_index_catena.convert import NOTICE, provenance
from llama_index_catena.evaluation import LogRankIndex, RecallAt, register_metrics

MANUAL = """# {name} manual

## Mounting

The {name} is mounted upright.

## Cover

Tighten the cover screws of the {name} to {torque} Nm, crosswise.

Rating of the fuse: {fuse} mA
"""
TORQUE = "What is the tightening torque of the HX210 cover screws?"
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


def engine_of(library: Library, **fields: object) -> adapters.CatenaQueryEngine:
    return adapters.CatenaQueryEngine(
        adapters.CatenaSegmentRetriever(library, options=LOOSE), Replying(by=quoting), **fields
    )


async def test_an_answer_says_what_of_it_is_proved_and_where_sync_and_async(library: Library) -> None:
    engine = engine_of(library)
    response = engine.query(TORQUE)
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
    other = await engine.aquery(TORQUE)
    assert (other.response, other.metadata, other.source_nodes) == (
        response.response,
        response.metadata,
        response.source_nodes,
    )


def test_values_in_which_documents_differ_are_pointed_out(library: Library) -> None:
    response = engine_of(library).query("What is the rating of the fuse?")
    conflict = next(each for each in response.metadata["conflicts"] if each["label"] == "Rating of the fuse")
    assert conflict["kind"] == "between_documents"
    assert "250 mA" in conflict["note"]
    off = engine_of(library, options=AnswerOptions(conflicts=False)).query("What is the rating of the fuse?")
    assert off.metadata["conflicts"] == []


async def test_a_name_that_stands_nowhere_is_the_answer_and_no_model_is_asked(library: Library) -> None:
    llm = Saying(reply="no")
    engine = adapters.CatenaQueryEngine(adapters.CatenaSegmentRetriever(library), llm)
    response = engine.query("What is the torque of the HX999 cover?")
    assert str(response).startswith("'HX999' stands nowhere in the documents")
    assert response.metadata["unknown"] == [str(response)[:-1]]
    assert [each.node.metadata["kind"] for each in response.source_nodes] == ["notice"]
    assert (await engine.aquery("What is the torque of the HX999 cover?")).response == response.response
    assert llm.asked == []
    empty = adapters.CatenaQueryEngine(
        adapters.CatenaSegmentRetriever(library, where={"document_id": "none.md"}), llm
    ).query("What?")
    assert str(empty) == "Empty Response"
    nothing = ("citations", "figures", "unsupported", "conflicts", "unknown")
    assert empty.metadata == {"coverage": 0.0, **{name: [] for name in nothing}}


def test_the_pages_of_a_quote_are_its_own_where_the_library_has_the_document(tmp_path: Path) -> None:
    first, second = "The HX210 is mounted upright.\n\n", "Tighten the cover screws of the HX210 to 14 Nm.\n"
    paged = CoreDocument(id="HX210.md", text=first + second, title="HX210 manual", page_starts=(0, len(first)))
    with Library.open(tmp_path / "paged") as library:
        library.add(paged)
        retriever = adapters.CatenaSegmentRetriever(library, options=LOOSE)
        response = adapters.CatenaQueryEngine(retriever, Replying(by=quoting)).query(TORQUE)
        assert response.source_nodes[0].node.metadata["last_page"] == 2
        assert response.source_nodes[0].node.metadata["first_page"] == 1
        assert response.metadata["citations"][0]["pages"] == [2, 2]
        nodes = retriever.retrieve(TORQUE)
    without = adapters.CatenaQueryEngine(
        VectorStoreIndex([], embed_model=adapters.CatenaEmbedding()).as_retriever(), Replying(by=quoting)
    )
    assert without.synthesize(QueryBundle(TORQUE), nodes).metadata["citations"][0]["pages"] == [1, 2]


async def test_any_retriever_with_any_postprocessors_is_answered_from() -> None:
    text = MANUAL.format(name="HX210", torque="14", fuse="400").replace("\n\n", " ")
    nodes = splitter(24, 4).get_nodes_from_documents([Document(id_="HX210", text=text)])
    index = VectorStoreIndex(nodes, embed_model=adapters.CatenaEmbedding())
    engine = adapters.CatenaQueryEngine(
        index.as_retriever(similarity_top_k=3),
        Replying(by=quoting),
        node_postprocessors=[
            adapters.CatenaRerank(FakeReranker(), calibration=Identity()),
            adapters.CatenaSegmentPostprocessor(index.docstore, params=LOOSE.extraction),
        ],
    )
    response = engine.query(TORQUE)
    assert response.metadata["citations"][0]["state"] == "exact"
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert (await engine.aquery(TORQUE)).response == response.response


def test_plain_nodes_are_passages_too(library: Library) -> None:
    response = adapters.CatenaQueryEngine(
        adapters.CatenaRetriever(library), Replying(by=quoting), library=library
    ).query(TORQUE)
    assert response.metadata["citations"][0]["verified"]
    nodes = adapters.CatenaRetriever(library).retrieve(TORQUE)
    for each in nodes:
        each.score = None
    engine = engine_of(library)
    said = engine.synthesize(QueryBundle(TORQUE), nodes, additional_source_nodes=nodes[:1])
    assert said.source_nodes[-1] == nodes[0]
    assert said.metadata["citations"][0]["verified"]


def test_a_budget_leaves_out_what_does_not_fit_and_source_nodes_are_what_was_read(library: Library) -> None:
    llm = Replying(by=quoting)
    engine = adapters.CatenaQueryEngine(
        adapters.CatenaSegmentRetriever(library, options=LOOSE), llm, options=AnswerOptions(budget_tokens=60)
    )
    response = engine.query(TORQUE)
    prompt = "\n".join(str(message.content) for message in llm.asked[0][0])
    whole = engine_of(library).query(TORQUE)
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
        retriever = adapters.CatenaSegmentRetriever(library, options=LOOSE, callback_manager=CallbackManager([debug]))
        engine = adapters.CatenaQueryEngine(retriever, llm)
        expectation = pytest.raises(ServiceError, match="cut off") if fails else nullcontext()
        with listening() as told:
            with expectation:
                engine.query(TORQUE)
            with expectation:
                await engine.aquery(TORQUE)
        names = [type(event).__name__ for event in told.events if type(event).__name__.startswith("Synthesize")]
        assert names == ["SynthesizeStartEvent", "SynthesizeEndEvent"] * 2
        assert {"CatenaQueryEngine._query", "CatenaQueryEngine._aquery", "CatenaQueryEngine.asynthesize"} <= set(
            told.spans
        )
        for kind in (CBEventType.QUERY, CBEventType.RETRIEVE, CBEventType.SYNTHESIZE):
            assert [len(pair) for pair in debug.get_event_pairs(kind)] == [2, 2]


QUESTION = "How many screws hold the cover?"
ANSWER = 'Six screws hold it [1].\n\nQuotes:\n[1] "The cover takes six screws."'
FOUND = [
    (TextNode(id_="a", text="The cover takes six screws.", metadata={"title": "HX210"}), 0.9),
    (TextNode(id_="b", text="It is painted grey.", metadata={"title": "HX210"}), 0.0),
]


def scored() -> list[NodeWithScore]:
    return [NodeWithScore(node=node, score=score) for node, score in FOUND]


# Synthesizers.


async def test_quotes_are_looked_up_in_a_query_engine_of_ones_own() -> None:
    engine = RetrieverQueryEngine(Finding(FOUND), adapters.CatenaSynthesizer(Saying(reply=ANSWER)))
    response = engine.query(QUESTION)
    (told,) = response.metadata["citations"]
    assert (told["verified"], told["number"], response.metadata["coverage"]) == (True, 1, 1.0)
    assert response.source_nodes[0].node.text == FOUND[0][0].text
    again = await engine.aquery(QUESTION)
    assert (str(again), again.metadata) == (str(response), response.metadata)


def test_a_synthesizer_answers_from_bare_texts_too_and_asks_nobody_where_there_is_nothing() -> None:
    llm = Saying(reply=ANSWER)
    synthesizer = adapters.CatenaSynthesizer(llm)
    assert synthesizer.get_response(QUESTION, ["The cover takes six screws."]).startswith("Six screws")
    assert str(synthesizer.synthesize(QUESTION, [])) == "Empty Response"
    assert len(llm.asked) == 1


async def test_chains_are_answered_in_a_few_words_or_not_at_all() -> None:
    llm = Saying(reply="Six")
    engine = RetrieverQueryEngine(Finding(FOUND), adapters.CatenaChainSynthesizer(llm))
    response = engine.query(QUESTION)
    assert (str(response), response.metadata) == ("Six", {"answerable": True})
    assert [found.node.node_id for found in response.source_nodes] == ["a", "b"]
    assert str(await engine.aquery(QUESTION)) == "Six"
    notice = NodeWithScore(node=TextNode(id_="n", text="No HX900.", metadata={"kind": NOTICE}), score=0.0)
    nothing = adapters.CatenaChainSynthesizer(llm).synthesize(QUESTION, [notice])
    assert (str(nothing), nothing.source_nodes) == ("Empty Response", [notice])
    assert len(llm.asked) == 2
    unknown = adapters.CatenaChainSynthesizer(Saying(reply="Not answerable.")).synthesize(QUESTION, scored())
    assert unknown.metadata == {"answerable": False}


# Questions.


async def test_each_question_is_asked_of_every_tool() -> None:
    tools = [ToolMetadata(name=name, description=name) for name in ("manuals", "notes")]
    query = QueryBundle("When was it built? Who built it?")
    found = adapters.CatenaQuestionGenerator().generate(tools, query)
    assert len({each.sub_question for each in found}) == 2
    assert [each.tool_name for each in found] == ["manuals", "notes"] * 2
    assert await adapters.CatenaQuestionGenerator().agenerate(tools, query) == found
    asked = adapters.CatenaQuestionGenerator(Saying(reply='["year of building", "builder"]'), n=2).generate(
        tools[:1], query
    )
    assert [each.sub_question for each in asked] == ["year of building", "builder"]


@pytest.mark.slow
async def test_a_model_that_fails_leaves_the_offline_way_and_it_is_told() -> None:
    tools, query = [ToolMetadata(name="m", description="m")], QueryBundle("When was it built? Who built it?")
    generator = adapters.CatenaQuestionGenerator(Saying(reply="fail"))
    with listening() as told:
        found = await generator.agenerate(tools, query)
    assert found == adapters.CatenaQuestionGenerator().generate(tools, query)
    assert "RouteDegradedEvent" in [event.class_name() for event in told.events]


# Trees.


SUBJECTS = ("pumps and oil", "valves and steam", "lamps and light", "doors and locks")
HOW = RaptorOptions(summaries=ClusterSummaries(by="offline"), clustering=Clustering(dimensions=3))


def leaves(document: str = "d") -> list[TextNode]:
    return [
        TextNode(
            id_=f"{document}-{place:02d}",
            text=f"Remark {place} speaks of {SUBJECTS[place % 4]}.",
            metadata={"title": "Remarks"},
            relationships={NodeRelationship.SOURCE: Document(id_=document, text="").as_related_node_info()},
        )
        for place in range(16)
    ]


def known(nodes: Sequence[BaseNode]) -> list[dict[str, object]]:
    return [node.to_dict() for node in nodes]


@pytest.mark.slow
async def test_summaries_stand_behind_their_nodes_and_name_them() -> None:
    given = leaves()
    before = known(given)
    extractor = adapters.CatenaTreeExtractor(embed_model=Counted(), options=HOW)
    made = extractor(given)
    assert known(made[:16]) == before == known(given)
    summaries = made[16:]
    assert summaries
    levels = [summary.metadata[TREE_LEVEL] for summary in summaries]
    assert levels == sorted(levels)
    for summary in summaries:
        assert (summary.metadata["kind"], summary.ref_doc_id) == (SUMMARY, "d")
        assert summary.child_nodes
        assert TREE_LEVEL not in summary.get_content(MetadataMode.EMBED) + summary.get_content(MetadataMode.LLM)
    first = {
        child.node_id for summary in summaries if summary.metadata[TREE_LEVEL] == 1 for child in summary.child_nodes
    }
    assert first == {node.node_id for node in given}
    assert known(await extractor.acall(given)) == known(made)
    assert known(extractor([*given, *leaves("e")])[32 : 32 + len(summaries)]) == known(summaries)
    assert known(extractor(made)[: len(made)]) == known(made)


@pytest.mark.slow
async def test_a_tree_is_searched_in_all_layers_or_from_the_root() -> None:
    given = leaves()
    tree = adapters.build_tree(given, Counted(), options=HOW)
    assert (await adapters.abuild_tree(given, Counted(), options=HOW)).tree == tree.tree
    for how in ("collapsed", "traversal"):
        retriever = adapters.CatenaTreeRetriever(tree, Counted(), how=how, similarity_top_k=2)
        found = retriever.retrieve("lamps and light")
        assert "lamps" in found[0].text
        assert {each.node.node_id for each in found} <= {node.node_id for node in given}
        assert [each.to_dict() for each in await retriever.aretrieve("lamps and light")] == [
            n.to_dict() for n in found
        ]
        assert provenance(found[0].node)["routes"][0]["route"] == "tree"
    fused = adapters.CatenaRetriever.over({"remarks": retriever, "others": Finding(FOUND)})
    assert {each.node.node_id for each in fused.retrieve("lamps and light")} >= {"a", "b", found[0].node.node_id}


# Captions.

PNG = b"\x89PNG\r\n\x1a\n picture"


async def test_pictures_get_captions_and_other_nodes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "cover.png"
    file.write_bytes(PNG)
    nodes = [
        ImageNode(id_="i", text="Figure 1", image=base64.b64encode(PNG).decode(), metadata={"headings": "HX210"}),
        TextNode(id_="t", text="No picture."),
        ImageNode(id_="f", image_path=str(file)),
        ImageNode(id_="u", image_url="http://127.0.0.1:9/none.png"),
    ]
    llm = Saying(reply="A grey cover with six screws.")
    extractor = adapters.CatenaCaptionExtractor(llm)
    with listening() as told:
        found = await extractor.aextract(nodes)
    caption = {"caption": "A grey cover with six screws."}
    assert found == extractor.extract(nodes) == [caption, {}, caption, {}]
    assert any("addresses are not fetched" in getattr(event, "why", "") for event in told.events)
    assert extractor([nodes[0]])[0].metadata["caption"] == caption["caption"]
    assert "caption" not in nodes[0].metadata


async def test_a_refusal_is_no_caption_and_is_told() -> None:
    node = ImageNode(id_="i", image=base64.b64encode(PNG).decode())
    with listening() as told:
        assert await adapters.CatenaCaptionExtractor(Saying(reply="I'm sorry, I cannot see.")).aextract([node]) == [
            {}
        ]
    assert [event.what for event in told.events if event.class_name() == "CaptionsDegradedEvent"] == ["caption of i"]


# Judges.


def judging(prompt: str) -> str:
    """Give the answer that says "six" 9, the other 3, wherever it stands."""
    first = prompt.split("<answer_1>")[1].split("</answer_1>", maxsplit=1)[0]
    one, two = (9, 3) if "six" in first else (3, 9)
    return f'The first is as it is. {{"answer_1_score": {one}, "answer_2_score": {two}}}'


async def test_a_pair_is_judged_in_both_orders() -> None:
    llm = Replying(by=judging)
    judge = adapters.CatenaPairwiseEvaluator(llm)
    pair = {"query": QUESTION, "response": "It is six.", "second_response": "It is ten.", "reference": "Six."}
    won = await judge.aevaluate(**pair)
    assert (won.score, won.passing, won.invalid_result) == (1.0, True, False)
    assert len(llm.asked) == 2
    lost = judge.evaluate(**{**pair, "response": pair["second_response"], "second_response": pair["response"]})
    assert (lost.score, lost.passing) == (0.0, False)
    same = judge.evaluate(**{**pair, "second_response": "It is six"})
    assert (same.score, same.passing, len(llm.asked)) == (0.5, None, 4)
    liking_the_first = adapters.CatenaPairwiseEvaluator(
        Saying(reply='So. {"answer_1_score": 9, "answer_2_score": 3}')
    )
    assert liking_the_first.evaluate(**pair).score == 0.5
    broken = adapters.CatenaPairwiseEvaluator(Saying(reply="Both are fine.")).evaluate(**pair)
    assert (broken.invalid_result, broken.score) == (True, None)
    assert broken.invalid_reason


async def test_quotes_are_judged_by_looking_them_up() -> None:
    judge = adapters.CatenaQuoteEvaluator()
    texts = [node.text for node, _ in FOUND]
    good = judge.evaluate(QUESTION, ANSWER, texts)
    assert (good.score, good.passing) == (1.0, True)
    bad = await judge.aevaluate(QUESTION, ANSWER.replace("takes six", "takes ten"), texts)
    assert (bad.score, bad.passing) == (0.0, False)
    assert "Six screws" in str(bad.feedback)
    response = adapters.CatenaSynthesizer(Saying(reply=ANSWER)).synthesize(QUESTION, scored())
    assert (await judge.aevaluate_response(QUESTION, response)).score == 1.0


def test_what_was_found_of_an_answers_scope_is_measured_in_characters() -> None:
    documents = [Document(id_="x", text="Other words."), Document(id_="d", text="One two three. Four five six.")]
    nodes = adapters.CatenaNodeParser(max_tokens=4, min_tokens=0).get_nodes_from_documents(documents)
    judge = adapters.CatenaScopeEvaluator(documents)
    halves = [node for node in nodes if node.ref_doc_id == "d"]
    assert len(halves) == 2
    response = Response(response="", source_nodes=[NodeWithScore(node=halves[0], score=0.0)])
    found = judge.evaluate_response("q", response, evidence={"d": [(0, 29)]})
    assert found.score == pytest.approx(12 / 24)
    whole = judge.recall([NodeWithScore(node=node) for node in halves], {"d": [(0, 29)]})
    assert whole == 1.0
    for evidence in ({"z": [(0, 1)]}, {"x": [(0, 15)]}, {}):  # 15 characters would reach into the next document
        with pytest.raises(EvaluationError):
            judge.recall(response.source_nodes, evidence)


def test_standard_measures_and_full_evidence_bear_empty_results() -> None:
    ids = {"expected_ids": ["a", "b"], "retrieved_ids": ["a", "x", "b", "a"]}
    assert adapters.StandardMeasure(measure="map").compute(**ids).score == pytest.approx((1 + 2 / 3) / 2)
    assert adapters.StandardMeasure(measure="mrr@10").compute(**ids).score == 1.0
    assert adapters.StandardMeasure(measure="ndcg@10").compute(expected_ids=["a"], retrieved_ids=[]).score == 0.0
    assert [adapters.EvidenceMeasure(measure=f"all@{k}").compute(**ids).score for k in (2, 3)] == [0.0, 1.0]
    assert adapters.EvidenceMeasure(measure="recall@2").compute(**ids).score == 0.5
    assert adapters.EvidenceMeasure().compute(expected_ids=["a"], retrieved_ids=None).score == 0.0


N = 1_000
RANKINGS = {"first": ["a", "b"], "tenth": [*"bcdefghij", "a"], "lost": ["b"], "nothing": [], "twice": ["b", "b", "a"]}
INDEX = {"first": 1.0, "tenth": 2 / 3, "lost": 0.0, "nothing": 0.0, "twice": 0.8997}


@pytest.fixture(autouse=True)
def loop():
    """Give the thread an event loop: LlamaIndex's `evaluate` takes the one that is there, and closes none."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield
    made.close()
    asyncio.set_event_loop(None)


class Scripted(BaseRetriever):
    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=TextNode(id_=each, text=each)) for each in RANKINGS[query_bundle.query_str]]


def evaluator(*metrics):
    return RetrieverEvaluator(metrics=list(metrics), retriever=Scripted())


@pytest.mark.parametrize("question", RANKINGS)
def test_the_evaluator_gives_the_index_also_where_nothing_was_retrieved(question):
    found = evaluator(LogRankIndex(n=N), RecallAt(k=3)).evaluate(question, expected_ids=["a"])
    assert found.metric_vals_dict["log_rank_index"] == pytest.approx(INDEX[question], abs=1e-4)
    assert found.metric_vals_dict["recall_at_k"] == float(question in {"first", "twice"})
    assert found.metric_dict["log_rank_index"].metadata["n"] == N
    assert found.metric_dict["recall_at_k"].metadata == {"k": 3}


@pytest.fixture
def registry():
    kept = dict(METRIC_REGISTRY)
    yield METRIC_REGISTRY
    METRIC_REGISTRY.clear()
    METRIC_REGISTRY.update(kept)


def test_names_are_registered_when_asked_and_with_the_parameters_given(registry):
    assert "log_rank_index" not in registry
    register_metrics(n=N, gamma=10, k=1)
    named = RetrieverEvaluator.from_metric_names(["log_rank_index", "recall_at_k", "mrr"], retriever=Scripted())
    found = named.evaluate("tenth", expected_ids=["a"])
    assert found.metric_vals_dict["log_rank_index"] == pytest.approx(0.510, abs=5e-4)
    assert found.metric_vals_dict["recall_at_k"] == 0.0
    register_metrics(n=N)
    again = RetrieverEvaluator.from_metric_names(["log_rank_index"], retriever=Scripted())
    assert again.evaluate("tenth", expected_ids=["a"]).metric_vals_dict["log_rank_index"] == pytest.approx(2 / 3)

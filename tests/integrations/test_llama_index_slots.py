"""Synthesizers, engines, questions, trees, captions, judges and metrics in LlamaIndex's slots for them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from adapter_faces import quoting
from blockbuster import blockbuster_ctx
from langchain_fakes import module_library
from llama_index.core import VectorStoreIndex, schema
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import Response
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.tools import ToolMetadata
from llama_index_fakes import Counted, Finding, Replying, Saying, listening, splitter

import llama_index_catena as adapters
from catena import Library
from catena.model import Document as CoreDocument
from catena.model import EvaluationError, ServiceError
from catena.segments import BALANCED, Identity, SegmentSearch
from catena.testing import FakeReranker
from catena_bench.baselines import Clustering, ClusterSummaries, RaptorOptions
from llama_index_catena.baselines import SUMMARY, TREE_LEVEL
from llama_index_catena.convert import NOTICE, provenance
from llama_index_catena.evaluation import register_metrics

pytestmark = pytest.mark.usefixtures("loop")

TORQUE = "How tight are the cover screws of the HX210?"
TEXT = "Tighten the cover screws of the HX210 to 4.5 Nm, crosswise.\n"
LOOSE = SegmentSearch(extraction=replace(BALANCED, minimum_value=0.0, length_adjustment="off"))
library = module_library({"hx210.md": f"# HX210 manual\n\n## Cover\n\n{TEXT}"})


def test_the_pages_of_a_quote_are_its_own_where_the_library_has_the_document(tmp_path: Path) -> None:
    first = "The HX210 is mounted upright.\n\n"
    paged = CoreDocument(id="HX210.md", text=first + TEXT, title="HX210 manual", page_starts=(0, len(first)))
    with Library.open(tmp_path / "paged") as library:
        library.add(paged)
        retriever = adapters.CatenaSegmentRetriever(library, options=LOOSE)
        response = adapters.CatenaQueryEngine(retriever, Replying(by=quoting)).query(TORQUE)
        about = response.source_nodes[0].node.metadata
        assert (about["first_page"], about["last_page"]) == (1, 2)
        assert response.metadata["citations"][0]["pages"] == [2, 2]
        nodes = retriever.retrieve(TORQUE)
    without = adapters.CatenaQueryEngine(
        VectorStoreIndex([], embed_model=adapters.CatenaEmbedding()).as_retriever(), Replying(by=quoting)
    )
    assert without.synthesize(schema.QueryBundle(TORQUE), nodes).metadata["citations"][0]["pages"] == [1, 2]


async def test_any_retriever_with_any_postprocessors_is_answered_from() -> None:
    text = f"The HX210 is mounted upright. {TEXT.replace('4.5', '14')} Its fuse holds 400 mA."
    nodes = splitter(24, 4).get_nodes_from_documents([schema.Document(id_="HX210", text=text)])
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


def test_further_source_nodes_are_kept_and_scores_are_not_needed(library: Library) -> None:
    nodes = adapters.CatenaRetriever(library).retrieve(TORQUE)
    for each in nodes:
        each.score = None
    engine = adapters.CatenaQueryEngine(adapters.CatenaRetriever(library), Replying(by=quoting), library=library)
    said = engine.synthesize(schema.QueryBundle(TORQUE), nodes, additional_source_nodes=nodes[:1])
    assert said.source_nodes[-1] == nodes[0]
    assert said.metadata["citations"][0]["verified"]


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
    (schema.TextNode(id_="a", text="The cover takes six screws.", metadata={"title": "HX210"}), 0.9),
    (schema.TextNode(id_="b", text="It is painted grey.", metadata={"title": "HX210"}), 0.0),
]


def scored() -> list[schema.NodeWithScore]:
    return [schema.NodeWithScore(node=node, score=score) for node, score in FOUND]


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
    notice = schema.NodeWithScore(
        node=schema.TextNode(id_="n", text="No HX900.", metadata={"kind": NOTICE}), score=0.0
    )
    nothing = adapters.CatenaChainSynthesizer(llm).synthesize(QUESTION, [notice])
    assert (str(nothing), nothing.source_nodes) == ("Empty Response", [notice])
    assert len(llm.asked) == 2
    unknown = adapters.CatenaChainSynthesizer(Saying(reply="Not answerable.")).synthesize(QUESTION, scored())
    assert unknown.metadata == {"answerable": False}


# Questions.


async def test_each_question_is_asked_of_every_tool() -> None:
    tools = [ToolMetadata(name=name, description=name) for name in ("manuals", "notes")]
    query = schema.QueryBundle("When was it built? Who built it?")
    found = adapters.CatenaQuestionGenerator().generate(tools, query)
    assert len({each.sub_question for each in found}) == 2
    assert [each.tool_name for each in found] == ["manuals", "notes"] * 2
    assert await adapters.CatenaQuestionGenerator().agenerate(tools, query) == found


@pytest.mark.slow
async def test_a_model_that_fails_leaves_the_offline_way_and_it_is_told() -> None:
    tools, query = [ToolMetadata(name="m", description="m")], schema.QueryBundle("When was it built? Who built it?")
    generator = adapters.CatenaQuestionGenerator(Saying(reply="fail"))
    with listening() as told:
        found = await generator.agenerate(tools, query)
    assert found == adapters.CatenaQuestionGenerator().generate(tools, query)
    assert "RouteDegradedEvent" in [event.class_name() for event in told.events]


# Trees.


SUBJECTS = ("pumps and oil", "valves and steam", "lamps and light", "doors and locks")
HOW = RaptorOptions(summaries=ClusterSummaries(by="offline"), clustering=Clustering(dimensions=3))


def leaves(document: str = "d") -> list[schema.TextNode]:
    return [
        schema.TextNode(
            id_=f"{document}-{place:02d}",
            text=f"Remark {place} speaks of {SUBJECTS[place % 4]}.",
            metadata={"title": "Remarks"},
            relationships={
                schema.NodeRelationship.SOURCE: schema.Document(id_=document, text="").as_related_node_info()
            },
        )
        for place in range(16)
    ]


def known(nodes: Sequence[schema.BaseNode]) -> list[dict[str, object]]:
    return [node.to_dict() for node in nodes]


@pytest.mark.slow
def test_summaries_stand_behind_their_nodes_and_name_them() -> None:
    given = leaves()
    extractor = adapters.CatenaTreeExtractor(embed_model=Counted(), options=HOW)
    made = extractor(given)
    summaries = made[16:]
    levels = [summary.metadata[TREE_LEVEL] for summary in summaries]
    assert levels == sorted(levels) != []
    for summary in summaries:
        assert (summary.metadata["kind"], summary.ref_doc_id) == (SUMMARY, "d")
        assert TREE_LEVEL not in summary.get_content(schema.MetadataMode.EMBED)
        assert TREE_LEVEL not in summary.get_content(schema.MetadataMode.LLM)
    lowest = [summary for summary in summaries if summary.metadata[TREE_LEVEL] == 1]
    assert {child.node_id for each in lowest for child in each.child_nodes} == {node.node_id for node in given}
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
        assert provenance(found[0].node)["routes"][0]["route"] == "tree"


# Captions.


def test_pictures_may_be_in_the_node_and_addresses_are_not_fetched() -> None:
    inside = schema.ImageNode(id_="i", text="Figure 1", image=base64.b64encode(b"\x89PNG\r\n\x1a\n picture").decode())
    nodes = [inside, schema.ImageNode(id_="u", image_url="http://127.0.0.1:9/none.png")]
    with listening() as told:
        found = adapters.CatenaCaptionExtractor(Saying(reply="A grey cover with six screws."))(nodes)
    assert [node.metadata.get("caption") for node in found] == ["A grey cover with six screws.", None]
    assert any("addresses are not fetched" in getattr(event, "why", "") for event in told.events)


# Judges.

EVEN = 'So. {"answer_1_score": 9, "answer_2_score": 9}'


async def test_judges_say_what_passes() -> None:
    judge = adapters.CatenaQuoteEvaluator()
    response = adapters.CatenaSynthesizer(Saying(reply=ANSWER)).synthesize(QUESTION, scored())
    good = await judge.aevaluate_response(QUESTION, response)
    bad = await judge.aevaluate(QUESTION, ANSWER.replace("takes six", "takes ten"), [FOUND[0][0].text])
    assert [(each.score, each.passing) for each in (good, bad)] == [(1.0, True), (0.0, False)]
    pair = {"query": QUESTION, "response": "Six.", "second_response": "Ten.", "reference": "Six."}
    told = [
        adapters.CatenaPairwiseEvaluator(Saying(reply=said)).evaluate(**pair) for said in ("Both are fine.", EVEN)
    ]
    assert [(each.invalid_result, each.passing) for each in told] == [(True, None), (False, None)]
    assert told[0].invalid_reason


def test_what_was_found_of_an_answers_scope_is_measured_in_characters() -> None:
    documents = [
        schema.Document(id_="x", text="Other words."),
        schema.Document(id_="d", text="One two three. Four five six."),
    ]
    nodes = adapters.CatenaNodeParser(max_tokens=4, min_tokens=0).get_nodes_from_documents(documents)
    judge = adapters.CatenaScopeEvaluator(documents)
    halves = [node for node in nodes if node.ref_doc_id == "d"]
    assert len(halves) == 2
    response = Response(response="", source_nodes=[schema.NodeWithScore(node=halves[0], score=0.0)])
    found = judge.evaluate_response("q", response, evidence={"d": [(0, 29)]})
    assert found.score == pytest.approx(12 / 24)
    whole = judge.recall([schema.NodeWithScore(node=node) for node in halves], {"d": [(0, 29)]})
    assert whole == 1.0
    for evidence in ({"z": [(0, 1)]}, {"x": [(0, 15)]}, {}):  # 15 characters would reach into the next document
        with pytest.raises(EvaluationError):
            judge.recall(response.source_nodes, evidence)


class Tenth(BaseRetriever):
    def _retrieve(self, query_bundle):
        return [schema.NodeWithScore(node=schema.TextNode(id_=each, text=each)) for each in [*"bcdefghij", "a"]]


@pytest.fixture
def registry():
    kept = dict(METRIC_REGISTRY)
    yield METRIC_REGISTRY
    METRIC_REGISTRY.clear()
    METRIC_REGISTRY.update(kept)


def test_names_are_registered_when_asked_and_with_the_parameters_given(registry):
    assert "log_rank_index" not in registry
    register_metrics(n=1_000, gamma=10, k=1)
    named = RetrieverEvaluator.from_metric_names(["log_rank_index", "recall_at_k", "mrr"], retriever=Tenth())
    found = named.evaluate("tenth", expected_ids=["a"])
    assert found.metric_vals_dict["log_rank_index"] == pytest.approx(0.510, abs=5e-4)
    assert found.metric_vals_dict["recall_at_k"] == 0.0
    assert (found.metric_dict["log_rank_index"].metadata["n"], found.metric_dict["recall_at_k"].metadata) == (
        1_000, {"k": 1},
    )  # fmt: skip
    register_metrics(n=1_000)
    again = RetrieverEvaluator.from_metric_names(["log_rank_index"], retriever=Tenth())
    assert again.evaluate("tenth", expected_ids=["a"]).metric_vals_dict["log_rank_index"] == pytest.approx(2 / 3)

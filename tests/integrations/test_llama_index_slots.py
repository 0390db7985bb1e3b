"""Parts of the core in the slots of LlamaIndex that came last: synthesizers, questions, trees, captions, judges."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.base.response.schema import Response
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
from llama_index_stores import Replying
from llama_index_views import Counted

from catena.model import EvaluationError, ParameterError, ServiceError
from catena_bench.baselines import Clustering, ClusterSummaries, RaptorOptions
from llama_index_catena import (
    CatenaCaptionExtractor,
    CatenaChainSynthesizer,
    CatenaNodeParser,
    CatenaPairwiseEvaluator,
    CatenaQuestionGenerator,
    CatenaQuoteEvaluator,
    CatenaRetriever,
    CatenaScopeEvaluator,
    CatenaSynthesizer,
    CatenaTreeExtractor,
    CatenaTreeRetriever,
    EvidenceMeasure,
    StandardMeasure,
    abuild_tree,
    build_tree,
)
from llama_index_catena.baselines import SUMMARY, TREE_LEVEL
from llama_index_catena.convert import NOTICE, provenance

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
    engine = RetrieverQueryEngine(Finding(FOUND), CatenaSynthesizer(Saying(reply=ANSWER)))
    response = engine.query(QUESTION)
    (told,) = response.metadata["citations"]
    assert (told["verified"], told["number"], response.metadata["coverage"]) == (True, 1, 1.0)
    assert response.source_nodes[0].node.text == FOUND[0][0].text
    again = await engine.aquery(QUESTION)
    assert (str(again), again.metadata) == (str(response), response.metadata)


def test_a_synthesizer_answers_from_bare_texts_too_and_asks_nobody_where_there_is_nothing() -> None:
    llm = Saying(reply=ANSWER)
    synthesizer = CatenaSynthesizer(llm)
    assert synthesizer.get_response(QUESTION, ["The cover takes six screws."]).startswith("Six screws")
    assert str(synthesizer.synthesize(QUESTION, [])) == "Empty Response"
    assert len(llm.asked) == 1


async def test_chains_are_answered_in_a_few_words_or_not_at_all() -> None:
    llm = Saying(reply="Six")
    engine = RetrieverQueryEngine(Finding(FOUND), CatenaChainSynthesizer(llm))
    response = engine.query(QUESTION)
    assert (str(response), response.metadata) == ("Six", {"answerable": True})
    assert [found.node.node_id for found in response.source_nodes] == ["a", "b"]
    assert str(await engine.aquery(QUESTION)) == "Six"
    notice = NodeWithScore(node=TextNode(id_="n", text="No HX900.", metadata={"kind": NOTICE}), score=0.0)
    nothing = CatenaChainSynthesizer(llm).synthesize(QUESTION, [notice])
    assert (str(nothing), nothing.source_nodes) == ("Empty Response", [notice])
    assert len(llm.asked) == 2
    unknown = CatenaChainSynthesizer(Saying(reply="Not answerable.")).synthesize(QUESTION, scored())
    assert unknown.metadata == {"answerable": False}


@pytest.mark.slow
@pytest.mark.parametrize("synthesizer", [CatenaSynthesizer, CatenaChainSynthesizer])
async def test_every_synthesis_that_starts_ends_also_where_the_model_fails(synthesizer: type) -> None:
    made = synthesizer(Saying(reply="fail"))
    with listening() as told:
        with pytest.raises(ServiceError):
            made.synthesize(QUESTION, scored())
        with pytest.raises(ServiceError):
            await made.asynthesize(QUESTION, scored())
    names = [event.class_name() for event in told.events]
    assert names.count("SynthesizeStartEvent") == names.count("SynthesizeEndEvent") == 2
    assert f"{synthesizer.__name__}.asynthesize" in told.spans


# Questions.


async def test_each_question_is_asked_of_every_tool() -> None:
    tools = [ToolMetadata(name=name, description=name) for name in ("manuals", "notes")]
    query = QueryBundle("When was it built? Who built it?")
    found = CatenaQuestionGenerator().generate(tools, query)
    assert len({each.sub_question for each in found}) == 2
    assert [each.tool_name for each in found] == ["manuals", "notes"] * 2
    assert await CatenaQuestionGenerator().agenerate(tools, query) == found
    asked = CatenaQuestionGenerator(Saying(reply='["year of building", "builder"]'), n=2).generate(tools[:1], query)
    assert [each.sub_question for each in asked] == ["year of building", "builder"]


@pytest.mark.slow
async def test_a_model_that_fails_leaves_the_offline_way_and_it_is_told() -> None:
    tools, query = [ToolMetadata(name="m", description="m")], QueryBundle("When was it built? Who built it?")
    generator = CatenaQuestionGenerator(Saying(reply="fail"))
    with listening() as told:
        found = await generator.agenerate(tools, query)
    assert found == CatenaQuestionGenerator().generate(tools, query)
    assert "RouteDegradedEvent" in [event.class_name() for event in told.events]
    with pytest.raises(ParameterError, match="n must be"):
        CatenaQuestionGenerator(n=0)


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
    extractor = CatenaTreeExtractor(embed_model=Counted(), options=HOW)
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


async def test_trees_with_a_model_block_no_loop() -> None:
    llm = Saying(reply="Lamps, bolts, filters and screens are told of.")
    by_model = RaptorOptions(clustering=HOW.clustering)
    extractor = CatenaTreeExtractor(llm, options=by_model)  # with the shipped embedding, which is a file
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        made = await extractor.acall(leaves())
        tree = await abuild_tree(leaves(), llm=llm, options=by_model)
    assert known(made) == known(extractor(leaves()))
    assert tree.tree == build_tree(leaves(), llm=llm, options=by_model).tree
    assert len(made) > len(leaves())


async def test_a_tree_is_searched_in_all_layers_or_from_the_root() -> None:
    given = leaves()
    tree = build_tree(given, Counted(), options=HOW)
    assert (await abuild_tree(given, Counted(), options=HOW)).tree == tree.tree
    for how in ("collapsed", "traversal"):
        retriever = CatenaTreeRetriever(tree, Counted(), how=how, similarity_top_k=2)
        found = retriever.retrieve("lamps and light")
        assert "lamps" in found[0].text
        assert {each.node.node_id for each in found} <= {node.node_id for node in given}
        assert [each.to_dict() for each in await retriever.aretrieve("lamps and light")] == [
            n.to_dict() for n in found
        ]
        assert provenance(found[0].node)["routes"][0]["route"] == "tree"
    fused = CatenaRetriever.over({"remarks": retriever, "others": Finding(FOUND)})
    assert {each.node.node_id for each in fused.retrieve("lamps and light")} >= {"a", "b", found[0].node.node_id}


def test_a_tree_is_of_one_document_and_asks_for_its_model() -> None:
    with pytest.raises(ParameterError, match="of one document"):
        build_tree([*leaves(), *leaves("e")], Counted(), options=HOW)
    with pytest.raises(ParameterError, match="llm must be given"):
        CatenaTreeExtractor(options=RaptorOptions())
    with pytest.raises(ParameterError, match="how must be"):
        CatenaTreeRetriever(build_tree(leaves(), Counted(), options=HOW), how="up")  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_summary_that_a_model_does_not_give_is_told() -> None:
    extractor = CatenaTreeExtractor(
        Saying(reply="fail"), embed_model=Counted(), options=RaptorOptions(clustering=Clustering(dimensions=3))
    )
    with listening() as told:
        made = extractor(leaves())
    assert len(made) > 16
    assert "TreeDegradedEvent" in [event.class_name() for event in told.events]


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
    extractor = CatenaCaptionExtractor(llm)
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
        assert await CatenaCaptionExtractor(Saying(reply="I'm sorry, I cannot see.")).aextract([node]) == [{}]
    assert [event.what for event in told.events if event.class_name() == "CaptionsDegradedEvent"] == ["caption of i"]


# Judges.


def judging(prompt: str) -> str:
    """Give the answer that says "six" 9, the other 3, wherever it stands."""
    first = prompt.split("<answer_1>")[1].split("</answer_1>", maxsplit=1)[0]
    one, two = (9, 3) if "six" in first else (3, 9)
    return f'The first is as it is. {{"answer_1_score": {one}, "answer_2_score": {two}}}'


async def test_a_pair_is_judged_in_both_orders() -> None:
    llm = Replying(by=judging)
    judge = CatenaPairwiseEvaluator(llm)
    pair = {"query": QUESTION, "response": "It is six.", "second_response": "It is ten.", "reference": "Six."}
    won = await judge.aevaluate(**pair)
    assert (won.score, won.passing, won.invalid_result) == (1.0, True, False)
    assert len(llm.asked) == 2
    lost = judge.evaluate(**{**pair, "response": pair["second_response"], "second_response": pair["response"]})
    assert (lost.score, lost.passing) == (0.0, False)
    same = judge.evaluate(**{**pair, "second_response": "It is six"})
    assert (same.score, same.passing, len(llm.asked)) == (0.5, None, 4)
    liking_the_first = CatenaPairwiseEvaluator(Saying(reply='So. {"answer_1_score": 9, "answer_2_score": 3}'))
    assert liking_the_first.evaluate(**pair).score == 0.5
    broken = CatenaPairwiseEvaluator(Saying(reply="Both are fine.")).evaluate(**pair)
    assert (broken.invalid_result, broken.score) == (True, None)
    assert broken.invalid_reason
    with pytest.raises(EvaluationError, match="reference"):
        judge.evaluate(query=QUESTION, response="a", second_response="b")


async def test_quotes_are_judged_by_looking_them_up() -> None:
    judge = CatenaQuoteEvaluator()
    texts = [node.text for node, _ in FOUND]
    good = judge.evaluate(QUESTION, ANSWER, texts)
    assert (good.score, good.passing) == (1.0, True)
    bad = await judge.aevaluate(QUESTION, ANSWER.replace("takes six", "takes ten"), texts)
    assert (bad.score, bad.passing) == (0.0, False)
    assert "Six screws" in str(bad.feedback)
    response = CatenaSynthesizer(Saying(reply=ANSWER)).synthesize(QUESTION, scored())
    assert (await judge.aevaluate_response(QUESTION, response)).score == 1.0
    with pytest.raises(EvaluationError, match="contexts"):
        judge.evaluate(QUESTION, ANSWER)


def test_what_was_found_of_an_answers_scope_is_measured_in_characters() -> None:
    documents = [Document(id_="x", text="Other words."), Document(id_="d", text="One two three. Four five six.")]
    nodes = CatenaNodeParser(max_tokens=4, min_tokens=0).get_nodes_from_documents(documents)
    judge = CatenaScopeEvaluator(documents)
    halves = [node for node in nodes if node.ref_doc_id == "d"]
    assert len(halves) == 2
    response = Response(response="", source_nodes=[NodeWithScore(node=halves[0], score=0.0)])
    found = judge.evaluate_response("q", response, evidence={"d": [(0, 29)]})
    assert found.score == pytest.approx(12 / 24)
    whole = judge.recall([NodeWithScore(node=node) for node in halves], {"d": [(0, 29)]})
    assert whole == 1.0
    for evidence in ({"z": [(0, 1)]}, {"d": [(0, 99)]}, {}):
        with pytest.raises(EvaluationError):
            judge.recall(response.source_nodes, evidence)


def test_standard_measures_and_full_evidence_bear_empty_results() -> None:
    ids = {"expected_ids": ["a", "b"], "retrieved_ids": ["a", "x", "b", "a"]}
    assert StandardMeasure(measure="map").compute(**ids).score == pytest.approx((1 + 2 / 3) / 2)
    assert StandardMeasure(measure="mrr@10").compute(**ids).score == 1.0
    assert StandardMeasure(measure="ndcg@10").compute(expected_ids=["a"], retrieved_ids=[]).score == 0.0
    assert [EvidenceMeasure(measure=f"all@{k}").compute(**ids).score for k in (2, 3)] == [0.0, 1.0]
    assert EvidenceMeasure(measure="recall@2").compute(**ids).score == 0.5
    assert EvidenceMeasure().compute(expected_ids=["a"], retrieved_ids=None).score == 0.0
    for broken in (lambda: StandardMeasure(measure="best"), lambda: EvidenceMeasure(measure="chain_order")):
        with pytest.raises(ParameterError, match="measure"):
            broken()
    with pytest.raises(EvaluationError, match="expected ids"):
        StandardMeasure(measure="map").compute(retrieved_ids=["a"])

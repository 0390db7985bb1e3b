"""Pipelines as users run them: ingestion with docstore, cache and workers, query and chat engines, agents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.agent import ReActAgent
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.ingestion import DocstoreStrategy, IngestionCache, IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine, SubQuestionQueryEngine
from llama_index.core.question_gen.types import SubQuestion
from llama_index.core.retrievers import QueryFusionRetriever, RecursiveRetriever
from llama_index.core.schema import BaseNode, Document, IndexNode, NodeRelationship, QueryBundle, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index_graphs import Finding
from llama_index_models import Saying
from llama_index_stores import Replying
from llama_index_views import Counted, manual, sections_of

from catena.segments import COHERE, Constant
from llama_index_catena import (
    CatenaContextExtractor,
    CatenaEmbedding,
    CatenaEntityExtractor,
    CatenaNodeParser,
    CatenaQuestionGenerator,
    CatenaRerank,
    CatenaRetriever,
    CatenaSegmentPostprocessor,
    CatenaSynthesizer,
    CatenaViewExtractor,
    EvidenceMeasure,
    LogRankIndex,
    StandardMeasure,
)
from llama_index_catena.convert import NOTICE

TEXT = "# HX{n}\n\n## Cover\n\nThe cover of the HX{n} takes {k} screws.\n\n## Seal\n\nThe seal is grey.\n"
QUESTION = "How many screws does the cover of the HX210 take?"


class ByLength:
    identity = "by length"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [1 / (1 + abs(len(text) - len(query))) for text in texts]


def documents(*, screws: int = 6) -> list[Document]:
    return [
        Document(id_=f"hx{n}", text=TEXT.format(n=n, k=k), metadata={"title": f"HX{n}", "file_name": f"hx{n}.md"})
        for n, k in ((200, 4), (210, screws))
    ]


def nodes() -> list[BaseNode]:
    return CatenaNodeParser().get_nodes_from_documents(documents())


def index() -> VectorStoreIndex:
    return VectorStoreIndex(nodes(), embed_model=CatenaEmbedding())


# Ingestion.


def pipeline(**options: Any) -> IngestionPipeline:
    transformations = [CatenaNodeParser(), CatenaEntityExtractor(), CatenaContextExtractor(), CatenaEmbedding()]
    return IngestionPipeline(transformations=transformations, **options)


def test_a_docstore_with_upserts_takes_each_version_once() -> None:
    store = SimpleVectorStore()
    pipe = pipeline(docstore=SimpleDocumentStore(), vector_store=store, docstore_strategy=DocstoreStrategy.UPSERTS)
    first = pipe.run(documents=documents())
    assert {node.ref_doc_id for node in first} == {"hx200", "hx210"}
    assert pipe.run(documents=documents()) == []
    changed = pipe.run(documents=documents(screws=8))
    assert {node.ref_doc_id for node in changed} == {"hx210"}
    assert set(store.data.text_id_to_ref_doc_id.values()) == {"hx200", "hx210"}
    assert len(store.data.embedding_dict) == len(first)


def test_upserts_and_delete_removes_what_is_gone_and_duplicates_are_left_out() -> None:
    store = SimpleVectorStore()
    how = DocstoreStrategy.UPSERTS_AND_DELETE
    pipe = pipeline(docstore=SimpleDocumentStore(), vector_store=store, docstore_strategy=how)
    pipe.run(documents=documents())
    pipe.run(documents=documents()[1:])
    assert set(store.data.text_id_to_ref_doc_id.values()) == {"hx210"}
    once = pipeline(docstore=SimpleDocumentStore(), docstore_strategy=DocstoreStrategy.DUPLICATES_ONLY)
    assert once.run(documents=documents())
    assert once.run(documents=documents()) == []


def test_a_cache_that_was_kept_answers_for_the_same_parameters_alone(tmp_path: Path) -> None:
    llm = Saying(reply='["HX210"]', asked=[])
    transformations = [CatenaNodeParser(), CatenaEntityExtractor(llm=llm)]
    first = IngestionPipeline(transformations=transformations, cache=IngestionCache())
    made = first.run(documents=documents())
    asked = len(llm.asked)
    first.persist(str(tmp_path))
    again = IngestionPipeline(transformations=transformations)
    again.load(str(tmp_path))
    assert [node.to_dict() for node in again.run(documents=documents())] == [node.to_dict() for node in made]
    assert len(llm.asked) == asked > 0
    other = IngestionPipeline(transformations=[CatenaNodeParser(max_tokens=9, min_tokens=0), transformations[1]])
    other.load(str(tmp_path))
    assert len(other.run(documents=documents())) > len(made)
    assert len(llm.asked) > asked


@pytest.mark.slow  # two processes that import all of it
def test_two_workers_make_the_same_nodes() -> None:
    parts = [CatenaNodeParser(), CatenaContextExtractor(), CatenaViewExtractor()]
    alone = IngestionPipeline(transformations=parts, disable_cache=True).run(documents=documents())
    both = IngestionPipeline(transformations=parts, disable_cache=True).run(documents=documents(), num_workers=2)
    assert {node.node_id: node.to_dict() for node in both} == {node.node_id: node.to_dict() for node in alone}
    assert len(both) == len(alone)


async def test_async_ingestion_makes_the_same_nodes() -> None:
    made = await pipeline(disable_cache=True).arun(documents=documents())
    assert [n.to_dict() for n in made] == [
        n.to_dict() for n in pipeline(disable_cache=True).run(documents=documents())
    ]


def test_nodes_have_derived_ids_links_and_keys_that_no_model_reads() -> None:
    one, two = nodes(), nodes()
    assert [node.to_dict() for node in one] == [node.to_dict() for node in two]
    for left, right in pairwise(one):
        if left.ref_doc_id == right.ref_doc_id:
            assert left.next_node == right.as_related_node_info()
            assert right.prev_node == left.as_related_node_info()
        else:
            assert left.next_node is None
            assert right.prev_node is None
    for node in one:
        assert node.relationships[NodeRelationship.SOURCE].node_id == node.ref_doc_id
        assert node.relationships[NodeRelationship.SOURCE].metadata["title"] == node.metadata["title"]
        hidden = {"kind", "position", "section", "header_path", "first_line", "last_line"}
        assert hidden <= set(node.excluded_embed_metadata_keys) & set(node.excluded_llm_metadata_keys)


# Retrievers beside ours.


async def test_theirs_and_ours_stand_in_one_fusion_either_way_round() -> None:
    held = index()
    vectors = held.as_retriever(similarity_top_k=4)
    words = Finding([(node, 1.0) for node in nodes() if "screws" in node.text])
    ours = CatenaRetriever.over({"vectors": vectors, "words": words}, weights={"words": 2.0}, similarity_top_k=3)
    found = ours.retrieve(QUESTION)
    assert "screws" in found[0].text
    assert [each.to_dict() for each in await ours.aretrieve(QUESTION)] == [each.to_dict() for each in found]
    theirs = QueryFusionRetriever(
        [ours, vectors], llm=MockLLM(), mode="reciprocal_rerank", num_queries=1, use_async=False, similarity_top_k=3
    )
    assert 0 < len(theirs.retrieve(QUESTION)) <= 3
    assert 0 < len(await theirs.aretrieve(QUESTION)) <= 3


async def test_recursion_follows_index_nodes_to_our_retrievers() -> None:
    ours = CatenaRetriever.over({"vectors": index().as_retriever(similarity_top_k=2)})
    leading = Finding([(IndexNode(id_="to", text="Manuals of the HX series", index_id="manuals"), 0.0)])
    found = RecursiveRetriever("root", retriever_dict={"root": leading, "manuals": ours}).retrieve(QUESTION)
    assert {each.node.ref_doc_id for each in found} <= {"hx200", "hx210"}
    assert found
    carrying = VectorStoreIndex(objects=[IndexNode(text="Manuals", index_id="m", obj=ours)], embed_model=Counted())
    inside = await carrying.as_retriever(similarity_top_k=1).aretrieve("Manuals")
    assert [each.node.ref_doc_id for each in inside]


async def test_a_score_of_0_stays_0_where_views_carry_their_parents() -> None:
    (section, *_) = sections_of(manual())
    view = CatenaViewExtractor(views=["raw"], parents="inside")([section])[0]
    retriever = CatenaRetriever.over({"views": Finding([(view, 0.0)]), "none": Finding([])}, weights={"views": 0.0})
    assert isinstance(view, IndexNode)
    (found,) = retriever.retrieve("q")
    (again,) = await retriever.aretrieve("q")
    assert found.node.node_id == again.node.node_id == section.node_id
    assert found.score == again.score == pytest.approx(0.0)


# Engines.


async def test_a_query_engine_reranks_joins_and_cites() -> None:
    held = index()
    stages = [CatenaRerank(ByLength(), calibration=Constant()), CatenaSegmentPostprocessor(held.docstore)]
    answering = CatenaSynthesizer(Saying(reply='It takes 6 screws [1].\n\nQuotes:\n[1] "takes 6 screws"'))
    engine = RetrieverQueryEngine(held.as_retriever(similarity_top_k=3), answering, node_postprocessors=stages)
    response = engine.query(QUESTION)
    assert response.source_nodes[0].node.metadata["citation"].startswith("HX2")
    assert (await engine.aquery(QUESTION)).metadata == response.metadata
    assert response.metadata["citations"][0]["number"] == 1


class Asking(CatenaQuestionGenerator):
    """Asks each tool one question that a test wrote."""

    def generate(self, tools: Sequence[Any], query: QueryBundle) -> list[SubQuestion]:
        return [SubQuestion(sub_question=f"Screws of the {tool.name}?", tool_name=tool.name) for tool in tools]


def tools() -> list[QueryEngineTool]:
    ours = CatenaRetriever.over({"vectors": index().as_retriever(similarity_top_k=2)})
    engine = RetrieverQueryEngine.from_args(ours, llm=MockLLM())
    return [QueryEngineTool.from_defaults(engine, name=name, description=name) for name in ("HX200", "HX210")]


@pytest.mark.parametrize("generator", [Asking(), CatenaQuestionGenerator()])
async def test_sub_questions_are_asked_of_our_retrievers(generator: CatenaQuestionGenerator) -> None:
    engine = SubQuestionQueryEngine.from_defaults(
        query_engine_tools=tools(),
        question_gen=generator,
        llm=MockLLM(),
        response_synthesizer=CatenaSynthesizer(MockLLM()),
        use_async=False,
        verbose=False,
    )
    response = await engine.aquery(QUESTION)
    assert len(response.source_nodes) >= 2
    assert str(response)


@pytest.mark.parametrize("kind", [CondensePlusContextChatEngine, ContextChatEngine])
async def test_a_chat_engine_reads_what_ours_found(kind: Any) -> None:
    retriever = CatenaRetriever.over({"vectors": index().as_retriever(similarity_top_k=3)})

    def engine() -> Any:
        return kind.from_defaults(
            retriever,
            llm=MockLLM(),
            memory=ChatMemoryBuffer.from_defaults(token_limit=3_000),
            node_postprocessors=[CatenaSegmentPostprocessor(calibration=Constant())],
        )

    said, chat = engine().chat(QUESTION), engine()
    again = await chat.achat(QUESTION)
    assert [found.node.node_id for found in said.source_nodes] == [found.node.node_id for found in again.source_nodes]
    assert said.source_nodes[0].node.metadata["citation"]
    assert (await chat.achat("And its seal?")).source_nodes
    streamed = engine().stream_chat(QUESTION)
    assert "".join(streamed.response_gen)


async def test_our_metrics_judge_any_retriever_with_our_stages() -> None:
    held = index()
    gold = [node.node_id for node in nodes() if "HX210 takes" in node.text]
    evaluator = RetrieverEvaluator(
        metrics=[LogRankIndex(n=4), StandardMeasure(measure="mrr@10"), EvidenceMeasure(measure="all@4")],
        retriever=held.as_retriever(similarity_top_k=4),
        node_postprocessors=[CatenaRerank(ByLength(), calibration=COHERE)],
    )
    result = await evaluator.aevaluate(QUESTION, gold)
    assert set(result.metric_vals_dict) == {"log_rank_index", "standard_measure", "evidence_measure"}
    assert result.metric_vals_dict["evidence_measure"] == 1.0
    assert 0.0 < result.metric_vals_dict["log_rank_index"] <= 1.0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what agents of LlamaIndex call themselves
async def test_an_agent_calls_our_retriever_as_a_tool() -> None:
    steps = iter(
        [
            'Thought: I look it up.\nAction: manuals\nAction Input: {"input": "screws of the HX210"}',
            "Thought: I can answer without using any more tools.\nAnswer: Six screws.",
        ]
    )
    seen = list[str]()

    def saying(prompt: str) -> str:
        seen.append(prompt)
        return next(steps)

    retriever = CatenaRetriever.over({"vectors": index().as_retriever(similarity_top_k=2)})
    tool = RetrieverTool.from_defaults(retriever, name="manuals", description="Manuals of pumps")
    agent = ReActAgent(tools=[tool], llm=Replying(by=saying), streaming=False, verbose=False)
    said = await asyncio.wait_for(agent.run(QUESTION), 60)
    assert "Six screws" in str(said)
    assert "screws" in seen[-1].split("Observation:")[-1]


def test_a_store_that_was_kept_gives_the_same_nodes(tmp_path: Path) -> None:
    index().storage_context.persist(str(tmp_path))
    kept = StorageContext.from_defaults(persist_dir=str(tmp_path))
    from llama_index.core import load_index_from_storage

    again = load_index_from_storage(kept, embed_model=CatenaEmbedding())
    found = CatenaRetriever.over({"vectors": again.as_retriever()}).retrieve(QUESTION)  # type: ignore[attr-defined]
    assert found[0].node.metadata["headings"].startswith("HX2")
    assert not any(each.node.metadata.get("kind") == NOTICE for each in found)
    assert isinstance(found[0].node, TextNode)


def test_postprocessors_of_theirs_stand_before_and_after_ours() -> None:
    scored = index().as_retriever(similarity_top_k=4).retrieve(QUESTION)
    ranked = CatenaRerank(ByLength(), calibration=COHERE).postprocess_nodes(scored, query_str=QUESTION)
    kept = SimilarityPostprocessor(similarity_cutoff=ranked[1].score).postprocess_nodes(ranked)
    assert [each.node.node_id for each in kept] == [each.node.node_id for each in ranked[: len(kept)]]

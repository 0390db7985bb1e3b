"""Pipelines as users run them: ingestion with docstore, cache and workers, query and chat engines, agents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.ingestion import DocstoreStrategy, IngestionCache, IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import RetrieverQueryEngine, SubQuestionQueryEngine
from llama_index.core.question_gen.types import SubQuestion
from llama_index.core.schema import BaseNode, Document, IndexNode, QueryBundle
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import QueryEngineTool
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index_fakes import Finding, Saying, manual, sections_of

import llama_index_catena as adapters
from catena.segments import Constant

TEXT = "# HX{n}\n\n## Cover\n\nThe cover of the HX{n} takes {k} screws.\n\n## Seal\n\nThe seal is grey.\n"
QUESTION = "How many screws does the cover of the HX210 take?"


def documents(*, screws: int = 6) -> list[Document]:
    return [
        Document(id_=f"hx{n}", text=TEXT.format(n=n, k=k), metadata={"title": f"HX{n}", "file_name": f"hx{n}.md"})
        for n, k in ((200, 4), (210, screws))
    ]


def nodes() -> list[BaseNode]:
    return adapters.CatenaNodeParser().get_nodes_from_documents(documents())


def index() -> VectorStoreIndex:
    return VectorStoreIndex(nodes(), embed_model=adapters.CatenaEmbedding())


# Ingestion.


def pipeline(**options: Any) -> IngestionPipeline:
    transformations = [
        adapters.CatenaNodeParser(),
        adapters.CatenaEntityExtractor(),
        adapters.CatenaContextExtractor(),
        adapters.CatenaEmbedding(),
    ]
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


def test_a_cache_that_was_kept_answers_for_the_same_parameters_alone(tmp_path: Path) -> None:
    llm = Saying(reply='["HX210"]', asked=[])
    transformations = [adapters.CatenaNodeParser(), adapters.CatenaEntityExtractor(llm=llm)]
    first = IngestionPipeline(transformations=transformations, cache=IngestionCache())
    made = first.run(documents=documents())
    asked = len(llm.asked)
    first.persist(str(tmp_path))
    again = IngestionPipeline(transformations=transformations)
    again.load(str(tmp_path))
    assert [node.to_dict() for node in again.run(documents=documents())] == [node.to_dict() for node in made]
    assert len(llm.asked) == asked > 0
    other = IngestionPipeline(
        transformations=[adapters.CatenaNodeParser(max_tokens=9, min_tokens=0), transformations[1]]
    )
    other.load(str(tmp_path))
    assert len(other.run(documents=documents())) > len(made)
    assert len(llm.asked) > asked


@pytest.mark.slow  # two processes that import all of it
def test_two_workers_make_the_same_nodes() -> None:
    parts = [adapters.CatenaNodeParser(), adapters.CatenaContextExtractor(), adapters.CatenaViewExtractor()]
    alone = IngestionPipeline(transformations=parts, disable_cache=True).run(documents=documents())
    both = IngestionPipeline(transformations=parts, disable_cache=True).run(documents=documents(), num_workers=2)
    assert {node.node_id: node.to_dict() for node in both} == {node.node_id: node.to_dict() for node in alone}
    assert len(both) == len(alone)


# Retrievers beside ours.


async def test_a_score_of_0_stays_0_where_views_carry_their_parents() -> None:
    (section, *_) = sections_of(manual())
    view = adapters.CatenaViewExtractor(views=["raw"], parents="inside")([section])[0]
    retriever = adapters.CatenaRetriever.over(
        {"views": Finding([(view, 0.0)]), "none": Finding([])}, weights={"views": 0.0}
    )
    assert isinstance(view, IndexNode)
    (found,) = retriever.retrieve("q")
    (again,) = await retriever.aretrieve("q")
    assert found.node.node_id == again.node.node_id == section.node_id
    assert found.score == again.score == pytest.approx(0.0)


# Engines.


class Asking(adapters.CatenaQuestionGenerator):
    """Asks each tool one question that a test wrote."""

    def generate(self, tools: Sequence[Any], query: QueryBundle) -> list[SubQuestion]:
        return [SubQuestion(sub_question=f"Screws of the {tool.name}?", tool_name=tool.name) for tool in tools]


def tools() -> list[QueryEngineTool]:
    ours = adapters.CatenaRetriever.over({"vectors": index().as_retriever(similarity_top_k=2)})
    engine = RetrieverQueryEngine.from_args(ours, llm=MockLLM())
    return [QueryEngineTool.from_defaults(engine, name=name, description=name) for name in ("HX200", "HX210")]


@pytest.mark.parametrize("generator", [Asking(), adapters.CatenaQuestionGenerator()])
async def test_sub_questions_are_asked_of_our_retrievers(generator: adapters.CatenaQuestionGenerator) -> None:
    engine = SubQuestionQueryEngine.from_defaults(
        query_engine_tools=tools(),
        question_gen=generator,
        llm=MockLLM(),
        response_synthesizer=adapters.CatenaSynthesizer(MockLLM()),
        use_async=False,
        verbose=False,
    )
    response = await engine.aquery(QUESTION)
    assert len(response.source_nodes) >= 2
    assert str(response)


@pytest.mark.parametrize("kind", [CondensePlusContextChatEngine, ContextChatEngine])
async def test_a_chat_engine_reads_what_ours_found(kind: Any) -> None:
    retriever = adapters.CatenaRetriever.over({"vectors": index().as_retriever(similarity_top_k=3)})

    def engine() -> Any:
        return kind.from_defaults(
            retriever,
            llm=MockLLM(),
            memory=ChatMemoryBuffer.from_defaults(token_limit=3_000),
            node_postprocessors=[adapters.CatenaSegmentPostprocessor(calibration=Constant())],
        )

    said, chat = engine().chat(QUESTION), engine()
    again = await chat.achat(QUESTION)
    assert [found.node.node_id for found in said.source_nodes] == [found.node.node_id for found in again.source_nodes]
    assert said.source_nodes[0].node.metadata["citation"]
    assert (await chat.achat("And its seal?")).source_nodes
    streamed = engine().stream_chat(QUESTION)
    assert "".join(streamed.response_gen)

"""A service that is dead costs a question once: retrievers of both frameworks leave it alone at the next ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentCompressor
from langchain_core.documents import Document as LangChainDocument
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever as LangChainRetriever
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

import langchain_catena as lc
import llama_index_catena as li
from catena.segments import Constant
from catena_bench.baselines import ClusterSummaries, RaptorOptions

ASKED: list[str] = []
"""What was asked of the dead, in the order of the calls."""

SMALL = RaptorOptions(layers=0, summaries=ClusterSummaries(by="offline"))
PARTS = ("The seal is changed every 900 hours.", "Tighten the screws to 3 Nm.")
DOCUMENTS = [LangChainDocument(part, metadata={"source": "a"}) for part in PARTS]
NODES = [NodeWithScore(node=TextNode(text=part)) for part in PARTS]


def die(*asked: Any, **how: Any) -> Any:
    ASKED.append("dead")
    raise ConnectionError("refused")


class Fine(LangChainRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> Any:
        return DOCUMENTS


class DeadRetriever(Fine):
    _get_relevant_documents = die


class DeadCompressor(BaseDocumentCompressor):
    def compress_documents(self, *_: Any, **__: Any) -> Any:
        die()


class FineNodes(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return NODES


class DeadNodes(FineNodes):
    def _retrieve(self, query_bundle: QueryBundle) -> Any:
        die()


class DeadPostprocessor(BaseNodePostprocessor):
    def _postprocess_nodes(self, *_: Any) -> Any:
        die()


class Letters(Embeddings):
    """Dies of questions."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float(text.count("a")), 1.0] for text in texts]

    embed_query = die


class LetterNodes(BaseEmbedding):
    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(text.count("a")), 1.0]

    def _get_query_embedding(self, query: str) -> Any:
        die()

    async def _aget_query_embedding(self, query: str) -> Any:
        die()


BROKEN = {"gone": DeadRetriever(), "here": Fine()}
BROKEN_NODES = {"gone": DeadNodes(), "here": FineNodes()}
MADE: dict[str, Callable[[], Any]] = {
    "langchain segments": lambda: lc.CatenaSegmentRetriever(retriever=DeadRetriever()),
    "langchain views": lambda: lc.CatenaMultiViewRetriever(retrievers=BROKEN),
    "langchain trees": lambda: lc.CatenaTreeRetriever(
        trees=lc.build_trees(DOCUMENTS, Letters(), options=SMALL), embeddings=Letters()
    ),
    "langchain rerank": lambda: lc.CatenaRerank(reranker=DeadCompressor(), calibration=Constant()),
    "llama_index views": lambda: li.CatenaMultiViewRetriever(BROKEN_NODES, parents={}),
    "llama_index vector views": lambda: li.CatenaMultiViewRetriever(
        VectorStoreIndex([node.node for node in NODES], embed_model=LetterNodes()), views=("summary",)
    ),
    "llama_index segments": lambda: li.CatenaSegmentRetriever(DeadNodes()),
    "llama_index trees": lambda: li.CatenaTreeRetriever(
        li.build_tree([NODES[0].node], LetterNodes(), options=SMALL), LetterNodes()
    ),
    "llama_index rerank": lambda: li.CatenaRerank(DeadPostprocessor(), calibration=Constant()),
}


def ask(asked: Any, is_async: bool) -> Any:
    match asked:
        case LangChainRetriever():
            return asyncio.run(asked.ainvoke("seal?")) if is_async else asked.invoke("seal?")
        case BaseDocumentCompressor():
            call = asked.acompress_documents if is_async else asked.compress_documents
            return asyncio.run(call(DOCUMENTS, "seal?")) if is_async else call(DOCUMENTS, "seal?")
        case BaseNodePostprocessor():
            call = asked.apostprocess_nodes if is_async else asked.postprocess_nodes
            bundle = QueryBundle("seal?")
            return asyncio.run(call(NODES, bundle)) if is_async else call(NODES, bundle)
    return asyncio.run(asked.aretrieve("seal?")) if is_async else asked.retrieve("seal?")


@pytest.mark.slow
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("name", MADE)
def test_a_dead_service_is_asked_twice_at_the_first_question_and_not_at_the_next_two(
    name: str, is_async: bool
) -> None:
    asked, other, calls = MADE[name](), MADE[name](), []
    for each in (asked, asked, asked, other):
        ASKED.clear()
        with suppress(Exception):
            ask(each, is_async)
        calls.append(len(ASKED))
    assert calls == [2, 0, 0, 2]  # another retriever knows nothing of it

"""Fuse our routes by LangChain's and LlamaIndex's fusion retrievers.

Each is given what is best for it: identities by which equal texts of two documents stay two (LangChain's retriever
merges them by default), and nodes without a route's provenance (LlamaIndex's retriever merges what two routes found
by a hash of all metadata).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_classic.retrievers import EnsembleRetriever
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, RetrieverLike
from llama_index.core.llms.mock import MockLLM
from llama_index.core.retrievers import BaseRetriever as NodeRetriever
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from pydantic import PrivateAttr

import langchain_catena
import llama_index_catena
from catena import Hit, Ranking, Services
from langchain_catena import to_document
from llama_index_catena.convert import PROVENANCE, to_node

Ranked = Callable[[str], Ranking]
"""One route: from a question to its ranking."""

Fused = Callable[[str], list[str]]
"""From a question to chunk ids, best first."""

Build = Callable[[Sequence[Ranked], int], Fused]
"""From routes and the length of a ranking to a peer."""

_ID = "chunk_id"


class LangChainRoute(BaseRetriever):
    """A route as a LangChain retriever; each chunk becomes a document once."""

    ranked: Ranked
    _documents: dict[str, Document] = PrivateAttr(default_factory=dict)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        ranking = self.ranked(query)
        return [self._documents.get(hit.chunk.id) or self._converted(hit, ranking) for hit in ranking.hits]

    def _converted(self, hit: Hit, ranking: Ranking) -> Document:
        document = to_document(hit, ranking)
        document.metadata[_ID] = hit.chunk.id
        self._documents[hit.chunk.id] = document
        return document


class LlamaIndexRoute(NodeRetriever):
    """A route as a LlamaIndex retriever; each chunk becomes a node once, the same for all routes.

    Args:
        ranked: the route.
        nodes: nodes by chunk id, shared by the routes; filled as they are needed.
    """

    def __init__(self, ranked: Ranked, nodes: dict[str, BaseNode]) -> None:
        super().__init__()
        self._ranked, self._nodes = ranked, nodes

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        ranking = self._ranked(query_bundle.query_str)
        return [NodeWithScore(node=self._node(hit, ranking), score=hit.score) for hit in ranking.hits]

    def _node(self, hit: Hit, ranking: Ranking) -> BaseNode:
        node = self._nodes.get(hit.chunk.id)
        if node is None:
            node = to_node(hit, ranking).node
            del node.metadata[PROVENANCE]
            self._nodes[hit.chunk.id] = node
        return node


def ensemble(routes: Sequence[Ranked], k: int) -> Fused:
    """Return LangChain's `EnsembleRetriever` over routes: weighted reciprocal ranks, equal weights, c = 60.

    Args:
        routes: what it fuses.
        k: length of the ranking.
    """
    retrievers: list[RetrieverLike] = [LangChainRoute(ranked=route) for route in routes]
    retriever = EnsembleRetriever(retrievers=retrievers, weights=[1 / len(routes)] * len(routes), id_key=_ID)

    def fused(question: str) -> list[str]:
        return [document.metadata[_ID] for document in retriever.invoke(question)[:k]]

    return fused


def query_fusion(routes: Sequence[Ranked], k: int) -> Fused:
    """Return LlamaIndex's `QueryFusionRetriever` over routes, without generated queries.

    Its mode is "relative_score", which adds scores normalised by min-max with equal weights: the nearest to ours.

    Args:
        routes: what it fuses.
        k: length of the ranking.
    """
    nodes: dict[str, BaseNode] = {}
    options: dict[str, Any] = {"llm": MockLLM(), "num_queries": 1, "use_async": False}
    retrievers: list[NodeRetriever] = [LlamaIndexRoute(route, nodes) for route in routes]
    retriever = QueryFusionRetriever(retrievers, mode=FUSION_MODES.RELATIVE_SCORE, similarity_top_k=k, **options)

    def fused(question: str) -> list[str]:
        return [found.node.node_id for found in retriever.retrieve(question)]

    return fused


def catena_langchain(services: Services, *, k: int, depth: int) -> Callable[[str], object]:
    """Return our LangChain retriever over services."""
    return langchain_catena.CatenaRetriever(services=services, k=k, depth=depth).invoke


def catena_llama_index(services: Services, *, k: int, depth: int) -> Callable[[str], object]:
    """Return our LlamaIndex retriever over services."""
    return llama_index_catena.CatenaRetriever(services, similarity_top_k=k, depth=depth).retrieve

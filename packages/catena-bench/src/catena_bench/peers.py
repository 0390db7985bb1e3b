"""Cut and fuse by LangChain's and LlamaIndex's splitters and fusion retrievers.

Each is given what is best for it: identities by which equal texts of two documents stay two (LangChain's retriever
merges them by default), and nodes without a route's provenance (LlamaIndex's retriever merges what two routes found
by a hash of all metadata).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from langchain_classic.retrievers import EnsembleRetriever
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, RetrieverLike
from langchain_text_splitters import RecursiveCharacterTextSplitter
from llama_index.core import Document as NodeDocument
from llama_index.core.llms.mock import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.retrievers import BaseRetriever as NodeRetriever
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from pydantic import PrivateAttr

import langchain_catena
import llama_index_catena
from catena import Chunk, Hit, Ranking, Services
from catena import Document as ParsedDocument
from catena.evaluation import Span
from catena.model import span_id
from catena.text import sentence_ends
from langchain_catena import to_document
from llama_index_catena.convert import PROVENANCE, to_node

Ranked = Callable[[str], Ranking]
"""One route: from a question to its ranking."""

Fused = Callable[[str], list[str]]
"""From a question to chunk ids, best first."""

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


def query_fusion(routes: Sequence[Ranked], k: int, mode: FUSION_MODES = FUSION_MODES.RELATIVE_SCORE) -> Fused:
    """Return LlamaIndex's `QueryFusionRetriever` over routes, without generated queries.

    Args:
        routes: what it fuses.
        k: length of the ranking.
        mode: "relative_score" adds scores normalised by min-max with equal weights: the nearest to ours.
    """
    nodes: dict[str, BaseNode] = {}
    options: dict[str, Any] = {"llm": MockLLM(), "num_queries": 1, "use_async": False}
    retrievers: list[NodeRetriever] = [LlamaIndexRoute(route, nodes) for route in routes]
    retriever = QueryFusionRetriever(retrievers, mode=mode, similarity_top_k=k, **options)

    def fused(question: str) -> list[str]:
        return [found.node.node_id for found in retriever.retrieve(question)]

    return fused


def recursive_chunks(document: ParsedDocument, spans: Sequence[Span] | None = None) -> Iterator[Chunk]:
    """Yield what LangChain's `RecursiveCharacterTextSplitter` makes: 1,000 characters, of which 200 overlap.

    Args:
        document: its text.
        spans: cut each of these alone, as pages are; None cuts the whole text.
    """
    splitter = RecursiveCharacterTextSplitter(chunk_size=1_000, chunk_overlap=200, add_start_index=True)
    for start, end in spans or [(0, len(document.text))]:
        for piece in splitter.create_documents([document.text[start:end]]):
            at = start + piece.metadata["start_index"]
            yield _chunk(document, at, at + len(piece.page_content))


def sentence_chunks(document: ParsedDocument) -> Iterator[Chunk]:
    """Yield what LlamaIndex's `SentenceSplitter` makes: 256 tokens, as many as MiniLM reads, of which 20 overlap.

    Sentences are ours: its own need files that some installations do not let it open.
    """

    def sentences(text: str) -> list[str]:
        ends = (0, *sentence_ends(text, 0, len(text)), len(text))
        return [text[start:end] for start, end in pairwise(ends)]

    splitter = SentenceSplitter(chunk_size=256, chunk_overlap=20, chunking_tokenizer_fn=sentences)
    for node in splitter.get_nodes_from_documents([NodeDocument(text=document.text)]):
        yield _chunk(document, node.start_char_idx, node.end_char_idx)  # type: ignore[attr-defined]


def _chunk(document: ParsedDocument, start: int, end: int) -> Chunk:
    name, text = span_id(document.id, "text", start, end), document.text[start:end]
    return Chunk(id=name, document_id=document.id, position=start, start=start, end=end, text=text)


def catena_langchain(services: Services, *, k: int, depth: int) -> Callable[[str], object]:
    """Return our LangChain retriever over services."""
    return langchain_catena.CatenaRetriever(services=services, k=k, depth=depth).invoke


def catena_llama_index(services: Services, *, k: int, depth: int) -> Callable[[str], object]:
    """Return our LlamaIndex retriever over services."""
    return llama_index_catena.CatenaRetriever(services, similarity_top_k=k, depth=depth).retrieve

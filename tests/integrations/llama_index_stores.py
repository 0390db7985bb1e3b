"""Stores, splitters and models of LlamaIndex for tests of segments: in memory, real where possible."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.bridge.pydantic import Field
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import BaseNode, NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import FilterOperator, MetadataFilters, SimpleVectorStore
from llama_index_models import Saying

OPERATORS: dict[FilterOperator, Callable[[Any, Any], bool]] = {
    FilterOperator.EQ: lambda a, b: bool(a == b),
    FilterOperator.GTE: lambda a, b: bool(a >= b),
    FilterOperator.LT: lambda a, b: bool(a < b),
}


class KeepingVectorStore(SimpleVectorStore):
    """A vector store that keeps its nodes, and gives them by id or by filter, as most servers do."""

    kept: dict[str, BaseNode] = Field(default={}, exclude=True)

    @classmethod
    def of(cls, nodes: Sequence[BaseNode]) -> KeepingVectorStore:
        store = cls()
        store.kept = {node.node_id: node for node in nodes}
        return store

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        if node_ids is not None:
            return [self.kept[id_] for id_ in node_ids if id_ in self.kept]
        wanted = [] if filters is None else filters.filters
        return [
            node
            for node in self.kept.values()
            if all(
                OPERATORS[each.operator]({**node.metadata, "document_id": node.ref_doc_id}[each.key], each.value)
                for each in wanted
            )
        ]


class Counting(SimpleDocumentStore):
    """A docstore that remembers which nodes were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def get_document(self, doc_id: str, raise_error: bool = True) -> BaseNode | None:
        self.read.append(doc_id)
        return super().get_document(doc_id, raise_error)


class Replying(Saying):
    """Answers each chat by its text."""

    reply: str = ""
    by: Any = Field(exclude=True)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        self.asked.append((list(messages), options))
        said = self.by("\n".join(str(message.content) for message in messages))
        return ChatResponse(
            message=ChatMessage(role=MessageRole.ASSISTANT, content=said),
            raw={"choices": [{"finish_reason": self.finish_reason}]},
        )


def sentences(text: str) -> list[str]:
    return re.findall(r"[^.]*\.\s*|[^.]+$", text)


def splitter(size: int = 60, overlap: int = 10) -> SentenceSplitter:
    """Return LlamaIndex's own splitter; its sentence tokenizer reads a file, which some environments refuse."""
    return SentenceSplitter(chunk_size=size, chunk_overlap=overlap, chunking_tokenizer_fn=sentences)


def chain(
    document_id: str, texts: Sequence[str], *, linked: bool = True, counted: bool = False, offsets: bool = True
) -> list[TextNode]:
    """Return the nodes of a document whose text is these texts one after the other."""
    nodes: list[TextNode] = []
    start = 0
    for place, text in enumerate(texts):
        node = TextNode(id_=f"{document_id}-{place}", text=text, metadata={"title": f"Manual {document_id}"})
        if offsets:
            node.start_char_idx, node.end_char_idx = start, start + len(text)
        if counted:
            node.metadata["position"] = place
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=document_id)
        if linked and nodes:
            node.relationships[NodeRelationship.PREVIOUS] = nodes[-1].as_related_node_info()
            nodes[-1].relationships[NodeRelationship.NEXT] = node.as_related_node_info()
        nodes.append(node)
        start += len(text)
    return nodes


def docstore_of(nodes: Sequence[BaseNode]) -> Counting:
    store = Counting()
    store.add_documents(nodes)
    store.read.clear()
    return store


class Finding(BaseRetriever):
    """Finds the same nodes whatever it is asked, sync only, and remembers what it was asked."""

    def __init__(self, found: Sequence[tuple[BaseNode, float | None]], **options: Any) -> None:
        super().__init__(callback_manager=options.get("callback_manager", CallbackManager()))
        self.found, self.asked = found, list[QueryBundle]()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.asked.append(deepcopy(query_bundle))
        query_bundle.embedding = [0.0]  # as LlamaIndex's own write theirs into the bundle that they are given
        return [NodeWithScore(node=node, score=score) for node, score in self.found]

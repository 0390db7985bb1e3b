"""What tests of the LlamaIndex package share: models, stores, splitters and documents in memory, and spans."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, LLMMetadata, MessageRole
from llama_index.core.bridge.pydantic import Field
from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span import SimpleSpan
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import (
    BaseNode,
    Document,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import FilterOperator, MetadataFilters, SimpleVectorStore
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryResult

from catena.structure import SectionChunkOptions
from catena.text import tokenise
from llama_index_catena import CatenaNodeParser


class Saying(CustomLLM):
    """Answers every chat with the same words, sync only, and remembers what it was asked."""

    reply: str
    model: str = "saying"
    finish_reason: str = "stop"
    asked: list[Any] = Field(default=[], exclude=True)  # what a model was asked is no part of what it is

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=self.model)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        self.asked.append((list(messages), options))
        if self.reply == "fail":
            raise ConnectionError("api_key=abc123 was cut off")
        return ChatResponse(
            message=ChatMessage(role=MessageRole.ASSISTANT, content=self.reply),
            raw={"choices": [{"finish_reason": self.finish_reason}]},
        )

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        raise AssertionError("models are asked through chat")

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise AssertionError("models are asked through chat")


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


@dataclass
class Told:
    """Spans by id, in the order in which they began, and events in the order in which they came."""

    parents: dict[str, str | None] = field(default_factory=dict)
    events: list[Any] = field(default_factory=list)

    @property
    def spans(self) -> list[str]:
        """The spans as "Class.method"."""
        return [_name(span) for span in self.parents]

    def ancestors(self, name: str) -> list[str]:
        """Return what the last span of this name stands in, from the inside out."""
        span = [span for span in self.parents if _name(span) == name][-1]
        above: list[str] = []
        while (parent := self.parents[span]) is not None:
            above.append(_name(parent))
            span = parent
        return above


@contextmanager
def listening() -> Iterator[Told]:
    """Listen to LlamaIndex's root dispatcher."""
    told = Told()

    class Spans(SimpleSpanHandler):
        def new_span(self, id_: str, *args: Any, parent_span_id: str | None = None, **kwargs: Any) -> SimpleSpan:
            told.parents[id_] = parent_span_id
            return super().new_span(id_, *args, parent_span_id=parent_span_id, **kwargs)

    class Events(BaseEventHandler):
        def handle(self, event: Any, **kwargs: Any) -> None:
            told.events.append(event)

    root = get_dispatcher()
    handlers = Spans(), Events()
    root.span_handlers.append(handlers[0])
    root.event_handlers.append(handlers[1])
    try:
        yield told
    finally:
        root.span_handlers.remove(handlers[0])
        root.event_handlers.remove(handlers[1])


def _name(span: str) -> str:
    return span.split("-", 1)[0]


HOUSING = "The housing is made of cast iron and stands on rubber feet. " * 24
SEAL = "The seal keeps the oil inside. A trained person replaces it once a year. " * 10
COVER = "Four screws hold the cover. Tighten them crosswise to twelve newton metres. " * 10
BODIES = {"Housing": HOUSING, "Seal": SEAL, "Cover": COVER}
PARSER = CatenaNodeParser(chunks=SectionChunkOptions())


def manual(id_: str = "pump", sections: dict[str, str] | None = None, **metadata: object) -> Document:
    text = "# Pump\n\n" + "\n\n".join(f"## {name}\n\n{body}" for name, body in (sections or BODIES).items())
    return Document(id_=id_, text=text, metadata={"title": "Pump", **metadata})


def sections_of(*documents: Document) -> list[BaseNode]:
    return PARSER.get_nodes_from_documents(list(documents or [manual()]))


class Counted(BaseEmbedding):
    """Vectors of the words in a text, so that like texts are near; remembers every text that it was given."""

    texts: list[str] = Field(default=[], exclude=True)
    queries: list[str] = Field(default=[], exclude=True)

    def _row(self, text: str) -> list[float]:
        row = np.zeros(64)
        for word in tokenise(text):
            row[sum(map(ord, word)) % 64] += 1.0
        return [float(value) for value in row]

    def _get_query_embedding(self, query: str) -> list[float]:
        self.queries.append(query)
        return self._row(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        self.texts.append(text)
        return self._row(text)


class Texts(SimpleVectorStore):
    """A vector store that holds the nodes themselves, as most servers do."""

    stores_text: bool = True
    held: dict[str, BaseNode] = Field(default={}, exclude=True)

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        self.held.update({node.node_id: node for node in nodes})
        return super().add(nodes, **kwargs)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        found = super().query(query, **kwargs)
        ids = list(found.ids or ())
        return VectorStoreQueryResult(nodes=[self.held[id_] for id_ in ids], similarities=found.similarities, ids=ids)


def index_of(nodes: Sequence[BaseNode] = (), store: Any = None, embed_model: Any = None) -> VectorStoreIndex:
    context = StorageContext.from_defaults(vector_store=store or SimpleVectorStore(), docstore=SimpleDocumentStore())
    return VectorStoreIndex(list(nodes), storage_context=context, embed_model=embed_model or Counted())


def writing(prompt: str) -> str:
    """Answer as the prompts for keywords, questions and summaries ask."""
    content = re.findall(r"<content>\n(.*?)\n</content>", prompt, re.S)[-1]
    words = [word for word in re.findall(r"[A-Za-z]+", content) if len(word) > 3]
    if "You list the key terms" in prompt:
        return json.dumps(list(dict.fromkeys(words))[:6])
    if "JSON list alone" in prompt:
        return json.dumps([f"What about the {words[0]} and the {words[1]}?"])
    return ". ".join(content.strip().lstrip("#").split("\n")[-1].split(". ")[:2])


def llm() -> Saying:
    return Replying(by=writing)

"""Documents, models and stores for tests of views in LlamaIndex: in memory, and counting what they are asked."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field
from llama_index.core.schema import BaseNode, Document
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryResult
from llama_index_models import Saying
from llama_index_stores import Replying

from catena.structure import SectionChunkOptions
from catena.text import tokenise
from llama_index_catena import CatenaNodeParser

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

"""Catena in LlamaIndex: a node parser and a retriever, and LlamaIndex's models as Catena's services."""

from llama_index_catena.embedding import CatenaEmbedding
from llama_index_catena.retrieval import CatenaRetriever, RouteDegradedEvent
from llama_index_catena.services import LlamaIndexEmbedder, LlamaIndexLLM
from llama_index_catena.stores import RetrieverStore, retriever_store
from llama_index_catena.structure import CatenaNodeParser, TableNode

__version__ = "0.1.0"

__all__ = [
    "CatenaNodeParser",
    "CatenaRetriever",
    "RouteDegradedEvent",
    "CatenaEmbedding",
    "LlamaIndexEmbedder",
    "LlamaIndexLLM",
    "RetrieverStore",
    "retriever_store",
    "TableNode",
]

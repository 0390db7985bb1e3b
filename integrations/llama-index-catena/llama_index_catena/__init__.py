"""Catena in LlamaIndex: a reader, a node parser, an extractor and retrievers, and its models as Catena's services."""

from llama_index_catena.embedding import CatenaEmbedding
from llama_index_catena.entities import CatenaEntityExtractor, EntitiesDegradedEvent
from llama_index_catena.figures import CatenaFigureRetriever
from llama_index_catena.reading import CatenaReader
from llama_index_catena.retrieval import CatenaRetriever, RouteDegradedEvent, UnknownNameEvent
from llama_index_catena.services import LlamaIndexCaptioner, LlamaIndexEmbedder, LlamaIndexLLM
from llama_index_catena.stores import RetrieverStore, retriever_store
from llama_index_catena.structure import CatenaNodeParser, TableNode

__version__ = "0.1.0"

__all__ = [
    "CatenaReader",
    "CatenaNodeParser",
    "CatenaEntityExtractor",
    "EntitiesDegradedEvent",
    "CatenaRetriever",
    "CatenaFigureRetriever",
    "RouteDegradedEvent",
    "UnknownNameEvent",
    "CatenaEmbedding",
    "LlamaIndexCaptioner",
    "LlamaIndexEmbedder",
    "LlamaIndexLLM",
    "RetrieverStore",
    "retriever_store",
    "TableNode",
]

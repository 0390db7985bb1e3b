"""Catena in LlamaIndex: from files to nodes, from questions to segments and cited answers, and models both ways."""

from catena.view_records import ViewChanges
from llama_index_catena.answering import CatenaQueryEngine
from llama_index_catena.context import CatenaContextExtractor, ContextDegradedEvent
from llama_index_catena.dividing import SegmentationDegradedEvent
from llama_index_catena.embedding import CatenaEmbedding
from llama_index_catena.entities import CatenaEntityExtractor, EntitiesDegradedEvent
from llama_index_catena.figures import CatenaFigureRetriever
from llama_index_catena.graph import (
    CatenaChainPostprocessor,
    CatenaGraphRetriever,
    abuild_graph,
    aupdate_graph,
    build_graph,
    chains_of,
    format_chains,
    update_graph,
)
from llama_index_catena.reading import CatenaReader
from llama_index_catena.reranking import CatenaRerank, LlamaIndexReranker
from llama_index_catena.retrieval import CatenaRetriever, RouteDegradedEvent, UnknownNameEvent
from llama_index_catena.segments import CatenaSegmentPostprocessor, CatenaSegmentRetriever
from llama_index_catena.services import LlamaIndexCaptioner, LlamaIndexEmbedder, LlamaIndexLLM
from llama_index_catena.stores import RetrieverStore, retriever_store
from llama_index_catena.structure import CatenaNodeParser, TableNode
from llama_index_catena.view_index import CatenaViewIndex
from llama_index_catena.view_nodes import with_content_ids
from llama_index_catena.view_retrieval import CatenaMultiViewRetriever
from llama_index_catena.views import CatenaViewExtractor, ViewsDegradedEvent

__version__ = "0.1.0"

__all__ = [
    "CatenaReader",
    "CatenaNodeParser",
    "CatenaEntityExtractor",
    "EntitiesDegradedEvent",
    "CatenaContextExtractor",
    "CatenaViewExtractor",
    "CatenaViewIndex",
    "ViewChanges",
    "ViewsDegradedEvent",
    "with_content_ids",
    "ContextDegradedEvent",
    "SegmentationDegradedEvent",
    "CatenaRetriever",
    "CatenaFigureRetriever",
    "CatenaSegmentRetriever",
    "CatenaMultiViewRetriever",
    "CatenaGraphRetriever",
    "CatenaRerank",
    "CatenaSegmentPostprocessor",
    "CatenaChainPostprocessor",
    "CatenaQueryEngine",
    "RouteDegradedEvent",
    "UnknownNameEvent",
    "CatenaEmbedding",
    "LlamaIndexCaptioner",
    "LlamaIndexEmbedder",
    "LlamaIndexLLM",
    "LlamaIndexReranker",
    "RetrieverStore",
    "retriever_store",
    "TableNode",
    "build_graph",
    "abuild_graph",
    "update_graph",
    "aupdate_graph",
    "chains_of",
    "format_chains",
]

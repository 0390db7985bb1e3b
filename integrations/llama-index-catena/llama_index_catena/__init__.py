"""Catena in LlamaIndex: from files to nodes, from questions to segments and cited answers, and models both ways."""

import llama_index_catena.core_values  # noqa: F401  # the core then takes LlamaIndex's models and documents
from catena.enrichment import ViewChanges
from llama_index_catena.answering import CatenaQueryEngine
from llama_index_catena.atomic import AtomicDegradedEvent, CatenaAtomicTransform
from llama_index_catena.captions import CaptionsDegradedEvent, CatenaCaptionExtractor
from llama_index_catena.context import CatenaContextExtractor, ContextDegradedEvent
from llama_index_catena.dividing import SegmentationDegradedEvent
from llama_index_catena.documents import join_pages, to_core_document
from llama_index_catena.embedding import CatenaEmbedding
from llama_index_catena.entities import CatenaEntityExtractor, EntitiesDegradedEvent
from llama_index_catena.evaluation import (
    EvidenceMeasure,
    LogRankIndex,
    RecallAt,
    StandardMeasure,
    register_metrics,
)
from llama_index_catena.evaluators import CatenaPairwiseEvaluator, CatenaQuoteEvaluator, CatenaScopeEvaluator
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
from llama_index_catena.question_generation import CatenaQuestionGenerator
from llama_index_catena.reading import CatenaReader
from llama_index_catena.reranking import CatenaRerank, LlamaIndexReranker
from llama_index_catena.retrieval import CatenaRetriever, RouteDegradedEvent, UnknownNameEvent
from llama_index_catena.segments import CatenaSegmentPostprocessor, CatenaSegmentRetriever
from llama_index_catena.server.elasticsearch import from_elasticsearch_store
from llama_index_catena.services import LlamaIndexCaptioner, LlamaIndexEmbedder, LlamaIndexLLM
from llama_index_catena.stored_ids import with_uuids
from llama_index_catena.stores import RetrieverStore, retriever_route, retriever_store
from llama_index_catena.structure import CatenaNodeParser, TableNode
from llama_index_catena.synthesis import CatenaChainSynthesizer, CatenaSynthesizer
from llama_index_catena.trees import (
    CatenaTreeExtractor,
    CatenaTreeRetriever,
    TreeDegradedEvent,
    abuild_tree,
    build_tree,
)
from llama_index_catena.view_index import CatenaViewIndex
from llama_index_catena.view_nodes import with_content_ids
from llama_index_catena.view_retrieval import CatenaMultiViewRetriever
from llama_index_catena.views import CatenaViewExtractor, ViewsDegradedEvent

__version__ = "0.1.0"

__all__ = [
    "CatenaReader",
    "CatenaNodeParser",
    "CatenaAtomicTransform",
    "AtomicDegradedEvent",
    "CatenaEntityExtractor",
    "EntitiesDegradedEvent",
    "CatenaContextExtractor",
    "CatenaViewExtractor",
    "CatenaTreeExtractor",
    "CatenaCaptionExtractor",
    "CaptionsDegradedEvent",
    "TreeDegradedEvent",
    "CatenaViewIndex",
    "ViewChanges",
    "ViewsDegradedEvent",
    "with_content_ids",
    "with_uuids",
    "ContextDegradedEvent",
    "SegmentationDegradedEvent",
    "CatenaRetriever",
    "CatenaFigureRetriever",
    "CatenaSegmentRetriever",
    "CatenaMultiViewRetriever",
    "CatenaGraphRetriever",
    "CatenaTreeRetriever",
    "CatenaRerank",
    "CatenaSegmentPostprocessor",
    "CatenaChainPostprocessor",
    "CatenaQueryEngine",
    "CatenaSynthesizer",
    "CatenaChainSynthesizer",
    "CatenaQuestionGenerator",
    "RouteDegradedEvent",
    "UnknownNameEvent",
    "CatenaEmbedding",
    "LlamaIndexCaptioner",
    "LlamaIndexEmbedder",
    "LlamaIndexLLM",
    "LlamaIndexReranker",
    "RetrieverStore",
    "retriever_store",
    "retriever_route",
    "from_elasticsearch_store",
    "TableNode",
    "join_pages",
    "to_core_document",
    "build_tree",
    "abuild_tree",
    "LogRankIndex",
    "RecallAt",
    "StandardMeasure",
    "EvidenceMeasure",
    "register_metrics",
    "CatenaPairwiseEvaluator",
    "CatenaQuoteEvaluator",
    "CatenaScopeEvaluator",
    "build_graph",
    "abuild_graph",
    "update_graph",
    "aupdate_graph",
    "chains_of",
    "format_chains",
]

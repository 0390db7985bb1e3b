"""Catena in LangChain: long documents as loader, transformers, retrievers, compressors, embeddings and chain."""

import langchain_catena.core_values  # noqa: F401  # the core then takes LangChain's models and documents as they are
from catena.enrichment import ViewChanges
from langchain_catena.answering import segment_answer_chain
from langchain_catena.asking import chain_answer_chain, query_writer
from langchain_catena.atomic import CatenaAtomicTransformer
from langchain_catena.blobs import CatenaBlobParser
from langchain_catena.captions import CatenaCaptionTransformer
from langchain_catena.content_ids import with_content_ids
from langchain_catena.convert import join_pages, to_chunk, to_core_document, to_document
from langchain_catena.docstores import DocumentStore
from langchain_catena.enrichment import CatenaEntityTransformer
from langchain_catena.extraction import CatenaSegmentExtractor
from langchain_catena.figures import CatenaFigureRetriever
from langchain_catena.graph.building import abuild_graph, aupdate_graph, build_graph, update_graph
from langchain_catena.graph.chains import chain_formatter, chains_of, format_chains
from langchain_catena.graph.compressor import CatenaChainCompressor
from langchain_catena.graph.retrieval import CatenaGraphRetriever
from langchain_catena.loading import CatenaLoader
from langchain_catena.neighbours import Neighbours
from langchain_catena.places import with_links
from langchain_catena.rerank import CatenaRerank, LangChainReranker
from langchain_catena.retrieval import CatenaRetriever
from langchain_catena.retriever_routes import RetrieverStore, retriever_route
from langchain_catena.sections import CatenaSectionRetriever
from langchain_catena.segment_retrieval import CatenaSegmentRetriever
from langchain_catena.server.elasticsearch import from_elasticsearch_retriever, from_elasticsearch_store
from langchain_catena.services import (
    CatenaEmbeddings,
    LangChainCaptioner,
    LangChainEmbedder,
    LangChainLLM,
)
from langchain_catena.stored_ids import with_uuids
from langchain_catena.structure import CatenaDocumentTransformer, whole_chunk
from langchain_catena.trees import CatenaTreeRetriever, abuild_trees, build_trees
from langchain_catena.view_index import CatenaViewIndex
from langchain_catena.view_retrieval import CatenaMultiViewRetriever
from langchain_catena.views import CatenaViewTransformer

__version__ = "0.1.0"

__all__ = [
    "CatenaAtomicTransformer",
    "CatenaBlobParser",
    "CatenaCaptionTransformer",
    "CatenaChainCompressor",
    "CatenaDocumentTransformer",
    "CatenaEmbeddings",
    "CatenaEntityTransformer",
    "CatenaFigureRetriever",
    "CatenaGraphRetriever",
    "CatenaLoader",
    "CatenaMultiViewRetriever",
    "CatenaRerank",
    "CatenaRetriever",
    "CatenaSectionRetriever",
    "CatenaSegmentExtractor",
    "CatenaSegmentRetriever",
    "CatenaTreeRetriever",
    "CatenaViewIndex",
    "CatenaViewTransformer",
    "DocumentStore",
    "LangChainCaptioner",
    "LangChainEmbedder",
    "LangChainLLM",
    "LangChainReranker",
    "Neighbours",
    "RetrieverStore",
    "ViewChanges",
    "abuild_graph",
    "abuild_trees",
    "aupdate_graph",
    "build_graph",
    "build_trees",
    "chain_answer_chain",
    "chain_formatter",
    "chains_of",
    "format_chains",
    "from_elasticsearch_retriever",
    "from_elasticsearch_store",
    "join_pages",
    "query_writer",
    "retriever_route",
    "segment_answer_chain",
    "to_chunk",
    "to_core_document",
    "to_document",
    "update_graph",
    "whole_chunk",
    "with_content_ids",
    "with_links",
    "with_uuids",
]

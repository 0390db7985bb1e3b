"""Catena in LangChain: long-document retrieval as loader, document transformer, retrievers and embeddings."""

from langchain_catena.convert import to_chunk, to_core_document, to_document
from langchain_catena.enrichment import CatenaEntityTransformer
from langchain_catena.figures import CatenaFigureRetriever
from langchain_catena.loading import CatenaLoader
from langchain_catena.retrieval import CatenaRetriever
from langchain_catena.services import (
    CatenaEmbeddings,
    LangChainCaptioner,
    LangChainEmbedder,
    LangChainLLM,
    RetrieverStore,
)
from langchain_catena.structure import CatenaDocumentTransformer, whole_chunk

__version__ = "0.1.0"

__all__ = [
    "CatenaDocumentTransformer",
    "CatenaEmbeddings",
    "CatenaEntityTransformer",
    "CatenaFigureRetriever",
    "CatenaLoader",
    "CatenaRetriever",
    "LangChainCaptioner",
    "LangChainEmbedder",
    "LangChainLLM",
    "RetrieverStore",
    "to_chunk",
    "to_core_document",
    "to_document",
    "whole_chunk",
]

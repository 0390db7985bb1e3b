"""Catena in LangChain: long-document retrieval as a retriever, a document transformer and embeddings."""

from langchain_catena.convert import to_chunk, to_core_document, to_document
from langchain_catena.retrieval import CatenaRetriever
from langchain_catena.services import CatenaEmbeddings, LangChainEmbedder, LangChainLLM, RetrieverStore
from langchain_catena.structure import CatenaDocumentTransformer, whole_chunk

__version__ = "0.1.0"

__all__ = [
    "CatenaDocumentTransformer",
    "CatenaEmbeddings",
    "CatenaRetriever",
    "LangChainEmbedder",
    "LangChainLLM",
    "RetrieverStore",
    "to_chunk",
    "to_core_document",
    "to_document",
    "whole_chunk",
]

"""Catena's retriever under LlamaIndex's conventional name."""

from llama_index.retrievers.catena.base import CatenaRetriever

__all__ = ["CatenaRetriever"]

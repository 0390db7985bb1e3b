"""Catena's retrievers under LlamaIndex's conventional name."""

from llama_index.retrievers.catena.base import CatenaFigureRetriever, CatenaRetriever

__all__ = ["CatenaFigureRetriever", "CatenaRetriever"]

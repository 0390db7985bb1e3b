"""The conventional place of Catena's retriever; it lives in `llama_index_catena.retrieval`."""

from llama_index_catena.retrieval import CatenaRetriever

__all__ = ["CatenaRetriever"]

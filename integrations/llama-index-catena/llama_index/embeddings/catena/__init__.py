"""Catena's embedding model under LlamaIndex's conventional name."""

from llama_index_catena import CatenaEmbedding

__all__ = ["CatenaEmbedding"]

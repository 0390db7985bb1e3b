"""Catena's embedding model under LlamaIndex's conventional name."""

from llama_index.embeddings.catena.base import CatenaEmbedding

__all__ = ["CatenaEmbedding"]

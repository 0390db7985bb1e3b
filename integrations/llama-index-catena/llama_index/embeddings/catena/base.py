"""The conventional place of Catena's embedding model; it lives in `llama_index_catena.embedding`."""

from llama_index_catena.embedding import CatenaEmbedding

__all__ = ["CatenaEmbedding"]

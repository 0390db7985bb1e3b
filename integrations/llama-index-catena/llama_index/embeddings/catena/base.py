"""The conventional place of Catena's embedding model; it lives in `llama_index_catena.services`."""

from llama_index_catena.services import CatenaEmbedding

__all__ = ["CatenaEmbedding"]

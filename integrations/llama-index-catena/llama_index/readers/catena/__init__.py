"""Catena's reader under LlamaIndex's conventional name."""

from llama_index_catena import CatenaReader

__all__ = ["CatenaReader"]

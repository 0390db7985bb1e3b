"""Catena's reader under LlamaIndex's conventional name."""

from llama_index.readers.catena.base import CatenaReader

__all__ = ["CatenaReader"]

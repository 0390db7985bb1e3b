"""Catena's node parser under LlamaIndex's conventional name."""

from llama_index_catena import CatenaNodeParser

__all__ = ["CatenaNodeParser"]

"""Catena's query engine under LlamaIndex's conventional name."""

from llama_index_catena import CatenaQueryEngine

__all__ = ["CatenaQueryEngine"]

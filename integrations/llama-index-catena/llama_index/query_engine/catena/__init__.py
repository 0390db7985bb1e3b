"""Catena's query engine under LlamaIndex's conventional name."""

from llama_index.query_engine.catena.base import CatenaQueryEngine

__all__ = ["CatenaQueryEngine"]

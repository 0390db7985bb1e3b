"""The conventional place of Catena's query engine; it lives in `llama_index_catena.answering`."""

from llama_index_catena.answering import CatenaQueryEngine

__all__ = ["CatenaQueryEngine"]

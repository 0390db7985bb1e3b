"""Catena's question generator under LlamaIndex's conventional name."""

from llama_index_catena import CatenaQuestionGenerator

__all__ = ["CatenaQuestionGenerator"]

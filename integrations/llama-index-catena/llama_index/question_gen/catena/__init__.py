"""Catena's question generator under LlamaIndex's conventional name."""

from llama_index.question_gen.catena.base import CatenaQuestionGenerator

__all__ = ["CatenaQuestionGenerator"]

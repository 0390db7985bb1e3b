"""The conventional place of Catena's question generator; it lives in `llama_index_catena.question_generation`."""

from llama_index_catena.question_generation import CatenaQuestionGenerator

__all__ = ["CatenaQuestionGenerator"]

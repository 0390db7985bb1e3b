"""The conventional place of Catena's extractors; they live in `llama_index_catena.context` and `.entities`."""

from llama_index_catena.context import CatenaContextExtractor
from llama_index_catena.entities import CatenaEntityExtractor

__all__ = ["CatenaContextExtractor", "CatenaEntityExtractor"]

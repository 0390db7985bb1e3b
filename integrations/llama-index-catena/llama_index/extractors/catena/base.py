"""The conventional place of Catena's entity extractor; it lives in `llama_index_catena.entities`."""

from llama_index_catena.entities import CatenaEntityExtractor

__all__ = ["CatenaEntityExtractor"]

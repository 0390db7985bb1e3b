"""The conventional place of Catena's extractors; they live in `llama_index_catena.{context,entities,views}`."""

from llama_index_catena.context import CatenaContextExtractor
from llama_index_catena.entities import CatenaEntityExtractor
from llama_index_catena.views import CatenaViewExtractor

__all__ = ["CatenaContextExtractor", "CatenaEntityExtractor", "CatenaViewExtractor"]

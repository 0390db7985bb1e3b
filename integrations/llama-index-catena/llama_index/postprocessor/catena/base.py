"""The conventional place of Catena's postprocessors; they live in `llama_index_catena.reranking` and `.segments`."""

from llama_index_catena.reranking import CatenaRerank
from llama_index_catena.segments import CatenaSegmentPostprocessor

__all__ = ["CatenaRerank", "CatenaSegmentPostprocessor"]

"""The conventional place of Catena's postprocessors; they live in `llama_index_catena`, in `reranking` and others."""

from llama_index_catena.graph.postprocessing import CatenaChainPostprocessor
from llama_index_catena.reranking import CatenaRerank
from llama_index_catena.segments import CatenaSegmentPostprocessor

__all__ = ["CatenaChainPostprocessor", "CatenaRerank", "CatenaSegmentPostprocessor"]

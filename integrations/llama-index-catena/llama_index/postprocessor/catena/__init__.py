"""Catena's node postprocessors under LlamaIndex's conventional name."""

from llama_index_catena import CatenaChainPostprocessor, CatenaRerank, CatenaSegmentPostprocessor

__all__ = ["CatenaChainPostprocessor", "CatenaRerank", "CatenaSegmentPostprocessor"]

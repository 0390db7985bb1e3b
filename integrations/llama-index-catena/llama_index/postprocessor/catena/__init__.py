"""Catena's node postprocessors under LlamaIndex's conventional name."""

from llama_index.postprocessor.catena.base import CatenaChainPostprocessor, CatenaRerank, CatenaSegmentPostprocessor

__all__ = ["CatenaChainPostprocessor", "CatenaRerank", "CatenaSegmentPostprocessor"]

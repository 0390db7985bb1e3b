"""Catena's node postprocessors under LlamaIndex's conventional name."""

from llama_index.postprocessor.catena.base import CatenaRerank, CatenaSegmentPostprocessor

__all__ = ["CatenaRerank", "CatenaSegmentPostprocessor"]

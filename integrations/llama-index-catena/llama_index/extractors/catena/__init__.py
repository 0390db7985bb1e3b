"""Catena's extractors under LlamaIndex's conventional name."""

from llama_index.extractors.catena.base import CatenaContextExtractor, CatenaEntityExtractor

__all__ = ["CatenaContextExtractor", "CatenaEntityExtractor"]

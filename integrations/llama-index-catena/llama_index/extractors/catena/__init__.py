"""Catena's extractors under LlamaIndex's conventional name."""

from llama_index.extractors.catena.base import CatenaContextExtractor, CatenaEntityExtractor, CatenaViewExtractor

__all__ = ["CatenaContextExtractor", "CatenaEntityExtractor", "CatenaViewExtractor"]

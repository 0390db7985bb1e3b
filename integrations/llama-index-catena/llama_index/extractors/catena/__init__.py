"""Catena's entity extractor under LlamaIndex's conventional name."""

from llama_index.extractors.catena.base import CatenaEntityExtractor

__all__ = ["CatenaEntityExtractor"]

"""Catena's extractors under LlamaIndex's conventional name."""

from llama_index.extractors.catena.base import (
    CatenaAtomicTransform,
    CatenaCaptionExtractor,
    CatenaContextExtractor,
    CatenaEntityExtractor,
    CatenaTreeExtractor,
    CatenaViewExtractor,
)

__all__ = [
    "CatenaAtomicTransform",
    "CatenaCaptionExtractor",
    "CatenaContextExtractor",
    "CatenaEntityExtractor",
    "CatenaTreeExtractor",
    "CatenaViewExtractor",
]

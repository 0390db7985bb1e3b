"""Catena's extractors under LlamaIndex's conventional name."""

from llama_index_catena import (
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

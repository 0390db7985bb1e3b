"""Catena's retrievers under LlamaIndex's conventional name."""

from llama_index.retrievers.catena.base import (
    CatenaFigureRetriever,
    CatenaGraphRetriever,
    CatenaMultiViewRetriever,
    CatenaRetriever,
    CatenaSegmentRetriever,
    CatenaTreeRetriever,
)

__all__ = [
    "CatenaFigureRetriever",
    "CatenaGraphRetriever",
    "CatenaMultiViewRetriever",
    "CatenaRetriever",
    "CatenaSegmentRetriever",
    "CatenaTreeRetriever",
]

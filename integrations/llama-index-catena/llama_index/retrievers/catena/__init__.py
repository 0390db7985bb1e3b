"""Catena's retrievers under LlamaIndex's conventional name."""

from llama_index_catena import (
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

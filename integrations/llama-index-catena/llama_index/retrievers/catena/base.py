"""The conventional place of Catena's retrievers; they live in `llama_index_catena`, in `figures` and others."""

from llama_index_catena.figures import CatenaFigureRetriever
from llama_index_catena.graph.retrieval import CatenaGraphRetriever
from llama_index_catena.retrieval import CatenaRetriever
from llama_index_catena.segments import CatenaSegmentRetriever
from llama_index_catena.trees import CatenaTreeRetriever
from llama_index_catena.view_retrieval import CatenaMultiViewRetriever

__all__ = [
    "CatenaFigureRetriever",
    "CatenaGraphRetriever",
    "CatenaMultiViewRetriever",
    "CatenaRetriever",
    "CatenaSegmentRetriever",
    "CatenaTreeRetriever",
]

"""The conventional place of Catena's retrievers; they live in `llama_index_catena.{retrieval,figures,segments}`."""

from llama_index_catena.figures import CatenaFigureRetriever
from llama_index_catena.retrieval import CatenaRetriever
from llama_index_catena.segments import CatenaSegmentRetriever

__all__ = ["CatenaFigureRetriever", "CatenaRetriever", "CatenaSegmentRetriever"]

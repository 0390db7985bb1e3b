"""The conventional place of Catena's retrievers; they live in `llama_index_catena.retrieval` and `.figures`."""

from llama_index_catena.figures import CatenaFigureRetriever
from llama_index_catena.retrieval import CatenaRetriever

__all__ = ["CatenaFigureRetriever", "CatenaRetriever"]

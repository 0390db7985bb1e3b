"""The conventional place of Catena's extractors; they live in `llama_index_catena`, in `context` and others."""

from llama_index_catena.atomic import CatenaAtomicTransform
from llama_index_catena.captions import CatenaCaptionExtractor
from llama_index_catena.context import CatenaContextExtractor
from llama_index_catena.entities import CatenaEntityExtractor
from llama_index_catena.trees import CatenaTreeExtractor
from llama_index_catena.views import CatenaViewExtractor

__all__ = [
    "CatenaAtomicTransform",
    "CatenaCaptionExtractor",
    "CatenaContextExtractor",
    "CatenaEntityExtractor",
    "CatenaTreeExtractor",
    "CatenaViewExtractor",
]

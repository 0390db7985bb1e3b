"""The conventional place of Catena's reader; it lives in `llama_index_catena.reading`."""

from llama_index_catena.reading import CatenaReader

__all__ = ["CatenaReader"]

"""The conventional place of Catena's node parser; it lives in `llama_index_catena.structure`."""

from llama_index_catena.structure import CatenaNodeParser

__all__ = ["CatenaNodeParser"]

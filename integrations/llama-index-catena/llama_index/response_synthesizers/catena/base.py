"""The conventional place of Catena's response synthesizers; they live in `llama_index_catena.synthesis`."""

from llama_index_catena.synthesis import CatenaChainSynthesizer, CatenaSynthesizer

__all__ = ["CatenaChainSynthesizer", "CatenaSynthesizer"]

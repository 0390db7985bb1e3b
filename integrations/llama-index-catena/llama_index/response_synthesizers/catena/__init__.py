"""Catena's response synthesizers under LlamaIndex's conventional name."""

from llama_index_catena import CatenaChainSynthesizer, CatenaSynthesizer

__all__ = ["CatenaChainSynthesizer", "CatenaSynthesizer"]

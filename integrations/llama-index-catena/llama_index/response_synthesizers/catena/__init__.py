"""Catena's response synthesizers under LlamaIndex's conventional name."""

from llama_index.response_synthesizers.catena.base import CatenaChainSynthesizer, CatenaSynthesizer

__all__ = ["CatenaChainSynthesizer", "CatenaSynthesizer"]

"""Catena's node parser under LlamaIndex's conventional name."""

from llama_index.node_parser.catena.base import CatenaNodeParser

__all__ = ["CatenaNodeParser"]

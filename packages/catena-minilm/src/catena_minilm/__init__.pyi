from .embedder import MiniLMEmbedder as MiniLMEmbedder

__version__: str

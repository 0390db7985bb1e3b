"""Embed with all-MiniLM-L6-v2 on any processor: no torch, no network; `Library.open(path, embedder="minilm")`."""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Catena in LangChain: long documents as loader, transformers, retrievers, compressors, embeddings and chain.

`__init__.pyi` lists the names; each is loaded when it is first used.
"""

import lazy_loader

import langchain_catena.services  # noqa: F401  # the core then takes LangChain's models and documents as they are

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Catena in LangChain: long documents as loader, transformers, retrievers, compressors, embeddings and chain.

`__init__.pyi` lists the names; each is loaded when it is first used.
"""

from importlib.util import find_spec

import lazy_loader

import langchain_catena.services  # noqa: F401  # the core then takes LangChain's models and documents as they are

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
if find_spec("catena_bench") is None:  # what needs it is loaded by its name alone
    _OF_BENCH = {"CatenaAtomicTransformer", "CatenaTreeRetriever", "abuild_trees", "build_trees"}
    __all__ = [name for name in __all__ if name not in _OF_BENCH]

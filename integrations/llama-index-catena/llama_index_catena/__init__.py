"""Catena in LlamaIndex: from files to nodes, from questions to segments and cited answers, and models both ways.

`__init__.pyi` lists the names; each is loaded when it is first used.
"""

from importlib.util import find_spec

import lazy_loader

import llama_index_catena.services  # noqa: F401  # the core then takes LlamaIndex's models and documents

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
if find_spec("catena_bench") is None:  # what needs it is loaded by its name alone
    _OF_BENCH = {
        "AtomicDegradedEvent",
        "CatenaAtomicTransform",
        "CatenaTreeExtractor",
        "CatenaTreeRetriever",
        "TreeDegradedEvent",
        "abuild_tree",
        "build_tree",
    }
    __all__ = [name for name in __all__ if name not in _OF_BENCH]

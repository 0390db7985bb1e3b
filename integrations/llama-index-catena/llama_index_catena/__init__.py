"""Catena in LlamaIndex: from files to nodes, from questions to segments and cited answers, and models both ways.

`__init__.pyi` lists the names; each is loaded when it is first used.
"""

import lazy_loader

import llama_index_catena.services  # noqa: F401  # the core then takes LlamaIndex's models and documents

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Take the models and documents of LangChain and LlamaIndex where the core's are meant.

The core imports neither. Their adapters say here, when they are imported, how their framework's classes become the
core's; where an adapter is not imported, the error names its call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from catena.model.errors import ParameterError

Kind: TypeAlias = Literal["document", "llm", "embedder", "reranker", "captioner"]

_CONVERT: dict[Kind, dict[type, Callable[[Any], Any]]] = {}
_ADAPTERS = {"langchain_core": ("langchain_catena", "LangChain"), "llama_index": ("llama_index_catena", "LlamaIndex")}
_CALLS: dict[Kind, str] = {
    "document": "to_core_document(document)",
    "llm": "{}LLM(model)",
    "embedder": "{}Embedder(model)",
    "reranker": "{}Reranker(model)",
    "captioner": "{}Captioner(model)",
}


def register(kind: Kind, foreign: type, convert: Callable[[Any], Any]) -> None:
    """Have `as_core` make the core's value of a framework's class, and of its subclasses, by `convert`."""
    _CONVERT.setdefault(kind, {})[foreign] = convert


def as_core(kind: Kind, value: Any) -> Any:
    """Return a framework's value as the core's, and any other value as it is.

    Raises:
        ParameterError: its framework's adapter is not imported; the message says what to call.
    """
    for foreign, convert in _CONVERT.get(kind, {}).items():
        if isinstance(value, foreign):
            return convert(value)
    roots = {base.__module__.partition(".")[0] for base in type(value).__mro__}
    for root, (adapter, name) in _ADAPTERS.items():
        if root in roots:
            call = _CALLS[kind].format(name)
            raise ParameterError(kind, type(value).__name__, f"{adapter}.{call} where it is one of {name}")
    return value

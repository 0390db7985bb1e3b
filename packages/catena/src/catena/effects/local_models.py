"""Models in this process, each called by one thread at a time: tokenizers and settings are not made for several.

Two threads in one tokenizer truncate or pad by each other's settings, and a batch fails.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType, TracebackType
from typing import Any
from weakref import WeakValueDictionary


class Turn:
    """Let one thread at a time use a model: `with turn_of(model): ...`; it survives pickling with its model."""

    def __init__(self, model: object) -> None:
        self._model = model  # kept, so that no other model gets its id
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Callable[[object], Turn], tuple[object]]:
        return turn_of, (self._model,)


_turns: WeakValueDictionary[int, Turn] = WeakValueDictionary()
_making = threading.Lock()


def turn_of(model: object) -> Turn:
    """Return the one turn of this object, the same for all who hold it."""
    with _making:
        turn = _turns.get(id(model))
        if turn is None:
            turn = _turns[id(model)] = Turn(model)
        return turn


def turn_if_local(service: object) -> AbstractContextManager[None]:
    """Return the turn of the model in this process that a framework's class calls; where it calls none, none.

    Args:
        service: any model, as LangChain's or LlamaIndex's classes around sentence-transformers, llama.cpp or ONNX.
    """
    parts = list(_parts(service, _DEPTH))
    if any(_root_modules(part) & _OURS for part in parts):  # these take turns themselves, and a turn is taken once
        return nullcontext()
    found = [part for part in parts if _is_model(part)]
    if not any(_root_modules(part) & _CLIENTS for part in parts):  # with one, tokens are only counted here
        found += [part for part in parts if "tokenizers" in _root_modules(part)]
    return turn_of(found[0]) if found else nullcontext()


_DEPTH = 3  # attributes that are followed, one from the other: a chat model's LLM, its pipeline, its network
_LOCAL = frozenset({"llama_cpp", "onnxruntime", "gpt4all", "ctranslate2", "fastembed"})  # torch: its modules alone
_OURS = frozenset({"catena", "langchain_catena", "llama_index_catena"})
_CLIENTS = frozenset({"httpx", "requests", "aiohttp", "urllib3", "grpc"})


def _is_model(part: object) -> bool:
    torch = sys.modules.get("torch")
    module = getattr(getattr(torch, "nn", None), "Module", None)
    return bool(_root_modules(part) & _LOCAL) or (module is not None and isinstance(part, module))


def _root_modules(part: object) -> set[str]:
    """Return the packages of the classes of an object, without importing any."""
    return {kind.__module__.partition(".")[0] for kind in type(part).__mro__}


def _parts(value: object, depth: int) -> Iterator[object]:
    """Yield an object, what its first attribute holds, and so on."""
    yield value
    if depth and not isinstance(value, ModuleType):
        for each in _attributes(value):
            yield from _parts(each, depth - 1)


def _attributes(value: object) -> Iterator[Any]:
    for names in (getattr(value, "__dict__", None), getattr(value, "__pydantic_private__", None)):
        if isinstance(names, dict):
            yield from names.values()

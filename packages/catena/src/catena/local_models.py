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
    """Return the turn of the torch module that a framework's model calls; where it calls none, none is taken.

    Args:
        service: any model, as LangChain's or LlamaIndex's classes around sentence-transformers.
    """
    torch = sys.modules.get("torch")
    module = getattr(getattr(torch, "nn", None), "Module", None)
    part = None if module is None else _part(service, module, _DEPTH)
    return nullcontext() if part is None else turn_of(part)


_DEPTH = 3  # attributes that are followed, one from the other: a chat model's LLM, its pipeline, its network


def _part(value: object, module: type, depth: int) -> object | None:
    if isinstance(value, module):
        return value
    if isinstance(value, ModuleType):
        return None
    parts = (_part(each, module, depth - 1) for each in _attributes(value)) if depth else iter(())
    return next((part for part in parts if part is not None), None)


def _attributes(value: object) -> Iterator[Any]:
    for names in (getattr(value, "__dict__", None), getattr(value, "__pydantic_private__", None)):
        if isinstance(names, dict):
            yield from names.values()

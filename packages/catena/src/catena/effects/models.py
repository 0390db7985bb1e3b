"""Call models of frameworks: one thread at a time where they are in this process, with limits and schemas of replies.

Two threads in one tokenizer truncate or pad by each other's settings, and a batch fails.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType, TracebackType
from typing import Any, Literal, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from catena.effects.steps import Complete
from catena.model.errors import ParameterError, SchemaRefusedError

_turns: WeakValueDictionary[int, Turn] = WeakValueDictionary()
_making = threading.Lock()
_DEPTH = 3  # attributes that are followed, one from the other: a chat model's LLM, its pipeline, its network
_LOCAL = frozenset({"llama_cpp", "onnxruntime", "gpt4all", "ctranslate2", "fastembed"})  # torch: its modules alone
_OURS = frozenset({"catena", "langchain_catena", "llama_index_catena"})
_CLIENTS = frozenset({"httpx", "requests", "aiohttp", "urllib3", "grpc"})
Model = TypeVar("Model")
LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens", "num_predict", "max_new_tokens")
"""Names of the setting or argument that limits a reply."""
_ENDINGS = {
    "length": re.compile(r"length|max[\w .:-]{0,30}token|incomplete|window"),
    "content_filter": re.compile(r"content_?filter|safety|prohibited|blocklist|recitation|guardrail"),
    "refusal": re.compile("refus"),
    "error": re.compile("error|abort|cancel|fail"),
}
_REASONS = (
    "finish_reason", "finishReason", "stop_reason", "stopReason", "done_reason", "completion_reason", "status",
)  # fmt: skip


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


def _is_model(part: object) -> bool:
    module = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
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


def ending(reason: object) -> str:
    """Return why a reply ended, "stop", "length", "content_filter", "refusal" or "error", from a service's own word.

    Args:
        reason: "stop", "MAX_TOKENS", an enumeration's member, ...; what is not known counts as "stop".
    """
    said = f"{getattr(reason, 'name', '')} {getattr(reason, 'value', reason)}".lower()
    return next((known for known, words in _ENDINGS.items() if words.search(said)), "stop")


def ending_told(said: Mapping[str, Any]) -> str:
    """Return why a reply ended, from what its service says of it under any of the names that are in use."""
    details = said.get("incomplete_details")
    why = details.get("reason") if isinstance(details, Mapping) else getattr(details, "reason", None)
    return ending(why or next((said[name] for name in _REASONS if said.get(name)), "stop"))


def limit_setting(model: object) -> str | None:
    """Return the field by which a pydantic model limits its replies ("max_tokens", "num_predict", ...), or None."""
    fields = getattr(type(model), "model_fields", {})
    return next((name for name in LIMITS if name in fields), None)


def with_limit(model: Model, setting: str | None, tokens: int) -> Model:
    """Return a copy of a model whose replies have at most `tokens` tokens, or fewer where its user set it so.

    Args:
        model: a pydantic model; it is not changed.
        setting: as by `limit_setting`; None leaves the model as it is.
        tokens: the limit.
    """
    given: Any = model
    if setting is None:
        return model
    own = getattr(given, setting) if setting in given.model_fields_set else None
    copied: Model = given.model_copy(update={setting: smaller(own, tokens)})
    return copied


def smaller(own: object, tokens: int) -> int:
    """Return the smaller one of a limit and that which a user set, if it is one: -1 and None are none."""
    return min(own, tokens) if isinstance(own, int) and own > 0 else tokens


class Schemas:
    """Give a model the schemas of replies until it refuses one and answers the same prompt without.

    Args:
        given: whether the model says that it can keep to them.
    """

    def __init__(self, given: bool) -> None:
        self._given = given
        self._refused: set[int] = set()  # hashes of prompts

    def go_with(self, request: Complete) -> bool:
        """Tell whether a request goes out with its schema."""
        return self._given and bool(request.schema)

    def answered(self, request: Complete) -> None:
        """Note that a request was answered without a schema."""
        if hash(request.prompt) in self._refused:
            self._given = False

    def refusal(self, request: Complete, error: Exception, service: str) -> SchemaRefusedError | None:
        """Return what a failed call with a schema says of the schema; None where it failed by something else.

        A service that refuses by a status, and code that is not there, refuse for good. What is only not of the right
        form is one bad reply.
        """
        status = getattr(error, "status_code", None)
        if isinstance(error, NotImplementedError) or status in (400, 422):
            self._refused.add(hash(request.prompt))
        elif not isinstance(error, KeyError | TypeError | ValueError):
            return None
        told = type(error).__name__ if status is None else f"{type(error).__name__}, status {status}"
        return SchemaRefusedError(service, f"no reply with the schema ({told}); asked without")


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

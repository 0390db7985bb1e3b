"""Ask any store of documents or of bytes, or a function, for parents, in one way; and call it as a step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any, TypeAlias, cast

from langchain_core.documents import Document
from langchain_core.load import dumps, loads
from langchain_core.runnables.config import run_in_executor
from langchain_core.stores import BaseStore, ByteStore

from catena import ParameterError
from catena.effects import Handler, Request, Step, ask

Do = Callable[[], Any]
Await = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """One call, by threads or by asyncio; the reply is what it returns."""

    do: Do
    ado: Await
    purpose: str = field(default="store", kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Awaited:
    """One call of a coroutine function; without an event loop it is awaited on one of the core's."""

    ado: Await
    purpose: str = field(default="store", kw_only=True)


def calling(identity: str) -> Mapping[type[Request], Handler]:
    """Return the handlers of calls; what a store raises comes back as a `ServiceError` under this name."""
    return {
        _Call: Handler(identity=identity, call=lambda call: call.do(), acall=lambda call: call.ado()),
        _Awaited: Handler(identity=identity, acall=lambda call: call.ado()),
    }


def called(do: Do | None, ado: Await, *, purpose: str = "store") -> Step[Any]:
    """Make one call and return its reply; `do` is None for what is a coroutine function alone."""
    call = _Awaited(ado, purpose=purpose) if do is None else _Call(do, ado, purpose=purpose)
    (reply,) = yield from ask([call])
    return reply


def call_of(function: Callable[..., Any], *given: Any, purpose: str) -> Request:
    """Return the request for a call of a function, or of a coroutine function; see `calling`."""
    if iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__):
        return _Awaited(lambda: function(*given), purpose=purpose)
    return _Call(lambda: function(*given), lambda: run_in_executor(None, function, *given), purpose=purpose)


FetchParents: TypeAlias = Callable[[Sequence[str]], Sequence[Document | None] | Awaitable[Sequence[Document | None]]]
"""From ids to their documents, one per id and None where there is none; or a coroutine function."""

Docstore: TypeAlias = BaseStore[str, Any] | FetchParents


class DocumentStore(BaseStore[str, Document]):
    """Documents in a store of bytes, written as LangChain's `create_kv_docstore` writes them.

        docstore = DocumentStore(InMemoryByteStore())

    Args:
        byte_store: in memory, a folder, Redis, or any other.
    """

    def __init__(self, byte_store: ByteStore) -> None:
        self.byte_store = byte_store

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        return [as_document(value) for value in self.byte_store.mget(keys)]

    async def amget(self, keys: Sequence[str]) -> list[Document | None]:
        return [as_document(value) for value in await self.byte_store.amget(keys)]

    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        self.byte_store.mset([(key, dumps(document).encode()) for key, document in key_value_pairs])

    async def amset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        await self.byte_store.amset([(key, dumps(document).encode()) for key, document in key_value_pairs])

    def mdelete(self, keys: Sequence[str]) -> None:
        self.byte_store.mdelete(keys)

    async def amdelete(self, keys: Sequence[str]) -> None:
        await self.byte_store.amdelete(keys)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        return self.byte_store.yield_keys(prefix=prefix)

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        async for key in self.byte_store.ayield_keys(prefix=prefix):
            yield key


def one_docstore(docstore: Any, byte_store: ByteStore | None) -> Docstore:
    """Return the store of documents out of the two ways to give one, as `MultiVectorRetriever` takes them.

    Raises:
        ParameterError: both are given, or neither, or something else.
    """
    if (docstore is None) == (byte_store is None):
        raise ParameterError("docstore", docstore, "given, or byte_store in its place")
    if byte_store is not None:
        return DocumentStore(byte_store)
    if not isinstance(docstore, BaseStore) and not callable(docstore):
        allowed = "a store of documents (BaseStore) or a function ids -> documents"
        raise ParameterError("docstore", type(docstore).__name__, allowed)
    return cast("Docstore", docstore)


def fetch(docstore: Docstore, ids: Sequence[str]) -> Step[dict[str, Document]]:
    """Return id -> document of those that a docstore has.

    Raises:
        ParameterError: what it holds is no document, or a function gave another number of them.
        ServiceError: it failed.
    """
    asked = list(dict.fromkeys(ids))
    if not asked:
        return {}
    if isinstance(docstore, BaseStore):
        found = yield from called(lambda: docstore.mget(asked), lambda: docstore.amget(asked), purpose="parents")
    else:
        (found,) = yield from ask([call_of(docstore, asked, purpose="parents")])
    documents = [as_document(value) for value in found]
    if len(documents) != len(asked):
        raise ParameterError("documents from the docstore", len(documents), f"one per id, or None ({len(asked)})")
    return {name: document for name, document in zip(asked, documents, strict=True) if document is not None}


def as_document(value: Any) -> Document | None:
    """Return a value of a store as a document; bytes are read as `create_kv_docstore` writes them.

    Raises:
        ParameterError: it is neither.
    """
    if value is None or isinstance(value, Document):
        return value
    found = None
    if isinstance(value, bytes):
        try:
            found = loads(value.decode(), allowed_objects=[Document])
        except ValueError:  # neither JSON nor a document
            found = None
    if not isinstance(found, Document):
        raise ParameterError("what the docstore holds", type(value).__name__, "documents, or documents as bytes")
    return found

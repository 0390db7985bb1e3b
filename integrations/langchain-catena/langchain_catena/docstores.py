"""Where parents are kept: any store of documents or of bytes, or a function, asked in one way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from inspect import iscoroutinefunction
from typing import Any, TypeAlias, cast

from langchain_core.documents import Document
from langchain_core.load import dumps, loads
from langchain_core.runnables.config import run_in_executor
from langchain_core.stores import BaseStore, ByteStore

from catena.effects import Step
from catena.model import ParameterError
from langchain_catena.calls import Await, Do, called

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
    found = yield from called(*_asking(docstore, asked), purpose="parents")
    documents = [as_document(value) for value in found]
    if len(documents) != len(asked):
        raise ParameterError("documents from the docstore", len(documents), f"one per id, or None ({len(asked)})")
    return {name: document for name, document in zip(asked, documents, strict=True) if document is not None}


def as_document(value: Any) -> Document | None:
    """Return what a store holds as a document; bytes are read as `create_kv_docstore` writes them.

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


def _asking(docstore: Docstore, ids: list[str]) -> tuple[Do | None, Await]:
    if isinstance(docstore, BaseStore):
        return (lambda: docstore.mget(ids)), (lambda: docstore.amget(ids))
    if iscoroutinefunction(docstore) or iscoroutinefunction(type(docstore).__call__):

        async def awaited() -> Any:
            return await docstore(ids)  # type: ignore[misc]

        return None, awaited
    return (lambda: docstore(ids)), (lambda: run_in_executor(None, docstore, ids))

"""Writes to an index and its docstore, as steps: views go into the index, parents and records beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from catena.effects import Step
from llama_index_catena.calls import called
from llama_index_catena.services import inherits

_GUARD = Lock()
_WRITING: WeakKeyDictionary[VectorStoreIndex, Lock] = WeakKeyDictionary()


def inserted(index: VectorStoreIndex, views: Sequence[BaseNode]) -> Step[None]:
    """Embed views and write them."""
    store: Any = index.vector_store
    nodes = list(views)

    def insert() -> None:
        with _alone(index):
            index.insert_nodes(nodes)

    async def ainsert() -> None:
        if inherits(store, BasePydanticVectorStore, "async_add"):
            await asyncio.to_thread(insert)
        else:
            await index.ainsert_nodes(nodes)

    if nodes:
        yield from called(insert, ainsert, purpose="new views")


def forgotten(index: VectorStoreIndex, ids: Sequence[str]) -> Step[None]:
    """Take views out of the vector store, and out of the index, which keeps them where the store has texts."""
    store: Any = index.vector_store
    gone = list(ids)

    def delete() -> None:
        with _alone(index):
            store.delete_nodes(gone)

    async def adelete() -> None:
        if inherits(store, BasePydanticVectorStore, "adelete_nodes"):
            await asyncio.to_thread(delete)
        else:
            await store.adelete_nodes(gone)

    def forget() -> None:
        with _alone(index):
            struct, left = index.index_struct, set(gone)
            for text_id in [key for key, node_id in struct.nodes_dict.items() if node_id in left]:
                struct.delete(text_id)
            index.storage_context.index_store.add_index_struct(struct)

    async def aforget() -> None:
        if inherits(store, BasePydanticVectorStore, "async_add"):
            await asyncio.to_thread(forget)
        else:
            forget()  # where the index itself notes what it was given: on the event loop

    if gone:
        yield from called(delete, adelete, purpose="old views")
        yield from called(forget, aforget)


def kept(index: VectorStoreIndex, nodes: Sequence[BaseNode]) -> Step[None]:
    """Write nodes into the docstore."""
    docstore = index.docstore
    if nodes:
        yield from called(lambda: docstore.add_documents(nodes), lambda: docstore.async_add_documents(nodes))


def dropped(index: VectorStoreIndex, ids: Sequence[str]) -> Step[None]:
    """Remove nodes from the docstore, those that are there."""
    docstore = index.docstore

    def drop() -> None:
        for name in ids:
            docstore.delete_document(name, raise_error=False)

    if ids:  # its async twin leaves the ids in the document's `RefDocInfo`
        yield from _in_thread(drop)


def _alone(index: VectorStoreIndex) -> Lock:
    """Return the lock under which threads write into an index: it and stores in memory serve one at a time."""
    with _GUARD:
        return _WRITING.setdefault(index, Lock())


def _in_thread(do: Callable[[], Any]) -> Step[None]:
    def ado() -> Awaitable[Any]:
        return asyncio.to_thread(do)

    yield from called(do, ado)

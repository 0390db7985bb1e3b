"""Calls of a user's own index, store or retriever as requests: what uses them is written once for both worlds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from catena.effects import Handler, Request, Step, ask
from llama_index_catena.services import inherits


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """One call, by threads or by asyncio; the reply is what it returns."""

    do: Callable[[], Any]
    ado: Callable[[], Awaitable[Any]]
    purpose: str = field(default="store", kw_only=True)


def calling(identity: str) -> Mapping[type[Request], Handler]:
    """Return who answers calls; what a store raises comes back as a `ServiceError` under this name."""
    return {_Call: Handler(identity=identity, call=lambda call: call.do(), acall=lambda call: call.ado())}


def called(do: Callable[[], Any], ado: Callable[[], Awaitable[Any]], *, purpose: str = "store") -> Step[Any]:
    """Make one call and return its reply."""
    (reply,) = yield from ask([_Call(do, ado, purpose=purpose)])
    return reply


def retrieved(retriever: BaseRetriever, asked: QueryBundle, purpose: str) -> Step[list[NodeWithScore]]:
    """Ask a retriever, and return what it found as it gave it."""

    def do() -> list[NodeWithScore]:
        return retriever.retrieve(asked)

    async def ado() -> list[NodeWithScore]:
        return await (asyncio.to_thread(do) if blocks(retriever) else retriever.aretrieve(asked))

    return list((yield from called(do, ado, purpose=purpose)))


def blocks(retriever: BaseRetriever) -> bool:
    """Whether a retriever has no async code of its own, or searches a store that has none."""
    store = getattr(retriever, "_vector_store", None) if isinstance(retriever, VectorIndexRetriever) else None
    if isinstance(store, BasePydanticVectorStore) and inherits(store, BasePydanticVectorStore, "aquery"):
        return True
    return inherits(retriever, BaseRetriever, "_aretrieve")


def copied(asked: QueryBundle) -> QueryBundle:
    """Return a bundle of its own for one retriever: some write the question's vector into the one they are given."""
    strings: Any = asked.custom_embedding_strs
    return QueryBundle(asked.query_str, asked.image_path, strings, asked.embedding)

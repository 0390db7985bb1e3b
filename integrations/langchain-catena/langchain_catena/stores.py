"""Ask any store of documents or of bytes, or a function, for parents and for the chunks beside others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, TypeAlias, cast

from langchain_core.documents import Document
from langchain_core.load import dumps, loads
from langchain_core.runnables.config import run_in_executor
from langchain_core.stores import BaseStore, ByteStore
from langchain_core.vectorstores import VectorStore

from catena import Chunk, ParameterError, Services
from catena.effects import (
    AwaitedCall,
    FetchChunks,
    FetchPlaces,
    FetchText,
    ForeignCall,
    Handler,
    Request,
    Step,
    answered_by,
    ask,
    called,
    calling,
)
from catena.library import BaseLibrary
from catena.segments import ChunkSpan, FetchLinked, Linked, follow_links
from langchain_catena.places import Passages, PlaceKeys, to_linked


def method(thing: object, name: str, *given: Any, purpose: str = "store", **options: Any) -> Step[Any]:
    """Call a method of one of LangChain's objects, or await its twin, whose name has an "a" in front."""
    do, ado = (partial(getattr(thing, each), *given, **options) for each in (name, f"a{name}"))
    return called(do, ado, purpose=purpose)


def call_of(function: Callable[..., Any], *given: Any, purpose: str) -> Request:
    """Return the request for a call of a function, or of a coroutine function."""
    if iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__):
        return AwaitedCall(ado=lambda: function(*given), purpose=purpose)
    do, ado = partial(function, *given), partial(run_in_executor, None, function, *given)
    return ForeignCall(do=do, ado=ado, purpose=purpose)


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
        found = yield from method(docstore, "mget", asked, purpose="parents")
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


Fetch: TypeAlias = Callable[[str, int, int], Sequence[Document] | Awaitable[Sequence[Document]]]
"""From a document's id, a first and an end position to the chunks there, in any order; or a coroutine function."""

Neighbours: TypeAlias = VectorStore | BaseStore[str, Any] | BaseLibrary | Fetch
"""A source of chunks that no query found but that a segment could cross.

A vector store (`get_by_ids`) or a docstore (`mget`) is asked along the links `previous_id` and `next_id` of the
chunks that were found; `with_links` and `CatenaDocumentTransformer` write these.
"""

NeighbourKey: TypeAlias = Callable[[str, int], str]
"""From a document's id and a position to the key under which a store holds that chunk: then no links are needed."""


def neighbour_handlers(
    neighbours: Neighbours | None, passages: Passages, *, key: NeighbourKey | None = None
) -> Mapping[type[Request], Handler]:
    """Return the handlers of `FetchChunks` and `FetchText`, which are asked while segments are extracted.

    Args:
        neighbours: None: nobody has other chunks than those found.
        passages: what was found, for its links and for the keys by which documents tell their place.
        key: of a chunk in the store, in place of links.

    Raises:
        ParameterError: it is none of these.
    """
    if isinstance(neighbours, BaseLibrary):
        return {kind: neighbours.services.handler(kind) for kind in (FetchChunks, FetchText, FetchPlaces)}
    nobody = Handler(identity="no neighbours", call=lambda request: ((),) * len(request.spans))
    return {
        FetchChunks: nobody if neighbours is None else _chunks(neighbours, passages, key),
        FetchText: Handler(identity="no text", call=lambda request: (None,) * len(request.spans)),
    }


def _chunks(neighbours: Neighbours, passages: Passages, key: NeighbourKey | None) -> Handler:
    if isinstance(neighbours, VectorStore) and not _gives_by_id(neighbours):
        allowed = "a vector store with get_by_ids, which it has not; a docstore or a function in its place"
        raise ParameterError("neighbours", type(neighbours).__name__, allowed)
    if isinstance(neighbours, VectorStore | BaseStore):
        handler = _by_id(neighbours, passages.keys)
        identity, services = handler.identity, Services(handlers={FetchLinked: handler})
    elif callable(neighbours):
        identity = f"neighbours by {getattr(neighbours, '__name__', type(neighbours).__name__)}"
        services = Services(handlers=calling(identity))
    else:
        allowed = "a vector store, a docstore, a Library or a function (document_id, first, end) -> documents"
        raise ParameterError("neighbours", type(neighbours).__name__, allowed)

    def fetched(request: FetchChunks) -> Step[tuple[tuple[Chunk, ...], ...]]:
        if not isinstance(neighbours, VectorStore | BaseStore):
            return _spans(request.spans, neighbours, passages.keys)
        return _linked(request.spans, passages) if key is None else _keyed(request.spans, key)

    return answered_by(identity, fetched, services)


def _gives_by_id(store: VectorStore) -> bool:
    own = type(store)
    return own.get_by_ids is not VectorStore.get_by_ids or own.aget_by_ids is not VectorStore.aget_by_ids


def _linked(spans: Sequence[ChunkSpan], passages: Passages) -> Step[tuple[tuple[Chunk, ...], ...]]:
    known = passages.linked
    if not any(linked.previous or linked.next for linked in known):
        allowed = "in the metadata of chunks, where neighbours are fetched by id: with_links(splits) writes them"
        raise ParameterError("previous_id and next_id", None, allowed)
    return (yield from follow_links(spans, known))


def _keyed(spans: Sequence[ChunkSpan], key: NeighbourKey) -> Step[tuple[tuple[Chunk, ...], ...]]:
    ids = tuple(key(document, position) for document, first, end in spans for position in range(first, end))
    (found,) = yield from ask([FetchLinked(ids=ids)])
    places = {linked.place: linked.chunk for linked in found}
    return tuple(
        tuple(places[name, position] for position in range(first, end) if (name, position) in places)
        for name, first, end in spans
    )


def _spans(spans: Sequence[ChunkSpan], fetch: Fetch, keys: PlaceKeys) -> Step[tuple[tuple[Chunk, ...], ...]]:
    replies = yield from ask([call_of(fetch, *span, purpose="neighbours") for span in spans])
    found = ([to_linked(document, keys).chunk for document in reply] for reply in replies)
    return tuple(tuple(sorted(chunks, key=lambda chunk: chunk.position)) for chunks in found)


def _by_id(store: VectorStore | BaseStore[str, Any], keys: PlaceKeys) -> Handler:
    """Answer `FetchLinked` from a store."""
    identity = f"langchain:{type(store).__name__}"

    def linked(found: Sequence[Any]) -> list[Linked]:
        for document in found:
            if document is not None and not isinstance(document, Document):
                allowed = "a Document: langchain's create_kv_docstore makes a docstore of a store of bytes"
                raise ParameterError(f"what {type(store).__name__} holds", type(document).__name__, allowed)
        return [to_linked(document, keys) for document in found if document is not None]

    name = "get_by_ids" if isinstance(store, VectorStore) else "mget"

    async def afetched(request: FetchLinked) -> list[Linked]:
        return linked(await getattr(store, f"a{name}")(list(request.ids)))

    def fetched(request: FetchLinked) -> list[Linked]:
        return linked(getattr(store, name)(list(request.ids)))

    return Handler(identity=identity, call=fetched, acall=afetched)

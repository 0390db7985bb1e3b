"""Fetch the chunks beside those that were found from where the user keeps them: a store, a function, a library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore

from catena import Chunk, ParameterError, Services, arun, run
from catena.effects import FetchChunks, FetchText, Handler, Request, Step, ask
from catena.library import BaseLibrary
from catena.segments import ChunkSpan, FetchLinked, Linked, follow_links
from langchain_catena.docstores import call_of, calling
from langchain_catena.places import Passages, PlaceKeys, to_linked

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
        return {kind: neighbours.services.handler(kind) for kind in (FetchChunks, FetchText)}
    return {
        FetchChunks: _nobody() if neighbours is None else _chunks(neighbours, passages, key),
        FetchText: Handler(identity="no text", call=lambda request: (None,) * len(request.spans)),
    }


def _nobody() -> Handler:
    return Handler(identity="no neighbours", call=lambda request: ((),) * len(request.spans))


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

    return Handler(
        identity=identity,
        call=lambda request: run(fetched(request), services),
        acall=lambda request: arun(fetched(request), services),
    )


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

    async def from_vectors(request: FetchLinked) -> list[Linked]:
        return linked(await store.aget_by_ids(list(request.ids)))  # type: ignore[union-attr]

    async def from_docstore(request: FetchLinked) -> list[Linked]:
        return linked(await store.amget(list(request.ids)))  # type: ignore[union-attr]

    if isinstance(store, VectorStore):
        return Handler(
            identity=identity, call=lambda request: linked(store.get_by_ids(list(request.ids))), acall=from_vectors
        )
    return Handler(identity=identity, call=lambda request: linked(store.mget(list(request.ids))), acall=from_docstore)

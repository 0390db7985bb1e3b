"""Use LlamaIndex's retrievers and stores in the core: as routes of a store, and as requests of steps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from catena import ParameterError, Ranking
from catena.effects import Handler, Request, Search, Step, Store, ask
from catena.model import Where
from catena.retrieval import RoutedStore
from llama_index_catena.convert import to_ranking
from llama_index_catena.services import inherits


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """One call, by threads or by asyncio; the reply is what it returns."""

    do: Callable[[], Any]
    ado: Callable[[], Awaitable[Any]]
    purpose: str = field(default="store", kw_only=True)


def calling(identity: str) -> Mapping[type[Request], Handler]:
    """Return the handler of calls; what a store raises comes back as a `ServiceError` under this name."""
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
    """Return True where a retriever has no async code of its own, or searches a store that has none."""
    store = getattr(retriever, "_vector_store", None) if isinstance(retriever, VectorIndexRetriever) else None
    if isinstance(store, BasePydanticVectorStore) and inherits(store, BasePydanticVectorStore, "aquery"):
        return True
    return inherits(retriever, BaseRetriever, "_aretrieve")


def copied(asked: QueryBundle) -> QueryBundle:
    """Return a bundle of its own for one retriever: some write the question's vector into the one they are given."""
    strings: Any = asked.custom_embedding_strs
    return QueryBundle(asked.query_str, asked.image_path, strings, asked.embedding)


Obey: TypeAlias = Callable[[Where], BaseRetriever]
"""From a filter to a retriever that obeys it."""


class RetrieverRoute:
    """A LlamaIndex retriever as a route; see `retriever_route`."""

    def __init__(self, retriever: BaseRetriever, obey: Obey | None) -> None:
        self.retriever = retriever
        self.filters = obey is not None
        self._obey = obey

    def rank(self, request: Search) -> Ranking:
        """Return what the retriever finds, best first."""
        return to_ranking(self._for(request).retrieve(QueryBundle(request.query)))

    async def arank(self, request: Search) -> Ranking:
        """As `rank`, without blocking the event loop."""
        retriever = self._for(request)
        if blocks(retriever):  # its async code is the sync one of the base class
            return to_ranking(await asyncio.to_thread(retriever.retrieve, QueryBundle(request.query)))
        return to_ranking(await retriever.aretrieve(QueryBundle(request.query)))

    def _for(self, request: Search) -> BaseRetriever:
        return self._obey(request.where) if self._obey is not None and request.where else self.retriever


def retriever_route(retriever: BaseRetriever, *, obey: Obey | None = None) -> RetrieverRoute:
    """Return a LlamaIndex retriever as a route of the core.

        store = RoutedStore({"mine": retriever_route(mine)}, beside=library.store)
        services = Services(embedder=library.services.embedder, store=store)
        retriever = CatenaRetriever(services, routes=["dense", "lexical", "mine"], fusion=RankFusion())

    How many nodes it finds is set on the retriever; the best `depth` of them count. It embeds questions itself, and
    fires its own events. A node's chunk has the node's id: hits of several routes with one id are one hit, equal
    texts under two ids stay two.

    Args:
        retriever: as it stands; it is not changed.
        obey: from a filter of the core to a retriever that obeys it, e.g. one made with `filters=MetadataFilters(…)`.
            Without it, searches with a filter are refused.

    Raises:
        ParameterError: it is no retriever.
    """
    if not (hasattr(retriever, "retrieve") and hasattr(retriever, "aretrieve")):
        raise ParameterError("retriever", type(retriever).__name__, "a LlamaIndex retriever")
    return RetrieverRoute(retriever, obey)


class RetrieverStore(RoutedStore):
    """LlamaIndex retrievers as routes of a core store; see `retriever_store`."""

    def __init__(self, retrievers: Mapping[str, BaseRetriever], beside: Store | None = None) -> None:
        if not retrievers:
            raise ParameterError("retrievers", dict(retrievers), "at least one name with its retriever")
        super().__init__({name: retriever_route(retriever) for name, retriever in retrievers.items()}, beside)


def retriever_store(retrievers: Mapping[str, BaseRetriever], *, beside: Store | None = None) -> RetrieverStore:
    """Return a store whose routes are LlamaIndex retrievers, under the names given, each made by `retriever_route`.

    Their rankings count by rank: fuse them by `RankFusion`. They know nothing of Catena's filters: a search with one
    is refused. Nodes come back as they were.

    Args:
        retrievers: route name -> retriever.
        beside: answers all other routes, e.g. `library.store`.

    Raises:
        ParameterError: there is no retriever.
    """
    return RetrieverStore(retrievers, beside)

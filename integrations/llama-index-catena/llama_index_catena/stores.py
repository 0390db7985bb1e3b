"""LlamaIndex's retrievers as routes of a Catena store, ranked beside its own and fused by rank."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import QueryBundle

from catena.effects import Search, Store
from catena.model import ParameterError, Ranking, Where
from catena.retrieval import RoutedStore
from llama_index_catena.calls import blocks
from llama_index_catena.convert import to_ranking

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

"""LlamaIndex's retrievers as routes of a Catena store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from catena.effects import FindNames, NamesFound, Search
from catena.errors import FilterError, ParameterError
from catena.faults import service_error
from catena.model import Hit, Provenance, Ranking
from catena.ports import Store
from llama_index_catena.convert import to_ranking
from llama_index_catena.services import inherits


class RetrieverStore:
    """LlamaIndex retrievers as routes of a core store; see `retriever_store`."""

    def __init__(self, retrievers: Mapping[str, BaseRetriever], beside: Store | None) -> None:
        self._retrievers = dict(retrievers)
        self._beside = beside

    @property
    def routes(self) -> tuple[str, ...]:
        """The names of the retrievers, then those of the store beside them."""
        others = self._beside.routes if self._beside is not None else ()
        return (*self._retrievers, *(name for name in others if name not in self._retrievers))

    def search(self, request: Search) -> Ranking:
        """Return what the retriever of that name found, at most `request.k` hits."""
        retriever = self._retrievers.get(request.route)
        if retriever is None:
            return self._other(request).search(request)
        _check(request)
        try:
            return _ranking(retriever.retrieve(QueryBundle(request.query)), request)
        except Exception as error:
            raise service_error(error, request.route) from error

    async def asearch(self, request: Search) -> Ranking:
        """As `search`, without blocking the event loop."""
        retriever = self._retrievers.get(request.route)
        if retriever is None:
            beside: Any = self._other(request)
            if hasattr(beside, "asearch"):
                return cast("Ranking", await beside.asearch(request))
            return await asyncio.to_thread(beside.search, request)
        _check(request)
        if inherits(retriever, BaseRetriever, "_aretrieve"):
            return await asyncio.to_thread(self.search, request)
        try:
            return _ranking(await retriever.aretrieve(QueryBundle(request.query)), request)
        except Exception as error:
            raise service_error(error, request.route) from error

    def names(self, request: FindNames) -> NamesFound:
        """Return what the store beside the retrievers knows of a question's names."""
        beside: Any = self._beside
        return beside.names(request) if hasattr(beside, "names") else NamesFound()

    def _other(self, request: Search) -> Store:
        if self._beside is None:
            raise ParameterError("route", request.route, f"one of {sorted(self._retrievers)}")
        return self._beside


def retriever_store(retrievers: Mapping[str, BaseRetriever], *, beside: Store | None = None) -> RetrieverStore:
    """Return a store whose routes are LlamaIndex retrievers, under the names given.

    How many nodes a retriever finds is set on the retriever. It embeds queries itself, and knows nothing of
    Catena's filters: a search with one is refused. Nodes come back as they were; two with equal texts and
    different ids stay two.

    Args:
        retrievers: route name -> retriever.
        beside: answers all other routes, e.g. `library.store`.

    Raises:
        ParameterError: there is no retriever.
    """
    if not retrievers:
        raise ParameterError("retrievers", dict(retrievers), "at least one name with its retriever")
    return RetrieverStore(retrievers, beside)


def _check(request: Search) -> None:
    if request.where:
        raise FilterError(request.where, f"the LlamaIndex retriever of route {request.route!r} takes no filter")


def _ranking(nodes: Sequence[NodeWithScore], request: Search) -> Ranking:
    ranking = to_ranking(nodes)
    hits = (
        Hit(hit.chunk, hit.score, (Provenance(route=request.route, rank=rank, score=hit.score),))
        for rank, hit in enumerate(ranking.hits, start=1)
        if (request.among is None or hit.chunk.id in request.among)
        and (request.documents is None or hit.chunk.document_id in request.documents)
    )
    return Ranking.of(hits, ranking.scale).top(request.k)

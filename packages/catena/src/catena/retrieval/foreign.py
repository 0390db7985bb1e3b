"""Use rankings of other systems as routes beside a store's own: they count by rank, never by their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol, TypeVar, runtime_checkable

from catena.effects import (
    Fused,
    Handler,
    Holdings,
    Inspect,
    Request,
    Retry,
    Search,
    SearchFused,
    Services,
    arun,
    ask,
    run,
)
from catena.effects.ports import Store
from catena.model import Chunk, FilterError, Hit, ParameterError, Provenance, Ranking, Scale
from catena.retrieval.fusion import RankFusion

T = TypeVar("T")


@runtime_checkable
class ForeignRoute(Protocol):
    """A ranking of another system; where it also has `arank`, asyncio drivers await that.

    A route that can obey filters says so by an attribute `filters`, True; it is then given `request.where`.
    """

    def rank(self, request: Search) -> Ranking:
        """Return the chunks found, best first, with each one's raw score where there is one."""
        ...


class RoutedStore:
    """A store with rankings of others as further routes, and with all that it can besides.

        store = RoutedStore({"mine": route}, beside=library.store)
        services = Services(embedder=embedder, store=store)
        ranking = run(retrieve(query, routes=("lexical", "dense", "mine"), fusion=RankFusion()), services)

    Hits of all routes that have one chunk's id are one hit; ids are those of the chunks that a route returns. Filters
    are refused by a route that does not say that it obeys them. Scores of others have units of their own: such a
    ranking is in `Scale.RANK`, keeps them in its provenance, and fusion by score refuses it.

    Args:
        routes: name -> route; a name that the store beside has, too, is taken from here.
        beside: answers all else.

    Raises:
        ParameterError: there is no route, or one is none.
    """

    def __init__(self, routes: Mapping[str, ForeignRoute], beside: Store | None = None) -> None:
        if not routes:
            raise ParameterError("routes", dict(routes), "at least one name with its route")
        for name, route in routes.items():
            if not (hasattr(route, "rank") or hasattr(route, "arank")):
                allowed = "a route with rank(Search) -> Ranking"
                raise ParameterError(f"routes[{name!r}]", type(route).__name__, allowed)
        self._routes = dict(routes)
        self._beside = beside
        # whoever asks this store tries again; to do so here, too, would multiply the attempts
        once = Retry(attempts=1)
        self._others = Services(store=beside, retry=once)
        self._handlers = {
            name: Services(handlers={Search: _handler(name, route)}, retry=once) for name, route in routes.items()
        }

    @property
    def routes(self) -> tuple[str, ...]:
        """The names of the foreign routes, then those of the store beside them."""
        others = () if self._beside is None else self._beside.routes
        return (*self._routes, *(name for name in others if name not in self._routes))

    def search(self, request: Search) -> Ranking:
        """Return at most `request.k` hits of one route, best first.

        Raises:
            FilterError: the route cannot obey the filter.
            ParameterError: there is no such route; or scores of given chunks are asked for, as fusion by score does.
        """
        return self._ranked(run(ask([request]), self._services(request))[0], request)

    async def asearch(self, request: Search) -> Ranking:
        """As `search`, without blocking the event loop."""
        return self._ranked((await arun(ask([request]), self._services(request)))[0], request)

    def search_fused(self, request: SearchFused) -> Fused | None:
        """Return the store's ranking of a formula in one request; None where it cannot, or a foreign route counts."""
        return None if self._is_ours(request) else self._other(request, None)

    async def asearch_fused(self, request: SearchFused) -> Fused | None:
        """As `search_fused`, without blocking the event loop."""
        return None if self._is_ours(request) else await self._aother(request, None)

    def __getattr__(self, name: str) -> Any:
        """Answer all else (names, chunks, texts, places, states) as the store beside does, where it can."""
        if name.startswith("_") or self._beside is None:
            raise AttributeError(name)
        return getattr(self._beside, name)

    def inspect(self, request: Inspect) -> Holdings:
        """Return the holdings of the store beside; a route that obeys filters may know fields that it does not."""
        return self._told(self._other(request, Holdings()))

    async def ainspect(self, request: Inspect) -> Holdings:
        """As `inspect`, without blocking the event loop."""
        return self._told(await self._aother(request, Holdings()))

    def _told(self, held: Holdings) -> Holdings:
        filtering = any(getattr(route, "filters", False) for route in self._routes.values())
        return replace(held, fields=frozenset(), values={}) if filtering else held

    def _is_ours(self, request: SearchFused) -> bool:
        return any(name in self._routes for name, _ in request.weights)

    def _other(self, request: Request, nothing: Any) -> Any:
        return nothing if self._beside is None else run(ask([request]), self._others)[0]

    async def _aother(self, request: Request, nothing: Any) -> Any:
        return nothing if self._beside is None else (await arun(ask([request]), self._others))[0]

    def _services(self, request: Search) -> Services:
        if request.route not in self._routes:
            if self._beside is None:
                raise ParameterError("route", request.route, f"one of {sorted(self._routes)}")
            return self._others
        route = self._routes[request.route]
        if request.where and not getattr(route, "filters", False):
            what = f"route {request.route!r} takes no filter: it is a ranking of others; filter inside the retriever"
            raise FilterError(dict(request.where), what)
        if request.among is not None:
            allowed = f"RankFusion(...): the scores of route {request.route!r} have a unit of their own"
            raise ParameterError("fusion", "by score", allowed)
        return self._handlers[request.route]

    def _ranked(self, ranking: Ranking, request: Search) -> Ranking:
        return ranking if request.route not in self._routes else by_rank(ranking, request)


def by_rank(ranking: Ranking, request: Search) -> Ranking:
    """Return a ranking of others as one that counts by rank: in `Scale.RANK`, with each hit's way and raw score.

    Where the raw scores are not in the order of the hits, these have `1 / rank` instead.

    Args:
        ranking: in the order in which it was made; of hits with equal ids the first counts.
        request: its route names the way; its documents and its k are obeyed. Ranks, from 1, are those before
            documents are left out.
    """
    first: dict[str, Hit] = {}
    for hit in ranking.hits:
        first.setdefault(hit.chunk.id, hit)
    ordered = all(one.score >= other.score for one, other in pairwise(first.values()))
    hits: list[Hit] = []
    for rank, hit in enumerate(first.values(), start=1):
        if request.documents is None or hit.chunk.document_id in request.documents:
            way = Provenance(route=request.route, rank=rank, score=hit.score)
            hits.append(Hit(hit.chunk, hit.score if ordered else 1.0 / rank, (way,)))
    return Ranking(tuple(hits), Scale.RANK, ranking.degraded, ranking.unknown).top(request.k)


def ranked_chunks(found: Sequence[tuple[Chunk, float | None]]) -> Ranking:
    """Return a ranking of chunks that are given best first, each with its score, or `1 / rank` where it has none."""
    hits = (Hit(chunk, 1.0 / rank if score is None else score) for rank, (chunk, score) in enumerate(found, start=1))
    return Ranking(tuple(hits), Scale.RANK)


def _handler(name: str, route: Any) -> Handler:
    return Handler(identity=name, call=getattr(route, "rank", None), acall=getattr(route, "arank", None))


def named(
    retrievers: Mapping[str, T] | Sequence[T], weights: Mapping[str, float] | Sequence[float] | None
) -> tuple[dict[str, T], RankFusion]:
    """Return retrievers by the names of their routes, and the fusion of these by rank.

    Args:
        retrievers: by name; or a sequence of them, whose names are then those of their classes, numbered from the
            second one of a class on ("BM25Retriever", "BM25Retriever 2").
        weights: by name, or in the order of the retrievers; equal ones for None.

    Raises:
        ParameterError: there is no retriever, or there is not one weight for each.
    """
    by_name: dict[str, T] = {}
    if isinstance(retrievers, Mapping):
        by_name.update(retrievers)
    elif isinstance(retrievers, Sequence) and not isinstance(retrievers, str):
        for each in retrievers:
            kind = type(each).__name__
            same = sum(type(other) is type(each) for other in by_name.values())
            by_name[f"{kind} {same + 1}" if same else kind] = each
    if not by_name:
        raise ParameterError("retrievers", retrievers, "retrievers by name, as {'words': bm25}, or a list of them")
    if isinstance(weights, Mapping) and (unknown := [name for name in weights if name not in by_name]):
        raise ParameterError("weights", unknown[0], f"one of {', '.join(map(repr, by_name))}")
    if weights is None or isinstance(weights, Mapping):
        return by_name, RankFusion(k=60, weights=weights)
    if not isinstance(weights, Sequence) or len(weights) != len(by_name):
        raise ParameterError("weights", weights, f"a number for each of {', '.join(by_name)}, in this order")
    return by_name, RankFusion(k=60, weights=dict(zip(by_name, weights, strict=True)))

"""A question's routes in the core, with the texts or the vector that its query bundle has in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llama_index.core.schema import QueryBundle

from catena.effects import Embed, Search, Step, ask
from catena.retrieval.routes import ROUTES, Route, dense, stored


def routes_for(
    query_bundle: QueryBundle, routes: Sequence[str] | Mapping[str, Route]
) -> Sequence[str] | Mapping[str, Route]:
    """Return the routes, the dense one with `custom_embedding_strs` in place of the question, where it has some."""
    if not query_bundle.custom_embedding_strs or isinstance(routes, str):
        return routes
    named = routes if isinstance(routes, Mapping) else {name: _route(name) for name in routes}
    instead = by_texts(query_bundle.custom_embedding_strs)
    return {name: instead if route is dense else route for name, route in named.items()}


def _route(name: str) -> Route:
    return ROUTES.get(name) or stored(name)


def by_texts(texts: Sequence[str]) -> Route:
    """Return the dense route with the mean of these texts' vectors in place of the query's."""

    def route(query: str) -> Step[Search]:
        import numpy as np

        (rows,) = yield from ask([Embed(texts=tuple(texts), kind="query", purpose="query embedding")])
        mean = np.asarray(rows, dtype=np.float32).mean(axis=0)
        length = float(np.linalg.norm(mean))
        return Search(route="dense", query=query, vector=mean / length if length else mean, k=0)

    return route


def by_vector(vector: Sequence[float]) -> Route:
    """Return the dense route with this vector in place of the query's."""

    def route(query: str) -> Step[Search]:
        yield from ()  # a step, though it has nothing to ask
        return Search(route="dense", query=query, vector=vector, k=0)

    return route

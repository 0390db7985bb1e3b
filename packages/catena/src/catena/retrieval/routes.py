"""One way each from a query to a ranking, as steps: they run side by side and need only a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from catena.effects import Embed, Search, Step, ask

Route: TypeAlias = Callable[[str], Step[Search]]
"""From a query to the request that ranks chunks for it; `k`, filter and candidates are set by the caller."""


def stored(name: str, *, view: str | None = None) -> Route:
    """Return the route that asks the store for its route `name` over the views of kind `view`."""
    return partial(_stored, name, view)


def _stored(name: str, view: str | None, query: str) -> Step[Search]:
    yield from ()  # a step, though it has nothing to ask
    return Search(route=name, query=query, k=0, view=view)


def dense(query: str) -> Step[Search]:
    """Rank by the cosine of the query's vector with the chunks' vectors."""
    (vectors,) = yield from ask([Embed(texts=(query,), kind="query", purpose="query embedding")])
    return Search(route="dense", query=query, vector=vectors[0], k=0)


def dense_by_texts(texts: Sequence[str]) -> Route:
    """Return the dense route with the mean of these texts' vectors, of unit length, in place of the question's.

    Source: HyDE, Gao et al., ACL 2023, arXiv:2212.10496.
    """

    def route(query: str) -> Step[Search]:
        import numpy as np

        (rows,) = yield from ask([Embed(texts=tuple(texts), kind="query", purpose="query embedding")])
        mean = np.asarray(rows, dtype=np.float32).mean(axis=0)
        length = float(np.linalg.norm(mean))
        return Search(route="dense", query=query, vector=mean / length if length else mean, k=0)

    return route


lexical: Route = stored("lexical")
"""Rank by BM25 over the headed views."""

keyword: Route = stored("keyword")
"""Rank by the number of the query's critical terms that a chunk carries."""

passages: Route = stored("lexical", view="passage")
"""Rank long chunks by the BM25 of their best passage."""

ROUTES: Mapping[str, Route] = {"dense": dense, "lexical": lexical, "keyword": keyword, "passages": passages}

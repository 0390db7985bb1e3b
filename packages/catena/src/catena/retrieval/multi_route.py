"""Multi-route ranking: all routes side by side, fused into one ranking with provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, TypeVar

from catena.effects import Failed, Search, Step, ask, together
from catena.errors import FilterError, ParameterError, RouteError
from catena.filters import check
from catena.model import Degraded, Hit, Provenance, Ranking, Scale, Where
from catena.retrieval.fusion import RankFusion, ScoreFusion, reciprocal_rank_fusion, weighted_sum
from catena.retrieval.normalization import Bounds
from catena.retrieval.routes import ROUTES, Route, stored

Fusion: TypeAlias = ScoreFusion | RankFusion
OnRouteError: TypeAlias = Literal["raise", "degrade"]
T = TypeVar("T")

DEFAULT_ROUTES = ("lexical", "dense", "keyword")


def retrieve(
    query: str,
    *,
    k: int = 10,
    routes: Sequence[str] | Mapping[str, Route] = DEFAULT_ROUTES,
    where: Where | None = None,
    fusion: Fusion | None = None,
    depth: int | None = None,
    on_route_error: OnRouteError = "degrade",
) -> Step[Ranking]:
    """Return the k best chunks for a query over several routes.

    Each route gives its best `depth` hits. For fusion by score, a second round asks each route for the
    chunks that only the others found, so that every candidate has all its parts; then the formula of
    `ScoreFusion` is exact for each of them.

    Args:
        query: what the user asks, as typed.
        k: length of the ranking, >= 0.
        routes: names of routes (any but "dense" is asked from the store under its name), or name -> step.
        where: a filter that every route obeys.
        fusion: `ScoreFusion()` by default; with one route its own scores are kept.
        depth: hits per route, >= k; by default max(3 k, 30).
        on_route_error: "degrade" ranks by the other routes and says so in `Ranking.degraded`; "raise" raises.

    Returns:
        One hit per chunk in `Scale.NORMALIZED` (score fusion), `Scale.RANK` (rank fusion), or the scale of
        the single route.

    Raises:
        ParameterError: an argument is of another type or out of range, or no route is given.
        FilterError: the filter is malformed, or a route cannot obey it, whatever `on_route_error` says.
        RouteError: a route failed and `on_route_error` is "raise", or every route failed.
    """
    depth = max(3 * k, 30) if depth is None and isinstance(k, int) else depth
    _check(query, k, depth, fusion=fusion, where=where, on_route_error=on_route_error)
    table = _table(routes)
    fusion = ScoreFusion() if fusion is None else fusion
    if k == 0 or not query.strip():
        return Ranking((), _scale_of(fusion))
    found, failures = yield from _side_by_side(
        {name: _searched(route(query), k=depth, where=where) for name, route in table.items()}, on_route_error
    )
    if not found:
        raise RouteError(", ".join(table), "; ".join(failure.why for failure in failures), all_failed=True)
    rankings = {name: ranking for name, (_, ranking) in found.items()}
    if len(table) == 1:
        (only,) = rankings.values()
        return only.top(k)
    if isinstance(fusion, RankFusion):
        fused = reciprocal_rank_fusion(rankings, weights=fusion.weights, k=fusion.k)
    else:
        bounds = {name: Bounds.of(ranking) for name, ranking in rankings.items()}
        complete, more = yield from _completed(found, on_route_error)
        fused = weighted_sum(complete, fusion.parts, bounds=bounds)
        failures = [*failures, *more]
    return replace(fused.top(k), degraded=(*fused.degraded, *failures))


def _check(
    query: object, k: object, depth: object, *, fusion: object, where: Where | None, on_route_error: object
) -> None:
    """Raise for arguments that are of another type or out of range; nothing was asked yet."""
    if not isinstance(query, str):
        raise ParameterError("query", query, "a string")
    if not isinstance(k, int) or k < 0:
        raise ParameterError("k", k, "an integer >= 0")
    if not isinstance(depth, int) or depth < k:
        raise ParameterError("depth", depth, f"an integer >= k ({k})")
    if fusion is not None and not isinstance(fusion, ScoreFusion | RankFusion):
        raise ParameterError("fusion", fusion, "ScoreFusion(...), RankFusion(...) or None")
    if on_route_error not in ("raise", "degrade"):
        raise ParameterError("on_route_error", on_route_error, "'raise' or 'degrade'")
    if where is not None:
        check(where)


def _scale_of(fusion: Fusion) -> Scale:
    return Scale.RANK if isinstance(fusion, RankFusion) else Scale.NORMALIZED


def _table(routes: Sequence[str] | Mapping[str, Route]) -> Mapping[str, Route]:
    """Return name -> route, in a fixed order."""
    if isinstance(routes, str):
        raise ParameterError("routes", routes, "a sequence of route names, e.g. ('lexical', 'dense')")
    named = routes if isinstance(routes, Mapping) else {name: ROUTES.get(name) or stored(name) for name in routes}
    if not named:
        raise ParameterError("routes", tuple(routes), "at least one route")
    return {name: named[name] for name in sorted(named)}


def _searched(route: Step[Search], *, k: int, where: Where | None) -> Step[tuple[Search, Ranking]]:
    """Return the route's request and the ranking that answers it."""
    request = replace((yield from route), k=k, where=where)
    (ranking,) = yield from ask([request])
    return request, ranking


def _side_by_side(
    steps: Mapping[str, Step[T]], on_route_error: OnRouteError
) -> Step[tuple[dict[str, T], list[Degraded]]]:
    """Run the routes' steps together; return what they gave, and the failures where these are tolerated."""
    results = yield from together(list(steps.values()))
    found: dict[str, T] = {}
    failures: list[Degraded] = []
    for name, result in zip(steps, results, strict=True):
        if not isinstance(result, Failed):
            found[name] = result
        elif isinstance(result.error, (FilterError, ParameterError)):
            raise result.error
        elif on_route_error == "raise":
            raise RouteError(name, _why(result.error)) from result.error
        else:
            failures.append(Degraded(f"route {name}", _why(result.error)))
    return found, failures


def _completed(
    found: Mapping[str, tuple[Search, Ranking]], on_route_error: OnRouteError
) -> Step[tuple[dict[str, Ranking], list[Degraded]]]:
    """Return the rankings with the chunks added that only other routes had found, with their true scores."""
    ids = {name: {hit.chunk.id for hit in ranking.hits} for name, (_, ranking) in found.items()}
    candidates = set().union(*ids.values())
    requests = {
        name: replace(request, k=len(missing), among=missing)
        for name, (request, _) in found.items()
        if (missing := tuple(sorted(candidates - ids[name])))
    }
    more, failures = yield from _side_by_side(
        {name: _one(request) for name, request in requests.items()}, on_route_error
    )
    extra = {name: tuple(map(_unranked, ranking.hits)) for name, ranking in more.items()}
    complete = {
        name: Ranking.of((*ranking.hits, *extra.get(name, ())), ranking.scale, ranking.degraded)
        for name, (_, ranking) in found.items()
    }
    return complete, failures


def _one(request: Search) -> Step[Ranking]:
    (ranking,) = yield from ask([request])
    return ranking  # type: ignore[no-any-return]


def _unranked(hit: Hit) -> Hit:
    """Return the hit without ranks: it was asked for by id, so its place in the whole ranking is unknown."""
    ways = (Provenance(route=way.route, rank=None, score=way.score, view=way.view) for way in hit.provenance)
    return Hit(hit.chunk, hit.score, tuple(ways))


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__

"""Multi-route ranking: all routes side by side, fused into one ranking with provenance."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

from catena.effects import Embed, Failed, FindNames, Fused, NamesFound, Search, SearchFused, Step, ask, together
from catena.model import Degraded, Name, Ranking, Scale, Unknown, Where
from catena.model.errors import FilterError, MissingServiceError, ParameterError, RouteError
from catena.model.filters import check
from catena.retrieval.fusion import RankFusion, ScoreFusion, check_scores, reciprocal_rank_fusion, weighted_sum
from catena.retrieval.limits import QuestionLimits
from catena.retrieval.normalization import Bounds, by_maximum, half_cosine, log_count
from catena.retrieval.routes import ROUTES, Route, stored
from catena.retrieval.shares import interleave, standing_nowhere, unranked
from catena.text.names import without

Fusion: TypeAlias = ScoreFusion | RankFusion
OnRouteError: TypeAlias = Literal["raise", "degrade"]
OnUnknown: TypeAlias = Literal["empty", "keep"]
T = TypeVar("T")

DEFAULT_ROUTES = ("lexical", "dense", "keyword")
FORMULA = frozenset(DEFAULT_ROUTES)  # the routes whose parts `SearchFused` knows
MOST_NAMES = 8  # of one question that get a share of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """What one round of searches has in common."""

    k: int
    depth: int
    where: Where | None
    fusion: Fusion
    on_route_error: OnRouteError
    documents: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Fused:
    """Several routes' rankings as one; with the bounds that their scores were normalised by."""

    ranking: Ranking
    bounds: Mapping[str, Bounds]


def retrieve(
    query: str,
    *,
    k: int = 10,
    routes: Sequence[str] | Mapping[str, Route] = DEFAULT_ROUTES,
    where: Where | None = None,
    fusion: Fusion | None = None,
    depth: int | None = None,
    on_route_error: OnRouteError = "degrade",
    by_name: bool = True,
    entities: Sequence[str] = (),
    on_unknown: OnUnknown = "empty",
    limits: QuestionLimits | None = None,
) -> Step[Ranking]:
    """Return the k best chunks for a query over several routes.

    A store that answers `SearchFused` makes the whole ranking of `ScoreFusion` itself. Otherwise each route gives its
    best `depth` hits. For fusion by score, a second round asks each route for the
    chunks that only the others found, so that every candidate has all its parts; then the formula of
    `ScoreFusion` is exact for each of them.

    A question that says names of documents (their titles, or codes in them) is decomposed: each name gets its share,
    a ranking within its documents by what the question asks besides the names, with scores normalised by the bounds
    of the whole. The shares and the ranking over everything take turns; so "which has more RAM, A or B" finds A's
    page and B's, and a passage that does not say whose it is keeps its place.

    A name that the question says and that stands nowhere comes back in `Ranking.unknown`.

    Args:
        query: what the user asks, as typed.
        k: length of the ranking, >= 0.
        routes: names of routes (any but "dense" is asked from the store under its name), or name -> step.
        where: a filter that every route obeys.
        fusion: `ScoreFusion()` by default; with one route its own scores are kept.
        depth: hits per route, >= k; by default max(3 k, 30).
        on_route_error: "degrade" ranks by the other routes and says so in `Ranking.degraded`; "raise" raises.
        by_name: whether names are looked for; never where a single route is asked, or by a store that knows none.
        entities: names in the question that a recogniser or the caller found, besides those found without a model.
        on_unknown: "empty" returns no hits when the question says no known name, and one that is like a known one
            but stands nowhere: its neighbours would be answers about another product. "keep" returns them.
        limits: how long the query and how wide the filter may be; `QuestionLimits()` by default.

    Returns:
        One hit per chunk in `Scale.NORMALIZED` (score fusion), `Scale.RANK` (rank fusion, or shares of names), or
        the scale of the single route.

    Raises:
        ParameterError: an argument is of another type or out of range, or no route is given.
        FilterError: the filter is malformed, or a route cannot obey it, whatever `on_route_error` says.
        RouteError: a route failed and `on_route_error` is "raise", or every route failed.
    """
    depth = max(3 * k, 30) if depth is None and isinstance(k, int) else depth
    _check_entities(entities)
    _check(query, k, depth, fusion=fusion, where=where, on_route_error=on_route_error, on_unknown=on_unknown)
    (limits or QuestionLimits()).check(query, where)
    table = routes_named(routes)
    fusion = ScoreFusion() if fusion is None else fusion
    _check_weights(fusion, table)
    if k == 0 or not query.strip():
        return Ranking((), _scale_of(fusion))
    scope = _Scope(k=k, depth=depth, where=where, fusion=fusion, on_route_error=on_route_error)
    names, failures = (
        (yield from _names(query, entities, scope)) if by_name and len(table) > 1 else (NamesFound(), ())
    )
    unknown = yield from standing_nowhere(names.unknown, where)
    is_another = not (names.known or names.properties) and any(name.near for name in unknown)
    if where is not None:  # what the filter hides is not shown as near either
        unknown = tuple(Unknown(name.text) for name in unknown)
    if on_unknown == "empty" and is_another:
        return Ranking((), _scale_of(fusion), unknown=unknown)
    found = yield from _fused(query, table, scope)
    ranking = found.ranking
    if names.known:
        ranking = interleave((yield from _shares(query, names.known[:MOST_NAMES], table, scope, found)), ranking)
    return replace(ranking.top(k), degraded=(*ranking.degraded, *failures), unknown=unknown)


def _names(query: str, entities: Sequence[str], scope: _Scope) -> Step[tuple[NamesFound, tuple[Degraded, ...]]]:
    """Return what the question names, and the failure to find that out where failures are tolerated."""
    (names,) = yield [FindNames(query=query, also=tuple(entities))]
    if not isinstance(names, Failed):
        return names, ()
    if isinstance(names.error, MissingServiceError):  # whoever answers searches without a store need not know names
        return NamesFound(), ()
    if scope.on_route_error == "raise":
        raise RouteError("names", _why(names.error)) from names.error
    return NamesFound(), (Degraded("names in the question", _why(names.error)),)


def _fused(
    query: str, table: Mapping[str, Route], scope: _Scope, bounds: Mapping[str, Bounds] | None = None
) -> Step[_Fused]:
    """Return the ranking of the routes' candidates, and what failed on the way in it."""
    failures: list[Degraded] = []
    weights = _in_one_go(table, scope.fusion)
    if weights:
        table = yield from _embedded(query, table)
        whole = yield from _by_formula(query, table, weights, scope, bounds)
        if isinstance(whole, _Fused):
            return whole
        failures += whole
    found, lost = yield from _side_by_side(
        {name: _searched(route(query), scope) for name, route in table.items()}, scope.on_route_error
    )
    failures += lost
    if not found:
        raise RouteError(", ".join(table), "; ".join(failure.why for failure in lost), all_failed=True)
    rankings = {name: ranking for name, (_, ranking) in found.items()}
    if bounds is None:
        bounds = {name: Bounds.of(ranking) for name, ranking in rankings.items()}
    if len(table) == 1:
        (fused,) = rankings.values()
    elif isinstance(scope.fusion, RankFusion):
        fused = reciprocal_rank_fusion(rankings, weights=scope.fusion.weights, k=scope.fusion.k, top=scope.k)
    else:
        complete, more = yield from _completed(found, scope.on_route_error)
        check_scores({name: ranking for name, ranking in complete.items() if name in scope.fusion.parts})
        fused = weighted_sum(complete, scope.fusion.parts, bounds=bounds, k=scope.k)
        failures = [*failures, *more]
    told = tuple(dict.fromkeys((*fused.degraded, *failures)))  # each once, that all routes tell
    return _Fused(replace(fused, degraded=told), bounds)


def _embedded(query: str, table: Mapping[str, Route]) -> Step[Mapping[str, Route]]:
    """Return the routes with the question's vector in the dense one, or with what its embedding failed with."""
    if "dense" not in table:
        return table
    (vectors,) = yield [Embed(texts=(query,), kind="query", purpose="query embedding")]

    def dense(query: str) -> Step[Search]:
        yield from ()  # a step, though it has nothing to ask any more
        if isinstance(vectors, Failed):
            raise vectors.error
        return Search(route="dense", query=query, vector=vectors[0], k=0)

    return {**table, "dense": dense}


def _by_formula(
    query: str,
    table: Mapping[str, Route],
    weights: Mapping[str, float],
    scope: _Scope,
    bounds: Mapping[str, Bounds] | None,
) -> Step[_Fused | list[Degraded]]:
    """Return the ranking that the store makes of the whole formula, or why it makes none: routes may still work."""
    vector = None
    if "dense" in table:
        try:
            vector = (yield from table["dense"](query)).vector
        except Exception:  # the dense route says what the embedding failed with
            return []
    best = bounds["lexical"].high if bounds and "lexical" in bounds else None
    request = SearchFused(
        query=query, k=scope.k, weights=tuple(sorted(weights.items())), vector=vector, best=best, where=scope.where,
        documents=scope.documents,
    )  # fmt: skip
    (fused,) = yield [request]
    if isinstance(fused, Fused):
        return _Fused(fused.ranking, {"lexical": Bounds(low=0.0, high=fused.best)})
    if fused is None or isinstance(fused.error, MissingServiceError):
        return []
    if isinstance(fused.error, (FilterError, ParameterError)):
        raise fused.error
    if scope.on_route_error == "raise":
        raise RouteError("formula", _why(fused.error)) from fused.error
    return [Degraded("formula in one request", _why(fused.error))]


def _shares(
    query: str, names: Sequence[Name], table: Mapping[str, Route], scope: _Scope, general: _Fused
) -> Step[dict[str, Ranking]]:
    """Return for each name the ranking of its documents by what the question asks besides the names.

    A share that fails is left out: the general ranking said already what failed.
    """
    rest = without(query, (name.text for name in names)) or query
    steps = [_fused(rest, table, replace(scope, documents=name.documents), general.bounds) for name in names]
    results = yield from together(steps)
    return {
        name.text: result.ranking for name, result in zip(names, results, strict=True) if isinstance(result, _Fused)
    }


def _check_entities(entities: object) -> None:
    are_strings = isinstance(entities, Sequence) and all(isinstance(entity, str) for entity in entities)
    if isinstance(entities, str) or not are_strings:
        raise ParameterError("entities", entities, "a sequence of strings")


def _check(
    query: object,
    k: object,
    depth: object,
    *,
    fusion: object,
    where: Where | None,
    on_route_error: object,
    on_unknown: object,
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
    if on_unknown not in ("empty", "keep"):
        raise ParameterError("on_unknown", on_unknown, "'empty' or 'keep'")
    if on_route_error not in ("raise", "degrade"):
        raise ParameterError("on_route_error", on_route_error, "'raise' or 'degrade'")
    if where is not None:
        check(where)


def _check_weights(fusion: Fusion, table: Mapping[str, Route]) -> None:
    """Refuse a weight for a route that is neither asked nor known: a mistyped one would change nothing."""
    weighed = fusion.weights or {} if isinstance(fusion, RankFusion) else {}
    for name in weighed:
        if name not in table and name not in ROUTES:
            raise ParameterError("weights", name, f"names of routes, one of {', '.join(map(repr, table))}")


def _in_one_go(table: Mapping[str, Route], fusion: Fusion) -> Mapping[str, float]:
    """Return route -> weight where a store may compute the whole formula itself; nothing where it is another one."""
    if len(table) < 2 or not isinstance(fusion, ScoreFusion):
        return {}
    papers = (fusion.dense, fusion.lexical, fusion.keyword) == (half_cosine, by_maximum, log_count)
    standard = all(name in FORMULA and route is ROUTES[name] for name, route in table.items())
    return {name: fusion.parts[name][0] for name in table} if papers and standard else {}


def _scale_of(fusion: Fusion) -> Scale:
    return Scale.RANK if isinstance(fusion, RankFusion) else Scale.NORMALIZED


def routes_named(routes: Sequence[str] | Mapping[str, Route]) -> Mapping[str, Route]:
    """Return name -> route, in a fixed order.

    Raises:
        ParameterError: there is none, or one name is given in place of a sequence.
    """
    names = routes if isinstance(routes, Collection) and not isinstance(routes, str) else (None,)
    of_our_own = routes.values() if isinstance(routes, Mapping) else ()
    if not all(isinstance(name, str) for name in names) or not all(map(callable, of_our_own)):
        allowed = "route names, e.g. ('lexical', 'dense'), or routes (functions) by name"
        raise ParameterError("routes", routes, allowed)
    named = routes if isinstance(routes, Mapping) else {name: ROUTES.get(name) or stored(name) for name in routes}
    if not named:
        raise ParameterError("routes", tuple(routes), "at least one route")
    return {name: named[name] for name in sorted(named)}


def _searched(route: Step[Search], scope: _Scope) -> Step[tuple[Search, Ranking]]:
    """Return the route's request and the ranking that answers it."""
    request = replace((yield from route), k=scope.depth, where=scope.where, documents=scope.documents)
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
    complete = {name: ranking for name, (_, ranking) in found.items()}
    for name, extra in more.items():  # no chunk twice, and in no order: sums need none
        hits = (*complete[name].hits, *map(unranked, extra.hits))
        complete[name] = Ranking(hits, complete[name].scale, complete[name].degraded)
    return complete, failures


def _one(request: Search) -> Step[Ranking]:
    (ranking,) = yield from ask([request])
    return ranking  # type: ignore[no-any-return]


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__

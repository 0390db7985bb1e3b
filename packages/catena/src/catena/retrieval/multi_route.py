"""Rank chunks for a question: ask all routes, complete and fuse their rankings, and give each name its share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from annotated_types import Ge

from catena.effects import Failed, FindNames, NamesFound, Search, Step, ask, together
from catena.model import Degraded, MissingServiceError, Name, ParameterError, Ranking, RouteError, Unknown, Where
from catena.model.filters import check
from catena.model.options import check_given
from catena.retrieval.fusion import Fusion, ScoreFusion, fuse, interleave, unranked
from catena.retrieval.routes import (
    DEFAULT_ROUTES,
    OnRouteError,
    OnUnknown,
    QuestionLimits,
    Route,
    Scope,
    check_weights,
    in_one_request,
    routes_named,
    side_by_side,
    why,
)
from catena.text.names import TermMatcher, names_by_case, without
from catena.text.stems import says_more

MOST_NAMES = 8  # of one question that get a share of their own
MOST_UNKNOWN = 50  # names of one question that are looked for: a log that is pasted in holds thousands of codes
_LOOKED_AT = 30  # hits that are searched for a name before it is said to be printed nowhere


def retrieve(
    query: str,
    *,
    k: Annotated[int, Ge(0)] = 10,
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
    best `depth` hits. For fusion by score, a second round asks each route for the chunks that only the others found,
    so that every candidate has all its parts; then the formula of `ScoreFusion` is exact for each of them.

    Where a question says names of documents (their titles, codes in them, or what else tells them from their
    neighbours), each name gets its share: a ranking within its documents, and sections of others that it heads, by
    what the question asks besides the names. The shares and the ranking over everything take turns; so "which has
    more RAM, A or B" finds A's page and B's, and a passage that does not say whose it is keeps its place.

    A name that the question says and no passage prints comes back in `Ranking.unknown`.

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
            but is printed nowhere: its neighbours would be answers about another product. "keep" returns them.
        limits: how long the query and how wide the filter may be; `QuestionLimits()` by default.

    Returns:
        One hit per chunk in `Scale.NORMALIZED` (score fusion), `Scale.RANK` (rank fusion, or shares of names), or
        the scale of the single route.

    Raises:
        ParameterError: an argument is of another type or out of range, or no route is given.
        FilterError: the filter is malformed, or a route cannot obey it, also where `on_route_error` is "degrade".
        RouteError: a route failed and `on_route_error` is "raise", or every route failed.
    """
    given = {"query": query, "k": k, "fusion": fusion, "on_route_error": on_route_error, "on_unknown": on_unknown}
    check_given({**given, "entities": entities}, retrieve)
    if not all(isinstance(entity, str) for entity in entities):
        raise ParameterError("entities", entities, "a sequence of strings")
    depth = deep_enough(k) if depth is None else depth
    if not isinstance(depth, int) or depth < k:
        raise ParameterError("depth", depth, f"an integer >= k ({k})")
    if where is not None:
        check(where)
    (limits or QuestionLimits()).check(query, where)
    table = routes_named(routes)
    fusion = ScoreFusion() if fusion is None else fusion
    check_weights(fusion, table)
    if k == 0 or not query.strip():
        return Ranking((), fusion.scale)
    scope = Scope(k=k, depth=depth, where=where, fusion=fusion, on_route_error=on_route_error)

    # the names in the question: those of documents, and those that no passage prints
    names, failures = (
        (yield from _names(query, entities, on_route_error)) if by_name and len(table) > 1 else (NamesFound(), ())
    )
    unknown = yield from standing_nowhere(names.unknown, where)
    if by_name and len(table) > 1 and names == NamesFound():
        unknown = yield from _capitals_nowhere(query)
    is_another = not (names.known or names.properties) and any(name.near for name in unknown)
    if where is not None:  # what the filter hides is not shown as near either
        unknown = tuple(Unknown(name.text) for name in unknown)
    if on_unknown == "empty" and is_another:
        return Ranking((), fusion.scale, unknown=unknown)

    # the ranking over everything; then each known name takes turns with it
    ranking = yield from _fused(query, table, scope)
    if named := (*names.known, *names.parts)[:MOST_NAMES]:
        ranking = interleave((yield from _shares(query, named, table, scope)), ranking)
    return replace(ranking.top(k), degraded=(*ranking.degraded, *failures), unknown=unknown)


def deep_enough(k: int) -> int:
    """Return how many hits each route is asked for where k are wanted."""
    return max(3 * k, 30)


def _names(
    query: str, entities: Sequence[str], on_route_error: OnRouteError
) -> Step[tuple[NamesFound, tuple[Degraded, ...]]]:
    """Return the names in the question, and the failure to find them where failures are tolerated."""
    (names,) = yield [FindNames(query=query, also=tuple(entities))]
    if not isinstance(names, Failed):
        return names, ()
    if isinstance(names.error, MissingServiceError):  # whoever answers searches without a store need not know names
        return NamesFound(), ()
    if on_route_error == "raise":
        raise RouteError("names", why(names.error)) from names.error
    return NamesFound(), (Degraded("names in the question", why(names.error)),)


def standing_nowhere(names: Sequence[Unknown], where: Where | None) -> Step[tuple[Unknown, ...]]:
    """Return those of the first 50 names that no passage prints, as far as the store's lexical route shows.

    A store that has no lexical route cannot tell: nothing is claimed then.
    """
    if not names:
        return ()
    names = names[:MOST_UNKNOWN]
    replies = yield [Search(route="lexical", query=name.text, k=_LOOKED_AT, where=where) for name in names]

    def is_printed(name: str, found: Ranking) -> bool:
        matcher = TermMatcher([name])
        return any(matcher.all_in("\n".join((*hit.chunk.path, hit.chunk.text))) for hit in found.hits)

    asked = zip(names, replies, strict=True)
    return tuple(name for name, found in asked if not (isinstance(found, Failed) or is_printed(name.text, found)))


def _capitals_nowhere(query: str) -> Step[tuple[Unknown, ...]]:
    """Return the words that a question writes as names and of which the store's lexical route finds no form."""
    words = names_by_case(query, first=True)[:MOST_UNKNOWN]
    replies = (yield [Search(route="lexical", query=word, k=1) for word in words]) if words else ()
    asked = zip(words, replies, strict=True)
    return tuple(Unknown(word) for word, found in asked if not (isinstance(found, Failed) or found.hits))


def _fused(query: str, table: Mapping[str, Route], scope: Scope) -> Step[Ranking]:
    """Return the ranking of all that the routes found, and what failed on the way."""
    table, whole, failures = yield from in_one_request(query, table, scope)
    if whole is not None:
        return whole.ranking
    found, lost = yield from side_by_side(
        {name: _searched(route(query), scope) for name, route in table.items()}, scope.on_route_error
    )
    if not found:
        raise RouteError(", ".join(table), "; ".join(failure.why for failure in lost), all_failed=True)
    rankings = {name: ranking for name, (_, ranking) in found.items()}
    more: list[Degraded] = []
    if len(table) == 1:
        (fused,) = rankings.values()
    else:
        if isinstance(scope.fusion, ScoreFusion):
            rankings, more = yield from completed(found, scope.on_route_error)
        fused = fuse(rankings, scope.fusion, k=scope.k)
    told = tuple(dict.fromkeys((*fused.degraded, *failures, *lost, *more)))  # each once, that all routes tell
    return replace(fused, degraded=told)


def _searched(route: Step[Search], scope: Scope) -> Step[tuple[Search, Ranking]]:
    """Return the route's request and the ranking that answers it."""
    asked = yield from route
    request = replace(asked, k=scope.depth, where=scope.where, documents=scope.documents, besides=scope.besides)
    return request, (yield from _answered(request))


def _answered(request: Search) -> Step[Ranking]:
    (ranking,) = yield from ask([request])
    return ranking  # type: ignore[no-any-return]


def completed(
    found: Mapping[str, tuple[Search, Ranking]], on_route_error: OnRouteError
) -> Step[tuple[dict[str, Ranking], list[Degraded]]]:
    """Return the rankings with the chunks added that only other routes had found, with their true scores.

    A route that gave fewer than it was asked for has no score for any other.
    """
    ids = {name: {hit.chunk.id for hit in ranking.hits} for name, (_, ranking) in found.items()}
    candidates = set().union(*ids.values())
    requests = {
        name: replace(request, k=len(missing), among=missing)
        for name, (request, ranking) in found.items()
        if len(ranking.hits) >= request.k and (missing := tuple(sorted(candidates - ids[name])))
    }
    more, failures = yield from side_by_side(
        {name: _answered(request) for name, request in requests.items()}, on_route_error
    )
    complete = {name: ranking for name, (_, ranking) in found.items()}
    for name, extra in more.items():  # no chunk twice, and in no order: sums need none
        hits = (*complete[name].hits, *map(unranked, extra.hits))
        complete[name] = Ranking(hits, complete[name].scale, complete[name].degraded)
    return complete, failures


def _shares(query: str, names: Sequence[Name], table: Mapping[str, Route], scope: Scope) -> Step[dict[str, Ranking]]:
    """Return for each name the ranking of its documents, and of sections that it heads, by what else is asked.

    A share that fails is left out: the general ranking said already what failed.
    """
    rest = without(query, (name.text for name in names))
    if not says_more(rest):
        rest = query
    steps = [_fused(rest, table, replace(scope, documents=name.documents, besides=name.headed)) for name in names]
    results = yield from together(steps)
    return {name.text: result for name, result in zip(names, results, strict=True) if isinstance(result, Ranking)}

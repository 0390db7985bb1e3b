"""Several views of the same chunks, one ranking: the paper's rule or another, and which view found what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil, isfinite
from typing import Literal, TypeAlias

from catena.effects import Failed, Step, together
from catena.model import Chunk, Degraded, Hit, Provenance, Ranking, Scale, Where
from catena.model.errors import FilterError, ParameterError, RouteError, ViewError
from catena.retrieval.multi_route import Fusion, retrieve
from catena.retrieval.routes import ROUTES, Route, stored
from catena.retrieval.view_adaptive import AdaptiveQuota
from catena.retrieval.view_routes import asked_once, of_view
from catena.retrieval.view_rules import (
    PRINTED_QUOTAS,
    ExactUnion,
    PaperQuota,
    ViewRankFusion,
    ViewRule,
    ViewScoreFusion,
    quota,
)

__all__ = [
    "multi_view",
    "retrieve_views",
    "found_by",
    "quota",
    "PRINTED_QUOTAS",
    "ViewRule",
    "PaperQuota",
    "ExactUnion",
    "ViewRankFusion",
    "ViewScoreFusion",
    "AdaptiveQuota",
    "SearchView",
    "OnViewError",
    "PAPER_VIEWS",
]

PAPER_VIEWS = ("raw", "keywords", "summary")
PAPER_RULE = PaperQuota()

SearchView: TypeAlias = Callable[[str], Route | Sequence[str] | Mapping[str, Route]]
"""From a kind of view to how it is searched: one route, names of routes of the store, or name -> route."""

OnViewError: TypeAlias = Literal["raise", "degrade"]


def multi_view(rankings: Mapping[str, Ranking], rule: ViewRule = PAPER_RULE, k: float = 3) -> Ranking:
    """Return one ranking of chunks out of one ranking per view.

    Args:
        rankings: kind of view -> chunks, best first. The order of the views settles what is equal for rules that take
            turns, and nothing else. A chunk that stands twice in one of them counts where it stands first.
        rule: how they become one.
        k: how many chunks, >= 0; the paper's rule takes 1.5, and returns as many as its views differ.

    Returns:
        Each chunk once, best first, in the scale of the rule. The provenance of a hit names every view that ranked
        it, also below what the rule took from it: its rank there (from 1) and its raw score there, best rank first
        (see `found_by`). Where several routes had been fused in one view, theirs follow. What degraded in a view
        is told.

    Raises:
        ParameterError: there is no ranking, k is out of range or not whole, or weights name no such view.
    """
    _check(rankings, rule, k)
    distinct = {kind: _distinct(ranking) for kind, ranking in rankings.items()}
    ways: dict[str, list[tuple[Provenance, ...]]] = {}
    chunks: dict[str, Chunk] = {}
    for kind in sorted(distinct):
        for rank, hit in enumerate(distinct[kind].hits, start=1):
            chunks.setdefault(hit.chunk.id, hit.chunk)
            ways.setdefault(hit.chunk.id, []).append(_ways(kind, rank, hit))
    hits = (
        Hit(
            chunks[chunk_id],
            score,
            tuple(way for ways_of_view in _best_first(ways[chunk_id]) for way in ways_of_view),
        )
        for chunk_id, score in rule.choose(distinct, k)
    )
    degraded = dict.fromkeys(part for kind in sorted(distinct) for part in distinct[kind].degraded)
    unknown = dict.fromkeys(name for kind in sorted(distinct) for name in distinct[kind].unknown)
    return Ranking(tuple(hits), rule.scale, tuple(degraded), tuple(unknown))


def found_by(hit: Hit) -> dict[str, int | None]:
    """Return kind of view -> rank of the hit in that view's ranking (from 1), the view that ranked it best first."""
    found: dict[str, int | None] = {}
    for way in hit.provenance:
        found.setdefault(way.view, way.rank)
    return found


def retrieve_views(
    query: str,
    *,
    views: Sequence[str] = PAPER_VIEWS,
    k: float = 3,
    rule: ViewRule = PAPER_RULE,
    search: SearchView | None = None,
    fusion: Fusion | None = None,
    depth: int | None = None,
    where: Where | None = None,
    on_view_error: OnViewError = "degrade",
) -> Step[Ranking]:
    """Search each view side by side and return one ranking of chunks; see `multi_view`.

    A view is searched by routes of the store, or by whatever answers `Search` requests. Several routes of one view
    (`search=lambda kind: ("dense", "lexical")`) are fused first, then the views by the rule. A route is a step that
    returns a `Search`, not a ranking: where retrievers of your own return rankings, give these to `multi_view`, as in
    `multi_view({kind: mine(query, kind) for kind in views}, rule, k)`.

    Args:
        query: what the user asks, as typed.
        views: kinds of view, in the order in which they take turns; a kind named twice is searched once.
        k: how many chunks, >= 0; see `multi_view`.
        rule: how the views become one; the paper's by default.
        search: kind of view -> its route or routes; by default the store's dense vectors of that kind. A route that
            names no view is asked for this one.
        fusion: of several routes of one view; `ScoreFusion()` by default, which knows dense, lexical and keyword.
        depth: hits per view, >= k; by default max(3 k, 30). Rules that fuse see no deeper, and attribution neither.
        where: a filter that every view obeys.
        on_view_error: "degrade" ranks by the other views and says so in `Ranking.degraded`; "raise" raises.

    Returns:
        At most k chunks (the paper's rule: its union), in the scale of the rule.

    Raises:
        ParameterError: an argument is of another type or out of range.
        FilterError: the filter is malformed, or a route cannot obey it, whatever `on_view_error` says.
        ViewError: a view failed and `on_view_error` is "raise", or every view failed.
    """
    kinds = _kinds(views)
    _check_k(k)
    _check_rule(rule)
    if on_view_error not in ("raise", "degrade"):
        raise ParameterError("on_view_error", on_view_error, "'raise' or 'degrade'")
    if k == 0 or (isinstance(query, str) and not query.strip()):
        return Ranking((), rule.scale)
    depth = max(3 * ceil(k), 30) if depth is None else depth
    if not isinstance(depth, int) or depth < k:
        raise ParameterError("depth", depth, f"an integer >= k ({k})")
    rule.choose(
        dict.fromkeys(kinds, Ranking((), Scale.SIMILARITY)), k
    )  # refuses k or weights before anything is paid
    steps = [
        retrieve(
            query,
            k=depth,
            routes=_routes(kind, search),
            where=where,
            fusion=fusion,
            depth=depth,
            on_route_error=on_view_error,
            by_name=False,
        )
        for kind in kinds
    ]
    results = yield from asked_once(together(steps))
    rankings = {kind: _told(kind, result, on_view_error) for kind, result in zip(kinds, results, strict=True)}
    if all(isinstance(result, Failed) for result in results):
        why = "; ".join(dict.fromkeys(part.why for ranking in rankings.values() for part in ranking.degraded))
        raise ViewError(", ".join(kinds), why, all_failed=True)
    return multi_view(rankings, rule, k)


def _kinds(views: object) -> tuple[str, ...]:
    is_list = isinstance(views, Sequence) and not isinstance(views, str)
    if not is_list or not views or not all(isinstance(kind, str) and kind for kind in views):  # type: ignore[attr-defined]
        raise ParameterError("views", views, f"a sequence of at least one kind of view, e.g. {PAPER_VIEWS}")
    return tuple(dict.fromkeys(views))  # type: ignore[call-overload]


def _routes(kind: str, search: SearchView | None) -> Mapping[str, Route]:
    """Return name -> route over the views of one kind."""
    found = ("dense",) if search is None else search(kind)
    if isinstance(found, str):
        raise ParameterError(f"routes of the view {kind}", found, "a route, or a sequence of names of routes")
    if callable(found):
        found = {kind: found}
    elif not isinstance(found, Mapping):
        found = {name: ROUTES.get(name) or stored(name) for name in found}
    return {name: of_view(route, kind) for name, route in found.items()}


def _told(kind: str, result: Ranking | Failed, on_view_error: OnViewError) -> Ranking:
    """Return the ranking of a view, with the parts that failed named by it; an empty one for a view that failed."""
    if not isinstance(result, Failed):
        parts = tuple(Degraded(f"view {kind}: {part.what}", part.why) for part in result.degraded)
        return replace(result, degraded=parts)
    error = result.error
    if isinstance(error, (FilterError, ParameterError)):
        raise error
    why = error.what if isinstance(error, RouteError) else str(error) or type(error).__name__
    if on_view_error == "raise":
        raise ViewError(kind, why) from error
    return Ranking((), Scale.SIMILARITY, (Degraded(f"view {kind}", why),))


def _check(rankings: object, rule: object, k: object) -> None:
    if not isinstance(rankings, Mapping) or not rankings:
        raise ParameterError("rankings", rankings, "a mapping from kinds of view to rankings, at least one")
    for kind, ranking in rankings.items():
        if not isinstance(kind, str) or not isinstance(ranking, Ranking):
            raise ParameterError(f"rankings[{kind!r}]", ranking, "a Ranking under the name of a kind of view")
    _check_rule(rule)
    _check_k(k)


def _check_rule(rule: object) -> None:
    if isinstance(rule, type) or not isinstance(rule, ViewRule):
        raise ParameterError("rule", rule, "PaperQuota(), ExactUnion(), another rule, or one of your own")


def _check_k(k: object) -> None:
    if isinstance(k, bool) or not isinstance(k, int | float) or not (isfinite(k) and k >= 0):
        raise ParameterError("k", k, "a finite number >= 0")


def _distinct(ranking: Ranking) -> Ranking:
    first: dict[str, Hit] = {}
    for hit in ranking.hits:
        first.setdefault(hit.chunk.id, hit)
    return ranking if len(first) == len(ranking.hits) else replace(ranking, hits=tuple(first.values()))


def _ways(kind: str, rank: int, hit: Hit) -> tuple[Provenance, ...]:
    """Return how a view found a chunk: its rank there, and behind it those of the routes that were fused for it."""
    routes = dict.fromkeys(way.route for way in hit.provenance)
    of_view = Provenance(route="+".join(routes) or "unnamed", rank=rank, score=hit.score, view=kind)
    fused = tuple(replace(way, view=kind) for way in hit.provenance) if len(hit.provenance) > 1 else ()
    return (of_view, *fused)


def _best_first(ways: list[tuple[Provenance, ...]]) -> list[tuple[Provenance, ...]]:
    return sorted(ways, key=lambda of_view: (of_view[0].rank or 0, of_view[0].view))

"""Rank parents by the views of one kind that a user's own index or retriever finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Generic, TypeAlias, TypeVar

from catena.effects import Search, Step
from catena.model import Chunk, Degraded, Hit, Provenance, Ranking, Scale, ServiceError
from catena.model.near_names import some_of

_SHOWN = 3  # ids in a message
_GROWTH = 4  # times as many hits, where those so far lead to too few parents

V = TypeVar("V")  # a view in the words of a framework


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundViews(Generic[V]):
    """Views of one kind with scores that rise with likeness, best first.

    Attributes:
        views: each with its score.
        all: there are no more.
        scale: unit of the scores.
        degraded: what failed.
    """

    views: Sequence[tuple[V, float]]
    all: bool
    scale: Scale = Scale.SIMILARITY
    degraded: tuple[Degraded, ...] = ()


FindViews: TypeAlias = Callable[[Search], Step[FoundViews[V]]]
"""From a request to about `k` views of its kind."""

ParentsOf: TypeAlias = Callable[[Sequence[V]], Step[tuple[Sequence[Chunk | None], Sequence[str]]]]
"""From views to the parent of each, None where it is missing, and the ids of those that are missing."""


def rank_parents(
    request: Search, find: FindViews[V], parents_of: ParentsOf[V], *, route: str, k: float
) -> Step[Ranking]:
    """Rank parents by their best view of one kind.

    Args:
        request: with the kind of view.
        find: asked for more views, as long as there are more and those found lead to fewer than k parents.
        parents_of: from views to their parents.
        route: the name of the index or retriever, for the provenance.
        k: how many parents are wanted.

    Returns:
        Each parent once, with the score and the rank of its best view; at most `request.k`.
    """
    kind, size = str(request.view), request.k
    while True:
        found = yield from find(replace(request, k=size))
        parents, missing = yield from parents_of([view for view, _ in found.views])
        if found.all or len({parent.id for parent in parents if parent is not None}) >= ceil(k):
            break
        size *= _GROWTH
    hits: dict[str, Hit] = {}
    for rank, (parent, (_, score)) in enumerate(zip(parents, found.views, strict=True), start=1):
        if parent is not None:
            way = Provenance(route=route, rank=rank, score=score, view=kind)
            hits.setdefault(parent.id, Hit(parent, score, (way,)))
    return Ranking(tuple(hits.values()), found.scale, (*found.degraded, *_told(missing))).top(request.k)


def _told(missing: Sequence[str]) -> tuple[Degraded, ...]:
    shown = some_of(missing, _SHOWN)
    told = Degraded("parents", f"{len(missing)} that views lead to are missing where parents are kept ({shown})")
    return (told,) if missing else ()


def search_kind(
    request: Search,
    kinds: int,
    search: Callable[[int, bool], Step[Sequence[V]]],
    of_kind: Callable[[V], bool],
    *,
    filters: bool,
    store: str,
    key: str,
    instead: str,
    strict: bool = False,
) -> Step[tuple[list[V], bool, tuple[Degraded, ...]]]:
    """Search an index that holds all kinds of views for those of one kind.

    Where the index refuses a filter on the kind or does not obey it, this is told, and of `kinds` times as many
    views those of the kind are kept.

    Args:
        request: with the kind and the number of views.
        kinds: how many there are in the index.
        search: from a number, and True for a filter on the kind, to as many views, best first.
        of_kind: tells views of the kind from others.
        filters: False searches without a filter from the start.
        store: name of the index, for what is told.
        key: metadata key of the kind.
        instead: what is done without a filter, in words.
        strict: raise what a search with a filter fails with.

    Returns:
        The views of the kind, best first; True where there are no more; what is told.

    Raises:
        ServiceError: the index failed without a filter, too, or is not to be searched without one.
    """
    why = ""
    if filters:
        try:
            found = yield from search(request.k, True)
        except ServiceError as refused:
            if strict:
                raise
            why = f"was not searched by {key!r} ({refused.what})"
        else:
            kept = [view for view in found if of_kind(view)]
            if len(kept) == len(found):
                return kept, len(found) < request.k, ()
            why = f"does not obey the filter on {key!r}"
    most = request.k * kinds
    found = yield from search(most, False)
    parts = (Degraded("filter", f"{store} {why}; {instead}, and grouped by {key!r}"),) if why else ()
    return [view for view in found if of_kind(view)], len(found) < most, parts

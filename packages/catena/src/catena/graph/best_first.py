"""The best-first walk: what the first nodes lead to is one pool, and the best of it is taken, again and again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from catena.effects.steps import Step
from catena.graph.frontier import Ground, concatenated, leading_on, neighbours, nowhere, scored
from catena.graph.trails import Purse, Taken, Trails, path_of, worth_taking


def best_first(ground: Ground, seeds: Sequence[Taken], purse: Purse) -> Step[Trails]:
    """Take the best candidate of all, rescored as the path grows, until the walk is long enough or nothing is left.

    Each of the first `expand` nodes adds rows from itself to its neighbours and to the top of the first ranking; of
    the rows to one candidate the best counts. The path that a scorer sees is all that was taken so far.

    Args:
        ground: of the walk.
        seeds: paid for; at least one.
        purse: pays for the rest.

    Returns:
        A tree, as its paths from the roots to the leaves: a node hangs on the node whose edge brought it, and one
        that the first ranking offered is a root.
    """
    options, hops = ground.options, list(seeds)
    path, depths = path_of(hops), {hop.id: 1 for hop in hops}
    frontier = yield from nowhere(ground)
    expanded, best = 0, -np.inf
    while len(hops) < ground.limit:
        for place in range(expanded, min(len(hops), options.expand)):
            hood = yield from neighbours(ground, [hops[place].id])
            follow = depths[hops[place].id] < options.max_length
            frontier = yield from leading_on(ground, frontier, hood, hops[place].id, place, follow=follow)
            expanded = place + 1
        frontier = frontier.without(depths)
        if not len(frontier):
            break
        scores = yield from scored(ground, path, frontier)
        passed: list[str] = []
        for hop in worth_taking(ground, path, frontier, scores, best):
            if (yield from purse.pay(hop.id)):
                break
            passed.append(hop.id)
        else:
            break
        frontier = frontier.without(passed)
        hops.append(hop)
        path = concatenated([path, hop.node])
        depths[hop.id] = depths.get(hop.came_from, 0) + 1
        best = max(best, hop.score)
    return Trails(tuple(hops), _from_roots(hops))


def _from_roots(hops: Sequence[Taken]) -> tuple[tuple[Taken, ...], ...]:
    """Return the paths from each root to its leaves, in the order in which roots, then children were taken."""
    children: dict[str, list[Taken]] = {}
    for hop in hops:
        children.setdefault(hop.came_from, []).append(hop)
    paths: list[tuple[Taken, ...]] = []
    stack: list[tuple[Taken, ...]] = [(root,) for root in reversed(children.get("", []))]
    while stack:
        path = stack.pop()
        below = children.get(path[-1].id, [])
        if not below:
            paths.append(path)
        stack.extend((*path, hop) for hop in reversed(below))
    return tuple(paths)

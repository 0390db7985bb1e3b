"""The paper's walk: from each seed one path, to the best neighbour of its last node, again and again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from catena.effects.steps import Step
from catena.graph.frontier import Ground, leading_on, neighbours, nowhere, scored
from catena.graph.trails import Purse, Taken, Trails, path_of, worth_taking
from catena.model.neighbourhood import Neighbourhood


def paper_walk(ground: Ground, seeds: Sequence[Taken], purse: Purse) -> Step[Trails]:
    """Lengthen the path of each seed by the best candidate, until it is long enough or nothing leads on.

    A path does not visit a node twice; two paths may visit the same one, which then counts and costs once. Paths grow
    side by side, so that the result for a small `k` is the beginning of that for a large one.

    Args:
        ground: of the walk.
        seeds: paid for; at least one.
        purse: pays for the rest.

    Returns:
        One path per seed; the order is by depth: all seeds, then the second nodes of all paths, and so on.

    Source: IIER (arXiv 2408.02907), section 3.2.
    """
    paths = [[seed] for seed in seeds]
    known = {seed.id for seed in seeds}
    active = list(range(len(paths)))
    for _ in range(1, ground.options.max_length):
        if not active:
            break
        hood = yield from neighbours(ground, list(dict.fromkeys(paths[i][-1].id for i in active)))
        for i in tuple(active):
            hop = yield from _next(ground, hood, paths[i], known, purse)
            if hop is None:
                active.remove(i)
            else:
                paths[i].append(hop)
                known.add(hop.id)
    return Trails(by_depth(paths), tuple(map(tuple, paths)))


def _next(
    ground: Ground, hood: Neighbourhood, path: Sequence[Taken], known: set[str], purse: Purse
) -> Step[Taken | None]:
    """Return the best candidate that the walk has room for."""
    for hop in (yield from continuations(ground, hood, path)):
        if hop.id in known:
            return hop
        if len(known) >= ground.limit:
            return None
        if (yield from purse.pay(hop.id)):
            return hop
    return None


def continuations(ground: Ground, hood: Neighbourhood, path: Sequence[Taken]) -> Step[Sequence[Taken]]:
    """Return what one path may go on to, best first, down to where it stops early.

    Args:
        ground: of the walk.
        hood: holds the neighbours of the last node.
        path: seed first.
    """
    nodes = path_of(path)
    frontier = yield from nowhere(ground)
    frontier = yield from leading_on(ground, frontier, hood, path[-1].id, len(path) - 1)
    frontier = frontier.without(nodes.ids)
    if not len(frontier):
        return ()
    scores = yield from scored(ground, nodes, frontier)
    best = max((hop.score for hop in path[1:]), default=-np.inf)
    return tuple(worth_taking(ground, nodes, frontier, scores, best))


def by_depth(paths: Sequence[Sequence[Taken]]) -> tuple[Taken, ...]:
    """Return the nodes of all paths, the first of each, then the second of each, and so on; each node once."""
    found: dict[str, Taken] = {}
    for level in zip_longest(*paths):
        for hop in level:
            if hop is not None:
                found.setdefault(hop.id, hop)
    return tuple(found.values())

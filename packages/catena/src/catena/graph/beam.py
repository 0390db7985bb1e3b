"""The beam: paths of several seeds grow side by side, and only the best of all are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from catena.effects.steps import Step
from catena.graph.frontier import Ground, neighbours
from catena.graph.paper_walk import by_depth, continuations
from catena.graph.trails import Purse, Taken, Trails

Path: TypeAlias = tuple[Taken, ...]


def beam(ground: Ground, seeds: Sequence[Taken], purse: Purse) -> Step[Trails]:
    """Lengthen each path by its best candidates, keep the `width` best paths, and so on.

    A path is worth the mean score of its hops, its seed not counted; one that cannot go on stays as it is and
    competes on. Of equals, the one whose beginning was better comes first, then the one whose last id does.

    Args:
        ground: of the walk.
        seeds: paid for; at least one.
        purse: pays for the rest: a path ends before the first node that it cannot pay for.

    Returns:
        The paths kept, best first; the order is by depth, as of `paper_walk`.
    """
    width = ground.options.width
    growing: list[Path] = [(seed,) for seed in seeds]
    ended: list[Path] = []
    for _ in range(1, ground.options.max_length):
        if not growing:
            break
        hood = yield from neighbours(ground, list(dict.fromkeys(path[-1].id for path in growing)))
        longer: list[Path] = []
        for path in growing:
            hops = yield from continuations(ground, hood, path)
            longer.extend((*path, hop) for hop in hops[:width])
            if not hops:
                ended.append(path)
        best = _best(ground, [*longer, *ended])
        grown = {id(path) for path in longer}
        growing = [path for path in best if id(path) in grown]
        ended = [path for path in best if id(path) not in grown]
    paths = yield from _within_limits(ground, _best(ground, [*growing, *ended]), seeds, purse)
    return Trails(by_depth(paths), paths)


def _best(ground: Ground, paths: Sequence[Path]) -> list[Path]:
    return sorted(paths, key=_worth, reverse=True)[: ground.options.width]


def _worth(path: Path) -> float:
    """Return the mean score of the hops; -inf for a seed alone."""
    return float(np.mean([hop.score for hop in path[1:]])) if len(path) > 1 else -np.inf


def _within_limits(
    ground: Ground, paths: Sequence[Path], seeds: Sequence[Taken], purse: Purse
) -> Step[tuple[Path, ...]]:
    """Return the paths, each cut before the first node, by depth, that there is no room or no budget for."""
    paid = {path[0].id for path in paths}
    for seed in seeds:
        if seed.id not in paid:  # of a path that was not kept
            purse.refund(seed.id)
    kept: dict[str, None] = {}
    lengths = [0] * len(paths)
    for depth in range(max(map(len, paths))):
        for i, path in enumerate(paths):
            if len(path) <= depth or lengths[i] < depth:
                continue
            hop = path[depth].id
            room = hop in kept or len(kept) < ground.limit
            if room and (hop in kept or hop in paid or (yield from purse.pay(hop))):
                kept[hop] = None
                lengths[i] += 1
    return tuple(path[:length] for path, length in zip(paths, lengths, strict=True) if length)

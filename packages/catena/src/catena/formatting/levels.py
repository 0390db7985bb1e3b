"""Levels of headings: from the outline or the numbers where these say it, else from the rank of their styles."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from catena.formatting.candidates import Run
from catena.formatting.rows import Style


def rank(style: Style) -> tuple[float, bool, bool, bool]:
    """Return a sort key that puts the styles of higher headings first."""
    return (-style.size, not style.bold, not style.caps, style.italic)


def number_levels(runs: Sequence[Run]) -> dict[int, int]:
    """Return the level that its number gives a run, by the run's start: "3.2.1" is of level 3.

    Plain numbers that begin anew again and again ("1. Open the lid" in every chapter) give none, nor do those
    of a style that is smaller than another of the same depth.
    """
    restarts = Counter(
        run.style for run in runs if run.number and run.number.depth == 1 and run.number.parts == ("1",)
    )
    depths: dict[Style, Counter[int]] = defaultdict(Counter)
    for run in runs:
        if run.number and not (run.number.depth == 1 and restarts[run.style] > 1):
            depths[run.style][run.number.depth] += 1
    trusted: dict[Style, int] = {}
    for style in sorted(depths, key=rank):
        depth = min(depths[style], key=lambda depth: (-depths[style][depth], depth))
        if not any(depth <= above and style.size < 0.93 * larger.size for larger, above in trusted.items()):
            trusted[style] = depth
    return {
        run.start: run.number.depth
        for run in runs
        if run.number and run.style in trusted and not (run.number.depth == 1 and restarts[run.style] > 1)
    }


def levels_of(runs: Sequence[Run], known: Mapping[int, int]) -> dict[int, int]:
    """Return a level from 1 for every run, by its start.

    A run of `known` keeps its level; another takes the commonest known level of its style; a style of which
    nothing is known ranks by size and weight, one below the next larger style.
    """
    votes: dict[Style, Counter[int]] = defaultdict(Counter)
    members = Counter(run.style for run in runs)
    for run in runs:
        if run.start in known:
            votes[run.style][known[run.start]] += 1
    by_style: dict[Style, int] = {s: min(v, key=lambda level: (-v[level], level)) for s, v in votes.items()}
    order = sorted(members, key=rank)
    for position, style in enumerate(order):
        if style not in votes:
            above = by_style[order[position - 1]] if position else None
            below = min((by_style[s] for s in order[position + 1 :] if s in votes), default=None)
            by_style[style] = _between(above, below, members[style])
    levels = {run.start: known.get(run.start, by_style[run.style]) for run in runs}
    shift = 1 - min(levels.values(), default=1)
    return {start: level + max(0, shift) for start, level in levels.items()}


def _between(above: int | None, below: int | None, count: int) -> int:
    """Return a level under `above` and over `below`; a lone style over the highest known one joins it."""
    if above is not None:
        return above + 1 if below is None or below > above else below
    if below is None:
        return 1
    return below - 1 if count > 1 or below > 1 else below

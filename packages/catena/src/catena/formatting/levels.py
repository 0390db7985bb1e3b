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
    depth_of = {
        run.start: run.number.depth
        for run in runs
        if run.number and not (run.number.depth == 1 and restarts[run.style] > 1)
    }
    depths: dict[Style, Counter[int]] = defaultdict(Counter)
    for run in runs:
        if run.start in depth_of:
            depths[run.style][depth_of[run.start]] += 1
    main = {style: min(votes, key=lambda depth: (-votes[depth], depth)) for style, votes in depths.items()}
    trusted = {style for style in main if not any(_outranked(style, other, main, depths) for other in main)}
    return {run.start: depth_of[run.start] for run in runs if run.start in depth_of and run.style in trusted}


def _outranked(style: Style, other: Style, main: Mapping[Style, int], depths: Mapping[Style, Counter[int]]) -> bool:
    """Whether the numbers of another style contradict those of a style, and the other has the say.

    The numbers of a smaller style must be deeper. Where they are not, the style with fewer numbered headings
    gives way, the smaller one on a tie.
    """
    smaller, larger = style.size < 0.93 * other.size, other.size < 0.93 * style.size
    contrary = (smaller and main[style] <= main[other]) or (larger and main[other] <= main[style])
    mine, theirs = depths[style].total(), depths[other].total()
    return contrary and (mine < theirs or (mine == theirs and smaller))


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
            twin = _twin(style, members, by_style)
            by_style[style] = by_style[twin] if twin else _between(above, below, members[style])
    levels = {run.start: known.get(run.start, by_style[run.style]) for run in runs}
    shift = 1 - min(levels.values(), default=1)
    return {start: level + max(0, shift) for start, level in levels.items()}


def _twin(style: Style, members: Mapping[Style, int], known: Mapping[Style, int]) -> Style | None:
    """Return a far commoner style of the same size: a heading with one word in another font is of that style."""
    alike = [other for other in known if other.size == style.size and members[other] >= 5 * members[style]]
    return max(alike, key=lambda other: (members[other], rank(other)), default=None)


def _between(above: int | None, below: int | None, count: int) -> int:
    """Return a level under `above` and over `below`; a lone style over the highest known one joins it."""
    if above is not None:
        return above + 1 if below is None or below > above else below
    if below is None:
        return 1
    return below - 1 if count > 1 or below > 1 else below

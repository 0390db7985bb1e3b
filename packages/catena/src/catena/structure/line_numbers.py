"""Line numbers that a model gave: read from what it wrote, and put back on the lines that were meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

_NUMBER = re.compile(r"(?<!\d)-?\d{1,15}(?!\d)")


class Numbered(NamedTuple):
    """A section of an answer: its 0-based place there, its title as given, and its lines, None where unknown."""

    place: int
    title: Any
    start: int | None
    end: int | None


class Rebase(NamedTuple):
    """What was added to numbers, and to whose: of the section at `place`, or of all (None)."""

    place: int | None
    shift: int


def read_number(value: Any) -> int | None:
    """Return the line number that a JSON value means, or None: 12, 12.0, 12.7 (12), "12", "line 12", "[12]"."""
    if isinstance(value, str):
        match = _NUMBER.search(value)
        return int(match[0]) if match else None
    if isinstance(value, float):
        return int(value) if isfinite(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def rebased(sections: Sequence[Numbered], first: int, last: int) -> tuple[list[Numbered], list[Rebase]]:
    """Return the sections with numbers that count from the window's own beginning moved to where they belong.

    A number fits when it is one of the lines first to last; an end may lie one beyond, as where ends are exclusive.
    Answers that fit are left alone, but for one shape: numbers that run from first + 1 to last + 1 count the lines
    from 1. One that does not fit is moved as a whole when it fits then, and either begins exactly at the
    window's first line or had no start inside it: by `first` (it counted from 0), `first - 1` (from 1) or -1 (the
    lines are right but for being counted from 1). Of several such moves the one that covers the window from its first
    to its last line is taken, else the one that begins there, else the first of these three.

    Where only some sections do not fit, each is moved by `first` if it then stands between its neighbours
    in the answer; else it is left as it is, because a section that began before the window looks alike.
    """
    starts = [section.start for section in sections if section.start is not None]
    ends = [section.end for section in sections if section.end is not None]
    if not starts and not ends:
        return list(sections), []
    shift = _whole_shift(starts, ends, first, last)
    if shift is not None:
        moved = [_moved(section, shift) for section in sections]
        return moved, [Rebase(None, shift)] if shift else []
    return _one_by_one(sections, first, last)


def _whole_shift(starts: list[int], ends: list[int], first: int, last: int) -> int | None:
    """Return what all numbers are moved by, 0 included, or None where no one move makes them fit."""
    lowest, highest = min(starts + ends), max(starts + ends)
    if first <= lowest and highest <= last:
        return 0
    nothing_inside = not any(first <= start <= last for start in starts or ends)

    def fits(shift: int) -> bool:
        return (
            lowest + shift >= first
            and max(starts, default=lowest) + shift <= last
            and max(ends, default=lowest) + shift <= last + 1
        )

    def score(shift: int) -> int:
        return (lowest + shift == first) + bool(ends and highest + shift == last)

    possible = [
        shift
        for shift in (0, first, first - 1, -1)
        if fits(shift) and (shift == 0 or nothing_inside or lowest + shift == first)
    ]
    return max(possible, key=score, default=None)  # the first of equals


def _one_by_one(sections: Sequence[Numbered], first: int, last: int) -> tuple[list[Numbered], list[Rebase]]:
    length = last - first + 1
    found = list(sections)
    moves: list[Rebase] = []
    following = _following_starts(sections, first, last)
    before = first - 1
    for index, section in enumerate(sections):
        start, end, bound = section.start, section.end, following[index]
        if (
            start is not None
            and not first <= start <= last
            and 0 <= start < length
            and before < start + first < bound
        ):
            start += first
        low = before if start is None else start
        if end is not None and not first <= end <= last and 0 <= end < length and low <= end + first < bound:
            end += first
        if (start, end) != (section.start, section.end):
            found[index] = section._replace(start=start, end=end)
            moves.append(Rebase(section.place, first))
        if start is not None and first <= start <= last:
            before = start
    return found, moves


def _following_starts(sections: Sequence[Numbered], first: int, last: int) -> list[int]:
    """Return per section the nearest start after it in the answer that is one of the window's lines."""
    bounds: list[int] = []
    bound = last + 1
    for section in reversed(sections):
        bounds.append(bound)
        if section.start is not None and first <= section.start <= last:
            bound = section.start
    return bounds[::-1]


def _moved(section: Numbered, shift: int) -> Numbered:
    start, end = section.start, section.end
    return section._replace(start=None if start is None else start + shift, end=None if end is None else end + shift)

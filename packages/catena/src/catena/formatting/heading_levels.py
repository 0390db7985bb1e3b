"""Set the levels of a model's headings: by their numbers, by the layout's levels, at last by their marks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from catena.formatting.styled_lines import key, numbering
from catena.text.headings import HeadingNumber, atx_title

_HEADING = re.compile(r"(?P<marks>#{1,6})[ \t](?P<title>.+)\Z")
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})")
_DEEPEST = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadingLine:
    """A heading in Markdown: [start, end) is its line without the line end."""

    start: int
    end: int
    level: int
    title: str

    @property
    def key(self) -> str:
        """Return the letters and digits by which headings are compared."""
        return key(self.title)


def heading_lines(markdown: str) -> Iterator[HeadingLine]:
    """Yield the # headings of a Markdown text; lines inside fences are none."""
    fence, start = "", 0
    for line in markdown.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        mark = _FENCE.match(bare)
        if mark and not fence:
            fence = mark["fence"]
        elif mark and mark["fence"].startswith(fence) and not bare[mark.end() :].strip():
            fence = ""
        elif not fence and (found := _HEADING.match(bare)) and (title := atx_title(found["title"])):
            yield HeadingLine(start=start, end=start + len(bare), level=len(found["marks"]), title=title)
        start += len(line)


def with_levels(markdown: str, printed: str = "") -> str:
    """Give each heading the level that the section tree needs; nothing but the number of its marks changes.

    A number tells: "7.3" is one below "7", and parts ("Part II") are one above chapters. A heading without a
    number, and one whose plain number does not count upwards ("1." in every chapter), has the level at which the
    layout formatter prints it; where that knows nothing, the level that the model's own marks say. Where the file
    prints a title over all, or its chapters lie deeper for another reason, all numbers are that much deeper.

    Args:
        markdown: headings of any level.
        printed: the same file as the layout formatter writes it.
    """
    headings = list(heading_lines(markdown))
    known = _known_levels(printed)
    depths = _depths(headings)
    shift = _shift(headings, depths, known)
    levels = []
    for position, (heading, depth) in enumerate(zip(headings, depths, strict=True)):
        title = position == 0 and heading.level == 1
        own = known.get(heading.key, heading.level if title else heading.level + shift)
        levels.append(own if depth is None else depth + shift)
    return _rewritten(markdown, headings, levels)


def flat(markdown: str) -> str:
    """Make every numbered heading one of the first level, as the model is asked to write them."""
    headings = list(heading_lines(markdown))
    levels = [
        heading.level if depth is None else 1 for heading, depth in zip(headings, _depths(headings), strict=True)
    ]
    return _rewritten(markdown, headings, levels)


def _rewritten(markdown: str, headings: Sequence[HeadingLine], levels: Sequence[int]) -> str:
    parts: list[str] = []
    at = 0
    for heading, level in zip(headings, levels, strict=True):
        marks = "#" * min(_DEEPEST, max(1, level))
        parts += [markdown[at : heading.start], marks, markdown[heading.start + heading.level : heading.end]]
        at = heading.end
    return "".join(parts) + markdown[at:]


def _known_levels(printed: str) -> Mapping[str, int]:
    """Return the level of each heading of the layout formatter; of titles that it prints at several, none."""
    levels: dict[str, set[int]] = {}
    for heading in heading_lines(printed):
        levels.setdefault(heading.key, set()).add(heading.level)
    return {title: min(found) for title, found in levels.items() if len(found) == 1}


def _depths(headings: Sequence[HeadingLine]) -> list[int | None]:
    """Return the depth that its number gives each heading, from 1 for the outermost kind, or None."""
    numbers = [numbering(heading.title) for heading in headings]
    depths: list[int | None] = []
    last = 0
    for number in numbers:
        counted = None if number is None else _chapter(number)
        if number is None or (counted is not None and counted <= last):
            depths.append(None)
            continue
        last = counted or last
        depths.append(number.depth)
    outermost = min((depth for depth in depths if depth is not None), default=1)
    return [None if depth is None else depth + (1 if outermost == 0 else 0) for depth in depths]


def _chapter(number: HeadingNumber) -> int | None:
    """Return the value of a plain number ("7"), which must count upwards; None for all others."""
    return int(number.key[0]) if number.depth == 1 and number.key[0].isdigit() else None


def _shift(headings: Sequence[HeadingLine], depths: Sequence[int | None], known: Mapping[str, int]) -> int:
    """Return by how much numbered headings lie deeper than their numbers say: 1 under a printed title."""
    votes = Counter(
        known[heading.key] - depth
        for heading, depth in zip(headings, depths, strict=True)
        if depth is not None and heading.key in known
    )
    if votes:
        return max(0, max(votes, key=lambda shift: (votes[shift], -abs(shift))))
    titled = len(depths) > 1 and depths[0] is None and depths[1] == 1 and headings[0].level == 1
    return 1 if titled and headings[1].start - headings[0].end <= 2 else 0

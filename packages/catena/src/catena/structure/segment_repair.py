"""Read, verify and correct the sections that a model gave: they tile the lines, and every repair is reported."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import isfinite
from typing import Any, Literal, NamedTuple, TypeAlias

from catena.model.errors import ParameterError
from catena.text.replies import last_value

RepairKind: TypeAlias = Literal[
    "not_integer",  # a number written as a string, a fraction, a word; or none at all
    "no_start",  # a section without a start begins after the one before it in the answer
    "window_relative",  # numbers that counted from the window's own beginning
    "one_based",  # numbers one too high throughout
    "reversed",  # the start was above the end
    "unsorted",  # the answer was not in reading order
    "out_of_range",  # beyond the lines asked about: cut off, or left out
    "duplicate",  # several sections began on one line
    "overlap",
    "gap",
    "omission_start",  # lines before the first section
    "omission_end",  # lines after the last
    "too_many",
    "title",  # blank, no string, too long, or with marks and line ends
    "empty",  # nothing was left
]
LEFT_OUT = "left out"
_SHOWN = 80  # characters of a value in a report, or bits of a number
_TITLES = ("title", "section_title", "name", "heading")
_STARTS = ("start", "start_index", "start_line", "first_line", "first")
_ENDS = ("end", "end_index", "end_line", "last_line", "last")
_NUMBER = re.compile(r"(?<!\d)-?\d{1,15}(?!\d)")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class RawSection(NamedTuple):
    """A section as a model gave it: any JSON values, None where there was none."""

    title: Any = None
    start: Any = None
    end: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One thing that was put right in an answer.

    Attributes:
        lines: first and last line of what the model was asked about, by their numbers as shown.
        section: 0-based place in the answer of the section it happened to; None for the answer as a whole.
        was, became: what the model said and what was made of it, in words.
    """

    kind: RepairKind
    lines: tuple[int, int]
    section: int | None
    was: str
    became: str


class LineSection(NamedTuple):
    """A section by its lines, first and last both included; `place`: 0-based, in the answer, None where in none."""

    title: str
    first: int
    last: int
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Repaired:
    """Sections that tile the lines asked about, in order, and all that was put right for it."""

    sections: tuple[LineSection, ...]
    repairs: tuple[Repair, ...]


def read_sections(reply: str) -> tuple[RawSection, ...]:
    """Return the sections in a model's reply, in its order.

    Taken is the last JSON list in it of objects with a title and `start` and `end` (or start_index, start_line,
    first_line, …; the end may be missing), or an object that holds such a list, or one such object. An entry that is
    no object counts as a section without values.

    Raises:
        ValueError: there is no such list.
    """
    found = last_value(reply, _sections)
    if found is None:
        raise ValueError("the reply holds no JSON list of sections with line numbers")
    return found


def _sections(value: Any) -> tuple[RawSection, ...] | None:
    if isinstance(value, list) and any(map(_is_section, value)):
        return tuple(_section(entry) for entry in value)
    return (_section(value),) if _is_section(value) else None


def _is_section(value: Any) -> bool:
    return isinstance(value, dict) and bool({_key(key) for key in value} & {*_STARTS, *_ENDS})


def _section(entry: Any) -> RawSection:
    if not isinstance(entry, dict):
        return RawSection()
    values = {_key(key): value for key, value in entry.items()}
    found = (
        next((values[name] for name in names if values.get(name) is not None), None)
        for names in (_TITLES, _STARTS, _ENDS)
    )
    return RawSection(*found)


def _key(key: str) -> str:
    return key.strip().lower().replace(" ", "_").replace("-", "_")


def repair(
    answer: Sequence[RawSection],
    first_line: int,
    last_line: int,
    *,
    most_sections: int | None = None,
    longest_title: int = 120,
    untitled: Callable[[int, int], str] = lambda first, last: f"Lines {first}-{last}",
) -> Repaired:
    """Return sections that tile the lines first_line to last_line, for any answer.

    In this order: values become integers; numbers are re-based (`rebased`); reversed ones swapped;
    sections sorted by start; those outside left out and those that reach outside cut; of several that begin on one
    line the shortest is kept (its parent goes), of equals the first in the answer; each section ends where the next
    begins, so the earlier one yields in an overlap and takes the lines of a gap. An answer that gives starts only
    needs no repair for that. More sections than `most_sections` are joined: the lines are divided into that
    many bands of equal height, and sections whose middles lie in one band become one, under the title of the longest.

    Args:
        answer: as read from the model's reply.
        first_line: of the lines it was asked about, by its number as shown.
        last_line: likewise; included.
        most_sections: None for as many as there are lines.
        longest_title: characters, >= 1.
        untitled: (first, last) -> the title of a section that was given none.

    Returns:
        At least one section; where nothing in the answer was of use, one for all lines.

    Raises:
        ParameterError: there are no lines, or a limit is below 1.
    """
    if last_line < first_line:
        raise ParameterError("last_line", last_line, f"at least first_line ({first_line})")
    if longest_title < 1 or (most_sections is not None and most_sections < 1):
        raise ParameterError("longest_title and most_sections", (longest_title, most_sections), "at least 1")
    repairs: list[Repair] = []

    def note(kind: RepairKind, section: int | None, was: object, became: object) -> None:
        lines = (first_line, last_line)
        repairs.append(Repair(kind=kind, lines=lines, section=section, was=str(was), became=str(became)))

    found = _numbered(answer, note)
    found = _rebased(found, first_line, last_line, note)
    found = _started(found, first_line, note)
    found = _ordered(found, note)
    found = _inside(found, first_line, last_line, note)
    tiles = _tiled(_distinct(found, note), first_line, last_line, note)
    if not tiles:
        note("empty", None, f"{len(answer)} sections, none of use", "one section")
        tiles = [(None, "", first_line, last_line)]
    if most_sections is not None and len(tiles) > most_sections:
        tiles = _joined(tiles, most_sections, first_line, last_line, note)
    sections = [
        LineSection(_titled(title, place, partial(untitled, low, high), longest_title, note), low, high, place)
        for place, title, low, high in tiles
    ]
    return Repaired(tuple(sections), tuple(repairs))


Note: TypeAlias = Callable[[RepairKind, int | None, object, object], None]
Tile: TypeAlias = tuple[int | None, Any, int, int]  # place, title as given, first and last line


class _NumberedSection(NamedTuple):
    """A section of an answer: its 0-based place there, its title as given, and its lines, None where unknown."""

    place: int
    title: Any
    start: int | None
    end: int | None


def _numbered(answer: Sequence[RawSection], note: Note) -> list[_NumberedSection]:
    """Read the numbers; a section without any is left out."""
    found: list[_NumberedSection] = []
    for place, section in enumerate(answer):
        start, end = read_number(section.start), read_number(section.end)
        if start is None and end is None:
            note("not_integer", place, _clipped(repr(section[1:])), LEFT_OUT)
            continue
        for name, given, read in (("start", section.start, start), ("end", section.end, end)):
            if given is not None and (type(given) is not int or given != read):
                became = "unknown" if read is None else read
                note("not_integer", place, f"{name} {_clipped(_described(given))}", became)
        found.append(_NumberedSection(place, section.title, start, end))
    return found


def read_number(value: Any) -> int | None:
    """Return the line number that a JSON value means, or None: 12, 12.0, 12.7 (12), "12", "line 12", "[12]"."""
    if isinstance(value, str):
        match = _NUMBER.search(value)
        return int(match[0]) if match else None
    if isinstance(value, float):
        return int(value) if isfinite(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _clipped(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > _SHOWN:  # Python refuses to print the longest
        return f"a number of {value.bit_length()} bits"
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _described(value: object) -> str:
    return _clipped(value) if isinstance(value, int) and not isinstance(value, bool) else repr(value)


def _starts(sections: Sequence[_NumberedSection]) -> str:
    lines = (section.end if section.start is None else section.start for section in sections)
    return _clipped(", ".join(map(_clipped, lines)))


def _span(section: _NumberedSection) -> str:
    start, end = ("?" if line is None else _clipped(line) for line in (section.start, section.end))
    return f"lines {start} to {end}"


def _rebased(found: list[_NumberedSection], first: int, last: int, note: Note) -> list[_NumberedSection]:
    """Return the sections with numbers that count from the window's own beginning moved to where they belong.

    A number fits when it is one of the lines first to last; an end may lie one beyond, as where ends are exclusive.
    Answers that fit are left alone, but for one shape: numbers that run from first + 1 to last + 1 count the lines
    from 1. One that does not fit is moved as a whole when it fits then, and either begins exactly at the
    window's first line or had no start inside it: by `first` (it counted from 0), `first - 1` (from 1) or -1 (the
    lines are right but for being counted from 1). Of several such moves the one that covers the window from its first
    to its last line is taken, else the one that begins there, else the first of these three.

    Where only some sections do not fit, each is moved by `first` if it is then between its neighbours
    in the answer; else it is left as it is, because a section that began before the window looks alike.
    """
    starts = [section.start for section in found if section.start is not None]
    ends = [section.end for section in found if section.end is not None]
    shift = _whole_shift(starts, ends, first, last) if found else 0
    if shift is None:
        return _one_by_one(found, first, last, note)
    moved = [_moved(section, shift) for section in found]
    if shift:
        kind: RepairKind = "one_based" if shift == -1 else "window_relative"
        note(kind, None, "lines " + _starts(found), "lines " + _starts(moved))
    return moved


def _whole_shift(starts: list[int], ends: list[int], first: int, last: int) -> int | None:
    """Return the number to add to all lines, 0 included, or None where no one number makes them fit."""
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


def _one_by_one(sections: Sequence[_NumberedSection], first: int, last: int, note: Note) -> list[_NumberedSection]:
    found = list(sections)
    following = _following_starts(sections, first, last)
    before = first - 1
    for index, section in enumerate(sections):
        start, end, bound = section.start, section.end, following[index]
        if start is not None and not first <= start <= last and before < start + first < bound:
            start += first
        low = before if start is None else start
        if end is not None and not first <= end <= last and low <= end + first < bound:
            end += first
        if (start, end) != (section.start, section.end):
            found[index] = section._replace(start=start, end=end)
            note("window_relative", section.place, _span(section), _span(found[index]))
        if start is not None and first <= start <= last:
            before = start
    return found


def _following_starts(sections: Sequence[_NumberedSection], first: int, last: int) -> list[int]:
    """Return per section the nearest start after it in the answer that is one of the window's lines."""
    bounds: list[int] = []
    bound = last + 1
    for section in reversed(sections):
        bounds.append(bound)
        if section.start is not None and first <= section.start <= last:
            bound = section.start
    return bounds[::-1]


def _moved(section: _NumberedSection, shift: int) -> _NumberedSection:
    start, end = section.start, section.end
    return section._replace(start=None if start is None else start + shift, end=None if end is None else end + shift)


def _started(found: list[_NumberedSection], first: int, note: Note) -> list[_NumberedSection]:
    """Give every section a start, and put start and end in order."""
    result: list[_NumberedSection] = []
    for section in found:
        start, end = section.start, section.end
        if start is None:
            start = first
            if result and (before := result[-1]).end is not None:
                start = before.end + 1
            note("no_start", section.place, "no start", f"start {_clipped(start)}")
        if end is not None and end < start:
            start, end = end, start
            note("reversed", section.place, _span(section), f"lines {_clipped(start)} to {_clipped(end)}")
        result.append(section._replace(start=start, end=end))
    return result


def _ordered(found: list[_NumberedSection], note: Note) -> list[_NumberedSection]:
    ordered = sorted(found, key=_start_of)  # stable: equal starts stay in the order of the answer
    moved = next((place for place, pair in enumerate(zip(found, ordered, strict=True)) if pair[0] != pair[1]), None)
    if moved is not None:
        note("unsorted", None, f"starts … {_starts(found[moved:])}", f"starts … {_starts(ordered[moved:])}")
    return ordered


def _start_of(section: _NumberedSection) -> int:
    return section.start if section.start is not None else 0


def _inside(found: list[_NumberedSection], first: int, last: int, note: Note) -> list[_NumberedSection]:
    """Leave out sections beyond the lines and cut those that reach beyond; without an end one reaches to the next."""
    kept: list[_NumberedSection] = []
    for index, section in enumerate(found):
        start, end = _start_of(section), section.end
        next_start = _start_of(found[index + 1]) if index + 1 < len(found) else None
        over = start < first and end is None and next_start is not None and next_start <= first
        if start > last or (end is not None and end < first) or over:
            note("out_of_range", section.place, _span(section), LEFT_OUT)
            continue
        cut = section._replace(start=max(start, first), end=None if end is None else min(end, last))
        if cut != section:
            note("out_of_range", section.place, _span(section), _span(cut))
        kept.append(cut)
    return kept


def _distinct(found: list[_NumberedSection], note: Note) -> list[_NumberedSection]:
    """Keep one section per start: the shortest, then the first in the answer."""
    kept: dict[int, _NumberedSection] = {}
    for section in found:
        start = _start_of(section)
        other = kept.get(start)
        if other is None:
            kept[start] = section
            continue
        shorter = section.end is not None and (other.end is None or section.end < other.end)
        kept[start], gone = (section, other) if shorter else (other, section)
        note("duplicate", gone.place, _span(gone), LEFT_OUT)
    return list(kept.values())


def _tiled(found: list[_NumberedSection], first: int, last: int, note: Note) -> list[Tile]:
    """Close gaps and overlaps between sections of ascending starts."""
    starts = [*map(_start_of, found), last + 1]
    if found and starts[0] > first:
        note("omission_start", found[0].place, _span(found[0]), f"start {first}")
        starts[0] = first
    tiles: list[Tile] = []
    for section, (start, following) in zip(found, pairwise(starts), strict=True):
        end = following - 1
        if section.end is not None and section.end != end:
            short: RepairKind = "omission_end" if following > last else "gap"
            note("overlap" if section.end > end else short, section.place, _span(section), f"end {end}")
        tiles.append((section.place, section.title, start, end))
    return tiles


def _joined(tiles: list[Tile], most: int, first: int, last: int, note: Note) -> list[Tile]:
    bands: dict[int, list[Tile]] = {}
    height = last - first + 1
    for tile in tiles:
        _, _, low, high = tile
        bands.setdefault((low + high - 2 * first + 1) * most // (2 * height), []).append(tile)
    joined = [
        (place, title, band[0][2], band[-1][3])
        for band in bands.values()
        for place, title, _, _ in (max(band, key=lambda tile: tile[3] - tile[2]),)
    ]
    note("too_many", None, f"{len(tiles)} sections for lines {first} to {last}", f"{len(joined)} sections")
    return joined


def _titled(given: Any, place: int | None, untitled: Callable[[], str], longest: int, note: Note) -> str:
    text = _clipped(given) if isinstance(given, int | float) and not isinstance(given, bool) else given
    title = clean_title(text, longest) if isinstance(text, str) else ""
    title = title or clean_title(untitled(), longest) or "Untitled"
    if place is not None and title != given:
        note("title", place, _clipped(_described(given)), repr(title))
    return title


def clean_title(title: str, longest: int) -> str:
    """Return a title on one line, without the marks of a heading around it and of at most `longest` characters."""
    line = " ".join(_UNPRINTABLE.sub(" ", title).split()).strip("#*_\"' ")
    if len(line) <= longest:
        return line
    cut = line[: longest - 1]
    whole_words = cut.rpartition(" ")[0]
    return f"{(whole_words if len(whole_words) * 2 > longest else cut).rstrip()}…"

"""Verification and correction of sections that a model gave: they tile the lines, and every repair is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

from catena.model.errors import ParameterError
from catena.structure.line_numbers import Numbered, read_number, rebased
from catena.structure.segment_answers import RawSection
from catena.structure.segment_titles import clean_title

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
_SHOWN = 80  # characters of a value in a report
_LONGEST_NUMBER = 10_000  # bits


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


Note: TypeAlias = Callable[[RepairKind, int | None, object, object], None]


def repair(
    answer: Sequence[RawSection],
    first_line: int,
    last_line: int,
    *,
    most_sections: int | None = None,
    longest_title: int = 120,
    untitled: Callable[[int, int], str] = lambda first, last: f"Lines {first}-{last}",
) -> Repaired:
    """Return sections that tile the lines first_line to last_line, whatever the answer was.

    In this order: values become integers; numbers are re-based (`line_numbers.rebased`); reversed ones swapped;
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
        repairs.append(
            Repair(
                kind=kind,
                lines=(first_line, last_line),
                section=section,
                was=str(was),
                became=str(became),
            )
        )

    found = _numbered(answer, note)
    found = _rebased(found, first_line, last_line, note)
    found = _started(found, first_line, note)
    found = _ordered(found, note)
    found = _inside(found, first_line, last_line, note)
    found = _distinct(found, note)
    tiles = _tiled(found, first_line, last_line, note)
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


Tile: TypeAlias = tuple[int | None, Any, int, int]  # place, title as given, first and last line


def _clipped(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER:  # Python refuses to print these
        return f"a number of {value.bit_length()} bits"
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _numbered(answer: Sequence[RawSection], note: Note) -> list[Numbered]:
    """Read the numbers; a section without any is left out."""
    found: list[Numbered] = []
    for place, section in enumerate(answer):
        start, end = read_number(section.start), read_number(section.end)
        if start is None and end is None:
            note("not_integer", place, _clipped(repr(section[1:])), LEFT_OUT)
            continue
        for name, given, read in (("start", section.start, start), ("end", section.end, end)):
            if given is not None and (type(given) is not int or given != read):
                note(
                    "not_integer", place, f"{name} {_clipped(_described(given))}", "unknown" if read is None else read
                )
        found.append(Numbered(place, section.title, start, end))
    return found


def _described(value: object) -> str:
    return _clipped(value) if isinstance(value, int) and not isinstance(value, bool) else repr(value)


def _rebased(found: list[Numbered], first: int, last: int, note: Note) -> list[Numbered]:
    moved, moves = rebased(found, first, last)
    by_place = {section.place: section for section in found}
    after = {section.place: section for section in moved}
    for place, shift in moves:
        if place is None:
            kind: RepairKind = "one_based" if shift == -1 else "window_relative"
            note(kind, None, "lines " + _starts(found), "lines " + _starts(moved))
        else:
            note("window_relative", place, _span(by_place[place]), _span(after[place]))
    return moved


def _starts(sections: Sequence[Numbered]) -> str:
    return ", ".join(_clipped(section.end if section.start is None else section.start) for section in sections[:12])


def _span(section: Numbered) -> str:
    start, end = ("?" if line is None else _clipped(line) for line in (section.start, section.end))
    return f"lines {start} to {end}"


def _started(found: list[Numbered], first: int, note: Note) -> list[Numbered]:
    """Give every section a start, and put start and end in order."""
    result: list[Numbered] = []
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


def _ordered(found: list[Numbered], note: Note) -> list[Numbered]:
    ordered = sorted(found, key=_start_of)  # stable: equal starts stay in the order of the answer
    moved = next((place for place, pair in enumerate(zip(found, ordered, strict=True)) if pair[0] != pair[1]), None)
    if moved is not None:
        note("unsorted", None, f"starts … {_starts(found[moved:])}", f"starts … {_starts(ordered[moved:])}")
    return ordered


def _start_of(section: Numbered) -> int:
    return section.start if section.start is not None else 0


def _inside(found: list[Numbered], first: int, last: int, note: Note) -> list[Numbered]:
    """Leave out sections beyond the lines and cut those that reach beyond; without an end one reaches to the next."""
    kept: list[Numbered] = []
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


def _distinct(found: list[Numbered], note: Note) -> list[Numbered]:
    """Keep one section per start: the shortest, then the first in the answer."""
    kept: dict[int, Numbered] = {}
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


def _tiled(found: list[Numbered], first: int, last: int, note: Note) -> list[Tile]:
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
        was = f"{given[:longest]}…" if isinstance(given, str) and len(given) > longest + 1 else given
        note("title", place, _described(was), repr(title))
    return title

"""Place labels and ticks so that none touches another, and break texts into lines by the inches that letters take."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor, inf
from unicodedata import east_asian_width

from catena_view.plots.picture import LETTER_SIZE, LINE

LETTER = 0.066  # inches that a letter of a label is wide, about
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
LINE_HEIGHT = LETTER_SIZE * LINE / 72  # inches, of a line of a card
_NARROW, _USUAL, _CAPITAL, _WIDE = 0.36, 0.615, 0.68, 0.9  # widths of letters, in their heights, as in DejaVu Sans
_BOLD = 1.15  # how much wider bold letters are
_MARGIN = 0.2  # inches beside the text of a card


def label_rows(starts: Sequence[float], widths: Sequence[float], *, most: int) -> list[int | None]:
    """Return for each label the first row, from 0, in which it touches none before it; None where there is none.

    Args:
        starts: where the labels begin, ascending.
        widths: in the same unit.
        most: rows that there are.
    """
    ends: list[float] = []
    rows: list[int | None] = []
    for start, width in zip(starts, widths, strict=True):
        row = next((number for number, end in enumerate(ends) if end <= start), len(ends))
        if row < most:
            ends[row : row + 1] = [start + 1.08 * width]
        rows.append(row if row < most else None)
    return rows


def position_ticks(
    places: Sequence[float], positions: Sequence[int], *, letter: float, most: int = 24
) -> list[tuple[float, str]]:
    """Return ticks at round positions, and at the first after each gap, as far as their labels have room.

    Args:
        places: of the positions on the axis, ascending.
        positions: ascending.
        letter: how wide a letter is on the axis.
        most: ticks wanted, about.
    """
    step = next((size for size in _STEPS if len(positions) / size <= most), _STEPS[-1])
    ticks: list[tuple[float, str]] = []
    free, before = -inf, None
    for place, position in zip(places, positions, strict=True):
        half = (len(str(position)) + 1) * letter / 2
        if place - half >= free and (position % step == 0 or before is None or position != before + 1):
            ticks.append((place, str(position)))
            free = place + half
        before = position
    return ticks


def round_ticks(low: float, high: float, *, most: int = 6) -> list[tuple[float, str]]:
    """Return ticks at about as many round numbers between two ends, which must differ."""
    steps = (base * 10.0**power for power in range(-6, 7) for base in (1, 2, 5))
    step = next((size for size in steps if (high - low) / size <= most), high - low)
    return [(number * step, f"{number * step:g}") for number in range(ceil(low / step), floor(high / step) + 1)]


def shortened(text: str, most: int) -> str:
    """Return text on one line, cut to so many letters."""
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def width(text: str, size: float = LETTER_SIZE) -> float:
    """Return how wide a line is, in inches."""
    return sum(map(_letter, text)) * size / 72


def _letter(letter: str) -> float:
    if letter in " ijlItfr.,:;'|!()[]-/":
        return _NARROW
    if letter in "mwMW@%…—":
        return _WIDE
    if east_asian_width(letter) in "WF":
        return 1.0
    return _CAPITAL if letter.isupper() or letter.isdigit() else _USUAL


def lines_of(text: str, room: float, most: int, size: float = LETTER_SIZE, *, bold: bool = False) -> list[str]:
    """Return text in at most so many lines of so many inches; what does not fit is cut off with an ellipsis."""
    room = room / _BOLD if bold else room
    if most < 1:
        return []
    words = [piece for word in text.split() for piece in _pieces(word, room, size)]
    lines: list[str] = []
    for word in words:
        if lines and width(f"{lines[-1]} {word}", size) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    if len(lines) <= most:
        return lines
    last = lines[most - 1]
    while last and width(f"{last}…", size) > room:
        last = last[:-1]
    return [*lines[: most - 1], f"{last.rstrip(' ,;.')}…"]


def card_lines(parts: Sequence[tuple[str, int]], room: float, *, bold: bool = False) -> list[str]:
    """Return the lines of a card of so many inches: of each part at most its number of lines."""
    return [line for text, most in parts for line in lines_of(text, room - _MARGIN, most, bold=bold)]


def card_height(lines: int) -> float:
    """Return the height in inches of a card of so many lines, its title among them."""
    return 0.1 + lines * LINE_HEIGHT


def _pieces(word: str, room: float, size: float) -> list[str]:
    """Return a word, or its parts where it is wider than the room."""
    if width(word, size) <= room:
        return [word]
    cuts, used = [0], 0.0
    for at, letter in enumerate(word):
        wide = width(letter, size)
        if used + wide > room and at > cuts[-1]:
            cuts.append(at)
            used = 0.0
        used += wide
    return [word[start:end] for start, end in pairwise([*cuts, len(word)])]

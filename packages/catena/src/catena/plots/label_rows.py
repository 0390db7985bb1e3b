"""Where labels and ticks of a picture go, so that none touches another."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, inf

LETTER = 0.066  # inches that a letter of a label is wide, about
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)


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

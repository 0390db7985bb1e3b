"""Quantities as documents print them: numbers, ranges and tolerances with their units, compared where they can be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import isclose, log

from catena.answering.units import UNIT_PATTERN, Unit, unit_of

_SPACE = " \u00a0\u202f'’"
_NUMBER = rf"(?:\d{{1,3}}(?:[{_SPACE}]\d{{3}})+(?:[.,]\d+)?|\d+(?:[.,]\d+)*)"
QUANTITY = re.compile(
    rf"(?<![\w/.,-])(?P<sign>-)?(?P<number>{_NUMBER})(?:\s?(?P<unit>{UNIT_PATTERN}))?(?![\w²³]|[-/]\d|[.,]\d|/[^\W\d])"
    r"(?=\s?(?P<counted>[^\W\d_][^\W_]*(?:[/·][^\W_]+)*))?"  # of no known size: "5 m/s", "6 pieces"
)
DASHED = re.compile(rf"(?<=\d)-(?=[1-9]\d*(?:[.,]\d+)?\s?(?:{UNIT_PATTERN})(?!\w))|(?<=[\d%])\s?[–—…]\s?(?=-?\d)")
RANGED = frozenset({"to", "bis", "-", "...", "through"})
TIMES = frozenset({"x", "×", "*", "by"})
_TOLERANCE = "±"
_JOINING = frozenset({"or", "and", "oder", "und"})
_ABOUT = 0.1  # of a value: as far as "about" may reach


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number or a range with its unit, in the base unit of its dimension.

    Attributes:
        lows, highs: what the ends may mean: "1,200" is 1200 or 1.2, whatever the language.
        size: of the unit it is printed in, in base units.
        step: half of its last printed digit, in base units.
        about: whether it is only said to be about so much.
    """

    dimension: str
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    size: float = 1.0
    step: float = 0.0
    about: bool = False

    def says(self, other: Quantity) -> bool:
        """Return whether both may be the same quantity; what is printed in two units may be rounded in both."""
        slack = self._slack(other)
        return _meet(self.lows, other.lows, slack) and _meet(self.highs, other.highs, slack)

    def holds(self, other: Quantity) -> bool:
        """Return whether the other may lie in this range."""
        slack = self._slack(other)
        return min(self.lows) <= max(other.lows) + slack and min(other.highs) <= max(self.highs) + slack

    def _slack(self, other: Quantity) -> float:
        largest = max(map(abs, (*self.lows, *self.highs, *other.lows, *other.highs)))
        rounding = 1e-9 * largest  # of floats
        if self.about or other.about:
            return _ABOUT * largest + rounding
        return max(self.step, other.step) if self.size != other.size else rounding

    @property
    def is_range(self) -> bool:
        """Whether it has two ends."""
        return not _meet(self.lows, self.highs)


def numbers_of(written: str) -> tuple[float, ...]:
    """Return what a number may mean: "1,200" is 1200 or 1.2 by language, "1,20" and "1.234,5" are certain."""
    text = re.sub(f"[{_SPACE}]", "", written)
    marks = re.findall(r"[.,]", text)
    if not marks:
        return (float(text),)
    last = marks[-1]
    whole, _, after = text.rpartition(last)
    if len(set(marks)) > 1:
        return (float(re.sub(r"[.,]", "", whole) + "." + after),)
    if len(marks) > 1:
        return (float(text.replace(last, "")),)
    decimal = float(f"{whole}.{after}")
    grouped = len(after) == 3 and 0 < len(whole) <= 3 and not whole.startswith("0")
    return (decimal, float(whole + after)) if grouped else (decimal,)


def quantities_in(text: str, default: Unit | None = None, *, about: bool = False) -> tuple[Quantity, ...]:
    """Return the quantities; a number without a unit before a range or product that has one is meant in it.

    Args:
        text: in NFKC.
        default: unit of numbers that have none.
        about: whether they are only said to be about so much.
    """
    found = list(QUANTITY.finditer(text))
    units: list[Unit | None] = [unit_of(match["unit"]) if match["unit"] else None for match in found]
    between = [text[first.end() : second.start()].strip(" (").casefold() for first, second in pairwise(found)]
    for place in reversed(range(len(between))):
        if units[place] is None and between[place] in RANGED | TIMES | {_TOLERANCE}:
            units[place] = units[place + 1] if _dimension(units[place + 1]) != "share" else None
    made: list[Quantity] = []
    place = 0
    while place < len(found):
        joint = between[place] if place < len(between) else ""
        is_product = joint in TIMES or (place > 0 and between[place - 1] in TIMES)
        alike = joint != "" and units[place] == units[place + 1]
        is_range = alike and joint in RANGED
        is_tolerated = joint == _TOLERANCE and (alike or _dimension(units[place + 1]) == "share")
        last = place + (is_range or is_tolerated)
        unit = units[place] or default
        lows = _sized(found[place], unit)
        highs = _sized(found[last], units[last] or default) if is_range else lows
        if is_tolerated:
            lows, highs = _around(lows, _sized(found[last], units[last] or default), in_percent=not alike)
        dimension = _dimension(unit) or _counted(found[last if is_range else place])
        dimension += " of a product" if is_product else ""
        size = unit[1] if unit else 1.0
        made.append(Quantity(dimension, lows, highs, size, _step(found[place]["number"]) * size, about))
        place = last + 1
    return tuple(made)


def _dimension(unit: Unit | None) -> str:
    return unit[0] if unit else ""


def _counted(match: re.Match[str]) -> str:
    """Return what a number without a known unit counts: quantities of unlike things are not compared."""
    word = (match["counted"] or "").casefold()
    return "" if word in RANGED | TIMES | _JOINING else word


def _around(
    middles: tuple[float, ...], tolerances: tuple[float, ...], *, in_percent: bool
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return both ends of "24 V ± 10 %"."""
    widths = [(m, abs(m) * t / 100 if in_percent else t) for m in middles for t in tolerances]
    return tuple(m - width for m, width in widths), tuple(m + width for m, width in widths)


def _step(number: str) -> float:
    """Return half of the last digit of a number."""
    decimals = len(re.split("[.,]", number)[-1]) if re.search("[.,]", number) else 0
    return 0.5 * 10.0**-decimals


def _sized(match: re.Match[str], unit: Unit | None) -> tuple[float, ...]:
    dimension, size = unit or ("", 1.0)
    sizes = {size, 1000.0 ** round(log(size, 1024))} if dimension == "data" else {size}  # a "GB" may be either
    sign = -1.0 if match["sign"] else 1.0
    return tuple(sign * number * each for number in numbers_of(match["number"]) for each in sorted(sizes))


def _meet(some: Iterable[float], others: Iterable[float], slack: float = 0.0) -> bool:
    listed = tuple(others)
    return any(isclose(one, other, rel_tol=1e-9, abs_tol=max(slack, 1e-15)) for one in some for other in listed)


def unlike(some: list[Quantity], others: list[Quantity]) -> bool:
    """Return whether neither list is a part of the other, and no range holds what the other says."""

    def is_within(one: Quantity, all_others: list[Quantity]) -> bool:
        return any(
            one.says(other) or (other.is_range and not one.is_range and other.holds(one)) for other in all_others
        )

    return not (all(is_within(one, others) for one in some) or all(is_within(one, some) for one in others))

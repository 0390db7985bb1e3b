"""What a printed value says: quantities, dates, codes or words; only what is certain to differ is said to."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import isclose

from catena.answering.units import UNIT_PATTERN, Unit, unit_of
from catena.text import tokenise

_SPACE = " \u00a0\u202f'’"
_NUMBER = rf"(?:\d{{1,3}}(?:[{_SPACE}]\d{{3}})+(?:[.,]\d+)?|\d+(?:[.,]\d+)*)"
_QUANTITY = re.compile(
    rf"(?<![\w/.,-])(?P<sign>-)?(?P<number>{_NUMBER})(?:\s?(?P<unit>{UNIT_PATTERN}))?(?![\w²³]|[-/]\d|[.,]\d)"
)
_DASHED = re.compile(rf"(?<=\d)-(?=[1-9]\d*(?:[.,]\d+)?\s?(?:{UNIT_PATTERN})(?!\w))|(?<=[\d%])\s?[–—…]\s?(?=-?\d)")
_RANGED = frozenset({"to", "bis", "-", "...", "through"})
_TIMES = frozenset({"x", "×", "*", "by", "±"})
_CODE = re.compile(r"(?<!\w)(?=[\w./+-]*\d)[\w]+(?:[./+-]\w+)*(?!\w)")
_QUALIFIERS = {
    "max": "max", "maximum": "max", "maximal": "max", "most": "max", "up": "max", "höchstens": "max", "below": "max",
    "min": "min", "minimum": "min", "minimal": "min", "least": "min", "mindestens": "min", "above": "min",
    "typ": "typ", "typical": "typ", "typisch": "typ", "nominal": "typ", "default": "default", "optional": "optional",
}  # fmt: skip
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan january januar", "feb february februar", "mar march märz", "apr april", "may mai", "jun june juni",
            "jul july juli", "aug august", "sep sept september", "oct october okt oktober", "nov november",
            "dec december dez dezember",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH = "|".join(sorted(_MONTHS, key=lambda name: (-len(name), name)))
_DATE = re.compile(
    r"(?<![\w-])(?:(?P<year>\d{4})-(?P<month>\d\d)(?:-(?P<day>\d\d))?|(?P<a>\d{1,2})(?P<mark>[./])(?P<b>\d{1,2})(?P=mark)"
    rf"(?P<last>\d{{4}})|(?:(?P<d>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+)?(?P<name>{_MONTH})\.?(?:\s+(?P<e>\d{{1,2}})"
    r"(?:st|nd|rd|th)?)?,?\s+(?P<y>\d{4}))(?![\w-])",
    re.IGNORECASE,
)
_LONGEST_TEXT = 4  # words of a value without numbers; longer ones describe


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number or a range with its unit, in the base unit of its dimension.

    Attributes:
        lows, highs: what the ends may mean: "1,200" is 1200 or 1.2, whatever the language.
    """

    dimension: str
    lows: tuple[float, ...]
    highs: tuple[float, ...]

    def says(self, other: Quantity) -> bool:
        """Return whether both may be the same quantity."""
        return _meet(self.lows, other.lows) and _meet(self.highs, other.highs)

    def holds(self, other: Quantity) -> bool:
        """Return whether the other may lie in this range."""
        return min(self.lows) <= max(other.lows) and min(other.highs) <= max(self.highs)

    @property
    def is_range(self) -> bool:
        """Whether it has two ends."""
        return not _meet(self.lows, self.highs)


@dataclass(frozen=True, slots=True)
class Value:
    """A value as printed, and what it says.

    Attributes:
        dates: per date what it may mean: (year, month, day), where 0 is not said.
        words: what is left when quantities and dates are taken out, folded, qualifiers left out.
    """

    printed: str
    quantities: tuple[Quantity, ...]
    dates: tuple[frozenset[tuple[int, int, int]], ...]
    codes: frozenset[str]
    words: frozenset[str]
    qualifiers: frozenset[str]

    @property
    def is_measured(self) -> bool:
        """Whether it says more than words do."""
        return bool(self.quantities or self.dates or self.codes)


def value_of(printed: str, unit: str = "") -> Value:
    """Return what a value says.

    Args:
        printed: e.g. a cell of a table.
        unit: of its numbers that have none, as a label may state it: "Voltage (V)".
    """
    text = unicodedata.normalize("NFKC", printed).replace("\u2212", "-").strip(" *_`.;,")
    dates = [_date(match) for match in _DATE.finditer(text)]
    text = _DATE.sub(" ", text)
    text = _DASHED.sub(" to ", text)
    found = list(_QUANTITY.finditer(text))
    rest = tokenise(_QUANTITY.sub(" ", text))
    return Value(
        printed=" ".join(printed.split()),
        quantities=_quantities(text, found, unit_of(unicodedata.normalize("NFKC", unit))),
        dates=tuple(date for date in dates if date),
        codes=frozenset(code.casefold() for code in _CODE.findall(_QUANTITY.sub(" ", text))),
        words=frozenset(rest) - _QUALIFIERS.keys() - _RANGED - _TIMES,
        qualifiers=frozenset(_QUALIFIERS[word] for word in rest if word in _QUALIFIERS),
    )


def differ(one: Value, other: Value) -> bool:
    """Return whether two values of one field cannot both hold; False where that is in doubt.

    Compared are dates with dates, quantities of one dimension, codes with codes, and short words with short words.
    What says more than the other (a list, a range around it) does not differ from it, nor does what is qualified in
    another way ("max.", "typ.").
    """
    if one.qualifiers != other.qualifiers:
        return False
    if one.dates and other.dates:
        return not any(first & second for first in one.dates for second in other.dates) and _as_exact(one, other)
    if one.quantities and other.quantities:
        shared = {each.dimension for each in one.quantities} & {each.dimension for each in other.quantities}
        return any(_unlike(_of(one, dimension), _of(other, dimension)) for dimension in sorted(shared))
    if one.quantities or other.quantities or one.dates or other.dates:
        return False
    if one.codes or other.codes:
        return _is_apart(one.codes, other.codes)
    return max(len(one.words), len(other.words)) <= _LONGEST_TEXT and _is_apart(one.words, other.words)


def _is_apart(some: frozenset[str], others: frozenset[str]) -> bool:
    return bool(some and others) and not (some <= others or others <= some)


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


def _quantities(text: str, found: list[re.Match[str]], default: Unit | None) -> tuple[Quantity, ...]:
    """Return the quantities; a number without a unit before a range or product that has one is meant in it."""
    units: list[Unit | None] = [unit_of(match["unit"]) if match["unit"] else None for match in found]
    between = [text[first.end() : second.start()].strip().casefold() for first, second in pairwise(found)]
    for place in reversed(range(len(between))):
        if units[place] is None and between[place] in _RANGED | _TIMES:
            units[place] = units[place + 1]
    made: list[Quantity] = []
    place = 0
    while place < len(found):
        is_range = place < len(between) and between[place] in _RANGED and units[place] == units[place + 1]
        ends = [_sized(found[at], units[at] or default) for at in range(place, place + 1 + is_range)]
        dimension = (units[place] or default or ("", 1.0))[0]
        made.append(Quantity(dimension, ends[0], ends[-1]))
        place += 1 + is_range
    return tuple(made)


def _sized(match: re.Match[str], unit: Unit | None) -> tuple[float, ...]:
    size = (unit or ("", 1.0))[1] * (-1.0 if match["sign"] else 1.0)
    return tuple(number * size for number in numbers_of(match["number"]))


def _meet(some: Iterable[float], others: Iterable[float]) -> bool:
    listed = tuple(others)
    return any(isclose(one, other, rel_tol=1e-9, abs_tol=1e-15) for one in some for other in listed)


def _of(value: Value, dimension: str) -> list[Quantity]:
    return [each for each in value.quantities if each.dimension == dimension]


def _unlike(some: list[Quantity], others: list[Quantity]) -> bool:
    """Return whether neither list is a part of the other, and no range holds what the other says."""

    def is_within(one: Quantity, all_others: list[Quantity]) -> bool:
        return any(
            one.says(other) or (other.is_range and not one.is_range and other.holds(one)) for other in all_others
        )

    return not (all(is_within(one, others) for one in some) or all(is_within(one, some) for one in others))


def _date(match: re.Match[str]) -> frozenset[tuple[int, int, int]]:
    if match["year"]:
        meant = {(int(match["year"]), int(match["month"]), int(match["day"] or 0))}
    elif match["last"]:
        first, second, year = int(match["a"]), int(match["b"]), int(match["last"])
        meant = {(year, second, first)} | ({(year, first, second)} if match["mark"] == "/" else set())
    else:
        day = int(match["d"] or match["e"] or 0)
        meant = {(int(match["y"]), _MONTHS[match["name"].casefold()], day)}
    return frozenset(date for date in meant if date[1] <= 12)


def _as_exact(one: Value, other: Value) -> bool:
    """Return whether the dates of both say a day, or none of both does; else "June 2025" may be "4 June 2025"."""
    exact = [{bool(day) for date in value.dates for _, _, day in date} for value in (one, other)]
    months = [{date[:2] for dates in value.dates for date in dates} for value in (one, other)]
    return exact[0] == exact[1] or not months[0] & months[1]

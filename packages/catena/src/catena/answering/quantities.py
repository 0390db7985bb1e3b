"""Quantities as documents print them: numbers, ranges and tolerances with their units, compared where they can be."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from itertools import pairwise
from math import isclose, log
from typing import TypeAlias

from catena.text.words import RAISED, numbers_of, tokenise

Unit: TypeAlias = tuple[str, float]
"""Dimension, and how many of its base units one of this unit is."""

_GAP = r"[ \u00a0\u202f·⋅*.-]?"  # between the factors of a product: "N m", "N·m", "Nm"


def _read(table: str) -> tuple[Mapping[str, Unit], str]:
    units: dict[str, Unit] = {}
    patterns: dict[str, str] = {}
    for line in table.splitlines():
        if line.startswith("#"):
            continue
        dimension, _, listed = line.partition(": ")
        for each in listed.split(", "):
            written, _, size = each.rpartition(" ")
            parts = written.replace("µ", "μ").split("_")  # NFKC writes the micro sign as a Greek letter
            units["".join(parts)] = (dimension, float(size))
            patterns["".join(parts)] = _GAP.join(map(re.escape, parts))
    longest_first = sorted(patterns, key=lambda written: (-len(written), written))
    return units, "|".join(patterns[written] for written in longest_first)


UNITS, UNIT_PATTERN = _read(files("catena").joinpath("data", "units.txt").read_text(encoding="utf-8"))
"""Unit by its spelling without gaps, after NFKC; and a regular expression of all spellings, the longest first."""

_GAPS = re.compile(_GAP.removesuffix("?") + "+")


def unit_of(written: str) -> Unit | None:
    """Return the unit of a spelling (NFKC), or None; what is not known may still be a unit."""
    bare = written.strip()
    return UNITS.get(bare) or UNITS.get(_GAPS.sub("", bare))


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
_ABOUT_SHARE = 0.1  # of a value: as far as "about" may reach


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number or a range with its unit, in the base unit of its dimension.

    Attributes:
        lows, highs: what the ends may mean: "1,200" is 1200 or 1.2, in any language.
        size: of the unit it is printed in, in base units.
        step: half of its last printed digit, in base units.
        about: whether it is only said to be about so much.
    """

    dimension: str
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    size: float
    step: float
    about: bool

    def says(self, other: Quantity) -> bool:
        """Say whether both may be the same quantity; two units may both be rounded."""
        slack = self._slack(other)
        return _meet(self.lows, other.lows, slack) and _meet(self.highs, other.highs, slack)

    def holds(self, other: Quantity) -> bool:
        """Say whether the other may lie in this range."""
        slack = self._slack(other)
        return min(self.lows) <= max(other.lows) + slack and min(other.highs) <= max(self.highs) + slack

    def _slack(self, other: Quantity) -> float:
        largest = max(map(abs, (*self.lows, *self.highs, *other.lows, *other.highs)))
        rounding = 1e-9 * largest  # of floats
        if self.about or other.about:
            return _ABOUT_SHARE * largest + rounding
        return max(self.step, other.step) if self.size != other.size else rounding

    @property
    def is_range(self) -> bool:
        """Say whether it has two ends."""
        return not _meet(self.lows, self.highs)


def quantities_in(text: str, default: Unit | None = None, *, about: bool = False) -> tuple[Quantity, ...]:
    """Return the quantities; a number without a unit before a range or product that has one is meant in it.

    Args:
        text: in NFKC.
        default: unit of numbers that have none.
        about: whether they are only said to be about so much.
    """
    found = list(QUANTITY.finditer(text))
    units: list[Unit | None] = [*(unit_of(match["unit"]) if match["unit"] else None for match in found), None]
    gaps = (text[first.end() : second.start()] for first, second in pairwise(found))
    between = [*(gap.strip(" (").casefold() for gap in gaps), ""]
    for place in reversed(range(len(between))):
        if units[place] is None and between[place] in RANGED | TIMES | {_TOLERANCE}:
            units[place] = units[place + 1] if _dimension(units[place + 1]) != "share" else None
    made: list[Quantity] = []
    place = 0
    while place < len(found):
        joint = between[place]
        is_product = joint in TIMES or (place > 0 and between[place - 1] in TIMES)
        alike = units[place] == units[place + 1]
        is_range = alike and joint in RANGED
        is_tolerated = joint == _TOLERANCE and (alike or _dimension(units[place + 1]) == "share")
        last = place + (is_range or is_tolerated)
        unit = units[place] or default
        lows = _sized(found[place], unit)
        highs = _sized(found[last], units[last] or default) if is_range else lows
        if is_tolerated:
            tolerances = _sized(found[last], units[last] or default)
            widths = [(m, t if alike else abs(m) * t / 100) for m in lows for t in tolerances]  # else in percent
            lows, highs = tuple(m - width for m, width in widths), tuple(m + width for m, width in widths)
        word = (found[last if is_range else place]["counted"] or "").casefold()
        dimension = _dimension(unit) or ("" if word in RANGED | TIMES | _JOINING else word)
        dimension += " of a product" if is_product else ""
        size = unit[1] if unit else 1.0
        made.append(Quantity(dimension, lows, highs, size, _step(found[place]["number"]) * size, about))
        place = last + 1
    return tuple(made)


def _dimension(unit: Unit | None) -> str:
    return unit[0] if unit else ""


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
    """Say whether neither list is a part of the other, and no range of one holds the other's quantities."""

    def is_within(one: Quantity, all_others: list[Quantity]) -> bool:
        return any(one.says(each) or (each.is_range and not one.is_range and each.holds(one)) for each in all_others)

    return not (all(is_within(one, others) for one in some) or all(is_within(one, some) for one in others))


_NEGATIONS = frozenset({"no", "not", "nicht", "kein", "keine", "nie", "never"})
_NOTE = re.compile(r"\[\d{1,3}\]|\((?:see|siehe|s\.|cf\.)[^()]*\)", re.IGNORECASE)
_VULGAR = re.compile(r"(?P<whole>(?<!\d)\d++)?\s?(?P<part>[¼½¾⅐-⅞])")
_POWER = re.compile(
    r"(?:(?P<factor>(?<!\d)\d++(?:[.,]\d++)?)\s?[x×·*]\s?)?\b10(?:\^(?P<plain>-?\d{1,2})|(?P<raised>[⁻⁰¹²³⁴-⁹]{1,3}))(?!\d)"
)
_MARK = re.compile(rf"(?:(?<=[\d)%])|(?<=[^\W\d_]{{3}}))[{RAISED}]+")  # of a note
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_CODE = re.compile(r"\w++(?:[./+-]\w++)*+")
_QUALIFIERS = {
    "max": "max", "maximum": "max", "maximal": "max", "most": "max", "up": "max", "höchstens": "max", "below": "max",
    "less": "max", "under": "max", "≤": "max", "<": "max", "unter": "max", "≥": "min", ">": "min", "over": "min",
    "more": "min", "über": "min", "from": "min", "ab": "min", "exceed": "max",
    "typically": "typ", "nom": "typ", "rated": "typ",
    "min": "min", "minimum": "min", "minimal": "min", "least": "min", "mindestens": "min", "above": "min",
    "typ": "typ", "typical": "typ", "typisch": "typ", "nominal": "typ", "default": "default", "optional": "optional",
}  # fmt: skip
_ABOUT = frozenset((
    "about", "approx", "approximately", "around", "ca", "circa", "roughly", "nearly", "etwa", "ungefähr", "rund", "~",
    "≈",
))  # fmt: skip
_SIGN = re.compile(r"[≤≥<>~≈](?=\s*-?\d)")
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
    rf"(?P<last>\d{{4}})|(?:(?P<d>\d{{1,2}})(?:st|nd|rd|th|\.)?\s++)?(?P<name>{_MONTH})\.?(?:\s++(?P<e>\d{{1,2}})"
    r"(?:st|nd|rd|th)?)?,?\s++(?P<y>\d{4}))(?![\w-])",
    re.IGNORECASE,
)
_LONGEST_TEXT = 4  # words of a value without numbers; longer ones describe


@dataclass(frozen=True, slots=True)
class PrintedValue:
    """A value as printed, and its reading.

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
        """Say whether it has a quantity, a date or a code."""
        return bool(self.quantities or self.dates or self.codes)


def value_of(printed: str, unit: str = "") -> PrintedValue:
    """Read a printed value: its quantities, dates, codes and words.

    Args:
        printed: e.g. a cell of a table.
        unit: of its numbers that have none, as a label may state it: "Voltage (V)".
    """
    text = _POWER.sub(_powered, _VULGAR.sub(_decimal, _NOTE.sub(" ", printed).replace("\u2212", "-")))
    text = _MARK.sub("", text)
    text = unicodedata.normalize("NFKC", text).replace("\u2212", "-").replace("+/-", "±").strip(" *_`.;,")
    dates = [_date(match) for match in _DATE.finditer(text)]
    text = _DATE.sub(" ", text)
    text = DASHED.sub(" to ", text)
    around = QUANTITY.sub(" ", text)
    rest = tokenise(around)
    about = not _ABOUT.isdisjoint((*rest, *_SIGN.findall(text)))
    quantities = quantities_in(text, unit_of(unicodedata.normalize("NFKC", unit)), about=about)
    return PrintedValue(
        printed=" ".join(printed.split()),
        quantities=quantities,
        dates=tuple(date for date in dates if date),
        codes=frozenset(code.casefold() for code in _CODE.findall(around) if any(map(str.isdecimal, code))),
        words=frozenset(rest) - _QUALIFIERS.keys() - _ABOUT - RANGED - TIMES,
        qualifiers=_qualifiers(text, rest, quantities),
    )


def _qualifiers(text: str, rest: Sequence[str], quantities: Sequence[Quantity]) -> frozenset[str]:
    """Return the qualifiers of a value: a bound, or "typical"."""
    words = (*rest, *_SIGN.findall(text))
    is_range = any(quantity.is_range for quantity in quantities)
    said = {_QUALIFIERS[word] for word in words if word in _QUALIFIERS and not (is_range and word == "from")}
    return frozenset(said | ({"not"} if quantities and _NEGATIONS.intersection(rest) else set()))


def differ(one: PrintedValue, other: PrintedValue) -> bool:
    """Say whether two values of one field cannot both hold; False where that is in doubt.

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
        return any(unlike(_of(one, dimension), _of(other, dimension)) for dimension in sorted(shared))
    if one.quantities or other.quantities or one.dates or other.dates:
        return False
    if one.codes or other.codes:
        return _is_apart(one.codes, other.codes)
    return max(len(one.words), len(other.words)) <= _LONGEST_TEXT and _are_opposed(one.words, other.words)


def _are_opposed(some: frozenset[str], others: frozenset[str]) -> bool:
    unlike_words = some ^ others
    return _is_apart(some, others) or bool(some & others and unlike_words and unlike_words <= _NEGATIONS)


def _of(value: PrintedValue, dimension: str) -> list[Quantity]:
    return [each for each in value.quantities if each.dimension == dimension]


def _is_apart(some: frozenset[str], others: frozenset[str]) -> bool:
    return bool(some - others and others - some)


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


def _as_exact(one: PrintedValue, other: PrintedValue) -> bool:
    """Say whether both values name a day, or none of them does; else "June 2025" may be "4 June 2025"."""
    exact = [{bool(day) for date in value.dates for _, _, day in date} for value in (one, other)]
    months = [{date[:2] for dates in value.dates for date in dates} for value in (one, other)]
    return exact[0] == exact[1] or not months[0] & months[1]


def _decimal(match: re.Match[str]) -> str:
    return f" {int(match['whole'] or 0) + unicodedata.numeric(match['part']):.6g}"


def _powered(match: re.Match[str]) -> str:
    exponent = match["plain"] or match["raised"].translate(_RAISED)
    if not exponent.removeprefix("-").isdigit():
        return match.group()
    return f"{Decimal((match['factor'] or '1').replace(',', '.')).scaleb(int(exponent)):f}"

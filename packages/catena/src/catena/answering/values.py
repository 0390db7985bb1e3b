"""What a printed value says: quantities, dates, codes or words; only what is certain to differ is said to."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from catena.answering.quantities import DASHED, QUANTITY, RANGED, TIMES, Quantity, quantities_in, unlike
from catena.answering.units import unit_of
from catena.text.words import tokenise

_NEGATIONS = frozenset({"no", "not", "nicht", "kein", "keine", "nie", "never"})
_NOTE = re.compile(r"\[\d{1,3}\]|\((?:see|siehe|s\.|cf\.)[^()]*\)", re.IGNORECASE)
_VULGAR = re.compile(r"(?P<whole>(?<!\d)\d++)?\s?(?P<part>[¼½¾⅐-⅞])")
_POWER = re.compile(
    r"(?:(?P<factor>(?<!\d)\d++(?:[.,]\d++)?)\s?[x×·*]\s?)?\b10(?:\^(?P<plain>-?\d{1,2})|(?P<raised>[⁻⁰¹²³⁴-⁹]{1,3}))(?!\d)"
)
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
_ABOUT = frozenset(
    {
        "about",
        "approx",
        "approximately",
        "around",
        "ca",
        "circa",
        "roughly",
        "nearly",
        "etwa",
        "ungefähr",
        "rund",
        "~",
        "≈",
    }
)
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
    text = _POWER.sub(_powered, _VULGAR.sub(_decimal, _NOTE.sub(" ", printed).replace("\u2212", "-")))
    text = unicodedata.normalize("NFKC", text).replace("\u2212", "-").replace("+/-", "±").strip(" *_`.;,")
    dates = [_date(match) for match in _DATE.finditer(text)]
    text = _DATE.sub(" ", text)
    text = DASHED.sub(" to ", text)
    around = QUANTITY.sub(" ", text)
    rest = tokenise(around)
    about = not _ABOUT.isdisjoint((*rest, *_SIGN.findall(text)))
    quantities = quantities_in(text, unit_of(unicodedata.normalize("NFKC", unit)), about=about)
    return Value(
        printed=" ".join(printed.split()),
        quantities=quantities,
        dates=tuple(date for date in dates if date),
        codes=frozenset(code.casefold() for code in _CODE.findall(around) if any(map(str.isdecimal, code))),
        words=frozenset(rest) - _QUALIFIERS.keys() - _ABOUT - RANGED - TIMES,
        qualifiers=_qualifiers(text, rest, quantities),
    )


def _qualifiers(text: str, rest: Sequence[str], quantities: Sequence[Quantity]) -> frozenset[str]:
    """Return what a value is besides its numbers: a bound, or what is typical."""
    words = (*rest, *_SIGN.findall(text))
    is_range = any(quantity.is_range for quantity in quantities)
    said = {_QUALIFIERS[word] for word in words if word in _QUALIFIERS and not (is_range and word == "from")}
    return frozenset(said | ({"not"} if quantities and _NEGATIONS.intersection(rest) else set()))


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
        return any(unlike(_of(one, dimension), _of(other, dimension)) for dimension in sorted(shared))
    if one.quantities or other.quantities or one.dates or other.dates:
        return False
    if one.codes or other.codes:
        return _is_apart(one.codes, other.codes)
    return max(len(one.words), len(other.words)) <= _LONGEST_TEXT and _are_opposed(one.words, other.words)


def _are_opposed(some: frozenset[str], others: frozenset[str]) -> bool:
    unlike_words = some ^ others
    return _is_apart(some, others) or bool(some & others and unlike_words and unlike_words <= _NEGATIONS)


def _of(value: Value, dimension: str) -> list[Quantity]:
    return [each for each in value.quantities if each.dimension == dimension]


def _is_apart(some: frozenset[str], others: frozenset[str]) -> bool:
    return bool(some and others) and not (some <= others or others <= some)


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


def _decimal(match: re.Match[str]) -> str:
    return f" {int(match['whole'] or 0) + unicodedata.numeric(match['part']):.6g}"


def _powered(match: re.Match[str]) -> str:
    exponent = match["plain"] or match["raised"].translate(_RAISED)
    if not exponent.lstrip("-").isdigit() or exponent.rfind("-") > 0:
        return match.group()
    return f"{Decimal((match['factor'] or '1').replace(',', '.')).scaleb(int(exponent)):f}"

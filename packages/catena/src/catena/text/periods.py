"""Read the periods that a text names: years, fiscal years, quarters and halves, in their usual spellings.

A period is what a question restricts its answer to, no thing that it asks about: "FY2023" is no product code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from catena.text.words import RAISED


@dataclass(frozen=True, slots=True)
class Period:
    """A year, or a part of one.

    Attributes:
        year: None where only a quarter is said. A year that is said by its last day, or by two years ("FY2022/23"),
            is the one in which it ends.
        part: "q1" to "q4", "h1", "h2"; "" for the whole year. A part that is said by its last day is the one of the
            calendar that ends nearest to that day.
        fiscal: whether the text says that it means the fiscal year.
    """

    year: int | None
    part: str = ""
    fiscal: bool = False

    @property
    def month(self) -> int:
        """The month of the calendar that it ends with, from 1."""
        return {"q": 3, "h": 6}.get(self.part[:1], 12) * int(self.part[1:] or 1)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that all spellings of the period have in common: "2023", "fy2023", "2023q2", "q2"."""
        if self.year is None:
            return (self.part,)
        whole = (f"{self.year}", f"fy{self.year}") if self.fiscal else (f"{self.year}",)
        return (*whole, f"{self.year}{self.part}", self.part) if self.part else whole


_ORDINALS: Final = {
    written: number
    for number, listed in enumerate(
        (
            "first 1st erstes ersten premier 1er 1.", "second 2nd zweites zweiten deuxième 2e 2.",
            "third 3rd drittes dritten troisième 3e 3.", "fourth 4th viertes vierten quatrième 4e 4.",
        ),
        start=1,
    )
    for written in listed.split()
}  # fmt: skip
MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NUMBERS: Final = {
    "three": 3, "six": 6, "nine": 9, "twelve": 12, "thirteen": 13, "fourteen": 14, "twenty-six": 26,
    "thirty-nine": 39, "fifty-two": 52, "fifty-three": 53,
}  # fmt: skip
_NUMBER = rf"(?:{'|'.join(_NUMBERS)}|\d\d?)"
_YEAR = r"(?:19|20)\d\d"
_FISCAL = r"(?:fy|(?:fiscal|financial)(?:[ -]years?)?|geschäftsjahr(?:es)?|exercice)(?![^\W\d_])"
_ORDINAL = "|".join(map(re.escape, sorted(_ORDINALS, key=len, reverse=True)))
MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_SIGN = r"q[1-4]|[1-4]q|h[12]|[12]h"
_END = r"(?![^\W_]|[.,]\d|%)"
_MARK = re.compile(rf"(?<=\d)[{RAISED}]+")  # of a note
_GAP = r"[\s'’_/-]{0,2}"
_PERIOD = re.compile(
    rf"""(?<![^\W_])(?:
    # Q2 2023, Q2'23, 2Q23, Q22023, H1 FY23, second quarter of fiscal 2024, 2. Quartal 2023; alone: Q2, second quarter
    (?:(?P<sign>{_SIGN})|(?P<ordinal>{_ORDINAL})[\s-]?(?:(?:fiscal|calendar)\s)?
        (?:(?P<quarter>quarter|quartals?|trimestre)|half|halbjahre?s?|semestre)(?![^\W_]))
    (?:,?{_GAP}(?:(?:of|in|for|im|des|du|de)\s)?(?:(?:the|our|its)\s|l['’])?(?:(?P<fiscal>{_FISCAL}){_GAP}(?:of\s)?)?
        (?P<year>{_YEAR}|(?(fiscal)\d\d|(?:(?<=['’])|(?<=\d[qh]))\d\d)){_END}|(?![^\W_]))
    # FY2023, fiscal year 2023, FY2022/23, 2023Q2, 2023-H1, FY23 Q2, 2023, June 2023, Jun-23
    |(?:(?P<before>{_FISCAL}{_GAP})|(?P<in_month>{MONTH}{_GAP}))?
        (?P<first>{_YEAR}|(?(before)\d\d|(?(in_month)(?<=[’'-])\d\d|(?!))))
        (?P<last>(?(before)[/–-](?:20)?\d\d(?!\d)|(?!)))?
        (?:{_GAP}(?P<its_sign>{_SIGN}))?{_END}
    # quarter ended June 30, 2023; 52 weeks ended 28 January 2023
    |(?P<span>(?:{_NUMBER}|quarter|half|year)(?:ly)?(?:[\s-](?:months?|weeks?|year|period)){{0,2}}
        \s(?:ended|ending)\s(?:{MONTH}\s\d\d?|\d\d?\s{MONTH}),?\s{_YEAR}){_END}
    )""",
    re.VERBOSE,
)


def periods_in(text: str) -> tuple[Period, ...]:
    """Return the periods that a text names, each once, in the order of their first places; in time linear in it."""
    return tuple(dict.fromkeys(filter(None, map(_read, _PERIOD.finditer(_MARK.sub("", text.lower()))))))


_LENGTH = re.compile(
    rf"(?<![^\W_])(?:(?:first\s)?(?:(?P<other>{_NUMBER})\s(?:and|or)\s)?(?P<number>{_NUMBER})[\s-](?P<unit>month|week)s?"
    r"|(?P<quarter>quarter(?:ly)?)|half(?P<half>[\s-]year(?:ly)?|(?=\sended))"
    r"|(?P<year>(?:fiscal|financial|full)[\s-]years?|years?(?=\s(?:ended|ending))))"
    r"(?![^\W_])(?:\s(?:period\s)?(?:ended|ending))?"
)
_DAY = re.compile(
    rf"(?<![^\W_])(?:as\s(?:of|at)|(?:at\s)?(?:the\s)?end\sof|at|on)"
    rf"(?=\s?/|\s(?:{MONTH}\s?\d|\d\d?\s{MONTH}|fiscal\s|fy|{_YEAR}|the\s(?:{_ORDINAL})\s))"
)
_DATE = re.compile(
    rf"(?<![^\W_])(?:(?P<month>{MONTH})(?:\s(?P<day>\d\d?)(?!\d))?|(?P<before>\d\d?)\.?\s(?P<after>{MONTH}))"
    rf"(?:,?{_GAP}(?P<year>{_YEAR})|['’-](?P<short>\d\d))?{_END}"
)
_LASTING: Final = {"quarter": 3, "half": 6, "year": 12}
_FITS: Final = {True: 1.0, None: 0.5, False: 0.25}  # how well a part of a time fits: it is the same, unsaid, another


@dataclass(frozen=True, slots=True)
class Timing:
    """Tells of which time a figure is, as far as a text says it.

    Attributes:
        years: in which its period ends, or which are compared.
        month: that its period ends with, from 1; the first week of a month is the end of the one before, as years of
            52 weeks have it.
        months: how long the period is, 0 for a day.
        fiscal: whether the year is said by its name ("fiscal 2023"), not by a day.
        part: whether the month is said by a quarter or a half, which need not be the calendar's.
        day: whether its last day is said.
    """

    years: frozenset[int] = frozenset()
    month: int | None = None
    months: int | None = None
    fiscal: bool = False
    part: bool = False
    day: bool = False

    @property
    def end(self) -> int:
        """The months to its end since the year 0, where one day of one year says it; else 0."""
        said = len(self.years) == 1 and not (self.part or self.fiscal)
        return 12 * max(self.years) + self.month if said and self.month else 0

    def filled(self, other: Timing) -> Timing:
        """Return this time with what only the other says."""
        years, month = (self if self.years else other), (other if self.month is None else self)
        months = other.months if self.months is None else self.months
        return Timing(years.years, month.month, months, years.fiscal, month.part, month.day)

    def fit(self, said: Timing, shift: int = 0) -> float:
        """Return how well a figure of a time answers a question about this one.

        A question that names a year alone asks for the whole year, or for a day of it; one that names a day alone
        asks for that day.

        Args:
            said: the time of the figure.
            shift: months from the end of a period to the end that its name says: 5 where "fiscal 2023" ends in July.

        Returns:
            1 where it is of this time, 1/2 where it may be, 1/4 where it is of another.
        """
        asks_year = bool(self.years) and not self.month
        lasts = self.months == said.months or (None if None in (self.months, said.months) else False)
        if self.months is None:
            lasts = not (asks_year or self.day) or said.months in ((None, 0) if self.day else (None, 0, 12)) or None
        return min(_FITS[lasts], _FITS[self._ends_as(said, 0 if said.fiscal else shift)])

    def _ends_as(self, said: Timing, shift: int) -> bool | None:
        if self.month is None:
            return self._of_year(said, shift) if self.years and said.years else None if self.years else True
        may = not (self.years and said.years) or bool(self.years & said.years)
        if said.month is None:
            return None if may else False
        slack, apart = int(self.part or said.part), said.month - self.month
        plain, named = (self._apart(said, apart + by) <= slack for by in (0, shift))
        if self.fiscal:
            plain, named = named, plain
        if self.years and not said.years:
            return None if plain or named else False
        return plain or (False if not named else None if self.fiscal else self.part or False)

    def _of_year(self, said: Timing, shift: int) -> bool | None:
        if len(self.years) * len(said.years) > 1:
            return self.years == said.years or (None if self.years & said.years else False)
        if said.month is None or said.fiscal or said.part:
            return self.years == said.years
        (year,) = said.years
        end = 12 * year + said.month - 1
        named, near = (end + shift) // 12, (end - 1) // 12  # a year that ends in January is mostly the one before
        best = {named} if self.fiscal else {near, named} if shift else {near}
        return self.years <= best or (None if self.years <= {year, near} else False)

    def _apart(self, said: Timing, apart: int) -> int:
        """Return the months between both ends, `apart` in one year; around the year, where one of them says none."""
        if self.years and said.years:
            return min(abs(12 * (there - here) + apart) for here in self.years for there in said.years)
        return min(apart % 12, -apart % 12)


def timing_of(text: str) -> tuple[Timing, str]:
    """Return of which time a text speaks, and what it says besides, in lower case; in time linear in it."""
    years: list[int] = []
    ends: list[int] = []
    days: list[str] = []
    lengths: set[int] = set()
    found: list[Period] = []

    def date(match: re.Match[str]) -> str:
        day, year = match["day"] or match["before"], match["year"] or match["short"]
        if not (day or year):
            return match[0]
        month = MONTHS.index((match["month"] or match["after"])[:3]) + (int(day or 31) > 7)
        years.extend([int(year[-2:]) + int(year[:-2] or 20) * 100 - (not month)] if year else ())
        ends.append(month or 12)
        days.extend([day] if day else ())
        return " "

    def period(match: re.Match[str]) -> str:
        read = _read(match)
        found.extend([read] if read else ())
        return " " if read else match[0]

    def length(match: re.Match[str]) -> str:
        numbers = [_NUMBERS.get(number) or int(number) for number in match.group("other", "number") if number]
        of = {"month": 1.0, "week": 12 / 52}.get(match["unit"] or "")
        lengths.update(round(number * of) for number in numbers) if of else lengths.add(
            _LASTING[match.lastgroup or ""]
        )
        return " "

    rest, at_day = _DAY.subn(" ", _MARK.sub("", text.lower()))
    rest = _LENGTH.sub(length, _PERIOD.sub(period, _DATE.sub(date, rest)))
    years += [each.year for each in found if each.year is not None]
    lengths |= {0} if at_day else set()
    parts = {each.month: 3 if each.part[0] == "q" else 6 for each in found if each.part}
    if len(parts) == 1 and not ends:
        ends, lengths = list(parts), lengths & {0} or set(parts.values())
    months = lengths.pop() if len(lengths) == 1 else None
    fiscal = any(each.fiscal for each in found)
    return Timing(frozenset(years), ends[-1] if ends else None, months, fiscal, bool(parts), bool(days)), rest


def is_period(term: str) -> bool:
    """Return whether a term is a period and nothing else: "FY2023", "Q2'23", "Q3", "2023", "June 2023"."""
    match = _PERIOD.fullmatch(term.lower())
    return match is not None and _read(match) is not None


def _read(match: re.Match[str]) -> Period | None:
    said = {name: value for name, value in match.groupdict().items() if value}
    if "span" in said:
        return _ended(said["span"])
    sign = said.get("sign", said.get("its_sign", ""))
    part = sign if sign[:1].isalpha() else sign[::-1]
    if ordinal := said.get("ordinal"):
        part = f"{'q' if 'quarter' in said else 'h'}{_ORDINALS[ordinal]}"
    number = said.get("last", "").lstrip("/–-") or said.get("first") or said.get("year")
    if part in ("h3", "h4") or (number is None and part[0] == "h"):
        return None
    if number is None:
        return Period(None, part)
    year = int(number) if len(number) == 4 else 2000 + int(number)
    return Period(year, part, not said.keys().isdisjoint(("fiscal", "before")) or " fiscal " in match.group())


def _ended(text: str) -> Period:
    """Return the period whose last day is said: of a year the year of that day, of a part the calendar's nearest."""
    time = timing_of(text)[0]
    (year,), month, months = time.years, time.month or 12, time.months or 12
    if months not in (3, 6):
        return Period(year, fiscal=months == 12)
    year, part = divmod(round((12 * year + month) / months) - 1, 12 // months)
    return Period(year, f"{'q' if months == 3 else 'h'}{part + 1}")

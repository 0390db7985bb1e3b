"""Read what the cover of a document says: whose it is, which form it has, and for which period."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from catena.text.periods import MONTH, MONTHS, is_period, periods_in
from catena.text.words import normalise_term

_NUMBERED: Final = re.compile(
    r"\W*(?:form|schedule)\s+(?P<name>\d{1,3}[a-z]?(?:-[a-z0-9]{1,3})?(?:/a)?|[a-z]{1,3}-\d{1,2}[a-z]?(?:/a)?|def\s?14a)"
    r"(?:\s.{0,30})?",
    re.IGNORECASE,
)
_REPORT: Final = re.compile(
    r"(?:(?:integrated|interim|half[- ]?year(?:ly)?|semi-?annual|annual|quarterly|sustainability)\s+(?:annual\s+)?"
    r"(?:financial\s+)?(?:report(?:\s+and\s+accounts)?|accounts)|proxy statement|prospectus"
    r"|universal registration document|(?:konzern)?geschäftsbericht|halbjahres(?:finanz)?bericht|quartalsmitteilung"
    r"|rapport (?:annuel|financier)|document d[’']enregistrement universel|informe anual)",
    re.IGNORECASE,
)
_SMALL: Final = frozenset((
    "and", "of", "for", "the", "to", "on", "at", "from", "year", "years", "ended", "fiscal", "form", "und", "für",
    "pour",
))  # fmt: skip
_REGISTRANT: Final = re.compile(r"exact name of (?:the )?(?:registrant|issuer|company)", re.IGNORECASE)
_TICKER: Final = re.compile(
    r"(?<![\w&.’'-])(?P<name>(?:[A-Z][\w&.’'-]*,?\s|&\s|of\s|and\s){0,6}[A-Z][\w&’'-]*\.?)\s?"
    r"\((?:[A-Z][A-Za-z ]{1,20}:\s?[A-Z.]{1,6}[;,)])"
)
# Northwind Reports Third Quarter Results; the name in capitals, with what stands in brackets behind it
_HEADLINE: Final = re.compile(
    r"(?P<name>[A-Z\d][\w&.’'-]*(?:,?\s(?:[A-Z\d][\w&.’'-]*|&|of|and|the|de)){0,6}?)(?:\s\([^)]{1,40}\))?,?\s"
    r"(?i:(?:reports|reported|announces?|announced|posts|delivers|releases|publishes|meldet|veröffentlicht|publie"
    r"|annonce)\s(?P<said>.{0,80}?)\b(?:results|earnings|sales|revenues?|ergebnis(?:se)?|(?:quartals)?zahlen|résultats)\b)"
    r"(?P<for_it>(?:\s(?:for|of|in|für|im|du|de))?(?:\s[\w’'-]+){0,5})"
)
_OF_A_PERIOD: Final = re.compile(
    r"\b(?:quarter|half|year|fiscal|annual|interim|financial|earnings|quartal|halbjahr|trimestre|semestre|exercice)",
    re.IGNORECASE,
)
_RELEASE: Final = "Earnings Release"
_FORMS: Final = (
    "inc", "incorporated", "corp", "corporation", "company", "co", "ltd", "limited", "llc", "lp", "llp", "plc", "ag",
    "se", "sa", "sas", "nv", "bv", "gmbh", "kg", "kgaa", "ab", "as", "asa", "oyj", "spa", "pty",
)  # fmt: skip
_LEGAL_FORM = "|".join(r"\.?".join(form) for form in _FORMS)  # with a full stop between any letters: S.A.
_LEGAL: Final = re.compile(rf"[^\W\d_].{{0,60}}?[\s,](?:{_LEGAL_FORM}|holdings?|group)\.?", re.IGNORECASE)
_ENDS: Final = frozenset((*_FORMS, "and", "und", "et"))  # of companies' names, that do not tell one from another
_DATE: Final = rf"(?:{MONTH}\s\d\d?,?|\d\d?\.?\s{MONTH},?)\s(?:19|20)\d\d"
_ENDED: Final = re.compile(
    rf"(?:(?:fiscal|financial|quarterly|half|three|six|nine|twelve|\d\d?)[\s-])?(?:years?|quarter|period|months|weeks)"
    rf"(?:\speriod)?\s(?:ended|ending):?\s(?P<date>{_DATE})",
    re.IGNORECASE,
)
_ALONE: Final = re.compile(rf"(?:date[^:]{{0,50}}:\s*)?(?P<date>{_DATE})", re.IGNORECASE)
_ISO: Final = re.compile(rf"(?P<month>{MONTH})|(?P<day>\b\d\d?\b)|(?P<year>\d{{4}})", re.IGNORECASE)
_LINES, _LONGEST = 80, 300  # lines of a cover that are read, and characters of each
_HEAD = 6  # lines that may name the period where no line names its end

_PROGRAM: Final = re.compile(
    r"untitled.*|document\d*|microsoft.*|slide 1|layout 1|\(anonymous\)|unknown|\S*\.\w{1,5}", re.IGNORECASE
)
_AUTHORITY: Final = re.compile(
    r"(?:the\s|u\.?\s?s\.?\s|united states(?: of america)?,?\s?)*"
    r"(?:(?:[\w’'&-]+\s){0,6}(?:commission|agency|authority|registry|bureau|treasury)"
    r"|(?:ministry|department) of(?: \w+){1,2})?"
    r"(?:,?\s(?:washington|london|brussels|berlin)\b.{0,20})?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """Keeps what a cover says, "" for what it does not say.

    Attributes:
        company: as printed.
        form: "10-K", or what the report calls itself: "Annual Report"; "Earnings Release", by the headline.
        period: "2023" or "2023 Q2"; a quarter that is said by its last day is the calendar's nearest.
        date: the last day of the period, else the day that is printed alone on a line: "2023-07-29".
        numbered: the form has a number, so that the whole page is made of its fields.
    """

    company: str = ""
    form: str = ""
    period: str = ""
    date: str = ""
    numbered: bool = False

    @property
    def title(self) -> str:
        """Company, form, and period or date: "Northwind Inc. 10-Q 2023 Q2"; "" unless company and form are known.

        A release is named by its own headline.
        """
        if not (self.company and self.form) or self.form == _RELEASE:
            return ""
        return " ".join(filter(None, (self.company, self.form, self.period or self.date)))

    @property
    def metadata(self) -> dict[str, str]:
        """Company, form, period and date, those that are known."""
        known = {"company": self.company, "form": self.form, "period": self.period, "date": self.date}
        return {name: value for name, value in known.items() if value}


def read_cover(lines: Sequence[str]) -> Cover:
    """Read the lines of a document's first page; an empty cover, where they name neither a company nor a form."""
    lines = [" ".join(line[:_LONGEST].split()) for line in lines if any(map(str.isalnum, line))][:_LINES]
    form, numbered, named = _form(lines)
    headline = None if numbered else _headline(lines)
    form = form or (_RELEASE if headline else "")
    company = _company(lines, named) or (headline["name"] if headline else "")
    if not (form or company):
        return Cover()
    ended = _ENDED.search(" ".join(lines))
    day = ended or next((match for line in lines if (match := _ALONE.fullmatch(line))), None)
    said = map(_period, headline.group("said", "for_it")) if headline else ()
    return Cover(
        company=company, form=form,
        period=next(filter(None, (*said, _period(ended[0] if ended else named), *map(_part, lines[:_HEAD]))), ""),
        date=_iso(day["date"]) if day else "", numbered=numbered,
    )  # fmt: skip


def is_title(text: str) -> bool:
    """Tell if a text can be the title of a document: no number or name of a file, no program's, no authority's."""
    text = " ".join(text.split())
    letters, digits = sum(map(str.isalpha, text)), sum(map(str.isdigit, text))
    of_file = " " not in text and "_" in text
    told = 3 <= letters > digits and len(text) <= 200 and not of_file
    return told and not _PROGRAM.fullmatch(text) and not _AUTHORITY.fullmatch(text)


def equal_to(field: str, wanted: str) -> Callable[[str], bool]:
    """Return a test of values of a field of metadata: whether one says what is wanted, without case, gaps and marks.

    Of a company its legal form does not count, "Pfizer" is "PFIZER INC."; of a period its spelling, "FY2023" is
    "2023", and a year is each part of it, too: "2023 Q2".
    """
    asked = periods_in(wanted)
    if field == "period" and len(asked) == 1 and is_period(wanted.strip()):
        year, part = asked[0].year, asked[0].part
        return lambda value: any(year in (None, p.year) and part in ("", p.part) for p in periods_in(value))
    form = _plain(field, wanted)
    return lambda value: _plain(field, value) == form


def _plain(field: str, text: str) -> str:
    """Return a value of a field in the only form that is compared."""
    plain = normalise_term(text)
    if field != "company":
        return plain or text
    words = re.findall(r"[^\W_]+", plain.replace(".", "")) or [text]
    while len(words) > 1 and words[-1] in _ENDS:
        words.pop()
    return " ".join(words[len(words) > 1 and words[0] == "the" :])


def _form(lines: Sequence[str]) -> tuple[str, bool, str]:
    """Return the form, whether it has a number, and the line that names it."""
    for line in lines:
        if match := _NUMBERED.fullmatch(line):
            return match["name"].upper(), True, line
    for line in lines:
        match = _REPORT.search(line)
        words = re.findall(r"[^\W\d_]+", line[: match.start()] + line[match.end() :]) if match else []
        if match and all(word[0].isupper() or word.lower() in _SMALL for word in words):
            return match[0], False, line
    return "", False, ""


def _headline(lines: Sequence[str]) -> re.Match[str] | None:
    """Return who reports results of a period, as the headline of a release says, which may go on in the next line."""
    for first, second in pairwise((*lines[:_HEAD], "")):
        match = _HEADLINE.match(f"{first} {second}")
        if match is None or len(match["name"]) > len(first):
            continue
        if _OF_A_PERIOD.search(match[0], 0, match.start("for_it")) or periods_in(match[0]):
            return match
    return None


def _company(lines: Sequence[str], named: str) -> str:
    """Return the name before "(Exact name of registrant", before a ticker, before the form's, or of a legal form."""
    for place, line in enumerate(lines):
        if match := _REGISTRANT.search(line):
            above = (line[: match.start()].rstrip(" (").strip(), *reversed(lines[max(0, place - 3) : place]))
            return next((name for name in above if is_title(name) and "file n" not in name.lower()), "")
    for line in lines:
        if match := _TICKER.search(line):
            return match["name"]
    if not named:
        return ""
    before = named[: match.start()].strip(" -–—|,") if (match := _REPORT.search(named)) else ""
    if before and not periods_in(before):
        return before
    return next((line for line in lines if _LEGAL.fullmatch(line) and len(line.split()) <= 7), "")


def _period(text: str) -> str:
    """Return the one fiscal year, or part of a year, that a text names, or ""."""
    found = periods_in(text)  # "fiscal year 2024 first quarter" says one in two
    years, parts = {each.year for each in found if each.year}, {each.part for each in found if each.part}
    if len(years) != 1 or len(parts) > 1:
        return ""
    return " ".join((f"{years.pop()}", *map(str.upper, parts)))


def _part(text: str) -> str:
    """Return the period of a text that says that it means a fiscal year or a part of a year."""
    return _period(text) if any(period.part or period.fiscal for period in periods_in(text)) else ""


def _iso(date: str) -> str:
    said = {match.lastgroup: match[0] for match in _ISO.finditer(date)}
    return f"{said['year']}-{MONTHS.index(said['month'][:3].lower()) + 1:02}-{int(said['day']):02}"

"""The names by which people tell documents apart: which of them a question says, and which it nearly says.

A document's names are its title and the codes in it (words that mix letters and digits: HX-200, STM32F103R4).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from catena.model import Name, Unknown
from catena.text.spellings import GAP, is_joined, places_of
from catena.text.terms import TermMatcher
from catena.text.words import UNSPACED, normalise_query, normalise_term

# of a code: no script without spaces, and no Hangul, whose particles are written to the word ("HX-200의")
_SIGN = rf"(?:(?![{UNSPACED}\uac00-\ud7a3])[^\W_])"
_LETTER = rf"(?:(?![{UNSPACED}\uac00-\ud7a3])[^\W\d_])"
# letters and digits in one word, with inner marks: STM32F103R4, HX-200, ATmega168P/PA, 3.3V
# (the look-ahead for a digit never goes back, or a long word without one would cost its length squared)
_CODE = re.compile(rf"(?<!{_SIGN})(?={_LETTER}*+(?:[./+\-_]{_LETTER}*+)?\d){_SIGN}+(?:[./+\-_]{_SIGN}+)*(?!{_SIGN})")
_LETTER_AND_DIGIT = re.compile(r"(?=.*\d)(?=.*[^\W\d_])")
# begins with a number that a word of three letters follows: 3-month, 03-May-2024, 001.pdf
_COUNTED = re.compile(r"\d+[./+\-_][^\W\d_]{3,}(?:[./+\-_](?:\d+|[^\W\d_]+))*")
_UNIT = r"(?:[^\W\d_]{1,4}|[^\W\d_]*bit)\b"
# 16MHz, 3.3 V, 32-bit, 5m/s, 100mg/5ml; 10x20mm; v4.2; 100 recipes, but not 2023 report
_MEASURE = re.compile(
    rf"[\d.,/ ]*\d ?{_UNIT}(?:[/*](?:[\d.,]*\d ?)?(?:{_UNIT})?)*\.?|[\d.,]*\d(?:x[\d.,]*\d)+ ?(?:{_UNIT})?"
    r"|v ?[\d.]*\d|(?!(?:19|20)\d\d )[\d.,]*\d [^\W\d_]+"
)
_YEAR = re.compile(r"(?:19|20)\d\d")
_WORD_AND_NUMBER = re.compile(r"[^\W\d_]+ \d+")
_LEADING_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")
_DIGITS = re.compile(r"\d+")
_DIGITS_OR_ONE = re.compile(r"\d+|.", re.DOTALL)
_SHARES = tuple("%\u2030\u00b0")
_PLACEHOLDER = "0"  # stands for any run of digits in the pattern of a name
_FEWEST_LETTERS = 2  # of a name whose siblings are looked for: "v2" and "m4" are versions and sizes
NEAR = 5  # names shown beside one that does not exist


def codes_in(text: str) -> tuple[str, ...]:
    """Return the words of a text that mix letters and digits, as printed, in order, repetitions kept.

    A counted word or a date ("3-month", "03-May-2024") is no code.
    """
    return tuple(
        code for code in _CODE.findall(text) if _LETTER_AND_DIGIT.match(code) and not _COUNTED.fullmatch(code)
    )


def says_something(term: str) -> bool:
    """Return whether a normalised term is worth keeping: two characters at least, one of them a letter."""
    return len(term) >= 2 and any(map(str.isalpha, term))


def is_measure(term: str) -> bool:
    """Return whether a normalised term is a number with its unit, as "16mhz" and "3.3 v" are, and no name."""
    return _MEASURE.fullmatch(term) is not None


def other_forms(code: str) -> tuple[str, ...]:
    """Return what else a normalised code may stand for: without what is joined to it, in the singular, unspaced.

    So "hx 200s" and "hx 200 based" are "hx 200", and all of them "hx200".
    """
    words = code.split()
    while len(words) > 1 and words[-1].isalpha():
        words.pop()
    bare = " ".join(words)
    forms = [code, bare, *(form[:-1] for form in (code, bare) if form.endswith("s"))]
    return tuple(dict.fromkeys((*forms, *map(unspaced, forms))))


def unspaced(name: str) -> str:
    """Return a normalised name without its spaces: equal for "HX-200" and "HX200"."""
    return name.replace(" ", "")


def names_of(title: str) -> tuple[str, ...]:
    """Return what people may call a document of this title, normalised: the title first, then the codes in it."""
    found = (normalise_term(raw) for raw in (title, *codes_in(title)))
    return tuple(dict.fromkeys(name for name in found if says_something(name)))


def patterns_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns of the names (normalised) that may have siblings: each run of their digits is one "0"."""
    return tuple(dict.fromkeys(pattern_of(name) for name in names if _has_siblings(name)))


def pattern_of(name: str) -> str:
    """Return a normalised name with each run of its digits as one "0"."""
    return _DIGITS.sub(_PLACEHOLDER, name)


def without(query: str, names: Iterable[str]) -> str:
    """Return the question without these names (normalised): what it asks about them.

    What is left of brackets and dashes goes too. In the query's own spelling, unless a name is only found in the
    folded one (a ligature, a full-width letter).
    """
    rest = query
    for name in sorted(names, key=len, reverse=True):
        if not any(_places(name, rest)) and any(_places(name, folded := normalise_query(rest))):
            rest = folded
        rest = _blanked(rest, _places(name, rest))
    return " ".join(word for word in rest.split() if any(character.isalnum() for character in word))


def as_written(query: str, name: str) -> str:
    """Return how the query writes a normalised name; the name itself where its letters differ."""
    found = next(_places(name, query), None)
    return name if found is None else _with_bracket(query, *found.span())


def all_as_written(query: str, names: Iterable[str]) -> dict[str, str]:
    """Return for each of these normalised names what `as_written` returns, in one pass over the query."""
    names = tuple(names)
    places = places_of(names, query)
    return {name: _with_bracket(query, *places[name]) if name in places else name for name in names}


def _with_bracket(query: str, start: int, end: int) -> str:
    written = query[start:end]
    closes = written.count("(") > written.count(")") and query.startswith(")", end)  # normalising cut it
    return f"{written})" if closes else written


def _places(name: str, text: str) -> Iterator[re.Match[str]]:
    """Yield where a text writes a normalised name, in any case, from the left, none inside another.

    Its neighbours are looked at outside of the pattern: with them, each pattern would take 15 ms to be made.
    """
    spelling = re.compile(GAP.join(map(re.escape, name.split())), re.IGNORECASE)
    free = 0
    while free <= len(text) and (found := spelling.search(text, free)):  # past the end, "" is found for ever
        start, end = found.span()
        joined = is_joined(text, start, end)
        if not joined:
            yield found
        free = start + 1 if joined or start == end else end


def _blanked(text: str, places: Iterable[re.Match[str]]) -> str:
    kept, at = [], 0
    for place in places:
        kept.append(text[at : place.start()])
        at = place.end()
    return " ".join((*kept, text[at:]))


class NameIndex:
    """Documents by their names, to be asked with whole questions.

    Args:
        titles: document id -> title.
    """

    def __init__(self, titles: Mapping[str, str]) -> None:
        documents: defaultdict[str, list[str]] = defaultdict(list)
        printed: dict[str, str] = {}
        for document_id in sorted(titles):
            names = names_of(titles[document_id])
            for name in names:
                documents[name].append(document_id)
            shown = [name for name in names if name not in printed and _has_siblings(name)]  # no others ever are
            printed |= all_as_written(titles[document_id], shown)
        patterns: defaultdict[str, list[str]] = defaultdict(list)
        for name in sorted(documents):
            if _has_siblings(name):
                patterns[pattern_of(name)].append(name)
        self._documents, self._patterns, self._printed = documents, patterns, printed
        self._names, self._siblings = TermMatcher(documents), TermMatcher(patterns)
        self._sorted = self._names.terms

    def known_in(self, query: str) -> tuple[Name, ...]:
        """Return the names that a question says, in order: the longest at each place."""
        return tuple(Name(name, tuple(self._documents[name])) for name in self._names.longest_in(query))

    def near_in(self, query: str) -> tuple[Unknown, ...]:
        """Return what a question says that is a name here but for its digits, and the names it is near to.

        So "LoPy11" is near "LoPy4", and "Annual Report 2031" is near the reports of other years. What is a name,
        or the beginning of one, is left out.
        """
        return tuple(unknown for said, unknown in self.nearly_in(query) if not self._begins_a_name(said))

    def nearly_in(self, query: str) -> tuple[tuple[str, Unknown], ...]:
        """As `near_in`, with what begins a name: pairs of what the question says, normalised, and of what that is."""
        normal = normalise_query(query)
        pattern, places = _pattern_with_places(normal)
        spans, free = [], 0  # everything before `free` is taken
        for start, end in self._siblings.spans_in(pattern):
            if start >= free:
                spans.append((start, end))
                free = end
        written = all_as_written(query, (normal[places[start] : places[end]] for start, end in spans))
        found = []
        for start, end in spans:
            said = normal[places[start] : places[end]]
            alike = [
                name
                for name in self._patterns[pattern[start:end]]
                if _may_be_sibling(self._printed[name], written[said], after=normal[places[end] : places[end] + 1])
            ]
            same = any(_without_zeros(name) == _without_zeros(said) for name in alike)  # "scan 1" is "scan_001"
            if alike and not same:
                near = sorted(alike, key=lambda name: (-_shared(name, said), name))
                found.append((said, Unknown(written[said], tuple(self._printed[name] for name in near[:NEAR]))))
        return tuple(found)

    def _begins_a_name(self, said: str) -> bool:
        at = bisect_left(self._sorted, said)
        return at < len(self._sorted) and self._sorted[at].startswith(said)


def _has_siblings(name: str) -> bool:
    letters = sum(character.isalpha() for character in name)
    return letters >= _FEWEST_LETTERS and any(map(str.isdigit, name)) and not is_measure(name)


def _may_be_sibling(name: str, said: str, *, after: str) -> bool:
    """Return whether what a question says, `after` being the next character, may be meant as a name printed so.

    Not where the name states a year and the question another kind of number ("Budget 2024", "a budget 50000"),
    a share ("a budget 50%"), or where one everyday word stands before a number: "Top 10", "the top 5 of them".
    """
    years = zip(_DIGITS.findall(name), _DIGITS.findall(said), strict=False)
    if after in _SHARES or any(_YEAR.fullmatch(one) and not _YEAR.fullmatch(other) for one, other in years):
        return False
    everyday = _WORD_AND_NUMBER.fullmatch(said) and said.islower() and not name.islower()
    return not everyday


def _without_zeros(name: str) -> str:
    return _LEADING_ZEROS.sub("", name)


def _pattern_with_places(text: str) -> tuple[str, list[int]]:
    """Return a text's pattern, and for each border in it the place in the text."""
    pattern: list[str] = []
    places: list[int] = []
    for match in _DIGITS_OR_ONE.finditer(text):
        places.append(match.start())
        pattern.append(_PLACEHOLDER if match.group()[0].isdigit() else match.group())
    return "".join(pattern), [*places, len(text)]


def _shared(one: str, other: str) -> int:
    """Return the length of what two names begin with together."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))

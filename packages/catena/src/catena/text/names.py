"""Find terms and names in texts: the names of documents that a question says or nearly says, and their spelling.

A document's names are its title and the codes in it (words that mix letters and digits: HX-200, STM32F103R4).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from catena.model import Name, Unknown
from catena.text.periods import is_period
from catena.text.stems import stop_words
from catena.text.words import UNSPACED, common_beginning, is_border, normalise_query, normalise_term, tokenise


class TermMatcher:
    """Finds the terms of a vocabulary in a text, by Aho-Corasick: in time linear in the text and its matches.

    Terms are compared in the form of `catena.text.words.normalise_term`, and count only between borders (see
    `catena.text.words.is_border`): "STM32F103" is not in "STM32F103R4", and both are in "STM32F103 (STM32F103R4)".

    Args:
        terms: in any form, order and number; those of which normalising leaves nothing are left out.

    Attributes:
        terms: normalised, distinct, sorted.

    Source: Aho and Corasick, CACM 1975, doi:10.1145/360825.360855.
    """

    def __init__(self, terms: Iterable[str]) -> None:
        self.terms = tuple(sorted({normalise_term(term) for term in terms} - {""}))
        self._automaton = None
        if self.terms:
            from daachorse import CharwiseDoubleArrayAhoCorasick

            self._automaton = CharwiseDoubleArrayAhoCorasick(list(self.terms))

    def all_in(self, text: str) -> tuple[str, ...]:
        """Return the distinct terms in a text, those inside longer ones as well.

        In the order of their first places; of two that begin together, the longer first.
        """
        normal = normalise_query(text)
        return tuple(dict.fromkeys(normal[start:end] for start, end in self.spans_in(normal)))

    def longest_in(self, text: str) -> tuple[str, ...]:
        """Return the distinct terms in a text, in order: the longest at each place, from the left.

        So "ESP32 C6 DevKit" names one thing, not the "ESP32" as well.
        """
        normal = normalise_query(text)
        return tuple(dict.fromkeys(normal[start:end] for start, end in _apart(self.spans_in(normal))))

    def spans_in(self, normal: str) -> list[tuple[int, int]]:
        """Return all matches between borders as [start, end), from the left, the longer first.

        The text is one from `normalise_query`. All matches are asked for, not the automaton's leftmost-longest: of
        two that begin together, the longer may end inside a word.
        """
        if self._automaton is None:
            return []
        found = [(start, end) for start, end, _ in self._automaton.find_overlapping(normal)]
        spans = [(start, -end) for start, end in found if is_border(normal, start) and is_border(normal, end)]
        return [(start, -minus_end) for start, minus_end in sorted(spans)]


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
# "Apple", "Nestlé", not "HIV", "FactSet"
_NAME = r"[A-Z\u00c0-\u00d6\u00d8-\u00de][a-z\u00df-\u00f6\u00f8-\u00ff]{3,}+(?!\w|[-.&]\w)"
_INSIDE = re.compile(rf"(?<=[^\W_][,;]\s|[^\W_]{{2}}\s){_NAME}")
_FIRST = re.compile(rf"\W*({_NAME})")
# begin questions and are no names, besides stop words
_OPENER = re.compile(
    r"although|among|aside|besides|despite|following|like|many|several|since|unlike|upon|within|without"
    r"|according|analyse|analyze|approximately|assess|assume|assuming|based|calculate|compare|compute|concerning"
    r"|considering|define|describe|determine|discuss|display|estimate|evaluate|excluding|explain|extract|find"
    r"|given|hello|identify|including|list|make|might|much|must|name|outline|please|provide|quantify|regarding"
    r"|report|return|roughly|shall|should|show|state|suppose|summarise|summarize|tell|thanks|using|whether|whose"
    r"|would|beschreibe|bitte|darf|dürfen|erkläre|erläutere|fasse|finde|gehört|gelten|gibt|gilt|kommt|könnten"
    r"|liste|müssen|nenne|nennen|sollen|steht|vergleiche|wann|warum|weshalb|wieso|wieviel|wofür|wohin|womit|worauf"
    r"|worin|worüber|worum|zeige"
)
# of German, after which a capital says little: an article or the like, an adjective
_ARTICLE = re.compile(
    r"d(?:er|ie|as|e[mns])|(?:k?ein|[mds]ein|ihr|unser|eur|dies|jed|welch|all|solch)(?:e[mnrs]?)?|zu[mr]|[ai]m|ins|vom|beim"
)
_ADJECTIVE = re.compile(r"\b\w++(?:(?<=e)|(?<=e[mnrs]))")
# of German, that are words and no names by their ending, or as compounds by their length in letters
_NOUN = re.compile(r"\w+(?:ung|heit|keit|schaft|tion|tät|nis)(?:e[ns]?|s|se)?|\w{13,}")
_YEAR = re.compile(r"(?:19|20)\d\d")
_WORD_AND_NUMBER = re.compile(r"[^\W\d_]+ \d+")
_LEADING_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")
_DIGITS = re.compile(r"\d+")
_DIGITS_OR_ONE = re.compile(r"\d+|.", re.DOTALL)
_SHARES = tuple("%\u2030\u00b0")
_PLACEHOLDER = "0"  # replaces each run of digits in the pattern of a name
_FEWEST_LETTERS = 2  # of a name whose siblings are looked for: "v2" and "m4" are versions and sizes
NEAR = 5  # names shown beside one that does not exist


def codes_in(text: str) -> tuple[str, ...]:
    """Return the words of a text that mix letters and digits, as printed, in order, repetitions kept.

    A counted word, a date or a period ("3-month", "03-May-2024", "FY2023") is no code.
    """
    mixed = (code for code in _CODE.findall(text) if _LETTER_AND_DIGIT.match(code))
    return tuple(code for code in mixed if not _COUNTED.fullmatch(code) and not is_period(code))


def names_by_case(question: str, *, first: bool = False) -> tuple[str, ...]:
    """Return the words of a question that are names by their capital, as it writes them: "Tesla", of "Tesla's" too.

    In German, every noun has one: there only what follows no article and no adjective. Stop words are none, nor what
    requests begin with; in a title, any word may have one.

    Args:
        question: as typed.
        first: whether its first word counts, too, which may be any word.
    """
    language = _language_asked(question)
    inside = () if not language or _is_titled(question) else _INSIDE.finditer(question)
    names = [found[0] for found in inside if language != "german" or _is_bare(question, found)]
    if first and language in ("", "english", "german") and (begun := _FIRST.match(question)):
        names.insert(0, begun[1])
    if language == "german":
        names = [name for name in names if not _NOUN.fullmatch(name)]
    return tuple(dict.fromkeys(name for name in names if not is_common(name.lower())))


def _language_asked(question: str) -> str:
    """Return the language with most stop words in a question; "" where there is none, or it is English or German."""
    words = tokenise(question)
    counts = {language: sum(word in stops for word in words) for language, stops in stop_words().items()}
    most = max(counts.values())
    best = [language for language in counts if counts[language] == most]
    telling = [language for language in ("english", "german") if language in best]
    return "" if len(telling) > 1 else (telling or best)[0]


def _is_titled(question: str) -> bool:
    """Return whether a question has a stop word with a capital inside a sentence, as a title has: "What Was Paid"."""
    written = [after for before, after in pairwise(question.split()) if before[-1].isalnum() and after.istitle()]
    return any(len(word) > 1 and word.lower() in stop_words()["english"] for word in written)


def _is_bare(question: str, found: re.Match[str]) -> bool:
    """Return whether neither an article nor an adjective stands before a German word."""
    before = question[max(0, found.start() - 40) : found.start()].rstrip().rpartition(" ")[2]
    is_stop = before in stop_words()["german"]
    return not (before.islower() and (_ARTICLE if is_stop else _ADJECTIVE).fullmatch(before))


def is_common(word: str) -> bool:
    """Return whether a word in lower case is a stop word of any language, or one that questions begin with."""
    return bool(_OPENER.fullmatch(word)) or any(word in stops for stops in stop_words().values())


def says_something(term: str) -> bool:
    """Return whether a normalised term is worth keeping: two characters at least, one of them a letter."""
    return len(term) >= 2 and any(map(str.isalpha, term))


def is_measure(term: str) -> bool:
    """Return whether a normalised term is a number with its unit, as "16mhz" and "3.3 v" are, and no name."""
    return _MEASURE.fullmatch(term) is not None


def other_forms(code: str) -> tuple[str, ...]:
    """Return the forms of a normalised code: itself, without words joined to it, in the singular, unspaced.

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
    """Return the names of a document of this title, normalised: the title first, then the codes in it."""
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
    """Return a normalised name as the query writes it; the name itself where its letters differ."""
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
    """Yield the places at which a text writes a normalised name, in any case, from the left, without overlaps.

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


def _apart(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield of spans in order those that begin where the last one yielded has ended."""
    free = 0
    for start, end in spans:
        if start >= free:
            yield start, end
            free = end


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
        """Return the terms of a question that are a name here but for their digits, with the names they are near to.

        So "LoPy11" is near "LoPy4", and "Annual Report 2031" is near the reports of other years. What is a name,
        or the beginning of one, is left out.
        """
        return tuple(unknown for said, unknown in self.nearly_in(query) if not self._begins_a_name(said))

    def nearly_in(self, query: str) -> tuple[tuple[str, Unknown], ...]:
        """As `near_in`, with what begins a name: pairs of what the question says, normalised, and of what that is."""
        normal = normalise_query(query)
        pattern, places = _pattern_with_places(normal)
        spans = list(_apart(self._siblings.spans_in(pattern)))
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
                near = sorted(alike, key=lambda name: (-common_beginning(name, said), name))
                found.append((said, Unknown(written[said], tuple(self._printed[name] for name in near[:NEAR]))))
        return tuple(found)

    def _begins_a_name(self, said: str) -> bool:
        at = bisect_left(self._sorted, said)
        return at < len(self._sorted) and self._sorted[at].startswith(said)


def _has_siblings(name: str) -> bool:
    letters = sum(character.isalpha() for character in name)
    return letters >= _FEWEST_LETTERS and any(map(str.isdigit, name)) and not (is_measure(name) or is_period(name))


def _may_be_sibling(name: str, said: str, *, after: str) -> bool:
    """Return whether what a question says, `after` being the next character, may be meant as a name printed so.

    Not where the name states a year and the question another kind of number ("Budget 2024", "a budget 50000"),
    a share ("a budget 50%"), or where one everyday word precedes a number: "Top 10", "the top 5 of them".
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


GAP: Final = r"[\s_\-\u2010-\u2015\u2212]+"  # what is one space in a normalised name
SPACED: Final = re.compile(rf"(?![{UNSPACED}])\w")  # parts a name from its neighbours only by not being there

_GAP = re.compile(GAP)
_GAP_IN_NAME = re.compile(r"[^\S ]|[_\-\u2010-\u2015\u2212]")  # of no normalised name
_SURROGATE = re.compile("[\ud800-\udfff]")
_FEW: Final = 500  # names times characters, as of a title: to make the automaton takes longer than to search for each
_NOTHING: Final = "\n"  # is in no name, so that what it replaces matches none
# upper case is one letter for all letters that a pattern without case takes for one, but for these
_SAME: Final = {"\ufb06": "\ufb05", "\u1fd3": "\u0390", "\u1fe3": "\u03b0"}


def places_of(names: Iterable[str], text: str) -> dict[str, tuple[int, int]]:
    """Return the first place, [start, end), at which a text writes each of these normalised names, by name.

    In any case, with any gap where the name has a space, and with no letter or digit beside it. In time linear in the
    text, the names and their matches: many are looked for at once (Aho-Corasick).
    """
    wanted: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        words = name.split()
        if words and not _GAP_IN_NAME.search(name):
            wanted.setdefault(caseless(" ".join(words)), []).append(name)
    if not wanted or not text:
        return {}
    keys = sorted(wanted)
    normal, places = _normal(text)
    found: dict[int, tuple[int, int]] = {}
    for first, last, key in _matches(keys, normal):
        start, end = places[first], places[last - 1] + 1
        if (key not in found or start < found[key][0]) and not is_joined(text, start, end):
            found[key] = start, end
    return {name: place for key, place in found.items() for name in wanted[keys[key]]}


def _matches(keys: Sequence[str], text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the places of some words in a text, overlapping ones too: start, end, and index of the word in `keys`."""
    if len(keys) * len(text) > _FEW:
        from daachorse import CharwiseDoubleArrayAhoCorasick

        yield from CharwiseDoubleArrayAhoCorasick(list(keys)).find_overlapping(text)
        return
    for number, key in enumerate(keys):
        start = text.find(key)
        while start >= 0:
            yield start, start + len(key), number
            start = text.find(key, start + 1)


def is_joined(text: str, start: int, end: int) -> bool:
    """Return whether the text at [start, end) is part of a longer word."""
    return bool((start and SPACED.match(text, start - 1)) or SPACED.match(text, end))


def caseless(text: str) -> str:
    """Return a text with one letter for all that a pattern takes for the same in any case, of equal length."""
    return text.upper() if text.isascii() else "".join(map(_caseless, text))


def _caseless(character: str) -> str:
    lower = character.lower()[0]  # of "İ", which has two
    upper = lower.upper()
    return upper if len(upper) == 1 else _SAME.get(lower, lower)


def _normal(text: str) -> tuple[str, list[int]]:
    """Return the text with one space per gap and without case, and the place of each of its characters."""
    parts: list[str] = []
    places: list[int] = []
    at = 0
    for gap in _GAP.finditer(text):
        parts += (text[at : gap.start()], " ")
        places.extend(range(at, gap.start() + 1))
        at = gap.end()
    parts.append(text[at:])
    places.extend(range(at, len(text)))
    return _SURROGATE.sub(_NOTHING, caseless("".join(parts))), places

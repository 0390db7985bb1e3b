"""Find what tells documents from their neighbours: word runs of their titles, file names and first lines.

A template that many documents share ("Privacy policy of …", "… Court") tells none of them: it is cut off by the
number of documents that bear it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from math import isqrt
from operator import or_
from typing import TYPE_CHECKING, Final

import numpy as np

from catena.model import Name
from catena.text.names import is_common, is_measure, says_something
from catena.text.periods import is_period, periods_in
from catena.text.words import UNSPACED, folded, normalise_term

if TYPE_CHECKING:
    from numpy.typing import NDArray

BEGINNING: Final = 400  # characters of a text, and of a title, that are looked at
_WORD = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])[^\W_])+")
_WORD_OR_END = re.compile(rf"{_WORD.pattern}|\n")
_APART = re.compile(r"""[:;?!()"“”\n]|(?<!\b\w)\.\s""")  # between words of two names; not in "T. Jackson"
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LONG = re.compile(r"(?<![^\W_])[a-z](?=[^\W\d_]{3})")  # no "of", "and", "the", "les"
_CASED = re.compile(r"(?<=[^\W_][,;]\s|[^\W_]{2}\s)[A-Z]\w")  # inside a sentence: names have capitals there
# a capital that begins a sentence, of a line that ends as one, before a word without
_SENTENCE = re.compile(r"(?:(?<=\w{3}[.!?]\s)|^(?=.*[.!?]$))[A-Z](?=[a-z]+\s[a-z])", re.MULTILINE)
_JOINED = re.compile(r"(?<![^\W_])[^\W_]++(?:[./@&][^\W_]++)+")  # "ticketmaster.com"
_DIGIT = re.compile(r"\d")
_SHORTEST = 5  # characters of words that are written as one: "BESTBUY" is "Best Buy", "toa" is not "to a"
_LONGEST = 20  # words of a name
_MOST_WORDS = 1_000  # of a question that are looked at
_TOGETHER = 3  # words that may be written as one


def header_of(title: str, source: str, text: str) -> tuple[str, ...]:
    """Return what shows at first sight which document it is: its title, its file name, its first lines.

    With capitals where a name may begin or end although it is written without: in file names, in "ticketmaster.com".
    """
    file = re.split(r"[\\/]", source)[-1]
    stem = _LONG.sub(lambda match: match[0].upper(), _CAMEL.sub(" ", file.rpartition(".")[0] or file))
    beginning = _SENTENCE.sub(lambda match: match[0].lower(), "\n".join(_first_lines(text)))
    lines = (" ".join(title[:BEGINNING].split()), stem[:BEGINNING], *beginning.splitlines())
    return tuple(_JOINED.sub(lambda match: match[0].title(), line) for line in lines)


def _first_lines(text: str) -> list[str]:
    """Return the lines before the first section: those after the headings and the prose that begin a document."""
    lines = text[:BEGINNING].splitlines()
    said = accumulate((bool(line) and not line.startswith("#") for line in lines), or_)
    sections = (at for at, (line, told) in enumerate(zip(lines, said, strict=True)) if told and line.startswith("#"))
    return lines[: next(sections, len(lines))]


class HeaderNames:
    """Documents by the word runs of their headers that few others share, to be asked with whole questions.

    Words that any question may say, as "how" of "How to order", are no name, nor is one word of the first lines that
    a question writes without a capital: "fees". A name begins and ends with a word that the header writes with a
    capital or a digit.

    Args:
        headers: document id -> what `header_of` returns.
    """

    def __init__(self, headers: Mapping[str, Sequence[str]]) -> None:
        self._headers, self._ids = headers, tuple(headers)
        self._most = isqrt(len(headers)) if len(headers) > 1 else 0  # documents that bear a name
        self._numbers: dict[str, int] = {"\n": 0}  # of words; 0 ends a line
        self._as_one: defaultdict[str, list[int]] = defaultdict(list)  # places, by words that are written as one
        numbers: list[int] = []
        may_end: list[bool] = []
        in_titles: list[bool] = []  # or file names
        sizes: list[int] = []
        for lines in headers.values():
            words = _WORD_OR_END.findall("\n".join((*lines, "")))
            own = [not word.islower() for word in words]
            forms = [word.lower() if word.isascii() else folded(word) for word in words]
            self._join(forms, own, len(numbers))
            numbers += [self._numbers.setdefault(form, len(self._numbers)) for form in forms]
            may_end += own
            of_titles = len(_WORD_OR_END.findall("\n".join(lines[:2])))
            in_titles += [at < of_titles for at in range(len(words))]
            sizes.append(len(words))
        # of each word in order: its number, whether a name may begin or end there, and its document
        self._words, self._ends = np.array(numbers, np.int32), np.array(may_end, bool)
        self._in_titles = np.array(in_titles, bool)
        self._owners = np.repeat(np.arange(len(sizes)), sizes)
        places = np.flatnonzero(self._ends)
        self._places = places[np.argsort(self._words[places], kind="stable")]
        self._starts = np.searchsorted(self._words[self._places], np.arange(len(self._numbers) + 1))

    def _join(self, forms: Sequence[str], ends: Sequence[bool], first: int) -> None:
        """Add what the words of a title and a file name are when they are written as one."""
        lines = 0
        for place, form in enumerate(forms):
            lines += form == "\n"
            if lines == 2:
                return
            for end in range(place + 2, place + _TOGETHER + 1):
                words = forms[place:end]
                if "\n" not in words and ends[place] and ends[end - 1] and len(one := "".join(words)) >= _SHORTEST:
                    self._as_one[one].append(first + place)

    def names_in(self, text: str) -> tuple[Name, ...]:
        """Return what a text says that stands in the headers of few documents: the longest at each place, in order.

        With or without gaps: "ULTABEAUTY" is "Ulta Beauty". In lower case where the text writes all of its names so.
        """
        found: dict[str, tuple[str, ...]] = {}
        is_cased = _CASED.search(text) is not None
        for start, end, places in self._runs(text):
            written = text[start:end]
            is_plain = written.islower() and not (_JOINED.search(written) or _DIGIT.search(written))
            if is_plain and (is_cased or (written.isalpha() and not self._in_titles[places].any())):
                continue
            name, bearers = normalise_term(written), np.unique(self._owners[places])
            is_measured = is_measure(name) and not (written.isupper() and written.isalnum())  # but "3M"
            tells = says_something(name) and not (is_period(name) or is_measured or all(map(is_common, name.split())))
            if len(bearers) <= self._most and tells:
                found[name] = tuple(self._ids[bearer] for bearer in bearers)
        return tuple(Name(name, documents) for name, documents in found.items())

    def _runs(self, text: str) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Yield [start, end) of each run of words that stands in a header, none inside of another, and its places."""
        spans = [match.span() for match in islice(_WORD.finditer(text), _MOST_WORDS)]
        words = [folded(text[start:end]) for start, end in spans]
        reached = 0
        for first in range(len(words)):
            end, found = first, np.empty(0, np.int64)
            places, after = self._begun_by(words[first]), first + 1
            while len(places):
                if len(ending := places[self._ends[places]]):
                    end, found = after, ending
                last, rest = spans[after - 1][0], spans[after : after + 1]
                if after == first + _LONGEST or not rest or _APART.search(text, last, rest[0][0]):
                    break
                places = places + 1
                places = places[self._words[places] == self._numbers.get(words[after], -1)]
                after += 1
            if end <= first + 1:
                end, found = self._joined(words, first) or (end, found)
            if end > reached:
                reached = end
                yield spans[first][0], spans[end - 1][1], found

    def _begun_by(self, word: str) -> NDArray[np.int64]:
        number = self._numbers.get(word)
        return self._places[:0] if number is None else self._places[self._starts[number] : self._starts[number + 1]]

    def _joined(self, words: Sequence[str], first: int) -> tuple[int, NDArray[np.int64]] | None:
        """Return the end of the words that a header writes as one, or of the word that it writes as several."""
        for end in range(min(first + _TOGETHER, len(words)), first, -1):
            one = "".join(words[first:end])
            places = self._begun_by(one) if end > first + 1 else np.array(self._as_one.get(one, ()), np.int64)
            if len(places) and len(one) >= _SHORTEST:
                return end, places
        return None

    def of_periods(self, name: Name, text: str) -> tuple[str, ...]:
        """Return those documents of a name whose headers say most of the periods that a text says; none for all."""
        wanted = _period_words([text])
        said = {document: len(wanted & _period_words(self._headers[document])) for document in name.documents}
        most = max(said.values(), default=0)
        best = tuple(document for document in name.documents if said[document] == most)
        return best if most and len(best) < len(name.documents) else ()


def _period_words(lines: Iterable[str]) -> set[str]:
    return {word for line in lines for period in periods_in(line.replace("_", " ")) for word in period.words}


def without_wider(names: Sequence[Name], others: Sequence[Name] = ()) -> tuple[Name, ...]:
    """Return the names that tell most: none whose documents include those of another, each set of documents once."""
    sets = [frozenset(name.documents) for name in (*others, *names)]
    kept = [
        name for at, name in enumerate(names, start=len(others))
        if not any(one < sets[at] for one in sets) and sets[at] not in sets[:at]
    ]  # fmt: skip
    return tuple(kept)

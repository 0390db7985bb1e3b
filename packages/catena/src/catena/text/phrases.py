"""Find the names and the keywords that a text prints: capitalised runs, codes, titles in brackets, repeated words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain, islice, pairwise
from math import log2
from operator import itemgetter
from typing import TypeAlias

from catena.text.names import codes_in, is_measure, says_something
from catena.text.stems import language_of, stop_words
from catena.text.words import UNSPACED, normalise_term

Phrase: TypeAlias = tuple[str, ...]
"""A name as the words between which it has white space, as printed."""

MOST_NAMES = 64
"""Names that are kept of one text."""

LONGEST = 8
"""Words of a name; what is longer is a line in capitals."""

# Words that stay small inside a name, in European languages: "University of Copenhagen", "Vasco da Gama".
_SMALL = "of|the|de|la|le|les|du|des|del|della|di|da|do|dos|das|van|von|der|den|zu|af|av|y|e|et|&"
_INNER = frozenset(_SMALL.split("|"))
# Words that join others and hardly end a name. They are taken for such where titles print them small or first:
# "Running without a code" names neither "without a" nor "a code", and "hepatitis A" is a name.
_JOINING = _INNER.union(re.findall(r"\w+",
    "a an the and or to in on at as by for from with without into over after during "
    "das dem ein eine und oder im am zum zur für auf aus bei mit ohne un une à au aux dans sur avec sans pour ou "
    "el los las en con sin por para o una um uma em com sem il lo gli per senza "
    "het een op om met zonder og eller med uden i på til och utan"
))  # fmt: skip
# Words that are large only because a sentence begins with them. Not here: those with which names begin ("La Paz").
_FIRST = frozenset(re.findall(r"\w+", "a an the der das ein eine un une una in on at as by for from after during"))
_CAPITALS = "".join(
    letter
    for first, last in ((0x41, 0x590), (0x10A0, 0x10D0), (0x1E00, 0x2000), (0x2C00, 0x2D00), (0xFF21, 0xFF3B))
    for letter in map(chr, range(first, last))
    if letter.isupper() or letter.istitle()
)


def _runs(capitals: str, spaced: str, flags: re.RegexFlag) -> re.Pattern[str]:
    """Return the pattern of a run of large words and numbers; it begins with a set of characters, which is quick."""
    first = rf"[{capitals}\d]"
    rest = rf"{spaced}*+(?:(?:['\u2019](?!s\b)|[.\-\u2010\u2011/&+]){spaced}++)*+(?:[+#]++(?!\w))?"
    initial_stop = rf"(?:(?:(?<=\b[{capitals}])|(?<=\b[{capitals}][a-z]))\.)?"  # "J. K. Rowling", "St. Louis"
    joined = rf"{initial_stop}[ \t\u00a0]{{1,2}}(?:(?:{_SMALL})[ \t\u00a0]){{0,2}}"
    return re.compile(rf"{first}(?<!{spaced}{first}){rest}(?:{joined}{first}{rest})*+", flags)


_RUN = _runs(_CAPITALS, rf"(?:(?![{UNSPACED}])\w)", re.NOFLAG)
_ASCII_RUN = _runs("A-Z", r"\w", re.ASCII)  # the same in a text of ASCII alone, in half the time
_UNSPACED_NAME = re.compile(
    "[\u30a1-\u30fa][\u30a1-\u30fa\u30fb\u30fc]+|"
    "(?<=[\u300a\u300c\u300e\u3008])[^\\s\u3008-\u300f]{2,30}(?=[\u300b\u300d\u300f\u3009])"
)
# the end of a code in small letters, which is no run
_LETTER_BY_DIGIT = re.compile(r"\d(?:(?<=[^\W\d_A-Z]\d)|(?<=[^\W\d_A-Z][./+\-_]\d))")
_NOT_SPACED = re.compile("[\u3008-\u300f\u30a1-\u30fa]")
_PARENTHESIS = re.compile(r"(?:(?<!\s)\s++)?[(\uff08][^()\uff08\uff09]*+[)\uff09]\s*+\Z")
_LOOSE = ".,;:!?'\"()[]"  # at the ends of a part
_DATE = re.compile(r"\d{1,2} \w+ \d{4}")
_OPENING = frozenset(" \t\"'\u201c\u201e\u2018\u00ab([*_#>`")
_CLOSING = frozenset(" \t\"'\u201d\u2019\u00bb)]*_`")
_PAUSES = frozenset(".!?:;\u2026\u3002\uff01\uff1f|\n\r-\u2013\u2014\u2022")


@lru_cache(maxsize=4)  # keywords and names of one text are asked for one after the other
def named_phrases(text: str) -> tuple[Phrase, ...]:
    """Return the names and codes of a text as printed, in order, repetitions kept.

    A name is a run of capitalised words and numbers, with small words such as "of the" between them. A capital at the
    beginning of a sentence says little: a first word that occurs elsewhere in the text without it is left off, and
    one that would be a name by itself needs another place where it is one. Numbers, sizes and years alone are none.
    In Chinese and Japanese, names are titles in brackets, and words in katakana.
    """
    small: frozenset[str] | None = None
    doubted: list[tuple[int, Phrase]] = []
    found: list[tuple[int, Phrase]] = []
    for match in (_ASCII_RUN if text.isascii() else _RUN).finditer(text):
        words, place = tuple(match.group().split()), match.start()
        if words[0].isdigit():
            words = _without_number(words)
        doubtful = (words[0][1:].islower() or len(words[0]) == 1) and _begins(text, place)
        if doubtful and len(words) > 1:
            small = frozenset(text.split()) if small is None else small
            found += [(place, phrase) for phrase in _at_beginning(words, small) if _is_name(phrase)]
        elif doubtful and not _ends(text, match.end()):
            doubted.append((place, words))
        elif _is_name(words):
            found.append((place, words))
    sure = set(chain.from_iterable(words for _, words in found))
    found += [(place, words) for place, words in doubted if words[0] in sure]
    if not text.isascii() and _NOT_SPACED.search(text):
        found += [(match.start(), (match.group(),)) for match in _UNSPACED_NAME.finditer(text)]
    if _LETTER_BY_DIGIT.search(text):
        found += [(text.find(code), (code,)) for code in dict.fromkeys(codes_in(text)) if code not in sure]
    return tuple(words for _, words in sorted(found))


def names_in(text: str, *, titles: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names that titles and a text print, normalised: at most 64, whole ones first, in order of place.

    The parts of a name of two words and more are names, too, so that "Sir Francis Baring" and "Francis Baring" share
    one.
    """
    phrases = dict.fromkeys((*titles, *map(" ".join, named_phrases(text))))
    names = dict.fromkeys(filter(None, map(name_of, phrases)))
    if len(names) < MOST_NAMES:
        titled = (word for title in titles for place, word in enumerate(title.split()) if not place or word.islower())
        ends = _INNER | _JOINING.intersection(map(str.lower, titled))
        long = [name.split(" ") for name in names if name.count(" ") > 1]
        names |= dict.fromkeys(part for words in long for part in _parts(words, ends))
    return tuple(islice(names, MOST_NAMES))


@lru_cache(maxsize=1 << 15)  # many texts print the same names
def name_of(phrase: str) -> str:
    """Return a phrase in the form in which names are compared; "" of one that says nothing."""
    name = normalise_term(phrase)
    return name if says_something(name) else ""


def outermost(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are inside no other one, word for word, each once, in order."""
    distinct = {name: f" {name} " for name in names}
    return tuple(a for a, one in distinct.items() if not any(a != b and one in two for b, two in distinct.items()))


def without_parenthesis(title: str) -> str:
    """Return a title without a parenthesis at its end, if that leaves words: "Battery (electricity)" is "Battery"."""
    bare = _PARENTHESIS.sub("", title)
    return " ".join((bare if any(map(str.isalnum, bare)) else title).split())


def _parts(words: Sequence[str], ends: Set[str]) -> Iterator[str]:
    """Yield the parts of two words and more that neither begin nor end with one of `ends`."""
    if len(words) <= LONGEST:
        for length in range(len(words) - 1, 1, -1):
            for start in range(len(words) - length + 1):
                if words[start] not in ends and words[start + length - 1] not in ends:
                    part = " ".join(words[start : start + length]).strip(_LOOSE)
                    if part.islower() or says_something(part):  # the first is quick, and enough for most scripts
                        yield part


def _is_name(words: Phrase) -> bool:
    if len(words) > LONGEST:
        return False
    if words[0][0].isupper():
        return len(words) > 1 or len(words[0]) > 1
    phrase = " ".join(words).lower()
    if len(words) > 1 and (_DATE.fullmatch(phrase) or not any(word[0].isupper() for word in words)):
        return False
    return says_something(phrase) and not is_measure(phrase)


def _at_beginning(words: Phrase, small: frozenset[str]) -> tuple[Phrase, ...]:
    """Return the names in several words at the beginning of a sentence: all of them, or without the first, or both.

    Nothing tells "Die Pumpe" from "Tom Hanks", or "Press the Start" from "Alexander the Great": both are both. A code
    is a name by itself ("Turn the HX-200").
    """
    rest = _without_number(_without_first(words))
    joined = len(rest) < len(words) - 1
    if words[0].lower() in _FIRST or words[0].lower() in small or (joined and any(map(str.isdigit, rest[0]))):
        return (rest,)
    return (words, rest) if joined or len(rest) == 1 else (words,)  # of three words, two are a part in any case


def _without_number(words: Phrase) -> Phrase:
    """Return a run without a number before small words: "2001 the Leopold Museum"."""
    return _without_first(words) if len(words) > 1 and words[1] in _INNER and words[0].isdigit() else words


def _without_first(words: Phrase) -> Phrase:
    return next(words[place:] for place in range(1, len(words)) if words[place] not in _INNER)


def _begins(text: str, start: int) -> bool:
    """Return whether a sentence, a line or a cell begins at `start`."""
    place = start - 1
    while place >= 0 and text[place] in _OPENING:
        place -= 1
    return place < 0 or text[place] in _PAUSES


def _ends(text: str, end: int) -> bool:
    place = end
    while place < len(text) and text[place] in _CLOSING:
        place += 1
    return place == len(text) or text[place] in _PAUSES


COUNT = 5
"""Keywords of a chunk, as IIER has them."""

_NAMED = 2.0  # what a place of a name is worth in places of other words: it is printed to tell things apart
_PAIRED = 1.5  # the same of two words that are side by side again: "shaft seal" says more than "seal"
_SHORTEST = 5  # letters of a word that counts by itself; most that join and point are shorter, in most languages
_SHORTEST_OF_PAIR = 4


def _runs_of_words(letter: str) -> re.Pattern[str]:
    word = rf"{letter}++(?:['\u2019\-]{letter}++)*+"
    return re.compile(rf"{word}(?: {word})*+")


_RUN_OF_WORDS = _runs_of_words(rf"(?:(?![{UNSPACED}])[^\W\d_])")
_ASCII_RUN_OF_WORDS = _runs_of_words("[A-Za-z]")  # the same in a text of ASCII alone, in a quarter of the time
_IDEOGRAPHS = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff\u0e00-\u0eff]{2,}")
_LONGEST_GRAM = 6  # characters of a term in a script without spaces
_FULL = 16  # letters; a longer term says no more
_PER_CHARACTER = 3  # letters that say as much as one ideograph
_SAYS = tuple(log2(1 + letters) for letters in range(_FULL + 1))


def keywords_of(text: str, *, count: int = COUNT, but: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the phrases that say best what a text is about, normalised, best first, at most `count`.

    `weight(t) = places(t) * log2(1 + min(letters(t), 16)) * kind(t)`, with kind 2 of a name, 1.5 of two words that
    are side by side again, and 1 of other words. The longer a word, the more it says (Zipf's law of abbreviation):
    a text alone tells no more of how common it is. Of equal weights the first in the text is first. A phrase that
    holds a better one, or is inside it, is left out.

    Args:
        text: of a chunk.
        count: at most so many.
        but: titles, each also without a parenthesis at its end: what differs from one in case, width or hyphens only
            is no keyword.
    """
    left_out = {name_of(title) for each in but for title in (each, without_parenthesis(each))}
    places = Counter(map(name_of, map(" ".join, named_phrases(text))))
    weights = {term: _NAMED * _weight(len(term), times) for term, times in places.items()}
    small = sorted(_of_small_words(text), key=itemgetter(1), reverse=True)[: 2 * count + len(left_out)]
    for term, weight in (*small, *_of_ideographs(text)):
        weights.setdefault(name_of(term), weight)
    return tuple(_best({term: weight for term, weight in weights.items() if term not in left_out and term}, count))


def _best(weights: Mapping[str, float], count: int) -> Iterator[str]:
    kept: list[str] = []  # with a border at either end
    for term in sorted(weights, key=weights.__getitem__, reverse=True):  # stable: of equals the first
        if len(kept) == count:
            return
        bordered = f" {term} "
        for better in kept:
            if bordered in better or better in bordered:
                break
        else:
            kept.append(bordered)
            yield term


def _of_small_words(text: str) -> Iterator[tuple[str, float]]:
    """Yield the words that begin with no capital and are no stop words, and the pairs of them that occur twice."""
    runs = [run.split(" ") for run in (_ASCII_RUN_OF_WORDS if text.isascii() else _RUN_OF_WORDS).findall(text)]
    places = Counter(chain.from_iterable(runs))
    language = language_of(tuple(places))
    stops = stop_words()[language] if language else frozenset[str]()
    long = ((word, times) for word, times in places.items() if len(word) >= _SHORTEST_OF_PAIR and word not in stops)
    small = [(word, times) for word, times in long if word.islower()]
    again = {word for word, times in small if times > 1}  # no pair occurs more often than its words
    pairs = Counter(pair for run in runs for pair in pairwise(run) if pair[0] in again and pair[1] in again)
    for (one, other), times in pairs.items():
        if times > 1:
            yield f"{one} {other}", _PAIRED * _weight(len(one) + 1 + len(other), times)
    for word, times in small:
        if len(word) >= _SHORTEST:
            yield word, times * _SAYS[min(len(word), _FULL)]


def _of_ideographs(text: str) -> Iterator[tuple[str, float]]:
    """Yield the runs of characters that a script without spaces repeats; whole short runs where it repeats none."""
    runs = () if text.isascii() else _IDEOGRAPHS.findall(text)
    sized = ((run, length) for run in runs for length in range(2, _LONGEST_GRAM + 1))
    places = Counter(run[at : at + length] for run, length in sized for at in range(len(run) - length + 1))
    again = {gram: times for gram, times in places.items() if times > 1}
    inside = {part for gram, times in again.items() for part in (gram[1:], gram[:-1]) if again.get(part) == times}
    terms = {gram: times for gram, times in again.items() if gram not in inside}
    for gram, times in (terms or dict.fromkeys((run for run in runs if len(run) <= _LONGEST_GRAM), 1)).items():
        yield gram, _weight(_PER_CHARACTER * len(gram), times)


def _weight(letters: int, times: int) -> float:
    return times * _SAYS[min(letters, _FULL)]

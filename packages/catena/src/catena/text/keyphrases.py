"""The few phrases that say best what a text is about, from the text alone: names, and words that it repeats."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from math import log2
from operator import itemgetter

from catena.text.phrases import name_of, named_phrases, without_parenthesis
from catena.text.words import UNSPACED

COUNT = 5
"""Keywords of a chunk, as IIER has them."""

_NAMED = 2.0  # what a place of a name is worth in places of other words: it is printed to tell things apart
_PAIRED = 1.5  # the same of two words that stand side by side again: "shaft seal" says more than "seal"
_SHORTEST = 5  # letters of a word that counts by itself; most that join and point are shorter, in most languages
_SHORTEST_OF_PAIR = 4


def _runs(letter: str) -> re.Pattern[str]:
    word = rf"{letter}++(?:['\u2019\-]{letter}++)*+"
    return re.compile(rf"{word}(?: {word})*+")


_RUN_OF_WORDS = _runs(rf"(?:(?![{UNSPACED}])[^\W\d_])")
_ASCII_RUN_OF_WORDS = _runs("[A-Za-z]")  # the same in a text of ASCII alone, in a quarter of the time
_IDEOGRAPHS = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff\u0e00-\u0eff]{2,}")
_LONGEST_GRAM = 6  # characters of a term in a script without spaces
_FULL = 16  # letters; a longer term says no more
_PER_CHARACTER = 3  # letters that say as much as one ideograph
_SAYS = tuple(log2(1 + letters) for letters in range(_FULL + 1))


def keywords_of(text: str, *, count: int = COUNT, but: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the phrases that say best what a text is about, normalised, best first, at most `count`.

    `weight(t) = places(t) * log2(1 + min(letters(t), 16)) * kind(t)`, with kind 2 of a name, 1.5 of two words that
    stand side by side again, and 1 of other words. The longer a word, the more it says (Zipf's law of abbreviation):
    a text alone tells no more of how common it is. Of equal weights the first in the text is first. A phrase that
    holds a better one, or stands inside it, is left out.

    Args:
        text: of a chunk.
        count: at most so many.
        but: titles, each also without a parenthesis at its end: what differs from one in case, width or hyphens only
            is no keyword.
    """
    left_out = {name_of(title) for each in but for title in (each, without_parenthesis(each))}
    weights = _of_names(text)
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


def _of_names(text: str) -> dict[str, float]:
    places = Counter(map(name_of, map(" ".join, named_phrases(text))))
    return {term: _NAMED * _weight(len(term), times) for term, times in places.items()}


def _of_small_words(text: str) -> Iterator[tuple[str, float]]:
    """Yield the words that begin with no capital, and the pairs of them that stand there twice."""
    found = (_ASCII_RUN_OF_WORDS if text.isascii() else _RUN_OF_WORDS).findall(text)
    runs = [run.split(" ") for run in found]
    places = Counter(chain.from_iterable(runs))
    small = [(word, times) for word, times in places.items() if len(word) >= _SHORTEST_OF_PAIR and word.islower()]
    again = {word for word, times in small if times > 1}  # no pair stands there more often than its words
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
    places = Counter(
        run[start : start + length]
        for run in runs
        for length in range(2, _LONGEST_GRAM + 1)
        for start in range(len(run) - length + 1)
    )
    again = {gram: times for gram, times in places.items() if times > 1}
    inside = {part for gram, times in again.items() for part in (gram[1:], gram[:-1]) if again.get(part) == times}
    terms = {gram: times for gram, times in again.items() if gram not in inside} or {
        run: 1 for run in runs if len(run) <= _LONGEST_GRAM
    }
    for gram, times in terms.items():
        yield gram, _weight(_PER_CHARACTER * len(gram), times)


def _weight(letters: int, times: int) -> float:
    return times * _SAYS[min(letters, _FULL)]

"""How a text writes many names: found for all of them in one pass, as long questions need it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from catena.text.words import UNSPACED

GAP: Final = r"[\s_\-\u2010-\u2015\u2212]+"  # what is one space in a normalised name
SPACED: Final = re.compile(rf"(?![{UNSPACED}])\w")  # parts a name from its neighbours only by not being there

_GAP = re.compile(GAP)
_GAP_IN_NAME = re.compile(r"[^\S ]|[_\-\u2010-\u2015\u2212]")  # of no normalised name
_SURROGATE = re.compile("[\ud800-\udfff]")
_FEW: Final = 500  # names times characters, as of a title: to make the automaton takes longer than to search for each
_NOTHING: Final = "\n"  # stands in no name, so that what it replaces matches none
# upper case is one letter for all letters that a pattern without case takes for one, but for these
_SAME: Final = {"\ufb06": "\ufb05", "\u1fd3": "\u0390", "\u1fe3": "\u03b0"}


def places_of(names: Iterable[str], text: str) -> dict[str, tuple[int, int]]:
    """Return where a text writes each of these normalised names first, as [start, end); no entry where it does not.

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
    """Yield where some words stand in a text, overlapping ones too: start, end, and the word's place among `keys`."""
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
    """Return whether what stands at [start, end) is part of a longer word."""
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

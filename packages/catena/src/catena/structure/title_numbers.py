"""What a printed title is numbered, and what it says without its number, in a form that can be compared."""

from __future__ import annotations

import re
from typing import NamedTuple

from catena.structure.numbering import NUMERAL, chinese_number
from catena.text.words import tokenise

_NUMBER = re.compile(
    r"(?:(?P<word>chapter|appendix|part|section|kapitel|anhang|teil|abschnitt|chapitre|annexe|partie"
    r"|capítulo|capitolo|parte|глава|§)\s*)?"
    r"(?P<number>(?:\d{1,3}|[A-Z]|[IVXLC]{1,7})(?:\.\d{1,3}){0,5})(?P<stop>[.):]|\s*[–—:])?(?=\s|\Z)\s*",
    re.IGNORECASE,
)
_CHINESE = re.compile(rf"第\s*(?P<number>{NUMERAL})\s*(?P<unit>[部编篇卷章节])\s*")
_CHINESE_DEPTH = {"部": 0, "编": 0, "篇": 0, "卷": 0, "章": 1, "节": 2}
_PARTS = frozenset({"part", "teil", "partie", "parte"})  # these stand above chapters
_ROMAN = re.compile(r"(?=[IVXLC])(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")


class Numbered(NamedTuple):
    """A title in the form that is compared.

    Attributes:
        number: ("3", "2") for "3.2 Title"; () where it has none.
        depth: how deep the number stands: 1 for a chapter, 0 for a part and for a title without a number.
        words: folded, without the number; () for a bare "Chapter 3".
    """

    number: tuple[str, ...]
    depth: int
    words: tuple[str, ...]


def numbered(title: str) -> Numbered:
    """Return the number and the words of a title.

    A single letter counts only after "Appendix" or before digits ("A.1"), a roman numeral only after such a
    word or before a stop: "A note", "I am" and "MIX it" are words.
    """
    title = " ".join(title.split())
    if match := _CHINESE.match(title):
        depth = _CHINESE_DEPTH[match["unit"]]
        number = (f"{match['unit']}{chinese_number(match['number'])}",)
        return Numbered(number, depth, tuple(tokenise(title[match.end() :])))
    match = _NUMBER.match(title)
    if match is None or not _is_number(match["number"], match["word"] or "", match["stop"] or ""):
        return Numbered((), 0, tuple(tokenise(title)))
    number = tuple(match["number"].upper().split("."))
    word = (match["word"] or "").lower()
    if word in _PARTS:
        return Numbered(("part", *number), 0, tuple(tokenise(title[match.end() :])))
    return Numbered(number, len(number), tuple(tokenise(title[match.end() :])))


def _is_number(number: str, word: str, stop: str) -> bool:
    first, *rest = number.split(".")
    if first.isdigit() or word:
        return True
    if not first.isupper():
        return False
    return bool(rest) or (bool(stop.strip()) and len(number) > 1 and bool(_ROMAN.fullmatch(number)))

"""Read headings: the title without the signs of Markdown around it and in it, and the number it begins with."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from markdown_it import MarkdownIt

from catena.text.words import tokenise

_TAG = re.compile(r"<[/!]?[A-Za-z][^<>`]*>")
_MARK = re.compile(r"[\\*_`\[\]<&]")
_LONGEST_PARSED = 2_000  # characters; a longer text is no title, and keeps its marks
_LONGEST = 1_000  # characters kept of a title: each chunk below repeats it, so that more would cost its square


def atx_title(rest: str) -> str:
    """Return the title of a # heading, given what follows its opening #s: closing #s are dropped."""
    title = rest.strip(" \t")
    opened = title.rstrip("#")
    return opened.rstrip(" \t") if not opened or opened[-1] in " \t" else title


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark")


def plain_title(source: str) -> str:
    """Return the text of a heading's inline Markdown, white space collapsed to single spaces.

    Args:
        source: the heading line without its #s or underline.

    Returns:
        The visible text: a link gives its label, an image its description, a tag nothing. Of a text longer
        than any title the beginning, ended by "…".
    """
    text = _TAG.sub("", source) if "<" in source and "`" not in source else source
    if _MARK.search(text) and len(text) <= _LONGEST_PARSED:
        text = _visible(text)
    title = " ".join(text.split())
    return title if len(title) <= _LONGEST else f"{title[:_LONGEST].rstrip()}…"


def _visible(text: str) -> str:
    parts: list[str] = []
    for token in _parser().parseInline(text)[0].children or ():
        if token.type in {"text", "code_inline", "image"}:
            parts.append(token.content)
        elif token.type in {"softbreak", "hardbreak"}:
            parts.append(" ")
    return "".join(parts)


CHINESE_NUMERAL = r"[零〇一二两三四五六七八九十百千]{1,9}|\d{1,3}"
_NUMBER = re.compile(
    r"(?:(?P<word>(?:chapter|appendix|part|section|kapitel|anhang|teil|abschnitt|chapitre|annexe|partie"
    r"|capítulo|capitolo|parte|глава)(?=[\s\d])|§)\s*)?"
    r"(?P<number>(?:\d{1,3}|[A-Z]|[IVXLC]{1,7})(?:\.\d{1,3})*)(?P<stop>[.):]|\s*[–—:])?(?=\s|\Z)\s*",
    re.IGNORECASE,
)
_CHINESE = re.compile(
    rf"(?:第\s*(?P<number>{CHINESE_NUMERAL})\s*(?P<unit>[部编篇卷章节条])|(?P<item>[一二三四五六七八九十]{{1,3}})、)\s*"
)
_CHINESE_DEPTH = {"部": 0, "编": 0, "篇": 0, "卷": 0, "章": 1, "、": 1, "节": 2, "条": 3}
_PARTS = frozenset({"part", "teil", "partie", "parte"})  # these are above chapters
_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_UNITS = {"十": 10, "百": 100, "千": 1000}
_ROMAN = re.compile(r"(?=[ivxlcdm])m*(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})\Z")
_ROMAN_VALUE = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}


class HeadingNumber(NamedTuple):
    """The number that opens a heading.

    Attributes:
        word: "chapter", "teil", "§", or the Chinese unit "章"; "、" for "一、"; "" for a plain number.
        parts: ("3", "2") for "3.2"; letters in capitals, Chinese numerals as digits.
        depth: 1 for a chapter, 2 for "3.2" and "节", 0 for a part.
        end: offset in the text where the title proper begins.
    """

    word: str
    parts: tuple[str, ...]
    depth: int
    end: int

    @property
    def key(self) -> tuple[str, ...]:
        """Return what two numbers are compared by: ("3", "2"), ("part", "II"), ("章3",)."""
        if self.word in _CHINESE_DEPTH:
            return (self.word + self.parts[0],)
        return self.parts if self.depth else ("part", *self.parts)


class NumberedTitle(NamedTuple):
    """A title in the form that is compared.

    Attributes:
        number: the key of its number: ("3", "2") for "3.2 Title"; () where it has none.
        depth: of its number; 0 for a part and for a title without a number.
        words: folded, without the number; () for a bare "Chapter 3".
    """

    number: tuple[str, ...]
    depth: int
    words: tuple[str, ...]


def heading_number(text: str) -> HeadingNumber | None:
    """Return the number that opens a heading, or None.

    A single letter counts only after a word such as "Appendix" or before digits ("A.1"), a roman numeral only after
    such a word or before a stop: "A note", "I am" and "MIX it" are words.
    """
    if match := _CHINESE.match(text):
        unit = match["unit"] or "、"
        value = chinese_number(match["number"] or match["item"])
        return HeadingNumber(unit, (str(value),), _CHINESE_DEPTH[unit], match.end())
    match = _NUMBER.match(text)
    if match is None or not _is_number(match["number"], match["word"] or "", match["stop"] or ""):
        return None
    word, parts = (match["word"] or "").lower(), tuple(match["number"].upper().split("."))
    return HeadingNumber(word, parts, 0 if word in _PARTS else len(parts), match.end())


def _is_number(number: str, word: str, stop: str) -> bool:
    first, *rest = number.split(".")
    if first.isdigit() or word:
        return True
    if not first.isupper():
        return False
    return bool(rest) or (bool(stop.strip()) and roman(first) is not None)


def numbered_title(title: str) -> NumberedTitle:
    """Return the number and the words of a title."""
    title = " ".join(title.split())
    found = heading_number(title)
    if found is None:
        return NumberedTitle((), 0, tuple(tokenise(title)))
    return NumberedTitle(found.key, found.depth, tuple(tokenise(title[found.end :])))


def chinese_number(numeral: str) -> int:
    """Return the value of a Chinese or decimal numeral: 二十一 is 21, 一百零五 is 105."""
    if numeral.isdecimal():
        return int(numeral)
    total, digit = 0, 0
    for character in numeral:
        if character in _UNITS:
            total, digit = total + max(digit, 1) * _UNITS[character], 0
        else:
            digit = _DIGITS[character]
    return total + digit


def roman(text: str) -> int | None:
    """Return the value of a roman numeral in one case, or None."""
    low = text.lower()
    if not (text.islower() or text.isupper()) or not _ROMAN.match(low):
        return None
    values = [_ROMAN_VALUE[c] for c in low]
    pairs = zip(values, [*values[1:], 0], strict=True)
    return sum(-value if value < following else value for value, following in pairs)

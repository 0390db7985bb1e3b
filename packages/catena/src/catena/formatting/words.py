"""What the words of a line say about its role: numbering, captions, leaders, bullets and hyphens."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from catena.model.layout import Line

SOFT_HYPHEN = "\u00ad"
UNSPACED = "\u3001-\u9fff\uf900-\ufaff\uff00-\uffef"  # scripts without spaces between words, for a character class

_DIGITS = r"\d{1,3}"
_NUMBER = re.compile(
    rf"^(?:(?P<word>chapter|appendix|part|section|§)\s*)?"
    rf"(?P<number>(?:{_DIGITS}|[A-Z]|[IVXL]{{1,7}})(?:\.{_DIGITS})*)(?P<stop>[.):]|\s*[–—])?\s+(?=\S)",
    re.IGNORECASE,
)
_LETTER = re.compile(r"^[A-Z]\.?\s+(?=\S)")
_LABEL = re.compile(r"^(?:chapter|appendix|part)\s+(?:\w{1,9})[.:]?$", re.IGNORECASE)
_CJK_NUMBER = re.compile(
    r"^(?:第\s*[\d一二三四五六七八九十百]+\s*(?P<unit>[部编篇章节条])|[一二三四五六七八九十]{1,3}、)\s*"
)
_CJK_DEPTH = {"部": 0, "编": 0, "篇": 0, "章": 1, "节": 2, "条": 3}
_CAPTION = re.compile(
    r"(?i:figure|fig\.|table|tab\.|listing|algorithm|chart|exhibit|plate|scheme|diagram|abbildung|abb\.|tabelle"
    r"|tableau)\s*(?:[A-Z][.-]?)?\d+(?:[.-]\d+)*[a-z]?(?=\s*[.:–—|)-]|\s*$|\s+[A-Z(])"  # not "Table 3 shows"
    r"|[图表]\s*\d+"
)
_TABLE_CAPTION = re.compile(r"^(?:table|tab\.|tabelle|tableau|表)\s*[A-Z]?[.-]?\d", re.IGNORECASE)
_NOT_ALNUM = re.compile(r"[\W_]+")
_LEADER = re.compile(r"(?<![.·…_])(?<![.·…_]\s)[.·…_](?:\s?[.·…_]){3,}+\s*+[\divxlcdmIVXLCDM, –-]{0,60}+$")
_DOT_ROW = re.compile(r"(?:(?<!\s)\s++)?[.·…_](?:\s?[.·…_]){3,}+\s*+")
_DOTS = ("..", ". .", "··", "· ·", "…", "__")  # a cheap test before the regular expression
_PAGE = re.compile(r"\d{1,4}|[ivxlc]{1,6}")
_ADMONITION = re.compile(
    r"^(?:note|warning|caution|tip|important|danger|attention|hint|remark)s?\s*[:.!]*$", re.IGNORECASE
)
_BULLET = re.compile(r"^(?P<mark>[•‣◦▪■●○∙·⁃➢✓–—*+-])\s+(?=\S)")
_ORDINAL = re.compile(r"^(?P<mark>\(?(?P<value>\d{1,3}|[a-zA-Z]|[ivxlIVXL]{1,6})[.)])\s+(?=\S)")
_ROMAN = re.compile(r"^(?=[ivxlcdm])m*(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})$")
_ROMAN_VALUE = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}


class Numbering(NamedTuple):
    """The number a heading begins with: "3.2.1" is of depth 3, "Part II" of depth 0."""

    parts: tuple[str, ...]
    depth: int
    end: int  # offset in the text where the title proper begins


def key(text: str) -> str:
    """Return the letters and digits of a text, compatibility forms resolved and case folded."""
    return _NOT_ALNUM.sub("", unicodedata.normalize("NFKC", text).casefold())


def numbering(text: str) -> Numbering | None:
    """Return the number that opens a heading, or None.

    A single letter counts only with "Appendix" or digits after it ("A.1"), a roman numeral only with a stop
    or a word before it: "A note", "I am" and "MIX it" are words.
    """
    if match := _CJK_NUMBER.match(text):
        return Numbering((match.group().strip(),), _CJK_DEPTH.get(match.group("unit") or "章", 1), match.end())
    match = _NUMBER.match(text)
    if match is None:
        return None
    word, number, stop = (match.group(name) or "" for name in ("word", "number", "stop"))
    parts = tuple(number.split("."))
    if not parts[0].isdigit() and len(parts) == 1:
        if not word and (not stop.strip() or roman(number) is None or not number.isupper()):
            return None
    elif not parts[0].isdigit() and not parts[0].isupper():
        return None
    return Numbering(parts, 0 if word.lower() == "part" else len(parts), match.end())


def bare_title(text: str) -> str:
    """Return a heading's text without the number it begins with."""
    found = numbering(text)
    return text[found.end :] if found else text


def title_keys(text: str) -> frozenset[str]:
    """Return the keys under which a heading is known: with and without its number.

    An outline may print "A References" for what the page calls "Appendix A References".
    """
    return frozenset(key(form) for form in (text, bare_title(text), _LETTER.sub("", text))) - {""}


def is_label(text: str) -> bool:
    """Whether a line is nothing but "Chapter 3" or "Appendix B", so that its title is on the next line."""
    return bool(_LABEL.match(text))


def is_caption(text: str) -> bool:
    """Whether a line begins the caption of a figure or a table."""
    return bool(_CAPTION.match(text))


def is_table_caption(text: str) -> bool:
    """Whether a line begins the title of a table."""
    return bool(_TABLE_CAPTION.match(text)) and is_caption(text)


def has_leader(text: str) -> bool:
    """Whether a line ends in dot leaders, as tables of contents and indexes do."""
    return any(dots in text for dots in _DOTS) and bool(_LEADER.search(text))


def short_leader(text: str) -> str:
    """Return the entry of a table of contents with its row of dots as one ellipsis."""
    return _DOT_ROW.sub(" … ", text).strip() if has_leader(text) else text


def ends_with_page(text: str) -> bool:
    """Whether a line of words ends in what may be a page number."""
    words = text.replace(".", " ").split()
    return (
        len(words) > 1 and bool(_PAGE.fullmatch(words[-1])) and any(c.isalpha() for word in words[:-1] for c in word)
    )


def is_admonition(text: str) -> bool:
    """Whether a line only announces a note or a warning."""
    return bool(_ADMONITION.match(text))


def bullet(text: str) -> int:
    """Return how many characters the bullet and the space after it take; 0 without one."""
    match = _BULLET.match(text)
    return match.end() if match else 0


class Ordinal(NamedTuple):
    """The mark of a numbered item: "(b)" has the value 2 in the family "(a)"."""

    mark: str
    family: str  # the kind of numeral and its punctuation
    value: int
    end: int


def ordinals(text: str) -> tuple[Ordinal, ...]:
    """Return every reading of the mark that opens a line: "i." may be the ninth letter or the roman one."""
    match = _ORDINAL.match(text)
    if match is None:
        return ()
    mark, value, end = match.group("mark"), match.group("value"), match.end()
    shape = mark.replace(value, "#")
    if value.isdigit():
        return (Ordinal(mark, shape + "1", int(value), end),)
    case = "A" if value.isupper() else "a"
    found = []
    if (number := roman(value)) is not None:
        found.append(Ordinal(mark, shape + case + "roman", number, end))
    if len(value) == 1:
        found.append(Ordinal(mark, shape + case, ord(value.lower()) - ord("a") + 1, end))
    return tuple(found)


def roman(text: str) -> int | None:
    """Return the value of a roman numeral in one case, or None."""
    low = text.lower()
    if not (text.islower() or text.isupper()) or not _ROMAN.match(low):
        return None
    values = [_ROMAN_VALUE[c] for c in low]
    pairs = zip(values, [*values[1:], 0], strict=True)
    return sum(-value if value < following else value for value, following in pairs)


def is_cjk(character: str) -> bool:
    """Whether a character is written without spaces between words (Chinese, Japanese)."""
    return "\u3000" <= character <= "\u9fff" or "\uf900" <= character <= "\ufaff" or "\uff00" <= character <= "\uffef"


def first_word_width(line: Line) -> float:
    """Return the width that a line's first word takes, in points, from the line's mean character width."""
    word = line.text.split(" ", 1)[0]
    return (line.x1 - line.x0) * len(word) / max(1, len(line.text))

"""The words of a text in the one form in which quotes are compared with their source, each with its place in it.

What a faithful copy changes is no part of a word here: white space, hyphens at the ends of lines, typographic quotes
and dashes, ligatures, Markdown marks, capitals. What carries a value is one: numbers with sign and separators,
units, comparison signs, per cent, exponents, negations.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

from catena.text.words import UNSPACED

Kind: TypeAlias = Literal["word", "number", "unit", "symbol", "negation"]

_DASHES = (
    "\u00ad\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212"  # a soft hyphen is one: it may stand at a line's end
)
_APOSTROPHES = "\u2018\u2019\u201b\u02bc\u00b4`"
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
_SPELLING = (
    dict.fromkeys(map(ord, _DASHES), "-")
    | dict.fromkeys(map(ord, _APOSTROPHES), "'")
    | dict.fromkeys(map(ord, _INVISIBLE), "")
    | {0x00BA: "°", 0x02DA: "°", 0x2044: "/", 0x0130: "I", 0x03C2: "σ", 0x22C5: "·", 0x2219: "·"}
)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_MARKUP = (
    r"&(?:#\d{1,6}|#[xX][0-9a-fA-F]{1,5}|[a-zA-Z]{2,8});"
    r"|(?P<dropped>\](?:\((?:[^()\s]|\([^()\s]*\)){0,500}\))|</?(?:b|i|u|em|strong|code)>|</su[bp]>|\\(?=[!-/:-@\[-`{-~]))"
    r"|(?P<space><br\s*/?>)"
    r"|(?P<power><sup>(?=[-+]?\d)|\^\{(?=[-+]?\d))"
    r"|(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+)"
)
# A text in NFKC has few characters to look at one by one; any other may change at each that is not ASCII.
_SPECIAL = re.compile(rf"{_MARKUP}|[{_DASHES}{_APOSTROPHES}{_INVISIBLE}\u00ba\u02da\u2044\u0130\u03c2\u22c5\u2219]")
_SPECIAL_OR_NOT_ASCII = re.compile(rf"{_MARKUP}|[A-Za-z][\u0300-\u036f]+|[^\x00-\x7f][\u0300-\u036f\u3099\u309a]*|`")

_LETTER = rf"[^\W\d_{UNSPACED}]"
_TOKEN = re.compile(
    rf"(?P<unspaced>[{UNSPACED}])"
    r"|(?P<number>(?:(?<![\w)\]%°.,])[-+])?(?:(?<![\w.,])[.,])?\d+(?:[.,:']\d+)*)"
    rf"|(?P<word>{_LETTER}(?:[^\W_{UNSPACED}]|(?<=[^\W_])['_]+(?=[^\W_]))*)"
    r"|(?P<symbol>[±≤≥≈≠%‰°€£¥×÷√∞→←↑↓✓✔✗✘]|[<>~](?=\s*[-+.]?\d)|(?<!=)=(?!=)|\$(?=\d)|\^(?=[-+]?\d)"
    r"|(?<=\w)/(?=\w)|(?<=\d)-(?=\d))"
)
_NEGATIONS = frozenset((
    "not", "no", "never", "without", "neither", "nor", "cannot", "none", "nothing", "nicht", "kein", "keine",
    "keinen", "keiner", "keinem", "keines", "nie", "niemals", "ohne", "weder", "ne", "pas", "jamais", "sans", "aucun",
    "aucune", "non", "mai", "senza", "nunca", "sin", "ningún", "ninguna", "não", "nem", "sem", "не", "нет", "без",
    "никогда", "不", "没", "無", "无", "未", "勿", "禁",
))  # fmt: skip
_NO_UNITS = frozenset((
    "the", "a", "an", "of", "is", "are", "was", "were", "and", "or", "if", "on", "at", "as", "it", "that", "this",
    "with", "from", "for", "then", "than", "when", "und", "oder", "der", "die", "das", "ist", "sind", "mit", "von",
    "et", "ou", "le", "la", "les", "de", "des", "est",
))  # fmt: skip
_CASE_IS_VALUE = frozenset(("kb", "mb", "gb", "tb", "mg", "ms"))  # bits or bytes; milli or mega
_SOFT_GAP = re.compile(r"[*_`~·]*(?:-[*_`~]*\s*)?")
_LONGEST_UNIT = 5  # characters
_UNIT_GAP = 8  # characters between a number and its unit
_UNIT_JOINTS = frozenset(("", "·", "*", "-"))


class Token(NamedTuple):
    """A word: its place in `Wording.folded`, how it is spelled, and what it is."""

    start: int
    end: int
    spelling: str
    kind: Kind
    soft: bool  # whether white space, a hyphen or nothing before it all mean the same

    @property
    def key(self) -> str:
        """What words are compared by: capitals count where they tell a unit from another."""
        return self.spelling if self.cased else _folded(self.spelling)

    @property
    def cased(self) -> bool:
        """Whether its capitals carry a value: "mW" is not "MW", but "Cover" is "cover"."""
        text = self.spelling
        if self.kind == "unit" and len(text) <= 3:
            return True
        inner = len(text) <= 4 and text.isalpha() and text[1:] != text[1:].lower() and text != text.upper()
        return inner or text.lower() in _CASE_IS_VALUE


class Wording:
    """A text as its words; what each of them is, is found when it is asked for.

    Attributes:
        text: as given.
        spelled: the words one after the other, nothing between them, with their capitals.
        folded: `spelled` in lower case.
        borders: where each word begins in `folded`.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._normal, self._starts, self._ends = _normal(text)
        found = [(match.group(), match.start(), match.lastgroup or "word") for match in _TOKEN.finditer(self._normal)]
        self._found = found
        self.spelled = "".join([spelling for spelling, _, _ in found])
        self.folded = _folded(self.spelled)
        self.borders = list(accumulate([len(spelling) for spelling, _, _ in found[:-1]], initial=0)) if found else []
        self._tokens: dict[int, Token] = {}

    def __len__(self) -> int:
        return len(self._found)

    def token(self, index: int) -> Token:
        """Return a word by its index, from 0."""
        if index not in self._tokens:
            first = index  # a unit is known by what stands before it, which may be a unit itself: "kg·m/s"
            while first and first - 1 not in self._tokens and self._near(first):
                first -= 1
            for each in range(first, index + 1):
                self._tokens[each] = self._made(each)
        return self._tokens[index]

    def _made(self, index: int) -> Token:
        spelling, start, group = self._found[index]
        gap = self._normal[self._end(index - 1) : start] if index else ""
        kind = _kind(spelling, group, gap, self._tokens.get(index - 1) if index and self._near(index) else None)
        soft = index == 0 or _soft(self._found[index - 1][0], spelling, gap)
        place = self.borders[index]
        return Token(place, place + len(spelling), spelling, kind, soft)

    def run(self, start: int, end: int) -> tuple[Token, ...]:
        """Return the words with indexes in [start, end)."""
        return tuple(map(self.token, range(max(0, start), min(end, len(self)))))

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """All words, in order."""
        return self.run(0, len(self))

    @cached_property
    def indexes(self) -> dict[str, list[int]]:
        """For each word, capitals aside, the indexes at which it stands."""
        found: dict[str, list[int]] = {}
        for index, (start, (spelling, _, _)) in enumerate(zip(self.borders, self._found, strict=True)):
            found.setdefault(self.folded[start : start + len(spelling)], []).append(index)
        return found

    def token_at(self, place: int) -> int:
        """Return the index of the word that holds a place of `folded`."""
        return bisect_right(self.borders, place) - 1

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the offsets in the text of [start, end) of `folded`, which is not empty."""
        return self._offset(start, self._starts, 0), self._offset(end - 1, self._ends, 1)

    def _offset(self, place: int, offsets: tuple[int, ...] | None, after: int) -> int:
        index = self.token_at(place)
        normal = self._found[index][1] + place - self.borders[index]
        return normal + after if offsets is None else offsets[normal]

    def _end(self, index: int) -> int:
        spelling, start, _ = self._found[index]
        return start + len(spelling)

    def _near(self, index: int) -> bool:
        """Return whether the word may be the unit of what stands before it."""
        return (
            len(self._found[index][0]) <= _LONGEST_UNIT and self._found[index][1] - self._end(index - 1) <= _UNIT_GAP
        )


def _folded(text: str) -> str:
    """Return the text in lower case, each character for itself: as long as before."""
    return text.lower().replace("ς", "σ")


def _kind(spelling: str, group: str, gap: str, last: Token | None) -> Kind:
    folded = _folded(spelling)
    if group in ("number", "symbol"):
        return "number" if group == "number" else "symbol"
    if folded in _NEGATIONS or folded.endswith("n't"):
        return "negation"
    if any(map(str.isdigit, spelling)):
        return "number"  # a code, as HX210
    if last is None or len(spelling) > _LONGEST_UNIT or group == "unspaced" or folded in _NO_UNITS:
        return "word"
    if last.kind == "number" and gap.strip() in _UNIT_JOINTS:
        return "unit"
    return "unit" if (last.kind == "unit" or last.spelling in "°/") and gap in _UNIT_JOINTS else "word"


def _soft(last: str, spelling: str, gap: str) -> bool:
    """Return whether two words may as well be joined, hyphenated or apart: "high-voltage", "2.4V", Chinese."""
    one, other = last[-1], spelling[0]
    if one.isdigit() and other.isdigit():
        return False
    if _SOFT_GAP.fullmatch(gap):
        return True
    mixed = one.isdigit() != other.isdigit() or _UNSPACED.match(one) is not None or _UNSPACED.match(other) is not None
    return mixed and not gap.strip()


_UNSPACED = re.compile(f"[{UNSPACED}]")


def _normal(text: str) -> tuple[str, tuple[int, ...] | None, tuple[int, ...] | None]:
    """Return the text in one spelling and, per character of it, where what it stands for begins and ends."""
    special = _SPECIAL if unicodedata.is_normalized("NFKC", text) else _SPECIAL_OR_NOT_ASCII
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    done = 0

    def copy(until: int) -> None:
        pieces.append(text[done:until])
        starts.extend(range(done, until))
        ends.extend(range(done + 1, until + 1))

    for match in special.finditer(text):
        copy(match.start())
        new = _REPLACED.get(match.lastgroup or "", _respelled)(match.group())
        pieces.append(new)
        starts.extend([match.start()] * len(new))
        ends.extend([match.end()] * len(new))
        done = match.end()
    if not pieces:
        return text, None, None
    copy(len(text))
    return "".join(pieces), tuple(starts), tuple(ends)


def _respelled(text: str) -> str:
    if text[0] == "&":
        text = html.unescape(text)
    spelled = text.translate(_SPELLING)
    normal = unicodedata.normalize("NFKC", spelled)
    if "\u2044" in normal:  # "2½" is not 21/2
        normal = " " + normal
    return normal.translate(_SPELLING)


_REPLACED: dict[str, Callable[[str], str]] = {
    "dropped": lambda _: "",
    "space": lambda _: " ",
    "power": lambda _: "^",
    "raised": lambda text: "^" + text.translate(_RAISED),
}

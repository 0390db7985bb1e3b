"""Locate a quote in its source: as printed, spelled otherwise, with some words changed, or cut at the wrong place.

Words are compared. A faithful copy may change white space, hyphens at the ends of lines, typographic quotes and
dashes, ligatures, Markdown marks and capitals: these are no part of a word. The carriers of a value are words of
their own: numbers with sign and separators, units, comparison signs, per cent, exponents, negations.

In order: a quote located, a quote with changed words located, and the words of a text.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from heapq import nsmallest
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, TypeAlias

from catena.text.words import PRINTED_WORD, UNSPACED, negates

_ELLIPSIS = re.compile(r"(?:(?<!\s)\s++)?(?:[\[(]\s*+)?(?:…|\.{3,}+|\.(?:\s\.){2,}+)(?:\s*+[\])])?\s*+")
_MARKED = re.compile(r"[\"'“„«‹‘‚»›「『].*[\"'”“»›’‘«‹」』]", re.DOTALL)  # in quotation marks
_GAP = 600  # characters that an ellipsis may leave out; a quote from two ends of a chapter is two quotes
_REACH = 18 * _GAP  # the same in folded words: one character stands for 18 at most ("ﷺ" spelled out)
_LEAST_PART = 2  # words on either side of an ellipsis: single words are found in order anywhere
_LEAST_CUT = 3  # words of a quote that may begin or end inside a word
_SENTENCE_END = re.compile(r"[.!?;:。！？]\s|\n\s*\n")
NEGATING = re.compile(r"(?:un|in|im|il|ir|non|not|dis|mis|anti|counter|no|nicht|kein)")

PlaceState: TypeAlias = Literal["exact", "normalised", "near", "altered"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Words of a quote and what the source has in their place; "" where one side has nothing."""

    quoted: str
    printed: str


@dataclass(frozen=True, slots=True)
class Located:
    """A quote in a source: offsets in the source's own text, half-open."""

    start: int
    end: int
    state: PlaceState
    differences: tuple[Difference, ...] = ()


def place_of(quote: Wording, source: Wording, *, after: int = 0, over_ellipses: bool = True) -> Located | None:
    """Find all words of a quote in a source, in order; return the most exact place.

    Args:
        quote: the words that are looked for.
        source: the text that may hold them.
        after: offset in the source; of equally exact places the first from there on is taken, else the first.
        over_ellipses: whether an ellipsis in the quote may stand for words of the source.

    Returns:
        None where they are not there. `altered` is a place at which they are, but the quote cuts a number,
        a unit, a sign or a negation ("4 N·m" of "2.4 N·m", "able" of "unable"), begins behind a "not", or leaves one
        out by an ellipsis.
    """
    if not len(quote):  # only marks
        at = source.text.find(quote.text) if quote.text else -1
        return None if at < 0 else Located(at, at + len(quote.text), "exact")
    judged = filter(None, (_judged(quote, source, at) for at in _occurrences(quote, source)))
    best = min(judged, key=lambda found: (found[0], found[1].start < after), default=None)
    if best is not None:
        return best[1]
    return _across_ellipses(quote, source) if over_ellipses else None


def _occurrences(quote: Wording, source: Wording, start: int = 0, stop: int | None = None) -> Iterator[int]:
    at = source.folded.find(quote.folded, start, stop)
    while at >= 0:
        if _same_words(quote, source, at):
            yield at
        at = source.folded.find(quote.folded, at + 1, stop)


def _same_words(quote: Wording, source: Wording, at: int) -> bool:
    """Say whether the words part at the same places, hyphens aside, and no capital changes a unit."""
    end = at + len(quote.folded)
    theirs = source.run(source.token_at(at), source.token_at(end - 1) + 1)
    quoted = {token.start + at: token.soft for token in quote.tokens[1:]}
    printed = {token.start: token.soft for token in theirs if token.start > at}
    if not all(soft for place, soft in quoted.items() if place not in printed):
        return False
    if not all(soft for place, soft in printed.items() if place not in quoted):
        return False
    if quote.spelled == source.spelled[at:end]:
        return True
    cased = [(token.start + at, token.end + at) for token in quote.tokens if token.cased]
    cased += [(max(token.start, at), min(token.end, end)) for token in theirs if token.cased]
    return all(quote.spelled[first - at : last - at] == source.spelled[first:last] for first, last in cased)


def _judged(quote: Wording, source: Wording, at: int) -> tuple[tuple[bool, bool, bool], Located] | None:
    """Return a place with its order among others, the best first: with no value cut, with no word cut, exact."""
    end = at + len(quote.folded)
    span = source.span(at, end)
    before = span[0] - quote.span(0, 1)[0]
    inner = quote.text[1:-1].strip() if _MARKED.fullmatch(quote.text) else quote.text
    begins = ((before + quote.text.find(printed), printed) for printed in (quote.text, inner))
    exact = next(((b, b + len(text)) for b, text in begins if b >= 0 and source.text.startswith(text, b)), None)
    cuts = cuts_at(source, at, end)
    changed = what_is_cut(source, cuts, at, end)
    if cuts and not changed and len(quote) < _LEAST_CUT:
        return None
    state: PlaceState = "altered" if changed else "exact" if exact else "normalised"
    return (bool(changed), bool(cuts), exact is None), Located(*(exact or span), state, changed)


@dataclass(frozen=True, slots=True)
class Cut:
    """A word cut in two by an end of a quote: [start, end) of the folded source, and whether that changes a value."""

    start: int
    end: int
    value: bool


def cuts_at(source: Wording, start: int, end: int) -> list[Cut]:
    """Return the words that the slice [start, end) of the folded source cuts in two."""
    return [cut for cut in (_cut_before(source, start), _cut_after(source, end)) if cut is not None]


def what_is_cut(source: Wording, cuts: Sequence[Cut], start: int, end: int) -> tuple[Difference, ...]:
    """Return the part of each cut value that is left in the slice, and the whole value."""
    spans = [((max(cut.start, start), min(cut.end, end)), (cut.start, cut.end)) for cut in cuts if cut.value]
    parts = ([source.text[slice(*source.span(*span))] for span in both] for both in spans)
    return tuple(Difference(said, whole) for said, whole in parts)


def _cut_before(source: Wording, at: int) -> Cut | None:
    index = source.token_at(at)
    token = source.token(index)
    if token.start < at:
        value = token.kind != "word" or NEGATING.fullmatch(source.folded[token.start : at]) is not None
        return Cut(token.start, token.end, value)
    before = source.token(index - 1) if index else None
    if before is None:
        return None
    of_number = before.spelling in "±≤≥<>≈≠~^-"
    gap = source.text[source.span(before.start, before.end)[1] : source.span(token.start, token.end)[0]]
    negated = before.kind == "negation" and (token.soft or not gap.strip("*_ \t\r\n"))  # "not | open the cover"
    if of_number or negated or (token.soft and before.spelling == "/"):
        return Cut(before.start, token.end, value=True)
    return None


def _cut_after(source: Wording, end: int) -> Cut | None:
    index = source.token_at(end - 1)
    token = source.token(index)
    if token.end > end:
        return Cut(token.start, token.end, value=token.kind != "word")
    after = source.token(index + 1) if index + 1 < len(source) else None
    if after is None or token.kind not in ("number", "unit"):
        return None
    if token.kind == after.kind == "unit" or after.spelling in ("-", "/", "^"):
        return Cut(token.start, after.end, value=True)
    return None


def _across_ellipses(quote: Wording, source: Wording) -> Located | None:
    """Find the parts of a quote around its ellipses in order, near each other."""
    if "…" not in quote.text and ".." not in quote.text and ". ." not in quote.text:
        return None
    texts = _ELLIPSIS.split(quote.text)
    if len(texts) < 2:
        return None
    parts = [part for part in map(Wording, texts) if len(part)]
    if len(parts) == 1:
        found = place_of(parts[0], source)
        state: PlaceState = "altered" if found and found.differences else "normalised"
        return found and Located(found.start, found.end, state, found.differences)
    if not parts or any(len(part) < _LEAST_PART for part in parts):
        return None
    for first in _occurrences(parts[0], source):
        spans = _chained(parts, source, first)
        if spans is not None:
            return _with_gaps(source, spans)
    return None


def _chained(parts: Sequence[Wording], source: Wording, first: int) -> list[tuple[int, int]] | None:
    spans: list[tuple[int, int]] = []
    place = first
    for part in parts:
        at = next(_occurrences(part, source, place, place + _REACH + len(part.folded)), None)
        if at is None:
            return None
        span = source.span(at, at + len(part.folded))
        if spans and span[0] - spans[-1][1] > _GAP:
            return None
        if cuts_at(source, at, at + len(part.folded)):
            return None
        spans.append(span)
        place = at + len(part.folded)
    return spans


def _with_gaps(source: Wording, spans: Sequence[tuple[int, int]]) -> Located:
    hidden: list[Difference] = []
    for (_, start), (end, _) in pairwise(spans):
        left_out = _SENTENCE_END.split(source.text[start:end])
        for rest in dict.fromkeys((left_out[0], left_out[-1])):  # what belongs to the sentences of the two parts
            words = Wording(rest)
            negations = (token for token in words.tokens if token.kind == "negation")
            hidden += [Difference("…", rest[slice(*words.span(t.start, t.end))]) for t in negations]
    return Located(spans[0][0], spans[-1][1], "altered" if hidden else "normalised", tuple(hidden))


_LONGEST_NEAR = 400  # words; beyond, a quote is found as printed or not at all
_LEAST_EQUAL = 3  # words of a quote that is near
_HYPHENATED = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1))  # words on either side
_TRIED = 16  # places that are looked at more closely
_MANY = 1000  # votes of a word that occurs once; of one that occurs n times, each place has 1/n of it


def nearest(quote: Wording, source: Wording) -> Located | None:
    """Find a quote of which some words were changed in a source; None where it is not there.

    `near`: at most one word in five (and always one) was changed, left out or added, and none of them is a number, a
    code, a unit, a sign or a negation. `altered`: one of them is, and at least six words in ten agree.
    """
    length = len(quote)
    if not 2 <= length <= _LONGEST_NEAR:
        return None
    found = [_compared(quote, source, diagonal) for diagonal in _diagonals(quote, source)]
    ranked = sorted((each for each in found if each is not None), key=lambda each: each[:2])
    return ranked[0][2] if ranked else None


def _reach(length: int) -> int:
    return 2 + length // 6


def _diagonals(quote: Wording, source: Wording) -> list[int]:
    """Return up to three differences of place (source less quote) at which most words agree, rare words first."""
    votes: Counter[int] = Counter()
    for word, mine in quote.indexes.items():
        places = source.indexes.get(word, ())
        for place in places:
            for index in mine:
                votes[place - index] += _MANY // len(places)
    reach = _reach(len(quote))
    best = nsmallest(_TRIED, votes, key=lambda d: (-votes[d], d))
    ranked = sorted(best, key=lambda d: (-sum(votes[near] for near in range(d - reach, d + reach + 1)), d))
    chosen: list[int] = []
    for diagonal in ranked:
        if all(abs(diagonal - other) > reach for other in chosen):
            chosen.append(diagonal)
        if len(chosen) == 3:
            break
    return chosen


def _compared(quote: Wording, source: Wording, diagonal: int) -> tuple[int, int, Located] | None:
    """Return the number of words that differ, their start, and the place; None where too many differ."""
    length = len(quote)
    reach = _reach(length)
    low, high = max(0, diagonal - reach), max(0, diagonal + length + reach + 1)
    window = source.run(low, high)
    matcher = SequenceMatcher(None, [t.key for t in quote.tokens], [t.key for t in window], autojunk=False)
    codes = matcher.get_opcodes()
    equal = sum(i2 - i1 for tag, i1, i2, _, _ in codes if tag == "equal")
    pairs: list[tuple[Sequence[QuoteToken], Sequence[QuoteToken]]] = []
    ours: list[int] = []  # indexes in the window that the quote covers
    for tag, i1, i2, j1, j2 in codes:
        first, last = j1, j2
        if tag != "equal" and i1 == 0:  # the words before the quote are no part of it
            first = max(j1, j2 - (i2 - i1))
        elif tag != "equal" and i2 == length:
            last = min(j2, j1 + (i2 - i1))
        ours += (first, last) if last > first else ()
        if tag == "equal":
            continue
        said, printed = _unlike(quote.tokens[i1:i2], window[first:last])
        equal += i2 - i1 - len(said)
        if said or printed:
            pairs.append((said, printed))
    if not pairs or not ours:
        return None
    first, last = window[min(ours)].start, window[max(ours) - 1].end
    differences = [Difference(_text(quote, said), _text(source, printed)) for said, printed in pairs]
    cut = [each for each in cuts_at(source, first, last) if each.value]
    differences += what_is_cut(source, cut, first, last)
    first, last = min([first, *(each.start for each in cut)]), max([last, *(each.end for each in cut)])
    changed = sum(max(len(said), len(printed)) for said, printed in pairs)
    value = bool(cut) or any(_changes_value(said, printed) for said, printed in pairs)
    near = not value and changed <= max(1, length // 5) and equal >= _LEAST_EQUAL
    altered = value and changed <= max(3, length // 3) and equal * 10 >= length * 6
    if not (near or altered):
        return None
    return changed, first, Located(*source.span(first, last), "near" if near else "altered", tuple(differences))


def _unlike(
    said: Sequence[QuoteToken], printed: Sequence[QuoteToken]
) -> tuple[Sequence[QuoteToken], Sequence[QuoteToken]]:
    """Return two runs without what is alike at their ends but for hyphens in words: "crosswise", "cross-wise"."""
    alike = True
    while alike and said and printed:
        alike = False
        for mine, theirs in _HYPHENATED:
            if _joined(said[-mine:]) == _joined(printed[-theirs:]) is not None:
                said, printed, alike = said[:-mine], printed[:-theirs], True
            elif _joined(said[:mine]) == _joined(printed[:theirs]) is not None:
                said, printed, alike = said[mine:], printed[theirs:], True
    return said, printed


def _joined(run: Sequence[QuoteToken]) -> str | None:
    return "".join(token.key for token in run) if all(token.soft for token in run[1:]) else None


def _text(words: Wording, run: Sequence[QuoteToken]) -> str:
    return words.text[slice(*words.span(run[0].start, run[-1].end))] if run else ""


def _changes_value(said: Sequence[QuoteToken], printed: Sequence[QuoteToken]) -> bool:
    if any(token.kind != "word" for token in (*said, *printed)):
        return True
    return len(said) == len(printed) and any(map(_opposed, said, printed))


def _opposed(said: QuoteToken, printed: QuoteToken) -> bool:
    """Say whether two words differ by a negating prefix, or by the capitals of a unit."""
    short, long = sorted((said.key.lower(), printed.key.lower()), key=len)
    if short == long:
        return said.key != printed.key
    return long.endswith(short) and NEGATING.fullmatch(long[: len(long) - len(short)]) is not None


Kind: TypeAlias = Literal["word", "number", "unit", "symbol", "negation"]

# a soft hyphen is one: it may stand at a line's end
_DASHES = "\u00ad\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212"
_APOSTROPHES = "\u2018\u2019\u201b\u02bc\u00b4`"
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
_SPELLING = (
    dict.fromkeys(map(ord, _DASHES), "-")
    | dict.fromkeys(map(ord, _APOSTROPHES), "'")
    | dict.fromkeys(map(ord, _INVISIBLE), "")
    | {0x00BA: "°", 0x02DA: "°", 0x2044: "/", 0x0130: "I", 0x22C5: "·", 0x2219: "·"}
)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
# what powers stand behind: 10⁶, 2⁸, m², (a+b)²; after other words and numbers it is the mark of a note
_BASE = re.compile(r"(?:(?<![\d.,])(?:10|\d)|(?<![^\W\d_])[^\W\d_]{1,2}|[^\W\d][)\]])\Z")
_MARKUP = (
    r"&(?:#\d{1,6}|#[xX][0-9a-fA-F]{1,5}|[a-zA-Z]{2,8});"
    r"|(?P<dropped>\](?:\((?:[^()\s]|\([^()\s]*\)){0,500}\))|</?(?:b|i|u|em|strong|code)>|</su[bp]>|\\(?=[!-/:-@\[-`{-~]))"
    r"|(?P<space><br\s*/?>)"
    r"|(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+|<sup>[-+]?\d{1,4}</sup>)"
    r"|(?P<power><sup>(?=[-+]?\d)|\^\{(?=[-+]?\d))"
)
# A text in NFKC has few characters to look at one by one; any other may change at each that is not ASCII.
_SPECIAL = re.compile(rf"{_MARKUP}|[{_DASHES}{_APOSTROPHES}{_INVISIBLE}\u00ba\u02da\u2044\u0130\u22c5\u2219]")
_SPECIAL_OR_NOT_ASCII = re.compile(rf"{_MARKUP}|[A-Za-z][\u0300-\u036f]+|[^\x00-\x7f][\u0300-\u036f\u3099\u309a]*|`")

_TOKEN = re.compile(
    PRINTED_WORD + r"|(?P<symbol>[±≤≥≈≠%‰°€£¥×÷√∞→←↑↓✓✔✗✘]|[<>~](?=\s*[-+.]?\d)|(?<!=)=(?!=)|\$(?=\d)|\^(?=[-+]?\d)"
    r"|(?<=\w)/(?=\w)|(?<=\d)-(?=\d))"
)
_NO_UNITS = frozenset((
    "the", "a", "an", "of", "is", "are", "was", "were", "and", "or", "if", "on", "at", "as", "it", "that", "this",
    "with", "from", "for", "then", "than", "when", "und", "oder", "der", "die", "das", "ist", "sind", "mit", "von",
    "et", "ou", "le", "la", "les", "de", "des", "est",
))  # fmt: skip
_CASE_IS_VALUE = frozenset(("kb", "mb", "gb", "tb", "mg", "ms"))  # bits or bytes; milli or mega
_SOFT_GAP = re.compile(r"[*_`~·]*(?:-[*_`~]*\s*)?")
_LONGEST_UNIT = 5  # characters
_UNIT_JOINTS = frozenset(("", "·", "*", "-"))


class QuoteToken(NamedTuple):
    """A word: its place in `Wording.folded`, how it is spelled, and what it is."""

    start: int
    end: int
    spelling: str
    kind: Kind
    soft: bool  # whether white space, a hyphen or nothing before it all mean the same

    @property
    def key(self) -> str:
        """Return the spelling that words are compared by: capitals count where they tell a unit from another."""
        return self.spelling if self.cased else _folded(self.spelling)

    @property
    def cased(self) -> bool:
        """Say whether its capitals carry a value: "mW" is not "MW", but "Cover" is "cover"."""
        text = self.spelling
        if self.kind == "unit" and len(text) <= 3:
            return True
        inner = len(text) <= 4 and text[1:] != text[1:].lower() and text != text.upper()
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
        self._tokens: dict[int, QuoteToken] = {}

    def __len__(self) -> int:
        return len(self._found)

    def token(self, index: int) -> QuoteToken:
        """Return a word by its index, from 0."""
        if index not in self._tokens:
            first = index  # a unit is known by the word before it, which may be a unit itself: "kg·m/s"
            while first and first - 1 not in self._tokens and len(self._found[first][0]) <= _LONGEST_UNIT:
                first -= 1
            for each in range(first, index + 1):
                self._tokens[each] = self._made(each)
        return self._tokens[index]

    def _made(self, index: int) -> QuoteToken:
        spelling, start, group = self._found[index]
        gap = self._normal[self._end(index - 1) : start] if index else ""
        kind = _kind(spelling, group, gap, self._tokens.get(index - 1))
        soft = index == 0 or _soft(self._found[index - 1][0], spelling, gap)
        place = self.borders[index]
        return QuoteToken(place, place + len(spelling), spelling, kind, soft)

    def run(self, start: int, end: int) -> tuple[QuoteToken, ...]:
        """Return the words with indexes in [start, end)."""
        return tuple(map(self.token, range(max(0, start), min(end, len(self)))))

    @cached_property
    def tokens(self) -> tuple[QuoteToken, ...]:
        """All words, in order."""
        return self.run(0, len(self))

    @cached_property
    def indexes(self) -> dict[str, list[int]]:
        """Return for each word, capitals aside, its indexes."""
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


def _folded(text: str) -> str:
    """Return the text in lower case, each character for itself: as long as before."""
    return text.lower().replace("ς", "σ")


def _kind(spelling: str, group: str, gap: str, last: QuoteToken | None) -> Kind:
    folded = _folded(spelling)
    if group in ("number", "symbol"):
        return "number" if group == "number" else "symbol"
    if negates(folded):
        return "negation"
    if any(map(str.isdigit, spelling)):
        return "number"  # a code, as HX210
    if last is None or len(spelling) > _LONGEST_UNIT or group == "unspaced" or folded in _NO_UNITS:
        return "word"
    if last.kind == "number" and gap.strip() in _UNIT_JOINTS:
        return "unit"
    return "unit" if (last.kind == "unit" or last.spelling in "°/") and gap in _UNIT_JOINTS else "word"


def _soft(last: str, spelling: str, gap: str) -> bool:
    """Say whether two words may as well be joined, hyphenated or apart: "high-voltage", "2.4V", Chinese."""
    one, other = last[-1], spelling[0]
    if one.isdigit() and other.isdigit():
        return False
    if _SOFT_GAP.fullmatch(gap):
        return True
    mixed = one.isdigit() != other.isdigit() or _UNSPACED.match(one) is not None or _UNSPACED.match(other) is not None
    return mixed and not gap.strip()


_UNSPACED = re.compile(f"[{UNSPACED}]")


def _normal(text: str) -> tuple[str, tuple[int, ...] | None, tuple[int, ...] | None]:
    """Return the text in one spelling and, per character of it, the start and end of its original."""
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
        if match.lastgroup == "raised" and not _BASE.search(text[max(0, match.start() - 4) : match.start()]):
            new = " " if new[1:].isdecimal() else new
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
    normal = unicodedata.normalize("NFKC", text.translate(_SPELLING))
    if "\u2044" in normal:  # "2½" is not 21/2
        normal = " " + normal
    return normal.translate(_SPELLING)


_REPLACED: dict[str, Callable[[str], str]] = {
    "dropped": lambda _: "", "space": lambda _: " ", "power": lambda _: "^",
    "raised": lambda text: "^" + text.translate(_RAISED).removeprefix("<sup>").removesuffix("</sup>"),
}  # fmt: skip

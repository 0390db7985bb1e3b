"""Where a quote stands in its source: word for word, spelled otherwise, cut short, or with words changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from heapq import nsmallest
from itertools import pairwise
from typing import Literal, TypeAlias

from catena.answering.wording import Token, Wording

_ELLIPSIS = re.compile(r"\s*(?:[\[(]\s*)?(?:…|\.{3,}|(?:\.\s){2,}\.)(?:\s*[\])])?\s*")
_MARKED = re.compile(r"[\"'“„«‹‘‚»›「『].*[\"'”“»›’‘«‹」』]", re.DOTALL)  # in quotation marks
_GAP = 600  # characters that an ellipsis may leave out; a quote from two ends of a chapter is two quotes
_LEAST_PART = 2  # words on either side of an ellipsis: single words are found in order anywhere
_LEAST_CUT = 3  # words of a quote that may begin or end inside a word
_SENTENCE_END = re.compile(r"[.!?;:。！？]\s|\n\s*\n")
_NEGATING = re.compile(r"(?:un|in|im|il|ir|non|not|dis|mis|anti|counter|no|nicht|kein)")
_LONGEST_NEAR = 400  # words; beyond, a quote is found as printed or not at all
_TRIED = 16  # places that are looked at more closely
_MANY = 1000  # votes of a word that stands once; of one that stands n times, each place has 1/n of it

PlaceState: TypeAlias = Literal["exact", "normalised", "near", "altered"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Words of a quote and what the source has in their place; "" where one side has nothing."""

    quoted: str
    printed: str


@dataclass(frozen=True, slots=True)
class Place:
    """A quote in a source: offsets in the source's own text, half-open."""

    start: int
    end: int
    state: PlaceState
    differences: tuple[Difference, ...] = ()


def place_of(quote: Wording, source: Wording) -> Place | None:
    """Return where all words of a quote stand in a source, in order; the most exact place, then the first.

    Returns:
        None where they do not. `altered` is a place at which the words stand, but the quote cuts a number, a unit, a
        sign or a negation ("4 N·m" of "2.4 N·m", "able" of "unable"), begins behind a "not", or leaves one out by an
        ellipsis.
    """
    if not len(quote):  # only marks
        at = source.text.find(quote.text) if quote.text else -1
        return None if at < 0 else Place(at, at + len(quote.text), "exact")
    best: tuple[int, Place] | None = None
    for at in _occurrences(quote, source):
        found = _judged(quote, source, at)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
            if best[0] == 0:
                break
    return best[1] if best is not None else _across_ellipses(quote, source)


def _occurrences(quote: Wording, source: Wording, start: int = 0) -> Iterator[int]:
    at = source.folded.find(quote.folded, start)
    while at >= 0:
        if _same_words(quote, source, at):
            yield at
        at = source.folded.find(quote.folded, at + 1)


def _same_words(quote: Wording, source: Wording, at: int) -> bool:
    """Return whether the words part at the same places, hyphens aside, and no capital changes a unit."""
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


def _judged(quote: Wording, source: Wording, at: int) -> tuple[int, Place] | None:
    """Return a place with its order among others, the best 0."""
    end = at + len(quote.folded)
    start_offset, end_offset = source.span(at, end)
    lead = quote.span(0, 1)[0]
    inner = quote.text[1:-1].strip() if _MARKED.fullmatch(quote.text) else quote.text
    exact = False
    for printed in dict.fromkeys((quote.text, inner)):
        begin = start_offset - lead + quote.text.find(printed)
        if begin >= 0 and source.text.startswith(printed, begin):
            start_offset, end_offset, exact = begin, begin + len(printed), True
            break
    state: PlaceState = "exact" if exact else "normalised"
    cuts = [cut for cut in (_cut_before(source, at), _cut_after(source, end)) if cut is not None]
    if not cuts:
        return (0 if exact else 1), Place(start_offset, end_offset, state)
    if not any(cut.value for cut in cuts):
        if len(quote) < _LEAST_CUT:
            return None
        return (2 if exact else 3), Place(start_offset, end_offset, state)
    differences = tuple(
        Difference(source.text[slice(*source.span(max(cut.start, at), min(cut.end, end)))], _printed(source, cut))
        for cut in cuts
        if cut.value
    )
    return 4, Place(start_offset, end_offset, "altered", differences)


@dataclass(frozen=True, slots=True)
class _Cut:
    """What the end of a quote cuts in two: [start, end) of the folded source."""

    start: int
    end: int
    value: bool


def _printed(source: Wording, cut: _Cut) -> str:
    return source.text[slice(*source.span(cut.start, cut.end))]


def _cut_before(source: Wording, at: int) -> _Cut | None:
    index = source.token_at(at)
    token = source.token(index)
    if token.start < at:
        value = token.kind != "word" or _NEGATING.fullmatch(source.folded[token.start : at]) is not None
        return _Cut(token.start, token.end, value)
    before = source.token(index - 1) if index else None
    if before is None:
        return None
    of_number = token.kind == "number" and before.kind == "symbol" and before.spelling in "±≤≥<>≈≠~^-"
    gap = source.text[source.span(before.start, before.end)[1] : source.span(token.start, token.end)[0]]
    negated = before.kind == "negation" and (token.soft or not gap.strip("*_ \t\r\n"))  # "not | open the cover"
    if of_number or negated or (token.soft and before.spelling == "/"):
        return _Cut(before.start, token.end, value=True)
    return None


def _cut_after(source: Wording, end: int) -> _Cut | None:
    index = source.token_at(end - 1)
    token = source.token(index)
    if token.end > end:
        return _Cut(token.start, token.end, value=token.kind != "word")
    after = source.token(index + 1) if index + 1 < len(source) else None
    if after is None or token.kind not in ("number", "unit"):
        return None
    if (token.kind == "unit" and after.kind == "unit") or after.spelling in ("-", "/", "^"):
        return _Cut(token.start, after.end, value=True)
    return None


def _across_ellipses(quote: Wording, source: Wording) -> Place | None:
    """Return where the parts of a quote around its ellipses stand in order, near each other."""
    if "…" not in quote.text and ".." not in quote.text and ". ." not in quote.text:
        return None
    texts = _ELLIPSIS.split(quote.text)
    if len(texts) < 2:
        return None
    parts = [part for part in map(Wording, texts) if len(part)]
    if len(parts) == 1:
        found = place_of(parts[0], source)
        return found and Place(
            found.start, found.end, "altered" if found.differences else "normalised", found.differences
        )
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
        at = next(_occurrences(part, source, place), None)
        if at is None:
            return None
        span = source.span(at, at + len(part.folded))
        if spans and span[0] - spans[-1][1] > _GAP:
            return None
        if _cut_before(source, at) or _cut_after(source, at + len(part.folded)):
            return None
        spans.append(span)
        place = at + len(part.folded)
    return spans


def _with_gaps(source: Wording, spans: Sequence[tuple[int, int]]) -> Place:
    hidden: list[Difference] = []
    for (_, start), (end, _) in pairwise(spans):
        left_out = _SENTENCE_END.split(source.text[start:end])
        for rest in dict.fromkeys((left_out[0], left_out[-1])):  # what belongs to the sentences of the two parts
            words = Wording(rest)
            hidden += [
                Difference("…", rest[slice(*words.span(t.start, t.end))])
                for t in words.tokens
                if t.kind == "negation"
            ]
    return Place(spans[0][0], spans[-1][1], "altered" if hidden else "normalised", tuple(hidden))


def nearest(quote: Wording, source: Wording) -> Place | None:
    """Return where a quote with changed words stands in a source, or None where it does not.

    `near`: at most one word in six (and always one) was changed, left out or added, and none of them is a number, a
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


def _compared(quote: Wording, source: Wording, diagonal: int) -> tuple[int, int, Place] | None:
    """Return how many words differ, where, and the place; None where too many do."""
    length = len(quote)
    reach = _reach(length)
    low, high = max(0, diagonal - reach), max(0, diagonal + length + reach + 1)
    window = source.run(low, high)
    matcher = SequenceMatcher(None, [t.key for t in quote.tokens], [t.key for t in window], autojunk=False)
    codes = matcher.get_opcodes()
    equal = sum(i2 - i1 for tag, i1, i2, _, _ in codes if tag == "equal")
    pairs: list[tuple[Sequence[Token], Sequence[Token]]] = []
    ours: list[int] = []  # indexes in the window that the quote covers
    for tag, i1, i2, j1, j2 in codes:
        first, last = j1, j2
        if tag != "equal" and i1 == 0:  # what stands before the quote is no part of it
            first = max(j1, j2 - (i2 - i1))
        elif tag != "equal" and i2 == length:
            last = min(j2, j1 + (i2 - i1))
        ours += (first, last) if last > first else ()
        if tag == "equal":
            continue
        said, printed = quote.tokens[i1:i2], window[first:last]
        if _joined_alike(said, printed):
            equal += len(said)
        elif said or printed:
            pairs.append((said, printed))
    changed = sum(max(len(said), len(printed)) for said, printed in pairs)
    value = any(_changes_value(said, printed) for said, printed in pairs)
    near = not value and changed <= max(1, length // 6) and equal >= _LEAST_CUT
    altered = value and changed <= max(2, length // 3) and equal * 10 >= length * 6
    if not pairs or not (near or altered):
        return None
    start, _ = source.span(window[min(ours)].start, window[min(ours)].end)
    _, end = source.span(window[max(ours) - 1].start, window[max(ours) - 1].end)
    differences = tuple(Difference(_text(quote, said), _text(source, printed)) for said, printed in pairs)
    return changed, low, Place(start, end, "near" if near else "altered", differences)


def _joined_alike(said: Sequence[Token], printed: Sequence[Token]) -> bool:
    """Return whether two runs are one word but for hyphens inside it, as at the end of a line."""
    hyphens_only = all(token.soft for run in (said, printed) for token in run[1:])
    return bool(said) and hyphens_only and "".join(t.key for t in said) == "".join(t.key for t in printed)


def _text(words: Wording, run: Sequence[Token]) -> str:
    return words.text[slice(*words.span(run[0].start, run[-1].end))] if run else ""


def _changes_value(said: Sequence[Token], printed: Sequence[Token]) -> bool:
    if any(token.kind != "word" for token in (*said, *printed)):
        return True
    return len(said) == len(printed) and any(map(_opposed, said, printed))


def _opposed(said: Token, printed: Token) -> bool:
    """Return whether two words differ by a negating prefix, or by the capitals of a unit."""
    short, long = sorted((said.key.lower(), printed.key.lower()), key=len)
    if short == long:
        return said.key != printed.key
    return long.endswith(short) and _NEGATING.fullmatch(long[: len(long) - len(short)]) is not None

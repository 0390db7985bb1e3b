"""Where the words of a quote stand in its source: as printed, spelled otherwise, or cut at the wrong place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from catena.answering.wording import Wording

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


def place_of(quote: Wording, source: Wording) -> Located | None:
    """Return where all words of a quote stand in a source, in order; the most exact place, then the first.

    Returns:
        None where they do not. `altered` is a place at which the words stand, but the quote cuts a number, a unit, a
        sign or a negation ("4 N·m" of "2.4 N·m", "able" of "unable"), begins behind a "not", or leaves one out by an
        ellipsis.
    """
    if not len(quote):  # only marks
        at = source.text.find(quote.text) if quote.text else -1
        return None if at < 0 else Located(at, at + len(quote.text), "exact")
    best: tuple[int, Located] | None = None
    for at in _occurrences(quote, source):
        found = _judged(quote, source, at)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
            if best[0] == 0:
                break
    return best[1] if best is not None else _across_ellipses(quote, source)


def _occurrences(quote: Wording, source: Wording, start: int = 0, stop: int | None = None) -> Iterator[int]:
    at = source.folded.find(quote.folded, start, stop)
    while at >= 0:
        if _same_words(quote, source, at):
            yield at
        at = source.folded.find(quote.folded, at + 1, stop)


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


def _judged(quote: Wording, source: Wording, at: int) -> tuple[int, Located] | None:
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
    cuts = cuts_at(source, at, end)
    if not cuts:
        return (0 if exact else 1), Located(start_offset, end_offset, state)
    if not any(cut.value for cut in cuts):
        if len(quote) < _LEAST_CUT:
            return None
        return (2 if exact else 3), Located(start_offset, end_offset, state)
    return 4, Located(start_offset, end_offset, "altered", what_is_cut(source, cuts, at, end))


@dataclass(frozen=True, slots=True)
class Cut:
    """What an end of a quote cuts in two: [start, end) of the folded source, and whether that changes a value."""

    start: int
    end: int
    value: bool


def cuts_at(source: Wording, start: int, end: int) -> list[Cut]:
    """Return what the slice [start, end) of the folded source cuts in two."""
    return [cut for cut in (_cut_before(source, start), _cut_after(source, end)) if cut is not None]


def what_is_cut(source: Wording, cuts: Sequence[Cut], start: int, end: int) -> tuple[Difference, ...]:
    """Return what is left in the slice of each value that it cuts, and the whole value."""
    return tuple(
        Difference(
            source.text[slice(*source.span(max(cut.start, start), min(cut.end, end)))],
            source.text[slice(*source.span(cut.start, cut.end))],
        )
        for cut in cuts
        if cut.value
    )


def _cut_before(source: Wording, at: int) -> Cut | None:
    index = source.token_at(at)
    token = source.token(index)
    if token.start < at:
        value = token.kind != "word" or NEGATING.fullmatch(source.folded[token.start : at]) is not None
        return Cut(token.start, token.end, value)
    before = source.token(index - 1) if index else None
    if before is None:
        return None
    of_number = token.kind == "number" and before.kind == "symbol" and before.spelling in "±≤≥<>≈≠~^-"
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
    if (token.kind == "unit" and after.kind == "unit") or after.spelling in ("-", "/", "^"):
        return Cut(token.start, after.end, value=True)
    return None


def _across_ellipses(quote: Wording, source: Wording) -> Located | None:
    """Return where the parts of a quote around its ellipses stand in order, near each other."""
    if "…" not in quote.text and ".." not in quote.text and ". ." not in quote.text:
        return None
    texts = _ELLIPSIS.split(quote.text)
    if len(texts) < 2:
        return None
    parts = [part for part in map(Wording, texts) if len(part)]
    if len(parts) == 1:
        found = place_of(parts[0], source)
        return found and Located(
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
            hidden += [
                Difference("…", rest[slice(*words.span(t.start, t.end))])
                for t in words.tokens
                if t.kind == "negation"
            ]
    return Located(spans[0][0], spans[-1][1], "altered" if hidden else "normalised", tuple(hidden))

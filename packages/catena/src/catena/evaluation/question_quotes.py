"""Where sentences that a model copied stand in their text: exact slices of it, however freely they were copied."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from catena.evaluation.answer_scope import Span
from catena.text.words import is_border, tokenise

CopyState: TypeAlias = Literal["exact", "normalised", "near"]

LEAST_SIMILARITY = 0.9  # of a copy that is only near; characters of both that agree in order / all of both
_WINDOW = 100 * (2 * LEAST_SIMILARITY - 1)  # what is left out costs twice in a window as long as the copy
_LONG = 2_000  # characters; of a longer copy the beginning and the end are looked for: the whole would take minutes
_END = 500  # characters of each
_REACH = 5  # a fifth of a copy: how far the ends of its place may lie from those of its window
LEAST_WORDS = 3  # of a copy: fewer stand anywhere

_ELLIPSIS = re.compile(r"(?:(?<!\s)\s++)?(?:[\[(]\s*+)?(?:…|\.{3,}+)(?:\s*+[\])])?\s*+")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_DROPPED = frozenset("*_`\u00ad\u200b\u200c\u200d\u2060\ufeff")  # marks of Markdown, and what nobody sees
_UNIFIED = (
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u00b4", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb", '"')
    | {"‹": "<", "›": ">"}
)


@dataclass(frozen=True, slots=True)
class Copied:
    """Where a copy stands, offsets half-open, and how true it is.

    `exact`: character for character. `normalised`: but for white space, capitals, width, typographic marks and
    Markdown. `near`: at least `LEAST_SIMILARITY` alike, with the same numbers in the same order.
    """

    start: int
    end: int
    state: CopyState


class CopySource:
    """A text in which copies are looked for, many times."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._plain, self._places = _plain(text)

    def find(self, copy: str, *, after: int = 0) -> Copied | None:
        """Return where a copy stands: the truest place; of several, the first behind `after`, else the first.

        A place begins and ends between words: a copy that ends inside one is taken to mean all of it.

        Returns:
            None where it stands nowhere, or has fewer than `LEAST_WORDS` words.
        """
        said = copy.strip()
        if len(tokenise(said)) < LEAST_WORDS:
            return None
        at = _first(self.text, said, after)
        if at >= 0:
            return self._placed(at, at + len(said), "exact")
        plain = _plain(said)[0].strip()
        if not plain:
            return None
        at = _first(self._plain, plain, bisect_left(self._places, after))
        if at >= 0:
            return self._placed(self._places[at], self._places[at + len(plain) - 1] + 1, "normalised")
        return self._near(plain)

    def find_all(self, copies: Iterable[str]) -> tuple[tuple[Span, ...], tuple[str, ...]]:
        """Return where all copies stand, ascending and joined where only white space parts them; and those missing.

        A copy with an ellipsis in it that the text does not have stands for the runs around the ellipsis.
        """
        spans: list[Span] = []
        missing: list[str] = []
        after = 0
        for copy in copies:
            whole = self.find(copy, after=after)
            if whole is not None:
                spans.append((whole.start, whole.end))
                after = whole.end
                continue
            parts = [part for part in _ELLIPSIS.split(copy) if part.strip()]
            if len(parts) < 2:
                missing.append(copy)
                continue
            for part in parts:
                found = self.find(part, after=after)
                if found is None:
                    missing.append(part)
                else:
                    spans.append((found.start, found.end))
                    after = found.end
        return joined(spans, self.text), tuple(missing)

    def _near(self, plain: str) -> Copied | None:
        from rapidfuzz.fuzz import partial_ratio_alignment, ratio

        if LEAST_SIMILARITY * (len(plain) + len(self._plain)) > 2 * len(self._plain):  # longer than what it copies
            return None
        if len(plain) > _LONG:
            return self._near_ends(plain)
        start, end = 0, len(self._plain)
        if len(plain) < end:
            window = partial_ratio_alignment(plain, self._plain, score_cutoff=_WINDOW)
            if window is None:
                return None
            start, end = window.dest_start, window.dest_end  # as long as the copy, which may have left words out
        reach = len(plain) // _REACH

        def alike(start: int, end: int) -> float:
            return ratio(plain, self._plain[start:end])

        end = max(self._borders(max(start + 1, end - reach), end + reach), key=lambda place: alike(start, place))
        start = max(self._borders(start - reach, min(end - 1, start + reach)), key=lambda place: alike(place, end))
        numbers = _NUMBER.findall(self._plain[start:end])
        if alike(start, end) < 100 * LEAST_SIMILARITY or _NUMBER.findall(plain) != numbers:
            return None
        return self._placed(self._places[start], self._places[end - 1] + 1, "near")

    def _near_ends(self, plain: str) -> Copied | None:
        """Return where a long copy stands: from a place like its beginning to one like its end, if all is alike."""
        from rapidfuzz.fuzz import partial_ratio_alignment, ratio

        cutoff = 100 * LEAST_SIMILARITY
        first = partial_ratio_alignment(plain[:_END], self._plain, score_cutoff=_WINDOW)
        last = partial_ratio_alignment(plain[-_END:], self._plain, score_cutoff=_WINDOW)
        if first is None or last is None or first.dest_start >= last.dest_end:
            return None
        found = self._plain[first.dest_start : last.dest_end]
        if _NUMBER.findall(plain) != _NUMBER.findall(found) or ratio(plain, found, score_cutoff=cutoff) < cutoff:
            return None
        return self._placed(self._places[first.dest_start], self._places[last.dest_end - 1] + 1, "near")

    def _borders(self, first: int, last: int) -> list[int]:
        """Return where words of the plain text begin or end, from first to last and within it; never nothing."""
        first, last = max(0, first), min(last, len(self._plain))
        return [place for place in range(first, last + 1) if is_border(self._plain, place)] or [first]

    def _placed(self, start: int, end: int, state: CopyState) -> Copied:
        while start < end and self.text[start].isspace():
            start += 1
        while end > start and self.text[end - 1].isspace():
            end -= 1
        while not is_border(self.text, start):
            start -= 1
        while not is_border(self.text, end):
            end += 1
        return Copied(start, end, state)


def joined(spans: Iterable[Span], text: str) -> tuple[Span, ...]:
    """Return spans ascending, those that overlap or have only white space between them as one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and (start <= found[-1][1] or not text[found[-1][1] : start].strip()):
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return tuple(found)


def _first(text: str, part: str, after: int) -> int:
    at = text.find(part, after)
    return at if at >= 0 else text.find(part)


def _plain(text: str) -> tuple[str, Sequence[int]]:
    """Return a text as copies are compared by, and the offset that each of its characters comes from."""
    characters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        if character in _DROPPED:
            continue
        if character.isspace():
            if characters and characters[-1] != " ":
                characters.append(" ")
                places.append(place)
            continue
        for each in _UNIFIED.get(character) or unicodedata.normalize("NFKC", character).casefold():
            characters.append(each)
            places.append(place)
    return "".join(characters), places

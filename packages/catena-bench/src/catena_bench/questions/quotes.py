"""Find sentences that a model copied in their text: exact slices of it, however freely they were copied."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from itertools import takewhile

from catena.evaluation import Span
from catena.text import Located, PlaceState, Wording, is_border, nearest, place_of, tokenise

LEAST_WORDS = 3  # of a copy: fewer stand anywhere
LEAST_SIMILARITY = 0.9  # of a long copy that is only near; characters of both that agree in order / all of both
_LONG = 400  # words; of a longer copy the beginning and the end are looked for
_END = 100  # words of each

_ELLIPSIS = re.compile(r"(?:(?<!\s)\s++)?(?:[\[(]\s*+)?(?:…|\.{3,}+)(?:\s*+[\])])?\s*+")


class CopySource:
    """A text in which copies are looked for, many times."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._words = Wording(text)

    def find(self, copy: str, *, after: int = 0) -> Located | None:
        """Find a copy: the truest place; of several, the first from `after` on, else the first.

        A place begins and ends between words: a copy that ends inside one is taken to mean all of it.

        Returns:
            `exact`, `normalised` or `near`, see `catena.text.quotes`. None where it stands nowhere, where a value in
            it was changed, or where it has fewer than `LEAST_WORDS` words.
        """
        said = copy.strip()
        if len(tokenise(said)) < LEAST_WORDS:
            return None
        at = self.text.find(said, after)
        at = at if at >= 0 else self.text.find(said)
        if at >= 0:
            return self._whole_words(at, at + len(said), "exact")
        words = Wording(said)
        found = self._found(words, self._words, after)
        if found is None and said.isupper() and self._lowered is not None and len(said.lower()) == len(said):
            words = Wording(said.lower())  # written in capitals, each word would count as a name or a code
            found = self._found(words, self._lowered, after)
        if found is None:
            return None
        before = words.span(0, 1)[0]
        behind = len(said) - words.span(len(words.folded) - 1, len(words.folded))[1]
        start = found.start - len(_marks(self.text[max(0, found.start - before) : found.start][::-1]))
        end = found.end + len(_marks(self.text[found.end : found.end + behind]))
        return self._whole_words(start, end, found.state)

    @cached_property
    def _lowered(self) -> Wording | None:
        """Return the text in lower case; None where that moves its places."""
        lowered = self.text.lower()
        return Wording(lowered) if len(lowered) == len(self.text) else None

    def _found(self, words: Wording, printed: Wording, after: int) -> Located | None:
        """Find a copy by its words, true or near; None for one of which a value was changed."""
        found = place_of(words, printed, after=after, over_ellipses=False) or self._near(words, printed)
        return None if found is None or found.state == "altered" else found

    def find_all(self, copies: Iterable[str]) -> tuple[tuple[Span, ...], tuple[str, ...]]:
        """Find all copies; return their places, ascending, joined over white space, and the copies missing.

        A copy with an ellipsis in it that the text does not have stands for the runs around the ellipsis.
        """
        spans: list[Span] = []
        missing: list[str] = []
        after = 0
        for copy in copies:
            whole = self.find(copy, after=after)
            parts = [part for part in _ELLIPSIS.split(copy) if part.strip()]
            for part in [copy] if whole is not None or len(parts) < 2 else parts:
                found = whole or self.find(part, after=after)
                if found is None:
                    missing.append(part)
                else:
                    spans.append((found.start, found.end))
                    after = found.end
        return joined(spans, self.text), tuple(missing)

    def _near(self, words: Wording, printed: Wording) -> Located | None:
        """Find a copy of which some words were changed; a long one from a place like its beginning to its end's."""
        if len(words) <= _LONG:
            return nearest(words, printed)
        if LEAST_SIMILARITY * (len(words) + len(printed)) > 2 * len(printed):  # longer than what it copies
            return None
        from rapidfuzz.fuzz import ratio

        ends = [self._end(words, printed, first) for first in (0, len(words) - _END)]
        if ends[0] is None or ends[1] is None or ends[0].start >= ends[1].end:
            return None
        between = Wording(printed.text[ends[0].start : ends[1].end])
        same = 100 * LEAST_SIMILARITY
        if _values(words) != _values(between) or ratio(words.folded, between.folded, score_cutoff=same) < same:
            return None
        return Located(ends[0].start, ends[1].end, "near")

    def _end(self, words: Wording, printed: Wording, first: int) -> Located | None:
        end = Wording(words.text[slice(*words.span(words.token(first).start, words.token(first + _END - 1).end))])
        return place_of(end, printed) or nearest(end, printed)

    def _whole_words(self, start: int, end: int, state: PlaceState) -> Located:
        while not is_border(self.text, start):
            start -= 1
        while not is_border(self.text, end):
            end += 1
        return Located(start, end, state)


def _marks(text: str) -> str:
    """Return the marks that a text begins with, up to white space or a word: a copy has them around its words too."""
    return "".join(takewhile(lambda character: not character.isalnum() and not character.isspace(), text))


def _values(words: Wording) -> list[str]:
    return [token.key for token in words.tokens if token.kind == "number"]


def joined(spans: Iterable[Span], text: str) -> tuple[Span, ...]:
    """Return spans ascending, those that overlap or have only white space between them as one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and (start <= found[-1][1] or not text[found[-1][1] : start].strip()):
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return tuple(found)

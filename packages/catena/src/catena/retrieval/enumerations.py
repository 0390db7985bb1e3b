"""The lists in a question, such as "the HX210 and the HX200", told by small words and by the form of their items."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from catena.retrieval.question_words import AS_WELL_AS, Language
from catena.text.words import folded

# what stands in quotes or brackets is part of its word; a trailing full stop too, as in "Corp."
_TOKEN = re.compile(
    r"(?:\"[^\"]{0,300}\"|“[^“”]{0,300}”|„[^„“”]{0,300}[“”]|«[^«»]{0,300}»|`[^`]{0,300}`|\([^()]{0,300}\)"
    r"|[^\s,;:?!]|[,:;?!](?=[^\s,;:?!]))+|[,;:?!]"
)
_JOINED = "and\ue000\ue000\ue000\ue000\ue000\ue000\ue000"  # as long as "as well as", so that places stay
_FEWEST_BY_COMMAS = 3

Span: TypeAlias = tuple[int, int]
"""Places of tokens, half-open."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word or mark with its place; `word` is folded, without what only joins it to the next."""

    text: str
    word: str
    start: int
    end: int

    @property
    def is_mark(self) -> bool:
        return len(self.text) == 1 and not self.text.isalnum()

    @property
    def has_code(self) -> bool:
        return any(map(str.isdigit, self.text))

    @property
    def is_name(self) -> bool:
        return self.has_code or self.text.lstrip('"“„«`(')[:1].isupper()


@dataclass(frozen=True, slots=True)
class Listing:
    """Tokens [start, end) that list alternatives, and the spans of tokens of its items."""

    start: int
    end: int
    items: tuple[Span, ...]


def tokens_of(text: str) -> list[Token]:
    """Return the words and marks of a text, in order; "as well as" is one that reads "and"."""
    masked = AS_WELL_AS.sub(_JOINED, text)
    return [
        Token(text[match.start() : match.end()], folded(match.group()).rstrip("\ue000").rstrip("."), *match.span())
        for match in _TOKEN.finditer(masked)
    ]


def listings(tokens: Sequence[Token], language: Language, *, compares: bool) -> list[Listing]:
    """Return the lists of a clause, from the left, none within another."""
    found: list[Listing] = []
    free = 0
    for place, token in enumerate(tokens):
        joins = token.word in language.joining or (compares and token.word in language.against)
        if place > free and joins and place + 1 < len(tokens):
            listing = _Reader(tokens, language, compares, free).at(place)
            if listing is not None:
                found.append(listing)
                free = listing.end
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the list around a joining word; nothing before `free` belongs to it."""

    tokens: Sequence[Token]
    language: Language
    compares: bool
    free: int

    def at(self, place: int) -> Listing | None:
        """Return the list whose last two items the word at this place joins; None where that is in doubt."""
        left, right = self._left(place), self._right(place)
        if left is None or right is None:
            return None
        if (
            self.tokens[right[0]].word in self.language.pointing
        ):  # "Give me the torque and the fuse": from the article
            articles = (at for at in range(*left) if self.tokens[at].word in self.language.pointing)
            left = (max(articles, default=left[0]), left[1])
        chooses = self.tokens[place].word in self.language.choosing and self._is_after_comma(left)
        alike = (left, (right[0], self._to_mark(right))) if chooses else self._alike(left, right)
        if alike is None:
            return None
        items = (*self._before(alike[0], chooses=chooses), *alike)
        if not self._is_certain(items, place):
            return None
        return Listing(items[0][0], items[-1][1], items)

    def _is_after_comma(self, item: Span) -> bool:
        return item[0] > 0 and self.tokens[item[0] - 1].text == ","

    def _to_mark(self, item: Span) -> int:
        """Return where the clause of an item ends: alternatives behind a comma are the last that it says."""
        end = item[1]
        while end < len(self.tokens) and not self.tokens[end].is_mark:
            end += 1
        return end

    def _is_border(self, place: int) -> bool:
        word, language = self.tokens[place].word, self.language
        return (
            self.tokens[place].is_mark
            or word in language.joining | language.asking | language.being | language.helping | language.placing
            or word in language.comparing
        )

    def _left(self, place: int) -> Span | None:
        end = place - 1 if place and self.tokens[place - 1].text == "," else place
        start = end
        while start > self.free and not self._is_border(start - 1):
            start -= 1
        return (start, end) if start < end else None

    def _right(self, place: int) -> Span | None:
        start = place + 1
        first = start + (self.tokens[start].word in self.language.placing)
        end = first
        while end < len(self.tokens) and not self._is_border(end):
            end += 1
        return (start, end) if first < end else None

    def _alike(self, left: Span, right: Span) -> tuple[Span, Span] | None:
        """Return both items with like borders; None where they are not of one kind."""
        placed = self.tokens[right[0]].word in self.language.placing
        if placed:
            same = left[0] > self.free and self.tokens[left[0] - 1].word == self.tokens[right[0]].word
            return ((left[0] - 1, left[1]), right) if same else None
        codes = [self._last_code(item) for item in (left, right)]
        if codes[0] is not None and codes[1] is not None:
            if left[0] and self.tokens[left[0] - 1].word in self.language.helping | self.language.being:
                return left, (right[0], min(right[1], codes[1] + left[1] - codes[0]))  # as long behind the code
            return left, right
        if codes[0] is None and codes[1] is None:
            return (left, right) if not self._is_subject(left) or self.compares else None
        kinds = self._kind(left), self._kind(right)
        if kinds[0] == kinds[1] and kinds[0][1]:  # names, of which one happens to have digits
            return None if self._is_subject(left) else (left, right)
        return self._with_owners(left, right)

    def _with_owners(self, left: Span, right: Span) -> tuple[Span, Span] | None:
        """Return "the torque of the HX210" and "the fuse of the HX200", each with what owns it."""
        owning, tokens = self.language.owning, self.tokens
        before, after = left[0] - 1, right[1]
        if before <= self.free or after + 1 >= len(tokens) or tokens[before].word != tokens[after].word:
            return None
        if tokens[before].word not in owning:
            return None
        start = before
        while start > self.free and not self._is_border(start - 1):
            start -= 1
        end = after + 1
        while end < len(tokens) and not self._is_border(end):
            end += 1
        longer = (start, left[1]), (right[0], end)
        return longer if start < before and self._last_code((after + 1, end)) is not None else None

    def _before(self, item: Span, *, chooses: bool) -> tuple[Span, ...]:
        """Return the items before the last two, each parted from the next by a comma and of the same kind.

        Where alternatives stand behind a comma ("Which is from Japan, A or B?"), what is before this comma is none,
        unless it has a code as they do.
        """
        found: list[Span] = []
        start = item[0]
        while start - 1 > self.free and self.tokens[start - 1].text == ",":
            end = start - 1
            start = end
            while start > self.free and not self._is_border(start - 1):
                start -= 1
            if start == end or self._kind((start, end)) != self._kind(item):
                break
            if chooses and not self._is_after_comma((start, end)) and self._last_code((start, end)) is None:
                break
            found.append((start, end))
        return tuple(reversed(found))

    def _is_certain(self, items: Sequence[Span], place: int) -> bool:
        """Return whether items are alternatives or a list beyond doubt, so that each may stand alone."""
        language, word = self.language, self.tokens[place].word
        opened = self.tokens[items[0][0] - 1].word if items[0][0] else ""
        kinds = [self._kind(item) for item in items]
        are_names = all(is_name for _, is_name in kinds)
        if opened in language.between or any(map(self._is_quantity, items)):
            return self.compares
        if word in language.against:
            return self.compares and are_names
        listed = len(items) >= _FEWEST_BY_COMMAS and len(set(kinds)) == 1
        if listed or self.tokens[items[-1][0]].word in language.placing:
            return True
        coded = all(self._last_code(item) is not None for item in items)
        if coded or (self.compares and (are_names or opened in language.placing | language.comparing)):
            return True
        after = self.tokens[items[-1][1]] if items[-1][1] < len(self.tokens) else None
        if word in language.choosing:
            are_pointed = all(is_pointed for is_pointed, _ in kinds)
            return (are_names or are_pointed) and self._is_after_comma(items[0]) and (after is None or after.is_mark)
        pointed = kinds[0][0] and (kinds[-1][0] or opened in language.being) and opened not in language.placing
        return pointed and after is not None and after.word in language.owning

    def _is_quantity(self, item: Span) -> bool:
        """Return whether an item is a number with what it counts: "128 KB" and "2 MB" are conditions on one thing."""
        place = item[0] + (item[1] - item[0] > 1 and self._kind(item)[0])
        return self.tokens[place].text[0].isdecimal() and place + 1 < item[1]

    def _kind(self, item: Span) -> tuple[bool, bool]:
        """Return whether an item begins with an article, and whether it is a name: written large, or with digits."""
        pointed = self.tokens[item[0]].word in self.language.pointing | self.language.placing
        place = min(item[0] + pointed, item[1] - 1)
        return pointed, self.tokens[place].is_name

    def _is_subject(self, item: Span) -> bool:
        """Return whether a verb may stand behind the list, which nothing here would tell from its last item.

        So it is after "do" and "can", and after an "are" that begins the question: "Are A and B made in Japan?"
        """
        if item[0] == 0:
            return False
        word = self.tokens[item[0] - 1].word
        return word in self.language.helping or (item[0] == 1 and word in self.language.being)

    def _last_code(self, item: Span) -> int | None:
        return next((place for place in reversed(range(*item)) if self.tokens[place].has_code), None)

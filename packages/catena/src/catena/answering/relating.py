"""Whether a quote speaks of what a statement says, as far as words can tell: which quotes prove which statement."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from typing import Literal, TypeAlias

from catena.answering.support import stands, values_in, without_citations
from catena.answering.wording import Wording
from catena.text.words import UNSPACED, tokenise

__all__ = ["Proof", "Said", "judged", "nearest_of"]

Proof: TypeAlias = Literal["supported", "unchecked", "unsupported"]
"""`supported`: verified quotes share a content word, a value or a name with the statement and have all its numbers.
`unchecked`: there is a verified quote for it, but its words do not tell whether it proves the statement.
`unsupported`: no quote for it is verified."""

_SHORTEST_WORD = 3
_FIRST_OF_SHORT_WORDS = "\u0590"  # Hebrew, Arabic, Korean and all behind them say in two letters what takes four here
# Thai and its kin, where any two letters are no word; の, です
_WEAK_PAIR = re.compile(rf"(?=[{UNSPACED}])(?:[^\u3041-\uffff\U00020000-\U0003ffff]+|[\u3041-\u309f]+)")
_SHORTEST_STEM = 4  # characters that two forms of one word begin with
# of English, German, French, Italian, Spanish, Portuguese and Dutch
_LISTED = """
the and but for nor yet not are was were has had have having does did can could may might must shall should
will would been being this that these those they them their theirs its his her hers him she you your yours our
ours who whom whose which what when where why how than then there here with without from into onto upon about
over under between during before after while until also only just very more most less least some any all both
each every other such own same too per via out off once again because since though although however therefore
thus according states stated says said der die das den dem des ein eine einen einem einer eines und oder aber
nicht kein keine keinen ist sind war waren wird werden wurde wurden hat haben hatte kann können muss müssen
soll sollen darf dürfen sein seine ihre ihr sie wir ich man sich auch nur noch schon sehr mehr als wie wenn
dann dass weil mit ohne von vom für bei aus auf nach über unter vor zum zur durch gegen zwischen dieser diese
dieses jeder jede jedes alle sowie bis les une est sont été être avoir ont pas par pour avec sans dans sur
sous que qui quoi dont cette ces son ses leur leurs elle elles ils nous vous mais plus très aux del della
delle degli dei dello nel nella con senza che non sono essere gli una uno questo questa suo sua los las unos
unas por para sin como este esta estos estas ese esa está están ser pero más muy sus dos nos nas uma com sem
não são seu mas pelo pela het een van voor met niet zijn wordt worden deze dit dat
"""
_FUNCTION_WORDS = frozenset(_LISTED.split())
_BOUNDS = {
    "max": 1, "maximum": 1, "maximal": 1, "most": 1, "up": 1, "below": 1, "less": 1, "höchstens": 1, "exceed": 1,
    "min": -1, "minimum": -1, "minimal": -1, "least": -1, "above": -1, "more": -1, "mindestens": -1,
    "≤": 1, "<": 1, "≥": -1, ">": -1,
}  # fmt: skip


class Said:
    """The words of a statement or a quote by which the one is told to speak of the other."""

    def __init__(self, text: str) -> None:
        self.text = without_citations(text)
        self.words = Wording(self.text)

    @cached_property
    def values(self) -> tuple[Wording, ...]:
        """Its numbers with their units, codes, acronyms and names of several words."""
        return tuple(map(Wording, values_in(self.text)))

    @cached_property
    def content(self) -> dict[str, tuple[str, ...]]:
        """Its content words, without accents, by their first characters; of scripts without spaces, runs of them."""
        found: dict[str, dict[str, None]] = {}
        for word in _content(self.text):
            found.setdefault(word[:_SHORTEST_STEM], {})[word] = None
        return {stem: tuple(words) for stem, words in found.items()}

    @cached_property
    def is_negated(self) -> bool:
        """Whether it has a negation."""
        return any(token.kind == "negation" for token in self.words.tokens)

    @cached_property
    def bounds(self) -> frozenset[int]:
        """Which ends it sets to a value: 1 an upper, -1 a lower one."""
        return frozenset(_BOUNDS[token.key] for token in self.words.tokens if token.key in _BOUNDS)

    def shared(self, quote: Said, headed: Sequence[Wording] = ()) -> int:
        """Return how many characters of content words and values a quote has of this statement; 0 for none.

        Args:
            quote: any.
            headed: the passages in which the unit of a quoted number may stand, at the head of its column.
        """
        words = sum(
            max((len(word) for other in quote.content.get(stem, ()) if _is_form(word, other)), default=0)
            for stem, mine in self.content.items()
            for word in mine
        )
        return words + sum(len(value.folded) for value in self.values if stands(value, quote.words, headed))


def nearest_of(statement: Said, quotes: Sequence[Said], headed: Sequence[Wording] = ()) -> tuple[int, ...]:
    """Return the indexes of the quotes of one passage that belong to a statement which cites it.

    They share something with it: the nearest in words, and those that have a value of it which the nearest have not.
    """
    shared = [statement.shared(quote, headed) for quote in quotes]
    most = max(shared, default=0)
    nearest = [quote for quote, weight in zip(quotes, shared, strict=True) if weight == most]
    left = [value for value in statement.values if not any(stands(value, quote.words, headed) for quote in nearest)]
    return tuple(
        index
        for index, (quote, weight) in enumerate(zip(quotes, shared, strict=True))
        if weight and (weight == most or any(stands(value, quote.words, headed) for value in left))
    )


def judged(statement: Said, quotes: Sequence[Said], headed: Sequence[Wording] = ()) -> Proof:
    """Return what the verified quotes that were given for a statement are worth as its proof.

    Args:
        statement: with its citations or without.
        quotes: those that are verified.
        headed: the passages in which the unit of a quoted number may stand, at the head of its column.

    Returns:
        `unsupported` without quotes. `unchecked` where none of them shares a content word, a value or a name with the
        statement, as in a translation; where a number of the statement stands in none of those that do; and where
        each of those says "not" and the statement does not, or the other way round, or sets the other bound ("at
        least" for "at most"). Else `supported`: a check of words, not of meaning.
    """
    if not quotes:
        return "unsupported"
    alike = [quote for quote in quotes if statement.shared(quote, headed)]
    agree = any(quote.is_negated == statement.is_negated and _may_agree(statement, quote) for quote in alike)
    numbers = [value for value in statement.values if not value.text[0].isalpha()]
    proved = all(any(stands(number, quote.words, headed) for quote in alike) for number in numbers)
    return "supported" if agree and proved else "unchecked"


def _may_agree(statement: Said, quote: Said) -> bool:
    return not statement.bounds or not quote.bounds or bool(statement.bounds & quote.bounds)


def _is_form(word: str, other: str) -> bool:
    """Return whether two words may be forms of one: they begin alike, for two thirds of the longer."""
    if word == other:
        return True
    alike = next(
        (at for at, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other))
    )
    return alike >= _SHORTEST_STEM and 3 * alike >= 2 * max(len(word), len(other))


def _content(text: str) -> list[str]:
    found: list[str] = []
    for word in tokenise(text):
        is_short = len(word) < (_SHORTEST_WORD if word[0] < _FIRST_OF_SHORT_WORDS else 2)
        if is_short or word[0].isdigit() or word in _FUNCTION_WORDS or _WEAK_PAIR.fullmatch(word):
            continue
        found.append("".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c)))
    return [word for word in found if word]

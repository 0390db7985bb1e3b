"""What a model calls a name, checked against the text it was asked about: what is not printed there is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from catena.text.names import says_something
from catena.text.replies import last_value
from catena.text.terms import TermMatcher
from catena.text.words import normalise_term

SHOWN = 5  # refused names in a message
SHOWN_CHARACTERS = 60  # of each


@dataclass(frozen=True, slots=True)
class Grounded:
    """Names that stand in a text, normalised, in order of place; and the others as given."""

    names: tuple[str, ...]
    refused: tuple[str, ...]

    @property
    def complaint(self) -> str:
        """What was refused, in words; "" when nothing was."""
        if not self.refused:
            return ""
        shown = ", ".join(repr(name[:SHOWN_CHARACTERS]) for name in self.refused[:SHOWN])
        more = f" and {len(self.refused) - SHOWN} more" if len(self.refused) > SHOWN else ""
        return f"left out {shown}{more}: not a name that the text prints"


def grounded(names: Iterable[str], text: str, *, max_words: int) -> Grounded:
    """Keep the names that a text prints between word borders, in any case, width, dash and spacing.

    Refused are names that the text does not print and those of more than `max_words` words, which are sentences.
    What says nothing as a term (a number, a single character) is left out without a word.
    """
    given = {normal: name for name in names if says_something(normal := normalise_term(name))}
    short = [normal for normal in given if len(normal.split()) <= max_words]
    found = TermMatcher(short).all_in(text)
    return Grounded(found, tuple(name for normal, name in given.items() if normal not in found))


def name_lists(reply: str, count: int) -> tuple[tuple[str, ...], ...]:
    """Return the names in a model's reply, one tuple per passage.

    Taken is the last JSON list in it of one list of strings per passage, or an object with them as its members; for a
    single passage its list alone will do.

    Raises:
        ValueError: it is anything else; the message says what.
    """

    def of_passages(value: Any) -> tuple[tuple[str, ...], ...] | None:
        lists = [value] if count == 1 and _is_names(value) else value
        lists = list(lists.values()) if isinstance(lists, dict) else lists
        fits = len(lists) == count and all(map(_is_names, lists))
        return tuple(tuple(names) for names in lists) if fits else None

    found = last_value(reply, of_passages)
    if found is None:
        raise ValueError(f"the reply holds no JSON list of {count} lists of strings")
    return found


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)

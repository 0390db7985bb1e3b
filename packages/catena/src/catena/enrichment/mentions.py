"""What a model calls a name, checked against the text it was asked about: what is not printed there is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from catena.names import says_something
from catena.terms import TermMatcher
from catena.text import normalise_term

_FENCED = re.compile(r"\s*```[a-zA-Z]*\s*\n(?P<body>.*?)\n?\s*```\s*\Z", re.DOTALL)
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

    The reply is JSON, in a code fence or not: one list of strings per passage; for a single passage its list alone
    will do.

    Raises:
        ValueError: it is anything else; the message says what.
    """
    fence = _FENCED.match(reply)
    try:
        lists: Any = json.loads(fence["body"] if fence else reply)
    except (ValueError, RecursionError):
        raise ValueError("the reply is not JSON") from None
    if count == 1 and _is_names(lists):
        lists = [lists]
    if not isinstance(lists, list) or len(lists) != count or not all(map(_is_names, lists)):
        raise ValueError(f"the reply is not a list of {count} lists of strings")
    return tuple(tuple(names) for names in lists)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)

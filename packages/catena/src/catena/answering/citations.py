"""Numbers in square brackets: which passages an answer cites, and which of them do not exist."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from catena.model.errors import ParameterError
from catena.text.loose_json import whole_number

_GROUP = re.compile(r"(?P<space>(?:(?<![ \t])[ \t]++)?)\[(?P<inside>\s*+\d++(?:\s*+[,;–-]\s*+\d++)*+\s*+)\]")
_RANGE = re.compile(r"(\d+)\s*[–-]\s*(\d+)|(\d+)")
_LONGEST_RANGE = 100  # passages; [1-99999] is not a citation


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedText:
    """A text in which every number in square brackets is that of a passage.

    Attributes:
        cited: the passages that it cites, from 1, in the order of their first mention.
        unknown: the numbers that were taken out because there is no such passage.
    """

    text: str
    cited: tuple[int, ...]
    unknown: tuple[int, ...]


def check_citations(text: str, passages: int | Collection[int]) -> CheckedText:
    """Return the text without citations of passages that do not exist.

    `[2]`, `[1, 3]`, `[1][3]` and `[1-3]` are read; a bracket with nothing left in it is taken out.

    Args:
        text: an answer as the model wrote it.
        passages: how many passages it was given, if they are numbered from 1; else their numbers.

    Raises:
        ParameterError: `passages` is negative.
    """
    if isinstance(passages, int) and passages < 0:
        raise ParameterError("passages", passages, "an integer >= 0")
    there = range(1, passages + 1) if isinstance(passages, int) else frozenset(passages)
    cited: dict[int, None] = {}
    unknown: dict[int, None] = {}

    def kept(group: re.Match[str]) -> str:
        numbers = dict.fromkeys(_numbers(group["inside"]))
        known = [number for number in numbers if number in there]
        cited.update(dict.fromkeys(known))
        unknown.update(dict.fromkeys(number for number in numbers if number not in known))
        return f"{group['space']}[{', '.join(map(str, known))}]" if known else ""

    checked = _GROUP.sub(kept, text)
    return CheckedText(text=checked, cited=tuple(cited), unknown=tuple(unknown))


def _numbers(inside: str) -> list[int]:
    found: list[int] = []
    for first, last, single in _RANGE.findall(inside):
        if single:
            found.append(whole_number(single))
            continue
        begin, end = whole_number(first), whole_number(last)
        found.extend(range(begin, end + 1) if 0 <= end - begin <= _LONGEST_RANGE else (begin, end))
    return found

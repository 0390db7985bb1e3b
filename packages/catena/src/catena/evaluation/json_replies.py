"""JSON in what a model wrote, whatever stands around it; and texts that cannot break out of the tag they stand in."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

# of models that reason aloud; only before all else, so that a reply of nothing but tags takes linear time
_THOUGHT = re.compile(r"\A(?:\s*<think(?:ing)?>.*?</think(?:ing)?>)+", re.DOTALL | re.IGNORECASE)
_OPEN = re.compile(r"[\[{]")
_MOST_FAILURES = 1_000  # brackets tried in vain before a reply counts as one without JSON; in a long one,
_FEWEST_FAILURES = 20  # as few as that: each may be looked for to the end of the reply
_MOST_READ = 20_000_000  # characters


def without_thoughts(reply: str) -> str:
    """Return a reply without what its model thought aloud before it, and without white space around it."""
    return _THOUGHT.sub("", reply).strip()


def json_values(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yield (start, end, value) of the outermost JSON objects and lists in a text, in order, half-open.

    Line breaks inside strings are taken as they are; NaN and infinity are no JSON.
    """
    decoder = json.JSONDecoder(strict=False, parse_constant=_refused)
    place = 0
    failures = min(_MOST_FAILURES, max(_FEWEST_FAILURES, _MOST_READ // max(1, len(text))))
    while failures and (opening := _OPEN.search(text, place)) is not None:
        try:
            value, end = decoder.raw_decode(text, opening.start())
        except RecursionError:  # deeper than any answer
            return
        except ValueError:
            place = opening.end()
            failures -= 1
        else:
            yield opening.start(), end, value
            place = end


def shut_in(text: str, tags: Collection[str]) -> str:
    """Return a text that can neither end one of these tags nor begin another one: its "<" becomes "‹" there."""
    names = "|".join(map(re.escape, sorted(tags)))
    return re.sub(rf"<(?=\s*(?:/\s*)?(?:{names})\b)", "‹", text.strip(), flags=re.IGNORECASE)


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")

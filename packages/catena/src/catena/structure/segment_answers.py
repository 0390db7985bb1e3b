"""What a model answers when asked for sections: a list found in whatever surrounds it, its values as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\n(?P<body>.*?)\n?[ \t]*```", re.DOTALL)
_STRING_OR_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[\]}])', re.DOTALL)
_TITLES = ("title", "section_title", "name", "heading")
_STARTS = ("start", "start_index", "start_line", "first_line", "first")
_ENDS = ("end", "end_index", "end_line", "last_line", "last")
_TRIES = 50  # brackets in prose at which a list is looked for
_DEPTH = 3  # of objects around the list


class RawSection(NamedTuple):
    """A section as a model gave it: any JSON values, None where there was none."""

    title: Any = None
    start: Any = None
    end: Any = None


def read_sections(reply: str) -> tuple[RawSection, ...]:
    """Return the sections in a model's reply, in its order.

    Taken is JSON, bare, in a code fence or with prose around it, with commas too many: a list of objects with a
    title and `start` and `end` (or start_index, start_line, first_line, …; the end may be missing), or an object
    that holds such a list. An entry that is no object counts as a section without values.

    Raises:
        ValueError: there is no such list.
    """
    for value in _values(reply):
        if (found := _sections_in(value, _DEPTH)) is not None:
            return found
    raise ValueError("the reply holds no JSON list of sections with line numbers")


def _values(reply: str) -> Iterator[Any]:
    """Yield what can be read as JSON: the whole reply, each fence, then what begins at a bracket in the prose."""
    for text in (reply, *(match["body"] for match in _FENCE.finditer(reply))):
        yield from _loaded(text)
    brackets = [place for place, character in enumerate(reply) if character in "[{"]
    for place in brackets[:_TRIES]:
        rest = reply[place:]
        for text in (rest, _without_extra_commas(rest)):
            try:
                value = json.JSONDecoder().raw_decode(text)[0]
            except (ValueError, RecursionError):
                continue
            yield value
            break


def _loaded(text: str) -> Iterator[Any]:
    for variant in (text, _without_extra_commas(text)):
        try:
            value = json.loads(variant)
        except (ValueError, RecursionError):
            continue
        yield [value] if _is_section(value) else value
        return


def _without_extra_commas(text: str) -> str:
    return _STRING_OR_COMMA.sub(lambda match: match[1] or "", text)


def _sections_in(value: Any, depth: int) -> tuple[RawSection, ...] | None:
    if isinstance(value, list) and any(map(_is_section, value)):
        return tuple(_section(entry) for entry in value)
    if isinstance(value, dict) and depth:
        found = (_sections_in(inner, depth - 1) for inner in value.values())
        return next((sections for sections in found if sections is not None), None)
    return None


def _is_section(value: Any) -> bool:
    return isinstance(value, dict) and bool({_key(key) for key in value} & {*_STARTS, *_ENDS})


def _section(entry: Any) -> RawSection:
    if not isinstance(entry, dict):
        return RawSection()
    values = {_key(key): value for key, value in entry.items()}
    return RawSection(*(_first(values, names) for names in (_TITLES, _STARTS, _ENDS)))


def _first(values: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((values[name] for name in names if values.get(name) is not None), None)


def _key(key: str) -> str:
    return key.strip().lower().replace(" ", "_").replace("-", "_")

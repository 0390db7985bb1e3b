"""What a model answers when asked for sections: a list found in whatever surrounds it, its values as they are."""

from __future__ import annotations

from typing import Any, NamedTuple

from catena.text.replies import last_value

_TITLES = ("title", "section_title", "name", "heading")
_STARTS = ("start", "start_index", "start_line", "first_line", "first")
_ENDS = ("end", "end_index", "end_line", "last_line", "last")


class RawSection(NamedTuple):
    """A section as a model gave it: any JSON values, None where there was none."""

    title: Any = None
    start: Any = None
    end: Any = None


def read_sections(reply: str) -> tuple[RawSection, ...]:
    """Return the sections in a model's reply, in its order.

    Taken is the last JSON list in it of objects with a title and `start` and `end` (or start_index, start_line,
    first_line, …; the end may be missing), or an object that holds such a list, or one such object. An entry that is
    no object counts as a section without values.

    Raises:
        ValueError: there is no such list.
    """
    found = last_value(reply, _sections)
    if found is None:
        raise ValueError("the reply holds no JSON list of sections with line numbers")
    return found


def _sections(value: Any) -> tuple[RawSection, ...] | None:
    if isinstance(value, list) and any(map(_is_section, value)):
        return tuple(_section(entry) for entry in value)
    return (_section(value),) if _is_section(value) else None


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

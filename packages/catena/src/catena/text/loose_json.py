"""Find JSON as models write it, inside any other text, in linear time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

# `++` and `*+` keep what they took (a pattern that gives back may try again for ever)
_TOKEN = re.compile(
    r"""(?P<space>(?:\s++|//[^\n]*+)++)"""
    r"""|(?P<string>"(?:[^"\\]++|\\.)*+"|“[^”“"]*+”)"""
    r"""|(?P<single>'(?:[^'\\\n]++|\\.|'(?=\w))*+')"""
    r"""|(?P<number>[-+]?\d++(?:\.\d++)?+(?:[eE][-+]?\d++)?+(?![\w.]))"""
    r"""|(?P<word>[A-Za-z_]\w*+)"""
    r"""|(?P<mark>[\[\]{},:])"""
    r"""|(?P<unended>"(?:[^"\\]++|\\.)*+\\?\Z|“[^”“"]*+\Z|'[^'\n]*+\Z)""",
    re.DOTALL,
)
_OPEN = re.compile(r"[\[{]")
_CLOSING = {"[": "]", "{": "}"}
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
# an escaped pair is taken as one, so that its second half begins no escape
_ESCAPE = re.compile(r"""(?P<known>\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\'|["\\]""")
_ESCAPED = {r"\'": "'", '"': '\\"', "\\": r"\\"}
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_DEEPEST = 100  # containers in containers; no answer has more
_LONGEST_NUMBER = 300  # digits; a longer integer counts as this power of ten
_MOST_WORK = 8  # readings of each character, on average: brackets that begin nothing are looked at again from within


class JsonValue(NamedTuple):
    """An outermost list or object of a text.

    Attributes:
        start, end: its place, 0-based code points, half-open.
        data: dicts, lists, strings, numbers, True, False and None.
        cut: whether the text ends before it does; then `data` holds what is whole: no item or member is torn.
    """

    start: int
    end: int
    data: Any
    cut: bool = False


def json_values(text: str) -> Iterator[JsonValue]:
    """Yield the outermost JSON lists and objects of a text, in order.

    Read beside strict JSON are commas too many or too few, comments, strings in single or curly quotes or with line
    breaks, keys without quotes, Python's True, False and None, wrong escapes, and a list that the text cuts. Numbers
    that are not finite are no JSON. What is deeper than 100 containers is left out.

    Cost: at most 8 looks at each character.
    """
    place = 0
    work = _MOST_WORK * (len(text) + 100)
    while work > 0 and (opening := _OPEN.search(text, place)) is not None:
        reader = _Reader(text, opening.start())
        found = reader.read()
        work -= reader.at - place
        place = reader.resume
        yield from found


def whole_number(digits: str) -> int:
    """Return the integer that decimal digits (with or without a sign) write; one of over 300 digits as 10^300.

    `int` refuses more digits than 4,300, and takes the square of their number.
    """
    if len(digits) <= _LONGEST_NUMBER:
        return int(digits)
    bare = digits.lstrip("+-0")
    size = int(bare or 0) if len(bare) <= _LONGEST_NUMBER else 10**_LONGEST_NUMBER
    return -size if digits.startswith("-") else size


@dataclass(slots=True)
class _Container:
    """A list or an object that is being read."""

    start: int
    closing: str
    data: Any  # the items or members so far
    inner: list[JsonValue] | None = None  # containers in it that are whole, should it be none itself
    key: str | None = None  # of the member whose value is due
    colon: bool = False  # whether the key's colon was read
    loose: bool = True  # whether another item may follow without a comma


class _Reader:
    """Reads what begins at one bracket.

    `resume` says where to look on: behind it, or, where it is no JSON, within its innermost part.
    """

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.at = self.resume = start
        self.stack: list[_Container] = []

    def read(self) -> list[JsonValue]:
        """Return the value; where what begins here is none, the values in it."""
        while self.at < len(self.text):
            token = _TOKEN.match(self.text, self.at)
            if token is None:
                return self._failed()
            kind = token.lastgroup
            if kind == "unended" or (token.end() == len(self.text) and kind in ("number", "word")):
                break  # the last token may be torn
            if kind != "space":
                done = self._mark(token) if kind == "mark" else self._leaf(token)
                if done is None:
                    return self._failed()
                if done:
                    return list(done)
            self.at = token.end()
        return self._cut()

    def _mark(self, token: re.Match[str]) -> tuple[JsonValue, ...] | None:
        """Take a bracket, comma or colon; return the value that it ends, () where there is none, None if wrong."""
        mark = token[0]
        if mark in _CLOSING:
            return self._opened(token.start(), _CLOSING[mark])
        top = self.stack[-1]
        if mark == ":" and top.key is not None and not top.colon:
            top.colon = True
            return ()
        if mark == ":" or top.key is not None:  # a key without its value
            return None
        if mark == ",":
            top.loose = True
            return ()
        return self._closed(top, token.end()) if mark == top.closing else None

    def _opened(self, start: int, closing: str) -> tuple[()] | None:
        if len(self.stack) == _DEEPEST or (self.stack and not self._takes_value()):
            return None
        self.stack.append(_Container(start, closing, [] if closing == "]" else {}))
        self.resume = start + 1
        return ()

    def _closed(self, top: _Container, end: int) -> tuple[JsonValue, ...]:
        self.stack.pop()
        self.resume = end
        value = JsonValue(top.start, end, top.data)
        if not self.stack:
            return (value,)
        self._add(value.data)
        outer = self.stack[-1]
        outer.inner = outer.inner or []
        outer.inner.append(value)
        return ()

    def _leaf(self, token: re.Match[str]) -> tuple[JsonValue, ...] | None:
        """Take a string, number or word, as a key or as a value."""
        top = self.stack[-1]
        kind, raw = token.lastgroup, token[0]
        if top.closing == "}" and top.key is None:
            if kind == "number" or not top.loose:
                return None
            top.key = json_string(raw[1:-1]) if kind != "word" else raw
            top.colon = False
            return ()
        if not self._takes_value():
            return None
        if kind == "word":
            if raw not in _WORDS:
                return None
            value: Any = _WORDS[raw]
        elif kind == "number":
            value = whole_number(raw) if raw.lstrip("+-").isdigit() else float(raw)
            if isinstance(value, float) and not isfinite(value):
                return None
        else:
            value = json_string(raw[1:-1])
        self._add(value)
        top.loose = kind in ("string", "single")
        return ()

    def _takes_value(self) -> bool:
        top = self.stack[-1]
        return top.colon if top.closing == "}" else top.loose

    def _add(self, value: Any) -> None:
        top = self.stack[-1]
        if top.closing == "]":
            top.data.append(value)
        else:
            top.data[top.key] = value
            top.key, top.colon = None, False
        top.loose = True

    def _failed(self) -> list[JsonValue]:
        """Return the whole values inside containers that are no JSON themselves."""
        return [value for container in self.stack for value in container.inner or ()]

    def _cut(self) -> list[JsonValue]:
        """Return the outermost container with what is whole in it: the text ended first."""
        self.at = len(self.text)
        while len(self.stack) > 1:
            inner = self.stack.pop()
            # an item of a list would be torn, a member's list is cut
            if self.stack[-1].closing == "}" and inner.data:
                self._add(inner.data)
        (outermost,) = self.stack
        if not outermost.data:
            return []
        self.resume = self.at
        return [JsonValue(outermost.start, self.at, outermost.data, cut=True)]


def json_string(raw: str) -> str:
    """Return the text of a JSON string given without its quotes; an escape that JSON does not know is kept."""
    if "\\" not in raw and '"' not in raw:
        return raw
    return _SURROGATE.sub("\ufffd", json.loads(f'"{_ESCAPE.sub(_escaped, raw)}"', strict=False))


def _escaped(found: re.Match[str]) -> str:
    return found["known"] or _ESCAPED[found[0]]

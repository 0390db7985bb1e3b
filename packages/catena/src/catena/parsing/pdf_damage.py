"""Damage to the streams that a PDF page is drawn with, told whichever engine reads the page.

Engines show what a broken stream still gives, and say nothing. A stream of Flate data carries a checksum (RFC 1950),
so that damage to it can be known; the streams of a page are inflated here once more for that alone.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Any

from pypdf.constants import FilterTypeAbbreviations, FilterTypes
from pypdf.filters import ASCII85Decode, ASCIIHexDecode, LZWDecode, RunLengthDecode
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject, NullObject, StreamObject

from catena.parsing.failures import Unreadable, failure_of, reason

MAX_BYTES = 75_000_000  # that a stream may unpack to, as pypdf has it
MAX_FORMS = 5_000  # of a page

_DRAWN = re.compile(rb"/([^\s/<>\[\](){}%]+)\s+Do\b")
_SET_IN = re.compile(rb"/([^\s/<>\[\](){}%]+)\s+[-+.0-9]+\s+Tf\b")
_FLATE = {FilterTypes.FLATE_DECODE, FilterTypeAbbreviations.FL}
_UNPACKED_BEFORE: dict[str, Any] = {
    FilterTypes.ASCII_85_DECODE: ASCII85Decode,
    FilterTypeAbbreviations.A85: ASCII85Decode,
    FilterTypes.ASCII_HEX_DECODE: ASCIIHexDecode,
    FilterTypeAbbreviations.AHx: ASCIIHexDecode,
    FilterTypes.LZW_DECODE: LZWDecode,
    FilterTypeAbbreviations.LZW: LZWDecode,
    FilterTypes.RUN_LENGTH_DECODE: RunLengthDecode,
    FilterTypeAbbreviations.RL: RunLengthDecode,
}


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with the streams of one page.

    Attributes:
        streams: a content stream is missing or broken, so that nothing on the page can be trusted.
        parts: something that it uses is, such as a font, so that some of its text may be wrong or missing.
    """

    streams: str = ""
    parts: str = ""


def inflated(data: bytes) -> bytes:
    """Return what Flate data stands for; a checksum that is not there is not asked for.

    Raises:
        ValueError: the data is broken, ends too early, or unpacks to something with another checksum.
        Unreadable: it unpacks to more than `MAX_BYTES` ("bomb").
    """
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(data, MAX_BYTES)
        if unpacker.unconsumed_tail:
            raise Unreadable("bomb", f"a stream unpacks to more than {MAX_BYTES} bytes")
    except zlib.error as error:
        raise ValueError(str(error).rpartition(": ")[2]) from None
    if not unpacker.eof and not _ended(data):
        raise ValueError("it ends too early")
    return found


def _ended(data: bytes) -> bool:
    """Return whether Flate data has its last block, and lacks nothing but the checksum behind it."""
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    unpacker.decompress(data[2:], MAX_BYTES)
    return unpacker.eof


def unpacked(stream: StreamObject) -> bytes:
    """Return what a stream holds, up to a filter for pictures.

    Raises:
        ValueError: it is broken.
        Unreadable: it unpacks to more than `MAX_BYTES` ("bomb").
    """
    data: bytes = stream._data
    filters = stream["/Filter"] if "/Filter" in stream else ArrayObject()
    for name in filters if isinstance(filters, ArrayObject) else [filters]:
        if name in _FLATE:
            data = inflated(data)
        elif name in _UNPACKED_BEFORE:
            data = _UNPACKED_BEFORE[name].decode(data)
        else:
            return data if name == "/Crypt" else b""
    return data


@dataclass(frozen=True, slots=True)
class _Stream:
    """What a content stream or form uses, and what is wrong with it."""

    problem: str = ""
    fonts: frozenset[str] = frozenset()
    drawn: frozenset[str] = frozenset()


class StreamCheck:
    """Checks the pages of one file; a stream or font that pages share is checked once."""

    def __init__(self) -> None:
        self._streams: dict[Any, _Stream] = {}
        self._fonts: dict[Any, str] = {}

    def page(self, page: DictionaryObject) -> Damage:
        """Return what is wrong with the streams that a page of pypdf is drawn with, and with their fonts.

        Raises:
            Unreadable: a stream unpacks to more than `MAX_BYTES`, or the page draws too many forms ("bomb").
        """
        contents = page.raw_get("/Contents") if "/Contents" in page else NullObject()
        held = contents.get_object()
        streams: dict[str, None] = {}  # for their order
        parts: dict[str, None] = {}
        seen: set[Any] = set()
        waiting = [([*held] if isinstance(held, ArrayObject) else [contents], _entry(page, "/Resources"))]
        while waiting:
            pieces, resources = waiting.pop()
            checked = [self._stream(piece) for piece in pieces if not isinstance(piece, NullObject)]
            streams |= {stream.problem: None for stream in checked if stream.problem}
            fonts, objects = _entry(resources, "/Font"), _entry(resources, "/XObject")
            for name in sorted(name for stream in checked for name in stream.fonts):
                problem = self._font(name, fonts)
                parts |= {problem: None} if problem else {}
            for name in sorted(name for stream in checked for name in stream.drawn if name in objects):
                reference = objects.raw_get(name)
                drawn, key = reference.get_object(), _key(reference)
                if not isinstance(drawn, StreamObject):
                    parts[f"what it draws as {name[1:]} is not there"] = None
                elif key not in seen and drawn.get("/Subtype") == "/Form":
                    seen.add(key)
                    waiting.append(([reference], _entry(drawn, "/Resources") or resources))
            if len(seen) > MAX_FORMS:
                raise Unreadable("bomb", f"more than {MAX_FORMS} forms on one page")
        return Damage("; ".join([*streams][:3]), "; ".join([*parts][:3]))

    def _stream(self, reference: Any) -> _Stream:
        key = _key(reference)
        if key not in self._streams:
            self._streams[key] = _checked(reference)
        return self._streams[key]

    def _font(self, name: str, fonts: DictionaryObject) -> str:
        reference = fonts.raw_get(name) if name in fonts else NullObject()
        key = _key(reference)
        if isinstance(reference, NullObject):
            return f"its font {name[1:]} is not there"
        if key not in self._fonts:
            font = reference.get_object()
            usable = isinstance(font, DictionaryObject) and "/Subtype" in font
            self._fonts[key] = _of_font(font) if usable else "is not there"
        return f"its font {name[1:]} {self._fonts[key]}" if self._fonts[key] else ""


def _checked(reference: Any) -> _Stream:
    named = f"content stream {reference.idnum}" if isinstance(reference, IndirectObject) else "a content stream"
    try:
        stream = reference.get_object()
        if not isinstance(stream, StreamObject):
            return _Stream(f"{named} is not there")
        data = unpacked(stream)
    except Exception as error:  # pypdf and its filters raise what they like
        if failure_of(error)[0] != "malformed":
            raise
        return _Stream(f"{named} is damaged ({_why(error)})")
    fonts, drawn = (
        frozenset(f"/{name.decode('latin-1')}" for name in each.findall(data)) for each in (_SET_IN, _DRAWN)
    )
    return _Stream("", fonts, drawn)


def _of_font(font: DictionaryObject) -> str:
    """Return what is damaged or not there of what says what a font's codes stand for: its map, or its program."""
    descendants = font["/DescendantFonts"] if "/DescendantFonts" in font else None  # noqa: SIM401  get keeps references
    first = descendants[0].get_object() if isinstance(descendants, ArrayObject) and descendants else font
    if _is_nothing(first):
        return "is damaged (DescendantFonts is not there)"
    inner = first if isinstance(first, DictionaryObject) else DictionaryObject()
    program = _entry(inner, "/FontDescriptor")
    parts = [(font, "/DescendantFonts"), (font, "/ToUnicode"), (font, "/Encoding"), (inner, "/FontDescriptor")]
    for node, key in [*parts, (program, "/FontFile"), (program, "/FontFile2"), (program, "/FontFile3")]:
        written = node.raw_get(key) if key in node else None
        held = written.get_object() if isinstance(written, IndirectObject) else written
        if held is not written and _is_nothing(held):
            return f"is damaged ({key[1:]} is not there)"
        if not isinstance(held, StreamObject):
            continue
        try:
            unpacked(held)
        except MemoryError:
            raise
        except Exception as error:  # as above; a bomb is for the engine to refuse
            return f"is damaged ({key[1:]}: {_why(error)})"
    return ""


def _is_nothing(value: Any) -> bool:
    return value is None or isinstance(value, NullObject)


def _why(error: Exception) -> str:
    return reason(error).removeprefix("ValueError: ")


def _key(reference: Any) -> Any:
    return (reference.idnum, reference.generation) if isinstance(reference, IndirectObject) else id(reference)


def _entry(node: DictionaryObject, key: str) -> DictionaryObject:
    """Return a dictionary's entry with its reference followed (`get` does not), or an empty one."""
    value = node[key] if key in node else None  # noqa: SIM401
    return value if isinstance(value, DictionaryObject) else DictionaryObject()

"""Detect damage to the streams of a PDF page, and list the objects of a file anew whose table does not hold.

Engines show what a broken stream still gives, and say nothing. A stream of Flate data carries a checksum (RFC 1950),
so that damage to it can be known; the streams of a page are inflated here once more for that alone.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pypdf.constants import FilterTypeAbbreviations, FilterTypes
from pypdf.filters import ASCII85Decode, ASCIIHexDecode, LZWDecode, RunLengthDecode
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject, NullObject, StreamObject

from catena.parsing.pdf_content import dictionary, entry, raw_entry
from catena.parsing.protocol import Unreadable, failure_of, reason
from catena.text.words import runs_of

MAX_BYTES = 75_000_000  # that a stream may unpack to, as pypdf has it
MAX_FORMS = 5_000  # of a page

_DRAWN = re.compile(rb"/([^\s/<>\[\](){}%]+)\s+Do\b")
_SET_IN = re.compile(rb"/([^\s/<>\[\](){}%]+)\s+[-+.0-9]+\s+Tf\b")
_FLATE = {FilterTypes.FLATE_DECODE, FilterTypeAbbreviations.FL}
_UNPACKED_BEFORE: dict[str, Any] = {
    FilterTypes.ASCII_85_DECODE: ASCII85Decode, FilterTypeAbbreviations.A85: ASCII85Decode,
    FilterTypes.ASCII_HEX_DECODE: ASCIIHexDecode, FilterTypeAbbreviations.AHx: ASCIIHexDecode,
    FilterTypes.LZW_DECODE: LZWDecode, FilterTypeAbbreviations.LZW: LZWDecode,
    FilterTypes.RUN_LENGTH_DECODE: RunLengthDecode, FilterTypeAbbreviations.RL: RunLengthDecode,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Damage:
    """The damage to the streams of one page.

    Attributes:
        streams: a content stream is missing or broken, so that nothing on the page can be trusted.
        parts: something that it uses is, such as a font, so that some of its text may be wrong or missing.
    """

    streams: str = ""
    parts: str = ""


def inflated(data: bytes) -> bytes:
    """Inflate Flate data; a checksum that is missing is not asked for.

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
    """Decode a stream, up to a filter for pictures.

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
    """The fonts and forms that a content stream uses, and its damage."""

    problem: str = ""
    fonts: frozenset[str] = frozenset()
    drawn: frozenset[str] = frozenset()


class StreamCheck:
    """Checks the pages of one file; a stream or font that pages share is checked once."""

    def __init__(self) -> None:
        self._streams: dict[Any, _Stream] = {}
        self._fonts: dict[Any, str] = {}

    def page(self, page: DictionaryObject) -> Damage:
        """Return the damage to the streams that a page of pypdf is drawn with, and to their fonts.

        Raises:
            Unreadable: a stream unpacks to more than `MAX_BYTES`, or the page draws too many forms ("bomb").
        """
        contents = page.raw_get("/Contents") if "/Contents" in page else NullObject()
        held = contents.get_object()
        streams: dict[str, None] = {}  # for their order
        parts: dict[str, None] = {}
        seen: set[Any] = set()
        waiting = [([*held] if isinstance(held, ArrayObject) else [contents], dictionary(entry(page, "/Resources")))]
        while waiting:
            pieces, resources = waiting.pop()
            checked = [self._stream(piece) for piece in pieces if not isinstance(piece, NullObject)]
            streams |= {stream.problem: None for stream in checked if stream.problem}
            fonts, objects = dictionary(entry(resources, "/Font")), dictionary(entry(resources, "/XObject"))
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
                    waiting.append(([reference], dictionary(entry(drawn, "/Resources")) or resources))
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
    fonts, drawn = (frozenset(f"/{name.decode('latin-1')}" for name in by.findall(data)) for by in (_SET_IN, _DRAWN))
    return _Stream("", fonts, drawn)


def _of_font(font: DictionaryObject) -> str:
    """Name the part of a font that is damaged or missing: its character map, or its program."""
    descendants = entry(font, "/DescendantFonts")
    first = descendants[0].get_object() if isinstance(descendants, ArrayObject) and descendants else font
    if _is_nothing(first):
        return "is damaged (DescendantFonts is not there)"
    inner = first if isinstance(first, DictionaryObject) else DictionaryObject()
    program = dictionary(entry(inner, "/FontDescriptor"))
    parts = [(font, "/DescendantFonts"), (font, "/ToUnicode"), (font, "/Encoding"), (inner, "/FontDescriptor")]
    for node, key in [*parts, (program, "/FontFile"), (program, "/FontFile2"), (program, "/FontFile3")]:
        written = raw_entry(node, key)
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


MAX_NUMBER = 4_000_000  # of an object, as PDFium has it
MAX_PLACE = 65_535  # generation of an object, or its index in a stream of objects: the table has two bytes for it
_PIECE = 64  # bytes that are unpacked at once

_HEADER = re.compile(rb"(?<!\d)(\d{1,7})[\0\t\n\f\r ]{1,9}(\d{1,5})[\0\t\n\f\r ]{1,9}\Z")
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_CATALOG = re.compile(rb"/Type\s*/Catalog(?![A-Za-z])")
_PACKED = re.compile(rb"/Type\s*/ObjStm(?![A-Za-z])")
_TRAILER = re.compile(rb"/Type\s*/XRef(?![A-Za-z])")
_FIRST = re.compile(rb"/First\s+(\d{1,9})(?!\s+\d+\s+R)")
_ROOT = re.compile(rb"/Root\s+(\d{1,7})\s+\d{1,5}\s+R")
_LOCKED = re.compile(rb"/Encrypt(?![A-Za-z])|/Filter\s*/Standard(?![A-Za-z])")


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects that are found in a damaged file, each in its last version.

    Attributes:
        data: the file from its header on.
        entries: of the cross-reference table, by number: type, place and generation or index (7.5.8.3).
        pages: the numbers of the page objects, in the order of the file.
        catalog: the number of the catalog; 0 where none is left.
        encrypted: whether the file is; its object streams cannot be looked into then.
    """

    data: bytes
    entries: Mapping[int, tuple[int, int, int]]
    pages: tuple[int, ...]
    catalog: int
    encrypted: bool


def found_objects(data: bytes) -> Objects:
    """Return the objects of a file, found by their headers, in time linear in its length.

    Raises:
        Unreadable: an object stream unpacks to more than `MAX_BYTES` ("bomb").
    """
    data = data[max(data.find(b"%PDF-"), 0) :]  # places count from there (PDFium)
    entries: dict[int, tuple[int, int, int]] = {}
    bodies: dict[int, bytes] = {}  # without their streams, of what may be a page or a catalog
    roots: list[int] = []
    encrypted = False
    for number, generation, start, body, stream in _plain(data):
        entries[number] = (1, start, generation)
        bodies.pop(number, None)
        if _PACKED.search(body):
            for index, inner, content in _packed(body, stream):
                entries[inner] = (2, number, index)
                bodies.pop(inner, None)
                bodies |= {inner: content} if _PAGE.search(content) or _CATALOG.search(content) else {}
        elif _PAGE.search(body) or _CATALOG.search(body):
            bodies[number] = body
        if b"trailer" in body or _TRAILER.search(body):
            roots += map(int, _ROOT.findall(body))
        encrypted = encrypted or bool(_LOCKED.search(body))
    catalogs = [number for number, body in bodies.items() if _CATALOG.search(body)]
    named = [root for root in roots if root in catalogs]
    pages = tuple(number for number, body in bodies.items() if _PAGE.search(body))
    return Objects(data, entries, pages, (named or catalogs or [0])[-1], encrypted)


def _plain(data: bytes) -> Iterator[tuple[int, int, int, bytes, bytes]]:
    """Yield number, generation, start, the part before a stream, and the rest from its start."""
    starts = []
    at = data.find(b"obj")
    while at >= 0:
        if header := _HEADER.search(data, max(at - 32, 0), at):
            starts.append((header.start(), int(header[1]), int(header[2]), at + 3))
        at = data.find(b"obj", at + 3)
    for (start, number, generation, end), (following, *_) in pairwise([*starts, (len(data), 0, 0, 0)]):
        if 0 < number <= MAX_NUMBER and generation <= MAX_PLACE:
            body, _, rest = data[end:following].partition(b"stream")
            trailer = rest[rest.rfind(b"trailer") :] if b"trailer" in rest else b""
            yield number, generation, start, body + trailer, rest.removeprefix(b"\r").removeprefix(b"\n")


def _packed(body: bytes, stream: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield index, number and content of each object in an object stream, as far as it can be unpacked."""
    first = _FIRST.search(body)
    if first is None:
        return
    data = _inflated(stream) if b"/FlateDecode" in body else stream
    places = [int(word) for word in data[: int(first[1])].split() if word.isdigit() and len(word) < 10]
    starts = [int(first[1]) + place for place in places[1::2]]
    reached = 0  # places rise (7.5.7): what goes back would be read again and again
    for index, (number, start) in enumerate(zip(places[::2], starts, strict=False)):
        end = starts[index + 1] if index + 1 < len(starts) else len(data)
        content = data[start:end] if start >= reached else b""
        if content and 0 < number <= MAX_NUMBER and index <= MAX_PLACE:
            reached = start + len(content)
            yield index, number, content


def _inflated(stream: bytes) -> bytes:
    """Inflate Flate data as far as it can be unpacked."""
    unpacker, parts, room = zlib.decompressobj(), [], MAX_BYTES
    with suppress(zlib.error):
        for at in range(0, len(stream), _PIECE):  # what a piece with an error in it gives is lost
            parts.append(unpacker.decompress(stream[at : at + _PIECE], room))
            room -= len(parts[-1])
            if unpacker.unconsumed_tail or not room:
                raise Unreadable("bomb", f"an object stream unpacks to more than {MAX_BYTES} bytes")
            if unpacker.eof:
                break
    return b"".join(parts)


def rebuilt(objects: Objects, *, own_pages: bool) -> bytes | None:
    """Return the file with a new cross-reference table, or None where it would have no catalog or no page.

    Args:
        objects: of the file.
        own_pages: list the pages that were found, in the order of the file, instead of those that its catalog names.
    """
    if objects.encrypted or not (objects.pages if own_pages else objects.catalog):
        return None  # the key of an encrypted file follows from the trailer that is lost
    entries, root = dict(objects.entries), objects.catalog
    parts = [objects.data, _ending(objects)]
    at, number = sum(map(len, parts)), max(entries) + 1
    if own_pages:
        kids = b" ".join(b"%d 0 R" % page for page in objects.pages)
        root = number + 1
        for body in (
            b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(objects.pages), kids),
            b"<< /Type /Catalog /Pages %d 0 R >>" % number,
        ):
            part = b"%d 0 obj\n%s\nendobj\n" % (number, body)
            parts.append(part)
            entries[number] = (1, at, 0)
            at, number = at + len(part), number + 1
    entries[number] = (1, at, 0)
    rows = b"".join(struct.pack(">BIH", *entries[each]) for each in sorted(entries))
    runs = runs_of(sorted(entries), lambda one, other: other == one + 1)
    index = b" ".join(b"%d %d" % (run[0], len(run)) for run in runs)
    head = b"/Type /XRef /Size %d /W [1 4 2] /Index [%s] /Root %d 0 R" % (number + 1, index, root)
    parts.append(
        b"%d 0 obj\n<< %s /Length %d >>\nstream\n%s\nendstream\nendobj\n" % (number, head, len(rows), rows)
        + b"startxref\n%d\n%%%%EOF\n" % at
    )
    return b"".join(parts)


def _ending(objects: Objects) -> bytes:
    """Return the end of the last object: where the file breaks off in it, a reader refuses what follows."""
    last = max((place for kind, place, _ in objects.entries.values() if kind == 1), default=0)
    rest = objects.data[last:]
    if b"endobj" in rest:
        return b"\n"
    return b"\nendstream\nendobj\n" if b"stream" in rest else b"\nendobj\n"

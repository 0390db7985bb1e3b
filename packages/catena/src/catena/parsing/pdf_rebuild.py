"""Find the objects of a PDF whose end, cross-reference table or list of pages is lost, and list them anew.

Nothing is written over: a new table, and a new list of pages where one is asked for, are put behind the bytes that
are there, as an incremental update does (ISO 32000-1, 7.5.6), so that any engine reads the file as usual.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from catena.parsing.failures import Unreadable

MAX_NUMBER = 4_000_000  # of an object, as PDFium has it
MAX_PLACE = 65_535  # generation of an object, or its index in a stream of objects: the table has two bytes for it
MAX_BYTES = 75_000_000  # that an object stream may unpack to
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
    """Yield number, generation, start, what stands before a stream, and what is behind the start of it."""
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
    head = data[: int(first[1])].split()
    places = [int(word) for word in head if word.isdigit() and len(word) < 10]
    starts = [int(first[1]) + place for place in places[1::2]]
    reached = 0  # places rise (7.5.7): what goes back would be read again and again
    for index, (number, start) in enumerate(zip(places[::2], starts, strict=False)):
        content = (
            data[start : starts[index + 1] if index + 1 < len(starts) else len(data)] if start >= reached else b""
        )
        if content and 0 < number <= MAX_NUMBER and index <= MAX_PLACE:
            reached = start + len(content)
            yield index, number, content


def _inflated(stream: bytes) -> bytes:
    """Return what Flate data stands for, as far as it can be unpacked."""
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
    index = b" ".join(b"%d %d" % run for run in _runs(sorted(entries)))
    head = b"/Type /XRef /Size %d /W [1 4 2] /Index [%s] /Root %d 0 R" % (number + 1, index, root)
    parts.append(
        b"%d 0 obj\n<< %s /Length %d >>\nstream\n%s\nendstream\nendobj\n" % (number, head, len(rows), rows)
        + b"startxref\n%d\n%%%%EOF\n" % at
    )
    return b"".join(parts)


def _ending(objects: Objects) -> bytes:
    """Return what ends the last object: where the file breaks off in it, a reader refuses what follows."""
    last = max((place for kind, place, _ in objects.entries.values() if kind == 1), default=0)
    rest = objects.data[last:]
    if b"endobj" in rest:
        return b"\n"
    return b"\nendstream\nendobj\n" if b"stream" in rest else b"\nendobj\n"


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield first number and length of each run of numbers that follow each other."""
    first = 0
    for place in range(1, len(numbers) + 1):
        if place == len(numbers) or numbers[place] != numbers[place - 1] + 1:
            yield numbers[first], place - first
            first = place

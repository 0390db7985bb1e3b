"""Files meant to break a parser, made by code: damaged, lying, endless, too deep, exploding, locked or misnamed.

`HOSTILE` names each file, how to build it, and the states in which reading it may end. Where a damaged file
can be rescued in part, several ends are right; what is never right is a hang, a raw exception, or an empty
success. Nothing is built before it is asked for, and no file takes more than about two seconds to build.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from pypdf import PdfReader, PdfWriter

MB = 1_000_000  # bytes
DEEP = 100_000  # levels
BOMB = 200 * MB  # bytes that a bomb unfolds to

RESCUED = frozenset({"parsed", "partial"})
DAMAGED = RESCUED | {"malformed", "empty", "no-text"}
EXPLODES = frozenset({"bomb", "limit", "memory", "timeout"})
DEEP_ENDS = RESCUED | {"too-deep", "limit", "malformed", "bomb", "timeout", "memory"}
LARGE = RESCUED | {"limit", "timeout", "memory"}
NOTHING = frozenset({"empty", "no-text"})
READ = frozenset({"parsed"})
READ_OR_REFUSED = READ | {"malformed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileFile:
    """One file of the corpus.

    Attributes:
        name: unique, fit for a test id.
        build: makes the bytes; what is random in it has a fixed seed, except for the keys of encrypted files.
        suffix: of the file name, with its dot; it may lie.
        expected: the states in which reading may end.
    """

    name: str
    build: Callable[[], bytes]
    suffix: str
    expected: frozenset[str]


# PDF from raw parts -------------------------------------------------------------------------------------------------

FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
CATALOG = b"<< /Type /Catalog /Pages 2 0 R >>"
RESOURCES = b"/Resources << /Font << /F1 4 0 R >> >>"


def stream(data: bytes, entries: bytes = b"", *, length: int | None = None) -> bytes:
    """Return a stream object; `length` may lie."""
    size = len(data) if length is None else length
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (size, entries, data)


def assemble(objects: Mapping[int, bytes], *, trailer: bytes = b"/Root 1 0 R", size: int | None = None) -> bytes:
    """Return a PDF with a correct cross-reference table for objects numbered from 1 without gaps."""
    parts, offsets, position = [b"%PDF-1.7\n"], [], 9
    for number in sorted(objects):
        part = b"%d 0 obj\n%s\nendobj\n" % (number, objects[number])
        offsets.append(position)
        parts.append(part)
        position += len(part)
    parts.append(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    parts.extend(b"%010d 00000 n \n" % offset for offset in offsets)
    count = len(objects) + 1 if size is None else size
    parts.append(b"trailer\n<< /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n" % (count, trailer, position))
    return b"".join(parts)


def show(text: str) -> bytes:
    """Return the operators that print one line of text."""
    return b"BT /F1 12 Tf 72 700 Td (%s) Tj ET" % text.encode("ascii")


def with_pages(
    contents: Sequence[bytes], *, page: bytes = b"", more: Mapping[int, bytes] | None = None
) -> dict[int, bytes]:
    """Return the objects of a plain PDF: catalog 1, pages 2, font 4; page and content take 5 and 6, 7 and 8, ...

    Object 3 is free for the case at hand; `contents` are whole stream objects.
    """
    numbers = range(5, 5 + 2 * len(contents), 2)
    kids = b" ".join(b"%d 0 R" % number for number in numbers)
    objects = {1: CATALOG, 2: b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(contents)), 3: b"null", 4: FONT}
    for number, content in zip(numbers, contents, strict=True):
        objects[number] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] %s /Contents %d 0 R %s >>"
            % (b"" if b"/Resources" in page else RESOURCES, number + 1, page)
        )  # fmt: skip
        objects[number + 1] = content
    return objects | dict(more or {})


def one_page(
    content: bytes, entries: bytes = b"", *, page: bytes = b"", more: Mapping[int, bytes] | None = None
) -> bytes:
    """Return a PDF of one page with this content stream."""
    return assemble(with_pages([stream(content, entries)], page=page, more=more))


def changed(number: int, replacement: bytes, *, pages: int = 1) -> bytes:
    """Return a plain PDF in which one object is replaced."""
    contents = [stream(show(f"Page {page} of a sound text")) for page in range(1, pages + 1)]
    return assemble(with_pages(contents) | {number: replacement})


@cache
def sound(pages: int = 5) -> bytes:
    """Return a plain PDF without fault, to be damaged."""
    lines = [
        stream(zlib.compress(show(f"Page {page} of a sound text")), b"/Filter /FlateDecode")
        for page in range(1, pages + 1)
    ]
    return assemble(with_pages(lines))


# Damage -------------------------------------------------------------------------------------------------------------


def truncated(share: float) -> bytes:
    """Return the first part of a sound PDF."""
    return sound()[: int(len(sound()) * share)]


def replaced(old: bytes, new: bytes) -> bytes:
    """Return a sound PDF with one spelling exchanged everywhere."""
    return sound().replace(old, new)


# Cycles, lies and depth ---------------------------------------------------------------------------------------------


def outline(items: Mapping[int, bytes]) -> bytes:
    """Return a plain PDF with an outline at object 3 and its items at the numbers given."""
    objects = with_pages([stream(show("A page below an odd outline"))], more=items)
    root = {
        1: b"<< /Type /Catalog /Pages 2 0 R /Outlines 3 0 R >>",
        3: b"<< /Type /Outlines /First 7 0 R /Last 7 0 R >>",
    }
    return assemble(objects | root)


def deep_pages() -> bytes:
    """Return a page tree in which each node has the next as its only kid."""
    objects = with_pages([stream(show("At the bottom"))])
    first = 7
    last = first + DEEP - 1
    chain = {
        number: b"<< /Type /Pages /Count 1 /Parent %d 0 R /Kids [%d 0 R] >>"
        % (2 if number == first else number - 1, 5 if number == last else number + 1)
        for number in range(first, last + 1)
    }
    return assemble(objects | {2: b"<< /Type /Pages /Count 1 /Kids [7 0 R] >>"} | chain)


def forms(count: int, calls: int, *, cyclic: bool = False) -> bytes:
    """Return a page that draws form 7, which draws form 8 `calls` times, and so on to one that prints."""
    last = 7 + count - 1
    objects = {}
    for number in range(7, last + 1):
        following = 7 if number == last else number + 1
        entries = (
            b"/Type /XObject /Subtype /Form /BBox [0 0 595 842]"
            b" /Resources << /Font << /F1 4 0 R >> /XObject << /N %d 0 R >> >>"
        )
        data = show("innermost") if number == last and not cyclic else b"/N Do " * calls
        objects[number] = stream(data, entries % following)
    page = b"/Resources << /Font << /F1 4 0 R >> /XObject << /N 7 0 R >> >>"
    return one_page(show("outermost") + b" /N Do", page=page, more=objects)


def nested_object(opening: bytes, closing: bytes) -> bytes:
    """Return a plain PDF whose page refers to an object nested `DEEP` times."""
    return one_page(show("Beside a deep object"), page=b"/Annots 3 0 R", more={3: opening * DEEP + closing * DEEP})


def many_objects(count: int) -> bytes:
    """Return a plain PDF followed by many objects of one byte each."""
    return assemble(with_pages([stream(show("Among a million"))]) | dict.fromkeys(range(7, 7 + count), b"0"))


# Bombs --------------------------------------------------------------------------------------------------------------


@cache
def deflated(unit: bytes, size: int) -> bytes:
    """Return `unit` repeated to `size` bytes, compressed, without ever holding all of it."""
    block = unit * (MB // len(unit))
    packer = zlib.compressobj(1 if len(unit) > 1 else 6)
    packed = [packer.compress(block) for _ in range(size // len(block))]
    return b"".join([*packed, packer.flush()])


# Locked -------------------------------------------------------------------------------------------------------------


def encrypted(algorithm: str, user: str, owner: str = "owner") -> bytes:
    """Return the sound PDF, encrypted."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(sound())))
    writer.encrypt(user, owner, algorithm=algorithm)
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


# Fonts, content and attachments -------------------------------------------------------------------------------------


def with_font(font: bytes, more: Mapping[int, bytes] | None = None) -> bytes:
    """Return one page of text set in an odd font."""
    return one_page(show("Set in an odd font"), more={4: font, **(more or {})})


def with_catalog(entries: bytes, more: Mapping[int, bytes]) -> bytes:
    """Return one page of text under a catalog with more entries."""
    catalog = b"<< /Type /Catalog /Pages 2 0 R %s >>" % entries
    return one_page(show("Below an odd catalog"), more={1: catalog, **more})


def entity_bomb() -> bytes:
    """Return XML in which ten entities, each naming the one before ten times, stand for 10^10 letters."""
    lines = [b'<!ENTITY e0 "aaaaaaaaaa">']
    lines += [b'<!ENTITY e%d "%s">' % (level, b"&e%d;" % (level - 1) * 10) for level in range(1, 10)]
    return b'<?xml version="1.0"?><!DOCTYPE x [%s]><x>&e9;</x>' % b"".join(lines)


# Other types --------------------------------------------------------------------------------------------------------


def html(body: bytes) -> bytes:
    """Return a page of HTML with this body."""
    return b"<!DOCTYPE html><html><head><title>T</title></head><body>%s</body></html>" % body


def _bad(name: str, build: Callable[[], bytes], expected: frozenset[str], suffix: str = ".pdf") -> HostileFile:
    return HostileFile(name=name, build=build, suffix=suffix, expected=expected)


def _unicode_map(data: bytes, entries: bytes = b"") -> bytes:
    return with_font(FONT[:-2] + b"/ToUnicode 3 0 R >>", {3: stream(data, entries)})


_CYCLE = {7: b"<< /Title (again) /Next 7 0 R /First 7 0 R /Dest [5 0 R /Fit] >>"}
_CLIMBING = b"/Names << /EmbeddedFiles << /Names [(../../x) << /F (../../x) /EF << /F 3 0 R >> >>] >> >>"
_SCRIPT = b"/OpenAction << /S /JavaScript /JS (while\\(1\\);) >>"
_COLSPANS = b"<table><tr><td colspan=999999999 rowspan=999999999>x</td></tr></table>"
_XMP = b"/Type /Metadata /Subtype /XML"
_PARTIAL = frozenset({"partial"})

_DAMAGE = (
    *(_bad(f"truncated-{share:.0%}", partial(truncated, share), DAMAGED)
      for share in (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)),
    _bad("xref-offsets-wrong", lambda: replaced(b"00000 n ", b"00001 n "), DAMAGED),
    _bad("xref-missing", lambda: replaced(b"xref\n", b"xxxx\n"), DAMAGED),
    _bad("xref-size-lies", lambda: assemble(with_pages([stream(show("Sized"))]), size=999_999_999),
         DAMAGED | {"limit"}),
    _bad("root-missing", lambda: replaced(b"/Root 1 0 R", b""), DAMAGED),
    _bad("garbage-before-header", lambda: b"\x00\xff" * 300 + sound(), DAMAGED),
)  # fmt: skip

_LIES = (
    _bad("page-tree-cycle", lambda: changed(2, b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>"), DAMAGED | {"too-deep"}),
    _bad("reference-to-itself", lambda: changed(5, b"5 0 R"), DAMAGED),
    _bad("outline-cycle", lambda: outline(_CYCLE), RESCUED),
    _bad("count-lies", lambda: changed(2, b"<< /Type /Pages /Kids [5 0 R] /Count 999999999 >>"),
         RESCUED | {"malformed", "limit"}),
    _bad("length-too-short", lambda: changed(6, stream(show("Shorter"), length=3)), DAMAGED),
    _bad("media-box-huge", lambda: one_page(show("Far and wide"), page=b"/MediaBox [0 0 1e12 1e12]"),
         RESCUED | {"malformed", "limit"}),
    _bad("zero-pages", lambda: changed(2, b"<< /Type /Pages /Kids [] /Count 0 >>"), NOTHING | {"malformed"}),
    _bad("kids-missing", lambda: changed(2, b"<< /Type /Pages /Count 1 >>"), _PARTIAL),
)  # fmt: skip

_DEPTH = (
    _bad("arrays-deep", lambda: nested_object(b"[", b"]"), DEEP_ENDS),
    _bad("arrays-deep-in-content", lambda: one_page(b"[" * DEEP + b"]" * DEEP + b" TJ " + show("After")),
         DEEP_ENDS | {"no-text"}),
    _bad("graphics-states-deep", lambda: one_page(b"q " * DEEP + show("Below")), DEEP_ENDS),
    _bad("forms-deep", lambda: forms(5_000, 1), DEEP_ENDS),
    _bad("forms-cycle", lambda: forms(2, 1, cyclic=True), DEEP_ENDS),
    _bad("forms-multiply", lambda: forms(12, 10), DEEP_ENDS),
    _bad("page-tree-deep", deep_pages, DEEP_ENDS | {"empty"}),
    _bad("objects-million", lambda: many_objects(1_000_000), LARGE | {"malformed"}),
)  # fmt: skip

_BOMBS = (
    _bad("flate-bomb", lambda: one_page(deflated(b" ", BOMB), b"/Filter [/FlateDecode ]"), EXPLODES),
    _bad("run-length-bomb", lambda: one_page(b"\x81 " * (BOMB // 128) + b"\x80", b"/Filter /RunLengthDecode"),
         EXPLODES),
    _bad("cmap-bomb", lambda: _unicode_map(deflated(b" ", BOMB), b"/Filter /FlateDecode"), EXPLODES | RESCUED),
)  # fmt: skip

_LOCKS = (
    *(_bad(f"locked-{algorithm.lower()}", partial(encrypted, algorithm, "secret"), frozenset({"encrypted"}))
      for algorithm in ("RC4-40", "RC4-128", "AES-128", "AES-256-R5", "AES-256")),
    _bad("unknown-security-handler", lambda: replaced(b"/Root 1 0 R", b"/Root 1 0 R /Encrypt << /Filter /Own >>"),
         frozenset({"encrypted", "malformed", "unsupported"})),
)  # fmt: skip

_CONTENT = (
    _bad("font-refers-to-itself", lambda: with_font(b"<< /Type /Font /Subtype /Type0 /DescendantFonts [4 0 R] >>"),
         DAMAGED | {"too-deep"}),
    _bad("to-unicode-range-of-4-billion",
         lambda: _unicode_map(b"1 beginbfrange <00000000> <ffffffff> <0041> endbfrange"), DAMAGED | EXPLODES),
    _bad("content-refers-to-itself", lambda: changed(6, b"[6 0 R 6 0 R]"), DAMAGED | {"too-deep"}),
    _bad("filter-unknown", lambda: one_page(show("Packed"), b"/Filter /Mystery"), DAMAGED | {"unsupported"}),
    _bad("inline-image-without-data", lambda: one_page(b"BI " * 20_000 + show("After")), DAMAGED | {"timeout"}),
    _bad("string-without-end", lambda: one_page(b"BT /F1 12 Tf (" + b"(" * 50_000), DAMAGED | {"too-deep"}),
    _bad("javascript-action", lambda: with_catalog(_SCRIPT, {}), READ),
    _bad("attachment-name-climbs", lambda: with_catalog(_CLIMBING, {3: stream(b"x")}), READ),
    _bad("xmp-entity-bomb", lambda: with_catalog(b"/Metadata 3 0 R", {3: stream(entity_bomb(), _XMP)}), READ),
)  # fmt: skip

_TEXTS = (
    _bad("line-of-50-mb", lambda: b"word " * (10 * MB), LARGE, ".txt"),
    _bad("lists-deep", lambda: b"".join(b" " * (2 * level) + b"- item\n" for level in range(2000)), DEEP_ENDS, ".md"),
    _bad("headings-5000", lambda: b"".join(b"# Heading %d\n\ntext\n\n" % n for n in range(5_000)), LARGE, ".md"),
    _bad("divs-deep", lambda: html(b"<div>" * DEEP + b"deep" + b"</div>" * DEEP), DEEP_ENDS, ".html"),
    _bad("html-quotes-deep", lambda: html(b"<blockquote>" * 10_000 + b"deep"), DEEP_ENDS, ".html"),
    _bad("html-entity-bomb", lambda: entity_bomb() + html(b"<p>text &e9; &#x110000; &#0;</p>"), READ_OR_REFUSED,
         ".html"),
    _bad("html-comment-without-end", lambda: html(b"<h1>Seen</h1><p>text</p><!-- " + b"lost " * 1000), READ, ".html"),
    _bad("html-attributes-100000", lambda: html(b"<p " + b"a=1 " * DEEP + b">text</p>"), LARGE, ".html"),
    _bad("html-table-colspan-lies", lambda: html(_COLSPANS), LARGE | {"bomb"}, ".html"),
    _bad("latex-macro-bomb", lambda: b"\\def\\a#1{#1#1\\a{#1#1}}\\a{x} word", _PARTIAL, ".tex"),
    _bad("latex-inputs-itself", lambda: b"\\input{bad}\\input{/etc/passwd} word", _PARTIAL, ".tex"),
)  # fmt: skip

HOSTILE: tuple[HostileFile, ...] = (*_DAMAGE, *_LIES, *_DEPTH, *_BOMBS, *_LOCKS, *_CONTENT, *_TEXTS)

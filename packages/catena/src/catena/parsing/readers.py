"""Tell what kind of file bytes are, and name its reader: one table, in which a reader is added in one place."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import PurePath
from typing import Any, NamedTuple

from catena.parsing.protocol import Unreadable

HEAD = 1024  # bytes that are looked at; readers accept a PDF mark anywhere in them


class FileKind(NamedTuple):
    """A kind of files, and who reads it.

    Attributes:
        suffixes: of file names, in small letters.
        reader: "module:function", loaded in the reading process when it is first needed. It takes the bytes. One for
            `paged` files also takes `max_pages` and the options of `parse` that concern it, and yields the events of
            `read_pdf`; any other returns those of `text.text_event`.
        signature: is found in the first `HEAD` bytes of such a file.
        overrules: suffixes of other kinds that the signature overrules; it always does where the suffix is unknown.
        paged: whether it is read page by page.
    """

    suffixes: tuple[str, ...]
    reader: str
    signature: re.Pattern[bytes] | None = None
    overrules: tuple[str, ...] = ()
    paged: bool = False

    def load(self) -> Callable[..., Any]:
        """Import the reader, and return it."""
        module, _, function = self.reader.partition(":")
        read: Callable[..., Any] = getattr(import_module(module), function)
        return read


_HTML, _LATEX, _MARKDOWN = (".html", ".htm", ".xhtml"), (".tex", ".latex", ".ltx"), (".md", ".markdown")
_PLAIN = (".txt", ".text")
# comments and white space are taken possessively: given back, they would be tried in every division
KINDS = (
    FileKind(
        (".pdf",), "catena.parsing.pdf_reading:read_pdf",
        re.compile(rb"%PDF-"), (*_HTML, *_LATEX, *_MARKDOWN, *_PLAIN), paged=True,
    ),
    FileKind(
        _HTML, "catena.parsing.hypertext:read_html",
        re.compile(
            rb"\A(?:\xef\xbb\xbf)?\s*+(?:<\?xml[^>]*+>\s*+)?(?:<!--.*?-->\s*+)*+<(!doctype\s++html|html[\s>])",
            re.I | re.DOTALL,
        ),
        (".pdf", *_LATEX),
    ),
    FileKind(
        _LATEX, "catena.parsing.latex:read_latex",
        re.compile(rb"\A(?!%!PS)(?:\xef\xbb\xbf)?\s*+(?:%[^\n]*+\s*+)*+\\document(class|style)\s*+[\[{]"),
    ),
    FileKind(_MARKDOWN, "catena.parsing.text:read_markdown"),
    FileKind(_PLAIN, "catena.parsing.text:read_plain"),
)  # fmt: skip
"""All kinds; the first one whose signature matches decides. The last one is what text without a suffix is."""

_BY_SUFFIX = {suffix: kind for kind in KINDS for suffix in kind.suffixes}
SUPPORTED_SUFFIXES = frozenset(_BY_SUFFIX)

# first bytes of what cannot be read, and what to call it
_REFUSED: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a ZIP archive or an Office file"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"\xd0\xcf\x11\xe0", "an old Office file"),
    (b"{\\rtf", "an RTF file"),
    (b"%!PS", "a PostScript file"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"BM", "a BMP image"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x80\x04\x95", "a Python pickle"),
)
_LETTERS = (b"BM", b"MZ")  # marks that a text may begin with: believed only where zero bytes follow


def kind_of(data: bytes, name: str) -> FileKind:
    """Tell the kind of a file.

    The content decides when it says what it is: a PDF or a web page under any other name is read as such
    (but a page named as Markdown or text stays source text). Otherwise the name decides, and text without
    a known suffix is plain text.

    Raises:
        Unreadable: "unsupported" for known binary formats and binary data, "empty" for no bytes.
    """
    if not data:
        raise Unreadable("empty", "it holds no bytes")
    suffix, head = PurePath(name).suffix.lower(), data[:HEAD]
    named = _BY_SUFFIX.get(suffix)
    signed = next((kind for kind in KINDS if kind.signature and kind.signature.search(head)), None)
    if signed is not None and (named in {None, signed} or suffix in signed.overrules):
        return signed
    for mark, what in _REFUSED:
        if data.startswith(mark) and (mark not in _LETTERS or b"\0" in head):
            despite = f", whatever its name ({suffix}) says" if named is not None else ""
            raise Unreadable("unsupported", f"it is {what}{despite}", "converting it to PDF")
    if named is None and b"\0" in head and data[:2] not in {b"\xff\xfe", b"\xfe\xff"}:
        raise Unreadable("unsupported", "it is binary data of an unknown kind", "converting it to PDF or text")
    return named or KINDS[-1]

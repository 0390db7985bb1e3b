"""What a file really is: by its first bytes, and by its name only where those do not say."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Literal, TypeAlias

from catena.parsing.failures import Unreadable

Kind: TypeAlias = Literal["pdf", "html", "latex", "markdown", "text"]

_SUFFIXES: dict[str, Kind] = {
    ".pdf": "pdf",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".tex": "latex",
    ".latex": "latex",
    ".ltx": "latex",
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".text": "text",
}
SUPPORTED_SUFFIXES = frozenset(_SUFFIXES)

# first bytes of what cannot be read, and what to call it
_OTHERS: tuple[tuple[bytes, str], ...] = (
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
# comments and white space are taken possessively: given back, they would be tried in every division
_HTML = re.compile(rb"\s*+(?:<\?xml[^>]*+>\s*+)?(?:<!--.*?-->\s*+)*+<(!doctype\s++html|html[\s>])", re.I | re.DOTALL)
_LATEX = re.compile(rb"\s*+(?:%[^\n]*+\s*+)*+\\document(class|style)\s*+[\[{]")
HEAD = 1024  # bytes; readers accept a PDF mark anywhere in them


def kind_of(data: bytes, name: str) -> Kind:
    """Return how to read a file.

    The content decides when it says what it is: a PDF or a web page under any other name is read as such
    (but a page named as Markdown or text stays source text). Otherwise the name decides, and text without
    a known suffix is plain text.

    Raises:
        Unreadable: "unsupported" for known binary formats and binary data, "empty" for no bytes.
    """
    suffix = PurePath(name).suffix.lower()
    named = _SUFFIXES.get(suffix)
    if not data:
        raise Unreadable("empty", "it holds no bytes")
    if b"%PDF-" in data[:HEAD]:
        return "pdf"
    for mark, what in _OTHERS:
        if data.startswith(mark) and (mark not in _LETTERS or b"\0" in data[:HEAD]):
            raise Unreadable("unsupported", f"it is {what}{_despite(suffix)}", "converting it to PDF")
    if _HTML.match(data[:HEAD].removeprefix(b"\xef\xbb\xbf")) and named not in {"markdown", "text"}:
        return "html"
    if named is not None:
        return named
    if _LATEX.match(data[:HEAD].removeprefix(b"\xef\xbb\xbf")):
        return "latex"
    if b"\0" in data[:HEAD] and data[:2] not in {b"\xff\xfe", b"\xfe\xff"}:
        raise Unreadable("unsupported", "it is binary data of an unknown kind", "converting it to PDF or text")
    return "text"


def _despite(suffix: str) -> str:
    return f", whatever its name ({suffix}) says" if suffix in SUPPORTED_SUFFIXES else ""

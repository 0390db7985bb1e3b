"""Keep the readers: which function reads which kind of file. Ours are registered as anybody's are.

A reader runs in the reading process, under its limits; this process knows it by name alone. `register` adds one for
this program; a package that is installed adds its own by an entry point of the group "catena.readers".
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from io import BytesIO
from pathlib import PurePath
from typing import Any
from zipfile import BadZipFile, ZipFile

from catena.model import Document
from catena.model.errors import ParameterError
from catena.parsing.protocol import Unreadable
from catena.text import MARKDOWN

HEAD = 1024  # bytes that are looked at; readers accept a PDF mark anywhere in them
GROUP = "catena.readers"

_OLD = b"\xd0\xcf\x11\xe0"  # how old Office files begin, and new ones that are encrypted
_READER = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_SUFFIX = re.compile(r"\.[a-z0-9_+-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """The text of a file, as a reader gives it.

    Attributes:
        text: Markdown, with "#" headings and "|" tables; or plain text.
        title: of the document; "" for the name of the file.
        media_type: "text/markdown" or "text/plain".
        page_starts: where each page, slide or sheet begins, as offsets into `text`, the first 0; empty without any.
        page_labels: what each of them is called; one with a space says what it is, such as "slide 3".
        metadata: of the document: author, dates, and the like.
        notes: what is missing from the text, in words; a file with notes is "partial".
    """

    text: str
    title: str = ""
    media_type: str = MARKDOWN
    page_starts: Sequence[int] = ()
    page_labels: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        # which checks them
        Document(id="", text=self.text, page_starts=tuple(self.page_starts), page_labels=tuple(self.page_labels))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """A kind of files, and who reads it.

    Attributes:
        suffixes: of file names, in small letters, with their point.
        reader: "module:function", loaded in the reading process when it is first needed. It takes the bytes of a file
            and returns `FileText`; what it raises makes the file "failed", and says why.
        version: another one where the reader finds other things: files that it has read are read again.
        signature: a regular expression, found in the first 1,024 bytes of such a file; "" trusts the name.
        overrules: suffixes of other kinds that the signature overrules; it always does where the suffix is unknown.
        member: a file that is in it, where it is a ZIP archive; it tells such kinds apart whatever their names say.
        is_text: files of it are text; known binary formats under its suffixes are refused unread.
        paged: it is read page by page: the reader also takes `max_pages` and the options of `parse` that concern it,
            and yields the events of `read_pdf`.
        install: what pip installs, where what the reader imports is not there.
    """

    suffixes: tuple[str, ...]
    reader: str
    version: str = ""
    signature: bytes = b""
    overrules: tuple[str, ...] = ()
    member: str = ""
    is_text: bool = False
    paged: bool = False
    install: str = ""

    def __post_init__(self) -> None:
        suffixes, reader = self.suffixes, self.reader
        if not isinstance(suffixes, tuple) or not all(isinstance(s, str) and _SUFFIX.fullmatch(s) for s in suffixes):
            raise ParameterError("suffixes", suffixes, "a tuple of suffixes in small letters, such as ('.ini',)")
        if not isinstance(reader, str) or not _READER.fullmatch(reader):
            raise ParameterError("reader", reader, "a function that other processes can import, as 'module:function'")
        try:
            re.compile(self.signature + b"", re.DOTALL)
        except (re.error, TypeError) as error:
            raise ParameterError("signature", self.signature, f"a regular expression of bytes ({error})") from None

    @classmethod
    def revived(cls, told: Mapping[str, Any]) -> FileKind:
        """Return the kind of which `told` was sent."""
        lists = {name: tuple(told[name]) for name in ("suffixes", "overrules")}
        return cls(**{**told, **lists, "signature": told["signature"].encode("latin-1")})

    @property
    def told(self) -> dict[str, Any]:
        """The kind as JSON has it."""
        return {**asdict(self), "signature": self.signature.decode("latin-1")}

    def load(self) -> Callable[..., Any]:
        """Import the reader, and return it.

        Raises:
            ImportError: it is not there.
        """
        module, _, function = self.reader.partition(":")
        read: Callable[..., Any] | None = getattr(import_module(module), function, None)
        if read is None:
            raise ImportError(f"{module} has no {function}")
        return read

    def is_signed(self, head: bytes) -> bool:
        """Return whether the first bytes of a file are those of this kind."""
        return bool(self.signature) and re.search(self.signature, head, re.DOTALL) is not None


_HTML, _LATEX, _MARKDOWN = (".html", ".htm", ".xhtml"), (".tex", ".latex", ".ltx"), (".md", ".markdown")
_PLAIN = (".txt", ".text")
_OFFICE = (".docx", ".docm", ".pptx", ".pptm", ".xlsx", ".xlsm")
_EXTRA = "catena-core[office]"
# comments and white space are taken possessively: given back, they would be tried in every division
OWN = (
    FileKind(
        suffixes=(".pdf",), reader="catena.parsing.pdf_reading:read_pdf",
        signature=rb"%PDF-", overrules=(*_HTML, *_LATEX, *_MARKDOWN, *_PLAIN, *_OFFICE), paged=True,
    ),
    FileKind(
        suffixes=_HTML, reader="catena.parsing.hypertext:read_html",
        signature=(
            rb"(?i)\A(?:\xef\xbb\xbf)?\s*+(?:<\?xml[^>]*+>\s*+)?(?:<!--.*?-->\s*+)*+<(!doctype\s++html|html[\s>])"
        ),
        overrules=(".pdf", *_LATEX, *_OFFICE), is_text=True,
    ),
    FileKind(
        suffixes=_LATEX, reader="catena.parsing.latex:read_latex", is_text=True,
        signature=rb"\A(?!%!PS)(?:\xef\xbb\xbf)?\s*+(?:%[^\n]*+\s*+)*+\\document(class|style)\s*+[\[{]",
    ),
    *(
        FileKind(
            suffixes=suffixes, reader=f"catena.parsing.office:{reader}", version="1", member=member, install=extra
        )
        for suffixes, reader, member, extra in (
            (_OFFICE[:2], "read_docx", "word/document.xml", _EXTRA),
            (_OFFICE[2:4], "read_pptx", "ppt/presentation.xml", _EXTRA),
            (_OFFICE[4:], "read_xlsx", "xl/workbook.xml", _EXTRA), ((".odt",), "read_odt", "content.xml", ""),
            ((".epub",), "read_epub", "META-INF/container.xml", ""), ((".eml",), "read_email", "", ""),
            ((".msg",), "read_msg", "", _EXTRA),
        )
    ),
    FileKind(suffixes=_MARKDOWN, reader="catena.parsing.text:read_markdown", is_text=True),
    FileKind(suffixes=_PLAIN, reader="catena.parsing.text:read_plain", is_text=True),
)  # fmt: skip
"""The kinds that Catena reads by itself, the first that is signed first; the last one is text without a suffix."""

# readers that were there before fingerprints told of readers
_UNVERSIONED = frozenset(kind.reader for kind in OWN if not kind.version)

_lock = threading.Lock()
_added: list[FileKind] = []


def register(kind: FileKind) -> None:
    """Add a kind of files for this program; for its suffixes it takes the place of whoever read them before.

    Raises:
        ParameterError: it is no `FileKind`.
    """
    if not isinstance(kind, FileKind):
        raise ParameterError("kind", kind, "a catena.parsing.FileKind")
    with _lock:
        if kind not in _added:
            _added.insert(0, kind)


@cache
def _installed() -> tuple[FileKind, ...]:
    """Return the kinds that installed packages add, in the order of their names.

    Raises:
        ParameterError: one of them adds something else; which.
    """
    kinds = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        found = entry.load()
        if not isinstance(found, FileKind):
            raise ParameterError(f"the entry point {entry.name!r} of {GROUP!r}", found, "a catena.parsing.FileKind")
        kinds.append(found)
    return tuple(kinds)


def kinds() -> tuple[FileKind, ...]:
    """Return all kinds, the latest registered first, then those of installed packages, and Catena's own."""
    with _lock:
        return (*_added, *_installed(), *OWN)


def _by_suffix(all_kinds: Iterable[FileKind]) -> dict[str, FileKind]:
    """Return the first kind of each suffix."""
    return {suffix: kind for kind in reversed([*all_kinds]) for suffix in kind.suffixes}


def supported_suffixes() -> frozenset[str]:
    """Return the suffixes, in small letters, of the files that are read."""
    return frozenset(_by_suffix(kinds()))


def reader_of(name: str) -> str:
    """Return who reads a file of this name, for fingerprints; "" for readers whose files have none of it."""
    kind = _by_suffix(kinds()).get(PurePath(name).suffix.lower())
    return "" if kind is None or kind.reader in _UNVERSIONED else f"{kind.reader} {kind.version}"


def members_of(data: bytes) -> frozenset[str]:
    """Return the names of the files in a ZIP archive; none of what is no whole one."""
    if data.startswith(b"PK"):
        with suppress(BadZipFile, ValueError, NotImplementedError), ZipFile(BytesIO(data)) as archive:
            return frozenset(archive.namelist())
    return frozenset()


def _may_hold(data: bytes) -> bool:
    """Return whether a file may be a ZIP archive, cut or locked, or says nothing of what it is."""
    return data.startswith((b"PK", _OLD)) or not any(data.startswith(mark) for mark, _ in _REFUSED)


# first bytes of what cannot be read, and what to call it
_REFUSED: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a ZIP archive or an Office file"), (b"PK\x05\x06", "an empty ZIP archive"),
    (_OLD, "an old Office file"), (b"{\\rtf", "an RTF file"), (b"%!PS", "a PostScript file"),
    (b"\x89PNG", "a PNG image"), (b"\xff\xd8\xff", "a JPEG image"), (b"GIF8", "a GIF image"),
    (b"II*\0", "a TIFF image"), (b"MM\0*", "a TIFF image"), (b"BM", "a BMP image"),
    (b"\x1f\x8b", "a gzip archive"), (b"BZh", "a bzip2 archive"), (b"\xfd7zXZ", "an xz archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"), (b"Rar!", "a RAR archive"), (b"\x7fELF", "a program"),
    (b"MZ", "a program"), (b"SQLite format 3\0", "an SQLite database"), (b"\x93NUMPY", "a NumPy array"),
    (b"\x80\x04\x95", "a Python pickle"),
)  # fmt: skip
_LETTERS = (b"BM", b"MZ")  # marks that a text may begin with: believed only where zero bytes follow


def kind_of(data: bytes, name: str, all_kinds: Sequence[FileKind] = OWN) -> FileKind:
    """Tell the kind of a file.

    The content decides when it says what it is: a PDF or a web page under any other name is read as such
    (but a page named as Markdown or text stays source text), and so is an Office file, by what is in it. Otherwise
    the name decides, and text without a known suffix is plain text.

    Raises:
        Unreadable: "unsupported" for known binary formats and binary data, "empty" for no bytes.
    """
    if not data:
        raise Unreadable("empty", "it holds no bytes")
    suffix, head = PurePath(name).suffix.lower(), data[:HEAD]
    named = _by_suffix(all_kinds).get(suffix)
    signed = next((kind for kind in all_kinds if kind.is_signed(head)), None)
    if signed is not None and (named in {None, signed} or suffix in signed.overrules):
        return signed
    members = members_of(data)
    held = next((kind for kind in all_kinds if kind.member and kind.member in members), None)
    if held is not None and (named is None or named.is_text or named.signature or named.member):
        return named if named is not None and named.member in members else held
    if named is not None and not (named.is_text or named.signature) and (not named.member or _may_hold(data)):
        return named
    for mark, what in _REFUSED:
        if data.startswith(mark) and (mark not in _LETTERS or b"\0" in head):
            despite = f", whatever its name ({suffix}) says" if named is not None else ""
            raise Unreadable("unsupported", f"it is {what}{despite}", "converting it to PDF")
    if named is None and b"\0" in head and data[:2] not in {b"\xff\xfe", b"\xfe\xff"}:
        raise Unreadable("unsupported", "it is binary data of an unknown kind", "converting it to PDF or text")
    return named or all_kinds[-1]

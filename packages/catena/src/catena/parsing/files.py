"""From a file to a `Parsed`: what it is, who reads it, and what came back."""

from __future__ import annotations

import os
import stat
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Literal, TypeAlias

from catena.errors import MissingExtraError, ParameterError, ParseError
from catena.ids import digest
from catena.layout import Parsed
from catena.model import Document
from catena.parsing.assemble import parsed_markup, parsed_pdf
from catena.parsing.failures import Unreadable
from catena.parsing.limits import Limits
from catena.parsing.process import POOL, ask
from catena.parsing.sniff import Kind, kind_of
from catena.parsing.text import decode, markdown_title

Engine: TypeAlias = Literal["pypdf", "pypdfium2"]

DEFAULT_LIMITS = Limits()
FIGURE_DPI = 200.0  # dots per inch of a figure: small print is read, and a page-wide chart has some 250 kB


def parse(
    path: str | Path,
    *,
    document_id: str | None = None,
    source: str | None = None,
    password: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    engine: Engine = "pypdf",
    ruled_tables: bool = False,
    figures: bool = False,
    figure_dpi: float = FIGURE_DPI,
) -> Parsed:
    """Read a file: PDF, HTML, LaTeX, Markdown or plain text, told apart by content first and by name second.

    PDF, HTML and LaTeX are read by another process under `limits`, so that no file can hang or end this one.
    When the time is up, the pages read so far are kept and the state is "partial". A LaTeX source is "partial"
    too where it takes in other files: they are not read, and its `notes` name them.

    Args:
        path: the file.
        document_id: of the document; derived from `source` when not given.
        source: how citations name the file; `path` as given when not given.
        password: opens an encrypted PDF.
        limits: what the file may cost.
        engine: who reads PDF: "pypdf", or "pypdfium2" (faster; extra `[fast-pdf]`).
        ruled_tables: find tables with drawn borders (slow; extra `[tables]`).
        figures: crop the figures of PDFs; only pypdfium2 can, the other engine gives none.
        figure_dpi: dots per inch of the crops, 36 to 600; a large figure gets fewer, see `figure_images`.

    Raises:
        ParseError: no document came of it; `state` is a `FailureState`.
        MissingExtraError: the engine or the table finder is not installed.
        ParameterError: the engine is unknown, or `figure_dpi` out of range.
    """
    name = str(path)
    return parse_bytes(
        file_bytes(path, source=source or name, limits=limits),
        name,
        document_id=document_id,
        source=source,
        password=password,
        limits=limits,
        engine=engine,
        ruled_tables=ruled_tables,
        figures=figures,
        figure_dpi=figure_dpi,
    )


def parse_bytes(
    data: bytes,
    name: str,
    *,
    document_id: str | None = None,
    source: str | None = None,
    password: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    engine: Engine = "pypdf",
    ruled_tables: bool = False,
    figures: bool = False,
    figure_dpi: float = FIGURE_DPI,
) -> Parsed:
    """Read a file that is in memory; `name` is what it is called. For the rest see `parse`."""
    _check_installed(engine, ruled_tables)
    if not 36 <= figure_dpi <= 600:
        raise ParameterError("figure_dpi", figure_dpi, "a number from 36 to 600")
    source = source or name
    blank = Document(id=document_id or digest("document", source), text="", source=source)
    try:
        if len(data) > limits.bytes:
            raise _too_large(len(data), limits)
        kind = kind_of(data, name)
        if kind in {"markdown", "text"}:
            return _parsed_text(data, blank, name, kind)
        request: dict[str, object] = {
            "kind": kind,
            "engine": engine,
            "password": password,
            "ruled_tables": ruled_tables,
        }
        request["figure_dpi"] = figure_dpi if figures else 0.0
        reply = ask(POOL, request, data, limits)
        return parsed_pdf(reply, blank, name) if kind == "pdf" else parsed_markup(reply, blank, name)
    except Unreadable as error:
        raise ParseError(source, error.state, error.what, error.do_next) from None


def file_bytes(path: str | Path, *, source: str, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return what is in a regular file; a pipe or a device, which may never end, is not opened.

    Args:
        path: the file.
        source: what the error calls it.
        limits: `limits.bytes` is the size above which it is refused unread.

    Raises:
        ParseError: there is no such file, it is none, it is too large, or it cannot be opened.
    """
    try:
        return _bytes_of(path, limits)
    except Unreadable as error:
        raise ParseError(source, error.state, error.what, error.do_next) from None


def _bytes_of(path: str | Path, limits: Limits) -> bytes:
    try:
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            if not os.access(path, os.R_OK | os.X_OK):
                raise _closed()
            raise Unreadable(
                "unsupported", "it is a folder, not a file", "the files in it; catena index takes folders"
            )
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable("unsupported", "it is a device or a pipe, not a file")
        if found.st_size > limits.bytes:
            raise _too_large(found.st_size, limits)
        with open(path, "rb") as file:
            return file.read(limits.bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise Unreadable("missing", "there is no such file", "checking its name and folder") from None
    except ValueError:  # a zero byte in the name
        raise Unreadable("missing", "no file can have this name", "checking its name") from None
    except PermissionError:
        raise _closed() from None
    except OSError as error:
        raise Unreadable(
            "malformed", f"it cannot be opened ({error.strerror})", "copying it to another disk"
        ) from None


def _closed() -> Unreadable:
    return Unreadable("malformed", "you may not read it", "giving yourself leave to read it")


def _too_large(size: int, limits: Limits) -> Unreadable:
    return Unreadable("limit", f"it has {size} bytes, more than {limits.bytes}", "a higher Limits(bytes=...)")


def _check_installed(engine: str, ruled_tables: bool) -> None:
    if engine not in {"pypdf", "pypdfium2"}:
        raise ParameterError("engine", engine, "'pypdf' or 'pypdfium2'")
    if engine == "pypdfium2" and find_spec("pypdfium2") is None:
        raise MissingExtraError("pypdfium2", "fast-pdf")
    if ruled_tables and find_spec("pdfplumber") is None:
        raise MissingExtraError("pdfplumber", "tables")


def _parsed_text(data: bytes, blank: Document, name: str, kind: Kind) -> Parsed:
    text, encoding = decode(data)
    title = markdown_title(text) if kind == "markdown" else ""
    document = Document(
        id=blank.id,
        text=text,
        title=title or PurePath(name).stem,
        source=blank.source,
        media_type="text/markdown" if kind == "markdown" else "text/plain",
        metadata={"encoding": encoding},
    )
    return Parsed(document=document)

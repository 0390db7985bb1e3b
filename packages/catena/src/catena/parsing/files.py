"""From a file to a `Parsed`: what it is, who reads it, and what came back."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypedDict

from annotated_types import Ge, Le

from catena.model import Document
from catena.model.errors import MissingExtraError, ParameterError, ParseError
from catena.model.ids import digest
from catena.model.layout import Parsed
from catena.model.options import check_given
from catena.parsing.assemble import parsed, whole
from catena.parsing.failures import Unreadable
from catena.parsing.limits import Limits
from catena.parsing.opening import too_large
from catena.parsing.process import POOL, ask

Engine: TypeAlias = Literal["pypdf", "pypdfium2"]

DEFAULT_LIMITS = Limits()
FIGURE_DPI = 200.0  # dots per inch of a figure: small print is read, and a page-wide chart has some 250 kB


class _Options(TypedDict):
    """What `parse` takes besides a path."""

    document_id: str | None
    source: str | None
    password: str | None
    limits: Limits
    engine: Engine
    ruled_tables: bool
    figures: bool
    figure_dpi: Annotated[float, Ge(36), Le(600)]
    hidden_text: bool


class _Given(_Options):
    data: bytes | bytearray | memoryview
    name: str


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
    hidden_text: bool = True,
) -> Parsed:
    """Read a file: PDF, HTML, LaTeX, Markdown or plain text, told apart by content first and by name second.

    Another process reads it under `limits`, so that no file can hang or end this one. When the time is up, the
    pages read so far are kept and the state is "partial". A LaTeX source is "partial" too where it takes in other
    files: they are not read, and its `notes` name them.

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
        hidden_text: keep what nobody sees who looks at a page of a PDF: text that is white on white, invisible (as
            the text layer that OCR puts below a scan is), off the page, or too small. `notes` tell of it either way.

    Raises:
        ParseError: no document came of it; `state` is a `FailureState`.
        MissingExtraError: the engine or the table finder is not installed.
        ParameterError: an argument is of another type, the engine is unknown, or `figure_dpi` out of range.
    """
    name = str(path)
    options: _Options = {
        "document_id": document_id, "source": source, "password": password, "limits": limits, "engine": engine,
        "ruled_tables": ruled_tables, "figures": figures, "figure_dpi": figure_dpi, "hidden_text": hidden_text,
    }  # fmt: skip
    check_given(options, _Options)
    return parse_bytes(file_bytes(path, source=source or name, limits=limits), name, **options)


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
    hidden_text: bool = True,
) -> Parsed:
    """Read a file that is in memory; `name` is what it is called. For the rest see `parse`."""
    given: _Given = {
        "data": data, "name": name, "document_id": document_id, "source": source, "password": password,
        "limits": limits, "engine": engine, "ruled_tables": ruled_tables, "figures": figures,
        "figure_dpi": figure_dpi, "hidden_text": hidden_text,
    }  # fmt: skip
    check_given(given, _Given)
    _check_installed(engine, ruled_tables)
    source = source or name
    blank = Document(id=document_id or digest("document", source), text="", source=source)
    request = {
        "name": name, "engine": engine, "password": password, "ruled_tables": ruled_tables,
        "figure_dpi": figure_dpi if figures else 0.0, "hidden_text": hidden_text,
    }  # fmt: skip
    try:
        if len(data) > limits.bytes:
            raise too_large(len(data), limits.bytes)
        return parsed(ask(POOL, request, data, limits), blank, name)
    except Unreadable as error:
        raise ParseError(source, error.state, error.what, error.do_next) from None


def file_bytes(path: str | Path, *, source: str, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return what is in a regular file; a pipe or a device, which may never end, is not opened.

    It is read by another process, so that a disk that does not answer costs `limits.seconds` and no more.

    Args:
        path: the file.
        source: what the error calls it.
        limits: `limits.bytes` is the size above which it is refused unread.

    Raises:
        ParseError: there is no such file, it is none, it is too large, or it cannot be opened in time.
        ParameterError: it is no path.
    """
    try:
        return whole(ask(POOL, {"path": os.path.abspath(path_given(path))}, b"", limits))
    except Unreadable as error:
        raise ParseError(source, error.state, error.what, error.do_next) from None


def path_given(path: object) -> Path:
    """Return a path as its own type.

    Raises:
        ParameterError: it is none, or empty, which would be the current folder.
    """
    if not path or not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise ParameterError("path", path, "a string that is not empty, or a pathlib.Path")
    return Path(path)


def _check_installed(engine: str, ruled_tables: bool) -> None:
    if engine == "pypdfium2" and find_spec("pypdfium2") is None:
        raise MissingExtraError("pypdfium2", "fast-pdf")
    if ruled_tables and find_spec("pdfplumber") is None:
        raise MissingExtraError("pdfplumber", "tables")

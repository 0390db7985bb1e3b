"""A library of documents, wherever they lie: in a folder (`Library`), or on a search server (`ServerLibrary`)."""

from __future__ import annotations

from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, InstanceOf

from catena.library import Library
from catena.model import Hit, LibraryError, ParameterError
from catena.server import ServerLibrary

AnyLibrary: TypeAlias = Library | ServerLibrary


def _refuse_path(given: Any) -> Any:
    if isinstance(given, str | PathLike):
        raise ParameterError("library", given, f"an open Library, as catena.Library.open({str(given)!r}) gives it")
    return given


LibraryField: TypeAlias = Annotated[InstanceOf[Library] | InstanceOf[ServerLibrary], BeforeValidator(_refuse_path)]


def figure_file(library: AnyLibrary, hit: Hit) -> Path | None:
    """Return the file of the picture, None where none can be written: on a server, or in a read-only folder."""
    if isinstance(library, Library):
        with suppress(LibraryError):
            return library.figure_file(hit)
    return None

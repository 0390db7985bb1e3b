"""A library of documents, wherever they lie: in a folder (`Library`), or on a search server (`ServerLibrary`)."""

from __future__ import annotations

from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from catena.library import Library
from catena.model import Hit, LibraryError, ParameterError
from catena.server import ServerLibrary

AnyLibrary: TypeAlias = Library | ServerLibrary


def check_source(name: str, given: object, *others: type) -> None:
    """Raise `ParameterError` where something is neither an open library nor one of the other kinds.

    Args:
        name: of the argument.
        given: for it.
        others: kinds that are taken, too.
    """
    if isinstance(given, (Library, ServerLibrary, *others)):
        return
    kinds = ["an open Library", *(f"a {kind.__name__}" for kind in others)]
    shown: object = type(given).__name__
    if isinstance(given, str | PathLike):
        shown, kinds[0] = given, f"an open Library, as catena.Library.open({str(given)!r}) gives it"
    raise ParameterError(name, shown, ", or ".join(kinds))


def figure_file(library: AnyLibrary, hit: Hit) -> Path | None:
    """Return the file of the picture, None where none can be written: on a server, or in a read-only folder."""
    if isinstance(library, Library):
        with suppress(LibraryError):
            return library.figure_file(hit)
    return None

"""A library of documents, wherever they lie: in a folder (`Library`), or on a search server (`ServerLibrary`)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from catena.errors import LibraryError, ParameterError, ServerError, UnknownDocumentError
from catena.library import Library
from catena.model import Document, Hit
from catena.server_library import ServerLibrary

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


def check_graph(library: AnyLibrary) -> None:
    """Raise `LibraryError` where there is no graph: that is a mistake, and no failure to go on without."""
    if isinstance(library, ServerLibrary):
        with suppress(ServerError):  # a server that fails is one: the walk will say so
            library.graph.about()
    elif not library.has_graph:
        _ = library.graph


def figure_file(library: AnyLibrary, hit: Hit) -> Path | None:
    """Return the file of the picture, None where none can be written: on a server, or in a read-only folder."""
    if isinstance(library, Library):
        with suppress(LibraryError):
            return library.figure_file(hit)
    return None


def held_documents(library: AnyLibrary, ids: Iterable[str]) -> tuple[Document, ...]:
    """Return those of the documents that are there."""
    found = []
    for each in ids:
        with suppress(UnknownDocumentError):
            held = library.store.get(each, pictures=False) if isinstance(library, Library) else library.get(each)
            found.append(held.document)
    return tuple(found)

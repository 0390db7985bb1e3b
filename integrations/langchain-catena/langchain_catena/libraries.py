"""A library of documents, wherever they lie: in a folder (`Library`), or on a search server (`ServerLibrary`)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from pydantic import InstanceOf

from catena.errors import LibraryError, ServerError
from catena.library import Library
from catena.model import Hit
from catena.server_library import ServerLibrary

AnyLibrary: TypeAlias = Library | ServerLibrary
LibraryField: TypeAlias = InstanceOf[Library] | InstanceOf[ServerLibrary]


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

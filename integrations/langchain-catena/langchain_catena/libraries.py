"""A library of documents, wherever they lie: in a folder (`Library`), or on a search server (`ServerLibrary`)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from pydantic import InstanceOf

from catena.errors import LibraryError
from catena.library import Library
from catena.model import Hit
from catena.server_library import ServerLibrary

AnyLibrary: TypeAlias = Library | ServerLibrary
LibraryField: TypeAlias = InstanceOf[Library] | InstanceOf[ServerLibrary]


def figure_file(library: AnyLibrary, hit: Hit) -> Path | None:
    """Return the file of the picture, None where none can be written: on a server, or in a read-only folder."""
    if isinstance(library, Library):
        with suppress(LibraryError):
            return library.figure_file(hit)
    return None

"""From a path to a library that is known to be one, with nothing else touched."""

from __future__ import annotations

from pathlib import Path

from catena.model.errors import DamagedLibraryError, LibraryError
from catena.store import schema
from catena.store.connections import Connections, named

_PAGE = 512  # bytes, the smallest that SQLite writes: it takes a shorter file for an empty one


_LIBRARY = "the folder of a library; catena index FILES --library PATH makes one where there is nothing"
_EMPTY = "an empty folder, or a path where there is nothing"
_OPEN = "a path that you may read and write"


def check_place(folder: Path, *, create: bool) -> None:
    """Refuse a path that holds anything but a library, before anything is touched."""
    try:
        if folder.is_dir():
            names = {path.name for path in folder.iterdir()}
            if schema.FILE not in names and (names - schema.OURS or not create):
                raise _no_library(
                    folder, "the folder is not a library; nothing was touched", _EMPTY if create else _LIBRARY
                )
        elif folder.exists():
            raise _no_library(
                folder, "this is a file, a library is a folder; nothing was touched", _EMPTY if create else _LIBRARY
            )
        elif not create:
            raise _no_library(folder, "there is nothing", "create=True")
        else:
            folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise _no_library(folder, f"the path cannot be used ({error})", _OPEN) from None


def _no_library(folder: Path, what: str, do_next: str) -> LibraryError:
    error = LibraryError(str(folder), what, do_next)
    error.kept = "everything as it was: nothing was opened or made"
    return error


def prepare(connections: Connections) -> None:
    """Make the tables where there are none yet, and check their version."""
    path = connections.path
    with named(path):
        with connections.connection() as connection:
            empty = schema.is_empty(connection)
        if empty:  # a new library, a kill before its tables were made, or another process about to make them
            if (path / "vectors").exists() or (0 < (path / schema.FILE).stat().st_size < _PAGE):
                what = f"{schema.FILE} is empty, though documents were there; nothing was touched"
                raise DamagedLibraryError(str(path), what, "a backup, or index the sources anew")
            with connections.locked() as connection:
                if schema.is_empty(connection):
                    schema.create(connection)
        with connections.connection() as connection:
            older = schema.needs_upgrade(connection)
        if older and not connections.read_only:
            with connections.locked() as connection:
                schema.upgrade(connection)
        with connections.connection() as connection:
            schema.check_version(connection, path)

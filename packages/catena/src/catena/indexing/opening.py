"""From a path to a library that is known to be one, with nothing else touched."""

from __future__ import annotations

from pathlib import Path

from catena.errors import LibraryError
from catena.indexing import schema
from catena.indexing.connections import Connections, named

_PAGE = 512  # bytes, the smallest that SQLite writes: it takes a shorter file for an empty one


def check_place(folder: Path, *, create: bool) -> None:
    """Refuse a path that holds anything but a library, before anything is touched."""
    try:
        if folder.is_dir():
            names = {path.name for path in folder.iterdir()}
            if schema.FILE not in names and (names - schema.OURS or not create):
                raise LibraryError(str(folder), "the folder is not a library; nothing was touched")
        elif folder.exists():
            raise LibraryError(str(folder), "this is a file, a library is a folder; nothing was touched")
        elif not create:
            raise LibraryError(str(folder), "there is nothing", "create=True")
        else:
            folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise LibraryError(str(folder), f"the path cannot be used ({error})") from None


def prepare(connections: Connections) -> None:
    """Make the tables where there are none yet, and check their version."""
    path = connections.path
    with named(path):
        with connections.connection() as connection:
            empty = schema.is_empty(connection)
        if empty:  # a new library, a kill before its tables were made, or another process about to make them
            if (path / "vectors").exists() or (0 < (path / schema.FILE).stat().st_size < _PAGE):
                what = f"{schema.FILE} is empty, though documents were there; nothing was touched"
                raise LibraryError(str(path), what, "a backup, or index the sources anew")
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

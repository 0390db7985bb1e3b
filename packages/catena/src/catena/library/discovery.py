"""Find the files below the paths that a user names, and name them in messages and ids."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path

from catena.model.errors import ParameterError
from catena.parsing import path_given, supported_suffixes
from catena.text import path_text


def discover(
    paths: str | Path | Iterable[str | Path], *, leave_out: Path | None = None
) -> Iterator[tuple[Path, str]]:
    """Yield each file once, with its name as the caller would write it, in the order of the paths and by name.

    Folders are searched to the bottom; hidden files and folders, lock files of Office ("~$"), links to folders and
    the folder `leave_out` are left out. A path that does not exist, or that no file can have, is yielded too, as is a
    folder that may not be listed: it is for the reader to say so.

    Raises:
        ParameterError: something is no path.
    """
    seen: set[str] = set()
    if not isinstance(paths, Iterable | PathLike):
        raise ParameterError("paths", paths, "paths of files and folders, or one of them")
    for given in [paths] if isinstance(paths, str | PathLike) else paths:
        root = path_given(given)
        for path in _files_below(root, leave_out) if os.path.isdir(root) else [root]:
            key = os.path.abspath(path)
            if key not in seen:
                seen.add(key)
                yield path, path_text(path)


def discover_readable(paths: Iterable[str | Path]) -> Iterator[tuple[Path, str]]:
    """Yield as `discover` the files given, and in folders only those of types that are read.

    Raises:
        ParameterError: something is no path.
    """
    given = {os.path.abspath(path) for path in paths}
    suffixes = supported_suffixes()
    for path, name in discover(paths):
        if path.suffix.lower() in suffixes or os.path.abspath(path) in given:
            yield path, name


def document_id_of(path: str | Path, home: str | Path) -> str:
    """Return the id of a file's document: its path relative to the folder `home`, or whole on another drive.

    Raises:
        ParameterError: it is no path.
    """
    whole = os.path.abspath(path_given(path))
    try:
        return path_text(Path(os.path.relpath(whole, os.path.abspath(home))))
    except ValueError:
        return path_text(Path(whole))


def is_gone(document_id: str, home: str | Path) -> bool:
    """Return whether nothing lies any more where `document_id_of` had an id from; what cannot be looked at does."""
    try:
        # as bytes: as a string, the locale would have a say in which file is meant
        # without "..", which the id has by the names of folders, and the system goes up from where a link leads
        os.lstat(os.path.normpath(os.path.join(os.fsencode(home), document_id.encode("utf-8", "surrogatepass"))))
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def is_below(document_id: str, root: str | Path, home: str | Path) -> bool:
    """Return whether a document's file is, or was, `root`, or lies, or lay, in this folder or in one below it."""
    place = os.path.normpath(os.path.join(path_text(Path(os.path.abspath(home))), document_id))
    return Path(place).is_relative_to(path_text(Path(os.path.abspath(root))))


def _files_below(root: Path, leave_out: Path | None) -> Iterator[Path]:
    closed: list[Path] = []  # folders that may not be listed are yielded too: it is for the reader to say so
    for folder, folders, files in os.walk(root, onerror=lambda error: closed.append(Path(error.filename))):
        yield from closed
        closed.clear()
        if leave_out is not None and os.path.abspath(folder) == os.path.abspath(leave_out):
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder) / name for name in sorted(files) if not name.startswith((".", "~$")))
    yield from closed

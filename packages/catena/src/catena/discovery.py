"""Which files lie below the paths that a user names, and what they are called in messages and ids."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path


def discover(
    paths: str | Path | Iterable[str | Path], *, leave_out: Path | None = None
) -> Iterator[tuple[Path, str]]:
    """Yield each file once, with its name as the caller would write it, in the order of the paths and by name.

    Folders are searched to the bottom; hidden files and folders, links to folders and the folder `leave_out`
    are left out. A path that does not exist is yielded too, as is a folder that may not be listed: it is for the
    reader to say so.
    """
    seen: set[str] = set()
    for given in [paths] if isinstance(paths, str | Path) else paths:
        root = Path(given)
        found = _files_below(root, leave_out) if root.is_dir() else [root]
        for path in found:
            key = os.path.abspath(path)
            if key not in seen:
                seen.add(key)
                yield path, path_text(path)


def document_id_of(path: str | Path, home: str | Path) -> str:
    """Return the id of a file's document: its path relative to the folder `home`, or whole on another drive."""
    whole = os.path.abspath(path)
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


def path_text(path: Path) -> str:
    """Return a path with forward slashes; bytes that are no valid text are spelled out in hexadecimal."""
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def _files_below(root: Path, leave_out: Path | None) -> Iterator[Path]:
    closed: list[Path] = []  # folders that may not be listed are yielded too: it is for the reader to say so
    for folder, folders, files in os.walk(root, onerror=lambda error: closed.append(Path(error.filename))):
        yield from closed
        closed.clear()
        if leave_out is not None and os.path.abspath(folder) == os.path.abspath(leave_out):
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder) / name for name in sorted(files) if not name.startswith("."))
    yield from closed

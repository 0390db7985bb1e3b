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
    are left out. A path that does not exist is yielded too: it is for the reader to say so.
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


def path_text(path: Path) -> str:
    """Return a path with forward slashes; bytes that are no valid text are spelled out in hexadecimal."""
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def _files_below(root: Path, leave_out: Path | None) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        if leave_out is not None and os.path.abspath(folder) == os.path.abspath(leave_out):
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder) / name for name in sorted(files) if not name.startswith("."))

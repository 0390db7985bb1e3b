"""Files as documents of sections, for commands that ask about sections and keep no library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from catena.cli.console import err
from catena.cli.failures import SOME_FAILED, ProblemError, no_files, split_hint
from catena.cli.progress import counted
from catena.cli.terminal import printable
from catena.model.errors import ParseError

if TYPE_CHECKING:
    from catena.library.pipeline import Preparation
    from catena.model import Entry


def sections_of(
    paths: Sequence[Path], preparation: Preparation, password: str | None
) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Return the files below these paths as entries whose chunks are their sections; what fails is told on stderr.

    A document's id is its path below the folder that holds all of them, so that it is the same on another machine.

    Returns:
        The entries, and the names of the files that could not be read.

    Raises:
        ProblemError: there are no files, or none could be read.
    """
    from catena.library.discovery import discover, path_text
    from catena.library.pipeline import prepare, read
    from catena.parsing import SUPPORTED_SUFFIXES

    found = [
        (path, name)
        for path, name in discover(paths)
        if path.suffix.lower() in SUPPORTED_SUFFIXES or not path.is_file() or path in paths
    ]
    if not found:
        raise no_files()
    home = _home([path for path, _ in found])
    entries: list[Entry] = []
    failed: dict[str, str] = {}
    hint = ""
    for path, name in counted(found, "reading", "files"):
        own = path_text(Path(os.path.relpath(path, home))) if home else name
        try:
            parsed = read(path, preparation, document_id=own, source=own, password=password)
        except ParseError as error:
            what, advice = split_hint(str(error))
            hint = hint or advice
            failed[name] = what
            continue
        entries.append(prepare(parsed.document, preparation))
    for what in failed.values():
        err().print(printable(f"not read: {what}", one_line=True), style="red", soft_wrap=True)
    if not entries:
        raise ProblemError("no file could be read", hint or "files with text", SOME_FAILED)
    return tuple(entries), tuple(failed)


def _home(paths: Sequence[Path]) -> str:
    """Return the folder that holds all files, "" where they are on several drives."""
    try:
        return os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    except ValueError:
        return ""


def end_with(failed: Sequence[str], files: int) -> None:
    """End with the exit code of failure where files were not read.

    Raises:
        ProblemError: some were not.
    """
    if failed:
        what = f"{len(failed)} of {files} files were not read"
        raise ProblemError(what, "the path and the type of the files named above", SOME_FAILED)

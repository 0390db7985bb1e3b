"""Ways to damage a file that a library maps into memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def put(file: Path, content: bytes) -> None:
    """Put a new file in place of the old: cutting one that is mapped into memory would kill any process."""
    draft = file.with_name("draft.lock")
    draft.write_bytes(content)
    os.replace(draft, file)


def garble(file: Path) -> None:
    """Overwrite the middle of a file."""
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8] = b"garbage!"
    put(file, bytes(content))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "garbled": garble,
    "emptied": lambda file: put(file, b""),
    "cut": lambda file: put(file, file.read_bytes()[:-3]),
    "longer": lambda file: put(file, file.read_bytes() + b"xyz"),
    "missing": Path.unlink,
}

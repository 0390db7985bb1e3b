"""Open the files that options name (never a pipe or a device, which may not end), and read JSON lines."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from catena.model.errors import EvaluationError

_NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # surrogates that stand for no byte of a file's name


def path_text(path: PurePath) -> str:
    """Return a path with forward slashes; what is no valid text in it is spelled out in hexadecimal."""
    return _spelled(path.as_posix())


def stem_text(name: str) -> str:
    """Return the name of a file without its folders and its ending, spelled as in `path_text`."""
    return _spelled(PurePath(name).stem)


def _spelled(name: str) -> str:
    name = _NO_BYTE.sub(lambda found: f"\\u{ord(found.group()):04x}", name)
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def regular_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a regular file, to read it at once.

    Raises:
        OSError: there is nothing, or a folder, a pipe or a device.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        why = "it is a folder" if stat.S_ISDIR(mode) else "it is a device or a pipe, not a file"
        raise OSError(errno.EINVAL, why, os.fspath(path))
    return Path(path)


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place for messages, object) of each line of a file that is not blank; lines are counted from 1.

    Args:
        path: of UTF-8 text, packed by gzip if it ends in ".gz".

    Raises:
        EvaluationError: the file cannot be read, or a line holds something else than a JSON object.
    """
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = (error.strerror or "not packed by gzip") if isinstance(error, OSError) else "damaged, or not UTF-8"
        raise EvaluationError(f"cannot read {path.name}: {reason}") from None
    yield from objects_of(text, path.name)


def objects_of(text: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place for messages, object) of each line that is not blank; lines are counted from 1.

    Args:
        text: of the file, decoded.
        name: of the file, for messages.

    Raises:
        EvaluationError: a line holds no JSON, or something else than an object.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise EvaluationError(f"{where}: not JSON ({type(error).__name__})") from None
        if not isinstance(row, dict):
            raise EvaluationError(f"{where}: expected an object, got {line.strip()[:60]!r}")
        yield where, row

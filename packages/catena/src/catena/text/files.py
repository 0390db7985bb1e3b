"""The files that options name: a pipe or a device among them, which may never end, is not opened."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


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

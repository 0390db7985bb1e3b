"""The bytes of a file, in the reading process: a disk that does not answer stalls nobody else."""

from __future__ import annotations

import errno
import os
import stat

from catena.parsing.failures import Unreadable

_NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def bytes_of(path: str, at_most: int) -> bytes:
    """Return what is in a regular file; a pipe or a device, which may never end, is not opened.

    Args:
        path: the file, absolute: this process may stand in another folder than the one who asks.
        at_most: bytes above which it is refused.

    Raises:
        Unreadable: there is no such file, it is none, it is too large, or it cannot be opened.
    """
    try:
        data = _read(path, at_most)
    except (FileNotFoundError, NotADirectoryError):
        raise Unreadable("missing", "there is no such file", "checking its name and folder") from None
    except ValueError:  # a zero byte in the name
        raise Unreadable("missing", "no file can have this name", "checking its name") from None
    except PermissionError:
        raise _closed() from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise Unreadable("missing", "no file can have so long a name", "checking its name") from None
        raise Unreadable(
            "malformed", f"it cannot be opened ({error.strerror})", "copying it to another disk"
        ) from None
    if len(data) > at_most:  # it grew, or is one of the system's files that have no size
        raise too_large(len(data), at_most)
    return data


def _read(path: str, at_most: int) -> bytes:
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        if not os.access(path, os.R_OK | os.X_OK):
            raise _closed()
        raise Unreadable("unsupported", "it is a folder, not a file", "the files in it; catena index takes folders")
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("unsupported", "it is a device or a pipe, not a file")
    if found.st_size > at_most:
        raise too_large(found.st_size, at_most)
    # without waiting: it may have become a pipe since
    with open(os.open(path, os.O_RDONLY | _NO_WAITING), "rb") as file:
        return file.read(at_most + 1)


def too_large(size: int, at_most: int) -> Unreadable:
    """Return the refusal of a file of `size` bytes."""
    return Unreadable("limit", f"it has {size} bytes, more than {at_most}", "a higher Limits(bytes=...)")


def _closed() -> Unreadable:
    return Unreadable("malformed", "you may not read it", "giving yourself leave to read it")

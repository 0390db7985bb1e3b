"""Read untrusted files under limits, as the process `python -m catena.parsing.worker`.

It takes one request after the other on standard input (a frame: what is asked, and the file's bytes), and answers
on standard output with one frame a page. It opens the file that a request names, and no other, opens no socket and
starts no process; the parent only sees data, or the end of the pipe.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any

from catena.parsing.protocol import (
    LONGEST,
    PAGE_BYTES,
    SAVE_ANEW,
    Limits,
    Unreadable,
    failure_of,
    read_frame,
    reason,
    too_large,
    write_frame,
)

if TYPE_CHECKING:
    from catena.parsing.readers import FileKind

resource: Any = import_module("resource") if find_spec("resource") else None  # not on Windows

IDLE_SECONDS = 60.0  # without a request, after which the process ends by itself
PIECE = 4_000_000  # characters of a text in one frame

# what a paged file's reader is told
_OPTIONS = ("password", "first", "part", "ruled_tables", "engine", "figure_dpi", "hidden_text", "ocr")
_NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Answer requests until the pipe ends or none has come for a while."""
    while _waited(requests):
        frame = read_frame(requests, sys.maxsize)
        if frame is None:
            return
        goes_on = _answer(frame[0], replies)
        replies.flush()
        if not goes_on:
            return


def _answer(request: Mapping[str, Any], replies: IO[bytes]) -> bool:
    """Send the events of one file; return whether this process may go on to the next one."""
    limits = Limits(**request["limits"])
    cap_memory(limits.memory_bytes)
    try:
        if "path" in request:
            cap_seconds(limits.seconds)
            write_frame(replies, {"event": "bytes"}, bytes_of(request["path"], limits.bytes))
        elif "marked" in request:
            from catena.parsing.pdf_pypdfium2 import marked_page

            cap_seconds(limits.seconds)
            write_frame(replies, {"event": "bytes"}, marked_page(request.get("data", b""), **request["marked"]))
        else:
            _send_document(request, request.get("data", b""), limits, replies)
    except Exception as error:  # all that a parser raises is named here, and nowhere else
        state, what, do_next = failure_of(error)
        del error
        write_frame(replies, {"event": "failed", "state": state, "what": what, "do_next": do_next})
        return state not in {"memory", "too-deep"}  # what is left of the process is not worth trusting
    write_frame(replies, {"event": "end"})
    return True


def _send_document(request: Mapping[str, Any], data: bytes, limits: Limits, replies: IO[bytes]) -> None:
    from catena.parsing.readers import OWN, FileKind, FileText, kind_of
    from catena.parsing.text import check_visible

    cap_seconds(limits.seconds)
    sys.path += [path for path in request.get("modules", ()) if path not in sys.path]  # it may have grown since
    kind = kind_of(data, request["name"], (*map(FileKind.revived, request.get("kinds", ())), *OWN))
    if kind.paged:
        options = {name: request[name] for name in _OPTIONS}
        with _told_of(kind, own=kind in OWN):
            for event in kind.load()(data, max_pages=limits.pages, **options):
                write_frame(replies, event)
                replies.flush()
                cap_seconds(limits.seconds)
        return
    if len(data) > PAGE_BYTES:
        write_frame(replies, {"event": "long"})
        replies.flush()
        cap_seconds(limits.of_text(len(data)))
    with _told_of(kind, own=kind in OWN):
        found = kind.load()(data)
    if not isinstance(found, FileText):
        raise Unreadable("unsupported", f"its reader, {kind.reader}, gave {type(found).__name__} and no FileText")
    about = asdict(found)
    text = about.pop("text")
    check_visible(text, "it holds no text")
    write_frame(replies, {"event": "text", **about})
    for at in range(0, len(text), PIECE):
        write_frame(replies, {"event": "piece", "text": text[at : at + PIECE]})


@contextmanager
def _told_of(kind: FileKind, *, own: bool) -> Iterator[None]:
    """Name the reader in what it raises, and advise what helps with a file of its kind."""
    try:
        yield
    except (Unreadable, MemoryError, RecursionError):
        raise
    except ImportError as error:
        from catena.model.errors import pip_install

        what = f"its reader, {kind.reader}, cannot be loaded ({reason(error)})"
        raise Unreadable("unsupported", what, kind.install and pip_install(kind.install)) from None
    except Exception as error:
        if not own:
            what = f"its reader, {kind.reader}, which was registered, raised {reason(error)}"
            raise Unreadable("malformed", what, "mending that reader, or another file") from None
        if kind.paged:
            raise
        raise Unreadable("malformed", f"it cannot be read ({reason(error)})", SAVE_ANEW) from None


def bytes_of(path: str, at_most: int) -> bytes:
    """Return the bytes of a regular file; a pipe or a device, which may never end, is not opened.

    Args:
        path: the file, absolute: this process may be in another folder than the one that asks.
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
        what = f"it cannot be opened ({error.strerror})"
        raise Unreadable("malformed", what, "copying it to another disk") from None
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


def _closed() -> Unreadable:
    return Unreadable("malformed", "you may not read it", "giving yourself leave to read it")


def cap_memory(memory_bytes: int) -> None:
    """Let the system refuse this process more memory, and leave no dump of it, where the platform can."""
    if resource is not None:
        _cap(resource.RLIMIT_AS, memory_bytes)
        _cap(resource.RLIMIT_CORE, 0)


def cap_seconds(seconds: float) -> None:
    """Let the system end this process when it computes for longer than `seconds` from now, where the platform can.

    The parent's clock comes first; this one ends a process whose parent is gone.
    """
    if resource is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        _cap(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + min(seconds, LONGEST)) + 2)


def _cap(what: int, soft: int) -> None:
    hard = resource.getrlimit(what)[1]
    try:
        resource.setrlimit(what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
    except (ValueError, OSError):  # macOS refuses an address-space cap
        return


def _waited(requests: IO[bytes]) -> bool:
    """Return whether a request, or the end of the pipe, came in time."""
    if os.name != "posix":  # select takes sockets only: wait for as long as the parent lives
        return True
    return bool(select.select([requests], [], [], IDLE_SECONDS)[0])


def main() -> None:
    """Keep the real standard output for frames, so that no library can write between them."""
    logging.disable(logging.CRITICAL)
    replies = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    serve(os.fdopen(os.dup(0), "rb", buffering=0), replies)


if __name__ == "__main__":
    main()

"""The reading process: `python -m catena.parsing.worker` reads untrusted files under limits.

It takes one request after the other on standard input (a JSON frame, then the file's bytes), and answers on
standard output with one frame a page. It opens no file, no socket and starts no process; whatever a file
does to it, the parent only sees data, or the end of the pipe.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Iterator, Mapping
from typing import IO, Any

from catena.parsing.wire import read_bytes, read_frame, write_frame

IDLE_SECONDS = 60.0  # without a request, after which the process ends by itself

Event = Mapping[str, Any]


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Answer requests until the pipe ends or none has come for a while."""
    while _waited(requests):
        frame = read_frame(requests)
        data = read_bytes(requests, sys.maxsize) if frame else None
        if frame is None or data is None:
            return
        request, _ = frame
        cap_resources(float(request["seconds"]), int(request["memory_bytes"]))
        if not _answer(request, data, replies):
            return


def _answer(request: Mapping[str, Any], data: bytes, replies: IO[bytes]) -> bool:
    """Send the events of one file; return whether this process may go on to the next one."""
    from catena.parsing.failures import failure_of

    try:
        for event in _read(request, data):
            write_frame(replies, event)
    except Exception as error:  # whatever a parser raises is named here, and nowhere else
        state, what, do_next = failure_of(error)
        del error
        write_frame(replies, {"event": "failed", "state": state, "what": what, "do_next": do_next})
        return state not in {"memory", "too-deep"}  # what is left of the process is not worth trusting
    write_frame(replies, {"event": "end"})
    return True


def _read(request: Mapping[str, Any], data: bytes) -> Iterator[Event]:
    if request["kind"] == "html":
        from catena.parsing.hypertext import read_html

        return read_html(data)
    if request["kind"] == "latex":
        from catena.parsing.latex import read_latex

        return read_latex(data)
    if request["engine"] == "pypdfium2":
        from catena.parsing.pdf_pypdfium2 import read_pdf as read_with_pdfium

        options = (request["password"], int(request["pages"]), bool(request["ruled_tables"]))
        return read_with_pdfium(data, *options, float(request["figure_dpi"]))
    from catena.parsing.pdf_pypdf import read_pdf

    return read_pdf(data, request["password"], int(request["pages"]), bool(request["ruled_tables"]))


def cap_resources(seconds: float, memory_bytes: int) -> None:
    """Let the system end this process when it takes too much, where the platform can."""
    try:
        import resource
    except ImportError:  # not on Windows: there the parent's clock is the only cap
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = int(used.ru_utime + used.ru_stime + seconds) + 2
    for what, soft in ((resource.RLIMIT_CPU, cpu), (resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(what)[1]
        try:
            resource.setrlimit(what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
        except (ValueError, OSError):  # macOS refuses an address-space cap
            continue


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
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    serve(requests, replies)


if __name__ == "__main__":
    main()

"""The reading process: `python -m catena.parsing.worker` reads untrusted files under limits.

It takes one request after the other on standard input (a frame: what is asked, and the file's bytes), and answers
on standard output with one frame a page. It opens the file that a request names, and no other, opens no socket and
starts no process; whatever a file does to it, the parent only sees data, or the end of the pipe.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Iterator, Mapping
from typing import IO, Any

from catena.parsing.limits import LONGEST, PAGE_BYTES, Limits
from catena.parsing.wire import read_frame, write_frame

IDLE_SECONDS = 60.0  # without a request, after which the process ends by itself
PIECE = 4_000_000  # characters of a text in one frame

Event = Mapping[str, Any]


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
            from catena.parsing.opening import bytes_of

            cap_seconds(limits.seconds)
            write_frame(replies, {"event": "bytes"}, bytes_of(request["path"], limits.bytes))
        else:
            _send_document(request, request.get("data", b""), limits, replies)
    except Exception as error:  # whatever a parser raises is named here, and nowhere else
        from catena.parsing.failures import failure_of

        state, what, do_next = failure_of(error)
        del error
        write_frame(replies, {"event": "failed", "state": state, "what": what, "do_next": do_next})
        return state not in {"memory", "too-deep"}  # what is left of the process is not worth trusting
    write_frame(replies, {"event": "end"})
    return True


def _send_document(request: Mapping[str, Any], data: bytes, limits: Limits, replies: IO[bytes]) -> None:
    from catena.parsing.sniff import kind_of

    cap_seconds(limits.seconds)
    kind = kind_of(data, request["name"])
    if kind == "pdf":
        for event in _read_pdf(request, data, limits):
            write_frame(replies, event)
            replies.flush()
            cap_seconds(limits.seconds)
        return
    if len(data) > PAGE_BYTES:
        write_frame(replies, {"event": "long"})
        replies.flush()
        cap_seconds(limits.of_text(len(data)))
    found = _read_text(kind, data)
    text = found.pop("text")
    write_frame(replies, {"event": "text", **found})
    for at in range(0, len(text), PIECE):
        write_frame(replies, {"event": "piece", "text": text[at : at + PIECE]})


def _read_text(kind: str, data: bytes) -> dict[str, Any]:
    """Return the text of a file without pages, its title, encoding, media type and notes."""
    if kind == "html":
        from catena.parsing.hypertext import read_html

        return read_html(data)
    if kind == "latex":
        from catena.parsing.latex import read_latex

        return read_latex(data)
    from catena.parsing.text import read_markdown, read_plain

    return read_markdown(data) if kind == "markdown" else read_plain(data)


def _read_pdf(request: Mapping[str, Any], data: bytes, limits: Limits) -> Iterator[Event]:
    from catena.parsing.pdf_reading import read_pdf

    return read_pdf(
        data,
        request["password"],
        limits.pages,
        first=int(request["first"]),
        ruled_tables=bool(request["ruled_tables"]),
        engine=str(request["engine"]),
        figure_dpi=float(request["figure_dpi"]),
        hidden_text=bool(request["hidden_text"]),
    )


def cap_memory(memory_bytes: int) -> None:
    """Let the system refuse this process more memory, and leave no dump of it, where the platform can."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    _cap(resource.RLIMIT_AS, memory_bytes)
    _cap(resource.RLIMIT_CORE, 0)


def cap_seconds(seconds: float) -> None:
    """Let the system end this process when it computes for longer than `seconds` from now, where the platform can.

    The parent's clock comes first; this one ends a process whose parent is gone.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    _cap(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + min(seconds, LONGEST)) + 2)


def _cap(what: int, soft: int) -> None:
    import resource

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
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    serve(requests, replies)


if __name__ == "__main__":
    main()

"""Ask a reading process: start it, send a file, take events until it ends or time is up."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from functools import partial
from itertools import count
from time import monotonic
from typing import Any, TypeVar

from catena.parsing.protocol import LONGEST, Limits, Unreadable, part_of, read_frame, write_frame

T = TypeVar("T")

SPENDING = frozenset({"memory", "too-deep"})  # states after which a process ends itself: see `worker`
MAX_REPLY_BYTES = 400_000_000  # of all frames of one file

# What the child needs from the environment; keys and tokens of the caller stay out of a process that reads
# untrusted files.
_ENVIRONMENT = (
    "PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "SYSTEMROOT",
    "TEMP", "TMP", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "PYTHONHOME", "PYTHONUTF8",
)  # fmt: skip


class ProcessGoneError(Exception):
    """An idle process had ended by itself before it took the request: a new one will take it."""


class FileClock:
    """The time of one file, as `Limits` grants it: for the step that is going on, and for the whole.

    Attributes:
        due: when the time is up, in seconds of `time.monotonic`.
    """

    def __init__(self, limits: Limits, size: int) -> None:
        self._limits, self._size, self._begun = limits, size, monotonic()
        self._whole = self._step = limits.seconds
        self._pages = 0
        self.next_step()

    def next_step(self) -> None:
        """Begin the time of a step: the whole may be up before it."""
        self.due = min(monotonic() + self._step, self._begun + self._whole)

    def heard(self, event: Mapping[str, Any]) -> None:
        """Begin a new step; what the file is found to be says how long the whole may take."""
        if event["event"] == "start":
            self._pages = int(event["pages"])
            self._whole = self._limits.of_pages(self._pages)
        elif event["event"] == "long":
            self._whole = self._step = self._limits.of_text(self._size)
        self.next_step()

    @property
    def is_over(self) -> bool:
        """True when the time of the whole is up."""
        return monotonic() >= self._begun + self._whole

    def told(self) -> tuple[str, str]:
        """Return which time was up, and what to do next."""
        limits = self._limits
        if not self.is_over or self._whole == limits.seconds:
            return f"it was not read within {limits.seconds:g} s", "a higher Limits(seconds=...)"
        shares = f"{limits.seconds:g} s, and {limits.seconds_per_page:g} s for each of its {self._pages} pages"
        what = f"it was not read within {self._whole:g} s" + (f" ({shares})" if self._pages else "")
        return what, "a higher Limits(seconds_per_page=...)"


class _Watch:
    """Kills a child whose time is up: one thread a child, because starting one a file takes longer than a short file.

    The thread sleeps until the time that it saw last; a later one costs an assignment only.
    """

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child, self._lock, self._wake = child, threading.Lock(), threading.Event()
        self._due = self._looks_at = float("inf")
        self._ended = self.expired = False
        threading.Thread(target=self._run, name="catena-reading-clock", daemon=True).start()

    def set(self, due: float) -> None:
        """Let the child live until `due`, in seconds of `time.monotonic`."""
        with self._lock:
            self._due = due
            if due < self._looks_at:
                self._wake.set()

    def end(self) -> None:
        """Stop watching: the child is gone."""
        self._ended = True
        self._wake.set()

    def _run(self) -> None:
        while not self._ended:
            with self._lock:
                self._wake.clear()
                now = monotonic()
                if now >= self._due and not self.expired:
                    self.expired = True
                    self._child.kill()
                self._looks_at = float("inf") if self.expired else self._due
                wait = self._looks_at - now
            self._wake.wait(min(wait, LONGEST))


class ReadingProcess:
    """One child process; it reads one file after the other until it is closed, killed or idle for long."""

    def __init__(self) -> None:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        environment["PYTHONHASHSEED"] = "0"
        # -P: a file named like a module in the working directory must not be imported
        command = [sys.executable, "-P", "-W", "ignore", "-m", "catena.parsing.worker"]
        self._owner = os.getpid()
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self._child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, env=environment)
        self._watch = _Watch(self._child)

    @property
    def id(self) -> int:
        """The number that the system gave it."""
        return self._child.pid

    @property
    def usable(self) -> bool:
        """True while it runs and was started by this process, not by one that this one was forked from."""
        return self._owner == os.getpid() and self._child.poll() is None

    def close(self) -> None:
        """End the process; harmless when it has ended."""
        self._watch.end()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # unsent bytes of a request that a killed child never took
                    continue
        if self._owner == os.getpid():
            self._child.kill()
            self._child.wait()

    def events(self, request: Mapping[str, Any], data: bytes, clock: FileClock) -> Iterator[dict[str, Any]]:
        """Yield what the child says about one file, "end" or "failed" last; raw bytes are under "data".

        When the child is killed, by the clock or by the system, a "failed" event says so.

        Raises:
            ProcessGoneError: it had ended by itself before it took the request.
            Unreadable: it sends more than any document holds.
        """
        child, watch = self._child, self._watch
        assert child.stdin is not None
        assert child.stdout is not None
        taken = 0
        try:
            watch.set(clock.due)
            write_frame(child.stdin, request, data)
            child.stdin.flush()
            while (frame := read_frame(child.stdout, MAX_REPLY_BYTES)) is not None:
                event, size = frame
                taken += size
                if taken > MAX_REPLY_BYTES:
                    raise Unreadable("bomb", f"its text is larger than {MAX_REPLY_BYTES} bytes")
                clock.heard(event)
                watch.set(clock.due)
                yield event
                if event["event"] in {"end", "failed"}:
                    return
        except (OSError, ValueError):  # a broken pipe or a broken frame: the child is gone or not to be trusted
            child.kill()
        finally:
            watch.set(float("inf"))
        child.wait()
        if child.returncode == 0 and not taken and not watch.expired:
            raise ProcessGoneError
        yield {"event": "failed", "ended": True, **_ended(child.returncode, watch.expired, clock)}


def _ended(code: int, expired: bool, clock: FileClock) -> dict[str, str]:
    """Return state, reason and advice for a child that ended in the middle of a file."""
    cpu = getattr(signal, "SIGXCPU", None)
    if expired or (cpu is not None and code == -cpu):
        what, do_next = clock.told()
        return {"state": "timeout", "what": what, "do_next": do_next}
    if code in {-getattr(signal, "SIGKILL", 9), -signal.SIGABRT}:  # PDFium aborts where Python raises MemoryError
        what = "the reading process was ended, most likely for its memory"
        return {"state": "memory", "what": what, "do_next": "a higher Limits(memory_bytes=...), or more memory"}
    what = f"the reading process ended with code {code}"
    return {"state": "malformed", "what": what, "do_next": "opening it in a viewer and printing it to a new PDF"}


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pool:
    """Idle reading processes, kept because starting one takes longer than reading a short file.

    Each call takes one for itself, so threads do not wait for each other; at most `keep` are kept idle.
    """

    def __init__(self, keep: int = 1) -> None:
        self._keep = keep
        self._idle: list[ReadingProcess] = []
        self._lock = threading.Lock()

    def take(self) -> ReadingProcess:
        """Return an idle process, or a new one."""
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.usable:
                    return process
                process.close()
        return ReadingProcess()

    def give_back(self, process: ReadingProcess) -> None:
        """Keep a process for the next file, or end it."""
        with self._lock:
            if process.usable and len(self._idle) < self._keep:
                self._idle.append(process)
                return
        process.close()

    def close(self) -> None:
        """End all idle processes."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()


def in_background(work: Callable[[], T]) -> Future[T]:
    """Do some work in a thread of its own, which does not keep the program from ending."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # whoever asks for the result is told
            done.set_exception(error)

    threading.Thread(target=run, daemon=True, name="catena-reading").start()
    return done


def ask(
    pool: Pool,
    request: Mapping[str, Any],
    data: bytes,
    limits: Limits,
    *,
    workers: int = 1,
    on_page: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Return all events of one file; those of its pages part by part, each from a process of its own.

    Args:
        pool: of the processes.
        request: what is asked.
        data: the file.
        limits: of each process, and of the time of each part.
        workers: processes at once, where there are pages enough.
        on_page: told how many pages are read, and of how many; also by other threads.

    Raises:
        Unreadable: no process could be started, or one sent more than any document holds.
    """
    others: list[Future[list[dict[str, Any]]]] = []
    read = count(1)
    pages = 0

    def of_part(part: int, heard: Callable[[Mapping[str, Any]], None]) -> list[dict[str, Any]]:
        return _asked_part(pool, {**request, "part": (part, workers)}, data, limits, heard)

    def heard(event: Mapping[str, Any]) -> None:
        if event["event"] == "page" and on_page is not None:
            on_page(next(read), pages)

    def first_heard(event: Mapping[str, Any]) -> None:
        nonlocal pages
        if event["event"] == "start" and not pages:
            pages = int(event["pages"])
            parts = [part for part in range(1, workers) if part_of(pages, part, workers)]
            others.extend(in_background(partial(of_part, part, heard)) for part in parts)
        heard(event)

    parts = [of_part(0, first_heard), *(each.result() for each in others)]
    end = next((events[-1] for events in parts if events[-1]["event"] == "failed"), parts[-1][-1])
    more = [event for events in parts[1:] for event in events[:-1] if event["event"] != "start"]
    return [*parts[0][:-1], *more, end]


def _asked_part(
    pool: Pool, request: Mapping[str, Any], data: bytes, limits: Limits, heard: Callable[[Mapping[str, Any]], None]
) -> list[dict[str, Any]]:
    """Return all events of one part of a file, with the end of its process last.

    Where a process dies or says nothing for too long after a file's pages were counted, another one reads on: at
    the page at which the first one died, or past it where that page itself took too long or ended two processes.
    Such a page has an "unread" event.
    """
    clock, events = FileClock(limits, len(data)), []
    asked = {**request, "limits": asdict(limits), "first": 1}
    while True:
        got = _asked(pool, asked, data, clock, heard)
        end = got[-1]
        events += got[:-1]
        at = None if clock.is_over else _stopped_at(got, asked["first"], asked["part"])
        if at is None:
            return [*events, end]
        if end["state"] == "timeout" or at == asked["first"]:  # else memory that all the pages before it took
            events.append({**end, "event": "unread", "number": at})
            at += 1
        if asked.get("figure_dpi"):  # they are looked for when the last page was read, by the process that read them
            why = f"figures of the pages from 1 to {at - 1} may be missing: {end['what']}"
            events.append({"event": "no-figure", "page": at - 1, "why": why})
        asked["first"] = at
        clock.next_step()


def _stopped_at(events: Sequence[Mapping[str, Any]], first: int, part: tuple[int, int]) -> int | None:
    """Return the page at which a process ended that began with page `first`; None where another would not help."""
    start = next((event for event in events if event["event"] == "start"), None)
    if start is None or not (events[-1].get("ended") or events[-1].get("state") == "memory"):
        return None
    own = part_of(int(start["pages"]), *part)
    pages = [int(event["number"]) for event in events if event["event"] == "page"]
    at = max(pages) + 1 if pages else max(first, own.start)
    return at if at < own.stop else None


def _asked(
    pool: Pool, request: Mapping[str, Any], data: bytes, clock: FileClock, heard: Callable[[Mapping[str, Any]], None]
) -> list[dict[str, Any]]:
    """Return all events of one request, which one process answers."""
    while True:
        try:
            process = pool.take()
        except OSError as error:
            what = f"no process could be started to read it ({type(error).__name__})"
            raise Unreadable("limit", what, "closing other programs") from None
        try:
            events = []
            for event in process.events(request, data, clock):
                events.append(event)
                heard(event)
        except ProcessGoneError:
            process.close()
            continue
        except BaseException:
            process.close()  # interrupted in the middle of a file: its next words would be about this one
            raise
        if events[-1].get("state") in SPENDING:
            process.close()
        else:
            pool.give_back(process)
        return events


POOL = Pool(keep=cores())
atexit.register(POOL.close)

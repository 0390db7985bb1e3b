"""The parent's side of the reading process: start it, send a file, take events until it ends or time is up."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from catena.parsing.failures import Unreadable
from catena.parsing.limits import Limits
from catena.parsing.wire import read_frame, write_bytes, write_frame

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


class ReadingProcess:
    """One child process; it reads one file after the other until it is closed, killed or idle for long."""

    def __init__(self) -> None:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        environment["PYTHONHASHSEED"] = "0"
        # -P: a file named like a module in the working directory must not be imported
        command = [sys.executable, "-P", "-W", "ignore", "-m", "catena.parsing.worker"]
        self._owner = os.getpid()
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    @property
    def id(self) -> int:
        """The number that the system gave it."""
        return self._child.pid

    @property
    def usable(self) -> bool:
        """Whether it runs and was started by this process, not by one that this one was forked from."""
        return self._owner == os.getpid() and self._child.poll() is None

    def close(self) -> None:
        """End the process; harmless when it has ended."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # unsent bytes of a request that a killed child never took
                    continue
        if self._owner == os.getpid():
            self._child.kill()
            self._child.wait()

    def events(self, request: Mapping[str, Any], data: bytes, limits: Limits) -> Iterator[dict[str, Any]]:
        """Yield what the child says about one file, "end" or "failed" last.

        When the child is killed, by the clock or by the system, a "failed" event says so.

        Raises:
            ProcessGoneError: it had ended by itself before it took the request.
            Unreadable: it sends more than any document holds.
        """
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            child.kill()

        clock = threading.Timer(limits.seconds, expire)
        clock.daemon = True
        clock.start()
        taken = 0
        try:
            write_frame(child.stdin, request)
            write_bytes(child.stdin, data)
            while (frame := read_frame(child.stdout)) is not None:
                event, size = frame
                taken += size
                if taken > MAX_REPLY_BYTES:
                    raise Unreadable("bomb", f"its text is larger than {MAX_REPLY_BYTES} bytes")
                yield event
                if event["event"] in {"end", "failed"}:
                    return
        except (OSError, ValueError):  # a broken pipe or a broken frame: the child is gone or not to be trusted
            child.kill()
        finally:
            clock.cancel()
        child.wait()
        if child.returncode == 0 and not taken and not expired.is_set():
            raise ProcessGoneError
        yield {"event": "failed", **_ended(child.returncode, expired.is_set(), limits)}


def _ended(code: int, expired: bool, limits: Limits) -> dict[str, str]:
    """Return state, reason and advice for a child that ended in the middle of a file."""
    cpu = getattr(signal, "SIGXCPU", None)
    if expired or (cpu is not None and code == -cpu):
        what = f"it was not read within {limits.seconds:g} s"
        return {"state": "timeout", "what": what, "do_next": "a higher Limits(seconds=...)"}
    if code in {-getattr(signal, "SIGKILL", 9), -signal.SIGABRT}:  # PDFium aborts where Python raises MemoryError
        what = "the reading process was ended, most likely for its memory"
        return {"state": "memory", "what": what, "do_next": "a higher Limits(memory_bytes=...), or more memory"}
    what = f"the reading process ended with code {code}"
    return {"state": "malformed", "what": what, "do_next": "opening it in a viewer and printing it to a new PDF"}


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


def ask(pool: Pool, request: Mapping[str, Any], data: bytes, limits: Limits) -> list[dict[str, Any]]:
    """Return all events of one file.

    Raises:
        Unreadable: no process could be started, or it sent more than any document holds.
    """
    caps = {"seconds": limits.seconds, "memory_bytes": limits.memory_bytes, "pages": limits.pages}
    while True:
        try:
            process = pool.take()
        except OSError as error:
            what = f"no process could be started to read it ({type(error).__name__})"
            raise Unreadable("limit", what, "closing other programs") from None
        try:
            events = list(process.events({**request, **caps}, data, limits))
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


POOL = Pool()
atexit.register(POOL.close)

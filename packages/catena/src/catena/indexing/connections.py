"""Connections to the truth: consistent reads side by side, one write at a time, failures by our names."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from catena.errors import DamagedLibraryError, LibraryBusyError, LibraryError
from catena.indexing import schema
from catena.indexing.lock import WriterLock


class Connections:
    """Idle connections are kept for the next caller, so that each thread reads in a transaction of its own."""

    def __init__(self, path: Path, *, timeout: float, read_only: bool) -> None:
        self.path, self.read_only = path, read_only
        self._timeout = timeout
        self._lock = WriterLock(path, timeout=timeout)
        self._guard = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    @contextmanager
    def reading(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Give a connection that sees one state until the block ends, and that state's generation."""
        with self.connection() as connection, named(self.path), schema.snapshot(connection) as generation:
            yield connection, generation

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[sqlite3.Connection]:
        """Give a connection while no one else writes, in this process or another.

        Raises:
            LibraryError: the library was opened on a folder that cannot be written.
            LibraryBusyError: another writer did not finish within the timeout; at once where `wait` is False.
        """
        if self.read_only:
            raise LibraryError(str(self.path), "the folder cannot be written; nothing was changed", "a copy of it")
        lock = self._lock if wait else WriterLock(self.path, timeout=0.0)
        with lock.held(), self.connection() as connection, named(self.path):
            yield connection

    def close(self) -> None:
        """Close what is idle; connections in use are closed by their users' blocks."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Give a connection without a transaction."""
        with self._guard:
            if self._closed:
                raise LibraryError(str(self.path), "it is closed", "Library.open")
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = schema.connect(self.path, timeout=self._timeout, read_only=self.read_only)
        try:
            yield connection
        except BaseException:
            connection.close()  # whatever state it is in, no one meets it again
            raise
        with self._guard:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Turn SQLite's exceptions into ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise LibraryBusyError(str(path), "another process is writing; nothing was changed", "again") from None
        if "full" in text:
            what = "the disk is full; nothing of this call was stored, all earlier documents are kept"
            raise LibraryError(str(path), what, "again with more space") from None
        raise LibraryError(str(path), f"SQLite failed ({text}); nothing of this call was stored") from None
    except sqlite3.DatabaseError as error:
        what = f"{schema.FILE} is damaged or not a database ({error}); nothing was touched"
        raise DamagedLibraryError(str(path), what, "a backup, or index the sources anew") from None

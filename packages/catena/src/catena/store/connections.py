"""Connections to the truth: consistent reads side by side, one write at a time, failures by our names."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from catena.model.errors import CatenaError, DamagedLibraryError, LibraryBusyError, LibraryError
from catena.store import records, schema
from catena.store.lock import WriterLock


class _Generation(Protocol):
    @property
    def generation(self) -> int: ...


G = TypeVar("G", bound=_Generation)


class Connections:
    """Idle connections are kept for the next caller, so that each thread reads in a transaction of its own."""

    def __init__(self, path: Path, *, timeout: float, read_only: bool) -> None:
        self.path, self.read_only, self.timeout = path, read_only, timeout
        self._lock = WriterLock(path, timeout=timeout)
        self._guard = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    @contextmanager
    def reading(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Give a connection that sees one state until the block ends, and that state's generation.

        Inside of a question (see `Snapshot`) it is the state that the question sees.
        """
        snapshot = self.active()
        if snapshot is not None:
            with as_written(self.path), snapshot.reading() as (connection, held):
                yield connection, held.generation
            return
        with self.present() as found:
            yield found

    @contextmanager
    def present(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        """As `reading`, of the present state even inside of a question: for what decides what is written."""
        looking = as_written(self.path)
        with looking, self.connection() as connection, named(self.path), schema.snapshot(connection) as generation:
            yield connection, generation

    def active(self) -> Snapshot[Any] | None:
        """Return the snapshot of the question that this thread, or this task, is at work on; None outside of one."""
        return next((each for each in _ACTIVE.get() if each.connections is self and not each.is_closed), None)

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
        connection = self.take()
        try:
            yield connection
        except BaseException:
            connection.close()  # whatever state it is in, no one meets it again
            raise
        self.give_back(connection)

    def take(self) -> sqlite3.Connection:
        """Return a connection without a transaction, for `give_back`."""
        with self._guard:
            if self._closed:
                raise LibraryError(str(self.path), "it is closed", "Library.open")
            connection = self._idle.pop() if self._idle else None
        return connection or schema.connect(self.path, timeout=self.timeout, read_only=self.read_only)

    def give_back(self, connection: sqlite3.Connection) -> None:
        """Keep a connection for the next caller."""
        with self._guard:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()


class Snapshot(Generic[G]):
    """One state of a library for all that a question reads, in whatever threads it does so; the first read opens it.

    A read transaction of SQLite, and beside it what was derived from that state. It hinders no writer; what others
    write meanwhile stays in SQLite's log until it is closed. Several threads may read from it at once.

    Args:
        connections: to the truth.
        opened: given a connection, begins a transaction there, and returns what is derived from the state it sees.
    """

    def __init__(self, connections: Connections, opened: Callable[[sqlite3.Connection], G]) -> None:
        self.connections, self.is_closed = connections, False
        self._opened = opened
        self._guard = threading.Lock()
        self._held: tuple[sqlite3.Connection, G] | None = None
        self._readers = 0

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let all reads of this thread, or this task, and of those that it starts, see this state."""
        token = _ACTIVE.set((self, *_ACTIVE.get()))
        try:
            yield
        finally:
            _ACTIVE.reset(token)

    @contextmanager
    def reading(self) -> Iterator[tuple[sqlite3.Connection, G]]:
        """Give the connection and what is derived, for reading alone."""
        with named(self.connections.path):
            with self._guard:
                held = self._held or self._open()
                self._readers += 1
            try:
                yield held
            finally:
                with self._guard:
                    self._readers -= 1
                    self._release_if_over()

    @property
    def is_open(self) -> bool:
        """Whether anything was read."""
        return self._held is not None

    def close(self) -> None:
        """End the transaction, as soon as nobody reads from it."""
        with self._guard:
            self.is_closed = True
            self._release_if_over()

    def _open(self) -> tuple[sqlite3.Connection, G]:
        connection = self.connections.take()
        try:
            self._held = connection, self._opened(connection)
        except BaseException:
            connection.close()
            raise
        return self._held

    def _release_if_over(self) -> None:
        if not self.is_closed or self._readers or self._held is None:
            return
        (connection, _), self._held = self._held, None
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            connection.close()
        else:
            self.connections.give_back(connection)


_ACTIVE: ContextVar[tuple[Snapshot[Any], ...]] = ContextVar("snapshots", default=())


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Turn SQLite's exceptions into ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if any(sign in text for sign in _DAMAGED):
            raise _damaged(path, text) from None
        if "locked" in text or "busy" in text:
            raise LibraryBusyError(str(path), "another process is writing; nothing was changed", "again") from None
        if "full" in text:
            what = "the disk is full; nothing of this call was stored, all earlier documents are kept"
            raise LibraryError(str(path), what, "again with more space") from None
        raise LibraryError(str(path), f"SQLite failed ({text}); nothing of this call was stored") from None
    except sqlite3.DatabaseError as error:
        raise _damaged(path, str(error)) from None


@contextmanager
def as_written(path: Path) -> Iterator[None]:
    """Call whatever is raised, while rows are read, because they are not what was written, damage of the library."""
    try:
        yield
    except CatenaError:
        raise
    except records.OF_DAMAGE as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from None


def _damaged(path: Path, what: str) -> DamagedLibraryError:
    whole = f"{schema.FILE} is damaged or not a database ({what}); nothing was touched"
    return DamagedLibraryError(str(path), whole, "a backup, or index the sources anew")


_DAMAGED = ("no such table", "no such column", "decode", "malformed")  # how SQLite names rows that nobody wrote

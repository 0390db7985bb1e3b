"""Open the truth and connect to it: consistent reads side by side, one write at a time, failures by our names."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from catena.model.errors import CatenaError, DamagedLibraryError, LibraryBusyError, LibraryError
from catena.store import records, schema

_ACTIVE: ContextVar[tuple[Snapshot[Any], ...]] = ContextVar("snapshots", default=())
_DAMAGED = ("no such table", "no such column", "decode", "malformed")  # how SQLite names rows that nobody wrote
_PAGE = 512  # bytes, the smallest that SQLite writes: it takes a shorter file for an empty one
_LIBRARY = "the folder of a library; catena index FILES --library PATH makes one where there is nothing"
_EMPTY = "an empty folder, or a path where there is nothing"
_OPEN = "a path that you may read and write"


class WriterLock:
    """An exclusive lock on a folder, with the process id of its holder beside it.

    The lock is SQLite's own on an empty database: portable, and gone with the process that held it, so that
    a kill leaves nothing to clean up.
    """

    def __init__(self, folder: Path, *, timeout: float) -> None:
        self._folder, self._timeout = folder, timeout
        self._file, self._holder = folder / "lock.sqlite", folder / "writer.pid"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock for a `with` block.

        Raises:
            LibraryBusyError: another holder kept it for longer than the timeout (seconds).
        """
        try:
            connection = sqlite3.connect(self._file, timeout=self._timeout, isolation_level=None)
        except sqlite3.Error as error:
            raise LibraryError(
                str(self._folder), f"the lock file cannot be opened ({error})", "leave to write there, or a copy"
            ) from None
        with closing(connection):
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                raise self._refusal(error) from None
            with suppress(OSError):  # the name of the holder is a courtesy; the lock is what counts
                self._holder.write_text(str(os.getpid()), encoding="ascii")
            yield

    def _refusal(self, error: sqlite3.Error) -> LibraryError:
        if "locked" not in str(error):
            return LibraryError(
                str(self._folder), f"the lock cannot be taken ({error})", "leave to write there, or a copy"
            )
        with suppress(OSError, ValueError):
            pid = int(self._holder.read_text(encoding="ascii"))
            if pid != os.getpid():
                return self._busy(f"process {pid}", f"waiting until process {pid} has ended, or stopping it")
            return self._busy("another thread of this process", "again when that thread has finished")
        return self._busy("another process", "waiting until that process has ended, or stopping it")

    def _busy(self, who: str, do_next: str) -> LibraryBusyError:
        what = f"{who} has been writing for {self._timeout:g} s; nothing was changed by this call"
        return LibraryBusyError(str(self._folder), what, do_next)


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
        """True once anything was read."""
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


def check_place(folder: Path, *, create: bool) -> None:
    """Refuse a path that holds anything but a library, before anything is touched."""
    try:
        if folder.is_dir():
            names = {path.name for path in folder.iterdir()}
            if schema.FILE not in names and (names - schema.OURS or not create):
                raise _no_library(
                    folder, "the folder is not a library; nothing was touched", _EMPTY if create else _LIBRARY
                )
        elif folder.exists():
            raise _no_library(
                folder, "this is a file, a library is a folder; nothing was touched", _EMPTY if create else _LIBRARY
            )
        elif not create:
            raise _no_library(folder, "there is nothing", "create=True")
        else:
            folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise _no_library(folder, f"the path cannot be used ({error})", _OPEN) from None


def _no_library(folder: Path, what: str, do_next: str) -> LibraryError:
    error = LibraryError(str(folder), what, do_next)
    error.kept = "everything as it was: nothing was opened or made"
    return error


def prepare(connections: Connections) -> None:
    """Make the tables where there are none yet, and check their version."""
    path = connections.path
    with named(path):
        with connections.connection() as connection:
            empty = schema.is_empty(connection)
        if empty:  # a new library, a kill before its tables were made, or another process about to make them
            if (path / "vectors").exists() or (0 < (path / schema.FILE).stat().st_size < _PAGE):
                what = f"{schema.FILE} is empty, though documents were there; nothing was touched"
                raise DamagedLibraryError(str(path), what, "a backup, or index the sources anew")
            with connections.locked() as connection:
                if schema.is_empty(connection):
                    schema.create(connection)
        with connections.connection() as connection:
            older = schema.needs_upgrade(connection)
        if older and not connections.read_only:
            with connections.locked() as connection:
                schema.upgrade(connection)
        with connections.connection() as connection:
            schema.check_version(connection, path)

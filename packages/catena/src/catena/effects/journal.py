"""The journal: every valid reply on disk, so that nothing is asked or paid for twice.

One SQLite file in WAL mode. Each reply is its own transaction, so that a process killed at any point loses at
most the calls in flight; several threads and several processes may share the file. No pickle.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from catena.effects.steps import Request
from catena.model import JournalError, ParameterError, digest

VERSION = 1  # of the file's layout and of the keys
BUSY_SECONDS = 30.0  # how long to wait for another process that is writing


_digest = partial(digest, length=64)  # all of a SHA-256, in hexadecimal


def request_key(identity: str, request: Request) -> str:
    """Return the SHA-256 under which the reply to a request is kept, in hexadecimal.

    It covers the service's identity, the type of request and all its fields that take part in comparison: not
    the purpose, which is for people, nor `validate`.
    """
    return _digest(identity, _fingerprint(request))


def _fingerprint(value: Any) -> str:
    match value:
        case None | bool() | int() | float():
            return _digest(type(value).__name__, repr(value))
        case str() | bytes():
            return _digest(type(value).__name__, value)
        case Enum():
            return _digest(type(value).__name__, value.name)
        case tuple() | list():
            return _digest("sequence", *map(_fingerprint, value))
        case Mapping():
            pairs = sorted((_fingerprint(key), _fingerprint(item)) for key, item in value.items())
            return _digest("mapping", *(part for pair in pairs for part in pair))
    if is_dataclass(value) and not isinstance(value, type):
        shown = [field.name for field in fields(value) if field.compare]
        parts = [part for name in shown for part in (name, _fingerprint(getattr(value, name)))]
        return _digest(type(value).__name__, *parts)
    raise ParameterError("a request's field", value, "text, bytes, numbers, or sequences and mappings of them")


class Journal:
    """Replies by key, on disk.

    Use as a context manager, or close it. One serves all threads of a process; a forked child opens its own.
    """

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = connection
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: str | Path) -> Journal:
        """Open the journal at `path`, or begin a new one there.

        Raises:
            JournalError: the place cannot be written, the file is something else, or of a later version.
        """
        file = Path(path)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            try:
                _prepare(connection, str(path))
            except BaseException:
                connection.close()
                raise
        except (OSError, sqlite3.Error) as error:
            raise _trouble(str(path), error) from None
        return cls(str(path), connection)

    def get(self, key: str) -> bytes | None:
        """Return the payload kept under a key, or None."""
        found = self._execute("SELECT payload FROM replies WHERE key = ?", (bytes.fromhex(key),))
        return next((bytes(payload) for (payload,) in found), None)

    def find(self, identity: str, request: Request) -> tuple[str, bytes | None]:
        """Return a request's key, and the payload kept under it, or None."""
        key = request_key(identity, request)
        return key, self.get(key)

    def put(self, key: str, payload: bytes) -> bytes:
        """Keep a payload and return the one that is kept: the first of two concurrent ones stays."""
        self._execute("INSERT OR IGNORE INTO replies (key, payload) VALUES (?, ?)", (bytes.fromhex(key), payload))
        kept = self.get(key)
        return payload if kept is None else kept

    def forget(self, key: str) -> None:
        """Remove what is kept under a key."""
        self._execute("DELETE FROM replies WHERE key = ?", (bytes.fromhex(key),))

    def count(self) -> int:
        """Return the number of replies kept."""
        ((number,),) = self._execute("SELECT count(*) FROM replies", ())
        return int(number)

    def close(self) -> None:
        """Close the file; every reply is on disk already."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __enter__(self) -> Journal:
        return self

    def __reduce__(self) -> tuple[Callable[[str], Journal], tuple[str]]:
        return Journal.open, (str(Path(self.path).resolve()),)  # another process has a connection of its own

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _execute(self, sql: str, values: tuple[object, ...]) -> list[Any]:
        with self._lock:
            if self._connection is None:
                raise JournalError(self.path, "is closed", "keep it open for as long as the run lasts")
            try:
                return self._connection.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                raise _trouble(self.path, error) from None


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    """Set the modes and create the table; refuse a file that is not a journal of this version."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version not in (0, VERSION) or (tables and "replies" not in tables):
        found = f"a journal of version {version}" if "replies" in tables else "another kind of database"
        raise JournalError(path, f"is {found}, and this release reads version {VERSION}", "another path")
    _to_wal(connection)
    connection.execute("PRAGMA synchronous = NORMAL")  # safe against kills; a power cut may cost the last replies
    if not version:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, payload BLOB NOT NULL)")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")


def _to_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL; SQLite does not wait by itself when two processes do this at the same moment."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


_WHAT_TO_DO = {
    sqlite3.SQLITE_FULL: "free space on the disk and run again: it continues where it stopped",
    sqlite3.SQLITE_IOERR: "check the disk (full, or over a quota?) and run again: it continues where it stopped",
    sqlite3.SQLITE_READONLY: "a directory that can be written",
    sqlite3.SQLITE_CANTOPEN: "a directory that exists and can be written",
    sqlite3.SQLITE_BUSY: "again when the other process has ended",
    sqlite3.SQLITE_NOTADB: "another path, or remove the file",
    sqlite3.SQLITE_CORRUPT: "remove the file (its replies will be asked for again), or restore it from a copy",
}


def _trouble(path: str, error: OSError | sqlite3.Error) -> JournalError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code is the low byte
    what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return JournalError(path, what or type(error).__name__, _WHAT_TO_DO.get(code, "a directory that can be written"))

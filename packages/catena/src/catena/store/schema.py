"""The SQLite file that holds the truth: tables, versions and connections."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from catena.model.errors import CatenaError, DamagedLibraryError, LibraryBusyError, LibraryError
from catena.store import records

_log = logging.getLogger(__name__)

FILE = "library.sqlite"
DRAFT = "graph.new"  # of the folder `graph`, while it is written
DERIVED = frozenset({"lexical", "vectors", "graph", "figures", DRAFT})  # folders
OURS = DERIVED | {FILE, f"{FILE}-wal", f"{FILE}-shm", "lock.sqlite", "writer.pid"}
APPLICATION_ID = 0x43617465  # "Cate", in the file's header: tells a library from any other SQLite file
LONG_LOG = 32 << 20  # bytes
_PATIENCE = 1_000  # milliseconds that a writer waits for readers of older states
VERSION = 6  # of the tables below; a newer file is refused, never guessed at
READABLE = 5  # the oldest version that is read as it is: only who writes there brings it up to date

# Texts are UTF-8 blobs: SQLite's TEXT refuses lone surrogates, which broken files contain. Keys are never
# reused (AUTOINCREMENT), so that a derived index cannot mistake a new row for an old one. What a chunk is found by
# (its text, views, vectors and terms) is written once under its key and never changed: `content` is its hash, and
# `generation` that of the writing. Where it stands may change (id, position, body): last at the generation `placed`.
FIGURES = """CREATE TABLE figures (doc INTEGER NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL,
    digest TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (doc, position)) WITHOUT ROWID;
CREATE INDEX figures_by_digest ON figures (digest);
CREATE TABLE pictures (digest TEXT PRIMARY KEY, png BLOB NOT NULL);
"""
VECTORS = """CREATE TABLE vectors (row INTEGER PRIMARY KEY, chunk INTEGER NOT NULL, kind TEXT NOT NULL,
    digest TEXT NOT NULL, vector BLOB NOT NULL);
CREATE INDEX vectors_by_chunk ON vectors (chunk, kind);
"""
CHANGES = """CREATE TABLE removed (chunk INTEGER PRIMARY KEY, generation INTEGER NOT NULL);
CREATE INDEX removed_by_generation ON removed (generation);
CREATE INDEX chunks_by_generation ON chunks (generation);
"""
LEDGER = """CREATE TABLE ledger (source TEXT NOT NULL, document_id TEXT PRIMARY KEY, body TEXT NOT NULL)
    WITHOUT ROWID;
"""
PLACES = "CREATE INDEX chunks_by_place ON chunks (placed);\n"
TABLES = f"""{FIGURES}
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    doc INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    fingerprint TEXT NOT NULL,
    header TEXT NOT NULL,
    text BLOB NOT NULL,
    view_order TEXT,
    printed BLOB
);
CREATE TABLE sections (doc INTEGER NOT NULL, position INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (doc, position)) WITHOUT ROWID;
CREATE TABLE chunks (
    chunk INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    doc INTEGER NOT NULL,
    position INTEGER NOT NULL,
    body TEXT NOT NULL,
    text BLOB NOT NULL,
    generation INTEGER NOT NULL,
    content TEXT NOT NULL,
    placed INTEGER NOT NULL,
    UNIQUE (doc, position)
);
CREATE TABLE views (view INTEGER PRIMARY KEY, chunk INTEGER NOT NULL, kind TEXT NOT NULL, text BLOB,
    made TEXT NOT NULL);
CREATE INDEX views_by_chunk ON views (chunk);
CREATE INDEX views_by_kind ON views (kind);
{VECTORS}CREATE TABLE terms (chunk INTEGER NOT NULL, position INTEGER NOT NULL, term TEXT NOT NULL,
    PRIMARY KEY (chunk, position)) WITHOUT ROWID;
CREATE INDEX terms_by_term ON terms (term, chunk);
{CHANGES}{PLACES}
{LEDGER}INSERT INTO meta VALUES ('generation', '0');
"""
# From version 2, which knew one vector per chunk and which documents had changed. No derived index of that version is
# trusted, so that it does not matter since when its chunks are there: since generation 1.
FROM_2 = f"""DROP INDEX documents_by_generation;
ALTER TABLE documents DROP COLUMN generation;
ALTER TABLE documents ADD COLUMN view_order TEXT;
ALTER TABLE chunks ADD COLUMN generation INTEGER NOT NULL DEFAULT 1;
ALTER TABLE chunks ADD COLUMN content TEXT NOT NULL DEFAULT '';
ALTER TABLE views ADD COLUMN made TEXT NOT NULL DEFAULT '';
ALTER TABLE vectors RENAME TO older_vectors;
{VECTORS}
INSERT INTO vectors (chunk, kind, digest, vector) SELECT chunk, '', '', vector FROM older_vectors ORDER BY chunk;
DROP TABLE older_vectors;
DROP TABLE removed;
{CHANGES}"""
# From version 3, which did not know since when a chunk stands where it does: only what no version 3 had asks that.
FROM_3 = f"ALTER TABLE chunks ADD COLUMN placed INTEGER NOT NULL DEFAULT 0;\n{PLACES}"
FROM_4 = "ALTER TABLE documents ADD COLUMN printed BLOB"  # where words are printed: of files that are indexed again
# From version 5, whose ledger had one line of a source: as typed, which from two folders may be two files.
FROM_5 = f"""ALTER TABLE ledger RENAME TO older_ledger;
{LEDGER}INSERT OR REPLACE INTO ledger SELECT source, document_id, body FROM older_ledger ORDER BY source;
DROP TABLE older_ledger;
"""
UPGRADES = {1: FIGURES, 2: FROM_2, 3: FROM_3, 4: FROM_4, 5: FROM_5}  # what brings a file of a version to the next


def connect(folder: Path, *, timeout: float, read_only: bool = False) -> sqlite3.Connection:
    """Open the SQLite file; transactions are begun and ended by the caller.

    Raises:
        LibraryError: the file cannot be opened.
    """
    mode = "ro" if read_only else "rwc"
    # Without a write-ahead log there is nothing to recover, and a folder that cannot be written needs no lock.
    settled = "&immutable=1" if read_only and not (folder / f"{FILE}-wal").exists() else ""
    uri = f"{(folder / FILE).absolute().as_uri()}?mode={mode}{settled}"
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = FULL")  # an acknowledged document survives a power cut
    except sqlite3.Error as error:
        do_next = "a backup, or index the sources anew"
        if isinstance(error, sqlite3.OperationalError):
            what = f"{FILE} cannot be opened ({error}); nothing was touched"
            raise LibraryError(str(folder), what, do_next) from None
        what = f"{FILE} is damaged or not a database ({error}); nothing was touched"
        raise DamagedLibraryError(str(folder), what, do_next) from None
    return connection


def create(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file, all or none."""
    connection.execute("PRAGMA journal_mode = WAL")
    with transaction(connection):
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        _execute(connection, TABLES)


def upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a library of an older version to this one, all or nothing, and tell it; leave any other file as it is."""
    if not needs_upgrade(connection):
        return
    with transaction(connection):
        first = _version(connection)
        while needs_upgrade(connection):
            version = _version(connection)
            _execute(connection, UPGRADES[version])
            connection.execute(f"PRAGMA user_version = {version + 1}")
    what = "library %s: its tables were brought from version %d to %d; a Catena that knows no %d cannot open it now"
    _log.warning(what, path, first, VERSION, VERSION)


def needs_upgrade(connection: sqlite3.Connection, oldest: int = VERSION) -> bool:
    """Return whether the file is a library of a version below `oldest`, which `upgrade` brings to this one."""
    return _is_library(connection) and _version(connection) in range(min(UPGRADES), oldest)


def _execute(connection: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";\n"):
        connection.execute(statement)


def _is_library(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def is_empty(connection: sqlite3.Connection) -> bool:
    """Return whether the file holds nothing yet, as after a kill at its very creation."""
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return not tables and not connection.execute("PRAGMA application_id").fetchone()[0]


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `LibraryError` unless the file is a library of a version that this code reads."""
    if not _is_library(connection):
        raise LibraryError(str(path), f"{FILE} is an SQLite file of something else; nothing was touched")
    version = _version(connection)
    if needs_upgrade(connection, READABLE):
        what = f"its tables have version {version} and have to be brought up to date; nothing was touched"
        raise LibraryError(str(path), what, "opening it once where it can be written, or a copy of it")
    if not READABLE <= version <= VERSION:
        what = f"its tables have version {version}, this Catena reads version {VERSION}; nothing was touched"
        raise LibraryError(str(path), what, "a newer Catena" if version > VERSION else "index the sources anew")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit at the end of a `with` block, or undo all of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[int]:
    """Read one consistent state for a `with` block; gives its generation."""
    with reading(connection):
        yield number(connection, "generation")


@contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """Read one consistent state for a `with` block."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def shorten_log(connection: sqlite3.Connection, folder: Path, longest: int = LONG_LOG) -> int:
    """Empty SQLite's write-ahead log where it is longer than `longest` bytes; return the next such length.

    By itself SQLite begins it anew only when nobody reads an older state, which questions that overlap never let
    happen. New ones go on meanwhile; old ones are waited for, but not for long. The caller holds the writer lock.
    """
    with suppress(OSError):
        if (size := (folder / f"{FILE}-wal").stat().st_size) > longest:
            usual = connection.execute("PRAGMA busy_timeout").fetchone()[0]
            connection.execute(f"PRAGMA busy_timeout = {_PATIENCE}")
            is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            connection.execute(f"PRAGMA busy_timeout = {usual}")
            return size + LONG_LOG if is_busy else LONG_LOG
    return longest


def get_meta(connection: sqlite3.Connection, name: str) -> str:
    """Return a value of the meta table, "" where there is none."""
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else ""


def number(connection: sqlite3.Connection, name: str) -> int:
    """Return a whole number of the meta table, 0 where there is none; the generation is always there."""
    value = get_meta(connection, name)
    if not value.isdecimal() and (value or name == "generation"):
        raise sqlite3.DatabaseError(f"the {name} is {value!r}, which is no number")
    return int(value or 0)


def set_meta(connection: sqlite3.Connection, name: str, value: str) -> None:
    """Write a value of the meta table; "" leaves none."""
    if value:
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))
    else:
        connection.execute("DELETE FROM meta WHERE name = ?", (name,))


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
            do_next = "leave to write there, or a copy"
            raise LibraryError(str(self._folder), f"the lock file cannot be opened ({error})", do_next) from None
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
        with looking, self.connection() as connection, named(self.path), snapshot(connection) as generation:
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
        return connection or connect(self.path, timeout=self.timeout, read_only=self.read_only)

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
    whole = f"{FILE} is damaged or not a database ({what}); nothing was touched"
    return DamagedLibraryError(str(path), whole, "a backup, or index the sources anew")


def check_place(folder: Path, *, create: bool) -> None:
    """Refuse a path that holds anything but a library, before anything is touched."""
    try:
        if folder.is_dir():
            names = {path.name for path in folder.iterdir()}
            if FILE not in names and (names - OURS or not create):
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
            empty = is_empty(connection)
        if empty:  # a new library, a kill before its tables were made, or another process about to make them
            if (path / "vectors").exists() or (0 < (path / FILE).stat().st_size < _PAGE):
                what = f"{FILE} is empty, though documents were there; nothing was touched"
                raise DamagedLibraryError(str(path), what, "a backup, or index the sources anew")
            with connections.locked() as connection:
                if is_empty(connection):
                    create(connection)
        with connections.connection() as connection:
            older = needs_upgrade(connection, READABLE)
        if older and not connections.read_only:
            with connections.locked() as connection:
                upgrade(connection, path)
        with connections.connection() as connection:
            check_version(connection, path)

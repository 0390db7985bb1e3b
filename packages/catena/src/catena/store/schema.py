"""The SQLite file that holds the truth: tables, versions and connections."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from catena.model.errors import DamagedLibraryError, LibraryError

FILE = "library.sqlite"
DRAFT = "graph.new"  # of the folder `graph`, while it is written
DERIVED = frozenset({"lexical", "vectors", "graph", "figures", DRAFT})  # folders
OURS = DERIVED | {FILE, f"{FILE}-wal", f"{FILE}-shm", "lock.sqlite", "writer.pid"}
APPLICATION_ID = 0x43617465  # "Cate", in the file's header: tells a library from any other SQLite file
LONG_LOG = 32 << 20  # bytes
_PATIENCE = 1_000  # milliseconds that a writer waits for readers of older states
VERSION = 4  # of the tables below; a newer file is refused, never guessed at

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
PLACES = "CREATE INDEX chunks_by_place ON chunks (placed);\n"
TABLES = f"""{FIGURES}
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    doc INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    fingerprint TEXT NOT NULL,
    header TEXT NOT NULL,
    text BLOB NOT NULL,
    view_order TEXT
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
CREATE TABLE ledger (source TEXT PRIMARY KEY, document_id TEXT NOT NULL, body TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX ledger_by_document ON ledger (document_id);
INSERT INTO meta VALUES ('generation', '0');
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
UPGRADES = {1: FIGURES, 2: FROM_2, 3: FROM_3}  # what brings a file of a version to the next


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


def upgrade(connection: sqlite3.Connection) -> None:
    """Bring a library of an older version to this one, all or nothing; any other file is left as it is."""
    with transaction(connection):
        while needs_upgrade(connection):
            version = _version(connection)
            _execute(connection, UPGRADES[version])
            connection.execute(f"PRAGMA user_version = {version + 1}")


def needs_upgrade(connection: sqlite3.Connection) -> bool:
    """Return whether the file is a library that `upgrade` brings to this version."""
    return _is_library(connection) and _version(connection) in UPGRADES


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
    if version in UPGRADES:
        what = f"its tables have version {version} and have to be brought up to date; nothing was touched"
        raise LibraryError(str(path), what, "opening it once where it can be written, or a copy of it")
    if version != VERSION:
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

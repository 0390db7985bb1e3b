"""Whether what SQLite holds obeys every invariant of a library."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator

from catena.model.errors import LibraryError
from catena.store import listing, records, schema
from catena.store.checks import problems_of, problems_of_view_vectors
from catena.store.figures import problems_of_pictures
from catena.store.writing import contents_of

# What must not be there: rows that belong to nothing, and chunks that lack something.
_IMPOSSIBLE = (
    "typeof({0}) != 'integer' OR {0} NOT BETWEEN {1} AND (SELECT value + 0 FROM meta WHERE name = 'generation')"
)
_RISING = "SELECT generation, max(generation) OVER (ORDER BY chunk) AS newest FROM chunks"  # as their keys do
_ORPHANS = {
    "sections without their document": "sections WHERE doc NOT IN (SELECT doc FROM documents)",
    "chunks without their document": "chunks WHERE doc NOT IN (SELECT doc FROM documents)",
    "views without their chunk": "views WHERE chunk NOT IN (SELECT chunk FROM chunks)",
    "vectors without their chunk": "vectors WHERE chunk NOT IN (SELECT chunk FROM chunks)",
    "terms without their chunk": "terms WHERE chunk NOT IN (SELECT chunk FROM chunks)",
    "chunks without a vector": "chunks WHERE chunk NOT IN (SELECT chunk FROM vectors WHERE kind = '')",
    "figures without their document": "figures WHERE doc NOT IN (SELECT doc FROM documents)",
    "figures without their picture": "figures WHERE digest NOT IN (SELECT digest FROM pictures)",
    "pictures that no figure shows": "pictures WHERE digest NOT IN (SELECT digest FROM figures)",
    "chunks of an impossible generation": f"chunks WHERE {_IMPOSSIBLE.format('generation', 1)}",
    "chunks of an impossible generation, older than the one before": f"({_RISING}) WHERE generation < newest",
    "chunks that moved at an impossible generation": (
        f"chunks WHERE {_IMPOSSIBLE.format('placed', 0)} OR placed BETWEEN 1 AND generation - 1"
    ),  # 0 in a library of an older version
    "removals of an impossible generation": f"removed WHERE {_IMPOSSIBLE.format('generation', 1)}",
    "facts of an unknown name": (
        "meta WHERE name NOT IN ('generation', 'embedder', 'dim') AND name NOT LIKE 'setting %'"
    ),
    "removed chunks that are still there": "chunks WHERE chunk IN (SELECT chunk FROM removed)",
}


def problems_of_truth(
    connection: sqlite3.Connection, progress: Callable[[int, int], None] | None = None
) -> Iterator[str]:
    """Yield every broken invariant of the rows, document by document; `progress` is told how many of how many."""
    yield from told("the tables", _of_tables(connection))
    yield from told("the pictures", problems_of_pictures(connection))
    yield from told("the documents", _of_documents(connection, progress))
    yield from told("what the library tells of itself", _of_listings(connection))


def told(what: str, problems: Iterator[str]) -> Iterator[str]:
    """Yield problems, and as the last one that they cannot be looked for, where rows are not what was written."""
    try:
        yield from problems
    except (sqlite3.Error, LibraryError, *records.OF_DAMAGE) as error:
        yield f"{what} cannot be read: {error}"


def _of_tables(connection: sqlite3.Connection) -> Iterator[str]:
    for (result,) in connection.execute("PRAGMA integrity_check"):
        if result != "ok":
            yield f"SQLite: {result}"
    for what, rows in _ORPHANS.items():
        number = connection.execute(f"SELECT count(*) FROM {rows}").fetchone()[0]
        if number:
            yield f"{number} {what}"


def _of_listings(connection: sqlite3.Connection) -> Iterator[str]:
    listing.documents(connection)
    records.fields(connection)
    rows = connection.execute("SELECT source, document_id FROM ledger").fetchall()
    said = [(json.dumps(outcome.source), outcome.document_id) for outcome in listing.ledger(connection)]
    if sorted(rows) != sorted(said):
        yield "the ledger is not what was stored"


def _of_documents(connection: sqlite3.Connection, progress: Callable[[int, int], None] | None) -> Iterator[str]:
    dim = schema.number(connection, "dim")
    documents = connection.execute("SELECT doc, id FROM documents ORDER BY id").fetchall()
    for done, (doc, document_id) in enumerate(documents, start=1):
        found = told("its rows", _document(connection, doc, dim))
        yield from (f"document {document_id!r}: {problem}" for problem in found)
        if progress is not None:
            progress(done, len(documents))


def _document(connection: sqlite3.Connection, doc: int, dim: int) -> Iterator[str]:
    try:
        entry, vectors = records.read(connection, doc), records.vectors(connection, doc, dim)
    except sqlite3.DatabaseError as error:
        yield str(error)
        return
    (header,) = connection.execute("SELECT header FROM documents WHERE doc = ?", (doc,)).fetchone()
    if "digest" in records.header_of(header) and header != records.header(entry):  # older libraries have none
        yield "it is not what was stored"
    problems = [*problems_of(entry), *problems_of_view_vectors(vectors, entry)]
    yield from problems
    if not problems:
        stored = connection.execute("SELECT content FROM chunks WHERE doc = ? ORDER BY position", (doc,))
        contents = contents_of(entry, vectors)
        for position, ((content,), found) in enumerate(zip(stored, contents, strict=True)):
            if content not in ("", found):  # "" in a library of an older version
                yield f"what chunk {position} is found by is not what was stored"

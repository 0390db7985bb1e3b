"""Whether what SQLite holds obeys every invariant of a library."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import numpy as np

from catena.indexing import records, schema
from catena.indexing.checks import problems_of, problems_of_vectors
from catena.indexing.figures import problems_of_pictures

# What must not be there: rows that belong to nothing, and chunks that lack something.
_ORPHANS = {
    "sections without their document": "sections WHERE doc NOT IN (SELECT doc FROM documents)",
    "chunks without their document": "chunks WHERE doc NOT IN (SELECT doc FROM documents)",
    "views without their chunk": "views WHERE chunk NOT IN (SELECT chunk FROM chunks)",
    "vectors without their chunk": "vectors WHERE chunk NOT IN (SELECT chunk FROM chunks)",
    "terms without their chunk": "terms WHERE chunk NOT IN (SELECT chunk FROM chunks)",
    "chunks without a vector": "chunks WHERE chunk NOT IN (SELECT chunk FROM vectors)",
    "figures without their document": "figures WHERE doc NOT IN (SELECT doc FROM documents)",
    "figures without their picture": "figures WHERE digest NOT IN (SELECT digest FROM pictures)",
    "pictures that no figure shows": "pictures WHERE digest NOT IN (SELECT digest FROM figures)",
    "removed documents that are still there": "documents WHERE doc IN (SELECT doc FROM removed)",
}


def problems_of_truth(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield every broken invariant of the rows, document by document."""
    for (result,) in connection.execute("PRAGMA integrity_check"):
        if result != "ok":
            yield f"SQLite: {result}"
    for what, rows in _ORPHANS.items():
        number = connection.execute(f"SELECT count(*) FROM {rows}").fetchone()[0]
        if number:
            yield f"{number} {what}"
    yield from problems_of_pictures(connection)
    dim = int(schema.get_meta(connection, "dim") or 0)
    for doc, document_id in connection.execute("SELECT doc, id FROM documents ORDER BY id").fetchall():
        yield from (f"document {document_id!r}: {problem}" for problem in _document(connection, doc, dim))


def _document(connection: sqlite3.Connection, doc: int, dim: int) -> Iterator[str]:
    try:
        entry = records.read(connection, doc)
    except sqlite3.DatabaseError as error:
        yield str(error)
        return
    yield from problems_of(entry)
    rows = connection.execute(
        "SELECT v.vector FROM chunks c JOIN vectors v USING (chunk) WHERE c.doc = ? ORDER BY c.position", (doc,)
    ).fetchall()
    if any(len(raw) != dim * 4 for (raw,) in rows):  # float32
        yield f"a vector has not {dim} numbers"
    else:
        vectors = np.frombuffer(b"".join(raw for (raw,) in rows), np.float32).reshape(len(rows), dim)
        yield from problems_of_vectors(vectors, len(entry.chunks))

"""Whether what SQLite holds obeys every invariant of a library."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

from catena.indexing import records, schema
from catena.indexing.checks import problems_of, problems_of_view_vectors
from catena.indexing.figures import problems_of_pictures
from catena.indexing.writing import contents_of

# What must not be there: rows that belong to nothing, and chunks that lack something.
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
    "removed chunks that are still there": "chunks WHERE chunk IN (SELECT chunk FROM removed)",
}


def problems_of_truth(
    connection: sqlite3.Connection, progress: Callable[[int, int], None] | None = None
) -> Iterator[str]:
    """Yield every broken invariant of the rows, document by document; `progress` is told how many of how many."""
    for (result,) in connection.execute("PRAGMA integrity_check"):
        if result != "ok":
            yield f"SQLite: {result}"
    for what, rows in _ORPHANS.items():
        number = connection.execute(f"SELECT count(*) FROM {rows}").fetchone()[0]
        if number:
            yield f"{number} {what}"
    yield from problems_of_pictures(connection)
    dim = int(schema.get_meta(connection, "dim") or 0)
    documents = connection.execute("SELECT doc, id FROM documents ORDER BY id").fetchall()
    for done, (doc, document_id) in enumerate(documents, start=1):
        yield from (f"document {document_id!r}: {problem}" for problem in _document(connection, doc, dim))
        if progress is not None:
            progress(done, len(documents))


def _document(connection: sqlite3.Connection, doc: int, dim: int) -> Iterator[str]:
    try:
        entry, vectors = records.read(connection, doc), records.vectors(connection, doc, dim)
    except sqlite3.DatabaseError as error:
        yield str(error)
        return
    problems = [*problems_of(entry), *problems_of_view_vectors(vectors, entry)]
    yield from problems
    if not problems:
        stored = connection.execute("SELECT content FROM chunks WHERE doc = ? ORDER BY position", (doc,))
        contents = contents_of(entry, vectors)
        for position, ((content,), found) in enumerate(zip(stored, contents, strict=True)):
            if content not in ("", found):  # "" in a library of an older version
                yield f"what chunk {position} is found by is not what was stored"

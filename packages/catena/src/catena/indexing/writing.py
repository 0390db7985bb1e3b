"""From one version of a document to the next: only chunks whose content changed lose and gain rows.

A chunk's content is what it is found by: its text, views, vectors and terms. Where that is as before, the chunk keeps
its key, and no row of these is touched, nor what derived indexes hold of it; its place, and so its id, may change.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from catena.ids import digest
from catena.indexing import figures, records
from catena.model import Chunk, Entry
from catena.vectors import ViewVectors

_CONTENT_TABLES = ("views", "vectors", "terms")  # rows by chunk, written once and never changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """How many chunks of a document were kept as they were, with all their rows, and how many came and went."""

    document_id: str
    kept: int
    added: int
    removed: int


def write(connection: sqlite3.Connection, entry: Entry, vectors: ViewVectors, *, generation: int) -> Replaced:
    """Write all rows of an entry, in place of those of its older version; the caller owns the transaction."""
    doc = _write_document(connection, entry)
    contents = contents_of(entry, vectors)
    kept = _kept(connection, doc, contents)
    held = connection.execute("SELECT chunk FROM chunks WHERE doc = ?", (doc,)).fetchall()
    gone = sorted({key for (key,) in held}.difference(kept.values()))
    _remove(connection, gone, generation)
    _move(connection, doc, [(key, entry.chunks[at]) for at, key in kept.items()])
    first = _next_chunk(connection)
    added = [at for at in range(len(entry.chunks)) if at not in kept]
    keys = {at: first + number for number, at in enumerate(added)}
    connection.executemany(
        "INSERT INTO chunks (chunk, id, doc, position, body, text, generation, content)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        ((key, *_placed(doc, entry.chunks[at]), _text(entry.chunks[at]), generation, contents[at])
         for at, key in keys.items()),
    )  # fmt: skip
    _write_content(connection, entry, vectors, keys)
    order = _view_order(connection, doc, entry) if kept else None
    connection.execute("UPDATE documents SET view_order = ? WHERE doc = ?", (order, doc))
    return Replaced(document_id=entry.document.id, kept=len(kept), added=len(added), removed=len(gone))


def delete(connection: sqlite3.Connection, doc: int, *, generation: int) -> None:
    """Remove every row of one document; the caller owns the transaction."""
    figures.delete(connection, doc)
    _remove(
        connection,
        [key for (key,) in connection.execute("SELECT chunk FROM chunks WHERE doc = ?", (doc,))],
        generation,
    )
    for table in ("sections", "documents"):
        connection.execute(f"DELETE FROM {table} WHERE doc = ?", (doc,))


def contents_of(entry: Entry, vectors: ViewVectors) -> list[str]:
    """Return for each chunk the hash of all that it is found by."""
    at = {chunk.id: number for number, chunk in enumerate(entry.chunks)}
    views: list[list[str]] = [[] for _ in entry.chunks]
    rows: list[list[str | bytes]] = [[] for _ in entry.chunks]
    for view in entry.views:
        views[at[view.chunk_id]] += (view.kind, view.text, view.made)
    for chunk, kind, name, row in _rows(vectors):
        rows[chunk] += (kind, name, row)
    terms = entry.terms or ((),) * len(entry.chunks)
    counted = zip(entry.chunks, views, terms, rows, strict=True)
    return [digest(c.text, str(len(v)), *v, str(len(t)), *t, *r, length=32) for c, v, t, r in counted]


def _write_document(connection: sqlite3.Connection, entry: Entry) -> int:
    """Write the rows of a document itself, and return its key: that of its older version, where there is one."""
    document = entry.document
    connection.execute(
        "INSERT INTO documents (id, fingerprint, header, text) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE"
        " SET fingerprint = excluded.fingerprint, header = excluded.header, text = excluded.text",
        (document.id, entry.fingerprint, records.header(entry), records.to_bytes(document.text)),
    )
    doc = int(connection.execute("SELECT doc FROM documents WHERE id = ?", (document.id,)).fetchone()[0])
    connection.execute("DELETE FROM sections WHERE doc = ?", (doc,))
    connection.executemany(
        "INSERT INTO sections VALUES (?, ?, ?)",
        ((doc, section.position, records.section_body(section)) for section in entry.sections),
    )
    figures.delete(connection, doc)
    figures.insert(connection, doc, entry.figures)
    return doc


def _kept(connection: sqlite3.Connection, doc: int, contents: Sequence[str]) -> dict[int, int]:
    """Return the keys of the chunks that stay, by their new positions; of equal ones the first stay first."""
    known: defaultdict[str, deque[int]] = defaultdict(deque)
    for content, key in connection.execute(
        "SELECT content, chunk FROM chunks WHERE doc = ? AND content != '' ORDER BY position", (doc,)
    ):
        known[content].append(key)
    return {at: known[content].popleft() for at, content in enumerate(contents) if known[content]}


def _remove(connection: sqlite3.Connection, keys: Sequence[int], generation: int) -> None:
    """Remove chunks with all their rows, and note it for the derived indexes."""
    for table in (*_CONTENT_TABLES, "chunks"):
        connection.execute(
            f"DELETE FROM {table} WHERE chunk IN (SELECT value FROM json_each(?))", (json.dumps(keys),)
        )
    connection.executemany("INSERT INTO removed VALUES (?, ?)", ((key, generation) for key in keys))


def _move(connection: sqlite3.Connection, doc: int, kept: Iterable[tuple[int, Chunk]]) -> None:
    """Say where chunks stand now, where that is another place, path or metadata than before."""
    rows = connection.execute("SELECT chunk, id, doc, position, body FROM chunks WHERE doc = ?", (doc,))
    before = {key: tuple(placed) for key, *placed in rows}
    moved = [(key, *placed) for key, chunk in kept if (placed := _placed(doc, chunk)) != before[key]]
    # Out of each other's way first: two may change places. No id is a blob and no position negative.
    connection.executemany(
        "UPDATE chunks SET id = CAST(chunk AS BLOB), position = -chunk WHERE chunk = ?", ((key,) for key, *_ in moved)
    )
    connection.executemany("UPDATE chunks SET id = ?2, position = ?4, body = ?5 WHERE chunk = ?1", moved)


def _placed(doc: int, chunk: Chunk) -> tuple[str, int, int, str]:
    return chunk.id, doc, chunk.position, records.chunk_body(chunk)


def _text(chunk: Chunk) -> bytes:
    return records.to_bytes(chunk.text)


def _write_content(
    connection: sqlite3.Connection, entry: Entry, vectors: ViewVectors, keys: Mapping[int, int]
) -> None:
    """Write what the chunks are found by whose keys are given, by position."""
    own = {entry.chunks[at].id: (key, entry.chunks[at].text) for at, key in keys.items()}
    found = ((view, *own[view.chunk_id]) for view in entry.views if view.chunk_id in own)
    connection.executemany(
        "INSERT INTO views (chunk, kind, text, made) VALUES (?, ?, ?, ?)",  # NULL stands for the chunk's own text
        ((key, v.kind, None if v.text == text else records.to_bytes(v.text), v.made) for v, key, text in found),
    )
    connection.executemany(
        "INSERT INTO vectors (chunk, kind, digest, vector) VALUES (?, ?, ?, ?)",
        ((keys[at], kind, name, row) for at, kind, name, row in _rows(vectors) if at in keys),
    )
    connection.executemany(
        "INSERT INTO terms VALUES (?, ?, ?)",
        (
            (keys[at], position, term)
            for at, terms in enumerate(entry.terms)
            if at in keys
            for position, term in enumerate(terms)
        ),
    )


def _rows(vectors: ViewVectors) -> Iterable[tuple[int, str, str, bytes]]:
    """Return (place of the chunk, kind, digest, float32 numbers) of each vector."""
    names = vectors.digests or ("",) * len(vectors.kinds)
    rows = (row.tobytes() for row in vectors.rows)
    return zip(vectors.chunks, vectors.kinds, names, rows, strict=True)


def _view_order(connection: sqlite3.Connection, doc: int, entry: Entry) -> str | None:
    """Return the keys of an entry's views in its order, None where they ascend: of one chunk they always do."""
    keys: dict[str, deque[int]] = {chunk.id: deque() for chunk in entry.chunks}
    for view, chunk_id in connection.execute(
        "SELECT v.view, c.id FROM chunks c JOIN views v USING (chunk) WHERE c.doc = ? ORDER BY v.view", (doc,)
    ):
        keys[chunk_id].append(view)
    order = [keys[view.chunk_id].popleft() for view in entry.views]
    return None if order == sorted(order) else json.dumps(order)


def _next_chunk(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
    return int(row[0]) + 1 if row else 1

"""From one version of a document to the next: only chunks whose content changed lose and gain rows.

A chunk's content is what it is found by: its text, views, vectors and terms. Where that is as before, the chunk keeps
its key, and no row of these is touched, nor what derived indexes hold of it; its place, and so its id, may change.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from catena.model import Chunk, Entry, ViewVectors, digest
from catena.store import figures, records

_CONTENT_TABLES = ("views", "vectors", "terms")  # rows by chunk, written once and never changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """Numbers of a document's chunks that were kept as they were, with all their rows, that came, and that went."""

    document_id: str
    kept: int
    added: int
    removed: int


def write(connection: sqlite3.Connection, entry: Entry, vectors: ViewVectors, *, generation: int) -> Replaced:
    """Write all rows of an entry, in place of those of its older version; the caller owns the transaction."""
    doc = _write_document(connection, entry)
    before = connection.execute(
        "SELECT chunk, content, id, doc, position, body FROM chunks WHERE doc = ? ORDER BY position", (doc,)
    ).fetchall()
    contents = contents_of(entry, vectors)
    kept = _kept(((content, key) for key, content, *_ in before), contents)
    gone = sorted({key for key, *_ in before}.difference(kept.values()))
    if gone:
        _remove(connection, gone, generation)
    placed = {key: tuple(place) for key, _, *place in before}
    now = ((key, _placed(doc, entry.chunks[at])) for at, key in kept.items())
    _move(connection, [(key, *place) for key, place in now if place != placed[key]], generation)
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
    first = int(row[0]) + 1 if row else 1
    added = [at for at in range(len(entry.chunks)) if at not in kept]
    keys = {at: first + number for number, at in enumerate(added)}
    rows = ((key, entry.chunks[at], contents[at]) for at, key in keys.items())
    bodies = ((key, *_placed(doc, c), records.to_bytes(c.text), content) for key, c, content in rows)
    connection.executemany(
        "INSERT INTO chunks (chunk, id, doc, position, body, text, content, generation, placed)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((*each, generation, generation) for each in bodies),
    )
    _write_content(connection, entry, vectors, keys)
    if before:
        order = _view_order(connection, doc, entry)
        connection.execute("UPDATE documents SET view_order = ? WHERE doc = ?", (order, doc))
    return Replaced(document_id=entry.document.id, kept=len(kept), added=len(added), removed=len(gone))


def delete(connection: sqlite3.Connection, doc: int, *, generation: int) -> None:
    """Remove every row of one document; the caller owns the transaction."""
    figures.delete(connection, doc)
    held = connection.execute("SELECT chunk FROM chunks WHERE doc = ?", (doc,)).fetchall()
    _remove(connection, [key for (key,) in held], generation)
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
        "INSERT INTO documents (id, fingerprint, header, text, printed) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id)"
        " DO UPDATE SET fingerprint = excluded.fingerprint, header = excluded.header, text = excluded.text,"
        " printed = excluded.printed",
        (
            document.id,
            entry.fingerprint,
            records.header(entry),
            records.to_bytes(document.text),
            zlib.compress(document.printed),
        ),
    )
    doc = int(connection.execute("SELECT doc FROM documents WHERE id = ?", (document.id,)).fetchone()[0])
    connection.execute("DELETE FROM sections WHERE doc = ?", (doc,))
    bodies = ((doc, section.position, records.section_body(section)) for section in entry.sections)
    connection.executemany("INSERT INTO sections VALUES (?, ?, ?)", bodies)
    figures.delete(connection, doc)
    figures.insert(connection, doc, entry.figures)
    return doc


def _kept(before: Iterable[tuple[str, int]], contents: Sequence[str]) -> dict[int, int]:
    """Return the keys of the chunks that stay, by their new positions; of equal ones the first stay first.

    Args:
        before: content and key of each chunk that is there, in order; "" where the content is not known.
        contents: of the chunks that are to be there, in order.
    """
    known: defaultdict[str, deque[int]] = defaultdict(deque)
    for content, key in before:
        if content:
            known[content].append(key)
    return {at: known[content].popleft() for at, content in enumerate(contents) if known[content]}


def _remove(connection: sqlite3.Connection, keys: Sequence[int], generation: int) -> None:
    """Remove chunks with all their rows, and note it for the derived indexes."""
    chunks = json.dumps(keys)
    for table in (*_CONTENT_TABLES, "chunks"):
        connection.execute(f"DELETE FROM {table} WHERE chunk IN (SELECT value FROM json_each(?))", (chunks,))
    connection.executemany("INSERT INTO removed VALUES (?, ?)", ((key, generation) for key in keys))


def _move(connection: sqlite3.Connection, moved: Sequence[tuple[int, str, int, int, str]], generation: int) -> None:
    """Write where chunks stand now, and since when: key, and what `_placed` says."""
    # Out of each other's way first: two may change places. No id is a blob and no position negative.
    connection.executemany(
        "UPDATE chunks SET id = CAST(chunk AS BLOB), position = -chunk WHERE chunk = ?", ((key,) for key, *_ in moved)
    )
    connection.executemany(
        "UPDATE chunks SET id = ?2, doc = ?3, position = ?4, body = ?5, placed = ?6 WHERE chunk = ?1",
        ((*place, generation) for place in moved),
    )


def _placed(doc: int, chunk: Chunk) -> tuple[str, int, int, str]:
    """Return what a chunk's row says of its place: id, document, position, and all else but its text."""
    return chunk.id, doc, chunk.position, records.chunk_body(chunk)


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
    rows = ((keys[at], kind, name, row) for at, kind, name, row in _rows(vectors) if at in keys)
    connection.executemany("INSERT INTO vectors (chunk, kind, digest, vector) VALUES (?, ?, ?, ?)", rows)
    listed = ((keys[at], terms) for at, terms in enumerate(entry.terms) if at in keys)
    terms = ((key, position, term) for key, terms in listed for position, term in enumerate(terms))
    connection.executemany("INSERT INTO terms VALUES (?, ?, ?)", terms)


def _rows(vectors: ViewVectors) -> Iterable[tuple[int, str, str, bytes]]:
    """Return (place of the chunk, kind, digest, float32 numbers) of each vector."""
    names = vectors.digests or ("",) * len(vectors.kinds)
    return zip(vectors.chunks, vectors.kinds, names, (row.tobytes() for row in vectors.rows), strict=True)


def _view_order(connection: sqlite3.Connection, doc: int, entry: Entry) -> str | None:
    """Return the keys of an entry's views in its order, None where they ascend: of one chunk they always do."""
    keys: dict[str, deque[int]] = {chunk.id: deque() for chunk in entry.chunks}
    for view, chunk_id in connection.execute(
        "SELECT v.view, c.id FROM chunks c JOIN views v USING (chunk) WHERE c.doc = ? ORDER BY v.view", (doc,)
    ):
        keys[chunk_id].append(view)
    order = [keys[view.chunk_id].popleft() for view in entry.views]
    return None if order == sorted(order) else json.dumps(order)

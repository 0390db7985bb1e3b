"""Between an entry and its rows in SQLite, both ways, without loss."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from catena.indexing import figures
from catena.model import Chunk, Document, Entry, FrozenMetadata, Section, View

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@contextmanager
def whole(what: str) -> Iterator[None]:
    """Report rows that cannot be decoded as SQLite reports a damaged page."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise sqlite3.DatabaseError(f"{what} cannot be read: {error}") from None


def to_bytes(text: str) -> bytes:
    """Encode any string, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def to_text(raw: bytes) -> str:
    """Undo `to_bytes`."""
    return raw.decode("utf-8", "surrogatepass")


def insert(connection: sqlite3.Connection, entry: Entry, vectors: NDArray[np.float32], *, generation: int) -> None:
    """Write all rows of one entry; the caller owns the transaction."""
    document = entry.document
    cursor = connection.execute(
        "INSERT INTO documents (id, fingerprint, generation, header, text) VALUES (?, ?, ?, ?, ?)",
        (document.id, entry.fingerprint, generation, _header(entry), to_bytes(document.text)),
    )
    doc = int(cursor.lastrowid or 0)
    connection.executemany(
        "INSERT INTO sections VALUES (?, ?, ?)", ((doc, s.position, _section_body(s)) for s in entry.sections)
    )
    figures.insert(connection, doc, entry.figures)
    first = _next_chunk(connection)
    keys = {chunk.id: first + offset for offset, chunk in enumerate(entry.chunks)}
    connection.executemany(
        "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?)",
        ((keys[c.id], c.id, doc, c.position, _chunk_body(c), to_bytes(c.text)) for c in entry.chunks),
    )
    texts = {chunk.id: chunk.text for chunk in entry.chunks}
    connection.executemany(
        "INSERT INTO views (chunk, kind, text) VALUES (?, ?, ?)",  # NULL stands for the chunk's own text
        ((keys[v.chunk_id], v.kind, None if v.text == texts[v.chunk_id] else to_bytes(v.text)) for v in entry.views),
    )
    connection.executemany(
        "INSERT INTO vectors VALUES (?, ?)",
        ((keys[c.id], row.tobytes()) for c, row in zip(entry.chunks, vectors, strict=True)),
    )
    connection.executemany(
        "INSERT INTO terms VALUES (?, ?, ?)",
        (
            (keys[chunk.id], position, term)
            for chunk, terms in zip(entry.chunks, entry.terms, strict=bool(entry.terms))
            for position, term in enumerate(terms)
        ),
    )


def delete(connection: sqlite3.Connection, doc: int, *, generation: int) -> None:
    """Remove every row of one document; the caller owns the transaction."""
    figures.delete(connection, doc)
    for table in ("views", "vectors", "terms"):
        connection.execute(f"DELETE FROM {table} WHERE chunk IN (SELECT chunk FROM chunks WHERE doc = ?)", (doc,))
    for table in ("chunks", "sections", "documents"):
        connection.execute(f"DELETE FROM {table} WHERE doc = ?", (doc,))
    connection.execute("INSERT INTO removed VALUES (?, ?)", (doc, generation))


def read(connection: sqlite3.Connection, doc: int, *, pictures: bool = True) -> Entry:
    """Return the entry as it was written, without its figures where `pictures` is False."""
    with whole(f"document {doc}"):
        entry = _read(connection, doc)
        return replace(entry, figures=figures.read(connection, doc)) if pictures else entry


def _read(connection: sqlite3.Connection, doc: int) -> Entry:
    row = connection.execute("SELECT id, fingerprint, header, text FROM documents WHERE doc = ?", (doc,)).fetchone()
    document_id, fingerprint, header = row[0], row[1], json.loads(row[2])
    sections = connection.execute("SELECT body FROM sections WHERE doc = ? ORDER BY position", (doc,)).fetchall()
    rows = connection.execute("SELECT chunk, id, body, text FROM chunks WHERE doc = ? ORDER BY position", (doc,))
    chunks = {key: to_chunk(document_id, chunk_id, body, text) for key, chunk_id, body, text in rows}
    views = connection.execute(
        "SELECT v.chunk, v.kind, v.text FROM views v JOIN chunks c USING (chunk) WHERE c.doc = ? ORDER BY v.view",
        (doc,),
    )
    terms: dict[int, list[str]] = {key: [] for key in chunks}
    for key, term in connection.execute(
        "SELECT t.chunk, t.term FROM terms t JOIN chunks c USING (chunk) WHERE c.doc = ?"
        " ORDER BY t.chunk, t.position",
        (doc,),
    ):
        terms[key].append(term)
    return Entry(
        document=_document(document_id, header, to_text(row[3])),
        sections=tuple(_section(document_id, position, body) for position, (body,) in enumerate(sections)),
        chunks=tuple(chunks.values()),
        views=tuple(
            View(chunk_id=chunks[key].id, kind=kind, text=chunks[key].text if text is None else to_text(text))
            for key, kind, text in views
        ),
        terms=tuple(map(tuple, terms.values())) if header["has_terms"] else (),
        fingerprint=fingerprint,
    )


def chunks_of(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, Chunk]:
    """Return the chunks of these keys."""
    rows = connection.execute(
        "SELECT c.chunk, d.id, c.id, c.body, c.text FROM chunks c JOIN documents d USING (doc)"
        " WHERE c.chunk IN (SELECT value FROM json_each(?))",
        (json.dumps(list(keys)),),
    )
    with whole("a chunk"):
        return {key: to_chunk(document_id, chunk_id, body, text) for key, document_id, chunk_id, body, text in rows}


def chunks_between(connection: sqlite3.Connection, document_id: str, first: int, end: int) -> tuple[Chunk, ...]:
    """Return the chunks of a document at the positions [first, end)."""
    rows = connection.execute(
        "SELECT c.id, c.body, c.text FROM chunks c JOIN documents d USING (doc)"
        " WHERE d.id = ? AND c.position >= ? AND c.position < ? ORDER BY c.position",
        (document_id, first, end),
    )
    with whole("a chunk"):
        return tuple(to_chunk(document_id, *row) for row in rows)


def text_of(connection: sqlite3.Connection, document_id: str) -> str | None:
    """Return the text of a document, None where it is not there."""
    row = connection.execute("SELECT text FROM documents WHERE id = ?", (document_id,)).fetchone()
    return None if row is None else to_text(row[0])


def to_chunk(document_id: str, chunk_id: str, body: str, text: bytes) -> Chunk:
    """Return the chunk that a row holds."""
    position, start, end, kind, path, section, pages, lines, metadata = json.loads(body)
    return Chunk(
        id=chunk_id,
        document_id=document_id,
        position=position,
        start=start,
        end=end,
        text=to_text(text),
        kind=kind,
        path=tuple(path),
        section=section,
        pages=_pair(pages),
        lines=_pair(lines),
        metadata=FrozenMetadata(metadata),
    )


def view_rows(connection: sqlite3.Connection, kind: str, *, since: int = 0) -> Iterable[tuple[int, int, str]]:
    """Yield (chunk key, document key, text) of all views of a kind, of documents newer than a generation."""
    rows = connection.execute(
        "SELECT c.chunk, c.doc, coalesce(v.text, c.text) FROM documents d JOIN chunks c USING (doc)"
        " JOIN views v USING (chunk) WHERE d.generation > ? AND v.kind = ? ORDER BY c.chunk, v.view",
        (since, kind),
    )
    return ((chunk, doc, to_text(text)) for chunk, doc, text in rows)


def has_view(connection: sqlite3.Connection, kind: str) -> bool:
    """Return whether any chunk has a view of this kind."""
    return connection.execute("SELECT 1 FROM views WHERE kind = ? LIMIT 1", (kind,)).fetchone() is not None


def fields(connection: sqlite3.Connection) -> list[tuple[int, dict[str, Any]]]:
    """Return (chunk key, what filters see of the chunk), by key; see `catena.filters` for the names."""
    documents = connection.execute("SELECT doc, id, header FROM documents")
    chunks = connection.execute("SELECT chunk, id, doc, body FROM chunks ORDER BY chunk")
    with whole("metadata"):
        headers = {doc: (document_id, json.loads(header)) for doc, document_id, header in documents}
        return [(key, _fields(chunk_id, *headers[doc], json.loads(body))) for key, chunk_id, doc, body in chunks]


def _fields(chunk_id: str, document_id: str, header: dict[str, Any], body: list[Any]) -> dict[str, Any]:
    _, _, _, kind, path, _, pages, _, metadata = body
    reserved = {
        "document_id": document_id,
        "chunk_id": chunk_id,
        "title": header["title"],
        "source": header["source"],
        "kind": kind,
        "path": path,
    }
    paged = {"page": pages[0], "last_page": pages[1]} if pages else {}
    return {**header["metadata"], **metadata, **reserved, **paged}


def removed_since(connection: sqlite3.Connection, generation: int) -> list[int]:
    """Return the keys of the documents removed after a generation."""
    return [row[0] for row in connection.execute("SELECT doc FROM removed WHERE generation > ?", (generation,))]


def header_of(header: str) -> dict[str, Any]:
    """Return what is kept of a document beside its text."""
    loaded: dict[str, Any] = json.loads(header)
    return loaded


def _next_chunk(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
    return int(row[0]) + 1 if row else 1


def _header(entry: Entry) -> str:
    document = entry.document
    return json.dumps(
        {
            "title": document.title,
            "source": document.source,
            "media_type": document.media_type,
            "page_starts": document.page_starts,
            "page_labels": document.page_labels,
            "metadata": document.metadata,
            "has_terms": bool(entry.terms),
        }
    )


def _document(document_id: str, header: dict[str, Any], text: str) -> Document:
    return Document(
        id=document_id,
        text=text,
        title=header["title"],
        source=header["source"],
        media_type=header["media_type"],
        page_starts=tuple(header["page_starts"]),
        page_labels=tuple(header["page_labels"]),
        metadata=FrozenMetadata(header["metadata"]),
    )


def _section_body(section: Section) -> str:
    s = section
    return json.dumps([s.id, s.level, s.title, s.path, s.start, s.body_start, s.end, s.tree_end, s.parent])


def _section(document_id: str, position: int, body: str) -> Section:
    section_id, level, title, path, start, body_start, end, tree_end, parent = json.loads(body)
    return Section(
        id=section_id,
        document_id=document_id,
        position=position,
        level=level,
        title=title,
        path=tuple(path),
        start=start,
        body_start=body_start,
        end=end,
        tree_end=tree_end,
        parent=parent,
    )


def _chunk_body(chunk: Chunk) -> str:
    c = chunk
    return json.dumps([c.position, c.start, c.end, c.kind, c.path, c.section, c.pages, c.lines, c.metadata])


def _pair(pair: list[int] | None) -> tuple[int, int] | None:
    return None if pair is None else (pair[0], pair[1])

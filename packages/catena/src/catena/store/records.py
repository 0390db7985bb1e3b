"""Between an entry and its rows in SQLite, both ways, without loss."""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.model import Chunk, Document, Entry, FrozenMetadata, Metadata, Section, View
from catena.model.filters import page_fields
from catena.model.ids import digest
from catena.model.vectors import ViewVectors
from catena.store import figures

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SURROGATE = re.compile("[\ud800-\udfff]")
_HEADER = ("title", "source", "media_type", "page_starts", "page_labels", "metadata")
_SECTION = ("id", "level", "title", "path", "start", "body_start", "end", "tree_end", "parent")
_CHUNK = ("position", "start", "end", "kind", "path", "section", "pages", "lines", "metadata")
OF_DAMAGE = (zlib.error, ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError)
"""What Python raises over rows that are not what was written."""


@contextmanager
def whole(what: str) -> Iterator[None]:
    """Report rows that cannot be decoded as SQLite reports a damaged page."""
    try:
        yield
    except OF_DAMAGE as error:
        raise sqlite3.DatabaseError(f"{what} cannot be read: {error}") from None


def all_of(kind: type, *values: object) -> None:
    """Raise where a value read from a row is not of the type that was written."""
    for value in values:
        if type(value) is not kind:
            raise TypeError(f"{value!r:.60} is no {kind.__name__}")


def to_bytes(text: str) -> bytes:
    """Encode any string, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def to_text(raw: bytes) -> str:
    """Undo `to_bytes`."""
    all_of(bytes, raw)
    return raw.decode("utf-8", "surrogatepass")


def name_asked(name: object) -> str | None:
    """Return a name by which rows are asked for; None, which no row has, for one that SQLite could not be given."""
    return name if isinstance(name, str) and not _SURROGATE.search(name) else None


def read(connection: sqlite3.Connection, doc: int, *, pictures: bool = True) -> Entry:
    """Return the entry as it was written, without its figures where `pictures` is False."""
    with whole(f"document {doc}"):
        entry = _read(connection, doc)
        return replace(entry, figures=figures.read(connection, doc)) if pictures else entry


def _read(connection: sqlite3.Connection, doc: int) -> Entry:
    select = "SELECT id, fingerprint, header, text, view_order, printed FROM documents WHERE doc = ?"
    document_id, fingerprint, header, raw, order, printed = connection.execute(select, (doc,)).fetchone()
    kept = header_of(header)
    all_of(str, document_id, fingerprint)
    sections = connection.execute("SELECT body FROM sections WHERE doc = ? ORDER BY position", (doc,)).fetchall()
    rows = connection.execute("SELECT chunk, id, body, text FROM chunks WHERE doc = ? ORDER BY position", (doc,))
    chunks = {key: to_chunk(document_id, chunk_id, body, text) for key, chunk_id, body, text in rows}
    views: dict[int, View] = {}
    for view, key, kind, text, made in connection.execute(
        "SELECT v.view, v.chunk, v.kind, v.text, v.made FROM views v JOIN chunks c USING (chunk)"
        " WHERE c.doc = ? ORDER BY v.view",
        (doc,),
    ):
        all_of(str, kind, made)
        own = chunks[key].text if text is None else to_text(text)
        views[view] = View(chunk_id=chunks[key].id, kind=kind, text=own, made=made)
    terms: dict[int, list[str]] = {key: [] for key in chunks}
    for key, term in connection.execute(
        "SELECT t.chunk, t.term FROM terms t JOIN chunks c USING (chunk) WHERE c.doc = ?"
        " ORDER BY t.chunk, t.position",
        (doc,),
    ):
        all_of(str, term)
        terms[key].append(term)
    written = list(views) if order is None else json.loads(order)
    if sorted(written) != list(views):
        raise ValueError(f"{len(written)} views are ordered, {len(views)} are there")
    return Entry(
        document=replace(_document(document_id, kept, to_text(raw)), printed=_unpacked(printed)),
        sections=tuple(_section(document_id, position, body) for position, (body,) in enumerate(sections)),
        chunks=tuple(chunks.values()),
        views=tuple(views[view] for view in written),
        terms=tuple(map(tuple, terms.values())) if kept["has_terms"] else (),
        fingerprint=fingerprint,
        left_out=tuple(kept.get("left_out", ())),
    )


def vectors(connection: sqlite3.Connection, doc: int, dim: int) -> ViewVectors:
    """Return the vectors of a document as they were written."""
    select = (
        "SELECT c.position, v.kind, v.digest, v.vector FROM chunks c JOIN vectors v USING (chunk) WHERE c.doc = ?"
    )
    rows = connection.execute(f"{select} ORDER BY c.position, v.row", (doc,)).fetchall()
    with whole("a vector"):
        return ViewVectors(
            rows=matrix([row[3] for row in rows], dim),
            chunks=tuple(row[0] for row in rows),
            kinds=tuple(row[1] for row in rows),
            digests=tuple(row[2] for row in rows),
        )


def matrix(rows: Sequence[bytes], dim: int) -> NDArray[np.float32]:
    """Return stored vectors as one array, shape (len(rows), dim).

    Raises:
        ValueError: a row has not `dim` numbers.
    """
    if any(len(row) != dim * 4 for row in rows):  # float32
        raise ValueError(f"a vector has not {dim} numbers")
    return np.frombuffer(b"".join(rows), np.float32).reshape(len(rows), dim)


def made_views(connection: sqlite3.Connection, document_id: str) -> dict[str, tuple[View, ...]]:
    """Return the views of a document that say what they were made from, by that: of one chunk each."""
    rows = connection.execute(
        "SELECT v.made, c.id, v.kind, coalesce(v.text, c.text) FROM documents d JOIN chunks c USING (doc)"
        " JOIN views v USING (chunk) WHERE d.id = ? AND v.made != '' ORDER BY c.position, v.view",
        (name_asked(document_id),),
    )
    found: dict[str, list[View]] = {}
    with whole("a view"):
        for made, chunk_id, kind, text in rows:
            all_of(str, made, chunk_id, kind)
            views = found.setdefault(made, [])
            if not views or views[0].chunk_id == chunk_id:
                views.append(View(chunk_id=chunk_id, kind=kind, text=to_text(text), made=made))
    return {made: tuple(views) for made, views in found.items()}


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
        (name_asked(document_id), first, end),
    )
    with whole("a chunk"):
        return tuple(to_chunk(document_id, *row) for row in rows)


def text_of(connection: sqlite3.Connection, document_id: str) -> str | None:
    """Return the text of a document, None where it is not there."""
    row = connection.execute("SELECT text FROM documents WHERE id = ?", (name_asked(document_id),)).fetchone()
    with whole(f"document {document_id!r}"):
        return None if row is None else to_text(row[0])


def pages_of(connection: sqlite3.Connection, document_id: str) -> tuple[Sequence[int], Sequence[str], bytes]:
    """Return where the pages of a document begin, their labels, and where its words are printed, as far as known."""
    select = "SELECT header, printed FROM documents WHERE id = ?"
    header, printed = connection.execute(select, (name_asked(document_id),)).fetchone() or ("", None)
    with whole(f"document {document_id!r}"):
        kept = header_of(header) if header else {"page_starts": (), "page_labels": ()}
        return kept["page_starts"], kept["page_labels"], _unpacked(printed)


def _unpacked(printed: bytes | None) -> bytes:
    return zlib.decompress(printed) if printed is not None else b""


def to_chunk(document_id: str, chunk_id: str, body: str, text: bytes) -> Chunk:
    """Return the chunk that a row holds."""
    said = json.loads(body)
    values, labels = dict(zip(_CHUNK, said, strict=False)), said[len(_CHUNK) :]
    all_of(int, *(values[name] for name in ("position", "start", "end", "section")))
    all_of(str, document_id, chunk_id, values["kind"], *values["path"])
    values |= {"path": tuple(values["path"]), "metadata": _metadata(values["metadata"])}
    values |= {name: _pair(values[name]) for name in ("pages", "lines")}
    shown = (str(labels[0][0]), str(labels[0][1])) if labels else None
    return Chunk(id=chunk_id, document_id=document_id, text=to_text(text), page_labels=shown, **values)


def view_rows(connection: sqlite3.Connection, kind: str, *, since: int = -1) -> Iterator[tuple[int, int, str]]:
    """Yield (chunk key, document key, text) of all views of a kind, of chunks newer than a generation."""
    rows = connection.execute(
        "SELECT c.chunk, c.doc, coalesce(v.text, c.text) FROM chunks c JOIN views v USING (chunk)"
        " WHERE c.generation > ? AND v.kind = ? ORDER BY c.chunk, v.view",
        (since, kind),
    )
    with whole("a view"):
        for chunk, doc, text in rows:
            yield chunk, doc, to_text(text)


def document_text(connection: sqlite3.Connection, doc: int) -> tuple[str, str]:
    """Return the title and the text of a document, by its key."""
    with whole("a document"):
        header, text = connection.execute("SELECT header, text FROM documents WHERE doc = ?", (doc,)).fetchone()
        return header_of(header)["title"], to_text(text)


def names_of(connection: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    """Return the title and the source of each document, by id."""
    # of two paths the answer is JSON, which a title with lone surrogates survives: it is not valid as text
    rows = connection.execute("SELECT id, json_extract(header, '$.title', '$.source') FROM documents ORDER BY id")
    with whole("a document"):
        held = ((document_id, *json.loads(found)) for document_id, found in rows)
        return {document_id: (str(title), str(source)) for document_id, title, source in held}


def document_versions(connection: sqlite3.Connection) -> dict[int, int]:
    """Return document key -> a number that another version of the document does not have."""
    rows = connection.execute("SELECT doc, header FROM documents")
    return {doc: zlib.crc32(header.encode()) for doc, header in rows}


def has_view(connection: sqlite3.Connection, kind: str) -> bool:
    """Return whether any chunk has a view of this kind."""
    return connection.execute("SELECT 1 FROM views WHERE kind = ? LIMIT 1", (kind,)).fetchone() is not None


def fields(connection: sqlite3.Connection) -> list[tuple[int, dict[str, Any]]]:
    """Return (chunk key, what filters see of the chunk), by key; see `catena.model.filters` for the names."""
    documents = connection.execute("SELECT doc, id, header FROM documents")
    chunks = connection.execute("SELECT chunk, id, doc, body FROM chunks ORDER BY chunk")
    with whole("metadata"):
        headers = {doc: (document_id, header_of(header)) for doc, document_id, header in documents}
        return [(key, _fields(chunk_id, *headers[doc], json.loads(body))) for key, chunk_id, doc, body in chunks]


def _fields(chunk_id: str, document_id: str, header: dict[str, Any], body: list[Any]) -> dict[str, Any]:
    _, _, _, kind, path, _, pages, _, metadata, *labels = body
    own = {"document_id": document_id, "chunk_id": chunk_id, "kind": kind, "path": path}
    shown = {name: header[name] for name in ("title", "source")}
    return {**header["metadata"], **metadata, **own, **shown, **page_fields(pages, *labels)}


def removed_since(connection: sqlite3.Connection, generation: int) -> list[int]:
    """Return the keys of the chunks removed after a generation."""
    return [row[0] for row in connection.execute("SELECT chunk FROM removed WHERE generation > ?", (generation,))]


def header_of(header: str) -> dict[str, Any]:
    """Return what is kept of a document beside its text."""
    loaded: dict[str, Any] = json.loads(header)
    all_of(str, loaded["title"], loaded["source"], loaded["media_type"], *loaded["page_labels"])
    all_of(int, *loaded["page_starts"])
    all_of(dict, loaded["metadata"])
    return loaded


def header(entry: Entry) -> str:
    """Return what is kept of a document beside its text, for `header_of`."""
    document = entry.document
    return json.dumps(
        {
            **{name: getattr(document, name) for name in _HEADER},
            "has_terms": bool(entry.terms),
            **({"left_out": entry.left_out} if entry.left_out else {}),
            "digest": _digest(entry),
        }
    )


def _digest(entry: Entry) -> str:
    """Return the hash of all that no other hash covers: a damaged row is told by it."""
    d = entry.document
    said = (d.title, d.source, d.media_type, d.page_starts, d.page_labels, d.metadata, entry.left_out, entry.terms)
    return digest(
        d.id,
        entry.fingerprint,
        json.dumps(said),
        to_bytes(d.text),
        *map(section_body, entry.sections),
        *(part for chunk in entry.chunks for part in (chunk.id, chunk_body(chunk))),
        *(part for v in entry.views for part in (v.chunk_id, v.kind, v.made, to_bytes(v.text))),
        *(part for figure in entry.figures for part in (figure.name, figures.body(figure))),
        *([d.printed] if d.printed else []),
        length=32,
    )


def _document(document_id: str, header: dict[str, Any], text: str) -> Document:
    kept = {name: header[name] for name in _HEADER}
    kept |= {name: tuple(kept[name]) for name in ("page_starts", "page_labels")}
    return Document(id=document_id, text=text, **{**kept, "metadata": _metadata(kept["metadata"])})


def section_body(section: Section) -> str:
    """Return a section as its row holds it."""
    return json.dumps([getattr(section, name) for name in _SECTION])


def _section(document_id: str, position: int, body: str) -> Section:
    values = dict(zip(_SECTION, json.loads(body), strict=True))
    all_of(str, values["id"], values["title"], *values["path"])
    all_of(int, *(values[name] for name in ("level", "start", "body_start", "end", "tree_end")))
    all_of(int, *([] if values["parent"] is None else [values["parent"]]))
    return Section(document_id=document_id, position=position, **{**values, "path": tuple(values["path"])})


def chunk_body(chunk: Chunk) -> str:
    """Return where a chunk stands and what it says of itself, its text aside, for `to_chunk`."""
    labels = [chunk.page_labels] if chunk.page_labels else []
    return json.dumps([*(getattr(chunk, name) for name in _CHUNK), *labels])


def _pair(pair: list[int] | None) -> tuple[int, int] | None:
    if pair is None:
        return None
    all_of(int, *pair)
    first, last = pair
    return first, last


def _metadata(metadata: dict[str, Any]) -> Metadata:
    all_of(dict, metadata)
    return FrozenMetadata(metadata)

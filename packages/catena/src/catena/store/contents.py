"""Read one state of a library: contents for what is derived elsewhere, as the graph is; the ledger, infos, sizes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from catena.model import DEFAULT, Chunk, IngestState, Outcome, mean_direction
from catena.store import records, schema

if TYPE_CHECKING:
    from numpy.typing import NDArray


T = TypeVar("T")
STAMP = 16  # bytes
_OF_IDS = "WHERE c.id IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True, slots=True)
class Contents:
    """All that a library holds of its chunks at one generation, while the block lasts that gave it."""

    _connection: sqlite3.Connection
    generation: int
    _once: Callable[[Hashable, Callable[[], Any]], Any]

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` derives from this generation, made by the first who asks while it is the present one."""
        return self._once(what, make)  # type: ignore[no-any-return]

    def setting(self, name: str) -> str:
        """Return what the library was told to remember under a name, "" for nothing."""
        return schema.get_meta(self._connection, setting_name(name))

    def stamps(self) -> dict[str, bytes]:
        """Return the hash of all that is stored of each chunk, by its id: `STAMP` bytes each.

        It covers the chunk, where it stands, its views, vectors and terms: while it is the same, so is whatever is
        derived from this chunk alone.
        """
        return self._stamps(since=-1)

    def stamps_after(self, before: Mapping[str, bytes], generation: int) -> dict[str, bytes]:
        """Return `stamps()`, given those of an earlier generation: only what came, went or moved since is read."""
        changed = self._stamps(since=generation)
        moved = "SELECT 1 FROM chunks WHERE placed > ? AND generation <= ? LIMIT 1"
        went = records.removed_since(self._connection, generation)
        if not went and self._connection.execute(moved, (generation, generation)).fetchone() is None:
            return {**before, **changed}
        ids = (row[0] for row in self._connection.execute("SELECT id FROM chunks"))
        return {chunk_id: changed.get(chunk_id) or before[chunk_id] for chunk_id in ids}

    def _stamps(self, *, since: int) -> dict[str, bytes]:
        select = "SELECT c.id, c.chunk, d.id, c.content, c.body FROM chunks c JOIN documents d USING (doc)"
        rows = self._connection.execute(f"{select} WHERE c.placed > ?", (since,))
        with records.whole("a chunk"):  # content is "" in a library of an older version; then its key stands for it
            return {
                chunk_id: _stamp(content or str(key), document_id, body)
                for chunk_id, key, document_id, content, body in rows
            }

    def chunks(self, ids: Sequence[str]) -> tuple[Chunk, ...]:
        """Return chunks by id, in the order of `ids`; all of them are there."""
        rows = self._connection.execute(
            f"SELECT d.id, c.id, c.body, c.text FROM chunks c JOIN documents d USING (doc) {_OF_IDS}",
            (json.dumps(list(ids)),),
        )
        with records.whole("a chunk"):
            found = {row[1]: records.to_chunk(*row) for row in rows}
            return tuple(found[chunk_id] for chunk_id in ids)

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return the default vector of each chunk, shape (len(ids), dim), of unit length or zero.

        Of a chunk with several it is their mean, brought to unit length.
        """
        dim = schema.number(self._connection, "dim")
        rows = self._connection.execute(
            "SELECT c.id, v.vector FROM chunks c JOIN vectors v USING (chunk)"
            f" {_OF_IDS} AND v.kind = ? ORDER BY v.row",
            (json.dumps(list(ids)), DEFAULT),
        )
        with records.whole("a vector"):
            places = {chunk_id: place for place, chunk_id in enumerate(ids)}
            found = sorted(((places[chunk_id], row) for chunk_id, row in rows), key=lambda each: each[0])
            stored = records.matrix([row for _, row in found], dim)
            owners, starts, counts = np.unique([place for place, _ in found], return_index=True, return_counts=True)
            if len(owners) < len(ids):
                raise ValueError(f"{len(ids) - len(owners)} chunks have none")
        vectors = stored[starts]
        for place in np.flatnonzero(counts > 1):
            vectors[place] = mean_direction(stored[starts[place] : starts[place] + counts[place]])
        return vectors

    def views(self, kind: str, ids: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """Return the texts of the views of a kind, in order, by the id of the chunk; no chunk that has none."""
        rows = self._connection.execute(
            "SELECT c.id, coalesce(v.text, c.text) FROM chunks c JOIN views v USING (chunk)"
            f" {_OF_IDS} AND v.kind = ? ORDER BY v.view",
            (json.dumps(list(ids)), kind),
        )
        found: dict[str, list[str]] = {}
        with records.whole("a view"):
            for chunk_id, text in rows:
                found.setdefault(chunk_id, []).append(records.to_text(text))
        return {chunk_id: tuple(texts) for chunk_id, texts in found.items()}


def _stamp(content: str, document_id: str, body: str) -> bytes:
    return blake2b("\0".join((content, document_id, body)).encode("utf-8"), digest_size=STAMP).digest()


GRAPH_SETTING = "graph"  # under which a library remembers the options of its graph


def setting_name(name: str) -> str:
    """Return the name of the meta table's row that holds a setting."""
    return f"setting {name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentInfo:
    """Tell what a library holds of one document."""

    id: str
    title: str
    source: str
    state: IngestState  # as the ledger has it, "indexed" where it has nothing
    chunks: int
    pages: int  # 0 for a source without pages
    fingerprint: str
    whole: bool = True  # False, on a server only, while it is written, and after a writing that did not end


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryStats:
    """The size of a library."""

    documents: int
    sections: int
    chunks: int
    views: Mapping[str, int]  # by kind
    terms: int  # distinct
    generation: int  # grows by one with every change
    embedder: str  # "" while nothing was added
    dim: int
    bytes: int  # on disk, derived indexes included
    figures: int = 0


def documents(connection: sqlite3.Connection) -> tuple[DocumentInfo, ...]:
    """Return what is known of each document, by id."""
    rows = connection.execute("SELECT document_id, body FROM ledger")
    with records.whole("the ledger"):
        states = {document_id: json.loads(body)["state"] for document_id, body in rows}
    rows = connection.execute(
        "SELECT d.id, d.fingerprint, d.header, count(*) FROM documents d JOIN chunks USING (doc)"
        " GROUP BY d.doc ORDER BY d.id"
    )
    with records.whole("a document"):
        return tuple(_info(*row, state=states.get(row[0], "indexed")) for row in rows)


def stats(connection: sqlite3.Connection, path: Path, generation: int) -> LibraryStats:
    """Return the size of the library on a path."""

    def count(what: str) -> int:
        return int(connection.execute(f"SELECT {what}").fetchone()[0])

    return LibraryStats(
        documents=count("count(*) FROM documents"),
        sections=count("count(*) FROM sections"),
        chunks=count("count(*) FROM chunks"),
        views=dict(connection.execute("SELECT kind, count(*) FROM views GROUP BY kind").fetchall()),
        terms=count("count(DISTINCT term) FROM terms"),
        figures=count("count(*) FROM figures"),
        generation=generation,
        embedder=schema.get_meta(connection, "embedder"),
        dim=schema.number(connection, "dim"),
        bytes=sum(map(_size, path.rglob("*"))),
    )


def record(connection: sqlite3.Connection, outcomes: Sequence[Outcome]) -> None:
    """Write outcomes, each in place of the earlier one of its document; the caller owns the transaction."""
    connection.executemany(
        "INSERT OR REPLACE INTO ledger VALUES (?, ?, ?)",  # as JSON: a file name may hold lone surrogates
        ((json.dumps(o.source), o.document_id, json.dumps(asdict(o))) for o in outcomes),
    )


def has_failed(connection: sqlite3.Connection, document_id: str) -> bool:
    """Return whether the latest outcome of a document is "failed"."""
    rows = connection.execute("SELECT body FROM ledger WHERE document_id = ?", (document_id,))
    with records.whole("the ledger"):
        return any(json.loads(body)["state"] == "failed" for (body,) in rows)


def ledger(connection: sqlite3.Connection) -> tuple[Outcome, ...]:
    """Return the latest outcome of every document, by source."""
    with records.whole("the ledger"):
        bodies = [json.loads(row[0]) for row in connection.execute("SELECT body FROM ledger")]
        for body in bodies:
            records.all_of(str, *(body[name] for name in ("source", "document_id", "state", "reason")))
            records.all_of(int, body["chunks"], body["pages"], *body["failed_pages"])
        lists = ("failed_pages", "moved_from")
        outcomes = (Outcome(**{**body, **{name: tuple(body.get(name, ())) for name in lists}}) for body in bodies)
        return tuple(sorted(outcomes, key=lambda outcome: (outcome.source, outcome.document_id)))


def _size(path: Path) -> int:
    with suppress(OSError):  # a writer may just have replaced it
        return path.stat().st_size if path.is_file() else 0
    return 0


def _info(document_id: str, fingerprint: str, header: str, chunks: int, *, state: IngestState) -> DocumentInfo:
    kept = records.header_of(header)
    records.all_of(str, document_id, fingerprint, state)
    return DocumentInfo(
        id=document_id,
        title=kept["title"],
        source=kept["source"],
        state=state,
        chunks=chunks,
        pages=len(kept["page_starts"]),
        fingerprint=fingerprint,
    )

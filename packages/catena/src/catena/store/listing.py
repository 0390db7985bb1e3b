"""What a library tells about itself: its documents, its size, and how its inputs ended."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from catena.model import IngestState, Outcome
from catena.store import records, schema


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentInfo:
    """What a library says of one document."""

    id: str
    title: str
    source: str
    state: IngestState  # as the ledger has it, "indexed" where it has nothing
    chunks: int
    pages: int  # 0 for a source without pages
    fingerprint: str


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
    rows = connection.execute("SELECT document_id, body FROM ledger ORDER BY source")
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
    """Write outcomes, each in place of the earlier one of its source; the caller owns the transaction."""
    connection.executemany(
        "INSERT OR REPLACE INTO ledger VALUES (?, ?, ?)",  # as JSON: a file name may hold lone surrogates
        ((json.dumps(o.source), o.document_id, json.dumps(asdict(o))) for o in outcomes),
    )


def has_failed(connection: sqlite3.Connection, source: str) -> bool:
    """Return whether the latest outcome of a source is "failed"."""
    rows = connection.execute("SELECT body FROM ledger WHERE source = ?", (json.dumps(source),))
    with records.whole("the ledger"):
        return any(json.loads(body)["state"] == "failed" for (body,) in rows)


def ledger(connection: sqlite3.Connection) -> tuple[Outcome, ...]:
    """Return the latest outcome of every source, by source."""
    with records.whole("the ledger"):
        bodies = [json.loads(row[0]) for row in connection.execute("SELECT body FROM ledger")]
        for body in bodies:
            records.all_of(str, *(body[name] for name in ("source", "document_id", "state", "reason")))
            records.all_of(int, body["chunks"], body["pages"], *body["failed_pages"])
        outcomes = (Outcome(**{**body, "failed_pages": tuple(body["failed_pages"])}) for body in bodies)
        return tuple(sorted(outcomes, key=lambda outcome: outcome.source))


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

"""Libraries of older versions are brought up to date in place; what is older than their tables is made anew."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_indexing_entries import DIM, entry_of, open_store, rankings, vectors_of

from catena.effects import Search
from catena.model import LibraryError, Outcome, ViewVectors, text_digest
from catena.store import schema
from catena.store import store as store_module
from catena.store.derived import MANIFEST

# As release 2 made them: one vector per chunk, and generations of documents instead of chunks.
VERSION_2 = """
PRAGMA application_id = 1130460261;
PRAGMA user_version = 2;
CREATE TABLE figures (doc INTEGER NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL,
    digest TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (doc, position)) WITHOUT ROWID;
CREATE INDEX figures_by_digest ON figures (digest);
CREATE TABLE pictures (digest TEXT PRIMARY KEY, png BLOB NOT NULL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (doc INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL,
    generation INTEGER NOT NULL, header TEXT NOT NULL, text BLOB NOT NULL);
CREATE INDEX documents_by_generation ON documents (generation);
CREATE TABLE sections (doc INTEGER NOT NULL, position INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (doc, position)) WITHOUT ROWID;
CREATE TABLE chunks (chunk INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, doc INTEGER NOT NULL,
    position INTEGER NOT NULL, body TEXT NOT NULL, text BLOB NOT NULL, UNIQUE (doc, position));
CREATE TABLE views (view INTEGER PRIMARY KEY, chunk INTEGER NOT NULL, kind TEXT NOT NULL, text BLOB);
CREATE INDEX views_by_chunk ON views (chunk);
CREATE INDEX views_by_kind ON views (kind);
CREATE TABLE vectors (chunk INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE terms (chunk INTEGER NOT NULL, position INTEGER NOT NULL, term TEXT NOT NULL,
    PRIMARY KEY (chunk, position)) WITHOUT ROWID;
CREATE INDEX terms_by_term ON terms (term, chunk);
CREATE TABLE removed (doc INTEGER PRIMARY KEY, generation INTEGER NOT NULL);
CREATE INDEX removed_by_generation ON removed (generation);
CREATE TABLE ledger (source TEXT PRIMARY KEY, document_id TEXT NOT NULL, body TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX ledger_by_document ON ledger (document_id);
"""
TO_3 = """DROP INDEX chunks_by_place; ALTER TABLE chunks DROP COLUMN placed;
ALTER TABLE documents DROP COLUMN printed; PRAGMA user_version = 3;"""
TO_5 = """ALTER TABLE ledger RENAME TO newer;
CREATE TABLE ledger (source TEXT PRIMARY KEY, document_id TEXT NOT NULL, body TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX ledger_by_document ON ledger (document_id);
INSERT INTO ledger SELECT source, document_id, body FROM newer; DROP TABLE newer; PRAGMA user_version = 5;"""
COPIES = {
    "documents": "doc, id, fingerprint, 1, header, text",
    "chunks": "chunk, id, doc, position, body, text",
    "views": "view, chunk, kind, text",
    "vectors": "chunk, vector",
    **dict.fromkeys(("figures", "pictures", "meta", "sections", "terms", "ledger"), "*"),
}


def execute(file: Path, script: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)


def select(library: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(library / schema.FILE)) as connection:
        return connection.execute(query).fetchall()


def make_older(library: Path, version: int) -> None:
    """Put in place of a library of today what an older release would have written; nothing was replaced in it yet."""
    if version == 3:
        execute(library / schema.FILE, TO_3)
        return
    older = library / "older.sqlite"
    copies = [f"INSERT INTO {table} SELECT {columns} FROM today.{table};" for table, columns in COPIES.items()]
    execute(older, f"{VERSION_2} ATTACH '{library / schema.FILE}' AS today; BEGIN; {''.join(copies)} COMMIT;")
    if version == 1:
        execute(older, "DROP TABLE figures; DROP TABLE pictures; PRAGMA user_version = 1;")
    os.replace(older, library / schema.FILE)
    for manifest in library.rglob(MANIFEST):
        body = json.loads(manifest.read_text())
        made = body["made"].replace("float32 2", "float32 1").replace("format 2", "format 1")
        manifest.write_text(json.dumps({**body, "made": made}))


@pytest.fixture
def library(tmp_path: Path) -> Path:
    entries = [entry_of(f"d{n}", "ram clock", f"flash f{n}", title="T", terms=[["ram"], []]) for n in range(4)]
    entries = [replace(entry, views=tuple(sorted(entry.views, key=lambda view: view.kind))) for entry in entries]
    with open_store(tmp_path / "library") as store:
        store.add([(entry, vectors_of(entry, seed)) for seed, entry in enumerate(entries)])
    return tmp_path / "library"


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_older_library_is_brought_up_to_date_with_all_it_holds(library: Path, version: int) -> None:
    with open_store(library) as store:
        entries, before = [store.get(info.id) for info in store.documents()], rankings(store)
    make_older(library, version)
    with open_store(library) as store:
        assert [store.get(info.id) for info in store.documents()] == entries
        assert rankings(store) == before
        assert store.verify() == ()
        assert store.known_vectors("d1") == {}  # which texts were embedded was not kept
        assert store.made_views("d1") == {}
    assert select(library, "PRAGMA user_version") == [(schema.VERSION,)]
    with open_store(library.parent / "new") as store:
        store.add([(entry_of("a", "x"), np.eye(DIM)[:1])])
    assert tables(library) == tables(library.parent / "new")


def tables(library: Path) -> dict[str, set[object]]:
    names = select(library, "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    return {
        name: {(row[1], row[2], row[3], row[5]) for row in select(library, f"PRAGMA table_info({name})")}
        for (name,) in names
    }


def test_documents_of_an_older_library_are_replaced_deleted_and_given_views(library: Path) -> None:
    make_older(library, 2)
    with open_store(library) as store:
        entry = store.get("d0")
        rows, digests = np.eye(DIM, dtype=np.float32)[[0, 1, 2]], tuple(map(text_digest, "abc"))
        vectors = ViewVectors(rows=rows, chunks=(0, 1, 1), kinds=("", "", "raw"), digests=digests)
        (first,) = store.put([(entry, vectors)])
        assert (first.kept, first.added, first.removed) == (0, 2, 2)  # what was stored was not known to be equal
        (second,) = store.put([(entry, vectors)])
        assert (second.kept, second.added, second.removed) == (2, 0, 0)
        store.delete("d1")
        hits = store.search(Search(route="dense", query="", vector=np.eye(DIM)[2], view="raw", k=9)).hits
        assert [hit.chunk.id for hit in hits] == [entry.chunks[1].id]
        assert store.stats().documents == 3
        assert store.verify() == ()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_older_library_that_cannot_be_written_says_so(library: Path, version: int, monkeypatch) -> None:
    make_older(library, version)
    content = (library / schema.FILE).read_bytes()
    monkeypatch.setattr(store_module.os, "access", lambda *_: False)
    with pytest.raises(LibraryError, match=f"tables have version {version} and have to be brought up to date"):
        open_store(library)
    assert (library / schema.FILE).read_bytes() == content


def test_a_library_of_version_5_is_read_as_it_is_and_brought_up_to_date_by_who_writes(
    library: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with open_store(library) as store:
        store.record([Outcome(source="d1.md", document_id="d1", state="partial")])
        infos, ledger, before = store.documents(), store.ledger(), rankings(store)
    execute(library / schema.FILE, TO_5)
    content = (library / schema.FILE).read_bytes()
    for may_write in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(store_module.os, "access", lambda *_, may=may_write: may)
            with open_store(library) as store:
                assert (store.documents(), store.ledger(), rankings(store)) == (infos, ledger, before)
                assert store.verify() == ()
        assert (library / schema.FILE).read_bytes() == content
    assert not caplog.messages
    with open_store(library) as store:
        store.record([Outcome(source="a.md", document_id="d2", state="failed")])
        store.record([Outcome(source="a.md", document_id="d3", state="failed")])  # version 5 kept one of a source
        assert [each.document_id for each in store.ledger()] == ["d2", "d3", "d1"]
    (told,) = caplog.messages
    assert "its tables were brought from version 5 to 6" in told


def test_an_upgrade_that_fails_leaves_the_old_library(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_older(library, 1)
    with monkeypatch.context() as patch:
        patch.setitem(schema.UPGRADES, 2, f"{schema.FROM_2};\nINSERT INTO nowhere VALUES (1)")
        with pytest.raises(LibraryError):
            open_store(library)
    assert select(library, "PRAGMA user_version") == [(1,)]
    with open_store(library) as store:
        assert store.verify() == ()

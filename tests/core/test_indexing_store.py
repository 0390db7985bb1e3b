"""The library's truth: what goes in comes out, all or nothing, for one writer at a time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import reduce
from pathlib import Path, PurePosixPath
from uuid import UUID

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_indexing_entries import DIM, addition, entry_of, open_store, vectors_of

from catena import LibraryError, ModelMismatchError
from catena.effects import FetchChunks, FetchText, FindNames, NamesFound, Search
from catena.model import DuplicateDocumentError, LibraryBusyError, Outcome, ParameterError, UnknownDocumentError
from catena.store import LibraryStore, schema

ANY = st.text(st.characters(exclude_categories=()), min_size=1, max_size=30)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LibraryStore]:
    with open_store(tmp_path / "library") as store:
        yield store


def lexical(store: LibraryStore, query: str, k: int = 10) -> list[str]:
    return [hit.chunk.document_id for hit in store.search(Search(route="lexical", query=query, k=k)).hits]


# what goes in comes out


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ANY, min_size=1, max_size=4), ANY, st.dictionaries(ANY, st.one_of(ANY, st.integers(), st.booleans())))
def test_any_entry_comes_back_as_it_was(store: LibraryStore, paragraphs: list, title: str, metadata: dict) -> None:
    entry = entry_of("a", *paragraphs, title=title, metadata=metadata, terms=[["x", "y z"]] * len(paragraphs))
    entry = replace(entry, document=replace(entry.document, source=title, page_starts=(0, 1), page_labels=("i", "1")))
    store.replace([(entry, vectors_of(entry))])
    assert store.get("a") == entry
    assert store.verify() == ()


class Colour(Enum):
    RED = "red"


def nested(deep: int) -> object:
    return reduce(lambda inner, _: [inner], range(deep), "x")


KEPT = {
    "deepest": (nested(50), nested(50)),
    "longest": (10**4_000 - 1, 10**4_000 - 1),
    "date": (date(2026, 1, 2), "2026-01-02"),
    "moment": (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00+00:00"),
    "elsewhere": (datetime(2026, 3, 1, 2, tzinfo=timezone(timedelta(hours=5))), "2026-02-28T21:00:00+00:00"),
    "no date": (np.datetime64("NaT"), None),
    "no small number": ([np.float32("nan")], [None]),
    "count": (np.int64(7), 7),
    "yes": (np.True_, True),
    "path": (PurePosixPath("a/b.md"), "a/b.md"),
    "id": (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    "price": (Decimal("1.10"), 1.1),
    "no price": (Decimal("NaN"), None),
    "colour": (Colour.RED, "red"),
    "tags": (("a", date(2026, 1, 2)), ["a", "2026-01-02"]),
    "deep": ({"at": [np.int8(1)]}, {"at": [1]}),
}


def test_metadata_that_json_lacks_are_kept_as_what_stands_for_them(store: LibraryStore) -> None:
    given = {name: value for name, (value, _) in KEPT.items()}
    entry = entry_of("a", "x", metadata=given)
    entry = replace(entry, chunks=(replace(entry.chunks[0], metadata=given),))
    store.add([(entry, vectors_of(entry))])

    found = store.get("a")
    assert found == entry
    for held in (found.document, found.chunks[0], store.chunk(entry.chunks[0].id)):
        assert dict(held.metadata) == {name: kept for name, (_, kept) in KEPT.items()}
    where = {"date": {"$gte": "2026-01-01"}, "count": 7, "yes": True}
    assert store.search(Search(route="lexical", query="x", k=1, where=where)).hits
    assert store.names(FindNames(query="x")) == NamesFound()


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (b"x", "bytes"),
        ({1, 2}, "set"),
        (np.zeros(2), "ndarray"),
        (float("-inf"), "-inf"),
        (np.float32("inf"), "inf"),
        pytest.param(10**4_000, "int", id="long"),
        ({"in": {"side": b"x"}}, "field 'in', field 'side' .* bytes"),
        (nested(51), "list"),
        (nested(2_000), "list"),
        ({1: "x"}, " must be text, got 1"),
    ],
)
def test_metadata_that_no_store_can_keep_are_refused_by_name(value: object, named: str) -> None:
    with pytest.raises(ParameterError, match=f"metadata of document 'a', field 'odd'.*{named}"):
        entry_of("a", "x", metadata={"odd": value})


def test_chunks_documents_terms_and_numbers_are_told(store: LibraryStore) -> None:
    store.add([addition("b", "x", "y", title="B", terms=[["beta"], ["beta", "x 1"]]), addition("a", "z", title="A")])
    store.record([Outcome(source="a.md", document_id="a", state="partial", reason="page 2", chunks=1)])
    told = [(each.id, each.title, each.state, each.chunks, each.pages, each.source) for each in store.documents()]
    assert told == [("a", "A", "partial", 1, 0, "a.md"), ("b", "B", "indexed", 2, 0, "b.md")]
    chunk = store.get("b").chunks[1]
    assert store.chunk(chunk.id) == chunk
    assert store.vocabulary() == ("beta", "x 1")
    stats = store.stats()
    assert (stats.documents, stats.sections, stats.chunks, stats.terms) == (2, 2, 3, 2)
    assert stats.views == {"headed": 3, "raw": 3}
    assert (stats.embedder, stats.dim, stats.generation) == ("fake-1", DIM, 1)
    assert (stats.bytes, stats.figures) == (sum(f.stat().st_size for f in store.path.rglob("*") if f.is_file()), 0)


def test_chunks_are_fetched_by_place_and_texts_by_offset(store: LibraryStore) -> None:
    a, b = entry_of("a", "one", "two", "three", "four"), entry_of("b", "five")
    store.add([(a, vectors_of(a)), (b, vectors_of(b))])
    spans = (("a", 1, 3), ("b", 0, 9), ("a", 2, 2), ("nobody", 0, 1), ("a", -5, 1))
    found = store.chunks(FetchChunks(spans=spans))
    assert found == (a.chunks[1:3], b.chunks, (), (), a.chunks[:1])
    start, end = a.chunks[0].start, a.chunks[2].end
    length = len(b.document.text)
    spans = (("a", start, end), ("b", 0, length), ("b", 0, length + 1), ("nobody", 0, 1), ("a", 2, 1), ("a", 1, 1))
    assert store.texts(FetchText(spans=spans)) == (
        a.document.text[start:end], b.document.text, None, None, None, "",
    )  # fmt: skip


def test_the_ledger_keeps_the_latest_outcome_of_each_source(store: LibraryStore) -> None:
    failed = Outcome(source="b\udc80.pdf", document_id="b", state="failed", reason="encrypted", failed_pages=(1, 2))
    store.record([replace(failed, reason="timeout"), Outcome(source="a.md", document_id="a", state="skipped")])
    store.record([failed])
    assert store.ledger() == (Outcome(source="a.md", document_id="a", state="skipped"), failed)
    store.add([addition("b", "x")])
    store.delete("b")
    assert [outcome.source for outcome in store.ledger()] == ["a.md"]


# adding, replacing, deleting


def test_a_document_that_is_there_is_not_added_and_its_neighbours_neither(store: LibraryStore) -> None:
    store.add([addition("a", "old")])
    told = r"document 'a' is there already; nothing was added\. Try: replace"
    with pytest.raises(DuplicateDocumentError, match=told):
        store.add([addition("b", "new"), addition("a", "new")])
    with pytest.raises(DuplicateDocumentError):
        store.add([addition("c", "x"), addition("c", "y")])
    assert [d.id for d in store.documents()] == ["a"]
    assert lexical(store, "new") == []
    assert store.stats().generation == 1


def test_replacing_and_deleting_leave_nothing_of_the_old_version_in_any_table_or_index(
    store: LibraryStore, tmp_path: Path
) -> None:
    def dense(vector: np.ndarray) -> list[str]:
        found = store.search(Search(route="dense", query="", vector=vector, k=10)).hits
        return [hit.chunk.document_id for hit in found]

    def rows() -> list[int]:
        with closing(schema.connect(tmp_path / "library", timeout=1)) as connection:
            tables = ("chunks", "views", "vectors")
            return [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]

    store.add([addition("a", "old one", "old two", terms=[["old"], ["old"]]), addition("b", "equal", seed=2)])
    new = addition("a", "new", "equal", terms=[["new"], []], seed=1)
    assert store.replace([new, addition("c", "third", seed=3)]) == ("a", "c")
    assert store.get("a") == new[0]
    assert (lexical(store, "old"), lexical(store, "new"), store.vocabulary()) == ([], ["a"], ("new",))
    assert (dense(new[1][0])[0], sorted(dense(new[1][0])), rows()) == ("a", [*"aabc"], [4, 8, 4])
    assert store.verify() == ()
    store.delete("a")
    assert (lexical(store, "new equal"), store.vocabulary()) == (["b"], ())
    assert (sorted(dense(new[1][0])), rows()) == (["b", "c"], [2, 4, 2])
    with pytest.raises(UnknownDocumentError):
        store.get("a")
    store.add([addition("a", "new again")])
    assert lexical(store, "new") == ["a"]
    assert store.verify() == ()


def test_an_equal_fingerprint_is_skipped_and_an_empty_one_never(store: LibraryStore) -> None:
    store.add([addition("a", "x", fingerprint="1"), addition("b", "x")])
    assert store.replace([addition("a", "y", fingerprint="1"), addition("b", "y")]) == ("b",)
    assert (store.fingerprint("a"), store.fingerprint("b"), store.fingerprint("c")) == ("1", "", None)
    generation = store.stats().generation
    assert store.replace([addition("a", "y", fingerprint="1")]) == ()
    assert store.stats().generation == generation
    assert store.replace([addition("a", "y", fingerprint="2")]) == ("a",)


def test_a_failed_replacement_keeps_the_old_version(store: LibraryStore) -> None:
    old = addition("a", "old")
    store.add([old, addition("b", "other")])
    stolen = store.get("b").chunks[0].id
    new = entry_of("a", "new")
    views = tuple(replace(view, chunk_id=stolen) for view in new.views)
    new = replace(new, chunks=(replace(new.chunks[0], id=stolen),), views=views)
    with pytest.raises(LibraryError, match="a chunk id of document 'a' belongs to another document; nothing was"):
        store.replace([(new, vectors_of(new))])
    assert store.get("a") == old[0]
    assert lexical(store, "old") == ["a"]
    assert store.verify() == ()


# the model's stamp, the path, the version


def test_vectors_of_another_model_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "library"
    with open_store(path) as store:
        store.add([addition("a", "x")])
    told = r"holds vectors of 'fake-1' \(4 .*'fake-2' \(4\); nothing was"
    with pytest.raises(ModelMismatchError, match=told):
        LibraryStore.open(path, embedder_identity="fake-2", dim=DIM)
    with pytest.raises(ModelMismatchError, match=r"'fake-1' \(5\)"):
        LibraryStore.open(path, embedder_identity="fake-1", dim=5)
    with LibraryStore.open(path) as store:
        assert (store.embedder_identity, store.dim) == ("fake-1", DIM)
        store.delete("a")
    with LibraryStore.open(path, embedder_identity="fake-2", dim=5) as other:  # no vectors are left
        assert other.stats().embedder == "fake-2"
        with open_store(path) as store:  # a model that came in between is noticed when writing
            other.add([(entry_of("b", "x"), np.eye(5)[:1])])
            with pytest.raises(ModelMismatchError):
                store.add([addition("a", "x")])
            assert [d.id for d in store.documents()] == ["b"]


def test_what_is_given_wrongly_or_asked_of_a_closed_store_is_named(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    named = {"embedder_identity": "x"}
    for options in ({"dim": 4}, named, {**named, "dim": 0}, {"lexical": "lucene"}):
        with pytest.raises(ParameterError):
            LibraryStore.open(nowhere, **options)
    assert not nowhere.exists()
    with LibraryStore.open(nowhere) as store, pytest.raises(ParameterError, match="embedder_identity"):
        store.add([addition("a", "x")])
    store = open_store(tmp_path / "library")
    for vectors in (None, "x", np.zeros((1, DIM + 1)), np.full((1, DIM), np.nan), np.zeros((2, DIM)), np.zeros(DIM)):
        with pytest.raises(ParameterError):
            store.add([(entry_of("a", "x"), vectors)])
    assert store.documents() == ()
    for call in (store.get, store.delete):
        with pytest.raises(UnknownDocumentError, match="it holds no document 'x'"):
            call("x")
    with pytest.raises(LibraryError, match="it holds no chunk 'x'"):
        store.chunk("x")
    store.close()
    store.close()
    with pytest.raises(LibraryError, match="it is closed"):
        store.documents()


def test_what_is_not_a_library_is_not_touched(tmp_path: Path) -> None:
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    file.write_text("mine")
    for path, what in ((folder, "not a library"), (file, "this is a file")):
        with pytest.raises(LibraryError, match=f"{what}.*nothing was touched"):
            LibraryStore.open(path)
    with pytest.raises(LibraryError, match="there is nothing"):
        LibraryStore.open(tmp_path / "missing", create=False)
    with pytest.raises(LibraryError, match="the path cannot be used"):
        LibraryStore.open("nul\0")
    assert [p.name for p in folder.iterdir()] == ["notes.txt"]
    assert file.read_text() == "mine"
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize(
    ("pragma", "message"),
    [("user_version = 99", "version 99.*a newer Catena"), ("application_id = 7", "SQLite file of something else")],
)
def test_a_file_of_another_version_or_program_is_refused(tmp_path: Path, pragma: str, message: str) -> None:
    path = tmp_path / "library"
    open_store(path).close()
    with closing(schema.connect(path, timeout=1)) as connection:
        connection.execute(f"PRAGMA {pragma}")
    with pytest.raises(LibraryError, match=message):
        open_store(path)


# several writers and readers

HOLDER = """
import sys
from pathlib import Path
from catena.store.schema import WriterLock
with WriterLock(Path(sys.argv[1]), timeout=5).held():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_waits_and_then_names_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "library"
    with open_store(path, timeout=0.2) as store:
        store.add([addition("a", "x")])
        command = [sys.executable, "-c", HOLDER, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout.readline() == "held\n"
            told = f"process {holder.pid} has been writing for 0.2 s; nothing was"
            with pytest.raises(LibraryBusyError, match=told):
                store.add([addition("b", "y")])
            assert lexical(store, "x") == ["a"]  # reading goes on
            holder.kill()
        with pytest.raises(ZeroDivisionError), store._connections.locked():
            raise ZeroDivisionError  # the lock is free after an error inside
        store.add([addition("b", "y")])  # a dead holder holds nothing
        assert lexical(store, "y") == ["b"]


def test_a_long_log_is_emptied_as_soon_as_nobody_reads_an_older_state(
    store: LibraryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_PATIENCE", 1)
    log = store.path / f"{schema.FILE}-wal"
    store.add([addition("a", "x")])
    with store._connections.connection() as connection:
        size = log.stat().st_size
        assert schema.shorten_log(connection, store.path, size) == size  # which is not longer
        with closing(schema.connect(store.path, timeout=1)) as reader, schema.snapshot(reader):
            store.add([addition("b", "y")])
            assert schema.shorten_log(connection, store.path, size) == log.stat().st_size + schema.LONG_LOG
        assert (schema.shorten_log(connection, store.path, size), log.stat().st_size) == (schema.LONG_LOG, 0)
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (30_000,)


def test_threads_share_one_store(store: LibraryStore) -> None:
    store.add([addition(f"d{n}", f"word{n} common") for n in range(20)])

    def work(number: int) -> None:
        if number % 4 == 0:
            store.add([addition(f"new{number}", "common")])
        for n in range(10):
            assert lexical(store, f"word{n}") == [f"d{n}"]
            assert len(store.search(Search(route="dense", query="", vector=np.eye(DIM)[0], k=5)).hits) == 5

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(work, range(16))) == [None] * 16
    assert len(lexical(store, "common", k=99)) == 24
    assert store.verify() == ()


def test_a_question_sees_the_generation_it_began_with_though_others_write_and_ask_meanwhile(tmp_path: Path) -> None:
    ask = Search(route="dense", query="", vector=np.eye(DIM)[0], k=99)

    def told(asked: LibraryStore) -> tuple[object, ...]:
        return asked.documents(), lexical(asked, "ram"), asked.search(ask).hits

    with open_store(tmp_path / "library") as store, open_store(tmp_path / "library") as other:
        other.add([addition("a", "ram"), addition("b", "ram")])
        alone = told(other)
        with closing(store.snapshot()) as state:
            with state.active():
                assert store.documents() == alone[0]  # it has begun; its vectors are not asked for yet
            other.delete("a")
            assert [len(part) for part in told(store)] == [1, 1, 1]  # another question: newer vectors are held now
            with state.active():
                assert told(store) == alone
        assert lexical(store, "ram") == ["b"]


def test_a_reader_sees_one_state_until_it_ends(tmp_path: Path) -> None:
    with open_store(tmp_path / "library") as store:
        store.add([addition("a", "ram")])
        for reading in (schema.snapshot, schema.reading):
            connection = schema.connect(tmp_path / "library", timeout=1.0, read_only=False)
            with closing(connection), reading(connection):
                count = "SELECT count(*) FROM documents"
                (before,) = connection.execute(count).fetchone()
                store.add([addition(f"{reading.__name__} b", "ram")])
                assert connection.execute(count).fetchone() == (before,)

"""Damage: what is derived mends itself, what is true is refused by name, and nothing is half done."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from damaged_files import DAMAGES, garble
from test_indexing_entries import DIM, addition, open_store, rankings
from test_library_graph import told

from catena import Library
from catena.effects import Search
from catena.model import LibraryError, Outcome
from catena.store import LibraryStore, Manifest, lexical, schema, vectors
from catena.store import store as store_module
from catena.testing import FakeEmbedder

INDEXES = ("lexical/headed", "lexical/raw", "vectors", "graph")


def opened(path: Path) -> Library:
    return Library.open(path, embedder=FakeEmbedder(DIM, identity="fake-1"))


def filled(path: Path) -> Path:
    with opened(path) as library:
        terms = [["ram"], []]
        library.store.add([addition(f"d{n}", "ram clock", f"flash f{n}", terms=terms, seed=n) for n in range(6)])
        library.store.search(Search(route="lexical", query="ram", k=1, view="raw"))
        library.build_graph()
    return path


def asked(library: Library) -> list[object]:
    """Return all that the indexes say."""
    return [*rankings(library.store), told(library.graph)]


def answers(path: Path) -> list[object]:
    with opened(path) as library:
        return asked(library)


def files_of(path: Path, folder: str) -> list[Path]:
    return sorted(file for file in (path / folder).rglob("*") if file.is_file() and not file.name.endswith(".lock"))


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("folder", INDEXES)
def test_any_damaged_file_of_an_index_is_reported_and_mended(tmp_path: Path, folder: str, damage: str) -> None:
    path = filled(tmp_path / "library")
    before = answers(path)
    for number in range(len(files_of(path, folder))):
        file = files_of(path, folder)[number]
        DAMAGES[damage](file)
        with opened(path) as library:
            if folder == "graph" and not (damage == "garbled" and file.stat().st_size == 0):
                assert library.verify() == ("the files of the graph are missing or damaged",), file.name
            assert asked(library) == before, file.name
            assert library.verify() == (), file.name


def remove(*folders: Path) -> None:
    """Remove folders in which the engine's own thread may be writing its last file."""
    for folder in folders:
        for _ in range(100):
            with suppress(OSError):
                shutil.rmtree(folder)
            if not folder.exists():
                break
            time.sleep(0.02)
        else:
            raise AssertionError(f"{folder.name} cannot be removed")


@pytest.mark.parametrize("folder", ["lexical", "lexical/headed", "vectors"])
def test_an_index_that_is_gone_or_half_written_is_rebuilt_and_damage_is_named(tmp_path: Path, folder: str) -> None:
    path = filled(tmp_path / "library")
    before = answers(path)
    with open_store(path) as store:
        garble(next(file for file in files_of(path, "lexical/headed") if file.suffix == ".idx"))
        garble(path / "vectors" / "matrix.npy")
        assert store.verify() == (
            "the files of the vector matrix are missing or damaged",
            "the files of the lexical index of the headed views are damaged",
        )
    remove(path / folder)
    with open_store(path) as store:
        assert store.verify() == ()
        assert rankings(store) == before[:-1]
        remove(path / folder)
        assert store.verify() != ()
        store.add([addition("new", "ram")])
        assert store.verify() == ()
    before = answers(path)
    for place in (path / "lexical" / "headed", path / "vectors", path / "graph"):
        replace(Manifest.read(place), files={}, writing=True).write(place)
    np.save(path / "vectors" / "matrix.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)  # runs no code
    assert answers(path) == before
    with opened(path) as library:
        assert library.verify() == ()


def test_vectors_that_a_writer_replaces_while_they_are_read_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, load = filled(tmp_path / "library"), np.load
    before = answers(path)

    def replaced(file: Path, **how: object) -> np.ndarray:
        monkeypatch.setattr(np, "load", load)
        replace(Manifest.read(path / "vectors"), files={}).write(path / "vectors")
        return load(file, **how)[::-1]

    monkeypatch.setattr(np, "load", replaced)
    assert answers(path) == before


def test_indexes_of_another_library_or_another_kind_are_not_trusted(tmp_path: Path) -> None:
    path, other = filled(tmp_path / "library"), tmp_path / "other"
    folders = [path / name for name in ("lexical", "vectors", "graph")]
    shutil.copy(path / schema.FILE, tmp_path / "backup")
    before = answers(path)
    with opened(path) as library:
        library.store.add([addition("later", "ram ram")])
        library.build_graph()
    shutil.copy(tmp_path / "backup", path / schema.FILE)  # an older truth put in place is followed
    assert answers(path) == before
    with opened(path) as library:
        library.store.add([addition("later", "flash", "clock", seed=9)])  # the generation once more, of other content
        assert library.verify() == ()
    before = answers(path)
    remove(*folders)
    assert answers(path) == before
    with opened(other) as library:
        library.store.add([addition(f"x{n}", "ram", "ram", "ram", seed=n) for n in range(20)])
        library.build_graph()
    remove(*folders)
    for folder in folders:
        shutil.copytree(other / folder.name, folder)
    with open_store(path) as store:
        assert store.verify() != ()
    assert answers(path) == before
    with opened(path) as library:
        assert library.verify() == ()
    remove(path / "lexical" / "raw")
    shutil.copytree(path / "lexical" / "headed", path / "lexical" / "raw")
    assert answers(path) == before


def test_what_a_killed_writer_left_behind_is_caught_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "library")
    with open_store(path) as store, monkeypatch.context() as patch:
        patch.setattr(store._routes, "sync", lambda connection: None)  # dies between the commit and the indexes
        store.add([addition("late", "flash late")])
        store.delete("d0")
    with open_store(path) as store:
        assert store.verify() == ()
        found = store.search(Search(route="lexical", query="late", k=9))
        assert [hit.chunk.document_id for hit in found.hits] == ["late"]
        assert "d0" not in {hit.chunk.document_id for ranking in rankings(store) for hit in ranking.hits}


# the truth itself


@pytest.mark.parametrize("content", [b"", b"S", b"no database at all" * 100])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = filled(tmp_path / "library")
    (tmp_path / "killed").mkdir()  # a library at its very creation
    (tmp_path / "killed" / schema.FILE).touch()
    with open_store(tmp_path / "killed") as store:
        assert store.verify() == store.documents() == ()
    (path / schema.FILE).write_bytes(content)
    told = r"library\.sqlite is (damaged or not a database|empty).*nothing was touched"
    with pytest.raises(LibraryError, match=told):
        open_store(path)
    assert (path / schema.FILE).read_bytes() == content


def test_a_database_torn_at_any_place_is_refused_or_reported_or_whole(tmp_path: Path) -> None:
    path = filled(tmp_path / "library")
    content = (path / schema.FILE).read_bytes()
    with open_store(path) as store:
        entries = {info.id: store.get(info.id) for info in store.documents()}
    refused = 0
    for end in range(64, len(content), 4096 + 64):
        (path / schema.FILE).write_bytes(content[:end])
        try:
            with open_store(path) as store:
                reported = store.verify() != ()
                assert reported or {name: store.get(name) for name in entries} == entries, end
        except LibraryError:
            refused += 1
    assert refused > 15


def test_rows_that_break_an_invariant_are_reported(tmp_path: Path) -> None:
    path = filled(tmp_path / "library")
    wrongs = {
        "UPDATE chunks SET text = 'wrong!!!!' WHERE chunk = 1": "document 'd0'",
        "DELETE FROM views WHERE chunk = 3": "has no view",
        "DELETE FROM vectors WHERE chunk = 5": "1 chunks without a vector",
        "INSERT INTO vectors VALUES (99, 999, '', '', x'00')": "1 vectors without their chunk",
        "INSERT INTO terms VALUES (998, 0, 'x')": "1 terms without their chunk",
        "UPDATE vectors SET vector = x'0000807F000000000000000000000000' WHERE chunk = 7": "NaN or infinity",
        "UPDATE sections SET body = '{' WHERE doc = 5": "document 5 cannot be read",
        "UPDATE vectors SET vector = x'00' WHERE chunk = 11": "a vector has not 4 numbers",
        "UPDATE ledger SET document_id = 'zz'": "the ledger is not what was stored",
    }
    with open_store(path) as store:
        store.record([Outcome(source="a.md", document_id="a", state="skipped")])
    connection = sqlite3.connect(path / schema.FILE)
    for wrong in wrongs:
        connection.execute(wrong)
    connection.commit()
    connection.close()
    with LibraryStore.open(path) as store:
        found = "\n".join(store.verify())
        with pytest.raises(LibraryError, match=r"damaged or not a database \(document 5 cannot be read"):
            store.get("d4")
        assert store.get("d3").document.id == "d3"
    assert [what for what in wrongs.values() if what not in found] == []


# a disk that is full, a folder that cannot be written


def test_a_full_disk_leaves_the_library_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "library")
    connect = schema.connect

    def full(*args: object, **options: object) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(schema, "connect", full)
        with open_store(path) as store, pytest.raises(LibraryError, match="the disk is full; nothing of this call"):
            store.add([addition("big", *["word " * 2_000] * 20)])
    with open_store(path) as store:
        assert len(store.documents()) == 6
        assert store.verify() == ()
        store.add([addition("big", "word")])


FULL = OSError(errno.ENOSPC, "No space left on device")
REFUSED = PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (np, "save", FULL),
        (lexical, "_write", FULL),
        (Manifest, "write", FULL),
        (lexical, "cleared", REFUSED),
        (vectors, "cleared", REFUSED),
    ],
)
def test_indexes_that_cannot_be_written_cost_no_document_and_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, error: OSError
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    path = tmp_path / "library"
    with open_store(path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fails)
            advice = "more disk space" if error is FULL else "leave to write there"
            with pytest.raises(LibraryError, match=f"all documents are stored.*{advice}"):
                store.add([addition("a", "ram", terms=[["ram"]])])
            if error is REFUSED:  # searches from memory
                with open_store(path) as other:
                    assert all(len(ranking.hits) == 1 for ranking in rankings(other))
        assert [info.id for info in store.documents()] == ["a"]
        assert all(len(ranking.hits) == 1 for ranking in rankings(store))
        assert store.verify() == ()


TORN = r"index cannot be read \(torn\); all documents.*\s.*verify\(\)"
PANIC = type("PanicException", (BaseException,), {})  # of tantivy's Rust side


@pytest.mark.parametrize(
    ("raised", "told_as", "message"),
    [(ValueError, LibraryError, TORN), (PANIC, LibraryError, TORN), (SystemExit, SystemExit, "torn")],
)
def test_an_index_that_fails_at_a_question_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: type, told_as: type, message: str
) -> None:
    def fails(self: object, *given: object) -> None:
        raise raised("torn")

    with open_store(filled(tmp_path / "library")) as store:
        monkeypatch.setattr(lexical.TantivySearcher, "_query", fails)
        with pytest.raises(told_as, match=message):
            store.search(Search(route="lexical", query="ram", k=1))


@pytest.mark.parametrize("indexes", ["as written", "gone"])
def test_a_folder_that_cannot_be_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, indexes: str
) -> None:
    path = filled(tmp_path / "library")
    with open_store(path) as store:
        store.add([addition("late", "flash late")])  # which the graph has to catch up with
    before = answers(path)
    if indexes == "gone":
        remove(path / "lexical", path / "vectors", path / "graph")
    content = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    monkeypatch.setattr(store_module.os, "access", lambda *_: False)  # the tests may run as root
    path.chmod(0o555)
    assert answers(path) == before
    with opened(path) as library:
        assert (library.verify() == ()) is (indexes == "as written")
        for write in (lambda: library.store.add([addition("x", "y")]), library.build_graph, library.drop_graph):
            with pytest.raises(LibraryError, match=r"the folder cannot be written.*; nothing was changed"):
                write()
    path.chmod(0o755)
    assert caplog.text == ""
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == content

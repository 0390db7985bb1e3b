"""Replacing touches what changed and nothing else, and the history of a library does not show in it."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from test_indexing_entries import DIM, entry_of, open_store

from catena.effects import Search
from catena.model import View, ViewVectors, digest, text_digest
from catena.store import LibraryStore, schema
from catena.store import vectors as vectors_module
from catena.store.lexical import WHOLE
from catena.store.store import Addition

WORDS = ("flash", "ram", "clock", "board", "debug", "probe", "the", "volt")
TABLES = ("documents", "sections", "chunks", "views", "vectors", "terms", "figures", "pictures")
CONTENT = ("views", "vectors", "terms")


@cache
def vector_of(text: str) -> np.ndarray:
    row = np.random.default_rng(int(text_digest(text)[:12], 16)).standard_normal(DIM).astype(np.float32)
    return row / np.linalg.norm(row)


@dataclass(frozen=True)
class Part:
    """A paragraph with what is made of it."""

    text: str
    summary: str = ""
    terms: tuple[str, ...] = ()


def addition(name: str, title: str, parts: Sequence[Part]) -> Addition:
    """An entry of three kinds of view, with vectors of two: long paragraphs have windows of two words."""
    entry = entry_of(name, *(part.text for part in parts), title=title, terms=[part.terms for part in parts])
    summaries = [
        View(chunk_id=chunk.id, kind="summary", text=part.summary, made=digest(part.text))
        for chunk, part in zip(entry.chunks, parts, strict=True)
        if part.summary
    ]
    words = [(at, part.text.split()) for at, part in enumerate(parts)]
    rows = [(at, "", " ".join(of[start : start + 2])) for at, of in words for start in range(0, len(of), 2)]
    rows += [(at, "summary", part.summary) for at, part in enumerate(parts) if part.summary]
    places, kinds, texts = zip(*rows, strict=True)
    digests = tuple(map(text_digest, texts))
    vectors = ViewVectors(rows=np.stack(list(map(vector_of, texts))), chunks=places, kinds=kinds, digests=digests)
    return replace(entry, views=(*entry.views, *summaries)), vectors  # of all chunks, kind after kind


def rows_of(store: LibraryStore, table: str, columns: str = "*") -> set[tuple[object, ...]]:
    with store._connections.connection() as connection:
        return set(connection.execute(f"SELECT {columns} FROM {table}").fetchall())


# what a replacement touches


PARTS = (Part("one two three", "about one", ("x",)), Part("four five", "", ("y",)), Part("six", "about six"))


@pytest.mark.parametrize(
    ("parts", "title", "kept"),
    [
        (PARTS, "T", 3),
        (PARTS[::-1], "T", 3),
        (PARTS[1:], "T", 2),
        ((PARTS[0], PARTS[0], PARTS[1]), "T", 2),  # of equal ones one is known
        ((replace(PARTS[0], text="one two four"), *PARTS[1:]), "T", 2),
        ((replace(PARTS[0], summary="about two"), *PARTS[1:]), "T", 2),
        ((replace(PARTS[0], summary=""), *PARTS[1:]), "T", 2),
        ((replace(PARTS[0], terms=("x", "x")), *PARTS[1:]), "T", 2),
        ((replace(PARTS[0], terms=("z",)), *PARTS[1:]), "T", 2),
        (PARTS, "U", 0),  # the title is in every headed view
    ],
)
def test_what_is_found_as_before_is_not_touched(tmp_path: Path, parts: Sequence[Part], title: str, kept: int) -> None:
    def rows() -> set[tuple[object, ...]]:
        return {(*row, table) for table in CONTENT for row in rows_of(store, table, "chunk, *")}

    with open_store(tmp_path / "library") as store:
        store.put([addition("a", "T", PARTS), addition("b", "T", PARTS)])
        before, new = rows(), addition("a", title, parts)
        with store.contents() as contents:
            stamps, generation = contents.stamps(), contents.generation
        (done,) = store.put([new])
        with store.contents() as contents:
            assert contents.stamps_after(stamps, generation) == contents.stamps()
            assert contents.stamps_after(contents.stamps(), contents.generation) == contents.stamps()
        assert (done.document_id, done.kept, done.added, done.removed) == ("a", kept, len(parts) - kept, 3 - kept)
        gone, came = ({chunk for chunk, *_ in rows} for rows in (before - rows(), rows() - before))
        assert (len(came), len(gone)) == (done.added, done.removed)
        assert store.get("a") == new[0]
        assert store.verify() == ()
        assert store.replace([new]) == ("a",)


def test_of_equal_chunks_the_first_stay_first(tmp_path: Path) -> None:
    def keys() -> list[object]:
        with store._connections.connection() as connection:
            return connection.execute("SELECT chunk, placed FROM chunks ORDER BY position").fetchall()

    with open_store(tmp_path / "library") as store:
        store.put([addition("a", "T", (PARTS[0], PARTS[0], PARTS[1]))])
        first, second, _ = keys()
        store.put([addition("a", "T", (PARTS[0], PARTS[0]))])
        assert keys() == [first, second]  # neither was moved
        store.put([addition("a", "T", (PARTS[0],))])
        assert keys() == [first]


def test_a_vector_that_changed_is_replaced_though_its_text_did_not(tmp_path: Path) -> None:
    entry, vectors = addition("a", "T", PARTS)
    turned = vectors.rows.copy()
    turned[-1] *= -1  # of the last summary
    with open_store(tmp_path / "library") as store:
        store.put([(entry, vectors)])
        (done,) = store.put([(entry, replace(vectors, rows=turned))])
        assert (done.kept, done.added) == (2, 1)
        np.testing.assert_array_equal(store.known_vectors("a")["summary", text_digest("about six")], turned[-1])


def test_metadata_pages_and_kinds_change_where_a_chunk_is_kept(tmp_path: Path) -> None:
    entry, vectors = addition("a", "T", PARTS)
    chunks = tuple(replace(c, metadata={"new": c.position}, kind="table", pages=(9, 9)) for c in entry.chunks)
    changed = replace(entry, chunks=chunks)
    with open_store(tmp_path / "library") as store:
        store.put([(entry, vectors)])
        (done,) = store.put([(changed, vectors)])
        assert done.kept == 3
        assert store.get("a") == changed
        found = store.search(Search(route="lexical", query="six four", k=9, where={"new": 1, "page": 9})).hits
        assert [hit.chunk for hit in found] == [chunks[1]]


# the law


class Shelf:
    """Documents that are edited at random, as they should be."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.documents: dict[str, tuple[str, tuple[Part, ...]]] = {}

    def part(self) -> Part:
        text = " ".join(self.random.choices(WORDS, k=self.random.randint(1, 5)))
        summary = self.random.choice(["", self.random.choice(WORDS), f"about {text}"])
        return Part(text, summary, tuple(self.random.choices(WORDS, k=self.random.randint(0, 2))))

    def edit(self, name: str) -> Addition:
        """Add, remove, move, change or sum up anew one paragraph of a document, or its title; or make a new one."""
        title, parts = self.documents.get(name, (self.random.choice("TU"), (self.part(), self.part())))
        at, new = self.random.randrange(len(parts)), self.part()
        before, this, after = parts[:at], parts[at], parts[at + 1 :]
        edits = [(*before, new, this, *after), (*before, *after), (this, *after, *before), (*before, new, *after)]
        edits += [(*before, replace(this, summary=self.random.choice(WORDS)), *after)]
        if self.random.random() < 0.03:
            title = self.random.choice("TUV")
        self.documents[name] = title, self.random.choice(edits) or parts
        return addition(name, *self.documents[name])


@pytest.mark.slow
def test_1_000_random_edits_leave_what_a_new_library_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "connect", unsafe(schema.connect))
    monkeypatch.setattr(vectors_module, "_TAIL", 60)  # so that the matrix is written anew now and then
    shelf, done, kept = Shelf(20261121), 0, 0
    names = [f"d{n:02}" for n in range(30)]
    with open_store(tmp_path / "library") as store:
        while done < 1_000:
            if shelf.documents and shelf.random.random() < 0.25:
                name = shelf.random.choice(sorted(shelf.documents))
                store.delete(name)
                del shelf.documents[name]
                done += 1
            else:
                chosen = shelf.random.sample(names, 12)
                written = store.put([shelf.edit(name) for name in chosen])
                kept += sum(each.kept for each in written)
                done += len(chosen)
            if done % 50 < 12:
                store.search(Search(route="dense", query="", vector=np.eye(DIM)[0], k=5, view="summary"))
                store.search(Search(route="lexical", query="ram", k=5, view="summary"))
        assert kept > 500
        compare(store, shelf, tmp_path)
        for name in sorted(shelf.documents):
            store.delete(name)
        assert {table: len(rows_of(store, table)) for table in TABLES} == dict.fromkeys(TABLES, 0)
        assert store.verify() == ()


def unsafe(connect: Callable[..., sqlite3.Connection]) -> Callable[..., sqlite3.Connection]:
    """Connect without waiting for the disk, which these tests have no need of."""

    def connected(*args: object, **options: object) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    return connected


def compare(store: LibraryStore, shelf: Shelf, folder: Path) -> None:
    words = [("lexical", None), ("lexical", "raw"), ("lexical", "summary")]
    additions = [addition(name, *held) for name, held in sorted(shelf.documents.items(), reverse=True)]
    assert [store.get(entry.document.id) for entry, _ in additions] == [entry for entry, _ in additions]
    assert store.verify() == ()
    with open_store(folder / "new") as new:
        new.add(additions)
        for table in TABLES:
            assert len(rows_of(store, table)) == len(rows_of(new, table)), table
        for request in requests(("dense", None), ("dense", "summary"), ("keyword", None)):
            assert store.search(request) == new.search(request), request
        for request in requests(*words):
            # tantivy counts the words of removed views until it merges what holds them: the same hits, other scores
            found, wanted = (each.search(replace(request, k=9_999)).hits for each in (store, new))
            assert {hit.chunk.id for hit in found} == {hit.chunk.id for hit in wanted}, request
    for kind in ("headed", "raw", "summary", WHOLE):
        store._routes._index(kind).discard()
    with open_store(folder / "library") as again, open_store(folder / "new") as new:
        for request in requests(*words):
            assert again.search(request) == new.search(request), request


def requests(*routes: tuple[str, str | None]) -> list[Search]:
    queries = [*WORDS, "ram flash", "about the clock"]
    asked = product(routes, queries, (3, 9_999))
    return [Search(route=r, query=query, vector=vector_of(query), k=k, view=v) for (r, v), query, k in asked]


def test_a_writer_that_dies_leaves_the_old_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = addition("a", "T", PARTS)
    with open_store(tmp_path / "library") as store:
        store.put([old])
        with monkeypatch.context() as patch:
            patch.setattr("catena.store.writing._view_order", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.put([addition("a", "U", PARTS[1:])])
        assert store.get("a") == old[0]
        assert store.verify() == ()
        assert store.search(Search(route="dense", query="", vector=vector_of("six"), k=1)).hits[0].chunk.text == "six"


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt

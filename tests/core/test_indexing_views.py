"""Vectors per view: a chunk is as near as its best row, and what is known already can be taken over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_indexing_entries import DIM, entry_of, open_store

from catena.effects import Search
from catena.model import Entry, ParameterError, View, ViewVectors, text_digest
from catena.store import LibraryStore
from catena.store import vectors as vectors_module
from catena.store.checks import check_entry

AXES = np.eye(DIM, dtype=np.float32)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LibraryStore]:
    with open_store(tmp_path / "library") as store:
        yield store


def summed_up(entry: Entry, *summaries: str, made: str = "") -> Entry:
    """The entry with a summary of each of its first chunks."""
    pairs = zip(entry.chunks, summaries, strict=False)  # the last chunks may have none
    views = (View(chunk_id=chunk.id, kind="summary", text=text, made=made) for chunk, text in pairs)
    return replace(entry, views=(*entry.views, *views))


def given_rows(*rows: tuple[int, str, list[float]], digests: tuple[str, ...] = ()) -> ViewVectors:
    places, kinds, numbers = zip(*rows, strict=True)
    return ViewVectors(rows=np.array(numbers, np.float32), chunks=places, kinds=kinds, digests=digests)


def dense(store: LibraryStore, vector: np.ndarray, **more: object) -> list[tuple[str, float, str]]:
    found = store.search(Search(route="dense", query="", vector=vector, **{"k": 99, **more}))
    return [(hit.chunk.text, round(hit.score, 6), hit.provenance[0].view) for hit in found.hits]


ENTRY = summed_up(entry_of("a", "one", "two", "three"), "about one", "about two")
ROWS = given_rows(
    (0, "", [1, 0, 0, 0]),
    (0, "", [0, 1, 0, 0]),  # a second window of the same text
    (0, "summary", [0, 0, 1, 0]),
    (1, "", [0.6, 0.8, 0, 0]),
    (2, "", [0, 0, 0, 1]),
    (1, "summary", [0, 0, 0.6, 0.8]),
    (1, "summary", [0, 0, 0.8, 0.6]),
)


def test_each_view_is_searched_by_its_own_vectors_and_a_chunk_counts_as_its_best(store: LibraryStore) -> None:
    assert dense(store, AXES[0], view="summary") == []
    (first,), (second,) = store.put([(ENTRY, AXES[:3])]), store.put([(ENTRY, ViewVectors.default(AXES[:3]))])
    assert (first.kept, first.added, second.kept, second.added) == (0, 3, 3, 0)
    assert dense(store, AXES[0], view="summary") == []  # there are such views, and they have no vectors
    store.put([(ENTRY, ROWS)])
    assert dense(store, AXES[1]) == [("one", 1.0, "headed"), ("two", 0.8, "headed"), ("three", 0.0, "headed")]
    assert dense(store, AXES[2], view="summary") == [("one", 1.0, "summary"), ("two", 0.8, "summary")]
    assert dense(store, AXES[3], view="summary") == [("two", 0.8, "summary"), ("one", 0.0, "summary")]
    assert dense(store, AXES[2], view="summary", k=1) == [("one", 1.0, "summary")]
    among = (ENTRY.chunks[1].id, ENTRY.chunks[2].id)
    assert dense(store, AXES[2], view="summary", among=among) == [("two", 0.8, "summary")]
    assert dense(store, AXES[2], view="summary", where={"page": {"$gt": 1}}) == [("two", 0.8, "summary")]
    assert dense(store, AXES[2], view="summary", documents=("nobody",)) == []
    assert store.verify() == ()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"chunks": (0, 0, 0, 1, 1, 1, 1)}, "chunk 2 has no default vector"),
        ({"chunks": (0, 0, 0, 1, 3, 1, 1)}, "a vector belongs to chunk 3, of 3"),
        ({"chunks": (-1, 0, 0, 1, 2, 1, 1)}, "a vector belongs to chunk -1, of 3"),
        ({"kinds": ("",) * 6}, "7 places, 6 kinds and 6 digests"),
        ({"digests": ("x",)}, "7 places, 7 kinds and 1 digests"),
        ({"digests": ("\ud800",) * 7}, "lone surrogate"),
        ({"kinds": ("", "", "summary", "", "", "caption", "")}, "chunk 1 has a vector of its view 'caption', and no"),
        ({"rows": ROWS.rows[:6]}, r"vectors have the shape \(6, 4\) for 7"),
        ({"rows": ROWS.rows * 2}, "vector 0 has length 2.0000, neither 1 nor 0"),
        ({"rows": ROWS.rows * 1.0015}, "vector 0 has length 1.0015"),
        ({"rows": ROWS.rows * np.nan}, "NaN or infinity"),
        ({"rows": ROWS.rows[:, :3]}, "'m' declares 4 numbers and gave 3"),
    ],
)
def test_vectors_that_contradict_the_entry_are_refused(changes: dict, problem: str) -> None:
    check_entry(ENTRY, ROWS, embedder="m", dim=DIM)
    check_entry(ENTRY, replace(ROWS, rows=ROWS.rows * 0.9995), embedder="m", dim=DIM)  # of half precision
    with pytest.raises(ParameterError, match=problem):
        check_entry(ENTRY, replace(ROWS, **changes), embedder="m", dim=DIM)


def test_what_was_embedded_is_known_by_its_text(store: LibraryStore) -> None:
    texts = ("one", "one, part two", "about one", "two", "", "about two", "about two again")
    store.add([(ENTRY, replace(ROWS, digests=tuple(text and text_digest(text) for text in texts)))])
    known = store.known_vectors("a")
    assert set(known) == {("summary" if "about" in t else "", text_digest(t)) for t in texts if t}
    np.testing.assert_array_equal(known["summary", text_digest("about two again")], ROWS.rows[6])
    assert store.known_vectors("nobody") == {}


def test_views_are_known_by_what_they_were_made_from(store: LibraryStore) -> None:
    entry = entry_of("a", "same", "same", "other")
    made = [
        View(chunk_id=entry.chunks[at].id, kind="questions", text=text, made=name)
        for at, text, name in [(1, "a?", "1"), (1, "b?", "1"), (2, "c?", "2"), (0, "a?", "1"), (0, "b?", "1")]
    ]
    entry = replace(entry, views=(*entry.views, *made))
    store.add([(entry, AXES[:3])])
    assert store.get("a") == entry
    assert store.made_views("a") == {"1": (made[3], made[4]), "2": (made[2],)}
    assert store.made_views("nobody") == {}
    other = replace(made[2], made="3")  # another maker says the same, word for word
    store.replace([(replace(entry, views=(*entry.views[:-3], other, *entry.views[-2:])), AXES[:3])])
    assert store.made_views("a") == {"1": (made[3], made[4]), "3": (other,)}


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM vectors WHERE kind = ''",
        "UPDATE vectors SET kind = 'caption' WHERE kind = 'summary'",
        "UPDATE views SET text = CAST('other' AS BLOB) WHERE kind = 'summary'",
        "UPDATE views SET made = 'other'",
        "UPDATE vectors SET digest = 'other'",
        "UPDATE vectors SET vector = x'00000000000000000000000000000000' WHERE row = 1",
        "UPDATE terms SET term = 'other'",
        "UPDATE documents SET view_order = '[1, 2]'",
    ],
)
def test_verify_tells_what_is_wrong_with_the_rows_of_a_chunk(tmp_path: Path, damage: str) -> None:
    with open_store(tmp_path / "library") as store:
        store.add([(replace(ENTRY, terms=(("x",), (), ())), ROWS)])
        assert store.verify() == ()
        with store._connections.connection() as connection:
            connection.execute(damage)
        assert store.verify() != ()


unit = st.integers(0, 2 * DIM - 1).map(lambda n: AXES[n % DIM] * (1 if n < DIM else -1))
kinds = st.sampled_from(["", "raw", "headed"])
rows = st.lists(st.tuples(st.integers(0, 2), kinds, unit), max_size=6)
names = st.sampled_from("abcd")
documents = st.lists(st.tuples(names, rows), min_size=1, max_size=6)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=documents, gone=st.sets(names), query=unit, kind=kinds, tail=st.sampled_from([0, 4, 99]))
def test_a_dense_search_is_the_best_product_of_every_chunk(
    tmp_path_factory: pytest.TempPathFactory, *, written: list, gone: set, query: np.ndarray, kind: str, tail: int
) -> None:
    """Whatever lies in the matrix, came after it, or was removed since; it is written anew after `tail` changes."""
    held: dict[str, tuple[Entry, ViewVectors]] = {}
    with (
        pytest.MonkeyPatch.context() as patch,
        open_store(tmp_path_factory.mktemp("dense") / "library", lexical="rank-bm25") as store,
    ):
        patch.setattr(vectors_module, "_TAIL", tail)
        patch.setattr(vectors_module, "_TAIL_PART", 0.0)
        for name, more in written:
            entry = entry_of(name, "x", "y", "z")
            held[name] = entry, given_rows(*((at, "", AXES[at]) for at in range(3)), *more)
            store.put([held[name]])
        for name in gone & held.keys():
            store.delete(name)
            del held[name]
        best: dict[str, float] = {}
        for entry, vectors in held.values():
            for at, of, row in zip(vectors.chunks, vectors.kinds, vectors.rows, strict=True):
                if of == kind:
                    chunk = entry.chunks[at].id
                    best[chunk] = max(best.get(chunk, -2.0), float(row @ query))
        request = Search(route="dense", query="", vector=query, k=99, view=kind or None)
        found = store.search(request).hits
        wanted = sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))
        assert [(hit.chunk.id, hit.score) for hit in found] == wanted
        some = tuple(sorted(best))[::2]
        found = store.search(replace(request, among=some)).hits
        assert [(hit.chunk.id, hit.score) for hit in found] == [pair for pair in wanted if pair[0] in some]

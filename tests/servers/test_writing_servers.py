"""Documents written to a real server: what was put is got, a kill loses nothing, and faults are clear."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from entry_cases import LAYOUT, additions, drawn, plain
from fault_cases import Beside

from catena.model import Chunk, Document, Entry, Outcome, ServerError, UnknownDocumentError, View
from catena_server import BulkOptions, ServerOptions, ServerStore
from catena_server.index_layout import open_layout
from catena_server.rebuilding import vectors_of
from catena_server.writing import Addition

SMALL = ServerOptions(bulk=BulkOptions(actions=2, in_flight=1))


@pytest.fixture
def store(product: tuple[Any, str], fresh_index: Callable[..., str]) -> ServerStore:
    """A set that was just made."""
    transport, url = product
    model: dict[str, Any] = {"embedder_identity": "laws", "dim": LAYOUT.dim, "several": LAYOUT.several}
    return ServerStore.open(Beside(transport), fresh_index(url, "b"), options=SMALL, **model)


def several(count: int) -> list[Addition]:
    """Return random additions of different documents."""
    return [renamed(addition, f"d{at}") for at, addition in enumerate(drawn(additions(), count, 5))]


def renamed(addition: Addition, document_id: str) -> Addition:
    """Return the same for a document, and for chunks, of other ids."""
    entry, vectors = addition
    ids = {chunk.id: f"{document_id}/{chunk.id}" for chunk in entry.chunks}
    return (
        replace(
            entry,
            document=replace(entry.document, id=document_id),
            sections=tuple(replace(section, document_id=document_id) for section in entry.sections),
            chunks=tuple(replace(chunk, id=ids[chunk.id], document_id=document_id) for chunk in entry.chunks),
            views=tuple(replace(view, chunk_id=ids[view.chunk_id]) for view in entry.views),
        ),
        vectors,
    )


def test_what_was_put_is_got_exported_and_deleted(store: ServerStore) -> None:
    entries = several(24)
    report = store.put(entries)
    report.check()
    assert len(report.written) == len(entries)
    for entry, vectors in entries:
        assert store.get(entry.document.id) == entry
        stored = list(store.export(document_id=entry.document.id))
        back = vectors_of(stored, LAYOUT.dim)
        assert (back.chunks, back.kinds) == (vectors.chunks, vectors.kinds)
        np.testing.assert_allclose(back.rows, vectors.rows, atol=1e-6)
        assert tuple(each.chunk for each in stored) == entry.chunks
    assert store.verify() == ()
    assert [info.id for info in store.documents()] == sorted(entry.document.id for entry, _ in entries)
    size = store.stats()
    assert (size.documents, size.chunks) == (len(entries), sum(len(entry.chunks) for entry, _ in entries))
    store.record([Outcome(source="\ud800.pdf", document_id="d0", state="partial")])
    store.delete("d0")
    assert (store.fingerprint("d0"), store.ledger()) == (None, ())
    with pytest.raises(UnknownDocumentError):
        store.delete("d0")
    assert store.verify() == ()


def test_a_writer_killed_again_and_again_loses_and_doubles_nothing(store: ServerStore) -> None:
    dice, server = random.Random(3), store.transport
    old = [plain(f"d{at}", 5, fingerprint="old") for at in range(4)]
    new = [plain(f"d{at}", 3, fingerprint="new", words="other") for at in range(4)]
    store.put(old)
    for _ in range(12):
        with server.killed_after(dice.randrange(16)):
            store.put(dice.choice([old, new]))
    store.put(new).check()
    for entry, _ in new:
        assert store.get(entry.document.id) == entry
    assert store.verify() == ()
    assert store.stats().chunks == 12


def test_nothing_of_a_document_is_too_long_for_the_server(store: ServerStore) -> None:
    long = "ä" * 40_000
    chunk = Chunk(
        id="c" * 512, document_id="d", position=0, start=0, end=len(long), text=long, path=(long,),
        metadata={long[:10_000]: long, "": long, "a..b": 1e300, "big": 2**70},
    )  # fmt: skip
    entry = Entry(
        document=Document(id="d", text=long, title=long, source=long, metadata={"x.y": "\uffff"}),
        sections=(),
        chunks=(chunk,),
        views=(View(chunk_id=chunk.id, kind="k.. " + "k" * 100, text=long),),
        terms=((long, "a"),),
    )
    store.put([(entry, plain("d", 1)[1])]).check()
    assert store.get("d") == entry
    assert store.verify() == ()
    store.record([Outcome(source=long, document_id="d", state="indexed")])
    assert [outcome.source for outcome in store.ledger()] == [long]


def test_a_document_that_the_server_refuses_is_reported_and_the_others_are_written(store: ServerStore) -> None:
    entry, vectors = plain("many", 1)
    keys = {f"key {at}": at for at in range(10_001)}  # more fields than the mapping may have
    bad = replace(entry, chunks=(replace(entry.chunks[0], metadata=keys),)), vectors
    report = store.put([bad, plain("good", 2)])
    assert (report.unfinished, [each.document_id for each in report.written]) == (("many",), ["good"])
    with pytest.raises(ServerError, match=r"1 documents are not whole, the first of them 'many'.*fields"):
        report.check()
    assert "did not end" in store.verify()[0]


def test_a_set_is_rebuilt_with_other_shards(store: ServerStore) -> None:
    entries, before = several(8), store.layout
    store.put(entries)
    store.rebuild(shards=3, vector_index="hnsw")
    wanted = replace(before, shards=3, vector_index="hnsw")
    assert store.layout == store._run(open_layout(wanted.name)) == wanted
    for entry, _ in entries:
        assert store.get(entry.document.id) == entry
    assert store.verify() == ()

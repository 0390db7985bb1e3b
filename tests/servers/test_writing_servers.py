"""Documents written to a real server: what was put is got, a kill loses nothing, and faults are clear."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest
from entry_cases import LAYOUT, additions, plain
from fake_server import Killed
from hypothesis import HealthCheck, Phase, given, seed, settings

from catena.effects import Handler, Services, Step, run
from catena.model import Chunk, Document, Entry, Outcome, ServerError, UnknownDocumentError, View
from catena_server import BulkOptions, Call, Flavour, IndexLayout, Pause, StoredChunk
from catena_server.calls import Cursor, ResultPage, items
from catena_server.contents import documents, export, fingerprint, get, ledger, stats, verify
from catena_server.index_layout import create, loading, open_layout, refresh
from catena_server.rebuilding import rebuild, vectors_of
from catena_server.writing import Addition, delete, put, record

pytestmark = pytest.mark.servers

T = TypeVar("T")
SMALL = BulkOptions(actions=2, in_flight=1)


class Server:
    """Runs steps on a real server, and can be killed after a number of calls."""

    def __init__(self, transport: Any, url: str) -> None:
        self.transport, self.url, self.made = transport, url, 0
        self.flavour: Flavour = transport.flavour
        self.kill_after: int | None = None

    def perform(self, call: Call) -> Any:
        if self.kill_after is not None and self.made >= self.kill_after:
            raise Killed
        self.made += 1
        return self.transport.perform(call)

    def run(self, step: Step[T]) -> T:
        pause = Handler(identity="pause", call=lambda _: None)
        return run(step, Services(handlers={Call: Handler(identity="es", call=self.perform), Pause: pause}))


@pytest.fixture
def server(product: tuple[Any, str]) -> Server:
    return Server(*product)


@pytest.fixture
def layout(server: Server, fresh_index: Callable[..., str]) -> IndexLayout:
    """A set that was just made."""
    return server.run(create(replace(LAYOUT, name=fresh_index(server.url, "b")), server.flavour))


def drawn(count: int) -> list[Addition]:
    """Return random additions of different documents, the same in each run."""
    found: list[Addition] = []

    @seed(5)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(additions())
    def draw(addition: Addition) -> None:
        found.append(addition)

    draw()
    return [renamed(addition, f"d{at}") for at, addition in enumerate(found[:count])]


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


def exported(
    server: Server, layout: IndexLayout, document_id: str, cursor: Cursor | None
) -> Step[ResultPage[StoredChunk]]:
    return export(layout, server.flavour, cursor, document_id=document_id, size=3)


def test_what_was_put_is_got_exported_and_deleted(server: Server, layout: IndexLayout) -> None:
    entries = drawn(24)
    report = server.run(loading(put(entries, layout, server.flavour, options=BulkOptions(actions=7)), layout))
    report.check()
    assert len(report.written) == len(entries)
    for entry, vectors in entries:
        assert server.run(get(entry.document.id, layout)) == entry
        listing = partial(exported, server, layout, entry.document.id)
        stored = list(items(listing, server.run))
        back = vectors_of(stored, layout.dim)
        assert (back.chunks, back.kinds) == (vectors.chunks, vectors.kinds)
        np.testing.assert_allclose(back.rows, vectors.rows, atol=1e-6)
        assert tuple(each.chunk for each in stored) == entry.chunks
    assert server.run(verify(layout, server.flavour)) == ()
    listed = list(items(lambda cursor: documents(layout, server.flavour, cursor, size=7), server.run))
    assert [info.id for info in listed] == sorted(entry.document.id for entry, _ in entries)
    size = server.run(stats(layout))
    assert (size.documents, size.chunks) == (len(entries), sum(len(entry.chunks) for entry, _ in entries))
    server.run(record([Outcome(source="\ud800.pdf", document_id="d0", state="partial")], layout))
    server.run(delete("d0", layout))
    server.run(refresh(layout))
    assert server.run(fingerprint("d0", layout)) is None
    assert list(items(lambda cursor: ledger(layout, server.flavour, cursor), server.run)) == []
    with pytest.raises(UnknownDocumentError):
        server.run(delete("d0", layout))
    assert server.run(verify(layout, server.flavour)) == ()


def test_a_writer_killed_again_and_again_loses_and_doubles_nothing(server: Server, layout: IndexLayout) -> None:
    dice = random.Random(3)
    old = [plain(f"d{at}", 5, fingerprint="old") for at in range(4)]
    new = [plain(f"d{at}", 3, fingerprint="new", words="other") for at in range(4)]
    server.run(put(old, layout, server.flavour))
    for _ in range(12):
        server.kill_after = server.made + dice.randrange(16)
        with suppress(Killed):
            server.run(put(dice.choice([old, new]), layout, server.flavour, options=SMALL))
        server.kill_after = None
    server.run(put(new, layout, server.flavour)).check()
    for entry, _ in new:
        assert server.run(get(entry.document.id, layout)) == entry
    assert server.run(verify(layout, server.flavour)) == ()
    assert server.run(stats(layout)).chunks == 12


def test_nothing_of_a_document_is_too_long_for_the_server(server: Server, layout: IndexLayout) -> None:
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
    server.run(put([(entry, plain("d", 1)[1])], layout, server.flavour)).check()
    assert server.run(get("d", layout)) == entry
    assert server.run(verify(layout, server.flavour)) == ()
    server.run(record([Outcome(source=long, document_id="d", state="indexed")], layout))
    server.run(refresh(layout))
    assert [o.source for o in items(lambda cursor: ledger(layout, server.flavour, cursor, size=1), server.run)] == [
        long
    ]


def test_a_document_that_the_server_refuses_is_reported_and_the_others_are_written(
    server: Server, layout: IndexLayout
) -> None:
    many = plain("many", 1)
    keys = {f"key {at}": at for at in range(10_001)}  # more fields than the mapping may have
    bad = replace(many[0], chunks=(replace(many[0].chunks[0], metadata=keys),)), many[1]
    report = server.run(put([bad, plain("good", 2)], layout, server.flavour))
    assert (report.unfinished, [each.document_id for each in report.written]) == (("many",), ["good"])
    with pytest.raises(ServerError, match=r"1 documents are not whole, the first of them 'many'.*fields"):
        report.check()
    assert "did not end" in server.run(verify(layout, server.flavour))[0]


def test_a_set_is_rebuilt_with_other_shards(server: Server, layout: IndexLayout) -> None:
    entries = drawn(8)
    server.run(put(entries, layout, server.flavour))
    wanted = replace(layout, shards=3, vector_index="hnsw")
    assert server.run(rebuild(layout, wanted, server.flavour)) == wanted
    assert server.run(open_layout(layout.name)) == wanted
    for entry, _ in entries:
        assert server.run(get(entry.document.id, wanted)) == entry
    assert server.run(verify(wanted, server.flavour)) == ()

"""An index set as a store: how it is opened, what is tried again, how much goes at once, and what it gives back."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock, Mock

import numpy as np
import pytest
from entry_cases import plain
from fake_server import FakeServer
from library_cases import boards

from catena import LibraryError, Outcome, ParameterError, View
from catena.effects import FetchText, Retry, Search
from catena.model import DEFAULT, DuplicateDocumentError, ServerError, UnknownDocumentError, ViewVectors, text_digest
from catena.store import LibraryStore
from catena.testing import FakeClock
from catena.testing.store_conformance import problems_of_async_store, problems_of_store
from catena_server import BulkOptions, Call, FusedOptions, ServerOptions, ServerStore
from catena_server.route_search import QueryOptions

MODEL = {"embedder_identity": "laws", "dim": 3}
BUSY = ServerError("fake server", "too many requests", True, None, 429, "es_rejected_execution_exception")


def options(**changes: Any) -> ServerOptions:
    return ServerOptions(clock=FakeClock(), retry=Retry(jitter=0.0), **changes)


def opened(server: Any, name: str = "d-set", **settings: Any) -> ServerStore:
    return ServerStore.open(server, name, options=options(), **{**MODEL, **settings})


def indexed(document_id: str, chunks: int = 1) -> Outcome:
    return Outcome(source=f"{document_id}.md", document_id=document_id, state="indexed", chunks=chunks)


def failing(fails: Callable[[Call], ServerError | None]) -> FakeServer:
    """Return a server that fails some calls instead of answering them."""
    server = FakeServer()

    def failed(call: Call) -> None:
        if error := fails(call):
            raise error

    server.fails = failed
    return server


# Opening.


@pytest.mark.parametrize("settings", [{"create": False}, {"embedder_identity": None, "dim": None}])
def test_nothing_is_made_where_nothing_may_be(settings: dict[str, Any]) -> None:
    server = FakeServer()
    with pytest.raises(LibraryError, match="no index set of this name; nothing was made"):
        opened(server, **settings)
    assert server.aliases() == {}


@pytest.mark.parametrize(
    "settings", [{"name": "A"}, {"dim": None}, {"embedder_identity": None}, {"shards": 0}, {"vector_index": "x"}]
)
def test_arguments_out_of_their_domain_are_refused_before_anything_is_asked(settings: dict[str, Any]) -> None:
    server = FakeServer()
    with pytest.raises(ParameterError):
        opened(server, **settings)
    assert server.calls == []


@pytest.mark.parametrize("options", [ServerOptions, FusedOptions, QueryOptions, BulkOptions])
def test_every_number_of_the_options_is_checked_when_it_is_given(options: Any) -> None:
    for name, kind in options.__annotations__.items():
        if kind in ("int", "float"):
            for bad in (-1, "1", True, None, float("nan"), float("inf"), *((1.5,) if kind == "int" else ())):
                with pytest.raises(ParameterError, match=name):
                    options(**{name: bad})


# What is written is read back, sync and async.


def test_documents_come_back_as_they_were_put() -> None:
    store = opened(FakeServer())
    one, two = plain("one", 3, fingerprint="f1"), plain("two", 1, fingerprint="f2")
    report = store.put([one, two], outcomes=[indexed("one", 3), indexed("two")])
    assert [written.document_id for written in report.written] == ["one", "two"]
    assert store.get("one") == one[0]
    assert [(info.id, info.chunks) for info in store.documents()] == [("one", 3), ("two", 1)]
    assert store.ledger() == (indexed("one", 3), indexed("two"))
    assert (store.fingerprint("one"), store.fingerprint("none")) == ("f1", None)
    assert store.fingerprints(["one", "none"]) == {"one": "f1"}
    assert [chunk.chunk for chunk in store.export()] == [*one[0].chunks, *two[0].chunks]
    assert store.put([one]).skipped == ("one",)
    store.delete("one")
    assert [info.id for info in store.documents()] == ["two"]
    with pytest.raises(UnknownDocumentError):
        store.get("one")


def test_add_refuses_what_is_there_and_writes_nothing() -> None:
    server = FakeServer()
    store = opened(server)
    assert store.add([plain("one", 1)]) == ("one",)
    with pytest.raises(DuplicateDocumentError, match="'one'"):
        store.add([plain("new", 1), plain("one", 2)])
    assert store.fingerprint("new") is None
    assert store.replace([plain("one", 2)]) == ("one",)


def test_an_older_version_offers_its_vectors_and_views_as_the_embedded_store_does() -> None:
    entry, _ = plain("one", 3)
    _, two, three = (chunk.id for chunk in entry.chunks)
    made = [(two, "summary", "same"), (three, "summary", "same"), (three, "keywords", "other")]
    views = tuple(View(chunk_id=of, kind=kind, text="of two", made=made_from) for of, kind, made_from in made)
    entry = replace(entry, views=(*entry.views, *views))
    rows = np.eye(3, dtype=np.float32)
    digests = tuple(text_digest(chunk.text) for chunk in entry.chunks)
    store = opened(FakeServer())
    store.put([(entry, ViewVectors(rows=rows, chunks=(0, 1, 2), kinds=(DEFAULT,) * 3, digests=digests))])
    assert store.made_views("none") == store.known_vectors("none") == {}
    known = {key: row.tolist() for key, row in store.known_vectors("one").items()}
    assert known == dict(zip(((DEFAULT, name) for name in digests), rows.tolist(), strict=True))
    found = store.made_views("one")
    assert {name: [v.chunk_id for v in held] for name, held in found.items()} == {"same": [two], "other": [three]}


# The driver.


def test_work_is_tried_again_and_questions_are_left_to_who_asks_them() -> None:
    errors: list[ServerError] = []
    server = failing(lambda call: errors.pop() if errors else None)
    store = opened(server)
    errors += [BUSY, BUSY]
    assert store.fingerprint("one") is None
    errors += [BUSY]
    before = len(server.calls)
    with pytest.raises(ServerError, match="too many requests"):
        store.texts(FetchText(spans=(("one", 0, 1),)))
    assert len(server.calls) == before + 1
    final = ServerError("fake server", "no", False, None, 403, "security_exception")
    errors += [final, final]
    with pytest.raises(ServerError) as caught:
        store.fingerprint("one")
    assert (caught.value.status, len(errors)) == (403, 1)


def test_no_more_calls_are_in_flight_than_said() -> None:
    now, most, guard = 0, 0, threading.Lock()

    class Counting(FakeServer):
        def perform(self, call: Call) -> Any:
            nonlocal now, most
            with guard:
                now += 1
                most = max(most, now)
            time.sleep(0.002)
            with guard:
                now -= 1
                return super().perform(call)

    bulk = BulkOptions(actions=1, in_flight=8)
    store = ServerStore.open(Counting(), "d-set", options=options(in_flight=3, bulk=bulk), **MODEL)
    store.put([plain("one", 24)])
    assert most == 3


def test_the_fields_of_filters_are_known_for_as_long_as_counts_are() -> None:
    server = FakeServer()
    with ServerStore.open(server, "d-set", options=options(counts_seconds=60.0), **MODEL) as store:
        assert store.field_names() == frozenset()
        store.put([plain("one", 2)])
        known = store.field_names()
        assert {"document_id", "title", "kind", "path"} <= known
        asked = len(server.calls)
        assert store.field_names() == known
        assert len(server.calls) == asked
    with opened(failing(lambda call: BUSY if call.purpose == "fields" else None)) as store:
        assert store.field_names() == frozenset()  # who searches then is told by the search


def test_fields_that_cannot_all_be_told_are_not_told() -> None:
    for fields in ({"a" * 600: 1}, {f"f{number}": number for number in range(1_001)}):
        with opened(FakeServer()) as store:
            entry, vectors = plain("one", 1)
            store.put([(replace(entry, document=replace(entry.document, metadata=fields)), vectors)])
            assert store.field_names() == frozenset()


def test_long_work_says_how_many_documents_are_done_and_of_how_many() -> None:
    told: list[tuple[int, int]] = []
    with opened(FakeServer()) as store:
        store.put([plain(f"d{n}", 2) for n in range(25)])
        assert store.verify(lambda *step: told.append(step)) == ()
        assert told == [(25, 25)]
        told.clear()
        store.rebuild(shards=2, progress=lambda *step: told.append(step))
        assert told == [(n, 25) for n in range(1, 26)]
        assert (store.layout.shards, store.stats().documents) == (2, 25)


def test_what_cannot_be_kept_is_not_pickled_and_closing_reaches_the_transport() -> None:
    server: Any = FakeServer()
    server.close, server.aclose = Mock(), AsyncMock()
    with opened(server) as store:
        assert repr(store) == "ServerStore('d-set on fake server')"
    asyncio.run(store.aclose())
    assert (server.close.call_count, server.aclose.await_count) == (1, 1)
    opened(FakeServer()).close()  # one that has nothing to close
    with pytest.raises(Exception, match="pickle"):
        pickle.dumps(store)


# The laws of any store, held by the embedded one and broken by ones that keep less.


QUESTION = ("which part is an ESP32", np.array([1, 0], np.float32))


@pytest.fixture
def embedded(tmp_path: Any) -> Any:
    with LibraryStore.open(tmp_path / "library", embedder_identity="laws", dim=2) as store:
        store.add(boards())
        yield store


def test_the_embedded_store_keeps_the_laws(embedded: LibraryStore) -> None:
    assert problems_of_store(embedded, *QUESTION) == ()
    assert asyncio.run(problems_of_async_store(embedded, *QUESTION)) == ()


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (lambda ranking, request: ranking.hits[::-1], "best first"),
        (lambda ranking, request: (*ranking.hits, *ranking.hits[-1:]), "twice"),
        (lambda ranking, request: ranking.hits[1:] if request.k < 3 else ranking.hits, "first k"),
        (lambda ranking, request: ranking.hits[:1] if request.among else ranking.hits, "`among`"),
        (lambda ranking, request: ranking.hits[:0] if request.documents else ranking.hits, "`documents`"),
        (lambda ranking, request: (), "nothing is found"),
    ],
)
def test_a_store_that_breaks_a_law_is_told_so(embedded: LibraryStore, broken: Any, problem: str) -> None:
    class Broken:
        routes = ("dense",)
        names = embedded.names

        def search(self, request: Search) -> Any:
            ranking = embedded.search(request)
            return type(ranking)(tuple(broken(ranking, request)), ranking.scale)

    assert any(problem in each for each in problems_of_store(Broken(), *QUESTION))

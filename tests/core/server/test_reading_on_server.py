"""Chunks and texts come back from a server as they were written, and as the embedded library gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fake_server import FakeServer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from library_cases import TEXTS, text_entry

from catena.effects import FetchChunks, FetchText
from catena.model import ServerError
from catena.store import LibraryStore
from catena_server import IndexLayout, calls, entry_actions
from catena_server import actions as records
from catena_server import lookups as reading
from catena_server.lookups import chunks, texts

LAYOUT = IndexLayout(name="c-reading", dim=2, embedder="ones")
PIECE = 7  # code points; a text of the cases is two of them long
ids = st.sampled_from([*TEXTS, "none"])
places = st.integers(-2, 40)
spans = st.lists(st.tuples(ids, places, places | st.just(10**12)), max_size=5).map(tuple)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibraryStore]:
    with LibraryStore.open(tmp_path_factory.mktemp("reading") / "l", embedder_identity="ones", dim=2) as store:
        store.add([text_entry(*each) for each in TEXTS.items()])
        yield store


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "PIECE", PIECE)
        patch.setattr(reading, "PIECE", PIECE)
        yield FakeServer.holding(
            LAYOUT.name, [action for each in TEXTS.items() for action in entry_actions(*text_entry(*each), LAYOUT)]
        )


@settings(deadline=None)
@given(asked=spans)
@example(asked=(("whole", 0, 14), ("whole", 14, 14), ("whole", 0, 15), ("whole", 15, 15), ("none", 0, 0)))
@example(asked=(("long", 0, 32), ("long", 6, 8), ("long", 31, 32), ("long", 0, 33), ("long", 3, 2)))
def test_texts_are_those_of_the_embedded_library(
    embedded: LibraryStore, server: FakeServer, asked: tuple[tuple[str, int, int], ...]
) -> None:
    request = FetchText(spans=asked)
    assert server.run(texts(request, LAYOUT)) == embedded.texts(request)


@settings(deadline=None)
@given(asked=spans)
@example(asked=(("long", 0, 10**12), ("long", 3, 5), ("short", -2, 1), ("long", 5, 3)))
def test_chunks_are_those_of_the_embedded_library(
    embedded: LibraryStore, server: FakeServer, asked: tuple[tuple[str, int, int], ...]
) -> None:
    request = FetchChunks(spans=tuple((key, first, min(end, 2**62)) for key, first, end in asked))
    assert server.run(chunks(request, LAYOUT)) == embedded.chunks(request)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_of_answers_lose_nothing(
    embedded: LibraryStore, server: FakeServer, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(reading, "_CHUNKS_AT_ONCE", limit)
    monkeypatch.setattr(calls, "_AT_ONCE", limit)
    asked = (("long", 0, 16), ("other", 1, 3), ("none", 0, 1), ("long", 2, 4))
    assert server.run(chunks(FetchChunks(spans=asked), LAYOUT)) == embedded.chunks(FetchChunks(spans=asked))
    assert server.run(texts(FetchText(spans=asked), LAYOUT)) == embedded.texts(FetchText(spans=asked))


def test_all_spans_are_asked_for_together_and_nothing_costs_nothing(server: FakeServer) -> None:
    server.calls.clear()
    server.run(chunks(FetchChunks(spans=(("long", 0, 3), ("other", 1, 2), ("long", 2, 5))), LAYOUT))
    server.run(texts(FetchText(spans=(("long", 1, 3), ("other", 1, 8), ("none", 0, 2))), LAYOUT))
    assert len(server.calls) == 3  # the text of "other" from 1 to 8 lies in two pieces
    server.calls.clear()
    assert server.run(chunks(FetchChunks(spans=(("long", 3, 3),)), LAYOUT)) == ((),)
    assert server.run(texts(FetchText(spans=(("long", 3, 1),)), LAYOUT)) == (None,)
    assert not server.calls


@pytest.mark.parametrize("changed", ["state", "piece"])
def test_a_document_that_is_being_replaced_has_no_text(server: FakeServer, changed: str) -> None:
    held = server.indices["c-reading-documents-1"].docs
    key = records.record_id("long") if changed == "state" else records.piece_id("long", 1)
    kept = held[key]
    try:
        if changed == "state":
            held[key] = kept | {"state": "writing"}
        else:
            del held[key]
        assert server.run(texts(FetchText(spans=(("long", 1, 20), ("other", 0, 2))), LAYOUT)) == (None, "ab")
    finally:
        held[key] = kept


def test_a_part_that_cannot_be_read_is_an_error_and_not_a_missing_text() -> None:
    step = texts(FetchText(spans=(("a", 0, 1),)), LAYOUT)
    next(step)
    answer: dict[str, Any] = {"docs": [{"_id": "x", "error": {"reason": "no such shard"}}]}
    with pytest.raises(ServerError, match=r"c-reading-documents.*no such shard"):
        step.send([answer])

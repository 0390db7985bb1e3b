"""A server finds in a question the names, and reads the chunks and texts, that the embedded library does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fake_server import FakeServer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from library_cases import TEXTS, WORDS, boards, name_questions, text_entry

from catena.effects import FetchChunks, FetchText, FindNames, NamesFound
from catena.model import ServerError
from catena.store import LibraryStore, possible_names, possible_patterns
from catena.text import NameIndex, names_of, patterns_of
from catena_server import IndexLayout, actions, calls, entry_actions, lookups
from catena_server.lookups import chunks, find_names, texts

LAYOUT = IndexLayout(name="c-look", dim=2, embedder="ones")
PIECE = 7  # code points; a text of the cases is two of them long
ids = st.sampled_from([*TEXTS, "none"])
places = st.integers(-2, 40)
spans = st.lists(st.tuples(ids, places, places | st.just(10**12)), max_size=5).map(tuple)


def served(entries: Any) -> FakeServer:
    return FakeServer.holding(LAYOUT.name, [each for entry in entries for each in entry_actions(*entry, LAYOUT)])


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibraryStore]:
    with LibraryStore.open(tmp_path_factory.mktemp("names") / "l", embedder_identity="ones", dim=2) as store:
        store.add([*boards(), *(text_entry(*each) for each in TEXTS.items())])
        yield store


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(actions, "PIECE", PIECE)
        patch.setattr(lookups, "PIECE", PIECE)
        yield served([*boards(), *(text_entry(*each) for each in TEXTS.items())])


@settings(deadline=None)
@given(query=name_questions, also=st.lists(st.sampled_from(WORDS), max_size=2).map(tuple))
@example(query="the HX-2 of the LoPy4", also=())
@example(query="Annual report 2031, scan 1", also=("9 abc",))
@example(query="the Pump HX-20", also=("6 abc",))
@example(query="the GY-1 and the ESP32 board 8", also=())
@example(query="Has the pump HX-210, ESP32 board or LoPy11 an ESP32, an F407VE or a ZZ9B?", also=())
def test_both_find_the_same_names(
    embedded: LibraryStore, server: FakeServer, query: str, also: tuple[str, ...]
) -> None:
    request = FindNames(query=query, also=also)
    # parts of titles and first lines are looked for in folders only
    assert server.run(find_names(request, LAYOUT)) == replace(embedded.names(request), parts=())


@settings(deadline=None)
@given(asked=spans)
@example(asked=(("whole", 0, 14), ("whole", 14, 14), ("whole", 0, 15), ("whole", 15, 15), ("none", 0, 0)))
@example(asked=(("long", 0, 32), ("long", 6, 8), ("long", 31, 32), ("long", 0, 33), ("long", 3, 2)))
@example(asked=(("long", 0, 10**12), ("long", 8, 10), ("short", -2, 1), ("long", 5, 3)))
def test_texts_and_chunks_are_those_of_the_embedded_library(
    embedded: LibraryStore, server: FakeServer, asked: tuple[tuple[str, int, int], ...]
) -> None:
    text, some = FetchText(spans=asked), FetchChunks(spans=tuple((k, a, min(end, 2**62)) for k, a, end in asked))
    assert server.run(texts(text, LAYOUT)) == embedded.texts(text)
    assert server.run(chunks(some, LAYOUT)) == embedded.chunks(some)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_of_answers_lose_nothing(
    embedded: LibraryStore, server: FakeServer, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    for name in ("_TITLES_AT_ONCE", "_PASSAGES", "_FILTERS_AT_ONCE", "_CHUNKS_AT_ONCE"):
        monkeypatch.setattr(lookups, name, limit)
    monkeypatch.setattr(calls, "_AT_ONCE", limit)
    for word in ("HX-200 and ESP32 or the annual report 2031", "Pump HX-210, Annual report 2030, ESP32 board, QX-77"):
        assert server.run(find_names(FindNames(query=word), LAYOUT)) == embedded.names(FindNames(query=word))
    asked = (("long", 0, 16), ("other", 1, 3), ("none", 0, 1), ("long", 2, 4))
    assert server.run(chunks(FetchChunks(spans=asked), LAYOUT)) == embedded.chunks(FetchChunks(spans=asked))
    assert server.run(texts(FetchText(spans=asked), LAYOUT)) == embedded.texts(FetchText(spans=asked))


def test_what_is_asked_costs_few_requests_and_nothing_costs_none(server: FakeServer) -> None:
    def cost(*steps: Any) -> int:
        before = len(server.calls)
        for step in steps:
            server.run(step)
        return len(server.calls) - before

    assert server.run(find_names(FindNames(query="how is it cleaned?"), LAYOUT)) == NamesFound()
    assert cost(find_names(FindNames(query="how is it cleaned?"), LAYOUT)) == 1
    spans_of_chunks = FetchChunks(spans=(("long", 0, 3), ("other", 1, 2), ("long", 2, 5)))
    spans_of_texts = FetchText(spans=(("long", 1, 3), ("other", 1, 8), ("none", 0, 2)))  # 1 to 8 lies in two pieces
    assert cost(chunks(spans_of_chunks, LAYOUT), texts(spans_of_texts, LAYOUT)) == 3
    nothing = (find_names(FindNames(query="..."), LAYOUT), chunks(FetchChunks(spans=(("long", 3, 3),)), LAYOUT))
    assert cost(*nothing, texts(FetchText(spans=(("long", 3, 1),)), LAYOUT)) == 0


@settings(deadline=None)
@given(st.lists(st.text("aB1 -.漢0é", min_size=1, max_size=8), max_size=4), st.text("aB1 -.漢é", max_size=10))
def test_every_name_that_is_said_is_looked_for(titles: list[str], around: str) -> None:
    index = NameIndex({str(place): title for place, title in enumerate(titles)})
    for query in (around, *(f"{around} {title}{around}" for title in titles)):
        assert {name.text for name in index.known_in(query)} <= set(possible_names(query))
    for title in titles:
        assert set(patterns_of(names_of(title))) <= set(possible_patterns(f"the {title}, {around}"))


@pytest.mark.parametrize("changed", ["state", "piece"])
def test_a_document_that_is_being_replaced_has_no_text(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    held = server.indices["c-look-documents-1"].docs
    if changed == "state":
        key = actions.record_id("long")
        monkeypatch.setitem(held, key, held[key] | {"state": "writing"})
    else:
        monkeypatch.delitem(held, actions.piece_id("long", 1))
    assert server.run(texts(FetchText(spans=(("long", 1, 20), ("other", 0, 2))), LAYOUT)) == (None, "ab")


def test_a_part_that_cannot_be_read_is_an_error_and_not_a_missing_text() -> None:
    step = texts(FetchText(spans=(("a", 0, 1),)), LAYOUT)
    next(step)
    answer: dict[str, Any] = {"docs": [{"_id": "x", "error": {"reason": "no such shard"}}]}
    with pytest.raises(ServerError, match=r"c-look-documents.*no such shard"):
        step.send([answer])

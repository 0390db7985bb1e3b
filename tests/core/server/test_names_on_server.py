"""A server finds in a question the names that the embedded library finds in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_server import FakeServer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from library_cases import WORDS, board, boards, name_questions

from catena.effects import FindNames, NamesFound
from catena.model import Name, Unknown
from catena.store import LibraryStore, possible_names, possible_patterns
from catena.text import NameIndex, names_of, patterns_of
from catena_server import IndexLayout, entry_actions
from catena_server import lookups as names
from catena_server.lookups import find_names

LAYOUT = IndexLayout(name="c-names", dim=2, embedder="ones")


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibraryStore]:
    with LibraryStore.open(tmp_path_factory.mktemp("names") / "l", embedder_identity="ones", dim=2) as store:
        store.add(boards())
        yield store


@pytest.fixture(scope="module")
def server() -> FakeServer:
    return FakeServer.holding(LAYOUT.name, [action for entry in boards() for action in entry_actions(*entry, LAYOUT)])


@settings(deadline=None)
@given(query=name_questions, also=st.lists(st.sampled_from(WORDS), max_size=2).map(tuple))
@example(query="the HX-2 of the LoPy4", also=())
@example(query="Annual report 2031, scan 1", also=("9 abc",))
@example(query="the Pump HX-20", also=("6 abc",))
@example(query="the GY-1 and the ESP32 board 8", also=())
def test_both_find_the_same(embedded: LibraryStore, server: FakeServer, query: str, also: tuple[str, ...]) -> None:
    request = FindNames(query=query, also=also)
    assert server.run(find_names(request, LAYOUT)) == embedded.names(request)


def test_what_is_found(server: FakeServer) -> None:
    asked = FindNames(query="Has the pump HX-210, ESP32 board or LoPy11 an ESP32, an F407VE or a ZZ9B?")
    assert server.run(find_names(asked, LAYOUT)) == NamesFound(
        known=(Name("pump hx 210", ("d1",)), Name("esp32 board", ("d2",))),
        properties=(Name("esp32", ("d10", "d2")),),
        unknown=(Unknown("LoPy11", ("LoPy4",)), Unknown("ZZ9B")),
    )


def test_a_name_inside_one_that_is_missed_is_not_known(server: FakeServer) -> None:
    found = server.run(find_names(FindNames(query="the ESP32 board 8"), LAYOUT))
    assert found == NamesFound(unknown=(Unknown("ESP32 board 8", ("ESP32 board 7",)),))


def test_a_question_takes_two_rounds_and_a_plain_one_one(server: FakeServer) -> None:
    server.calls.clear()
    assert server.run(find_names(FindNames(query="how is it cleaned?"), LAYOUT)) == NamesFound()
    assert len(server.calls) == 1
    server.calls.clear()
    assert server.run(find_names(FindNames(query="..."), LAYOUT)) == NamesFound()
    assert not server.calls


@pytest.mark.parametrize("page", [1, 2, 3])
def test_pages_of_answers_lose_nothing(
    embedded: LibraryStore, server: FakeServer, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    for limit in ("_TITLES_AT_ONCE", "_PASSAGES", "_FILTERS_AT_ONCE"):
        monkeypatch.setattr(names, limit, page)
    for word in ("HX-200 and ESP32 or the annual report 2031", "Pump HX-210, Annual report 2030, ESP32 board, QX-77"):
        assert server.run(find_names(FindNames(query=word), LAYOUT)) == embedded.names(FindNames(query=word))


def test_a_name_of_more_documents_than_a_page_is_known_of_all() -> None:
    many_boards = [board(f"d{place:04}", "Manual", "| a | b |\n", ()) for place in range(1_001)]
    many = FakeServer.holding(
        LAYOUT.name,
        [action for entry in many_boards for action in entry_actions(*entry, LAYOUT) if "-" not in action.id],
    )
    ((name,), *_) = (many.run(find_names(FindNames(query="the manual"), LAYOUT)).known,)
    assert name.documents == tuple(f"d{place:04}" for place in range(1_001))


@settings(deadline=None)
@given(st.lists(st.text("aB1 -.漢0é", min_size=1, max_size=8), max_size=4), st.text("aB1 -.漢é", max_size=10))
def test_every_name_that_is_said_is_looked_for(titles: list[str], around: str) -> None:
    index = NameIndex({str(place): title for place, title in enumerate(titles)})
    for query in (around, *(f"{around} {title}{around}" for title in titles)):
        assert {name.text for name in index.known_in(query)} <= set(possible_names(query))
    for title in titles:
        patterns = patterns_of(names_of(title))
        assert set(patterns) <= set(possible_patterns(f"the {title}, {around}"))

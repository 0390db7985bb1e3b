"""Questions that say names: each its share, in turns; and names that stand nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.effects import FindNames, NamesFound, Search, Services, arun, run
from catena.library import Library
from catena.model import (
    Chunk,
    Degraded,
    Document,
    Hit,
    Name,
    ParameterError,
    Provenance,
    Ranking,
    RouteError,
    Scale,
    ServiceError,
    Unknown,
)
from catena.retrieval import RankFusion, retrieve
from catena.retrieval.fusion import interleave
from catena.retrieval.multi_route import standing_nowhere
from catena.testing import FakeEmbedder
from catena.testing.fakes import FakeStore

MANUAL = """# {title}

## Hardware

| Parameter | Value |
|---|---|
| Clock | {clock} MHz |
| RAM | {ram} KB |

## Mounting

Turn the four screws of the cover by hand, then with the wrench that has come with the pump.

## Warranty

The maker gives two years on every part that has not been opened.
"""

REPORT = """# Field report

## Leaks

Pumps that stood in salt water lost their seals after 300 hours; the torque was 9 Nm. See also the QX-77.
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with Library.open(tmp_path_factory.mktemp("names") / "library") as opened:
        for number in range(6):
            title = f"Pump HX-{200 + 10 * number}"
            text = MANUAL.format(title=title, clock=16 + number, ram=64 * (number + 1))
            opened.add(Document(id=f"hx{200 + 10 * number}", text=text, title=title))
        opened.add(Document(id="report", text=REPORT, title="Field report"))
        yield opened


def places(found: Ranking) -> list[tuple[str, str]]:
    return [(hit.chunk.document_id, hit.chunk.path[-1]) for hit in found.hits]


def test_each_product_of_a_comparison_gets_its_share_first(library: Library) -> None:
    found = library.search("Which has more RAM: the HX-200, the HX-210, the HX-220 or the HX-250?", k=4)
    assert places(found) == [(name, "Hardware") for name in ("hx200", "hx210", "hx220", "hx250")]
    assert found.scale is Scale.RANK
    assert [hit.score for hit in found.hits] == [1.0, 1 / 2, 1 / 3, 1 / 4]
    shares = [[way.view for way in hit.provenance if way.route == "name"] for hit in found.hits]
    assert shares == [["hx 200"], ["hx 210"], ["hx 220"], ["hx 250"]]


def test_within_a_named_document_the_rest_of_the_question_decides(library: Library) -> None:
    assert places(library.search("How long is the warranty of the HX-230?", k=1)) == [("hx230", "Warranty")]
    assert places(library.search("HX-230 clock", k=1)) == [("hx230", "Hardware")]


def test_a_passage_that_bears_no_name_keeps_its_place(library: Library) -> None:
    found = library.search("Does salt water hurt the seals of the HX-200?", k=4)
    assert ("report", "Leaks") in places(found)


def test_by_name_can_be_switched_off(library: Library) -> None:
    found = library.search("warranty of the HX-230", k=3, by_name=False)
    assert found.scale is Scale.NORMALIZED
    assert not any(way.route == "name" for hit in found.hits for way in hit.provenance)


def test_a_filter_holds_for_every_share(library: Library) -> None:
    where = {"document_id": {"$ne": "hx210"}}
    found = library.search("RAM of the HX-200 and the HX-210", k=20, where=where)
    assert {document for document, _ in places(found)} >= {"hx200"}
    assert "hx210" not in {document for document, _ in places(found)}


def test_what_a_filter_may_hide_is_not_shown_as_near(library: Library) -> None:
    found = library.search("How much RAM has the HX-280?", where={"document_id": {"$ne": "hx210"}})
    assert (found.hits, found.unknown) == ((), (Unknown("HX-280"),))


def test_a_store_that_fails_at_names_is_told_of_or_raised() -> None:
    class Store(FakeStore):
        def names(self, request: FindNames) -> NamesFound:
            raise ServiceError("names", "out of order")

    services = Services(store=Store({"lexical": of(["a"]), "keyword": of(["a"])}), embedder=FakeEmbedder(8))
    found = run(retrieve("HX-1", k=1, routes=("lexical", "keyword")), services)
    assert [hit.chunk.id for hit in found.hits] == ["a"]
    assert [part.what for part in found.degraded] == ["names in the question"]
    with pytest.raises(RouteError, match="names"):
        run(retrieve("HX-1", k=1, routes=("lexical", "keyword"), on_route_error="raise"), services)


def test_ranks_can_be_fused_too(library: Library) -> None:
    found = library.search("RAM of the HX-200 and the HX-210", k=2, fusion=RankFusion())
    assert {document for document, _ in places(found)} == {"hx200", "hx210"}


async def test_asyncio_gives_the_same(library: Library) -> None:
    query = "RAM of the HX-200 and the HX-210, and of the HX-299"
    assert await library.asearch(query, k=5) == library.search(query, k=5)


def test_a_name_that_stands_nowhere_is_said_and_no_neighbour_is_returned(library: Library) -> None:
    found = library.search("How much RAM has the HX-280?")
    assert found.hits == ()
    ((unknown),) = found.unknown
    assert (unknown.text, unknown.near) == ("HX-280", ("HX-200", "HX-210", "HX-220", "HX-230", "HX-240"))
    assert str(unknown) == "'HX-280' stands nowhere in the documents; near it: HX-200, HX-210, HX-220, HX-230, HX-240"
    kept = library.search("How much RAM has the HX-280?", on_unknown="keep")
    assert kept.hits
    assert kept.unknown == found.unknown


def test_beside_a_known_name_an_unknown_one_is_only_said(library: Library) -> None:
    found = library.search("Which has more RAM, the HX-200 or the HX-280?", k=1)
    assert places(found) == [("hx200", "Hardware")]
    assert [unknown.text for unknown in found.unknown] == ["HX-280"]


def test_a_code_unlike_any_name_is_said_while_the_hits_stay(library: Library) -> None:
    found = library.search("Does a ZZ9000B fit the cover?", k=3)
    assert found.hits
    assert found.unknown == (Unknown("ZZ9000B"),)


@pytest.mark.parametrize(
    "query",
    [
        "the QX-77",  # printed in a text
        "What runs at 48MHz with 3.3V?",  # measures
        "the HX-2",  # the beginning of a name
        "Which pump has the warranty?",
        "",
    ],
)
def test_what_stands_somewhere_or_is_no_name_is_not_unknown(library: Library, query: str) -> None:
    assert library.search(query, k=3).unknown == ()


def test_names_that_the_caller_found_are_looked_up_too(library: Library) -> None:
    asked = "How much RAM has the Grundlach?"
    assert library.search(asked, k=3).unknown == ()
    found = library.search(asked, k=3, entities=("Grundlach", "pump"))
    assert found.unknown == (Unknown("Grundlach"),)
    assert found.hits


def test_a_property_that_titles_state_is_no_name(tmp_path) -> None:
    table = "\n\n| Part | Value |\n|---|---|\n| Core | ESP32 |\n"
    with Library.open(tmp_path / "library") as library:
        library.add(Document(id="a", text=f"# ESP32 Kit\n\n## Hardware{table}", title="ESP32 Kit"))
        library.add(*(Document(id=f"b{n}", text=f"# Nano {n}\n{table}", title=f"Nano {n}") for n in range(3)))
        found = library.store.names(FindNames(query="boards with the ESP32"))
        assert (found.known, found.properties) == ((), (Name("esp32", ("a",)),))
        assert library.store.names(FindNames(query="the ESP32 Kit")).known == (Name("esp32 kit", ("a",)),)


def test_a_product_that_others_mention_or_list_is_still_a_name(tmp_path) -> None:
    other = "# {t}\n\nAs the HX-200.\n\n## Sizes\n\n| Pump | Flow |\n|---|---|\n| HX-200 | 3 l |\n| HX-210 | 4 l |\n"
    with Library.open(tmp_path / "library") as library:
        library.add(Document(id="a", text="# HX-200 manual\n\nTorque 9 Nm.", title="HX-200 manual"))
        library.add(*(Document(id=t, text=other.format(t=t), title=t) for t in ("Report", "Survey", "Catalogue")))
        found = library.store.names(FindNames(query="torque of the HX-200"))
        assert (found.known, found.properties) == ((Name("hx 200", ("a",)),), ())


def test_beside_a_property_an_unknown_name_does_not_empty_the_ranking(tmp_path) -> None:
    table = "\n\n| Part | Value |\n|---|---|\n| Core | ESP32 |\n"
    with Library.open(tmp_path / "library") as library:
        library.add(Document(id="a", text=f"# ESP32 Kit\n\n## Hardware{table}", title="ESP32 Kit"))
        library.add(*(Document(id=f"b{n}", text=f"# Nano {n}\n{table}", title=f"Nano {n}") for n in range(3)))
        found = library.search("Has the Nano 7 an ESP32?")
        assert [unknown.text for unknown in found.unknown] == ["Nano 7"]
        assert found.hits
        assert library.search("Which core has the Nano 7?").hits == ()


def test_names_follow_what_is_added_and_deleted(tmp_path) -> None:
    with Library.open(tmp_path / "library") as library:
        assert library.search("HX-200").unknown == (Unknown("HX-200"),)
        library.add(Document(id="a", text="# Pump HX-200\n\nTorque 9 Nm.", title="Pump HX-200"))
        assert library.search("HX-200").unknown == ()
        assert library.search("HX-210").hits == ()
        library.add(Document(id="b", text="# Pump HX-210\n\nTorque 8 Nm.", title="Pump HX-210"))
        assert library.search("HX-210").unknown == ()
        library.delete("b")
        assert [unknown.text for unknown in library.search("HX-210").unknown] == ["HX-210"]


def test_a_known_name_inside_an_unknown_one_is_not_said(tmp_path) -> None:
    with Library.open(tmp_path / "library") as library:
        library.add(*(Document(id=t, text=f"# {t}\n\nRuns at 5 bar.", title=t) for t in ("Sanguino", "Sanguino 8")))
        found = library.search("pressure of the Sanguino 9")
        assert (found.hits, found.unknown) == ((), (Unknown("Sanguino 9", ("Sanguino 8",)),))
        assert library.search("pressure of the Sanguino").hits


def test_a_near_name_that_is_part_of_a_term_or_printed_in_a_text_exists(tmp_path) -> None:
    with Library.open(tmp_path / "library") as library:
        report = "# {t}\n\nAs the annual report 2029 said, the STM32F415VE was new. The annual  report\n2028 did not."
        library.add(*(Document(id=t, text=report.format(t=t), title=t) for t in ("Annual report 2030", "F407VE")))
        for said in ("the annual report 2029", "the F415VE", "the Annual Report 2028"):
            assert library.search(said).unknown == (), said
        assert library.search("the annual report 2027").unknown
        assert library.search("the F417VE").unknown


def test_the_general_ranking_says_how_a_chunk_was_found_that_a_share_has_too(library: Library) -> None:
    query = "warranty of the HX-230"
    general = {hit.chunk.id: hit.provenance for hit in library.search(query, k=30, by_name=False).hits}
    for hit in library.search(query, k=5).hits:
        assert tuple(way for way in hit.provenance if way.route != "name") == general[hit.chunk.id]


def test_a_share_is_ranked_by_what_is_asked_besides_the_name() -> None:
    asked: list[tuple[str, tuple[str, ...] | None]] = []

    class Store(FakeStore):
        def search(self, request):
            asked.append((request.query, request.documents))
            return super().search(request)

        def names(self, request: FindNames) -> NamesFound:
            return NamesFound(known=(Name("hx 1", ("d",)),))

    services = Services(store=Store({"lexical": of(["a"]), "keyword": of(["a"])}), embedder=FakeEmbedder(8))
    run(retrieve("torque of the HX-1", k=1, routes=("lexical", "keyword")), services)
    assert asked == [("torque of the HX-1", None)] * 2 + [("torque of the", ("d",))] * 2
    asked.clear()
    run(retrieve("HX-1", k=1, routes=("lexical", "keyword")), services)
    assert asked == [("HX-1", None)] * 2 + [("HX-1", ("d",))] * 2


def test_only_the_first_eight_names_of_a_question_get_a_share() -> None:
    class Store(FakeStore):
        def names(self, request: FindNames) -> NamesFound:
            return NamesFound(known=tuple(Name(f"hx {number}", (f"d{number}",)) for number in range(10)))

    store = Store({"lexical": of(["a"]), "keyword": of(["a"])})
    run(retrieve("HX", k=1, routes=("lexical", "keyword")), Services(store=store, embedder=FakeEmbedder(8)))
    documents = {call.documents for call in store.calls if isinstance(call, Search) and call.documents}
    assert documents == {(f"d{number}",) for number in range(8)}


def test_a_store_that_knows_no_names_is_asked_as_before() -> None:
    chunk = Chunk(id="a", document_id="d", position=0, start=0, end=1, text="x")
    ranking = Ranking((Hit(chunk, 1.0, (Provenance(route="lexical", rank=1, score=1.0),)),), Scale.SIMILARITY)
    store = FakeStore({"lexical": ranking, "keyword": ranking})
    services = Services(store=store, embedder=FakeEmbedder(8))
    found = run(retrieve("HX-1", k=1, routes=("lexical", "keyword")), services)
    assert (len(found.hits), found.unknown) == (1, ())


def test_a_name_stands_nowhere_where_the_users_filter_hides_what_prints_it() -> None:
    printing = Chunk(id="a", document_id="d", position=0, start=0, end=9, text="HX-1 pump")
    services = Services(store=FakeStore({"lexical": [printing]}))
    name = (Unknown("HX-1"),)
    assert run(standing_nowhere(name, None), services) == ()
    assert run(standing_nowhere(name, {"document_id": "d"}), services) == ()
    assert run(standing_nowhere(name, {"document_id": "e"}), services) == name


def test_shares_tell_what_failed_in_the_general_ranking() -> None:
    failed = (Degraded("route dense", "it is down"),)
    general = Ranking(of(["a"]).hits, Scale.NORMALIZED, failed)
    assert interleave({"p": of(["b"])}, general).degraded == failed


def test_without_a_lexical_route_nothing_is_claimed() -> None:
    assert run(standing_nowhere((Unknown("HX-1"),), None), Services(store=FakeStore({}))) == ()


async def test_a_share_that_fails_leaves_the_general_ranking() -> None:
    chunk = Chunk(id="a", document_id="d", position=0, start=0, end=1, text="x")
    ranking = Ranking((Hit(chunk, 1.0, (Provenance(route="lexical", rank=1, score=1.0),)),), Scale.SIMILARITY)

    class Store(FakeStore):
        def search(self, request):
            if request.documents is not None:
                raise RuntimeError("no documents here")
            return super().search(request)

        def names(self, request: FindNames) -> NamesFound:
            return NamesFound(known=(Name("hx 1", ("d",)),))

    services = Services(store=Store({"lexical": ranking, "keyword": ranking}), embedder=FakeEmbedder(8))
    found = await arun(retrieve("HX-1 torque", k=1, routes=("lexical", "keyword")), services)
    assert [hit.chunk.id for hit in found.hits] == ["a"]


def test_a_wrong_choice_is_named() -> None:
    with pytest.raises(ParameterError, match="on_unknown"):
        run(retrieve("q", on_unknown="guess"), Services())


names = st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=10)


def of(ids: list[str]) -> Ranking:
    hits = (
        Hit(
            Chunk(id=i, document_id="d", position=0, start=0, end=1, text="x"),
            1.0 / place,
            (Provenance(route="lexical", rank=place, score=1.0),),
        )
        for place, i in enumerate(ids, start=1)
    )
    return Ranking(tuple(hits), Scale.NORMALIZED)


@given(st.dictionaries(st.sampled_from("pqrs"), names, max_size=4), names)
def test_turns_are_fair_and_lose_nothing(shares: dict[str, list[str]], general: list[str]) -> None:
    found = [hit.chunk.id for hit in interleave({n: of(s) for n, s in shares.items()}, of(general)).hits]
    assert sorted(found) == sorted({i for ids in (*shares.values(), general) for i in ids})
    lists = [*shares.values(), general]
    for ids in lists:  # after n full turns, the first n of every list are there
        for n in range(1, len(ids) + 1):
            assert set(ids[:n]) <= set(found[: n * len(lists)])


@pytest.mark.parametrize(
    "query",
    ["HX200 torque", "the HX-200s", "HX-200-Pumpe Drehmoment", "the HX-200-based pump", "HX-200のトルクは?", "v4.2"],
)
def test_a_known_code_in_another_form_is_not_unknown(library: Library, query: str) -> None:
    assert library.search(query, k=3).unknown == ()


def test_an_unknown_code_in_a_compound_is_said_once(library: Library) -> None:
    assert [name.text for name in library.search("Drehmoment der HX-299-Pumpe").unknown] == ["HX-299"]
    assert [name.text for name in library.search("HX-299のトルクは?").unknown] == ["HX-299"]


@pytest.mark.parametrize("entities", ["HX-1", None, [1], 5])
def test_entities_are_a_sequence_of_strings(entities: object) -> None:
    with pytest.raises(ParameterError, match="entities"):
        run(retrieve("q", entities=entities), Services())


def test_a_pasted_log_costs_a_bounded_number_of_searches() -> None:
    store = FakeStore({"lexical": of([])})
    names = tuple(Unknown(f"ZZ-{number}") for number in range(1000))
    assert run(standing_nowhere(names, None), Services(store=store)) == names[:50]
    assert len(store.calls) == 50

"""Questions that say names: each its share, in turns; and names that stand nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from retrieval_cases import chunk, ids, in_order, table_store

from catena.effects import FindNames, NamesFound, Search, Services, run
from catena.library import Library
from catena.model import Degraded, Document, Name, Ranking, RouteError, Scale, ServiceError, Unknown
from catena.retrieval import retrieve
from catena.retrieval.fusion import interleave
from catena.retrieval.multi_route import standing_nowhere
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


def test_a_filter_holds_for_every_share(library: Library) -> None:
    where = {"document_id": {"$ne": "hx210"}}
    found = library.search("RAM of the HX-200 and the HX-210", k=20, where=where)
    assert {document for document, _ in places(found)} >= {"hx200"}
    assert "hx210" not in {document for document, _ in places(found)}


def test_what_a_filter_may_hide_is_not_shown_as_near(library: Library) -> None:
    found = library.search("How much RAM has the HX-280?", where={"document_id": {"$ne": "hx210"}})
    assert (found.hits, found.unknown) == ((), (Unknown("HX-280"),))


def test_a_name_that_stands_nowhere_is_said_and_no_neighbour_is_returned(library: Library) -> None:
    found = library.search("How much RAM has the HX-280?")
    assert found.hits == ()
    ((unknown),) = found.unknown
    assert (unknown.text, unknown.near) == ("HX-280", ("HX-200", "HX-210", "HX-220", "HX-230", "HX-240"))
    assert str(unknown) == "'HX-280' stands nowhere in the documents; near it: HX-200, HX-210, HX-220, HX-230, HX-240"
    kept = library.search("How much RAM has the HX-280?", on_unknown="keep")
    assert kept.hits
    assert kept.unknown == found.unknown


def test_a_product_that_others_mention_or_list_is_still_a_name(tmp_path) -> None:
    other = "# {t}\n\nAs the HX-200.\n\n## Sizes\n\n| Pump | Flow |\n|---|---|\n| HX-200 | 3 l |\n| HX-210 | 4 l |\n"
    with Library.open(tmp_path / "library") as library:
        library.add(Document(id="a", text="# HX-200 manual\n\nTorque 9 Nm.", title="HX-200 manual"))
        library.add(*(Document(id=t, text=other.format(t=t), title=t) for t in ("Report", "Survey", "Catalogue")))
        found = library.store.names(FindNames(query="torque of the HX-200"))
        assert (found.known, found.properties) == ((Name("hx 200", ("a",)),), ())


def test_a_section_that_a_name_heads_belongs_to_its_share(tmp_path) -> None:
    report = (
        "# Survey\n\n## HX-200\n\nSeals failed in salt.\n\n## HX-2000\n\nSeals failed, as of the HX-200, in salt.\n"
    )
    with Library.open(tmp_path / "library") as library:
        library.add(Document(id="a", text=MANUAL.format(title="HX-200", clock=1, ram=2), title="HX-200"))
        library.add(Document(id="b", text=report, title="Survey"))
        (name,) = library.store.names(FindNames(query="seals of the HX-200")).known
        assert [library.store.chunk(each).path for each in name.headed] == [("Survey", "HX-200")]
        first, *others = library.search("Why did seals of the HX-200 fail?", k=9, routes=("lexical", "dense")).hits
        assert (first.chunk.id, first.provenance[-1].view) == (name.headed[0], "hx 200")
        assert "HX-2000" not in {each.chunk.path[-1] for each in others if each.provenance[-1].route == "name"}
        where = {"document_id": "a"}
        assert {each.chunk.document_id for each in library.search("seals of the HX-200", where=where).hits} == {"a"}


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


@pytest.mark.parametrize(
    ("query", "unknown"),
    [
        ("the QX-77", []),  # printed in a text
        ("What runs at 48MHz with 3.3V?", []),  # measures
        ("the HX-2", []),  # the beginning of a name
        ("HX200 torque", []),  # a known code in another form
        ("the HX-200s", []),
        ("HX-200-Pumpe Drehmoment", []),
        ("HX-200のトルクは?", []),
        ("v4.2", []),
        ("", []),
        ("HX-299のトルクは?", ["HX-299"]),  # in a compound, once
        ("Drehmoment der HX-299-Pumpe", ["HX-299"]),
        ("Which has more RAM, the HX-200 or the HX-280?", ["HX-280"]),  # beside a known name
        ("Does a ZZ9000B fit the cover?", ["ZZ9000B"]),  # unlike any name: the hits stay
        # a name by its capital
        ("How much RAM has the Grundlach?", ["Grundlach"]),
        ("Is the RAM of Grundlach or Wilhelm larger?", ["Grundlach", "Wilhelm"]),
        ("How many Pumps leaked with Grundlach?", ["Grundlach"]),  # the other stands in a text
        ("Has the HX-200 more RAM than the Grundlach?", []),  # another name is known
        ("Grundlach RAM 2022", ["Grundlach"]),  # begins the question
        ("Grundlach's RAM", ["Grundlach"]),
        ("Grundlach\u2019s pumps in 2022", ["Grundlach"]),
        ("Nestl\u00e9 pumps", ["Nestl\u00e9"]),
        ("Pumps with RAM", []),
        ("How Much Was Written For Wilhelm", []),  # a title: any word has a capital
        ("Calculate RAM. What is RAM What is RAM What is RAM", []),  # how questions begin
        ("what is grundlach?", []),
        ("Was sagt Grundlach \u00fcber Verl\u00e4ngerung?", ["Grundlach"]),
        ("Grundlach RAM von Wilhelm", ["Grundlach", "Wilhelm"]),
        ("Hat die Grundlach bei hohen Kosten mehr RAM?", []),  # German writes every noun so
        ("Quel est le RAM de Grundlach ?", ["Grundlach"]),
    ],
)
def test_a_code_or_a_capital_that_stands_nowhere_is_told(library: Library, query: str, unknown: list[str]) -> None:
    found = library.search(query, k=3)
    assert [name.text for name in found.unknown] == unknown
    assert bool(found.hits) == (bool(query) and "299" not in query)


def test_names_that_the_caller_found_are_looked_up_too(library: Library) -> None:
    found = library.search("how much ram has the grundlach?", k=3, entities=("Grundlach", "pump"))
    assert found.unknown == (Unknown("grundlach"),)
    assert found.hits
    assert library.search("how much ram has the grundlach?", k=3).unknown == ()


def test_a_property_that_titles_state_is_no_name(tmp_path) -> None:
    table = "\n\n| Part | Value |\n|---|---|\n| Core | ESP32 |\n"
    with Library.open(tmp_path / "library") as library:
        library.add(Document(id="a", text=f"# ESP32 Kit\n\n## Hardware{table}", title="ESP32 Kit"))
        library.add(*(Document(id=f"b{n}", text=f"# Nano {n}\n{table}", title=f"Nano {n}") for n in range(3)))
        found = library.store.names(FindNames(query="boards with the ESP32"))
        assert (found.known, found.properties) == ((), (Name("esp32", ("a",)),))
        assert library.store.names(FindNames(query="the ESP32 Kit")).known == (Name("esp32 kit", ("a",)),)
        beside = library.search("Has the Nano 7 an ESP32?")  # a property keeps the ranking from being emptied
        assert ([unknown.text for unknown in beside.unknown], bool(beside.hits)) == (["Nano 7"], True)
        assert library.search("Which core has the Nano 7?").hits == ()


# Stores of tables


class NamesStore(FakeStore):
    """Knows names, and may fail at them, or at the rankings of their documents."""

    def __init__(self, *known: Name, broken: str = "") -> None:
        super().__init__({"lexical": in_order("a", "lexical"), "keyword": in_order("a", "keyword")})
        self.known, self.broken = known, broken

    def names(self, request: FindNames) -> NamesFound:
        if self.broken == "names":
            raise ServiceError("names", "out of order")
        return NamesFound(known=self.known)

    def search(self, request: Search) -> Ranking:
        if self.broken == "shares" and request.documents is not None:
            raise RuntimeError("no documents here")
        return super().search(request)


def asked_of(store: FakeStore, query: str = "HX-1 torque", **given) -> Ranking:
    return run(retrieve(query, k=1, routes=("lexical", "keyword"), **given), Services(store=store))


HX = Name("hx 1", ("d",))


def test_a_share_is_ranked_by_what_is_asked_besides_the_name() -> None:
    for query, rest in (("torque of the HX-1", "torque of the"), ("HX-1", "HX-1")):
        store = NamesStore(HX)
        asked_of(store, query)
        asked = [(call.query, call.documents) for call in store.calls]
        assert asked == [(query, None)] * 2 + [(rest, ("d",))] * 2


def test_only_the_first_eight_names_of_a_question_get_a_share() -> None:
    store = NamesStore(*(Name(f"hx {number}", (f"d{number}",)) for number in range(10)))
    asked_of(store)
    assert {call.documents for call in store.calls} == {None, *((f"d{number}",) for number in range(8))}


def test_what_fails_at_names_is_told_of_or_raised_and_what_fails_at_a_share_leaves_the_ranking() -> None:
    found = asked_of(NamesStore(HX, broken="names"))
    assert (ids(found), [part.what for part in found.degraded]) == ("a", ["names in the question"])
    with pytest.raises(RouteError, match="names"):
        asked_of(NamesStore(broken="names"), on_route_error="raise")
    assert ids(asked_of(NamesStore(HX, broken="shares"))) == "a"
    assert ids(asked_of(table_store({"lexical": {"a": 1.0}, "keyword": {"a": 1.0}}))) == "a"  # knows no names
    general = Ranking(in_order("a").hits, Scale.NORMALIZED, (Degraded("route dense", "it is down"),))
    assert interleave({"p": in_order("b")}, general).degraded == general.degraded


def test_a_name_stands_nowhere_where_the_users_filter_hides_what_prints_it() -> None:
    services = Services(store=FakeStore({"lexical": [chunk("a", "HX-1 pump")]}))
    name = (Unknown("HX-1"),)
    for where, found in ((None, ()), ({"document_id": "d"}, ()), ({"document_id": "e"}, name)):
        assert run(standing_nowhere(name, where), services) == found
    assert run(standing_nowhere(name, None), Services(store=FakeStore({}))) == ()  # no lexical route: no claim


def test_a_pasted_log_costs_a_bounded_number_of_searches() -> None:
    store = FakeStore({"lexical": Ranking((), Scale.SIMILARITY)})
    names = tuple(Unknown(f"ZZ-{number}") for number in range(1000))
    assert run(standing_nowhere(names, None), Services(store=store)) == names[:50]
    assert len(store.calls) == 50

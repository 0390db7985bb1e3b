"""Searches of a library over its graph: chains on the bundled manuals, in a thread of its own or not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from catena.effects import run
from catena.graph import GraphSearch, PaperScorer, WalkOptions, initial_weights, search_graph
from catena.library import Library, search_step
from catena.model import LibraryError, ParameterError, Ranking, ServiceError
from catena.testing import Flaky

MANUALS = Path(__file__).parents[2] / "packages/catena/src/catena/data/demo"
QUESTION = "maximum relative humidity of the HX200"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with Library.open(tmp_path_factory.mktemp("graph") / "library") as opened:
        opened.index(MANUALS)
        opened.build_graph()
        yield opened


def test_a_search_is_the_step_with_the_services_of_the_library_and_its_async_twins_agree(library: Library) -> None:
    found = library.search_graph(QUESTION, k=5)
    assert found.ranking == run(search_graph(QUESTION, k=5), library.services).ranking
    assert found.chains
    assert len(found.ranking.hits) == 5
    assert asyncio.run(library.asearch_graph(QUESTION, k=5)) == found
    assert library.widen(QUESTION, found.first, k=5) == found
    assert asyncio.run(library.awiden(QUESTION, found.first, k=5)) == found


def test_a_library_without_a_graph_says_how_to_build_one(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library") as bare:
        first = bare.search("x")
        for ask in (
            lambda: bare.search_graph("x"),
            lambda: bare.widen("x", first),
            lambda: asyncio.run(bare.asearch_graph("x")),
            lambda: asyncio.run(bare.awiden("x", first)),
        ):
            with pytest.raises(LibraryError, match=r"no graph.*build_graph"):
                ask()


def test_what_cannot_be_done_is_said_before_anything_is_asked(library: Library) -> None:
    with pytest.raises(ParameterError, match="GraphSearch"):
        library.search_graph("x", WalkOptions())  # type: ignore[arg-type]
    by_model = GraphSearch(walk=WalkOptions(strategy="paper"), keywords_by="llm")
    with pytest.raises(ParameterError, match="llm"):
        library.search_graph("x", by_model)
    seeds_of_ranking = GraphSearch(keywords_by="llm")  # a walk whose seeds need no keywords asks no model
    assert library.search_graph(QUESTION, seeds_of_ranking).chains


def test_a_scorer_trained_with_another_embedder_is_refused(library: Library) -> None:
    dim, embedder = 256, library.stats().embedder
    weights = initial_weights(dim, 4, 4, 0)
    first = library.search(QUESTION)
    other = GraphSearch(scorer=PaperScorer(weights=weights, encoder="other/model@12ab"))
    with pytest.raises(ParameterError, match=r"other/model@12ab.*train anew"):
        library.search_graph(QUESTION, other)
    with pytest.raises(ParameterError, match=r"other/model@12ab.*train anew"):
        asyncio.run(library.awiden(QUESTION, first, other))
    own = GraphSearch(scorer=PaperScorer(weights=weights, encoder=embedder))
    assert library.widen(QUESTION, first, own).chains


NOTES = {
    "pump": "# Pump P7\n\nThe membrane of the pump P7 is made by Krona Works.\n",
    "krona": "# Krona Works\n\nThe company was founded by two smiths in Uppsala.\n",
    "paint": "# Paint shop\n\nThe shop in the town opens at seven, and closes at four.\n",
    "valve": "# Valve V2\n\nThe maker of the valve delivers a membrane with each box.\n",
    "motor": "# Motor M3\n\nWhich oil the motor takes stands on its plate; the maker of the oil is named there.\n",
    "town": "# Town hall\n\nThe town is made of five villages, and each has a hall.\n",
}
TWO_HOPS, ONE_HOP = "Where was the maker of the membrane of P7 founded?", "Which oil does the motor M3 take?"


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Library]:
    for name, text in NOTES.items():
        (tmp_path / f"{name}.md").write_text(text)
    with Library.open(tmp_path / "library") as opened:
        opened.index(tmp_path)
        yield opened


def titles(ranking: Ranking) -> list[str]:
    return [hit.chunk.path[-1] for hit in ranking.hits]


def test_a_search_goes_over_the_graph_where_that_leads_on_and_is_the_plain_one_where_not(notes: Library) -> None:
    plain = notes.search(TWO_HOPS, k=2)
    assert titles(plain) == ["Pump P7", "Valve V2"]
    alone = notes.search(ONE_HOP, k=2)
    notes.build_graph()
    found = notes.search(TWO_HOPS, k=2)
    assert titles(found) == ["Pump P7", "Krona Works"]
    assert [way.route for way in found.hits[1].provenance][-1] == "graph"
    assert found == notes.search_graph(TWO_HOPS, k=2).ranking == asyncio.run(notes.asearch(TWO_HOPS, k=2))
    again = notes.search(ONE_HOP, k=2)  # nothing is less sure than a hop: hits and scores as before
    assert [(hit.chunk.id, hit.score) for hit in again.hits] == [(hit.chunk.id, hit.score) for hit in alone.hits]
    assert notes.search(TWO_HOPS, k=2, graph=False) == plain
    by_words = notes.search(TWO_HOPS, k=2, routes=("lexical",))
    assert all(way.route == "lexical" for hit in by_words.hits for way in hit.provenance)
    assert titles(notes.search(TWO_HOPS, k=2, routes=("lexical", "dense"), graph=True)) == titles(found)
    assert titles(notes.search(TWO_HOPS, k=2, where={"title": {"$ne": "Krona Works"}})) == titles(plain)
    assert notes.search(TWO_HOPS, k=0).hits == ()
    with pytest.raises(ParameterError, match="depth"):
        notes.search(TWO_HOPS, k=5, depth=3)


def test_a_graph_that_is_asked_for_must_be_there_and_one_that_fails_costs_the_walk_only(notes: Library) -> None:
    with pytest.raises(LibraryError, match=r"no graph.*build_graph"):
        notes.search(TWO_HOPS, graph=True)
    with pytest.raises(ParameterError, match="graph"):
        notes.search(TWO_HOPS, graph="yes")  # type: ignore[arg-type]
    plain = notes.search(TWO_HOPS, k=2)
    notes.build_graph()
    broken = replace(notes.services, graph=Flaky(notes.graph, [ServiceError("graph", "away")] * 9))
    found = run(search_step(TWO_HOPS, {"k": 2}), broken)
    assert found.hits == plain.hits
    assert [failure.what for failure in found.degraded] == ["graph"]
    with pytest.raises(ServiceError, match="away"):
        run(search_step(TWO_HOPS, {"k": 2, "on_route_error": "raise"}), broken)
    assert run(search_step(TWO_HOPS, {"k": 2}), replace(notes.services, graph=None)) == plain

"""Searches of a library over its graph: chains on the bundled manuals, in a thread of its own or not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from catena.effects import run
from catena.graph import GraphSearch, PaperScorer, WalkOptions, initial_weights, search_graph
from catena.library import Library
from catena.model import LibraryError, ParameterError

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


def test_a_filter_binds_the_graph_too(library: Library) -> None:
    document = library.documents()[0].id
    found = library.search_graph(QUESTION, k=8, where={"document_id": document})
    assert {hit.chunk.document_id for hit in found.ranking.hits} == {document}


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

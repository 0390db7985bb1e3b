"""From a question to chains: first ranking, walk, filters, what is asked of whom, and what a failure costs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from catena.effects import Search, Services, arun, run
from catena.graph import PAPER, GraphSearch, SimilarityScorer, WalkOptions, search_graph, widen
from catena.model import Chunk, FilterError, Hit, MissingServiceError, ParameterError, Ranking, Scale, ServiceError
from catena.retrieval import RankFusion
from catena.testing import FakeLLM, Flaky
from catena.testing.fakes import AngleEmbedder, FakeGraph, FakeStore

TEXTS = {"a": "10 Quasar pump", "b": "20 seal of it", "c": "30 motor", "d": "80 rotor", "e": "40 Quasar valve"}
CHUNKS = {
    i: Chunk(
        id=i, document_id=f"doc {i}", position=0, start=0, end=len(text), text=text, metadata={"year": 2000 + place}
    )
    for place, (i, text) in enumerate(TEXTS.items())
}
EDGES: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("a", "b"): {"mention": 1.0},
    ("b", "c"): {"semantic": 0.9},
    ("a", "d"): {"semantic": 0.1},
}
QUERY = "0 Which pump of the Quasar?"
HOW = GraphSearch(routes=("lexical",))
BY_GRAPH = GraphSearch(routes=("lexical",), walk=WalkOptions(candidates="graph"))


def graph() -> FakeGraph:
    embedder = AngleEmbedder()
    return FakeGraph(
        list(CHUNKS.values()), {i: embedder.embed_query(text).tolist() for i, text in TEXTS.items()}, EDGES
    )


def store() -> FakeStore:
    found = [CHUNKS["a"], CHUNKS["e"]]
    return FakeStore({"lexical": found, "dense": found})


def services(**others: Any) -> Services:
    return Services(**{"store": store(), "embedder": AngleEmbedder(), "graph": graph(), **others})


def ids(ranking: Ranking) -> str:
    return "".join(hit.chunk.id for hit in ranking.hits)


def test_a_question_becomes_a_ranking_and_its_chains() -> None:
    found = run(search_graph(QUERY, BY_GRAPH, k=4), services())
    assert ids(found.first) == "ae"
    assert ids(found.ranking) == "abcd"
    assert ["".join(chunk.id for chunk in chain.chunks) for chain in found.chains] == ["abc", "ad"]
    assert found.chains[0].hops[1].edge is not None
    assert found.keywords == ()


def test_threads_and_asyncio_find_the_same() -> None:
    assert run(search_graph(QUERY, HOW), services()) == asyncio.run(arun(search_graph(QUERY, HOW), services()))


def test_widen_takes_any_ranking_and_needs_no_store() -> None:
    strange = Chunk(id="strange", document_id="other", position=0, start=0, end=1, text="x")
    first = Ranking((Hit(strange, 9.0), Hit(CHUNKS["a"], 8.0), Hit(CHUNKS["e"], 7.0)), Scale.PROBABILITY)
    found = run(widen(QUERY, first, BY_GRAPH, k=6), Services(embedder=AngleEmbedder(), graph=graph()))
    assert [hit.chunk.id for hit in found.ranking.hits] == ["a", "b", "c", "d", "strange", "e"]
    assert found.ranking.scale is Scale.RANK
    assert found.first == first


def test_the_question_is_embedded_once_also_for_the_dense_route() -> None:
    embedder, asked = AngleEmbedder(), store()
    run(
        search_graph(QUERY, GraphSearch(fusion=RankFusion(), routes=("dense", "lexical"))),
        services(embedder=embedder, store=asked),
    )
    assert embedder.calls == [QUERY]
    assert any(isinstance(call, Search) and call.route == "dense" and call.vector is not None for call in asked.calls)


def test_a_filter_is_obeyed_by_routes_and_graph() -> None:
    found = run(search_graph(QUERY, HOW, where={"year": {"$ne": 2001}}), services())
    assert ids(found.ranking) == "aed"  # b is refused, and c is behind it
    widened = run(widen(QUERY, found.first, HOW, where={"document_id": "doc b"}), services())
    assert set(ids(widened.ranking)) == {"a", "e", "b"}  # the given ranking is believed
    with pytest.raises(FilterError):
        run(search_graph(QUERY, HOW, where={"year": {"$near": 3}}), services())
    with pytest.raises(FilterError):
        run(widen(QUERY, found.first, HOW, where={"year": {"$near": 3}}), services())


def test_seeds_by_keywords_of_the_question() -> None:
    found = run(search_graph(QUERY, GraphSearch(routes=("lexical",), walk=PAPER), k=4), services())
    assert found.keywords == ("quasar",)
    assert found.chains[0].chunks[0].id == "a"  # nearer to the question than e
    model = FakeLLM(lambda request: '["pump"]')
    by_model = GraphSearch(routes=("lexical",), walk=PAPER, keywords_by="llm")
    assert run(search_graph(QUERY, by_model), services(llm=model)).keywords == ("pump",)


@pytest.mark.parametrize(("query", "k"), [("", 5), ("  ", 5), (QUERY, 0)])
def test_nothing_asked_is_nothing_found(query: str, k: int) -> None:
    found = run(search_graph(query, HOW, k=k), services())
    assert (found.ranking.hits, found.chains) == ((), ())


# What a failure costs.


def test_a_graph_that_fails_costs_the_walk_and_says_so() -> None:
    broken = Flaky(graph(), [None, ServiceError("graph", "away")])
    found = run(search_graph(QUERY, HOW, k=1), services(graph=broken))
    assert (ids(found.ranking), found.chains) == ("a", ())
    assert found.ranking.scale is found.first.scale
    assert [(failed.what, "away" in failed.why) for failed in found.ranking.degraded] == [("graph", True)]
    strict = GraphSearch(routes=("lexical",), on_graph_error="raise")
    with pytest.raises(ServiceError, match="away"):
        run(search_graph(QUERY, strict), services(graph=Flaky(graph(), [ServiceError("graph", "away")])))


def test_a_question_that_cannot_be_embedded_is_searched_by_words() -> None:
    embedder = Flaky(AngleEmbedder(), [ServiceError("embedder", "away")])
    found = run(search_graph(QUERY, HOW), services(embedder=embedder))
    assert ids(found.ranking) == "ae"
    assert [failed.what for failed in found.ranking.degraded] == ["graph"]
    strict = GraphSearch(routes=("lexical",), on_graph_error="raise")
    with pytest.raises(ServiceError, match="away"):
        run(widen(QUERY, found.first, strict), services(embedder=Flaky(AngleEmbedder(), [ServiceError("e", "away")])))


def test_a_graph_that_nobody_gave_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(MissingServiceError, match="CountWords"):
        run(search_graph(QUERY, HOW), services(graph=None))


@pytest.mark.parametrize(
    "wrong",
    [
        {"walk": "paper"}, {"scorer": SimilarityScorer}, {"scorer": 3}, {"fusion": "rrf"}, {"depth": 0},
        {"keywords_by": "hand"}, {"on_graph_error": "ignore"},
    ],
    ids=str,
)  # fmt: skip
def test_settings_out_of_range_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        GraphSearch(**wrong)


@pytest.mark.parametrize(("query", "k"), [(3, 1), (QUERY, -1), (QUERY, True), (QUERY, 1.5)])
def test_questions_and_numbers_are_checked_before_anything_is_asked(query: Any, k: Any) -> None:
    embedder = AngleEmbedder()
    with pytest.raises(ParameterError):
        run(search_graph(query, HOW, k=k), services(embedder=embedder))
    with pytest.raises(ParameterError):
        run(widen(query, Ranking((), Scale.RANK), HOW, k=k), services(embedder=embedder))
    assert not embedder.calls


def test_what_is_no_ranking_and_no_setting_is_refused_by_name() -> None:
    nothing: Any = [CHUNKS["a"]]
    walk_alone: Any = WalkOptions()
    with pytest.raises(ParameterError, match="ranking must be a Ranking"):
        run(widen(QUERY, nothing, HOW), services())
    with pytest.raises(ParameterError, match=r"how must be GraphSearch"):
        run(widen(QUERY, Ranking((), Scale.RANK), walk_alone), services())
    with pytest.raises(ParameterError, match=r"how must be GraphSearch"):
        run(search_graph(QUERY, walk_alone), services())

"""From a question to chains: first ranking, walk, filters, what is asked of whom, and what a failure costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from graph_fakes import FakeGraph
from retrieval_cases import chunk, ids

from catena.effects import Search, Services, run
from catena.graph import PAPER, GraphSearch, SimilarityScorer, WalkOptions, search_graph, widen
from catena.model import FilterError, Hit, MissingServiceError, ParameterError, Ranking, Scale, ServiceError
from catena.retrieval import RankFusion
from catena.testing import FakeLLM, Flaky
from catena.testing.fakes import AngleEmbedder, FakeStore

TEXTS = {"a": "10 Quasar pump", "b": "20 seal of it", "c": "30 motor", "d": "80 rotor", "e": "40 Quasar valve"}
CHUNKS = {
    i: chunk(i, text, document_id=f"doc {i}", metadata={"year": 2000 + place})
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
    vectors = {i: AngleEmbedder().embed_query(text).tolist() for i, text in TEXTS.items()}
    return FakeGraph(list(CHUNKS.values()), vectors, EDGES)


def store() -> FakeStore:
    found = [CHUNKS["a"], CHUNKS["e"]]
    return FakeStore({"lexical": found, "dense": found})


def services(**others: Any) -> Services:
    return Services(**{"store": store(), "embedder": AngleEmbedder(), "graph": graph(), **others})


def test_a_question_becomes_a_ranking_and_its_chains() -> None:
    found = run(search_graph(QUERY, BY_GRAPH, k=4), services())
    assert ids(found.first) == "ae"
    assert ids(found.ranking) == "abdc"
    assert ["".join(chunk.id for chunk in chain.chunks) for chain in found.chains] == ["abc", "ad"]
    assert found.chains[0].hops[1].edge is not None
    assert found.keywords == ()


def test_widen_takes_any_ranking_and_needs_no_store() -> None:
    strange = chunk("strange", document_id="other")
    first = Ranking((Hit(strange, 9.0), Hit(CHUNKS["a"], 8.0), Hit(CHUNKS["e"], 7.0)), Scale.PROBABILITY)
    found = run(widen(QUERY, first, BY_GRAPH, k=6), Services(embedder=AngleEmbedder(), graph=graph()))
    assert [hit.chunk.id for hit in found.ranking.hits] == ["strange", "a", "b", "d", "c", "e"]  # the first stays
    assert found.ranking.scale is Scale.RANK
    assert found.first == first


def test_the_question_is_embedded_once_also_for_the_dense_route() -> None:
    embedder, asked = AngleEmbedder(), store()
    both = GraphSearch(fusion=RankFusion(), routes=("dense", "lexical"))
    run(search_graph(QUERY, both), services(embedder=embedder, store=asked))
    assert embedder.calls == [QUERY]
    assert any(isinstance(call, Search) and call.route == "dense" and call.vector is not None for call in asked.calls)


def test_a_filter_is_obeyed_by_routes_and_graph() -> None:
    found = run(search_graph(QUERY, HOW, where={"year": {"$ne": 2001}}), services())
    assert ids(found.ranking) == "ade"  # b is refused, and c is behind it
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


# What a failure costs.


STRICT = GraphSearch(routes=("lexical",), on_graph_error="raise")
AWAY = ServiceError("graph", "away")


# the walk fails; the question is searched by words
@pytest.mark.parametrize("broken", [{"graph": [None, AWAY]}, {"embedder": [AWAY]}])
def test_what_fails_costs_the_walk_and_says_so_or_raises(broken: dict[str, list[Any]]) -> None:
    def failing() -> Services:
        whole = {"graph": graph(), "embedder": AngleEmbedder()}
        return services(**{name: Flaky(whole[name], failures) for name, failures in broken.items()})

    found = run(search_graph(QUERY, HOW, k=1), failing())
    assert (ids(found.ranking), found.chains, found.ranking.scale) == ("a", (), found.first.scale)
    assert [(failed.what, "away" in failed.why) for failed in found.ranking.degraded] == [("graph", True)]
    for step in (search_graph(QUERY, STRICT), widen(QUERY, found.first, STRICT)):
        with pytest.raises(ServiceError, match="away"):
            run(step, failing())


def test_nothing_asked_is_nothing_found_and_what_is_wrong_is_refused_before_anything_is_asked() -> None:
    for query, k in (("  ", 5), (QUERY, 0)):
        found = run(search_graph(query, HOW, k=k), services())
        assert (found.ranking.hits, found.chains) == ((), ())
    with pytest.raises(MissingServiceError, match="CountWords"):
        run(search_graph(QUERY, HOW), services(graph=None))
    embedder, none = AngleEmbedder(), Ranking((), Scale.RANK)
    for query, how, k, message in (
        (3, HOW, 1, "query"),
        (QUERY, HOW, True, "k must be"),
        (QUERY, WalkOptions(), 1, "how must"),
    ):
        for step in (search_graph(query, how, k=k), widen(query, none, how, k=k)):
            with pytest.raises(ParameterError, match=message):
                run(step, services(embedder=embedder))
    with pytest.raises(ParameterError, match="ranking must be a Ranking"):
        run(widen(QUERY, [CHUNKS["a"]], HOW), services(embedder=embedder))
    assert not embedder.calls
    with pytest.raises(ParameterError, match="scorer"):
        GraphSearch(scorer=SimilarityScorer)  # the class in place of one of its kind

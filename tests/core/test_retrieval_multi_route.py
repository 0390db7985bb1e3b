"""Multi-route retrieval: every candidate complete, failures told, filters never ignored, embeddings asked once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.effects import Search, Services, Step, arun, run
from catena.model import (
    Chunk,
    Degraded,
    FilterError,
    Hit,
    ParameterError,
    Provenance,
    Ranking,
    RouteError,
    Scale,
    ServiceError,
)
from catena.retrieval import RankFusion, ScoreFusion, by_maximum, retrieve
from catena.testing import FakeEmbedder, Flaky
from catena.testing.fakes import AngleEmbedder, FakeStore


def chunk(name: str, **given) -> Chunk:
    return Chunk(**{"id": name, "document_id": "d", "position": 0, "start": 0, "end": 1, "text": "x", **given})


def ranking(route: str, scores: dict[str, float]) -> Ranking:
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    hits = (
        Hit(chunk(i), score, (Provenance(route=route, rank=rank, score=score),))
        for rank, (i, score) in enumerate(ordered, start=1)
    )
    return Ranking.of(hits, Scale.SIMILARITY)


SCORES = {
    "lexical": {"a": 8.0, "b": 6.0, "c": 4.0, "d": 2.0},
    "dense": {"d": 0.9, "c": 0.8, "b": 0.0, "a": -0.2},
    "keyword": {"b": 2.0},
}


def store(scores: dict[str, dict[str, float]] = SCORES) -> FakeStore:
    return FakeStore({route: ranking(route, of_route) for route, of_route in scores.items()})


def services(**given) -> Services:
    return Services(**{"store": store(), "embedder": FakeEmbedder(8), **given})


def ids(found: Ranking) -> list[str]:
    return [hit.chunk.id for hit in found.hits]


def test_every_candidate_gets_every_part_however_short_the_lists() -> None:
    found = run(retrieve("q", k=1, depth=1, fusion=ScoreFusion(alpha=0.5, beta=0.3)), services())
    best = 0.5 * (1 + 0.0) / 2 + 0.5 * 6 / 8 + 0.3 * log(3)
    assert ids(found) == ["b"]
    assert found.hits[0].score == pytest.approx(best)
    ranks = {way.route: way.rank for way in found.hits[0].provenance}
    assert ranks == {"keyword": 1, "dense": None, "lexical": None}


@given(st.integers(1, 4), st.floats(0, 1), st.floats(0, 2))
def test_depth_never_changes_the_score_of_a_candidate(depth: int, alpha: float, beta: float) -> None:
    fusion = ScoreFusion(alpha=alpha, beta=beta)
    whole = run(retrieve("q", k=4, depth=4, fusion=fusion), services())
    scores = {hit.chunk.id: hit.score for hit in whole.hits}
    for hit in run(retrieve("q", k=1, depth=depth, fusion=fusion), services()).hits:
        assert hit.score == pytest.approx(scores[hit.chunk.id])


def test_the_query_is_embedded_once() -> None:
    embedder = FakeEmbedder(8)
    run(retrieve("q", k=1, depth=1), services(embedder=embedder))
    assert len(embedder.calls) == 1


def test_one_route_keeps_its_own_scores() -> None:
    found = run(retrieve("q", k=2, routes=("lexical",)), services())
    assert [(hit.chunk.id, hit.score) for hit in found.hits] == [("a", 8.0), ("b", 6.0)]
    assert found.scale is Scale.SIMILARITY


def test_rank_fusion_takes_any_route() -> None:
    mine = FakeStore({"mine": ranking("mine", {"z": 1.0}), "lexical": ranking("lexical", {"a": 1.0, "z": 0.5})})
    found = run(retrieve("q", routes=("mine", "lexical"), fusion=RankFusion()), Services(store=mine))
    assert ids(found) == ["z", "a"]
    assert found.scale is Scale.RANK
    by_rank = RankFusion(k=1, weights={"mine": 3.0})
    found = run(retrieve("q", routes=("mine", "lexical"), fusion=by_rank), Services(store=mine))
    assert [(hit.chunk.id, hit.score) for hit in found.hits] == [("z", pytest.approx(3 / 2 + 1 / 3)), ("a", 1 / 2)]


def test_what_every_route_tells_is_told_once() -> None:
    told = (Degraded("index", "it is being rebuilt"),)
    both = {name: replace(ranking(name, {"a": 1.0}), degraded=told) for name in ("lexical", "keyword")}
    assert run(retrieve("q", routes=tuple(both)), Services(store=FakeStore(both))).degraded == told


def test_a_route_of_ones_own_takes_part_in_the_formula() -> None:
    mine = FakeStore({"mine": ranking("mine", {"b": 3.0}), "lexical": ranking("lexical", {"a": 4.0, "b": 2.0})})
    fusion = ScoreFusion(alpha=0.0, others={"mine": (0.6, by_maximum)})
    found = run(retrieve("q", routes=("mine", "lexical"), fusion=fusion), Services(store=mine))
    assert [(hit.chunk.id, hit.score) for hit in found.hits] == [("b", pytest.approx(0.5 + 0.6)), ("a", 1.0)]
    for wrong in ({"dense": (1.0, by_maximum)}, {"mine": 0.3}, {"mine": (0.3, 1)}, {"mine": (-1, by_maximum)}):
        with pytest.raises(ParameterError, match=r"others\["):
            ScoreFusion(others=wrong)  # type: ignore[arg-type]


def test_a_route_that_fails_at_what_only_others_found_is_told_or_raises() -> None:
    def late(request: Search) -> Ranking:
        if request.among is not None:
            raise ServiceError("store", "asked too much")
        return ranking("lexical", {"a": 1.0})

    broken = Services(store=FakeStore({"lexical": late, "keyword": ranking("keyword", {"b": 1.0})}))
    found = run(retrieve("q", routes=("lexical", "keyword")), broken)
    assert sorted(ids(found)) == ["a", "b"]
    assert [(part.what, part.why) for part in found.degraded] == [("route lexical", "store: asked too much")]
    with pytest.raises(RouteError, match="asked too much"):
        run(retrieve("q", routes=("lexical", "keyword"), on_route_error="raise"), broken)


def test_a_route_of_ones_own_is_a_step() -> None:
    def shouting(query: str) -> Step[Search]:
        yield from ()
        return Search(route="lexical", query=query.upper(), k=0)

    asked = store()
    found = run(retrieve("q", routes={"lexical": shouting}), Services(store=asked))
    assert ids(found) == ["a", "b", "c", "d"]
    assert [request.query for request in asked.calls] == ["Q"]


async def test_asyncio_gives_the_same() -> None:
    assert await arun(retrieve("q", k=3), services()) == run(retrieve("q", k=3), services())
    same = await asyncio.gather(*(arun(retrieve("q", k=3), services()) for _ in range(8)))
    assert len({tuple(ids(found)) for found in same}) == 1


def failing() -> Services:
    return services(embedder=Flaky(AngleEmbedder(), [ServiceError("embedder", "the model is gone")] * 9))


def test_a_failing_route_is_named_and_the_others_go_on() -> None:
    found = run(retrieve("q", k=2), failing())
    assert ids(found) == ["b", "a"]
    assert [(part.what, part.why) for part in found.degraded] == [("route dense", "embedder: the model is gone")]


def test_a_failing_route_raises_when_asked_to() -> None:
    with pytest.raises(RouteError, match="route 'dense' failed: embedder: the model is gone"):
        run(retrieve("q", on_route_error="raise"), failing())


def test_when_all_routes_fail_that_is_an_error() -> None:
    with pytest.raises(RouteError, match=r"(?m)every route failed \(dense\): embedder: the model is gone$"):
        run(retrieve("q", routes=("dense",)), failing())


def test_a_filter_that_a_route_cannot_obey_is_raised_even_when_degrading() -> None:
    def refuse(request: Search) -> Ranking:
        raise FilterError(request.where, "this route has no metadata")

    both = FakeStore({"lexical": ranking("lexical", {"a": 1.0}), "mine": refuse})
    with pytest.raises(FilterError, match="this route has no metadata"):
        run(retrieve("q", routes=("lexical", "mine"), where={"x": 1}, fusion=RankFusion()), Services(store=both))


def test_every_route_gets_the_filter_and_so_does_the_second_round() -> None:
    asked = store()
    run(retrieve("q", k=1, depth=1, where={"chunk_id": {"$in": ["a", "d"]}}), services(store=asked))
    assert all(request.where for request in asked.calls)
    assert {request.among is not None for request in asked.calls} == {True, False}


@pytest.mark.parametrize("query", ["", "  \n"])
def test_nothing_is_asked_for_an_empty_query(query: str) -> None:
    asked = store()
    assert run(retrieve(query), services(store=asked)).hits == ()
    assert not asked.calls


def test_k_of_zero_gives_nothing() -> None:
    assert run(retrieve("q", k=0), services()).hits == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": -1}, "k must be an integer >= 0, got -1"),
        ({"k": 5, "depth": 4}, r"depth must be an integer >= k \(5\), got 4"),
        ({"routes": ()}, r"routes must be at least one route, got \(\)"),
        ({"routes": "lexical"}, "routes must be route names"),
        ({"on_route_error": "ignore"}, "on_route_error must be 'raise' or 'degrade', got 'ignore'"),
        ({"routes": ("lexical", "mine")}, "RankFusion takes any route"),
        ({"query": None}, "query must be a string, got None"),
        ({"k": 2.5}, "k must be an integer >= 0, got 2.5"),
        ({"fusion": "rank"}, "fusion must be ScoreFusion"),
    ],
)
def test_errors_name_the_parameter(given, message: str) -> None:
    mine = store({**SCORES, "mine": {"a": 1.0}})
    with pytest.raises(ParameterError, match=message):
        run(retrieve(**{"query": "q", **given}), services(store=mine))


@pytest.mark.parametrize("given", [{"query": ""}, {"k": 0}])
def test_a_malformed_filter_is_refused_even_when_nothing_is_asked(given) -> None:
    with pytest.raises(FilterError, match=r"\$like"):
        run(retrieve(**{"query": "q", "where": {"title": {"$like": "x"}}, **given}), services())

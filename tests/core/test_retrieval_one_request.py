"""Retrieval where the store makes the whole formula: what it is asked, its ranking, and what a failure costs."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.effects import Certificate, FindNames, Fused, NamesFound, Search, SearchFused, Services, run
from catena.model import (
    Chunk,
    FilterError,
    Hit,
    MissingServiceError,
    Name,
    Provenance,
    Ranking,
    RouteError,
    Scale,
    ServiceError,
)
from catena.retrieval import RankFusion, ScoreBounds, ScoreFusion, retrieve, stored, weighted_sum
from catena.retrieval.fusion import min_max
from catena.testing import FakeEmbedder

CERTAIN = Certificate(exact=True, neighbours=1, rows=1, gap=inf)
ROUTES = ("dense", "keyword", "lexical")


def chunk(name: str) -> Chunk:
    return Chunk(id=name, document_id=f"of {name[0]}", position=0, start=0, end=1, text="x")


class FormulaStore:
    """Ranks by tables of scores, and makes the whole formula over all of them when asked."""

    def __init__(self, scores: dict[str, dict[str, float]], names: Sequence[Name] = ()) -> None:
        self.scores, self.known = scores, tuple(names)
        self.searched: list[Search] = []
        self.fused: list[SearchFused] = []
        self.failure: Exception | None = None

    routes = ROUTES

    def names(self, request: FindNames) -> NamesFound:
        return NamesFound(known=self.known)

    def search(self, request: Search) -> Ranking:
        self.searched.append(request)
        return self._ranking(request.route, request).top(request.k)

    def search_fused(self, request: SearchFused) -> Fused:
        self.fused.append(request)
        if self.failure is not None:
            raise self.failure
        rankings = {route: self._ranking(route, request) for route, _ in request.weights}
        parts = ScoreFusion().parts
        best = ScoreBounds.of(rankings["lexical"]).high if request.best is None else request.best
        ranking = weighted_sum(
            rankings,
            {route: (weight, parts[route][1]) for route, weight in request.weights},
            bounds={"lexical": ScoreBounds(low=0.0, high=best)},
            k=request.k,
        )
        return Fused(ranking=ranking, best=best, certificate=CERTAIN)

    def _ranking(self, route: str, request: Search | SearchFused) -> Ranking:
        among = getattr(request, "among", None)
        kept = {
            name: score
            for name, score in self.scores[route].items()
            if (among is None or name in among)
            and (request.documents is None or chunk(name).document_id in request.documents)
        }
        ordered = sorted(kept.items(), key=lambda item: (-item[1], item[0]))
        hits = (
            Hit(chunk(name), score, (Provenance(route=route, rank=rank, score=score),))
            for rank, (name, score) in enumerate(ordered, start=1)
        )
        return Ranking(tuple(hits), Scale.SIMILARITY)


class RoutesOnly:
    """The same store without the formula."""

    routes = ROUTES

    def __init__(self, store: FormulaStore) -> None:
        self.search, self.names = store.search, store.names


SCORES = {
    "lexical": {"a1": 8.0, "b1": 6.0, "a2": 4.0, "b2": 2.0},
    "dense": {"b2": 0.9, "a2": 0.8, "b1": 0.0, "a1": -0.2},
    "keyword": {"b1": 2.0},
}
A, B = Name("a", ("of a",)), Name("b", ("of b",))


def services(store: object, **given) -> Services:
    return Services(**{"store": store, "embedder": FakeEmbedder(8), **given})


def test_the_whole_ranking_is_the_stores_own_by_the_weights_of_the_formula() -> None:
    store, embedder = FormulaStore(SCORES), FakeEmbedder(8)
    fusion = ScoreFusion(alpha=0.4, beta=0.7)
    where = {"kind": "text"}
    found = run(retrieve("q", k=2, where=where, fusion=fusion), services(store, embedder=embedder))
    (asked,) = store.fused
    assert (asked.k, asked.where, asked.documents, asked.best) == (2, where, None, None)
    assert dict(asked.weights) == {"dense": 0.4, "keyword": 0.7, "lexical": pytest.approx(0.6)}
    assert np.array_equal(asked.vector, embedder.embed_query("q"))
    assert found == store.search_fused(asked).ranking
    assert not store.searched
    assert len(embedder.calls) == 2  # one of them is the test's own


@given(
    st.fixed_dictionaries(
        {
            route: st.dictionaries(st.sampled_from([f"{d}{n}" for d in "ab" for n in range(4)]), score, min_size=1)
            for route, score in (
                ("dense", st.floats(-1, 1)),
                ("lexical", st.floats(0.01, 30)),
                ("keyword", st.integers(1, 5).map(float)),
            )
        }
    ),
    st.sampled_from([(), (A,), (A, B)]),
    st.integers(1, 8),
)
@settings(max_examples=60)
def test_it_is_the_ranking_of_the_routes_where_these_are_deep_enough(scores, names, k: int) -> None:
    store = FormulaStore(scores, names)
    query = " ".join(name.text for name in names) + " q"
    one, routes = (run(retrieve(query, k=k), services(each)) for each in (store, RoutesOnly(store)))
    assert [(hit.chunk.id, hit.score) for hit in one.hits] == [(hit.chunk.id, hit.score) for hit in routes.hits]
    assert one.scale is routes.scale


def test_shares_of_names_are_measured_by_the_best_of_the_whole() -> None:
    store = FormulaStore(SCORES, (A, B))
    run(retrieve("a b q", k=4), services(store))
    whole, *shares = store.fused
    assert whole.best is None
    assert [(share.documents, share.best) for share in shares] == [(("of a",), 8.0), (("of b",), 8.0)]


@pytest.mark.parametrize(
    "how",
    [
        {"fusion": RankFusion()},
        {"fusion": ScoreFusion(lexical=min_max)},
        {"routes": ("lexical",)},
        {"routes": {"lexical": stored("lexical", view="keywords"), "keyword": stored("keyword")}},
    ],
    ids=["fusion by rank", "another normaliser", "one route", "a route of one's own"],
)
def test_another_formula_is_never_asked_of_the_store(how) -> None:
    store = FormulaStore(SCORES)
    found = run(retrieve("q", k=2, **how), services(store))
    assert not store.fused
    assert found.hits


def test_the_routes_that_are_asked_are_those_of_the_formula() -> None:
    store, embedder = FormulaStore(SCORES), FakeEmbedder(8)
    run(retrieve("q", k=2, routes=("lexical", "keyword")), services(store, embedder=embedder))
    assert [route for route, _ in store.fused[0].weights] == ["keyword", "lexical"]
    assert store.fused[0].vector is None
    assert not embedder.calls


def test_a_store_that_fails_at_the_formula_still_ranks_by_its_routes_and_it_is_said() -> None:
    store = FormulaStore(SCORES)
    store.failure = ServiceError("server", "no vectors here")
    found = run(retrieve("q", k=4), services(store))
    expected = run(retrieve("q", k=4), services(RoutesOnly(store)))
    assert found.hits == expected.hits
    assert [(part.what, part.why) for part in found.degraded] == [
        ("formula in one request", "server: no vectors here")
    ]


def test_a_failure_is_raised_where_the_caller_wants_that() -> None:
    store = FormulaStore(SCORES)
    store.failure = ServiceError("server", "down")
    with pytest.raises(RouteError, match=r"formula.*down"):
        run(retrieve("q", k=4, on_route_error="raise"), services(store))


def test_a_filter_that_the_store_cannot_obey_is_raised_whatever_the_caller_wants() -> None:
    store = FormulaStore(SCORES)
    store.failure = FilterError({"x": 1}, "not here")
    with pytest.raises(FilterError, match="not here"):
        run(retrieve("q", k=4, where={"x": 1}), services(store))


def test_an_embedder_that_fails_costs_the_dense_route_only() -> None:
    class Broken(FakeEmbedder):
        def embed_query(self, text: str):
            raise ServiceError("embedder", "no credit")

    store = FormulaStore(SCORES)
    found = run(retrieve("q", k=4), services(store, embedder=Broken(8)))
    assert not store.fused
    assert [hit.chunk.id for hit in found.hits] == ["b1", "a1", "a2", "b2"]
    assert [(part.what, part.why) for part in found.degraded] == [("route dense", "embedder: no credit")]


def test_nobody_who_answers_searches_need_know_the_formula() -> None:
    store = FormulaStore(SCORES)
    store.failure = MissingServiceError("SearchFused", ("Search",))
    found = run(retrieve("q", k=4), services(store))
    assert len(found.hits) == 4
    assert not found.degraded

"""Multi-route retrieval: candidates complete, failures told, filters never ignored; the formula in one request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrieval_cases import SCORES, ids, ranking, scored, table_store

from catena import ServiceError
from catena.effects import Certificate, FindNames, Fused, NamesFound, Search, SearchFused, Services, Step, run
from catena.library.ask import read_step
from catena.model import Degraded, FilterError, MissingServiceError, Name, ParameterError, Ranking, RouteError, Scale
from catena.retrieval import RankFusion, ScoreBounds, ScoreFusion, by_maximum, retrieve, stored, weighted_sum
from catena.retrieval.fusion import min_max
from catena.testing import FakeEmbedder, Flaky
from catena.testing.fakes import AngleEmbedder, FakeStore

HIQA = ScoreFusion.hiqa()
FAILS = ServiceError("embedder", "the model is gone")


def services(store: object = None, **given) -> Services:
    return Services(**{"store": store or table_store(), "embedder": FakeEmbedder(8), **given})


def failing() -> Services:
    return services(embedder=Flaky(AngleEmbedder(), [FAILS] * 9))


def told(found: Ranking) -> list[tuple[str, str]]:
    return [(part.what, part.why) for part in found.degraded]


def test_every_candidate_gets_every_part_however_short_the_lists() -> None:
    embedder = FakeEmbedder(8)
    fusion = ScoreFusion.hiqa(alpha=0.5, beta=0.3)
    found = run(retrieve("q", k=1, depth=1, fusion=fusion), services(embedder=embedder))
    best = 0.5 * (1 + 0.0) / 2 + 0.5 * 6 / 8 + 0.3 * log(3)
    assert scored(found) == [("b", pytest.approx(best))]
    assert {way.route: way.rank for way in found.hits[0].provenance} == {"keyword": 1, "dense": None, "lexical": None}
    assert len(embedder.calls) == 1, "the question is embedded once"


@given(st.integers(1, 4), st.floats(0, 1), st.floats(0, 2))
def test_depth_never_changes_the_score_of_a_candidate(depth: int, alpha: float, beta: float) -> None:
    fusion = ScoreFusion.hiqa(alpha=alpha, beta=beta)
    scores = dict(scored(run(retrieve("q", k=4, depth=4, fusion=fusion), services())))
    for name, score in scored(run(retrieve("q", k=1, depth=depth, fusion=fusion), services())):
        assert score == pytest.approx(scores[name])


def test_one_route_keeps_its_own_scores_and_a_route_of_ones_own_is_a_step() -> None:
    def shouting(query: str) -> Step[Search]:
        yield from ()
        return Search(route="lexical", query=query.upper(), k=0)

    asked = table_store()
    found = run(retrieve("q", k=2, routes={"lexical": shouting}), Services(store=asked))
    assert (scored(found), found.scale) == ([("a", 8.0), ("b", 6.0)], Scale.SIMILARITY)
    run(retrieve("q", k=11, routes={"lexical": shouting}), Services(store=asked))
    assert [(request.query, request.k) for request in asked.calls] == [("Q", 30), ("Q", 33)]


def test_rank_fusion_takes_any_route_and_a_formula_those_it_weighs() -> None:
    mine = table_store({"mine": {"z": 1.0}, "lexical": {"a": 1.0, "z": 0.5}})
    by_rank = RankFusion(k=1, weights={"mine": 3.0})
    found = run(retrieve("q", routes=("mine", "lexical"), fusion=by_rank), Services(store=mine))
    assert scored(found) == [("z", pytest.approx(3 / 2 + 1 / 3)), ("a", 1 / 2)]
    assert found.scale is Scale.RANK
    mine = table_store({"mine": {"b": 3.0}, "lexical": {"a": 4.0, "b": 2.0}})
    fusion = replace(ScoreFusion.hiqa(alpha=0.0), others={"mine": (0.6, by_maximum)})
    found = run(retrieve("q", routes=("mine", "lexical"), fusion=fusion), Services(store=mine))
    assert scored(found) == [("b", pytest.approx(0.5 + 0.6)), ("a", 1.0)]


# Failures, filters, arguments


def test_a_failing_route_is_named_and_the_others_go_on_or_it_raises() -> None:
    found = run(retrieve("q", k=2), failing())
    assert (ids(found), told(found)) == ("ab", [("route dense", "embedder: the model is gone")])
    with pytest.raises(RouteError, match="route 'dense' failed: embedder: the model is gone"):
        run(retrieve("q", on_route_error="raise"), failing())
    with pytest.raises(RouteError, match=r"(?m)every route failed \(dense\): embedder: the model is gone$"):
        run(retrieve("q", routes=("dense",)), failing())


def test_what_every_route_tells_is_told_once() -> None:
    parts = (Degraded("index", "it is being rebuilt"),)
    both = {name: replace(ranking({"a": 1.0}, name), degraded=parts) for name in ("lexical", "keyword")}
    assert run(retrieve("q", routes=tuple(both)), Services(store=FakeStore(both))).degraded == parts


def test_a_route_that_fails_at_what_only_others_found_is_told_or_raises() -> None:
    def late(request: Search) -> Ranking:
        if request.among is not None:
            raise ServiceError("store", "asked too much")
        return ranking({"a": 1.0}, "lexical")

    broken = Services(store=FakeStore({"lexical": late, "keyword": ranking({"b": 1.0}, "keyword")}))
    found = run(retrieve("q", k=1, depth=1, routes=("lexical", "keyword")), broken)
    assert (ids(found), told(found)) == ("a", [("route lexical", "store: asked too much")])
    with pytest.raises(RouteError, match="asked too much"):
        run(retrieve("q", k=1, depth=1, routes=("lexical", "keyword"), on_route_error="raise"), broken)
    found = run(retrieve("q", routes=("lexical", "keyword")), broken)  # it gave less than was asked: it has no more
    assert (sorted(ids(found)), told(found)) == (["a", "b"], [])


def test_every_route_gets_the_filter_and_one_that_cannot_obey_it_raises() -> None:
    def refuse(request: Search) -> Ranking:
        raise FilterError(request.where, "this route has no metadata")

    asked = table_store()
    run(retrieve("q", k=1, depth=1, where={"chunk_id": {"$in": ["a", "d"]}}), services(asked))
    assert all(request.where for request in asked.calls)
    assert {request.among is not None for request in asked.calls} == {True, False}
    both = Services(store=FakeStore({"lexical": ranking({"a": 1.0}), "mine": refuse}))
    with pytest.raises(FilterError, match="this route has no metadata"):
        run(retrieve("q", routes=("lexical", "mine"), where={"x": 1}, fusion=RankFusion()), both)


@pytest.mark.parametrize("given", [{"query": ""}, {"query": "  \n"}, {"k": 0}])
def test_nothing_is_asked_for_nothing_and_a_malformed_filter_is_refused_all_the_same(given) -> None:
    asked = table_store()
    assert run(retrieve(**{"query": "q", **given}), services(asked)) == Ranking((), Scale.NORMALIZED)
    assert not asked.calls
    with pytest.raises(FilterError, match=r"\$like"):
        run(retrieve(**{"query": "q", "where": {"title": {"$like": "x"}}, **given}), services())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": -1}, "k must be an integer >= 0, got -1"),
        ({"k": 5, "depth": 4}, r"depth must be an integer >= k \(5\), got 4"),
        ({"routes": ()}, r"routes must be at least one route, got \(\)"),
        ({"routes": "lexical"}, "routes must be route names"),
        ({"on_route_error": "ignore"}, "on_route_error must be one of raise, degrade, got 'ignore'"),
        ({"routes": ("lexical", "mine")}, "RankFusion takes any route"),
        ({"fusion": RankFusion(weights={"mime": 1})}, "weights must be names of routes, one of 'dense'"),
        ({"query": None}, "query must be a string, got None"),
        *(({"entities": wrong}, "entities must be") for wrong in ("one", 5, ["one", 5])),
    ],
)
def test_errors_name_the_parameter(given, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        run(retrieve(**{"query": "q", **given}), services(table_store({**SCORES, "mine": {"a": 1.0}})))


@pytest.mark.parametrize(("budget", "k"), [(None, 30), (1_000, 30), (3_099, 30), (3_100, 31), (5_000, 50)])
def test_a_larger_budget_reads_in_more_chunks(budget: int | None, k: int) -> None:
    asked = table_store()
    run(read_step("q", {"by_name": False}, budget_tokens=budget), services(asked))
    assert {call.k for call in asked.calls if isinstance(call, Search)} == {3 * k}


# A store that makes the whole formula in one request


class FormulaStore:
    """Ranks by tables of scores, and makes the whole formula over all of them when asked."""

    routes = ("dense", "keyword", "lexical")

    def __init__(self, scores: dict[str, dict[str, float]], names: Sequence[Name] = ()) -> None:
        self.scores, self.known = scores, tuple(names)
        self.searched: list[Search] = []
        self.fused: list[SearchFused] = []
        self.failure: Exception | None = None

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
        parts = {route: (weight, ScoreFusion.hiqa().parts()[route][1]) for route, weight in request.weights}
        best = ScoreBounds.of(rankings["lexical"]).high
        found = weighted_sum(rankings, parts, k=request.k)
        return Fused(ranking=found, best=best, certificate=Certificate(exact=True, neighbours=1, rows=1, gap=inf))

    def _ranking(self, route: str, request: Search | SearchFused) -> Ranking:
        """Chunk "a1" is of the document "of a"."""
        among, documents = getattr(request, "among", None), request.documents
        kept = {
            name: score
            for name, score in self.scores[route].items()
            if (among is None or name in among) and (documents is None or f"of {name[0]}" in documents)
        }
        return ranking(kept, route)


class RoutesOnly:
    """The same store without the formula."""

    routes = FormulaStore.routes

    def __init__(self, store: FormulaStore) -> None:
        self.search, self.names = store.search, store.names


A, B = Name("a", ("of a",)), Name("b", ("of b",))
OF_TWO = {
    "lexical": {"a1": 8.0, "b1": 6.0, "a2": 4.0, "b2": 2.0},
    "dense": {"b2": 0.9, "a2": 0.8, "b1": 0.0, "a1": -0.2},
    "keyword": {"b1": 2.0},
}


def test_the_whole_ranking_is_the_stores_own_by_the_weights_of_the_formula() -> None:
    store, embedder = FormulaStore(OF_TWO), FakeEmbedder(8)
    where = {"kind": "text"}
    how = ScoreFusion.hiqa(alpha=0.4, beta=0.7)
    found = run(retrieve("q", k=2, where=where, fusion=how), services(store, embedder=embedder))
    (asked,) = store.fused
    assert (asked.k, asked.where, asked.documents) == (2, where, None)
    assert dict(asked.weights) == {"dense": 0.4, "keyword": 0.7, "lexical": pytest.approx(0.6)}
    assert (embedder.calls, store.searched) == (["q"], [])
    assert np.array_equal(asked.vector, embedder.embed_query("q"))
    assert found == store.search_fused(asked).ranking
    run(retrieve("q", k=2, routes=("lexical", "keyword"), fusion=how), services(store, embedder=embedder))
    assert [route for route, _ in store.fused[-1].weights] == ["keyword", "lexical"]
    assert (store.fused[-1].vector, len(embedder.calls)) == (None, 2)  # one of them is the test's own


SOME = st.sampled_from([f"{d}{n}" for d in "ab" for n in range(4)])
RANGES = {"dense": st.floats(-1, 1), "lexical": st.floats(0.01, 30), "keyword": st.integers(1, 5).map(float)}


@given(
    st.fixed_dictionaries({route: st.dictionaries(SOME, score, min_size=1) for route, score in RANGES.items()}),
    st.sampled_from([(), (A,), (A, B)]),
    st.integers(1, 8),
)
@settings(max_examples=60)
def test_it_is_the_ranking_of_the_routes_where_these_are_deep_enough(scores, names, k: int) -> None:
    store = FormulaStore(scores, names)
    query = " ".join(name.text for name in names) + " q"
    one, routes = (run(retrieve(query, k=k, fusion=HIQA), services(each)) for each in (store, RoutesOnly(store)))
    assert (scored(one), one.scale) == (scored(routes), routes.scale)


@pytest.mark.parametrize(
    "how",
    [
        {"fusion": RankFusion()},
        {"fusion": ScoreFusion()},
        {"fusion": replace(ScoreFusion.hiqa(), lexical=min_max)},
        {"routes": ("lexical",)},
        {"routes": {"lexical": stored("lexical", view="keywords"), "keyword": stored("keyword")}},
    ],
)
def test_another_formula_is_never_asked_of_the_store(how) -> None:
    store = FormulaStore(OF_TWO)
    assert run(retrieve("q", k=2, **how), services(store)).hits
    assert not store.fused


@pytest.mark.parametrize(
    ("failure", "parts"),
    [
        (ServiceError("server", "no vectors"), [("formula in one request", "server: no vectors")]),
        (MissingServiceError("SearchFused", ("Search",)), []),  # nobody who answers searches need know the formula
    ],
)
def test_a_store_that_fails_at_the_formula_still_ranks_by_its_routes_and_it_is_said(failure, parts) -> None:
    store = FormulaStore(OF_TWO)
    store.failure = failure
    found = run(retrieve("q", k=4, fusion=HIQA), services(store))
    routes = run(retrieve("q", k=4, fusion=HIQA), services(RoutesOnly(store)))
    assert (found.hits, told(found)) == (routes.hits, parts)


@pytest.mark.parametrize(
    ("failure", "given", "raised"),
    [
        (ServiceError("server", "down"), {"on_route_error": "raise"}, RouteError),
        (FilterError({"x": 1}, "down"), {"where": {"x": 1}}, FilterError),
    ],
)
def test_a_failure_is_raised_where_the_caller_wants_that_and_a_refused_filter_always(failure, given, raised) -> None:
    store = FormulaStore(OF_TWO)
    store.failure = failure
    with pytest.raises(raised, match="down"):
        run(retrieve("q", k=4, fusion=HIQA, **given), services(store))


def test_an_embedder_that_fails_costs_the_dense_route_only() -> None:
    store = FormulaStore(OF_TWO)
    found = run(retrieve("q", k=4, fusion=HIQA), services(store, embedder=Flaky(AngleEmbedder(), [FAILS] * 9)))
    assert not store.fused
    assert [hit.chunk.id for hit in found.hits] == ["b1", "a1", "a2", "b2"]
    assert told(found) == [("route dense", "embedder: the model is gone")]

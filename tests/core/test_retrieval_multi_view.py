"""Views: rules that make one ranking of several, by the paper's numbers and by laws; what is asked, what fails."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk, ids, in_order, ranking, scored

from catena import ParameterError, RankFusion
from catena.effects import Embed, Handler, Search, Services, Step, run
from catena.model import Degraded, FilterError, Hit, Provenance, Ranking, Scale, ServiceError, Unknown, ViewError
from catena.retrieval import (
    ExactUnion,
    PaperQuota,
    ViewRankFusion,
    ViewRule,
    by_maximum,
    found_by,
    multi_view,
    quota,
    retrieve_views,
    stored,
)
from catena.retrieval.routes import lexical
from catena.retrieval.view_search import ViewScoreFusion
from catena.testing import FakeEmbedder, Flaky
from catena.testing.fakes import AngleEmbedder, FakeStore

RULES = (PaperQuota(), ExactUnion(), ViewRankFusion(), ViewScoreFusion())
ORDERS = {"raw": "abcd", "keywords": "bxca", "summary": "ebyz"}
VIEWS = {view: in_order(order, "dense") for view, order in ORDERS.items()}


@pytest.mark.parametrize(
    ("k", "of_each_view"),
    [(1.5, (1,)), (3, (2,)), (5, (3,)), (10, (6, 7)), (1, (1,)), (2, (1,)), (4, (3,)), (6, (4,)), (20, (13,))],
)
def test_the_papers_quotas(k: float, of_each_view: tuple[int, ...]) -> None:
    assert quota(k) == of_each_view


@pytest.mark.parametrize(("k", "union"), [(1.5, "abe"), (3, "abex"), (5, "abexcy"), (10, "abexcydz"), (0, "")])
def test_the_papers_rule_is_the_union_of_the_first_of_each_view(k: float, union: str) -> None:
    found = multi_view(VIEWS, PaperQuota(), k)
    assert scored(found) == [(name, 1 / place) for place, name in enumerate(union, start=1)]
    assert found.scale is Scale.RANK
    assert multi_view(VIEWS) == multi_view(VIEWS, PaperQuota(), 3)
    long = {"raw": in_order("abcdefghij")}  # of 6 or 7, the one nearer to two thirds of ten
    assert [ids(multi_view(long, PaperQuota(per_view=n), 10)) for n in (None, 6)] == ["abcdefg", "abcdef"]


@pytest.mark.parametrize(("k", "union"), [(0, ""), (1, "a"), (4, "abex"), (7, "abexcyd"), (99, "abexcydz")])
def test_an_exact_union_stops_at_k(k: int, union: str) -> None:
    assert ids(multi_view(VIEWS, ExactUnion(), k)) == union


def test_fusion_by_rank_by_hand() -> None:
    found = multi_view(VIEWS, ViewRankFusion(weights={"summary": 2.0}, k=60), 3)
    b = 1 / 62 + 1 / 61 + 2 / 62
    assert scored(found) == [(n, pytest.approx(s)) for n, s in (("b", b), ("e", 2 / 61), ("a", 1 / 61 + 1 / 64))]
    assert found.scale is Scale.RANK


def test_fusion_by_score_normalises_each_view_by_itself() -> None:
    views = {"raw": ranking({"a": 30.0, "b": 20.0, "c": 10.0}), "summary": ranking({"c": 0.3, "a": 0.2, "d": 0.1})}
    found = multi_view(views, ViewScoreFusion(), 4)
    assert dict(scored(found)) == pytest.approx({"a": 1.5, "c": 1.0, "b": 0.5, "d": 0.0})
    assert found.scale is Scale.NORMALIZED
    by_best = multi_view(views, ViewScoreFusion(weights={"summary": 0.5}, normalise=by_maximum), 2)
    assert scored(by_best) == [("a", pytest.approx(1 + 0.5 * 2 / 3)), ("c", pytest.approx(1 / 3 + 0.5))]


# Laws

some_views = st.dictionaries(
    st.sampled_from(["raw", "keywords", "summary", "questions"]),
    st.permutations("abcdefgh").flatmap(
        lambda letters: st.lists(st.integers(-100, 100), max_size=len(letters), unique=True).map(
            lambda scores: ranking(dict(zip(letters, map(float, scores), strict=False)), "dense")
        )
    ),
    min_size=1,
)
rules = st.sampled_from(RULES)


@given(some_views, st.one_of(st.integers(1, 15), st.floats(0.1, 20)))
def test_the_union_is_bounded_by_its_quota(views: dict[str, Ranking], k: float) -> None:
    found = set(ids(multi_view(views, PaperQuota(), k)))
    most = max(quota(k))
    longest = max(len(of_view.hits) for of_view in views.values())
    assert min(*quota(k), longest) <= len(found) <= len(views) * most
    firsts = {name for of_view in views.values() for name in ids(of_view)[:most]}
    assert found == firsts if len(quota(k)) == 1 else found <= firsts


@given(some_views, st.integers(1, 15), rules)
def test_laws_of_every_rule(views: dict[str, Ranking], k: int, rule: ViewRule) -> None:
    found, is_union = multi_view(views, rule, k), isinstance(rule, PaperQuota | ExactUnion)
    seen = {name for of_view in views.values() for name in ids(of_view)}
    assert set(ids(found)) <= seen
    if not isinstance(rule, PaperQuota):
        assert len(found.hits) == len(set(ids(found))) == min(k, len(seen))
    assert multi_view(views, rule, k + 1).hits[: len(found.hits)] == found.hits
    name, first = next(iter(views.items()))
    if is_union:
        assert ids(multi_view({**views, f"{name} again": first}, rule, k)) == ids(found)
    else:
        silenced = multi_view({**views, "loud": in_order("zyxwv")}, type(rule)(weights={"loud": 0}), k)
        assert scored(silenced) == scored(found)
    turned = multi_view(dict(reversed(views.items())), rule, k)
    if isinstance(rule, PaperQuota):
        assert {hit.chunk.id: hit.provenance for hit in turned.hits} == {h.chunk.id: h.provenance for h in found.hits}
    elif not is_union:
        assert turned == found
    most = max(quota(k)) if isinstance(rule, PaperQuota) else k
    assert ids(multi_view({name: first}, rule, k)) == ids(first)[:most]


@given(some_views, st.integers(1, 15), rules)
def test_every_hit_says_which_views_ranked_it_and_where(views: dict[str, Ranking], k: int, rule: ViewRule) -> None:
    for hit in multi_view(views, rule, k).hits:
        ranks = {name: ids(of).index(hit.chunk.id) + 1 for name, of in views.items() if hit.chunk.id in ids(of)}
        assert found_by(hit) == ranks
        assert list(found_by(hit).values()) == sorted(ranks.values())
        assert len(hit.provenance) == len(ranks)
        for way in hit.provenance:
            assert (way.route, way.score) == ("dense", views[way.view].hits[ranks[way.view] - 1].score)


def test_a_view_of_several_routes_says_so_and_one_that_says_nothing_is_unnamed() -> None:
    ways = (Provenance(route="dense", rank=2, score=0.5), Provenance(route="lexical", rank=1, score=7.0))
    for given_, names in ((ways, ("dense+lexical", "dense", "lexical")), ((), ("unnamed",))):
        one = Ranking((Hit(chunk("a"), 0.8, given_),), Scale.NORMALIZED)
        (hit,) = multi_view({"summary": one}, ExactUnion(), 1).hits
        assert hit.provenance[0] == Provenance(route=names[0], rank=1, score=0.8, view="summary")
        assert hit.provenance[1:] == tuple(replace(way, view="summary") for way in given_)
        assert found_by(hit) == {"summary": 1}


def test_a_chunk_given_twice_or_in_two_forms_counts_where_it_stands_first() -> None:
    one, other = in_order("ab").hits
    found = multi_view({"raw": Ranking((one, one, other), Scale.SIMILARITY)}, ExactUnion(), 2)
    assert [(hit.chunk.id, found_by(hit)) for hit in found.hits] == [("a", {"raw": 1}), ("b", {"raw": 2})]
    views = {"summary": Ranking((Hit(chunk("a", "y"), 1.0),), Scale.SIMILARITY), "raw": in_order("a")}
    for order in (views, dict(reversed(views.items()))):
        assert multi_view(order, ExactUnion(), 1).hits[0].chunk.text == "x"


def test_what_views_report_is_told_once() -> None:
    one = Ranking((), Scale.SIMILARITY, (Degraded("route dense", "gone"),), (Unknown("X9"),))
    assert multi_view({"raw": one, "summary": one}, ExactUnion(), 1) == replace(one, scale=Scale.RANK)


def test_a_rule_of_ones_own_is_a_rule() -> None:
    @dataclass(frozen=True)
    class Last:
        scale: Scale = Scale.RANK

        def choose(self, rankings, k):
            return [(of_view.hits[-1].chunk.id, 1.0) for of_view in rankings.values()]

    found = multi_view(VIEWS, Last(), 1)
    assert (ids(found), found_by(found.hits[1])) == ("daz", {"raw": 1, "keywords": 4})


@pytest.mark.parametrize("k", [-1, math.nan, math.inf, True, "3", None])
def test_a_k_that_is_no_number_of_chunks_is_refused(k: object) -> None:
    with pytest.raises(ParameterError, match="k must be"):
        multi_view(VIEWS, PaperQuota(), k)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="k must be a finite number > 0"):
        quota(k)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: quota(0), "k must be a finite number > 0"),
        (lambda: PaperQuota(per_view=0), "per_view"),
        (lambda: ViewRankFusion(weights={"raw": -1}), "weights"),
        (lambda: ViewScoreFusion(weights={"raw": math.inf}), "weights"),
        (lambda: multi_view(VIEWS, ViewRankFusion(weights={"sumary": 1}), 3), "weights of views.*raw.*sumary"),
        (lambda: multi_view(VIEWS, ViewScoreFusion(weights=dict.fromkeys(VIEWS, 0)), 3), "above 0"),
        *((lambda given=given: multi_view(given, ExactUnion(), 3), "rankings") for given in ({}, {"raw": 5})),
        (lambda: multi_view(VIEWS, PaperQuota, 3), "rule"),  # type: ignore[arg-type]
        (lambda: multi_view({"raw": ranking({"a": math.inf})}, ViewScoreFusion(), 1), "finite"),
        *((lambda rule=rule: multi_view(VIEWS, rule, 1.5), "only PaperQuota") for rule in RULES[1:]),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make, what: str) -> None:
    with pytest.raises(ParameterError, match=what):
        make()


# Views searched side by side


def store(*failing: tuple[str, str]) -> FakeStore:
    """Return a store whose dense route ranks each view as in ORDERS, and whose lexical one the other way round."""

    def route(name: str, turn: int):
        def answer(request: Search) -> Ranking:
            if (name, request.view) in failing:
                raise ServiceError("store", f"{name} over {request.view} is gone")
            if request.where is not None and "bad" in request.where:
                raise FilterError(request.where, "no such field")
            order = ORDERS[request.view or ""][::turn]
            return in_order("".join(n for n in order if n in "xyz") if request.where else order, name)

        return answer

    return FakeStore({"dense": route("dense", 1), "lexical": route("lexical", -1)})


def services(store_: FakeStore | None = None, **given) -> Services:
    return Services(**{"store": store_ or store(), "embedder": FakeEmbedder(8), **given})


def views_asked(asked: FakeStore) -> list[tuple[str, str | None]]:
    return [(request.route, request.view) for request in asked.calls]


def test_by_default_the_papers_views_and_rule_over_the_stores_vectors() -> None:
    asked, embedder = store(), FakeEmbedder(8)
    found = run(retrieve_views("q"), services(asked, embedder=embedder))
    assert ids(found) == "abex"
    assert views_asked(asked) == [("dense", view) for view in ("raw", "keywords", "summary")]
    assert {request.k for request in asked.calls} == {30}
    assert found_by(found.hits[1]) == {"keywords": 1, "raw": 2, "summary": 2}
    assert found.hits[0].provenance[0] == Provenance(route="dense", rank=1, score=4.0, view="raw")
    assert embedder.calls == ["q"], "the question is embedded once, not once per view"


def test_any_route_takes_the_place_of_the_vectors_and_a_view_named_twice_is_searched_once() -> None:
    asked = store()
    how = {"views": ("summary", "raw", "summary"), "k": 2, "rule": ExactUnion()}
    assert ids(run(retrieve_views("q", **how, search=lambda kind: lexical), Services(store=asked))) == "zd"
    assert views_asked(asked) == [("lexical", "summary"), ("lexical", "raw")]
    own = stored("lexical", view="summary")  # names its own view
    run(retrieve_views("q", views=("mine",), k=10.5, search=lambda kind: own), Services(store=asked))
    assert views_asked(asked)[2:] == [("lexical", "summary")]
    assert asked.calls[2].k == 3 * 11


def test_several_routes_of_a_view_are_fused_before_the_views() -> None:
    both = {"search": lambda kind: ("dense", "lexical"), "fusion": RankFusion(weights={"lexical": 0.1})}
    found = run(retrieve_views("q", views=("raw", "summary"), k=2, rule=ExactUnion(), **both), services())
    assert ids(found) == "ae"
    lead, *routes = found.hits[0].provenance
    assert (lead.route, lead.rank, lead.view) == ("dense+lexical", 1, "raw")
    assert [(way.route, way.rank, way.view) for way in routes] == [("dense", 1, "raw"), ("lexical", 4, "raw")]


def test_a_retriever_of_a_framework_answers_behind_a_handler_and_a_route_may_ask_for_more() -> None:
    def retriever(request: Search) -> Ranking:
        return Ranking(tuple(Hit(chunk(name), 0.5) for name in ORDERS[request.view or ""]), Scale.SIMILARITY)

    def longer(query: str) -> Step[Search]:
        (reply,) = yield [Embed(texts=("a hypothetical answer",), kind="document")]
        return Search(route="dense", query=query, vector=reply[0], k=0)

    handlers = {Search: Handler(identity="a framework's retriever", call=retriever)}
    found = run(retrieve_views("q", search=lambda kind: stored("vectors")), Services(handlers=handlers))
    assert ids(found) == "abex"
    embedder = FakeEmbedder(8)
    run(retrieve_views("q", search=lambda kind: longer if kind == "raw" else ("dense",)), services(embedder=embedder))
    assert sorted(map(str, embedder.calls)) == ["('a hypothetical answer',)", "q"]


def test_a_view_that_fails_is_named_and_the_others_go_on() -> None:
    broken = services(store(("dense", "keywords")))
    found = run(retrieve_views("q"), broken)
    assert ids(found) == "aeb"
    assert found.degraded == (Degraded("view keywords", "store: dense over keywords is gone"),)
    assert ids(run(retrieve_views("q", rule=ViewRankFusion(weights={"keywords": 2.0})), broken))[0] == "b"
    with pytest.raises(ViewError, match=r"view 'keywords' failed: store: dense.*on_view_error='degrade'"):
        run(retrieve_views("q", on_view_error="raise"), broken)
    both = {"rule": ExactUnion(), "search": lambda kind: ("dense", "lexical"), "fusion": RankFusion()}
    found = run(retrieve_views("q", **both), services(store(("dense", "raw"))))  # a route leaves it to the others
    assert (ids(found)[0], [part.what for part in found.degraded]) == ("d", ["view raw: route dense"])


def test_no_view_at_all_is_an_error_that_says_why_once() -> None:
    broken = services(embedder=Flaky(AngleEmbedder(), [ServiceError("embedder", "the model is gone")] * 9))
    with pytest.raises(ViewError) as caught:
        run(retrieve_views("q"), broken)
    assert str(caught.value) == "no view could be searched (raw, keywords, summary): embedder: the model is gone"


def test_filters_reach_every_view_and_one_that_cannot_be_obeyed_is_never_ignored() -> None:
    assert ids(run(retrieve_views("q", k=9, rule=ExactUnion(), where={"kind": "table"}), services())) == "xyz"
    for where, message in (({"bad": 1}, "no such field"), ({"kind": {"$like": 1}}, "unknown operator")):
        with pytest.raises(FilterError, match=message):
            run(retrieve_views("q", where=where), services())


@pytest.mark.parametrize(("query", "k"), [("  ", 3), ("q", 0)])
def test_nothing_asked_nothing_found(query: str, k: int) -> None:
    asked = store()
    assert run(retrieve_views(query, k=k), services(asked)) == Ranking((), Scale.RANK)
    assert asked.calls == []


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"query": 7}, "query"),
        ({"views": ()}, "views"),
        ({"views": (1,)}, "views"),
        *(({"k": k}, "k must be") for k in (True, -1, float("inf"), float("nan"))),
        ({"k": 1.5, "rule": ExactUnion()}, "only PaperQuota"),
        ({"k": 5, "depth": 4}, "depth"),
        ({"rule": ExactUnion}, "rule"),
        ({"search": lambda kind: "dense"}, "routes of the view raw"),
        ({"on_view_error": "ignore"}, "on_view_error"),
        ({"rule": ViewRankFusion(weights={"sumary": 1.0})}, "weights of views"),
    ],
)
def test_arguments_are_refused_by_name_before_anything_is_searched(given: dict, what: str) -> None:
    asked = store()
    with pytest.raises(ParameterError, match=what):
        run(retrieve_views(**{"query": "q", **given}), services(asked))
    assert asked.calls == []

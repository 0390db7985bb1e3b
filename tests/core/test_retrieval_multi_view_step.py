"""Views searched side by side through any retriever: what is asked, what degrades, what is refused."""

from __future__ import annotations

import pickle

import pytest

from catena.effects import Embed, Handler, Search, Services, Step, arun, run
from catena.model import Chunk, FilterError, Hit, ParameterError, Provenance, Ranking, Scale, ServiceError, ViewError
from catena.retrieval import ExactUnion, RankFusion, ViewRankFusion, found_by, retrieve_views, stored
from catena.retrieval.routes import lexical
from catena.testing import FakeEmbedder, Flaky
from catena.testing.fakes import AngleEmbedder, FakeStore

ORDERS = {"raw": "abcd", "keywords": "bxca", "summary": "ebyz"}


def chunk(name: str) -> Chunk:
    kind = "table" if name in "xyz" else "text"
    return Chunk(id=name, document_id="d", position=0, start=0, end=1, text="x", kind=kind)


def ranking(route: str, view: str, ids: str) -> Ranking:
    hits = (
        Hit(chunk(name), 1.0 / rank, (Provenance(route=route, rank=rank, score=1.0 / rank, view=view),))
        for rank, name in enumerate(ids, start=1)
    )
    return Ranking(tuple(hits), Scale.SIMILARITY)


def store(failing: tuple[tuple[str, str], ...] = ()) -> FakeStore:
    """Return a store whose dense route ranks each view as in ORDERS, and whose lexical one the other way round."""

    def route(name: str, turn: int):
        def answer(request: Search) -> Ranking:
            if (name, request.view) in failing:
                raise ServiceError("store", f"{name} over {request.view} is gone")
            if request.where is not None and "bad" in request.where:
                raise FilterError(request.where, "no such field")
            ids = ORDERS[request.view or ""][::turn]
            if request.where is not None:
                ids = "".join(name for name in ids if chunk(name).kind == request.where["kind"])
            return ranking(name, request.view or "", ids)

        return answer

    return FakeStore({"dense": route("dense", 1), "lexical": route("lexical", -1)})


def services(**given) -> Services:
    return Services(**{"store": store(), "embedder": FakeEmbedder(8), **given})


def ids(found: Ranking) -> str:
    return "".join(hit.chunk.id for hit in found.hits)


def test_by_default_the_papers_views_and_rule_over_the_stores_vectors() -> None:
    asked = store()
    embedder = FakeEmbedder(8)
    found = run(retrieve_views("q"), services(store=asked, embedder=embedder))
    assert ids(found) == "abex"
    assert [(request.route, request.view, request.k) for request in asked.calls] == [
        ("dense", view, 30) for view in ("raw", "keywords", "summary")
    ]
    assert found_by(found.hits[1]) == {"keywords": 1, "raw": 2, "summary": 2}
    assert found.hits[0].provenance[0] == Provenance(route="dense", rank=1, score=1.0, view="raw")
    assert embedder.calls == ["q"], "the question is embedded once, not once per view"


async def test_asyncio_gives_the_same() -> None:
    assert await arun(retrieve_views("q", k=5), services()) == run(retrieve_views("q", k=5), services())


def test_any_route_takes_the_place_of_the_vectors_and_a_view_named_twice_is_searched_once() -> None:
    asked = store()
    found = run(
        retrieve_views("q", views=("summary", "raw", "summary"), k=2, rule=ExactUnion(), search=lambda kind: lexical),
        Services(store=asked),
    )
    assert ids(found) == "zd"
    assert [(request.route, request.view) for request in asked.calls] == [("lexical", "summary"), ("lexical", "raw")]


def test_a_route_that_names_its_own_view_is_left_alone() -> None:
    asked = store()
    routes = {"mine": lambda kind: stored("lexical", view="summary")}
    run(retrieve_views("q", views=("mine",), search=routes["mine"]), Services(store=asked))
    assert [request.view for request in asked.calls] == ["summary"]


def test_several_routes_of_a_view_are_fused_before_the_views() -> None:
    found = run(
        retrieve_views(
            "q",
            views=("raw", "summary"),
            k=2,
            rule=ExactUnion(),
            search=lambda kind: ("dense", "lexical"),
            fusion=RankFusion(weights={"lexical": 0.1}),
        ),
        services(),
    )
    assert ids(found) == "ae"
    lead, *routes = found.hits[0].provenance
    assert (lead.route, lead.rank, lead.view) == ("dense+lexical", 1, "raw")
    assert [(way.route, way.rank, way.view) for way in routes] == [("dense", 1, "raw"), ("lexical", 4, "raw")]


def test_a_retriever_of_a_framework_answers_behind_a_handler() -> None:
    def retriever(request: Search) -> Ranking:
        return Ranking(tuple(Hit(chunk(name), 0.5) for name in ORDERS[request.view or ""]), Scale.SIMILARITY)

    handlers = {Search: Handler(identity="a framework's retriever", call=retriever)}
    found = run(retrieve_views("q", search=lambda kind: stored("vectors")), Services(handlers=handlers))
    assert ids(found) == "abex"


def test_a_route_may_ask_for_more_than_the_question() -> None:
    def longer(query: str) -> Step[Search]:
        (reply,) = yield [Embed(texts=("a hypothetical answer",), kind="document")]
        return Search(route="dense", query=query, vector=reply[0], k=0)

    embedder = FakeEmbedder(8)
    run(retrieve_views("q", search=lambda kind: longer if kind == "raw" else ("dense",)), services(embedder=embedder))
    assert sorted(map(str, embedder.calls)) == ["('a hypothetical answer',)", "q"]


def test_filters_reach_every_view() -> None:
    found = run(retrieve_views("q", k=9, rule=ExactUnion(), where={"kind": "table"}), services())
    assert ids(found) == "xyz"


# --- failures ---


def test_a_view_that_fails_is_named_and_the_others_go_on() -> None:
    broken = services(store=store(failing=(("dense", "keywords"),)))
    found = run(retrieve_views("q"), broken)
    assert ids(found) == "aeb"
    assert [(part.what, part.why) for part in found.degraded] == [
        ("view keywords", "store: dense over keywords is gone")
    ]


def test_a_view_that_failed_may_be_weighted() -> None:
    broken = services(store=store(failing=(("dense", "keywords"),)))
    found = run(retrieve_views("q", rule=ViewRankFusion(weights={"keywords": 2.0})), broken)
    assert ids(found)[0] == "b"


def test_a_route_that_fails_leaves_its_view_to_the_others() -> None:
    broken = services(store=store(failing=(("dense", "raw"),)))
    found = run(
        retrieve_views("q", rule=ExactUnion(), search=lambda kind: ("dense", "lexical"), fusion=RankFusion()), broken
    )
    assert found.hits[0].chunk.id == "d"
    assert [part.what for part in found.degraded] == ["view raw: route dense"]


def test_a_failing_view_raises_when_asked_to() -> None:
    broken = services(store=store(failing=(("dense", "keywords"),)))
    with pytest.raises(ViewError, match=r"view 'keywords' failed: store: dense.*on_view_error='degrade'") as caught:
        run(retrieve_views("q", on_view_error="raise"), broken)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.view, str(again)) == ("keywords", str(caught.value))


def test_no_view_at_all_is_an_error_that_says_why_once() -> None:
    broken = services(embedder=Flaky(AngleEmbedder(), [ServiceError("embedder", "the model is gone")] * 9))
    with pytest.raises(ViewError) as caught:
        run(retrieve_views("q"), broken)
    assert str(caught.value) == ("no view could be searched (raw, keywords, summary): embedder: the model is gone")


def test_a_filter_that_cannot_be_obeyed_is_never_ignored() -> None:
    with pytest.raises(FilterError, match="no such field"):
        run(retrieve_views("q", where={"bad": 1}), services())
    with pytest.raises(FilterError, match="unknown operator"):
        run(retrieve_views("q", where={"kind": {"$like": 1}}), services())


# --- arguments ---


@pytest.mark.parametrize(("query", "k"), [("  ", 3), ("q", 0)])
def test_nothing_asked_nothing_found(query: str, k: int) -> None:
    asked = store()
    assert run(retrieve_views(query, k=k), services(store=asked)) == Ranking((), Scale.RANK)
    assert asked.calls == []


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"views": ()}, "views"),
        ({"views": "raw"}, "views"),
        ({"views": (1,)}, "views"),
        ({"views": None}, "views"),
        ({"k": -1}, "k must be"),
        ({"k": True}, "k must be"),
        ({"k": 1.5, "rule": ExactUnion()}, "only PaperQuota"),
        ({"k": 5, "depth": 4}, "depth"),
        ({"depth": 40.0}, "depth"),
        ({"rule": "rrf"}, "rule"),
        ({"rule": ExactUnion}, "rule"),
        ({"search": lambda kind: "dense"}, "routes of the view raw"),
        ({"search": lambda kind: ()}, "at least one route"),
        ({"fusion": "sum"}, "fusion"),
        ({"on_view_error": "ignore"}, "on_view_error"),
        ({"rule": ViewRankFusion(weights={"sumary": 1.0})}, "weights of views"),
    ],
)
def test_arguments_are_refused_by_name(given: dict, what: str) -> None:
    asked = store()
    with pytest.raises(ParameterError, match=what):
        run(retrieve_views("q", **given), services(store=asked))
    assert asked.calls == [], "refused before anything is searched"


def test_a_question_that_is_no_text_is_refused() -> None:
    with pytest.raises(ParameterError, match="query"):
        run(retrieve_views(7), services())  # type: ignore[arg-type]

"""Search over views in memory: one store for any scorer, filters obeyed, ties by id, best view of each chunk."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import bm25, chunk, ids, scored

from catena.effects import Search, Services, Store, run
from catena.model import FilterError, ParameterError, Ranking, Scale, ServiceError, View
from catena.retrieval import Bm25Scorer, ExactUnion, collected, found_by, retrieve_views
from catena.retrieval.in_memory import ViewCollection, by_kind
from catena.retrieval.late_interaction import TokenRows
from catena.retrieval.routes import lexical
from catena.testing import FakeEmbedder

CHUNKS = (
    chunk("a", "the pump starts", pages=(1, 2), metadata={"year": 2020}),
    chunk("b", "the level falls", kind="table", document_id="e", pages=(3, 3), metadata={"year": 2024}),
    chunk("c", "the pump and the level"),
)
TEXTS = {"c": ("start level", "level level"), "a": ("colour",)}
VIEWS = tuple(View(chunk_id=name, kind="keywords", text=text) for name in TEXTS for text in TEXTS[name])


class SharedWords:
    """Scores a text by how many of the query's words it holds."""

    def __init__(self, texts) -> None:
        self.words = [set(text.split()) for text in texts]

    def score(self, query):
        found = np.array([len(held & set(query.split())) for held in self.words], float)
        return np.where(found > 0, found, -np.inf)


def store(**given) -> ViewCollection:
    return ViewCollection(CHUNKS, VIEWS, **{"scorers": {"lexical": SharedWords}, **given})


def search(query: str = "pump level", store_: ViewCollection | None = None, **given) -> Ranking:
    return (store_ or store()).search(Search(**{"route": "lexical", "query": query, "k": 9, **given}))


def test_it_is_a_store_over_the_chunks_own_texts_where_nothing_else_is_asked() -> None:
    assert isinstance(store(), Store)
    assert (store().routes, store().kinds) == (("lexical",), ("raw", "keywords"))
    ranking = search()
    assert (scored(ranking), ranking.scale) == ([("c", 2.0), ("a", 1.0), ("b", 1.0)], Scale.SIMILARITY)
    (way,) = ranking.hits[1].provenance
    assert (way.route, way.rank, way.score, way.view) == ("lexical", 2, 1.0, "raw")


def test_a_chunk_is_found_by_its_best_view_of_the_kind_and_by_no_other() -> None:
    assert scored(search("start level", view="keywords")) == [("c", 2.0)]
    assert scored(search("start level", view="summary")) == []
    assert scored(search("start level", k=0)) == []
    raw = View(chunk_id="b", kind="raw", text="pump")  # takes the place of the chunks' texts
    assert by_kind(CHUNKS, [raw]) == {"raw": (raw,)}
    assert scored(search(store_=ViewCollection(CHUNKS, [raw], scorers={"lexical": SharedWords}))) == [("b", 1.0)]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"where": {"year": {"$gte": 2021}}}, "b"),
        ({"where": {"page": 1, "last_page": 2, "chunk_id": "a", "document_id": "d"}}, "a"),
        ({"where": {"page": {"$exists": False}}}, "c"),
        ({"documents": ("e",)}, "b"),
        ({"among": ("b", "a", "nowhere")}, "ab"),
        ({"among": ("a",), "where": {"kind": "table"}}, ""),
    ],
)
def test_filters_and_candidates_are_obeyed(given: dict, found: str) -> None:
    ranking = search(**given)
    assert ids(ranking) == found
    assert "among" not in given or all(hit.provenance[0].rank is None for hit in ranking.hits)


def test_vectors_rank_by_their_dot_product() -> None:
    rows = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
    dense = store(vectors={"raw": rows})
    assert dense.routes == ("lexical", "dense")
    ranking = search(store_=dense, route="dense", vector=np.array([0.6, 0.8], np.float32))
    assert scored(ranking) == [("c", pytest.approx(1.0)), ("b", pytest.approx(0.8)), ("a", pytest.approx(0.6))]
    assert scored(search(store_=dense, route="dense", vector=rows[0], view="keywords")) == []


def test_a_collection_is_embedded_by_the_services_and_searched_by_the_same_steps() -> None:
    embedder = FakeEmbedder()
    made = run(collected(CHUNKS, VIEWS, scorers={"lexical": Bm25Scorer}, batch=2), Services(embedder=embedder))
    assert sorted(len(call) for call in embedder.calls) == [1, 1, 2, 2]
    for search_, views in ((lambda kind: lexical, ("raw", "keywords")), (None, ("keywords",))):
        step = retrieve_views("colour", views=views, k=1, rule=ExactUnion(), search=search_)
        (hit,) = run(step, Services(store=made, embedder=embedder)).hits
        assert (hit.chunk.id, found_by(hit)) == ("a", {"keywords": 1})
    empty = run(collected((), scorers={"lexical": Bm25Scorer}), Services(embedder=FakeEmbedder()))
    assert scored(search(store_=empty)) == []


# BM25


def test_bm25_by_hand() -> None:
    # n(pump) = 2 of 3: idf = ln(1 + 1.5 / 2.5) = 0.47; |d| = 3, 3, 5, avg 11 / 3
    first, second, third = Bm25Scorer([chunk.text for chunk in CHUNKS]).score("Pump")
    assert first == pytest.approx(math.log(1.6) * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 9 / 11)))
    assert second == -math.inf
    assert third == pytest.approx(math.log(1.6) * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 15 / 11)))
    assert Bm25Scorer(["", "…"]).score("pump").tolist() == [-math.inf, -math.inf]
    assert Bm25Scorer([]).score("pump").tolist() == []


some_texts = st.lists(
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8).map(" ".join), min_size=1, max_size=6
)


@given(some_texts, st.lists(st.sampled_from("abcxyz"), max_size=4).map(" ".join))
def test_bm25_is_its_formula_and_equal_texts_tie_exactly(texts: list[str], query: str) -> None:
    scores = Bm25Scorer([*texts, *texts]).score(query).tolist()
    assert scores == pytest.approx([score or -math.inf for score in bm25(query, [*texts, *texts])])
    assert scores[: len(texts)] == scores[len(texts) :]


# Errors


@pytest.mark.parametrize("scores", [[np.nan, 1.0, 1.0], [1.0]])
def test_a_scorer_that_gives_no_score_per_text_is_named(scores) -> None:
    class Wrong(SharedWords):
        def score(self, query):
            return np.array(scores)

    with pytest.raises(ServiceError, match="scorer lexical"):
        search(store_=store(scorers={"lexical": Wrong}))


def with_vectors() -> ViewCollection:
    return store(vectors={"raw": np.ones((3, 2))})


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: ViewCollection([*CHUNKS, CHUNKS[0]]), "chunks"),
        (lambda: ViewCollection(CHUNKS, [View(chunk_id="z", kind="raw", text="")]), "views must be of the chunks"),
        (lambda: store(vectors={"raw": np.ones((2, 2))}), r"vectors\['raw'\]"),
        (lambda: store(tokens={"keywords": TokenRows.of([])}), r"tokens\['keywords'\]"),
        (lambda: store(scorers={"dense": SharedWords}), "names of their own"),
        (lambda: search(route="dense", vector=np.ones(2)), "route must be one of lexical"),
        (lambda: search(store_=ViewCollection(CHUNKS)), "no route was given"),
        (lambda: search(k=-1), "k must be"),
        (lambda: search(store_=with_vectors(), route="dense"), "vector"),
        (lambda: search(store_=with_vectors(), route="dense", vector=[1, math.nan]), "vector"),
        *((lambda k1=k1: Bm25Scorer([], k1=k1), "k1") for k1 in (-1, math.inf)),
        *((lambda b=b: Bm25Scorer([], b=b), "b must be") for b in (-0.1, 1.1)),
        (lambda: run(collected(CHUNKS, batch=0), Services()), "batch"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(make, what: str) -> None:
    with pytest.raises(ParameterError, match=what):
        make()
    with pytest.raises(FilterError, match="unknown operator"):
        search(where={"year": {"$near": 3}})

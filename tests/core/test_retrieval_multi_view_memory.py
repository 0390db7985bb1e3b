"""Search over views in memory: one store for any scorer, filters obeyed, ties by id, best view of each chunk."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.effects import Search, Services, Store, run
from catena.model import Chunk, FilterError, ParameterError, Ranking, Scale, ServiceError, View
from catena.retrieval import Bm25Scorer, ExactUnion, collected, found_by, retrieve_views
from catena.retrieval.in_memory import ViewCollection, by_kind
from catena.retrieval.late_interaction import TokenRows
from catena.retrieval.routes import lexical
from catena.testing import FakeEmbedder
from catena.text import tokenise


def chunk(name: str, text: str, **given) -> Chunk:
    return Chunk(
        **{"id": name, "document_id": "d", "position": 0, "start": 0, "end": len(text), "text": text, **given}
    )


CHUNKS = (
    chunk("a", "the pump starts", pages=(1, 2), metadata={"year": 2020}),
    chunk("b", "the level falls", kind="table", document_id="e", pages=(3, 3), metadata={"year": 2024}),
    chunk("c", "the pump and the level"),
)
VIEWS = (
    View(chunk_id="c", kind="keywords", text="start level"),
    View(chunk_id="a", kind="keywords", text="colour"),
    View(chunk_id="c", kind="keywords", text="level level"),
)


class SharedWords:
    """Scores a text by how many of the query's words it holds."""

    def __init__(self, texts) -> None:
        self.words = [set(text.split()) for text in texts]

    def score(self, query):
        found = np.array([len(held & set(query.split())) for held in self.words], float)
        return np.where(found > 0, found, -np.inf)


def store(**given) -> ViewCollection:
    return ViewCollection(CHUNKS, VIEWS, **{"scorers": {"lexical": SharedWords}, **given})


def found(ranking: Ranking) -> list[tuple[str, float]]:
    return [(hit.chunk.id, hit.score) for hit in ranking.hits]


def search(query: str = "pump level", store: ViewCollection | None = None, **given) -> Ranking:
    asked = Search(**{"route": "lexical", "query": query, "k": 9, **given})
    return (store or ViewCollection(CHUNKS, VIEWS, scorers={"lexical": SharedWords})).search(asked)


def test_it_is_a_store_over_the_chunks_own_texts_where_nothing_else_is_asked() -> None:
    assert isinstance(store(), Store)
    assert (store().routes, store().kinds) == (("lexical",), ("raw", "keywords"))
    ranking = search()
    assert found(ranking) == [("c", 2.0), ("a", 1.0), ("b", 1.0)]
    assert ranking.scale is Scale.SIMILARITY
    (way,) = ranking.hits[1].provenance
    assert (way.route, way.rank, way.score, way.view) == ("lexical", 2, 1.0, "raw")


def test_a_chunk_is_found_by_its_best_view_of_the_kind_and_by_no_other() -> None:
    assert found(search("start level", view="keywords")) == [("c", 2.0)]
    assert found(search("start level", view="summary")) == []
    assert found(search("start level", k=0)) == []


def test_own_raw_views_take_the_place_of_the_chunks_texts() -> None:
    raw = View(chunk_id="b", kind="raw", text="pump")
    assert by_kind(CHUNKS, [raw]) == {"raw": (raw,)}
    assert found(search(store=ViewCollection(CHUNKS, [raw], scorers={"lexical": SharedWords}))) == [("b", 1.0)]


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        ({"where": {"year": {"$gte": 2021}}}, "b"),
        ({"where": {"kind": "text"}}, "ca"),
        ({"where": {"page": 1, "last_page": 2, "chunk_id": "a", "document_id": "d"}}, "a"),
        ({"where": {"page": {"$exists": False}}}, "c"),
        ({"documents": ("e",)}, "b"),
        ({"among": ("b", "a", "nowhere")}, "ab"),
        ({"among": ("a",), "where": {"kind": "table"}}, ""),
    ],
)
def test_filters_and_candidates_are_obeyed(given: dict, ids: str) -> None:
    ranking = search(**given)
    assert "".join(hit.chunk.id for hit in ranking.hits) == ids
    if "among" in given:
        assert all(hit.provenance[0].rank is None for hit in ranking.hits)


def test_vectors_rank_by_their_dot_product() -> None:
    rows = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
    dense = store(vectors={"raw": rows})
    assert dense.routes == ("lexical", "dense")
    ranking = search(store=dense, route="dense", vector=np.array([0.6, 0.8], np.float32))
    assert found(ranking) == [("c", pytest.approx(1.0)), ("b", pytest.approx(0.8)), ("a", pytest.approx(0.6))]
    assert found(search(store=dense, route="dense", vector=rows[0], view="keywords")) == []


def test_a_collection_is_embedded_by_the_services_and_searched_by_the_same_steps() -> None:
    embedder = FakeEmbedder()
    world = Services(embedder=embedder)
    made = run(collected(CHUNKS, VIEWS, scorers={"lexical": Bm25Scorer}, batch=2), world)
    assert sorted(len(call) for call in embedder.calls) == [1, 1, 2, 2]
    ranking = run(
        retrieve_views("colour", views=("raw", "keywords"), k=1, rule=ExactUnion(), search=lambda kind: lexical),
        Services(store=made),
    )
    assert [(hit.chunk.id, found_by(hit)) for hit in ranking.hits] == [("a", {"keywords": 1})]
    by_vectors = run(
        retrieve_views("colour", views=("keywords",), k=1, rule=ExactUnion()), Services(store=made, embedder=embedder)
    )
    assert by_vectors.hits[0].chunk.id == "a"


def test_nothing_in_nothing_out() -> None:
    empty = run(collected((), scorers={"lexical": Bm25Scorer}), Services(embedder=FakeEmbedder()))
    assert found(search(store=empty)) == []


# --- BM25 ---


def by_formula(query: str, texts: list[str], k1: float = 1.2, b: float = 0.75) -> list[float]:
    words = [Counter(tokenise(text)) for text in texts]
    average = sum(held.total() for held in words) / len(words)
    scores = []
    for held in words:
        parts = []
        for word in tokenise(query):
            n = sum(word in other for other in words)
            idf = math.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
            tf = held[word]
            parts.append(idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * held.total() / average)) if tf else 0.0)
        scores.append(sum(parts))
    return scores


def test_bm25_by_hand() -> None:
    # n(pump) = 2 of 3: idf = ln(1 + 1.5 / 2.5) = 0.47; |d| = 3, 3, 5, avg 11 / 3
    first, second, third = Bm25Scorer([chunk.text for chunk in CHUNKS]).score("Pump")
    idf = math.log(1.6)
    assert first == pytest.approx(idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 9 / 11)))
    assert second == -math.inf
    assert third == pytest.approx(idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 15 / 11)))


some_texts = st.lists(
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8).map(" ".join), min_size=1, max_size=6
)


@given(some_texts, st.lists(st.sampled_from("abcxyz"), max_size=4).map(" ".join))
def test_bm25_is_its_formula(texts: list[str], query: str) -> None:
    scores = Bm25Scorer(texts).score(query)
    wanted = [score or -math.inf for score in by_formula(query, texts)]
    assert scores.tolist() == pytest.approx(wanted)


@given(some_texts, some_texts)
def test_equal_texts_tie_exactly(texts: list[str], more: list[str]) -> None:
    scores = Bm25Scorer([*texts, *more, *texts]).score("a b c d e f")
    assert scores[: len(texts)].tolist() == scores[-len(texts) :].tolist()


def test_bm25_of_texts_without_words_finds_nothing() -> None:
    assert Bm25Scorer(["", "…"]).score("pump").tolist() == [-math.inf, -math.inf]
    assert Bm25Scorer([]).score("pump").tolist() == []


# --- errors ---


class Broken:
    def __init__(self, texts) -> None:
        pass

    def score(self, query):
        return np.array([np.nan, 1.0, 1.0])


class Short(Broken):
    def score(self, query):
        return np.array([1.0])


@pytest.mark.parametrize("scorer", [Broken, Short])
def test_a_scorer_that_gives_no_score_per_text_is_named(scorer) -> None:
    with pytest.raises(ServiceError, match="scorer lexical"):
        search(store=store(scorers={"lexical": scorer}))


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: ViewCollection([*CHUNKS, CHUNKS[0]]), "chunks"),
        (lambda: ViewCollection(CHUNKS, [View(chunk_id="z", kind="raw", text="")]), "views must be of the chunks"),
        (lambda: store(vectors={"raw": np.ones((2, 2))}), r"vectors\['raw'\]"),
        (lambda: store(vectors={"summary": np.ones((2, 2))}), r"vectors\['summary'\]"),
        (lambda: store(tokens={"keywords": TokenRows.of([])}), r"tokens\['keywords'\]"),
        (lambda: store(scorers={"dense": SharedWords}), "names of their own"),
        (lambda: search(route="dense", vector=np.ones(2)), "route must be one of lexical"),
        (lambda: search(store=ViewCollection(CHUNKS)), "no route was given"),
        (lambda: search(k=-1), "k must be"),
        (lambda: search(k=True), "k must be"),
        (lambda: search(store=store(vectors={"raw": np.ones((3, 2))}), route="dense"), "vector"),
        (lambda: search(store=store(vectors={"raw": np.ones((3, 2))}), route="dense", vector="x"), "vector"),
        (lambda: search(store=store(vectors={"raw": np.ones((3, 2))}), route="dense", vector=[1, 2, 3]), "vector"),
        (lambda: Bm25Scorer([], k1=-1), "k1"),
        (lambda: Bm25Scorer([], b=1.5), "b must be"),
        (lambda: run(collected(CHUNKS, batch=0), Services()), "batch"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(make, what: str) -> None:
    with pytest.raises(ParameterError, match=what):
        make()


def test_a_malformed_filter_is_refused() -> None:
    with pytest.raises(FilterError, match="unknown operator"):
        search(where={"year": {"$near": 3}})

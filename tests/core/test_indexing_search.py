"""The three routes: exact scores, exact filters, settled ties."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from retrieval_cases import bm25
from test_indexing_entries import DIM, addition, entry_of, open_store

from catena.effects import Search, Store
from catena.model import FilterError, MissingExtraError, ParameterError, Ranking, Scale, matches
from catena.store import LibraryStore
from catena.store.vectors import Scored

WORDS = ["flash", "ram", "clock", "board", "debug", "probe", "the", "volt"]
AXES = np.eye(DIM, dtype=np.float32)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibraryStore]:
    """Documents of random words, many of them equal, with metadata to filter on."""
    random, additions = np.random.default_rng(7), []
    for n in range(40):
        texts = [" ".join(random.choice(WORDS, random.integers(1, 12))) for _ in range(3)]
        more = {"metadata": {"n": n}, "terms": [[str(random.choice(WORDS))], [], ["board", "volt"]]}
        additions.append(addition(f"d{n:02}", *texts, title=f"T{n % 5}", seed=n % 9, **more))
    with open_store(tmp_path_factory.mktemp("search") / "library") as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr("catena.store.routes.DOCUMENTS", 5)  # so that not every document adds to its chunks
        store.add(additions)
        yield store


def pairs(ranking: Ranking) -> list[tuple[str, float]]:
    return [(hit.chunk.id, hit.score) for hit in ranking.hits]


# golden numbers


def test_bm25_is_lucenes_formula(tmp_path: Path) -> None:
    texts = {"a": "ram ram clock", "b": "ram", "c": "clock board debug volt"}
    with open_store(tmp_path / "library") as store:
        store.add([addition(name, text) for name, text in texts.items()])
        found = store.search(Search(route="lexical", query="RAM clock ram", k=9, view="raw"))
    scores = {hit.chunk.document_id: hit.score for hit in found.hits}
    wanted = dict(zip(texts, bm25("RAM clock ram", list(texts.values())), strict=True))
    assert scores == pytest.approx(wanted, abs=1e-4)
    assert found.scale is Scale.SIMILARITY
    ways = [(way.route, way.rank, way.view) for hit in found.hits for way in hit.provenance]
    assert ways == [("lexical", rank, "raw") for rank in (1, 2, 3)]


def test_dense_scores_are_dot_products(tmp_path: Path) -> None:
    entry = entry_of("a", "x", "y", "z")
    vectors = np.array([[1, 0, 0, 0], [0.6, 0.8, 0, 0], [0, 0, 0, 0]], np.float32)
    with open_store(tmp_path / "library") as store:
        store.add([(entry, vectors)])
        found = store.search(Search(route="dense", query="", vector=[0.5, 0, 0, 0], k=9))
    assert [hit.chunk.text for hit in found.hits] == ["x", "y", "z"]
    assert [hit.score for hit in found.hits] == pytest.approx([0.5, 0.3, 0.0])
    assert [hit.provenance[0].score for hit in found.hits] == [hit.score for hit in found.hits]


def test_keyword_scores_are_numbers_of_terms(tmp_path: Path) -> None:
    terms = [["hx 200"], ["hx 200", "flash", "other"], []]
    with open_store(tmp_path / "library") as store:
        store.add([addition("a", "x", "y", "z", terms=terms), addition("b", "x")])
        found = store.search(Search(route="keyword", query="How much Flash has the HX-200, and hx_200?", k=9))
        assert [(hit.chunk.text, hit.score) for hit in found.hits] == [("y", 2.0), ("x", 1.0)]
        assert found.hits[0].provenance[0].view == "terms"
        assert store.search(Search(route="keyword", query="HX-2000", k=9)).hits == ()
        store.add([addition("c", "one", "two", terms=[["hx 210", "hx 210"], ["fuse", "hx 210"]])])
        for query, scores in (("fuse of the HX-210", [2.0, 2.0]), ("the HX-210", [2.0, 1.0])):
            assert [hit.score for hit in store.search(Search(route="keyword", query=query, k=9)).hits] == scores


# laws

requests = st.builds(
    lambda route, words, k, axis, view: Search(
        route=route, query=" ".join(words), k=k, vector=AXES[axis], view=view if route == "lexical" else None
    ),
    st.sampled_from(["lexical", "dense", "keyword"]),
    st.lists(st.sampled_from([*WORDS, "T1", "unknown"]), max_size=5),
    st.integers(0, 150),
    st.integers(0, DIM - 1),
    st.sampled_from(["raw", "headed", None]),
)
wheres = st.one_of(
    st.builds(lambda n: {"n": {"$lt": n}}, st.integers(0, 40)),
    st.builds(lambda n: {"document_id": f"d{n:02}"}, st.integers(0, 45)),
    st.builds(lambda n, page: {"path": f"T{n}", "page": {"$gte": page}}, st.integers(0, 5), st.integers(1, 4)),
    st.builds(lambda n: {"$not": {"parity": n % 2, "kind": "text"}}, st.integers(0, 3)),
)
lawful = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def everything(request: Search) -> Search:
    return replace(request, k=10_000)


@lawful
@given(requests)
def test_k_cuts_the_whole_ranking(store: LibraryStore, request_: Search) -> None:
    whole = store.search(everything(request_))
    assert pairs(store.search(request_)) == pairs(whole)[: request_.k]
    assert pairs(whole) == sorted(pairs(whole), key=lambda pair: (-pair[1], pair[0]))
    assert len({chunk for chunk, _ in pairs(whole)}) == len(whole.hits)
    assert [hit.provenance[0].rank for hit in whole.hits] == list(range(1, len(whole.hits) + 1))


@lawful
@given(requests, wheres)
def test_a_filter_gives_the_k_best_of_those_it_allows(store: LibraryStore, request_: Search, where: dict) -> None:
    titles = {info.id: info.title for info in store.documents()}
    allowed = [
        (hit.chunk.id, hit.score)
        for hit in store.search(everything(request_)).hits
        if matches(
            where,
            {
                "n": int(hit.chunk.document_id[1:]),
                "document_id": hit.chunk.document_id,
                "path": list(hit.chunk.path),
                "page": hit.chunk.pages[0],
                "kind": hit.chunk.kind,
                "title": titles[hit.chunk.document_id],
                **hit.chunk.metadata,
            },
        )
    ]
    assert pairs(store.search(replace(request_, where=where))) == allowed[: request_.k]


@lawful
@given(requests, st.sets(st.integers(0, 9), max_size=4), wheres, st.booleans())
def test_documents_limit_a_search(store: LibraryStore, request_: Search, some: set, where: dict, many: bool) -> None:
    known = [info.id for info in store.documents()]
    documents = ("no such document", *(known[position % len(known)] for position in some))
    whole = store.search(replace(request_, k=10_000, where=where)).hits
    with pytest.MonkeyPatch.context() as patch:
        if many:  # as for a limit of more chunks than are looked up one by one
            patch.setattr("catena.store.names._FEW", 0)
        limited = store.search(replace(request_, where=where, documents=documents))
    wanted = [(hit.chunk.id, hit.score) for hit in whole if hit.chunk.document_id in documents]
    assert pairs(limited) == wanted[: request_.k]
    ranks = [way.rank for hit in limited.hits for way in hit.provenance]
    assert ranks == list(range(1, len(ranks) + 1))
    among = ("no such chunk", *(hit.chunk.id for hit in whole[::2]))
    named = store.search(replace(request_, where=where, among=among))
    assert pairs(named) == [(hit.chunk.id, hit.score) for hit in whole[::2]][: request_.k]
    assert {way.rank for hit in named.hits for way in hit.provenance} <= {None}


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 35))
def test_all_ties_with_the_last_of_the_best_are_kept(scores: list[int], k: int) -> None:
    scored = Scored(np.arange(len(scores)), np.array(scores, np.float64))
    least = min(sorted(scores, reverse=True)[:k], default=0)
    assert scored.down_to(k).keys.tolist() == [n for n, score in enumerate(scores) if score >= least]


@pytest.mark.slow
def test_frequent_words_are_left_out_only_beside_telling_ones(tmp_path: Path) -> None:
    with open_store(tmp_path / "library") as store:
        store.add([addition(f"d{n:04}", "the board" if n else "the probe") for n in range(2_500)])
        assert len(store.search(Search(route="lexical", query="the probe", k=5)).hits) == 1
        assert len(store.search(Search(route="lexical", query="the", k=5)).hits) == 5
        assert len(store.search(Search(route="lexical", query="the board", k=5)).hits) == 5


# the reference engine


def test_rank_bm25_follows_changes_and_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "library", lexical="rank-bm25") as store:
        assert store.search(Search(route="lexical", query="ram", k=5)).hits == ()
        store.add([addition(f"d{n}", "ram clock" if n < 2 else "board", metadata={"n": n}) for n in range(6)])
        assert len(store.search(Search(route="lexical", query="ram", k=5)).hits) == 2
        found = store.search(Search(route="lexical", query="ram", k=5, where={"n": 1}))
        assert [hit.chunk.document_id for hit in found.hits] == ["d1"]
        store.delete("d1")
        assert len(store.search(Search(route="lexical", query="ram", k=5)).hits) == 1
        assert store.search(Search(route="lexical", query="?!", k=5)).hits == ()
        assert store.verify() == ()
        monkeypatch.setitem(sys.modules, "rank_bm25", None)
        store.add([addition("a", "ram")])
        with pytest.raises(MissingExtraError, match=r"pip install './packages/catena\[rank-bm25\]'"):
            store.search(Search(route="lexical", query="ram", k=5))


# edges and errors


@pytest.mark.parametrize("route", ["dense", "lexical", "keyword"])
def test_an_empty_library_finds_nothing(tmp_path: Path, route: str) -> None:
    with open_store(tmp_path / "library") as empty:
        assert empty.search(Search(route=route, query="ram", vector=AXES[0], k=5)).hits == ()
        assert empty.search(Search(route=route, query="ram", vector=AXES[0], k=5, where={"n": 1})).hits == ()
        assert empty.verify() == ()
        empty.add([addition("a", "ram", terms=[["ram"]])])
        assert len(empty.search(Search(route=route, query="ram", vector=AXES[0], k=5)).hits) == 1
        empty.delete("a")
        assert empty.search(Search(route=route, query="ram", vector=AXES[0], k=5)).hits == ()
        assert empty.verify() == ()


LOG = " ".join(f"w{n}" for n in range(15_000)) + " ram"


@pytest.mark.parametrize(
    "query", ["", "?!… ()", "水", "\x00", "\ud800", "title: x", 'is "x', "c++ (draft", "a AND -b", "x" * 100_000, LOG]
)
def test_any_text_is_a_query(store: LibraryStore, query: str) -> None:
    assert isinstance(store, Store)
    assert set(store.routes) == {"dense", "lexical", "keyword"}
    for route in store.routes:
        assert len(store.search(Search(route=route, query=query, vector=AXES[0], k=5)).hits) <= 5
        with pytest.raises(FilterError):
            store.search(Search(route=route, query=query, vector=AXES[0], k=5, where={"n": {"$like": 1}}))
    assert store.search(Search(route="dense", query=query, vector=np.zeros(DIM), k=5)).hits == ()  # like nothing
    assert store.search(Search(route="lexical", query="ram", view="../../x", k=5)).hits == ()
    assert len(list((store.path / "lexical").iterdir())) <= 3  # of headed views, raw ones and whole documents


def test_a_kind_of_view_with_an_odd_name_and_a_word_without_end_do_no_harm(tmp_path: Path) -> None:
    entry, vectors = addition("a", "x" * 100_000 + " ram")
    views = tuple(v if v.kind == "raw" else replace(v, kind="../x, view y") for v in entry.views)
    with open_store(tmp_path / "library") as store:
        store.add([(replace(entry, views=views), vectors)])
        assert len(store.search(Search(route="lexical", query="ram", view="../x, view y", k=5)).hits) == 1
        store.add([addition("b", "ram")])
        assert store.verify() == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["library"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"route": "fuzzy"}, "route must be one of dense, lexical, keyword"),
        ({"k": -1}, "k must be a whole number >= 0"),
        ({"k": True}, "k must be a whole number >= 0"),
        ({"query": None}, "query must be a string"),
        *(
            ({"route": "dense", "vector": vector}, "vector must be 4 finite numbers")
            for vector in (None, "abcd", np.zeros(3), np.zeros((1, 4)), [np.nan, 0, 0, 0])
        ),
    ],
)
def test_bad_requests_are_named(store: LibraryStore, changes: dict, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        store.search(Search(**{"route": "lexical", "query": "ram", "k": 5, **changes}))

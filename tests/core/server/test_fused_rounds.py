"""Routes and the whole formula from a server that lies in memory: against scoring every chunk by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf, log1p
from typing import Any

import numpy as np
import pytest
from fake_server import FakeServer, bm25_of
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.effects import Fused, Search, SearchFused
from catena.model import Chunk, FilterError, Hit, ParameterError, Ranking, Scale, ServerError
from catena.retrieval import ScoreFusion, weighted_sum
from catena_server import FormulaWeights, FusedOptions, IndexLayout, ScoreParts, SeenChunks, repeated, top_chunks
from catena_server.fused_search import search_fused
from catena_server.queries import MOST
from catena_server.route_search import CountCache, QueryOptions, best_documents, filters_of, search

LAYOUT = IndexLayout(name="c-laws", dim=2, embedder="laws")
WINDOWS = replace(LAYOUT, several=("",))
WEIGHTS = (("dense", 0.65), ("lexical", 0.35), ("keyword", 0.3))
WORDS = ("flash", "ram", "voltage", "esp32", "lora")
QUERY = "flash ram of the ESP32 lora"
VECTOR = np.array([0.6, 0.8], np.float32)


REQUEST = SearchFused(query=QUERY, k=3, weights=WEIGHTS, vector=VECTOR)


def how() -> QueryOptions:
    """Return options that remember nothing from one example to the next."""
    return QueryOptions(counts=CountCache(seconds=0.0))


def fused(
    server: FakeServer, request: SearchFused, layout: IndexLayout = LAYOUT, *, kept: Any = None, **options: Any
) -> Fused:
    found = server.run(search_fused(request, layout, kept or how(), FusedOptions(**options)))
    assert found is not None
    return found


def source(at: int, words: str, terms: list[str], angles: list[float], layout: IndexLayout) -> dict[str, Any]:
    """Return what is written of a chunk whose vectors lie at some angles to the question's."""
    turned = [[float(np.cos(a) * 0.6 - np.sin(a) * 0.8), float(np.sin(a) * 0.6 + np.cos(a) * 0.8)] for a in angles]
    vectors: dict[str, Any] = {"vectors": {"default": turned[0]}} if turned else {}
    if layout.several:
        vectors = {"several_default": [{"vector": row} for row in turned]}
    return {
        "document": f"d{at % 3}", "kind": "text", "position": at, "section": 0, "start": 0, "end": len(words),
        "text": words, "words": {"of_headed": words}, "terms": repeated(terms), **vectors,
    }  # fmt: skip


@st.composite
def servers(draw: st.DrawFn, layout: IndexLayout = LAYOUT) -> FakeServer:
    """Return servers with some look-alike chunks: few angles, words and terms make ties."""
    angle = st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0, 3.0])
    said, terms = st.lists(st.sampled_from(WORDS), max_size=3), st.sampled_from(["esp32", "esp32", "lora"])
    one = st.tuples(said, st.lists(terms, max_size=3), st.lists(angle, max_size=2 if layout.several else 1))
    chunks = enumerate(draw(st.lists(one, max_size=25)))
    held = {f"c{at:02}": source(at, " ".join(w), t, a, layout) for at, (w, t, a) in chunks}
    server = FakeServer.holding("c-laws", held)
    for at, words in enumerate(draw(st.lists(st.lists(st.sampled_from(WORDS), max_size=4), max_size=3))):
        record = {"record": "document", "document": f"d{at}", "words": " ".join(words)}
        server.indices["c-laws-documents-1"].docs[f"d{at}"] = record
    return server


def by_hand(server: FakeServer) -> dict[str, dict[str, float]]:
    """Return the raw scores of every chunk by every route."""
    said = dict.fromkeys(("flash", "ram", "esp32", "lora"), 1)
    records = server.documents("c-laws-documents").values()
    of_documents = {record["document"]: bm25_of(record["words"].split(), said) for record in records}
    found: dict[str, dict[str, float]] = {}
    for chunk_id, held in server.documents("c-laws-chunks").items():
        rows = [row["vector"] for row in held.get("several_default", ())]
        rows += [held["vectors"]["default"]] if "vectors" in held else []
        by_words = bm25_of(held["words"]["of_headed"].split(), said)
        by_words += of_documents.get(held["document"], 0.0) if by_words else 0.0
        parts = {
            "dense": max((float(np.dot(row, VECTOR)) for row in rows), default=None),
            "lexical": round(by_words, 4),
            "keyword": float(len(held["terms"])),
        }
        found[chunk_id] = {
            route: raw for route, raw in parts.items() if raw is not None and (raw or route == "dense")
        }
    return found


def fused_by_hand(server: FakeServer) -> dict[str, float]:
    """Return the formula's score of every chunk that any route finds."""
    parts = by_hand(server)
    best = max((one.get("lexical", 0.0) for one in parts.values()), default=0.0)
    shares = {
        "dense": lambda raw: 0.65 * (1 + raw) / 2,
        "lexical": lambda raw: 0.35 * raw / best,
        "keyword": lambda raw: 0.3 * log1p(raw),
    }
    return {one: sum(shares[r](raw) for r, raw in routes.items()) for one, routes in parts.items() if routes}


@settings(deadline=None)
@given(servers(), st.sampled_from(["dense", "lexical", "keyword"]), st.integers(1, 12))
def test_a_route_gives_its_best_chunks_with_ties_by_id(server: FakeServer, route: str, k: int) -> None:
    ranking = server.run(search(Search(route=route, query=QUERY, k=k, vector=VECTOR), LAYOUT, how()))
    raw = {one: routes[route] for one, routes in by_hand(server).items() if route in routes}
    wanted = sorted(raw, key=lambda one: (-round(raw[one], 6), one))[:k]
    assert [hit.chunk.id for hit in ranking.hits] == wanted
    assert [hit.score for hit in ranking.hits] == pytest.approx([raw[one] for one in wanted], abs=1e-6)
    assert [hit.provenance[0].rank for hit in ranking.hits] == list(range(1, len(wanted) + 1))


@settings(deadline=None)
@given(servers(), st.integers(1, 8), st.integers(1, 6), st.integers(1, 12), st.booleans())
def test_the_formula_is_that_over_every_chunk(
    server: FakeServer, k: int, neighbours: int, rows: int, exact: bool
) -> None:
    found = fused(server, replace(REQUEST, k=k), neighbours=neighbours, rows=rows, exact=exact)
    _check(server, found, k)
    is_tied = found.certificate.gap == pytest.approx(0.0, abs=1e-4)  # open is only which of equal scores come in
    assert found.certificate.exact or not exact or (is_tied and len(fused_by_hand(server)) > k)


@settings(deadline=None)
@given(servers(WINDOWS), st.integers(1, 8))
def test_of_windows_the_nearest_counts(server: FakeServer, k: int) -> None:
    _check(server, fused(server, replace(REQUEST, k=k), WINDOWS, neighbours=5), k)


def _check(server: FakeServer, asked: Fused, k: int) -> None:
    scores, parts = fused_by_hand(server), by_hand(server)
    found = [hit.score for hit in asked.ranking.hits]
    if asked.certificate.exact:
        wanted = sorted(scores.values(), reverse=True)[:k]
        lost = [score for score in wanted[len(found) :] if score > 1e-6]
        assert found == pytest.approx(wanted[: len(found)], abs=1e-5)
        assert not lost
        for hit in asked.ranking.hits:
            assert hit.score == pytest.approx(scores[hit.chunk.id], abs=1e-5)
            assert {way.route: way.score for way in hit.provenance} == pytest.approx(parts[hit.chunk.id], abs=1e-4)
    assert asked.best == max((one.get("lexical", 0.0) for one in parts.values()), default=0.0)


def many(n: int = 40) -> FakeServer:
    """Return a server where the nearest are not what words and terms find."""
    near = {f"n{at:02}": source(at, "voltage", [], [0.01 * at], LAYOUT) for at in range(n)}
    far = {f"t{at:02}": source(at, "ram flash", ["esp32", "lora"], [0.5], LAYOUT) for at in range(3)}
    server = FakeServer.holding("c-laws", {**near, **far})
    server.indices["c-laws-documents-1"].docs["d1"] = {"document": "d1", "words": "voltage of ram"}
    return server


def test_each_question_costs_few_requests_and_its_shares_fewer() -> None:
    server, kept = many(), QueryOptions(counts=CountCache(seconds=60.0))
    whole = fused(server, REQUEST, kept=kept, neighbours=10, rows=15)
    assert whole.certificate.exact
    assert [hit.chunk.id for hit in whole.ranking.hits] == ["t01", "t00", "t02"]  # the document of t01 says ram
    # languages, of documents, too; words and terms, words of documents; these; repetitions, the best BM25; formula,
    # words; vectors
    assert len(server.calls) == 10
    before = len(server.calls)
    of_one = fused(server, replace(REQUEST, documents=("d1",)), kept=kept, neighbours=10, rows=15)
    assert {hit.chunk.document_id for hit in of_one.ranking.hits} == {"d1"}
    assert len(server.calls) - before <= 4  # the best BM25; formula and words; vectors


def test_the_best_documents_of_a_question_are_asked_to_the_end_of_a_tie_and_once() -> None:
    server, options = many(), QueryOptions(counts=CountCache(seconds=60.0))
    worth = {"ram": 0.3, "ram flash": 0.8}
    words = [*["ram"] * 90, *["voltage"] * 9, *["ram flash"] * 49]
    for at, said in enumerate(words):
        server.indices["c-laws-documents-1"].docs[f"x{at}"] = {"document": f"x{at}", "words": said}
    found = dict(server.run(best_documents(QUERY, LAYOUT, options)))
    assert found == {"d1": 0.3} | {f"x{at}": worth[said] for at, said in enumerate(words) if said in worth}
    assert [body["size"] for body in server.bodies if "_source" in body] == [60, 240]
    before = len(server.calls)
    assert dict(server.run(best_documents(QUERY, LAYOUT, options))) == found
    assert len(server.calls) == before


def test_without_further_rounds_the_certificate_says_what_is_open() -> None:
    told = fused(many(), REQUEST, neighbours=10, rows=10, exact=False).certificate
    assert (told.exact, told.gap < 0, told.neighbours, told.rows) == (False, True, 10, 10)


@pytest.mark.parametrize("route", ["dense", "lexical", "keyword"])
def test_filters_are_part_of_every_route(route: str) -> None:
    server = many()
    asked = Search(route=route, query=QUERY, k=9, vector=VECTOR, documents=("d1",), among=("n01", "n02", "t01"))
    ranking = server.run(search(asked, LAYOUT, how()))
    assert [hit.chunk.id for hit in ranking.hits] == (["n01", "t01"] if route == "dense" else ["t01"])
    assert all(hit.provenance[0].rank is None for hit in ranking.hits)
    with pytest.raises(FilterError):
        server.run(search(replace(asked, where={"page": {"$near": 3}}), LAYOUT, how()))


@pytest.mark.parametrize("asked", [{"k": 0}, {"query": ""}, {"query": "nowhere"}, {"documents": ()}, {"among": ()}])
def test_what_finds_nothing_is_an_empty_ranking(asked: Mapping[str, Any]) -> None:
    for route in ("lexical", "keyword"):
        request = replace(Search(route=route, query=QUERY, k=3), **asked)
        assert many().run(search(request, LAYOUT, how())).hits == ()
    unknown = Search(route="dense", query=QUERY, k=3, vector=VECTOR, view="table")
    assert many().run(search(unknown, LAYOUT, how())).hits == ()
    zero = Search(route="dense", query=QUERY, k=3, vector=np.zeros(2))
    assert many().run(search(zero, LAYOUT, how())).hits == ()


@pytest.mark.parametrize("wrong", [{"route": "magic"}, {"k": -1}, {"k": MOST + 1}, {"k": True}, {"query": 7}])
def test_a_request_out_of_range_is_named(wrong: Mapping[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        many().run(search(replace(Search(route="lexical", query=QUERY, k=3), **wrong), LAYOUT, how()))


@pytest.mark.parametrize("vector", [None, [1.0], [[1.0, 2.0]], [np.nan, 1.0], ["a", "b"]])
def test_a_vector_of_another_shape_is_named(vector: Any) -> None:
    with pytest.raises(ParameterError, match="vector"):
        many().run(search(Search(route="dense", query=QUERY, k=3, vector=vector), LAYOUT, how()))
    with pytest.raises(ParameterError, match="vector"):
        fused(many(), replace(REQUEST, vector=vector))


def test_what_the_formula_cannot_hold_is_left_to_the_routes() -> None:
    others = replace(REQUEST, weights=(*WEIGHTS, ("passages", 0.1)))
    assert many().run(search_fused(others, LAYOUT, how())) is None
    terms = [f"t{n}" for n in range(40)]
    server = FakeServer.holding("c-laws", {"c": source(0, "ram", terms, [0.0], LAYOUT)})
    assert server.run(search_fused(replace(REQUEST, query=" ".join(terms)), LAYOUT, how())) is None
    assert fused(many(), replace(REQUEST, k=0)).ranking.hits == ()


def test_more_documents_and_chunks_than_one_clause_takes_are_asked_in_several() -> None:
    ids = tuple(map(str, range(70_000)))
    request = Search(route="lexical", query=QUERY, k=3, documents=ids, among=ids)
    documents, among = filters_of(request)
    parts = [clause["terms"]["document"] for clause in documents["bool"]["should"]]
    assert list(map(len, parts)) == [65_536, 4_464]
    assert [one for part in parts for one in part] == list(ids)
    parts = [clause["ids"]["values"] for clause in among["bool"]["should"]]
    assert list(map(len, parts)) == [10_000] * 7
    assert [one for part in parts for one in part] == list(ids)
    assert documents["bool"]["minimum_should_match"] == among["bool"]["minimum_should_match"] == 1
    few = replace(request, documents=("d",), among=("a", "b"))
    assert filters_of(few) == ({"terms": {"document": ["d"]}}, {"ids": {"values": ["a", "b"]}})


def test_a_shard_that_fails_is_an_error_in_every_search() -> None:
    server = many()
    for route in ("dense", "lexical", "keyword"):
        server.run(search(Search(route=route, query=QUERY, k=3, vector=VECTOR), LAYOUT, how()))
    fused(server, REQUEST)
    searches = [call for call in server.calls if call.path.endswith("_search")]
    assert len(searches) > 4
    assert all(call.params["allow_partial_search_results"] is False for call in searches)


def test_a_large_group_of_equal_chunks_is_fetched_to_its_end() -> None:
    server = FakeServer.holding("c-laws", {f"c{at:03}": source(at, "ram", [], [0.0], LAYOUT) for at in range(90)})
    ranking = server.run(search(Search(route="lexical", query=QUERY, k=5), LAYOUT, how()))
    assert [hit.chunk.id for hit in ranking.hits] == ["c000", "c001", "c002", "c003", "c004"]
    assert [body["size"] for body in server.bodies if "sort" in body] == [15, 60, 240]


def test_a_server_that_refuses_is_an_error() -> None:
    class Refusing(FakeServer):
        def search(self, target: str, body: Any) -> Any:
            raise ServerError("fake", "unknown query [knn]", status=400)

    refusing = Refusing.holding("c-laws", {})
    with pytest.raises(ServerError, match="k-NN plugin"):
        refusing.run(search(Search(route="dense", query=QUERY, k=3, vector=VECTOR), LAYOUT, how()))


def test_where_no_neighbour_is_among_the_rows_the_farthest_is_asked_for() -> None:
    opposite = {f"v{at}": source(at, "", [], [3.1 - 0.01 * at], LAYOUT) for at in range(4)}
    carriers = {f"t{at}": source(at, "", ["esp32"] * (2 if at == 0 else 1), [], LAYOUT) for at in range(5)}
    server = FakeServer.holding("c-laws", {**opposite, **carriers})
    found = fused(server, replace(REQUEST, k=1), neighbours=1, rows=1)
    assert [hit.chunk.id for hit in found.ranking.hits] == ["t0"]
    assert found.certificate.exact


SCORING = FormulaWeights(dense=0.65, lexical=0.35, keyword=0.3, best=8.0)


PARTS = st.builds(
    ScoreParts,
    cosine=st.one_of(st.none(), st.floats(-1.0, 1.0)),
    bm25=st.sampled_from([0.0, 0.0, 1.0, 4.0, 8.0]),
    count=st.sampled_from([0, 0, 0, 1, 3]),
    is_compared=st.just(True),
)


@given(st.lists(PARTS.filter(lambda parts: bool(parts.raw())), min_size=1, max_size=8))
def test_scores_are_those_of_the_embedded_library(parts: list[ScoreParts]) -> None:
    routes: dict[str, list[Hit]] = {}
    for at, one in enumerate(parts):
        chunk = Chunk(id=f"c{at}", document_id="d", position=at, start=0, end=1, text="x")
        for route, raw in one.raw().items():
            routes.setdefault(route, []).append(Hit(chunk, raw))
    rankings = {route: Ranking(tuple(hits), Scale.SIMILARITY) for route, hits in routes.items()}
    best = max((hit.score for hit in routes.get("lexical", ())), default=0.0)
    expected = {hit.chunk.id: hit.score for hit in weighted_sum(rankings, ScoreFusion.hiqa().parts()).hits}
    scoring = FormulaWeights(dense=0.65, lexical=1 - 0.65, keyword=0.3, best=best)
    assert {f"c{at}": scoring.score(one) for at, one in enumerate(parts)} == expected


def test_what_may_still_come_in_is_named_with_by_how_much() -> None:
    seen = SeenChunks(
        parts={
            "near": ScoreParts(cosine=0.6, is_compared=True),  # 0.52
            "said": ScoreParts(count=1),  # 0.2079, and at most 0.455 more
            "also": ScoreParts(count=3),  # 0.4159, and at most 0.455 more
            "tail": ScoreParts(cosine=0.4, is_compared=True),
        },
        farthest=0.65 * 0.7,
        last=0.05,
    )
    top = top_chunks(seen, SCORING, 1)
    assert top.best == (("near", pytest.approx(0.52)),)
    assert top.lacking == ("also", "said")
    assert top.unseen == pytest.approx(0.05 + 0.455, abs=1e-5)
    assert top.gap == pytest.approx(0.52 - (0.3 * log1p(3) + 0.455))
    assert seen.with_parts({"near": ScoreParts(count=1)}).parts["near"].cosine == 0.6  # what was compared stays
    compared = seen.with_parts(
        {"also": ScoreParts(cosine=-1.0, count=3, is_compared=True), "said": ScoreParts(count=1, is_compared=True)}
    )
    assert top_chunks(compared, SCORING, 1).gap == pytest.approx(0.52 - 0.505, abs=1e-5)
    assert top_chunks(replace(compared, last=0.4), SCORING, 1).gap < 0
    assert top_chunks(replace(compared, last=0.4, by_words=0.01), SCORING, 1).is_exact


def test_equal_scores_go_by_id_and_may_lie_on_both_sides_of_the_cut() -> None:
    parts = {one: ScoreParts(cosine=0.5, is_compared=True) for one in ("b", "c", "a")}
    top = top_chunks(SeenChunks(parts=parts, farthest=0.0, last=-inf), SCORING, 2)
    assert [one for one, _ in top.best] == ["a", "b"]
    assert (top.is_exact, top.gap) == (True, 0.0)

"""The formula as one request: the bodies by their letters, and the ladder of a logarithm by its law."""

from __future__ import annotations

from dataclasses import replace
from math import log, log1p
from typing import Any

import pytest
from fake_server import FakeServer
from hypothesis import given
from hypothesis import strategies as st

from catena.model import ParameterError, ServerError
from catena_server import ELASTICSEARCH, Formula, IndexLayout, Nearest, formula_body
from catena_server.index_layout import kept_as
from catena_server.queries import (
    OPENSEARCH,
    count_of,
    count_query,
    dialect_of,
    explained,
    ladder,
    words_body,
    words_query,
)

LAYOUT = IndexLayout(name="c-laws", dim=2, embedder="laws")
SEVERAL = replace(LAYOUT, several=("", "headed"))
FILTER = {"term": {"document": "d"}}
NEAREST = Nearest(
    field="vectors.default", vector=[0.6, 0.8], k=50, candidates=100, oversample=3.0, filters=[FILTER], boost=0.65,
    name="dense",
)  # fmt: skip
FORMULA = Formula(
    nearest=NEAREST, words=[(("flash",), 1), (("ram",), 2)], values=["esp32", "esp32\x1f2"], lexical=0.35,
    keyword=0.3, best=7.0, filters=[FILTER],
)  # fmt: skip


def rung(weight: float, least: int) -> dict[str, Any]:
    terms = [{"term": {"terms": "esp32"}}, {"term": {"terms": "esp32\x1f2"}}]
    held = {"bool": {"should": terms, "minimum_should_match": least}}
    return {"constant_score": {"boost": weight, "filter": held}}


def test_the_whole_formula_is_one_body_for_elasticsearch() -> None:
    words = [{"term": {"words.of_headed": word}} for word in ({"value": "flash"}, {"value": "ram", "boost": 2.0})]
    rungs = [rung(0.3 * log(2), 1), rung(0.3 * log(1.5), 2)]
    assert formula_body(FORMULA, LAYOUT, ELASTICSEARCH, rows=300) == {
        "knn": {
            "field": "vectors.default", "query_vector": [0.6, 0.8], "k": 50, "num_candidates": 100,
            "rescore_vector": {"oversample": 3.0}, "filter": [FILTER], "boost": 0.65, "_name": "dense",
        },
        "query": {"bool": {
            "filter": [FILTER], "minimum_should_match": 1,
            "should": [
                {"bool": {"_name": "lexical", "boost": 0.35 / 7.0, "should": words}},
                {"bool": {"_name": "keyword", "should": rungs}},
            ],
        }},
        "size": 300, "track_total_hits": False, "_source": False, "sort": [{"_score": "desc"}, {"id": "asc"}],
    }  # fmt: skip


def test_opensearch_takes_the_neighbours_as_a_clause_of_the_query() -> None:
    body = formula_body(FORMULA, LAYOUT, OPENSEARCH, rows=300) or {}
    assert "knn" not in body
    assert body["query"]["bool"]["filter"] == [FILTER]
    asked = {"vector": [0.6, 0.8], "k": 50, "filter": {"bool": {"filter": [FILTER]}}, "boost": 0.65, "_name": "dense"}
    assert body["query"]["bool"]["should"][-1] == {"knn": {"vectors.default": asked}}


def test_of_nested_views_and_vectors_the_best_counts() -> None:
    words = {"bool": {"should": [{"term": {"several_of_headed.words": {"value": "ram"}}}]}}
    at = {"path": "several_of_headed", "score_mode": "max", "ignore_unmapped": True}
    assert words_query([(("ram",), 1)], SEVERAL) == {"nested": {**at, "query": words}}
    nested = replace(NEAREST, field="several_default.vector", nested="several_default", filters=())
    knn = {"knn": {"several_default.vector": {"vector": [0.6, 0.8], "k": 50}}}
    asked = {"path": "several_default", "score_mode": "max", "query": knn, "boost": 0.65, "_name": "dense"}
    assert OPENSEARCH.body(nearest=nested)["query"]["bool"]["should"] == [{"nested": asked}]
    assert ELASTICSEARCH.body(nearest=nested)["knn"]["field"] == "several_default.vector"


def test_of_the_forms_of_a_word_the_best_counts_and_documents_add_to_what_words_find() -> None:
    forms = [{"term": {"words.of_headed": {"value": form}}} for form in ("cas", "case")]
    words = {"bool": {"should": [{"dis_max": {"queries": forms, "boost": 2.0}}]}}
    assert words_query([(("cas", "case"), 2)], LAYOUT) == words
    added = [
        {"constant_score": {"boost": score, "filter": {"terms": {"document": ids}}}}
        for score, ids in ((3.5, ["a", "c"]), (1.0, ["b"]))
    ]
    documents = (("a", 3.5), ("b", 1.0), ("c", 3.5))
    both = words_query([(("cas", "case"), 2)], LAYOUT, documents=documents)
    assert both == {"bool": {"must": [words], "should": added}}
    body = formula_body(replace(FORMULA, documents=documents), LAYOUT, ELASTICSEARCH, rows=9) or {}
    lexical = body["query"]["bool"]["should"][0]["bool"]
    assert (lexical["_name"], lexical["boost"], lexical["should"]) == ("lexical", 0.35 / 7.0, added)


@pytest.mark.parametrize("dialect", [ELASTICSEARCH, OPENSEARCH], ids=lambda dialect: dialect.flavour)
def test_a_part_without_weight_or_question_is_not_asked(dialect: object) -> None:
    one = replace(FORMULA, nearest=None, lexical=0.0)
    body = formula_body(one, LAYOUT, dialect_of(dialect.flavour), rows=9)  # type: ignore[attr-defined]
    assert body is not None
    assert [clause["bool"]["_name"] for clause in body["query"]["bool"]["should"]] == ["keyword"]
    nothing = replace(FORMULA, nearest=None, words=(), values=())
    assert formula_body(nothing, LAYOUT, ELASTICSEARCH, rows=9) is None
    assert words_body(nothing, LAYOUT, ELASTICSEARCH, rows=9, least=0.1) is None


def test_words_and_terms_alone_are_asked_from_a_score_on() -> None:
    body = words_body(FORMULA, LAYOUT, ELASTICSEARCH, rows=9, least=0.25)
    assert body is not None
    assert "knn" not in body
    assert (body["min_score"], body["size"]) == (0.25, 9)
    assert body["query"] == formula_body(FORMULA, LAYOUT, ELASTICSEARCH, rows=9)["query"]  # type: ignore[index]


@given(st.integers(1, 9), st.floats(0.01, 10.0), st.data())
def test_the_ladder_is_the_logarithm_of_a_count(most: int, weight: float, data: st.DataObject) -> None:
    values = [f"t{n}" for n in range(most)]
    held = data.draw(st.lists(st.sampled_from(values), unique=True))
    server = FakeServer.holding("c", {"c": {"terms": held}})
    for query, expected in ((ladder(values, weight), weight * log1p(len(held))), (count_query(values), len(held))):
        rows = server.search("c-chunks", {"query": query, "size": 1})["hits"]["hits"]
        assert [row["_score"] for row in rows] == pytest.approx([expected] if held else [], rel=1e-6)
    assert count_of(weight * log1p(len(held)), weight) == len(held)


def test_a_server_without_vectors_is_named_as_such() -> None:
    error = explained(ServerError("os", "unknown query [knn]", status=400, kind="parsing_exception"))
    assert "k-NN plugin" in str(error)
    assert (error.status, error.kind) == (400, "parsing_exception")
    other = ServerError("os", "shard failed", status=503)
    assert explained(other) is other


def test_a_layout_says_how_a_server_really_keeps_vectors() -> None:
    assert kept_as(LAYOUT, "elasticsearch") is LAYOUT
    assert kept_as(replace(LAYOUT, vector_index="int8_hnsw"), "opensearch").vector_index == "hnsw"
    for refused in ("bbq_hnsw", "flat"):
        layout = replace(LAYOUT, vector_index=refused)
        assert kept_as(layout, "elasticsearch") is layout
        with pytest.raises(ParameterError, match="OpenSearch"):
            kept_as(layout, "opensearch")

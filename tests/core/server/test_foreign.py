"""An index that others have filled: what its mapping says, what it is asked, and what its hits become."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.effects import Embed, Handler, Search, SearchFused, Services, Store, run
from catena.model import FilterError, LibraryError, ModelMismatchError, ParameterError, Scale, ScaleError
from catena.retrieval import RankFusion, retrieve
from catena_server import Call, ForeignIndex, ForeignStore
from catena_server.foreign_fields import (
    FilterFields,
    candidate_terms,
    chunk_of_hit,
    cosine_of,
    foreign_filter,
    read_mapping,
)

STRING = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 12}}}


def with_vectors(more: Mapping[str, Any] | None = None, **said: Any) -> dict[str, Any]:
    """Return the mapping of an index of texts and vectors."""
    vector = {"type": "dense_vector", "dims": 2, "index": True, "similarity": "cosine", **said}
    return {"articles-1": {"mappings": {"properties": {"text": STRING, "vector": vector, **(more or {})}}}}


METADATA: dict[str, Any] = {
    "source": STRING, "name": {"type": "keyword"}, "page": {"type": "long"}, "ok": {"type": "boolean"},
    "when": {"type": "date"}, "prose": {"type": "text"}, "lower": {"type": "keyword", "normalizer": "lowercase"},
    "stored": {"type": "keyword", "index": False, "doc_values": False}, "place": {"type": "geo_point"},
    "raw": {"type": "object", "enabled": False}, "flat": {"type": "flattened"},
    "rows": {"type": "nested", "properties": {"key": {"type": "keyword"}}},
}  # fmt: skip
MAPPING = with_vectors(
    {"codes": {"type": "keyword"}, "metadata": {"properties": METADATA}}, index_options={"type": "int8_hnsw"}
)
INDEX = ForeignIndex(vector_field="vector", critical_field="codes")
HITS = [
    {"_id": "b", "_score": 2.0, "_source": {"text": "The pump.", "metadata": {"source": "p.md", "page": 3}}},
    {"_id": "a", "_score": 2.0, "_source": {"text": "A pump.", "metadata": {"deep": {"er": 1}, "list": [1]}}},
    {"_id": "c", "_score": 0.5, "_source": {"text": "A wire."}},
]


class Server:
    """Answers the mapping and each search by canned hits, and remembers what it was asked."""

    identity, flavour = "elasticsearch at test", "elasticsearch"

    def __init__(self, mapping: Mapping[str, Any] = MAPPING, hits: Any = HITS, named: Any = None) -> None:
        self.mapping, self.hits, self.named = mapping, hits, named
        self.asked: list[Any] = []

    def perform(self, call: Call) -> Any:
        self.asked.append(call)
        if call.path.endswith("/_mapping"):
            return self.mapping
        body = call.body or {}
        if call.params.get("include_named_queries_score"):
            return {"hits": {"hits": self.named}}
        if "aggs" in body:
            known = [value for value in body["aggs"]["known"]["terms"]["include"] if value in ("hx200", "HX 300")]
            return {"aggregations": {"known": {"buckets": [{"key": value} for value in known]}}}
        return {"hits": {"hits": self.hits[: body["size"]]}}


class AsyncServer(Server):
    """The same, awaited alone."""

    perform = None  # type: ignore[assignment]

    async def aperform(self, call: Call) -> Any:
        return Server.perform(self, call)


def store(server: Any = None, fields: ForeignIndex = INDEX) -> ForeignStore:
    return ForeignStore(Server() if server is None else server, "articles", fields)


def at(prefix: str = "metadata.", document: str | None = "metadata.source") -> FilterFields:
    return FilterFields(fields=read_mapping("articles", MAPPING), prefix=prefix, document=document)


async def test_the_words_route_asks_the_text_field_and_gives_chunks_with_their_way() -> None:
    server = Server()
    found = store(server).search(Search(route="lexical", query="pump", k=2, where={"page": {"$gte": 3}}))
    assert [(hit.chunk.id, hit.score, hit.provenance[0].rank) for hit in found.hits] == [("a", 2.0, 1), ("b", 2.0, 2)]
    assert found.scale is Scale.SIMILARITY
    assert [call.path for call in server.asked] == ["/articles/_mapping", "/articles/_search"]
    assert server.asked[1].params == {"search_type": "dfs_query_then_fetch"}
    assert server.asked[1].body == {
        "size": 2, "track_total_hits": False, "_source": {"excludes": ["vector"]},
        "query": {"bool": {
            "must": [{"match": {"text": {"query": "pump"}}}], "filter": [{"range": {"metadata.page": {"gte": 3}}}],
        }},
    }  # fmt: skip
    awaited = store(AsyncServer())
    assert await awaited.asearch(Search(route="lexical", query="pump", k=2)) == found
    assert isinstance(awaited, Store)


def test_a_hit_is_a_chunk_that_holds_its_text_whole() -> None:
    one, other, bare = (chunk_of_hit(hit, INDEX, "metadata.source", "articles") for hit in HITS)
    assert (one.id, one.document_id, one.start, one.end, one.text) == ("b", "p.md", 0, 9, "The pump.")
    assert dict(one.metadata) == {"source": "p.md", "page": 3}
    assert dict(other.metadata) == {"deep.er": 1}
    assert (other.document_id, bare.document_id, dict(bare.metadata)) == ("a", "c", {})
    top = ForeignIndex(text_field="body.main", metadata_field=None, vector_field="vec")
    hit = {"_id": "1", "_source": {"body.main": "Text", "vec": [1.0], "author": "me", "position": 4, "kind": "table"}}
    chunk = chunk_of_hit(hit, top, None, "articles")
    assert (chunk.text, chunk.position, chunk.kind) == ("Text", 4, "table")
    assert dict(chunk.metadata)["author"] == "me"
    with pytest.raises(LibraryError, match="without _source"):
        chunk_of_hit({"_id": "1"}, INDEX, None, "articles")


def test_the_vector_route_gives_cosines_and_compares_exactly_what_it_found_among_rounded_vectors() -> None:
    server = Server(hits=[{**HITS[0], "_score": 0.75}])
    found = store(server).search(Search(route="dense", query="x", k=3, vector=np.array([3.0, 4.0]), among=("b", "x")))
    assert [(hit.chunk.id, hit.score) for hit in found.hits] == [("b", 0.5)]
    asked = server.asked[1]
    assert asked.params == {}  # a search of neighbours takes no search_type
    assert asked.body["knn"] == {
        "field": "vector", "query_vector": [pytest.approx(0.6), pytest.approx(0.8)], "k": 3, "num_candidates": 100,
        "rescore_vector": {"oversample": 2.0}, "filter": {"ids": {"values": ["b", "x"]}},
    }  # fmt: skip
    assert store().search(Search(route="dense", query="x", k=3, vector=[0.0, 0.0])).hits == ()


vectors = st.lists(st.floats(-3, 3), min_size=3, max_size=3).filter(lambda row: math.hypot(*row) > 0.1)


@given(vectors, vectors, st.sampled_from(["cosine", "dot_product", "l2_norm", "max_inner_product"]))
def test_the_cosine_is_read_from_the_score_of_each_similarity(one: list[float], other: list[float], how: str) -> None:
    a, b = np.array(one) / math.hypot(*one), np.array(other) / math.hypot(*other)
    dot, distance = float(a @ b), float(np.sum((a - b) ** 2))
    score = {
        "cosine": (1 + dot) / 2,
        "dot_product": (1 + dot) / 2,
        "l2_norm": 1 / (1 + distance),
        "max_inner_product": dot + 1 if dot >= 0 else 1 / (1 - dot),
    }[how]
    assert cosine_of(score, how, unit_vectors=True) == pytest.approx(dot, abs=1e-6)
    assert (cosine_of(score, how) is None) == (how in ("l2_norm", "max_inner_product"))


def test_vectors_that_do_not_tell_their_cosine_count_by_rank_or_are_refused() -> None:
    request = Search(route="dense", query="x", k=3, vector=[1.0, 0.0])
    inner = store(Server(with_vectors(similarity="max_inner_product")))
    found = inner.search(request)
    assert found.scale is Scale.RANK
    assert [hit.provenance[0].score for hit in found.hits] == [2.0, 2.0, 0.5]
    assert Server(with_vectors()).mapping  # not quantised: nothing is compared a second time
    services = Services(store=inner, handlers={Embed: Handler(identity="e", call=lambda request: [[1.0, 0.0]])})
    fused = run(retrieve("pump", routes=("dense", "lexical"), fusion=RankFusion(), k=3), services)
    assert {hit.chunk.id for hit in fused.hits} == {"a", "b", "c"}
    with pytest.raises(ScaleError, match=r"ScoreFusion of route 'dense' \(RankFusion takes any\)"):
        run(retrieve("pump", routes=("dense", "lexical"), k=3), services)
    with pytest.raises(LibraryError, match="unit_vectors=True"):
        store(Server(with_vectors(similarity="l2_norm"))).search(request)
    known = store(Server(with_vectors(similarity="l2_norm")), ForeignIndex(vector_field="vector", unit_vectors=True))
    assert known.search(request).scale is Scale.SIMILARITY


def test_the_keyword_route_counts_the_terms_that_the_question_says() -> None:
    server = Server()
    found = store(server).search(Search(route="keyword", query="Has the HX-200 or the HX 300 more?", k=5))
    assert "hx 300" in candidate_terms("Has the HX-200 or the HX 300 more?")
    terms = [clause["constant_score"]["filter"] for clause in server.asked[2].body["query"]["bool"]["should"]]
    assert terms == [{"term": {"codes": "HX 300"}}]
    assert found.hits[0].score == 2.0
    assert store().search(Search(route="keyword", query="nothing known", k=5)).hits == ()


@pytest.mark.parametrize(
    ("where", "clause"),
    [
        ({"name": "x"}, {"term": {"metadata.name": "x"}}),
        ({"source": "a.md"}, {"term": {"metadata.source.keyword": "a.md"}}),
        ({"source": {"$in": ["b", "a", 3]}}, {"terms": {"metadata.source.keyword": ["a", "b"]}}),
        ({"page": {"$ne": 3}}, {"bool": {"must_not": [{"term": {"metadata.page": 3}}]}}),
        ({"page": "3"}, {"match_none": {}}),
        ({"ok": 1}, {"match_none": {}}),
        ({"ok": True, "page": {"$lt": 9}}, {"bool": {"filter": [
            {"term": {"metadata.ok": True}}, {"range": {"metadata.page": {"lt": 9}}}]}}),
        ({"when": {"$gte": "2026-01-01"}}, {"range": {"metadata.when": {"gte": "2026-01-01"}}}),
        ({"prose": {"$exists": True}}, {"exists": {"field": "metadata.prose"}}),
        ({"absent": {"$exists": False}}, {"match_all": {}}),
        ({"absent": 1}, {"match_none": {}}),
        ({"kind": "text"}, {"match_all": {}}),
        ({"chunk_id": "7"}, {"ids": {"values": ["7"]}}),
        ({"$or": [{"name": "x"}, {"$not": {"name": "y"}}]}, {"bool": {"minimum_should_match": 1, "should": [
            {"term": {"metadata.name": "x"}}, {"bool": {"must_not": [{"term": {"metadata.name": "y"}}]}}]}}),
    ],
)  # fmt: skip
def test_filters_compare_with_what_the_mapping_holds(where: dict[str, Any], clause: dict[str, Any]) -> None:
    assert foreign_filter(where, at()) == clause


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ({"source": "longer than twelve"}, "holds strings of up to 12 characters"),
        ({"source": {"$gt": "a"}}, "lacks strings of more than 12 characters"),
        ({"prose": "x"}, "words without a keyword beside them"),
        ({"lower": "x"}, "normalizer"),
        ({"stored": "x"}, "not indexed"),
        ({"place": "x"}, "its type in the index is geo_point"),
        ({"raw.key": 1}, "without indexing them"),
        ({"flat.key": "x"}, "inside a field of the type flattened"),
        ({"rows.key": "x"}, "inside a field of the type nested"),
        ({"source.keyword": {"$ne": "x"}}, "inside a field of the type text"),
        ({"name": {"$contains": "x"}}, "cannot be obeyed"),
        ({"path": "x"}, "headings"),
        ({"page": {"$lt": math.inf}}, "finite"),
        ({"document_id": {"$gt": "a"}}, "not ordered"),
        ({"page": {"$near": 1}}, "unknown operator"),
    ],
)
def test_a_filter_that_cannot_be_obeyed_is_refused(where: dict[str, Any], why: str) -> None:
    with pytest.raises(FilterError, match=why):
        store().search(Search(route="lexical", query="pump", k=3, where=where))


def test_a_document_is_the_hits_that_name_it_or_the_hit_itself() -> None:
    clause = foreign_filter({"document_id": ["p.md"][0]}, at())
    named, alone = clause["bool"]["should"]
    assert named == {"term": {"metadata.source.keyword": "p.md"}}
    assert {"ids": {"values": ["p.md"]}} in alone["bool"]["filter"]
    assert foreign_filter({"document_id": "7"}, at(document=None)) == {"ids": {"values": ["7"]}}
    server = Server()
    store(server).search(Search(route="lexical", query="x", k=1, documents=("p.md",)))
    assert server.asked[1].body["query"]["bool"]["filter"] == [clause]


def test_the_mapping_is_read_once_and_again_for_a_field_it_lacks() -> None:
    server = Server()
    index = store(server)
    for where in (None, {"page": 1}, {"new": 1}):
        index.search(Search(route="lexical", query="x", k=1, where=where))
    assert sum(call.path.endswith("_mapping") for call in server.asked) == 2


LEXICAL = Search(route="lexical", query="x", k=1)


@pytest.mark.parametrize(
    ("mapping", "fields", "asked", "error", "what"),
    [
        ({}, INDEX, LEXICAL, LibraryError, "there is no such index"),
        ({**with_vectors(), "j": {}}, INDEX, LEXICAL, LibraryError, r"stands for 2 indices \(articles-1, j\)"),
        (MAPPING, ForeignIndex(text_field="body"), LEXICAL, LibraryError, "no field 'body'; of that kind there are:"),
        (with_vectors(index=False), INDEX, replace(LEXICAL, route="dense", vector=[1.0, 0.0]), LibraryError,
            "field 'vector' is dense_vector, not indexed"),
        (MAPPING, INDEX, replace(LEXICAL, route="dense", vector=[1.0, 0.0, 0.0]), ModelMismatchError,
            "2 numbers, the question's 3"),
        (MAPPING, ForeignIndex(), replace(LEXICAL, route="dense"), ParameterError, "route must be one of lexical"),
        (MAPPING, INDEX, replace(LEXICAL, view="passage"), ParameterError, "view must be None"),
        (MAPPING, INDEX, replace(LEXICAL, k=-1), ParameterError, "k must be"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(
    mapping: Any, fields: ForeignIndex, asked: Search, error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        store(Server(mapping), fields).search(asked)
    with pytest.raises(ParameterError, match="text_field must be the name of a field"):
        ForeignIndex(text_field="")


async def test_the_formula_is_one_request_whose_parts_are_named() -> None:
    parts = [
        {"_id": "b", "_score": 1.0, "matched_queries": {"dense": 0.45, "lexical": 0.2, "keyword": 0.3 * math.log(2)}},
        {"_id": "a", "_score": 0.4, "matched_queries": {"lexical": 0.4}},
    ]

    server = Server(named=parts)
    request = SearchFused(
        query="pump HX 300", k=2, weights=(("dense", 0.6), ("keyword", 0.3), ("lexical", 0.4)),
        vector=np.array([0.0, 2.0]), where={"page": 3},
    )  # fmt: skip
    found = store(server).search_fused(request)
    assert found is not None
    assert found.best == 2.0  # the best hit of the words under the filter
    allowed = {"term": {"metadata.page": 3}}
    (formula,) = (call.body for call in server.asked if call.params.get("include_named_queries_score"))
    assert formula["knn"] == {
        "field": "vector", "query_vector": [0.0, 1.0], "k": 200, "num_candidates": 400,
        "boost": 0.6, "_name": "dense", "rescore_vector": {"oversample": 2.0}, "filter": allowed,
    }  # fmt: skip
    codes = [{"term": {"codes": "HX 300"}}]
    rung = {"boost": 0.3 * math.log(2), "filter": {"bool": {"should": codes, "minimum_should_match": 1}}}
    assert formula["query"]["bool"] == {
        "should": [
            {"match": {"text": {"query": "pump HX 300", "boost": 0.2, "_name": "lexical"}}},
            {"bool": {"should": [{"constant_score": rung}], "_name": "keyword"}},
        ],
        "minimum_should_match": 1,
        "filter": [allowed],
    }
    first, second = found.ranking.hits
    assert first.score == pytest.approx(0.6 * 0.75 + 0.4 * 0.5 + 0.3 * math.log(2))
    assert {way.route: way.score for way in first.provenance} == pytest.approx(
        {"dense": 0.5, "keyword": 1, "lexical": 1}
    )
    assert (second.chunk.id, second.score) == ("a", pytest.approx(0.4))
    assert found.certificate.exact  # fewer rows than asked: no hit was left out
    assert await ForeignStore(server, "articles", INDEX).asearch_fused(request) == found


def test_a_formula_with_parts_of_others_is_left_to_the_routes() -> None:
    for weights in ((("mine", 1.0),), (("passages", 1.0), ("lexical", 1.0))):
        assert store().search_fused(SearchFused(query="x", k=1, weights=weights)) is None
    inner = store(Server(with_vectors(similarity="max_inner_product")))
    assert inner.search_fused(SearchFused(query="x", k=1, weights=(("dense", 1.0),), vector=[1.0, 0.0])) is None

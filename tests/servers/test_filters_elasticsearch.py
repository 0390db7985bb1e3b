"""A real server returns exactly the chunks for which `catena.model.filters` says that a filter holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from elasticsearch import Elasticsearch
from entry_cases import drawn
from filter_cases import fields, filters
from hypothesis import HealthCheck, example, given, settings

from catena.model import FilterError, matches
from catena_server.filters import CONTAINED, DEEPEST, LONGEST, facet_fields, filter_query
from catena_server.index_layout import FACETS

INDEX = "c-filters"
COUNT = 200
MAPPINGS = {
    "dynamic_templates": [
        {group: {"path_match": f"facets.{group}.*", "mapping": {"type": kind}}} for group, kind in FACETS.items()
    ],
    "properties": {"facets": {"properties": {"has": {"type": "keyword"}, "many": {"type": "keyword"}}}},
}
SHAPED: list[dict[str, Any]] = [
    {},
    {"a": "x" * (LONGEST - 2) + "abc"},
    {"a": ["ab", "x" * LONGEST + "ab"]},
    {"a": 2**53 + 1, "b": [2**53, -(10**400)]},
    {"a": "\ud7ff\ud800\ue000", "b": "\U0001f600" * 8_000},
    {"title": "The manual", "path": ("Manual", "Hardware"), "page": 3},
]


@pytest.fixture(scope="module")
def indexed(es_url: str, es_api_key: str) -> Iterator[tuple[Elasticsearch, list[dict[str, Any]]]]:
    """Yield a client, and the fields of the chunks that the server holds."""
    held = SHAPED + drawn(fields, COUNT - len(SHAPED), 7)
    with Elasticsearch(es_url, api_key=es_api_key or None, request_timeout=60) as client:
        client.options(ignore_status=404).indices.delete(index=INDEX)
        client.indices.create(index=INDEX, mappings=MAPPINGS, settings={"number_of_replicas": 0})
        lines: list[dict[str, Any]] = []
        for number, values in enumerate(held):
            lines += [{"index": {"_id": str(number)}}, {"facets": facet_fields(values)}]
        answer = client.bulk(index=INDEX, operations=lines, refresh=True)
        assert not answer["errors"], [item for item in answer["items"] if item["index"]["status"] >= 300][:3]
        yield client, held
        client.indices.delete(index=INDEX)


def _asked(client: Elasticsearch, where: dict[str, Any]) -> set[int]:
    answer = client.search(index=INDEX, query={"bool": {"filter": [filter_query(where)]}}, size=COUNT, source=False)
    return {int(hit["_id"]) for hit in answer["hits"]["hits"]}


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=filters)
@example(where={"a": {"$contains": "ab"}})
@example(where={"a": {"$contains": ""}})
@example(where={"a": {"$gt": ""}})
@example(where={"a": {"$lte": "\ud7ff\ud800"}})
@example(where={"a": {"$gt": 2**53}})
@example(where={"a": {"$lt": float("inf")}})
@example(where={"": {"$exists": True}})
@example(where={"path": "Hardware", "page": {"$gte": 3.0}})
def test_the_server_returns_what_the_filter_means(
    indexed: tuple[Elasticsearch, list[dict[str, Any]]], where: dict[str, Any]
) -> None:
    client, held = indexed
    assert _asked(client, where) == {number for number, values in enumerate(held) if matches(where, values)}


def test_the_largest_filters_that_are_sent_are_taken(indexed: tuple[Elasticsearch, list[dict[str, Any]]]) -> None:
    client, held = indexed
    deep: dict[str, Any] = {"a": 1}
    for number in range(DEEPEST - 1):
        deep = {"$and" if number % 2 else "$or": [deep, {"b": number}]}
    repetitive = {"a": {"$contains": "a" * (CONTAINED // 2) + "b" + "a" * (CONTAINED // 2 - 1)}}
    for where in (deep, repetitive, {"a": {"$gt": "é" * (LONGEST - 64)}}):
        assert _asked(client, where) == {number for number, values in enumerate(held) if matches(where, values)}
    few, many = ({"a": {"$in": list(range(4, 100_000)) + more}} for more in ([], [0, 1, 2, 3]))
    assert _asked(client, many) == _asked(client, few) | _asked(client, {"a": {"$in": [0, 1, 2, 3]}})
    with pytest.raises(FilterError):
        filter_query({"$or": [{"$and": [deep, {"c": 1}]}, {"c": 2}]})

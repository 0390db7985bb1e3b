"""Three layouts of views: what is written of a chunk, and that each is searched under the fields that it has."""

from __future__ import annotations

from typing import Any

import pytest

from catena_bench.server_views import KINDS, WAYS, ChunkViews, Documents, Fields, Nested

CHUNK = ChunkViews(
    id="c1",
    kept={"text": "The pump."},
    words={"headed": "the pump", "keywords": "pump", "summary": "a pump"},
    vectors={"headed": [1.0, 0.0], "keywords": [0.0, 1.0], "summary": [0.6, 0.8]},
)


def test_fields_keep_all_views_in_one_document() -> None:
    assert list(Fields().documents(CHUNK)) == [
        ("c1", {"kept": CHUNK.kept, "words": CHUNK.words, "vectors": CHUNK.vectors})
    ]


def test_nested_views_lie_below_their_kind() -> None:
    ((doc_id, source),) = Nested().documents(CHUNK)
    assert (doc_id, source["keywords"]) == ("c1", [{"words": "pump", "vector": [0.0, 1.0]}])
    assert set(source) == {"kept", *KINDS}


def test_of_a_document_for_each_view_one_holds_what_is_kept() -> None:
    written = dict(Documents().documents(CHUNK))
    assert list(written) == ["c1", "c1-keywords", "c1-summary"]
    assert [doc_id for doc_id, source in written.items() if "kept" in source] == ["c1"]
    assert {source["chunk"] for source in written.values()} == {"c1"}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_searched_is_mapped_and_the_best_view_counts(way: str) -> None:
    laid = WAYS[way]
    mapped = set(fields_of(laid.properties({"type": "dense_vector"})))
    for kinds in (KINDS, KINDS[2:]):
        nearest, matching = laid.nearest([1.0, 0.0], kinds), laid.matching("pump", kinds)
        assert set(asked(nearest, "field")) - {"chunk"} <= mapped
        assert {field for match in asked(matching, "match") for field in match} <= mapped
        several = way != "documents" and len(kinds) > 1
        assert [bool(asked(body, "dis_max")) for body in (nearest, matching)] == [several, several]
        assert len(asked(nearest, "knn")) == (len(kinds) if way != "documents" else 1)
    one = laid.nearest([1.0, 0.0], KINDS[2:])
    assert asked(one, "filter") == ([[{"terms": {"kind": ["summary"]}}]] if way == "documents" else [])


def fields_of(properties: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for name, field in properties.items():
        inner = field.get("properties")
        found += fields_of(inner, f"{prefix}{name}.") if inner else [f"{prefix}{name}"]
    return found


def asked(body: Any, key: str) -> list[Any]:
    """Return the values under a key, anywhere in a body."""
    if isinstance(body, dict):
        return [value for name, value in body.items() if name == key] + [
            each for value in body.values() for each in asked(value, key)
        ]
    return [each for value in body for each in asked(value, key)] if isinstance(body, list) else []

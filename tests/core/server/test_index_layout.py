"""What the indices of a set are made from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catena.model import LibraryError
from catena_server import Flavour, IndexLayout
from catena_server.index_layout import LONGEST_KEYWORD, PARTS, index_body, kinds_body, other_fields

LAYOUT = IndexLayout(name="b-map", dim=8, embedder="e", several=("questions",), shards=3, replicas=1)
VECTOR = {"type": "dense_vector", "dims": 8, "similarity": "cosine", "index_options": {"type": "int8_hnsw"}}
WORDS = {"type": "text", "analyzer": "whitespace", "index_options": "freqs"}


def test_the_chunks_say_what_they_are_and_map_nothing_by_itself_but_facets() -> None:
    body = index_body("chunks", LAYOUT, "elasticsearch")
    assert body["settings"]["index.number_of_shards"] == 3
    assert body["settings"]["index.number_of_replicas"] == 1
    mappings = body["mappings"]
    assert mappings["dynamic"] is False
    assert IndexLayout.from_meta("b-map-chunks", mappings["_meta"]["catena"]) == LAYOUT
    templates = {name: about for template in mappings["dynamic_templates"] for name, about in template.items()}
    assert templates["n"] == {"path_match": "facets.n.*", "mapping": {"type": "double"}}
    assert templates["s"]["mapping"] == {"type": "keyword", "ignore_above": LONGEST_KEYWORD}
    properties = mappings["properties"]
    dynamic = [name for name, field in properties.items() if field.get("dynamic") is True]
    assert dynamic == ["facets"]
    assert properties["terms"]["ignore_above"] * 4 <= 32_766  # bytes; a server refuses a longer keyword
    assert properties["vectors"] == {"properties": {"default": VECTOR}}
    assert properties["metadata"] == {"type": "object", "enabled": False}


def test_a_kind_gets_a_field_or_nested_documents() -> None:
    nested: dict[str, object] = {"type": "nested", "dynamic": False, "properties": {"words": WORDS, "vector": VECTOR}}
    assert kinds_body(["raw.x", "questions"], LAYOUT, "elasticsearch") == {"properties": {
        "several_of_questions": nested,
        "words": {"properties": {"of_raw%2Ex": WORDS}}, "vectors": {"properties": {"of_raw%2Ex": VECTOR}},
    }}  # fmt: skip
    several = IndexLayout(name="b", dim=8, embedder="e", several=("",))
    properties = index_body("chunks", several, "elasticsearch")["mappings"]["properties"]
    assert properties["several_default"] == nested | {"properties": {"vector": VECTOR}}
    knn = {(part, flavour): index_body(part, LAYOUT, flavour)["settings"].get("index.knn")
           for part in PARTS for flavour in ("elasticsearch", "opensearch")}  # fmt: skip
    assert [key for key, value in knn.items() if value] == [("chunks", "opensearch")]


@pytest.mark.parametrize("flavour", ["elasticsearch", "opensearch"])
def test_fields_that_others_have_mapped_otherwise_are_named(flavour: Flavour) -> None:
    layout = IndexLayout(name="b", dim=3, embedder="e", several=("questions",))
    mappings = index_body("chunks", layout, flavour)["mappings"]
    assert other_fields(mappings, layout) == ()
    more = kinds_body(("headed", "questions"), layout, flavour)["properties"]
    own = {name: field for name, field in mappings["properties"].items() if name not in more}
    assert other_fields({"properties": own | more | {"theirs": {"type": "date"}}}, layout) == ()
    changed = own | more | {"terms": {"type": "text"}, "position": {"type": "keyword"}}
    assert other_fields({"properties": changed}, layout) == ("position", "terms")
    assert other_fields({"properties": more}, replace(layout, dim=4)) == ("vectors.of_headed",)
    words = {"words": {"properties": {"of_headed": {"type": "keyword"}}}}
    assert other_fields({"properties": own | words}, layout) == ("words.of_headed",)


@pytest.mark.parametrize("said", [{"later": 1}, {"shards": "three"}, {"name": None}])
def test_a_set_that_says_of_itself_what_cannot_be_read_is_refused(said: dict[str, object]) -> None:
    meta = IndexLayout(name="b", dim=3, embedder="e").to_meta() | said
    with pytest.raises(LibraryError, match=r"cannot be read.*nothing was changed"):
        IndexLayout.from_meta("b-chunks", meta)

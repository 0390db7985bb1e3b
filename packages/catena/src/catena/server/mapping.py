"""What the indices of a set are made from: settings and mappings, as pure functions of the layout.

No field is mapped by what happens to stand in it, but the facets; whatever is not mapped is kept in the source, which
servers hold as it was sent. So nothing that a document says can be refused: a keyword that is longer than a server
takes (32,766 bytes) is not indexed, but kept; facets, of which filters promise to be exact, are cut by `filters`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from catena.model.vectors import DEFAULT
from catena.server.call import Flavour
from catena.server.dialect import vector_mapping
from catena.server.filters import FACETS
from catena.server.layout import META, IndexLayout, Part, field_name

Body = dict[str, Any]

PARTS: Final[tuple[Part, ...]] = ("documents", "ledger", "chunks")  # chunks last: they say what the set is
LONGEST_KEYWORD = 8_191  # UTF-16 units, of at most 4 bytes: a longer one is not indexed instead of refused
MOST_FIELDS = 10_000  # of the chunks: metadata of many keys gives each of them a facet
_KEYWORD: Final[Body] = {"type": "keyword", "ignore_above": LONGEST_KEYWORD}
_WORDS: Final[Body] = {"type": "text", "analyzer": "whitespace", "index_options": "freqs"}
_KEPT: Final[Body] = {"type": "object", "enabled": False}  # in the source only, whatever it is
_INTEGERS = ("position", "section", "start", "end", "first_page", "last_page", "first_line", "last_line")


def index_body(part: Part, layout: IndexLayout, flavour: Flavour) -> Body:
    """Return the body by which one of `PARTS` is made: settings and mappings, no alias. A graph makes its own.

    Words are `text` that the server cuts at white space, with frequencies and no positions, ranked by its default
    BM25 (k1 = 1.2, b = 0.75).
    """
    shards = layout.shards if part == "chunks" else 1
    settings: Body = {"index.number_of_shards": shards, "index.number_of_replicas": layout.replicas}
    if part == "chunks":
        settings["index.mapping.total_fields.limit"] = MOST_FIELDS
        if flavour == "opensearch":
            settings["index.knn"] = True
    return {"settings": settings, "mappings": _MAPPINGS[part](layout, flavour)}


def kinds_body(kinds: Collection[str], layout: IndexLayout, flavour: Flavour) -> Body:
    """Return the body that adds kinds of view to the chunks; one that is there already stays as it is."""
    return {"properties": _kinds(kinds, layout, flavour)}


def other_fields(mappings: Mapping[str, Any], layout: IndexLayout) -> tuple[str, ...]:
    """Return the fields of an index of chunks that are not what `index_body` and `kinds_body` make them, sorted."""
    found = dict(_fields(mappings.get("properties", {})))
    wanted = {path: _kind(field) for path, field in _fields(_chunks(layout, "elasticsearch")["properties"])}
    wanted |= {path: "text" for path in found if path.startswith("words.")}
    wanted |= {path: f"vector of {layout.dim}" for path in found if path.startswith("vectors.")}
    return tuple(sorted(path for path in found.keys() & wanted.keys() if _kind(found[path]) != wanted[path]))


def _fields(properties: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, field in properties.items():
        yield above + name, field
        yield from _fields(field.get("properties", {}), f"{above}{name}.")


def _kind(field: Mapping[str, Any]) -> str:
    """Return a field's type, the same for both flavours of a vector."""
    dims = field.get("dims", field.get("dimension"))
    return str(field.get("type", "object")) if dims is None else f"vector of {dims}"


def _kinds(kinds: Collection[str], layout: IndexLayout, flavour: Flavour) -> Body:
    words: Body = {}
    vectors: Body = {}
    properties: Body = {}
    for kind in sorted(set(kinds)):
        nested, vector = layout.nested(kind), vector_mapping(flavour, layout)
        if nested is not None:
            fields = {"words": dict(_WORDS), "vector": vector} if kind != DEFAULT else {"vector": vector}
            properties[nested] = {"type": "nested", "dynamic": False, "properties": fields}
            continue
        vectors[field_name(kind)] = vector
        if kind != DEFAULT:
            words[field_name(kind)] = dict(_WORDS)
    groups = {"words": words, "vectors": vectors}
    return properties | {name: {"properties": fields} for name, fields in groups.items() if fields}


def _chunks(layout: IndexLayout, flavour: Flavour) -> Body:
    keywords = ("document", "kind", "path", "terms", "terms_unspaced")
    return {
        "dynamic": False,
        "_meta": {META: layout.to_meta()},
        "dynamic_templates": [
            {group: {"path_match": f"facets.{group}.*", "mapping": _facet(kind)}} for group, kind in FACETS.items()
        ],
        "properties": {
            **{name: dict(_KEYWORD) for name in keywords},
            **{name: {"type": "integer"} for name in _INTEGERS},
            "id": {"type": "keyword", "index": False},
            "facets": {
                "dynamic": True,
                "properties": {
                    **{name: dict(_KEYWORD) for name in ("has", "many")},
                    **{group: {"type": "object", "dynamic": True} for group in FACETS},
                },
            },
            **{name: dict(_KEPT) for name in ("metadata", "views", "rows", "said", "embedded")},
            "words": {"properties": {}},
            **_kinds((DEFAULT,), layout, flavour),
        },
    }


def _facet(kind: str) -> Body:
    return dict(_KEYWORD) if kind == "keyword" else {"type": kind}


def _documents(layout: IndexLayout, flavour: Flavour) -> Body:
    keywords = ("record", "document", "title", "source", "fingerprint", "state", "names", "name_patterns")
    return {
        "dynamic": False,
        "properties": {
            **{name: dict(_KEYWORD) for name in keywords},
            **{name: {"type": "integer"} for name in ("chunks", "pieces", "figures", "pages", "piece", "start")},
            "rest": dict(_KEPT),
            "figure": dict(_KEPT),
        },
    }


def _ledger(layout: IndexLayout, flavour: Flavour) -> Body:
    keywords = ("source", "document", "state")
    return {
        "dynamic": False,
        "properties": {**{name: dict(_KEYWORD) for name in keywords}, "key": dict(_KEYWORD), "outcome": dict(_KEPT)},
    }


_MAPPINGS = {"chunks": _chunks, "documents": _documents, "ledger": _ledger}

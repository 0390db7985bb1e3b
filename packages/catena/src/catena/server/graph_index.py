"""The index that holds a graph: what it says of itself, its mapping, and the questions that it answers by search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from catena.model.errors import LibraryError
from catena.server.layout import META

FORMAT = 1  # raise it when documents change: a graph of another format is refused, not misread
PAGE = 1_000  # nodes compared with a question at once
LISTED = 10_000  # nodes whose ids are listed at once; servers give no more


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphAbout:
    """What a graph on a server says of itself.

    Attributes:
        identity: graphs of equal nodes, vectors and options share it, and no others; part of its index's name.
        nodes: how many it has.
        dim: length of its vectors.
        kinds: of edges that it has, sorted.
        made_of: whatever the writer says of what the graph was built from, as the generation of a library; it tells
            without any comparison of nodes whether the graph is behind.
    """

    identity: str
    nodes: int
    dim: int
    kinds: tuple[str, ...]
    made_of: str = ""

    def to_meta(self, name: str) -> dict[str, Any]:
        """Return what the index of a graph says of itself, in a set of this name."""
        return {META: {"format": FORMAT, "part": "graph", "name": name, **asdict(self), "kinds": list(self.kinds)}}

    @classmethod
    def from_index(cls, name: str, index: Mapping[str, Any]) -> GraphAbout:
        """Return what an index says of itself.

        Args:
            name: of the index.
            index: its part in the answer to `GET /name`.

        Raises:
            LibraryError: it is of another format.
        """
        meta = _meta(index)
        if meta.get("format") != FORMAT:
            what = f"its graph is of format {meta.get('format')}, this version reads {FORMAT}; nothing was changed"
            raise LibraryError(name, what, "the version of Catena that made it, or the graph written again")
        fields = {key: value for key, value in meta.items() if key not in ("format", "part", "name")}
        return cls(**{**fields, "kinds": tuple(fields["kinds"])})


def index_of(name: str, about: GraphAbout) -> str:
    """Return the name of the index that holds a graph."""
    return f"{name}-graph-{about.identity}"


def writing_alias(name: str, about: GraphAbout) -> str:
    """Return the alias by which nodes are written, there until the index is whole: none of it comes by itself."""
    return f"{index_of(name, about)}-writing"


def is_graph_of(name: str, index: Mapping[str, Any]) -> bool:
    """Return whether an index, as `GET` answers of it, holds a graph of the set of this name, whole or not."""
    meta = _meta(index)
    return meta.get("part") == "graph" and meta.get("name") == name


def _meta(index: Mapping[str, Any]) -> Mapping[str, Any]:
    meta: Mapping[str, Any] = index.get("mappings", {}).get("_meta", {}).get(META, {})
    return meta


def index_body(name: str, about: GraphAbout, *, shards: int = 1, replicas: int = 0) -> dict[str, Any]:
    """Return the body that makes the index of a graph; what is no field of it is kept in the source and not indexed.

    It refreshes nothing by itself while it is filled: nobody looks into it before it is whole.
    """
    return {
        "settings": {"number_of_shards": shards, "number_of_replicas": replicas, "refresh_interval": "-1"},
        "aliases": {writing_alias(name, about): {}},
        "mappings": {
            "dynamic": False,
            "_meta": about.to_meta(name),
            "properties": {
                "id": {"type": "keyword"},
                "words": {"type": "keyword", "doc_values": False},
                "length": {"type": "integer", "index": False},
            },
        },
    }


def counting(words: Sequence[str]) -> dict[str, Any]:
    """Return the body that asks in how many nodes each word is, of how many nodes, and how long these are in all."""
    by_word = {"words": {"filters": {"filters": [{"term": {"words": word}} for word in words]}}} if words else {}
    return {"size": 0, "track_total_hits": True, "aggs": {**by_word, "length": {"sum": {"field": "length"}}}}


def covering_most(terms: Sequence[Sequence[str]], after: Sequence[Any] | None = None) -> dict[str, Any]:
    """Return the body that asks for nodes that hold all words of a term: those of most terms first, then by id.

    A hit's score is the number of terms that it covers.

    Args:
        terms: the words of each.
        after: `sort` of the last hit before; None for the first page.
    """
    covers = [
        {"constant_score": {"filter": {"bool": {"filter": [{"term": {"words": word}} for word in words]}}}}
        for words in terms
    ]
    return {
        "size": PAGE,
        "track_total_hits": False,
        "_source": ["id", "vector"],
        "query": {"bool": {"should": covers, "minimum_should_match": 1}},
        "sort": [{"_score": "desc"}, {"id": "asc"}],
        **({"search_after": list(after)} if after is not None else {}),
    }


def listing(after: Sequence[Any] | None = None) -> dict[str, Any]:
    """Return the body that asks which nodes are there, by id, a page at a time."""
    return {
        "size": LISTED,
        "_source": False,
        "query": {"match_all": {}},
        "sort": [{"id": "asc"}],
        **({"search_after": list(after)} if after is not None else {}),
    }

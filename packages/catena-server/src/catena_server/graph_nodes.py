"""Write and read the nodes of a graph as documents of an index; write its mapping, its metadata and its searches."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from catena import Chunk
from catena.model import FrozenMetadata, LibraryError, PageBox, ParameterError, digest, plain_metadata
from catena_server.index_layout import META

if TYPE_CHECKING:
    from numpy.typing import NDArray


FORMAT = 1  # raise it when documents change: a graph of another format is refused, not misread
PAGE = 1_000  # nodes compared with a question at once
LISTED = 10_000  # nodes whose ids are listed at once; servers give no more


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphAbout:
    """The metadata of a graph on a server.

    Attributes:
        identity: graphs of equal nodes, vectors and options share it, and no others; part of its index's name.
        nodes: how many it has.
        dim: length of its vectors.
        kinds: of edges that it has, sorted.
        made_of: the writer's name for the content of which the graph was built, as the generation of a library; it
            tells without any comparison of nodes whether the graph is behind.
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


def listing() -> dict[str, Any]:
    """Return the body that asks which nodes are there, by id."""
    return {"_source": False, "query": {"match_all": {}}, "sort": [{"id": "asc"}]}


_FLOATS = "<f4"  # 32-bit floats, little-endian on every machine
_CHUNK = tuple(field.name for field in fields(Chunk) if field.name != "boxes")  # which few have
_RANGES = ("path", "pages", "page_labels", "lines")  # of a chunk: tuples, of which JSON makes lists


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphNode:
    """A chunk with its edges and all else that a walk asks of it, so that one look-up by id brings all.

    Attributes:
        vector: of unit length, or zero, shape (dim,), float32.
        counts: how often each of its words is in the text or the titles, by `catena.text.words.word_keys`.
        titled: those of its words that are in a title.
        length: words of the text and the titles, repetitions included.
        title_length: words of the titles.
        neighbours: ids, ascending, each once.
        weights: of the edges to them, 0 where a kind does not join the two, shape (neighbours, kinds), float32.
        terms: by kind of edge, the terms by which it may be joined to others, in order.
        titles: (title in the form in which texts say it, as printed) by which others may mention it.
        says: titles of others that its text says, in that form.
    """

    chunk: Chunk
    vector: NDArray[np.float32]
    counts: Mapping[str, int]
    titled: frozenset[str]
    length: int
    title_length: int
    neighbours: tuple[str, ...]
    weights: NDArray[np.float32]
    terms: Mapping[str, tuple[str, ...]]
    titles: tuple[tuple[str, str], ...]
    says: tuple[str, ...]

    @property
    def id(self) -> str:
        """Return the id of the chunk."""
        return self.chunk.id


def key_of(chunk_id: str) -> str:
    """Return the `_id` of a chunk's node: of one length for ids of any form."""
    return digest(chunk_id, length=32)


def source_of(node: GraphNode) -> dict[str, Any]:
    """Return the document of a node.

    Only what the server itself has to look at is a field that is indexed: `id`, `words` and `length`. `vector` is
    there for who asks for it alone. All else is one string of JSON in ASCII, so that any text survives and the server
    reads past it in one go. Floats are the bytes of their 32 bits in base64: the very numbers come back, in a third
    of the length of their decimals. Vectors are not indexed: a walk knows by id which nodes it wants, and an index of
    nearest vectors would cost the server more memory than all else, to find what nobody asks for.

    Raises:
        ParameterError: metadata that no store can keep, or an id that is no Unicode text.
    """
    if not _is_unicode(node.chunk.id):
        raise ParameterError("chunk id", node.chunk.id, "Unicode text: without lone surrogates")
    c = replace(node.chunk, metadata=plain_metadata(node.chunk.metadata, f"chunk {node.chunk.id!r}"))
    rest = {
        "chunk": [getattr(c, name) for name in _CHUNK],
        **({"boxes": c.boxes} if c.boxes else {}),
        "counts": node.counts,
        "titled": sorted(node.titled),
        "title_length": node.title_length,
        "neighbours": node.neighbours,
        "weights": _packed(node.weights),
        "terms": node.terms,
        "titles": node.titles,
        "says": node.says,
    }
    line = json.dumps(rest, separators=(",", ":"))
    vector = _packed(node.vector)
    return {"id": c.id, "words": list(node.counts), "length": node.length, "vector": vector, "node": line}


def node_of(source: Mapping[str, Any], kinds: int) -> GraphNode:
    """Return the node of a document.

    Args:
        source: as `source_of` made it.
        kinds: of edge that the graph has.

    Raises:
        LibraryError: it is none, or it is damaged.
    """
    try:
        rest = json.loads(source["node"])
        chunk = dict(zip(_CHUNK, rest["chunk"], strict=True))
        chunk |= {name: None if chunk[name] is None else tuple(chunk[name]) for name in _RANGES}
        chunk["boxes"] = tuple(PageBox(*box) for box in rest.get("boxes", ()))
        return GraphNode(
            chunk=Chunk(**{**chunk, "metadata": FrozenMetadata(chunk["metadata"])}),
            vector=_unpacked(source["vector"]),
            counts=rest["counts"],
            titled=frozenset(rest["titled"]),
            length=source["length"],
            title_length=rest["title_length"],
            neighbours=tuple(rest["neighbours"]),
            weights=_unpacked(rest["weights"]).reshape(len(rest["neighbours"]), kinds),
            terms={kind: tuple(terms) for kind, terms in rest["terms"].items()},
            titles=tuple((title, printed) for title, printed in rest["titles"]),
            says=tuple(rest["says"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(source, error) from None


def vector_of(source: Mapping[str, Any]) -> NDArray[np.float32]:
    """Return the vector of a document, shape (dim,).

    Raises:
        LibraryError: the document is damaged.
    """
    try:
        return _unpacked(source["vector"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(source, error) from None


def _damaged(source: Mapping[str, Any], error: Exception) -> LibraryError:
    what = f"a node of the graph on the server cannot be read ({type(error).__name__}); nothing was changed"
    return LibraryError(str(source.get("id", "graph")), what, "the graph written again, by `upload_graph`")


def _packed(numbers: NDArray[np.float32]) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers, dtype=_FLOATS).tobytes()).decode("ascii")


def _unpacked(text: str) -> NDArray[np.float32]:
    numbers = np.frombuffer(base64.b64decode(text, validate=True), dtype=_FLOATS).astype(np.float32)
    numbers.flags.writeable = False  # shared by all who ask
    return numbers


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

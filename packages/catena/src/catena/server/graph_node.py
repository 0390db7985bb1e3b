"""One node of the chunk-interaction graph as it lies on a server: a document that says all a walk may ask of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.model import Chunk, FrozenMetadata, plain_metadata
from catena.model.errors import LibraryError, ParameterError
from catena.model.ids import digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FLOATS = "<f4"  # 32-bit floats, little-endian on every machine
_CHUNK = tuple(field.name for field in fields(Chunk))
_RANGES = ("path", "pages", "page_labels", "lines")  # of a chunk: tuples, of which JSON makes lists


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphNode:
    """A chunk with its edges, and whatever else a walk asks of it, so that one look-up by id brings all.

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
    """Return the `_id` of a chunk's node: of one length, whatever the ids of a foreign store look like."""
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

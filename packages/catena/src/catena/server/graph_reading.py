"""What a walk asks of a graph on a server, as steps: nodes by id, words by search, all from one index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.effects import Step, ask
from catena.model.errors import LibraryError, ParameterError, ServerError
from catena.model.neighbourhood import Neighbourhood, Nodes, WordCounts
from catena.server.call import Call
from catena.server.graph_answers import (
    asked_kinds,
    best_covering,
    edge_between,
    followed,
    neighbourhood,
    nodes_of,
)
from catena.server.graph_index import PAGE, GraphAbout, counting, covering_most, is_graph_of
from catena.server.graph_node import GraphNode, key_of, node_of, vector_of
from catena.server.graph_shelf import Shelf
from catena.server.layout import quoted
from catena.text.words import word_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.effects import CountEdges, CountWords, DescribeEdges, Expand, FetchById, FetchNodes, FindCovering
    from catena.model import Chunk, Edge

_AT_ONCE = 500  # nodes of one look-up; more are looked up side by side


class ReplacedError(Exception):
    """The index that is read is gone, as another graph took its place: a signal to open it, met by no caller."""


def present(name: str) -> Step[tuple[str, GraphAbout]]:
    """Return the index that holds the graph of a set, and what it says of itself.

    Raises:
        LibraryError: the set has no graph, or one of another format.
    """
    alias = f"{name}-graph"
    (found,) = yield from ask([Call(method="GET", path=f"/{quoted(alias)}", missing_ok=True, purpose="graph")])
    graphs = [index for index, body in (found or {}).items() if is_graph_of(name, body)]
    if not graphs:
        raise LibraryError(alias, "the server has no graph of this name", "`upload_graph`")
    if len(graphs) > 1:
        what = f"its alias leads to {len(graphs)} graphs ({', '.join(sorted(graphs))}); nothing was changed"
        raise LibraryError(alias, what, "leave the alias on one of them")
    return graphs[0], GraphAbout.from_index(graphs[0], found[graphs[0]])


def expand(shelf: Shelf, request: Expand) -> Step[Neighbourhood]:
    """Return the neighbours of nodes, and the edges by which they are: two look-ups at most."""
    known = shelf.about.kinds
    kinds = asked_kinds(request.kinds, known)
    sources = [node for node in (yield from _held(shelf, dict.fromkeys(request.chunk_ids))) if node is not None]
    edges = [followed(node, kinds, known) for node in sources]
    ids = sorted({chunk_id for leads, _ in edges for chunk_id in leads})
    nodes = yield from _whole(shelf, ids)
    found = nodes_of(nodes, request.words, shelf.about.dim)
    return neighbourhood([node.id for node in sources], edges, found, kinds)


def nodes_by_id(shelf: Shelf, request: FetchNodes) -> Step[Nodes]:
    """Return nodes by id, in the order asked for, without those that the graph does not have."""
    held = yield from _held(shelf, request.chunk_ids)
    return nodes_of([node for node in held if node is not None], request.words, shelf.about.dim)


def count_words(shelf: Shelf, request: CountWords) -> Step[WordCounts]:
    """Return in how many nodes each word is."""
    answer = yield from _searched(shelf, counting(request.words))
    nodes, found = answer["hits"]["total"]["value"], answer["aggregations"]
    holding = [bucket["doc_count"] for bucket in found["words"]["buckets"]] if request.words else []
    mean_length = found["length"]["value"] / nodes if nodes else 0.0
    return WordCounts(nodes=nodes, mean_length=mean_length, holding=tuple(holding))


def chunks_by_id(shelf: Shelf, request: FetchById) -> Step[tuple[Chunk | None, ...]]:
    """Return the chunk of each id, None where there is none."""
    held = yield from _held(shelf, request.chunk_ids)
    return tuple(None if node is None else node.chunk for node in held)


def most_covering(shelf: Shelf, request: FindCovering) -> Step[Nodes]:
    """Return the nodes that cover most of some terms, best first."""
    about = shelf.about
    question = np.asarray(request.vector, np.float32)
    if about.nodes and question.shape != (about.dim,):
        allowed = f"of shape ({about.dim},): by the embedder of the graph's nodes"
        raise ParameterError("vector of the question", question.shape, allowed)
    terms = [words for term in request.terms if (words := sorted(set(word_keys(term))))]
    ids = (yield from _best(shelf, terms, question, request.k)) if terms and request.k > 0 else []
    return nodes_of((yield from _whole(shelf, ids)), request.words, about.dim)


def _best(shelf: Shelf, terms: Sequence[Sequence[str]], question: NDArray[np.float32], k: int) -> Step[list[str]]:
    """Return the k nodes that cover most terms; all are read that may be among them."""
    hits: list[Any] = []
    while True:
        after = hits[-1]["sort"] if hits else None
        answer = yield from _searched(shelf, covering_most(terms, after))
        page = answer["hits"]["hits"]
        hits += page
        if len(page) < PAGE or (len(hits) >= k and hits[-1]["_score"] < hits[k - 1]["_score"]):
            break
    least = hits[min(k, len(hits)) - 1]["_score"] if hits else 0.0
    among = [hit for hit in hits if hit["_score"] >= least]
    covered = {hit["_source"]["id"]: hit["_score"] for hit in among}
    vectors = {hit["_source"]["id"]: vector_of(hit["_source"]) for hit in among}
    return best_covering(covered, vectors, question, k)


def describe_edges(shelf: Shelf, request: DescribeEdges) -> Step[tuple[Edge | None, ...]]:
    """Return what joins pairs of nodes, None where nothing does."""
    flat = yield from _held(shelf, [chunk_id for pair in request.pairs for chunk_id in pair])
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return tuple(edge_between(one, other, shelf.about.kinds) for one, other in pairs)


def count_edges(shelf: Shelf, request: CountEdges) -> Step[tuple[int, ...]]:
    """Return how many neighbours nodes have."""
    held = yield from _held(shelf, request.chunk_ids)
    return tuple(0 if node is None else len(node.neighbours) for node in held)


def _whole(shelf: Shelf, chunk_ids: Sequence[str]) -> Step[list[GraphNode]]:
    """Return nodes that the graph itself has named."""
    held = yield from _held(shelf, chunk_ids)
    nodes = [node for node in held if node is not None]
    if len(nodes) < len(chunk_ids):
        what = f"{len(chunk_ids) - len(nodes)} nodes to which edges lead are not there; nothing was changed"
        raise LibraryError(shelf.index, what, "the graph written again, by `upload_graph`")
    return nodes


def _held(shelf: Shelf, chunk_ids: Iterable[str]) -> Step[list[GraphNode | None]]:
    """Return the node of each id, None where the graph has none; only those that are not on the shelf are read."""
    wanted = list(chunk_ids)
    held = shelf.known(wanted)
    missing = [chunk_id for chunk_id in dict.fromkeys(wanted) if chunk_id not in held]
    blocks = [missing[place : place + _AT_ONCE] for place in range(0, len(missing), _AT_ONCE)]
    answers = (yield from ask([_looking_up(shelf.index, block) for block in blocks])) if blocks else []
    for block, answer in zip(blocks, answers, strict=True):
        if answer is None:
            raise ReplacedError
        read = {chunk_id: _read(shelf, doc) for chunk_id, doc in zip(block, answer["docs"], strict=True)}
        shelf.keep(read)
        held |= read
    return [held[chunk_id] for chunk_id in wanted]


def _looking_up(index: str, chunk_ids: Sequence[str]) -> Call:
    body = {"ids": [key_of(chunk_id) for chunk_id in chunk_ids]}
    return Call(method="POST", path=f"/{quoted(index)}/_mget", body=body, missing_ok=True, purpose="graph")


def _read(shelf: Shelf, doc: Any) -> GraphNode | None:
    if error := doc.get("error"):
        if error.get("type") == "index_not_found_exception":
            raise ReplacedError
        raise ServerError(
            shelf.index, f"a node cannot be read ({error.get('reason', '')})", kind=error.get("type", "")
        )
    return node_of(doc["_source"], len(shelf.about.kinds)) if doc.get("found") else None


def _searched(shelf: Shelf, body: dict[str, Any]) -> Step[Any]:
    call = Call(method="POST", path=f"/{quoted(shelf.index)}/_search", body=body, missing_ok=True, purpose="graph")
    (answer,) = yield from ask([call])
    if answer is None:
        raise ReplacedError
    if answer.get("timed_out") or answer.get("_shards", {}).get("failed"):
        raise ServerError(shelf.index, "not all shards answered; nothing was changed", retry=True)
    return answer

"""What a walk is told, as arrays, from the nodes that a server gave: equal to what a graph in memory says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from catena.model import Edge
from catena.model.errors import ParameterError
from catena.model.neighbourhood import MENTION, MENTIONED, Neighbourhood, Nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.server.graph_node import GraphNode


def nodes_of(held: Sequence[GraphNode], words: Sequence[str], dim: int) -> Nodes:
    """Return nodes as arrays, in this order, with how often each word is in each."""
    shape = (len(held), len(words))
    return Nodes(
        ids=tuple(node.id for node in held),
        vectors=np.array([node.vector for node in held], np.float32).reshape(len(held), dim),
        counts=np.array([[node.counts.get(word, 0) for word in words] for node in held], np.int32).reshape(shape),
        in_title=np.array([[word in node.titled for word in words] for node in held], np.bool_).reshape(shape),
        lengths=np.array([node.length for node in held], np.int32),
        title_lengths=np.array([node.title_length for node in held], np.int32),
    )


def asked_kinds(kinds: Sequence[str] | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kinds of edge to follow, sorted.

    Raises:
        ParameterError: a kind that the graph does not have.
    """
    asked = known if kinds is None else tuple(sorted(set(kinds)))
    if unknown := [kind for kind in asked if kind not in known]:
        raise ParameterError("kind of edge", unknown[0], f"one of {', '.join(known)}")
    return asked


def followed(
    node: GraphNode, kinds: tuple[str, ...], known: tuple[str, ...]
) -> tuple[list[str], NDArray[np.float32]]:
    """Return the neighbours to which some kinds of edge lead, ascending, and the weights, a row for each of them."""
    if kinds == known:
        return list(node.neighbours), node.weights
    weights = node.weights[:, [known.index(kind) for kind in kinds]]
    joined = weights.any(axis=1)
    return [node.neighbours[row] for row in np.flatnonzero(joined).tolist()], weights[joined]


def neighbourhood(
    sources: Sequence[str],
    edges: Sequence[tuple[list[str], NDArray[np.float32]]],
    nodes: Nodes,
    kinds: tuple[str, ...],
) -> Neighbourhood:
    """Return the neighbours of some nodes.

    Args:
        sources: ids of these, distinct.
        edges: of each, as `followed` gives them.
        nodes: all to which an edge leads, by ascending id.
        kinds: of edges that were followed.
    """
    places = {chunk_id: place for place, chunk_id in enumerate(nodes.ids)}
    target = [places[chunk_id] for ids, _ in edges for chunk_id in ids]
    weights = [rows for _, rows in edges]
    return Neighbourhood(
        sources=tuple(sources),
        nodes=nodes,
        source=np.repeat(np.arange(len(edges), dtype=np.int32), [len(ids) for ids, _ in edges]),
        target=np.array(target, np.int32),
        kinds=kinds,
        weights=np.concatenate([np.empty((0, len(kinds)), np.float32), *weights]),
    )


def edge_between(one: GraphNode | None, other: GraphNode | None, kinds: tuple[str, ...]) -> Edge | None:
    """Return what joins two nodes, seen from the first, with the words that they share; None where nothing does."""
    if one is None or other is None or other.id not in one.neighbours:
        return None
    weights = one.weights[one.neighbours.index(other.id)].tolist()
    by_kind = {kind: weight for kind, weight in zip(kinds, weights, strict=True) if weight}
    words = {kind: _shared(one, other, kind) for kind in by_kind}
    return Edge(weights=by_kind, words={kind: shared for kind, shared in words.items() if shared})


def _shared(one: GraphNode, other: GraphNode, kind: str) -> tuple[str, ...]:
    if kind == MENTION:
        return tuple(printed for title, printed in other.titles if title in one.says)
    if kind == MENTIONED:
        return tuple(printed for title, printed in one.titles if title in other.says)
    held = frozenset(other.terms.get(kind, ()))
    return tuple(term for term in one.terms.get(kind, ()) if term in held)


def best_covering(
    covered: Mapping[str, float], vectors: Mapping[str, NDArray[np.float32]], question: NDArray[np.float32], k: int
) -> list[str]:
    """Return the ids of the k nodes that cover most terms; ties by the dot product with the question, then by id.

    Args:
        covered: by id, the number of terms that a node covers.
        vectors: of these nodes.
        question: its vector.
        k: >= 0.
    """
    ids = sorted(covered)
    if not ids:
        return []
    near = np.array([vectors[each] for each in ids], np.float32) @ question
    order = np.lexsort((np.arange(len(ids)), -near, np.array([-covered[each] for each in ids])))
    return [ids[place] for place in order[:k].tolist()]

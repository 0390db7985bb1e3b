"""What others take for parts of a graph, on the same input: neighbours, pairs of shared keywords, edges held."""

from __future__ import annotations

import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import combinations
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from catena.graph import ChunkGraph, Node, TermEdges

Edges = set[tuple[int, int]]
"""Places of nodes, the lower first."""


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds that some work takes."""
    start = perf_counter()
    work()
    return perf_counter() - start


def faiss_neighbours(vectors: NDArray[np.float32], k: int) -> object:
    """Find the k nearest of all rows with faiss, exactly.

    Raises:
        ImportError: faiss is not installed.
    """
    index = import_module("faiss").IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index.search(vectors, k + 1)


def plain_pairs(nodes: Sequence[Node], kind: TermEdges) -> Edges:
    """Return the pairs of nodes with enough shared terms, counted pair by pair, in Python."""
    counts = Counter(pair for held in _holders(nodes, kind).values() for pair in combinations(held, 2))
    return {pair for pair, shared in counts.items() if shared > kind.more_than}


def sparse_pairs(nodes: Sequence[Node], kind: TermEdges) -> Edges:
    """Return the same by one product of sparse matrices."""
    sparse = import_module("scipy.sparse")
    held = list(_holders(nodes, kind).values())
    rows = np.concatenate([np.array(places, np.int64) for places in held])
    columns = np.repeat(np.arange(len(held)), [len(places) for places in held])
    matrix = sparse.csr_matrix((np.ones(len(rows), np.int32), (rows, columns)), shape=(len(nodes), len(held)))
    product = sparse.triu(matrix @ matrix.T, k=1).tocoo()
    enough = product.data > kind.more_than
    return set(zip(product.row[enough].tolist(), product.col[enough].tolist(), strict=True))


def networkx_edges(graph: ChunkGraph) -> object:
    """Return the edges of a graph as one of NetworkX, with a weight for each kind; neither chunks nor words.

    Raises:
        ImportError: networkx is not installed.
    """
    network = import_module("networkx").DiGraph()  # weights of mentions differ by direction
    network.add_nodes_from(range(len(graph)))
    for kind in graph.kinds:
        links = graph.links(kind)
        pairs = zip(links.sources.tolist(), links.targets.tolist(), links.weights.tolist(), strict=True)
        network.add_weighted_edges_from(pairs, weight=kind)
    return network


def bytes_of(make: Callable[[], object]) -> int:
    """Return the bytes that Python holds for what is made, as long as it is held."""
    tracemalloc.start()
    try:
        made = make()
        held, _ = tracemalloc.get_traced_memory()
        del made
    finally:
        tracemalloc.stop()
    return held


def link_bytes(graph: ChunkGraph) -> int:
    """Return the bytes of the edges of a graph as it holds them: rows, targets and weights of all kinds."""
    return sum(
        array.nbytes
        for kind in graph.kinds
        for array in (graph.links(kind).starts, graph.links(kind).targets, graph.links(kind).weights)
    )


def _holders(nodes: Sequence[Node], kind: TermEdges) -> Mapping[str, list[int]]:
    """Return the nodes that hold each term which is not too common."""
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for place, node in enumerate(nodes):
        for term in dict.fromkeys(kind.of(node)):
            holders[term].append(place)
    limit = kind.limit(len(nodes))
    return {term: places for term, places in holders.items() if len(places) <= limit}

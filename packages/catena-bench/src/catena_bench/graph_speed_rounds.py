"""The measurements of a graph of one size, in a process of its own, whose memory is the graph's and its input's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from statistics import median, quantiles
from time import perf_counter, process_time

import numpy as np
from numpy.typing import NDArray

from catena.effects import Expand, Services
from catena.effects import run as run_step
from catena.graph import KEYWORDS, ChunkGraph, GraphOptions, GraphSearch, widen
from catena.model import KEYWORD, SEMANTIC, Hit, Ranking, Scale
from catena_bench.graph_speed_inputs import CHUNKS, Grown, grown
from catena_bench.graph_speed_peers import (
    bytes_of,
    faiss_neighbours,
    link_bytes,
    networkx_edges,
    plain_pairs,
    seconds_of,
    sparse_pairs,
)

PEERS_UP_TO = 10_000  # chunks: beyond, they take minutes
SAMPLE = 500  # nodes whose neighbours are sought anew, and expansions that are timed
QUESTIONS = 200
_FIRST = 50  # hits of a first ranking
_OPTIONS = GraphOptions()
_MB = 1e6

Figures = dict[str, float]


def measured(chunks: int, seed: int) -> Figures:
    """Build a graph of so many chunks, use it, and return the figures of `graph_speed.run`, without the number."""
    given = grown(chunks, seed)
    figures: Figures = {}
    if (peak := peak_mb()) is not None:
        figures["input_mb"] = peak
    wall, cpu = perf_counter(), process_time()
    graph = ChunkGraph.build(given.nodes, given.vectors, _OPTIONS)
    figures |= {"build_seconds": perf_counter() - wall, "build_cpu_seconds": process_time() - cpu}
    figures["keyword_seconds"] = seconds_of(lambda: graph.links(KEYWORD))
    figures |= {f"edges_{kind}": float(len(graph.links(kind).targets)) for kind in graph.kinds}
    figures["semantic_recall"] = semantic_recall(graph, given, seed)
    if (peak := peak_mb()) is not None:
        figures["peak_mb"] = peak
    figures |= _expanded(graph, seed) | _walked(graph, given, seed) | _added(graph, given, seed)
    return figures | (_peers(graph, given, figures) if chunks <= PEERS_UP_TO else {})


def peak_mb() -> float | None:
    """Return the most memory that this process ever had, in megabytes (10^6 bytes); None where nobody counts it."""
    if find_spec("resource") is None:
        return None
    resource = import_module("resource")
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1_024) / _MB


def semantic_recall(graph: ChunkGraph, given: Grown, seed: int) -> float:
    """Return the share of the nearest of some nodes, sought anew, that the graph joins them with."""
    places = {chunk_id: place for place, chunk_id in enumerate(graph.ids)}
    order = np.array([places[node.id] for node in given.nodes])  # place in the graph of each row
    links = graph.links(SEMANTIC)
    rows = np.random.default_rng(seed).permutation(len(order))[:SAMPLE]
    products = given.vectors[rows] @ given.vectors.T
    products[np.arange(len(rows)), rows] = -np.inf
    k = min(_OPTIONS.neighbours, len(order) - 1)
    nearest = np.argpartition(products, -k, axis=1)[:, -k:]
    found = [
        len(np.intersect1d(order[near], links.targets[slice(*links.starts[order[row] : order[row] + 2])]))
        for row, near in zip(rows, nearest, strict=True)
    ]
    return sum(found) / (k * len(rows))


def _expanded(graph: ChunkGraph, seed: int) -> Figures:
    """Return the milliseconds of one expansion, after the first, which makes what all need."""
    draw = np.random.default_rng(seed)
    words = tuple(graph.chunk(graph.ids[0]).text.split()[:8])
    requests = [Expand(chunk_ids=(graph.ids[place],), words=words) for place in draw.integers(0, len(graph), SAMPLE)]
    first = seconds_of(lambda: graph.expand(requests[0]))
    times = [1_000 * seconds_of(lambda request=request: graph.expand(request)) for request in requests]  # type: ignore[misc]
    return {"first_expand_ms": 1_000 * first, "expand_ms_p50": median(times)}


@dataclass(frozen=True, slots=True)
class _Known:
    """An embedder of texts that are places of rows."""

    rows: NDArray[np.float32]
    identity: str = "places"

    @property
    def dim(self) -> int:
        return int(self.rows.shape[1])

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return rows."""
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the row whose place comes first in the text."""
        row: NDArray[np.float32] = self.rows[int(text.split(maxsplit=1)[0])]
        return row


def _walked(graph: ChunkGraph, given: Grown, seed: int) -> Figures:
    """Return the milliseconds of processor time of the default walk, first ranking and vector given."""
    draw = np.random.default_rng(seed + 1)
    services = Services(embedder=_Known(given.vectors), graph=graph, max_concurrency=1)
    times = []
    for row in draw.integers(0, len(given.nodes), QUESTIONS + 1).tolist():
        products = given.vectors @ given.vectors[row]
        best = np.argsort(-products, kind="stable")[1 : _FIRST + 1]
        hits = tuple(Hit(given.nodes[place].chunk, float(products[place])) for place in best)
        question = f"{row} {' '.join(given.nodes[row].chunk.text.split()[:10])}"
        start = process_time()
        run_step(widen(question, Ranking(hits, Scale.SIMILARITY), GraphSearch(on_graph_error="raise")), services)
        times.append(1_000 * (process_time() - start))
    return {"walk_ms_p50": median(times[1:]), "walk_ms_p95": quantiles(times[1:], n=20, method="inclusive")[18]}


def _added(graph: ChunkGraph, given: Grown, seed: int) -> Figures:
    """Return the seconds of adding one document, with and without the first use of what comes out."""
    more = grown(CHUNKS, seed, first=len(given.nodes))
    request = Expand(chunk_ids=(more.nodes[0].id,))
    alone, used = [], []
    for _ in range(3):
        start = perf_counter()
        updated = graph.updated(added=more.nodes, vectors=more.vectors)
        alone.append(perf_counter() - start)
        updated.expand(request)
        used.append(perf_counter() - start)
    figures = {"add_seconds": median(alone), "add_and_expand_seconds": median(used)}
    if len(graph) > PEERS_UP_TO:
        return figures
    rebuilt = ChunkGraph.build((*given.nodes, *more.nodes), np.concatenate([given.vectors, more.vectors]), _OPTIONS)
    return figures | {"add_equals_rebuild": float(equal(updated, rebuilt))}


def equal(one: ChunkGraph, other: ChunkGraph) -> bool:
    """Return whether two graphs have the same nodes and the same edges with the same weights."""
    return one.ids == other.ids and all(
        np.array_equal(getattr(one.links(kind), part), getattr(other.links(kind), part))
        for kind in one.kinds
        for part in ("starts", "targets", "weights")
    )


def _peers(graph: ChunkGraph, given: Grown, figures: Figures) -> Figures:
    """Return the seconds of others by their times over ours, on parts of the work; and whether they find the same."""
    links = graph.links(KEYWORD)
    nodes = [graph.node(chunk_id) for chunk_id in graph.ids]
    ours = {(a, b) for a, b in zip(links.sources.tolist(), links.targets.tolist(), strict=True) if a < b}
    found: Figures = {"keyword_pairs_agree": 1.0}
    peers = {"plain_python": plain_pairs} | ({"scipy": sparse_pairs} if find_spec("scipy") else {})
    for name, pairs in peers.items():
        start = perf_counter()
        theirs = pairs(nodes, KEYWORDS)
        found[f"ratio.keyword.{name}"] = (perf_counter() - start) / figures["keyword_seconds"]
        found["keyword_pairs_agree"] *= float(theirs == ours)
    if find_spec("faiss"):
        seconds = seconds_of(lambda: faiss_neighbours(given.vectors, _OPTIONS.neighbours))
        found["ratio.whole_build.faiss_neighbours"] = seconds / figures["build_seconds"]
    if find_spec("networkx"):
        seconds = seconds_of(lambda: networkx_edges(graph))
        found["ratio.whole_build.networkx_edges"] = seconds / figures["build_seconds"]
        found["ratio.edges_held.networkx"] = bytes_of(lambda: networkx_edges(graph)) / link_bytes(graph)
    return found

"""Compute the memory, disk, time and shards that a collection takes: by formula, from measured constants.

Memory of vectors (they want to lie in the page cache, outside of the heap), per vector of d numbers:

    hnsw (float32) 4 d + 64    int8_hnsw d + 4 + 64    bbq_hnsw d / 8 + 14 + 64    flat 4 d

where 64 bytes are the graph of neighbours (m = 16). On disk the numbers are kept besides, 4 d bytes, as is the text.
Source: Elastic's guide to approximate kNN search, "Ensure data nodes have enough memory".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, inf, log
from typing import Annotated

from annotated_types import Ge, Gt, Lt

from catena.model import Checked
from catena_server.index_layout import VectorIndex

GRAPH_BYTES = 64  # of the graph of neighbours, per vector
MOST_IN_A_SHARD = 200_000_000  # chunks; Lucene's own limit is 2^31 - 1, nested documents included
ROUNDING = 10  # digits behind the point to which ratios are rounded before they are counted up
_GB = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection(Checked):
    """The collection that is to be indexed.

    Attributes:
        documents, chunks: how many.
        dim: of the vectors.
        characters: of a chunk's text, on average.
        vectors: per chunk, over all kinds of view.
        views: texts per chunk whose words are indexed, over all kinds of view.
    """

    documents: Annotated[int, Ge(1)]
    chunks: Annotated[int, Ge(1)]
    dim: Annotated[int, Ge(1)]
    characters: Annotated[float, Gt(0), Lt(inf)] = 800.0
    vectors: Annotated[float, Gt(0), Lt(inf)] = 1.0
    views: Annotated[float, Gt(0), Lt(inf)] = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster(Checked):
    """The servers on which it is to be indexed.

    Attributes:
        vector_index: how vectors are kept and searched.
        replicas: copies besides the first.
        shard_gb: how large a shard is wanted, in 10^9 bytes.
        node_memory_gb: memory of a node, in 10^9 bytes.
        heap_share: of a node's memory that the server's heap takes; the rest is for vectors.
        nodes, embedders: that index, and that embed, side by side.
    """

    vector_index: VectorIndex = "int8_hnsw"
    replicas: Annotated[int, Ge(0)] = 1
    shard_gb: Annotated[float, Gt(0), Lt(inf)] = 30.0
    node_memory_gb: Annotated[float, Gt(0), Lt(inf)] = 64.0
    heap_share: Annotated[float, Gt(0), Lt(1)] = 0.5
    nodes: Annotated[int, Ge(1)] = 3
    embedders: Annotated[int, Ge(1)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Measured constants: `docs/past-one-machine.md` says on what machine, with which command.

    Attributes:
        bytes_per_document, bytes_per_chunk: on disk besides vectors and text, whatever their length.
        words_per_character: bytes on disk of the words of a view, per character of its text.
        source_per_character: bytes on disk of what chunks and documents are made from again, per character of text.
        prepared: chunks a second that one process reads, cuts and prepares.
        embedded: chunks a second that one embedder of the shipped static model embeds.
        indexed: chunks a second that one node with one core takes in.
        latency_ms: (chunks, median milliseconds) of the whole formula in one request, of one shard.
    """

    bytes_per_document: float
    bytes_per_chunk: float
    words_per_character: float
    source_per_character: float
    prepared: float
    embedded: float
    indexed: float
    latency_ms: tuple[tuple[int, float], ...] = field(default=())

    @property
    def slope(self) -> float:
        """The exponent s of `latency ~ chunks^s`, by least squares over the logarithms; 0 with one size."""
        if len(self.latency_ms) < 2:
            return 0.0
        points = [(log(chunks), log(ms)) for chunks, ms in self.latency_ms]
        mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
        spread = sum((x - mean_x) ** 2 for x, _ in points)
        slope: float = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
        return slope

    def latency(self, chunks: float) -> float:
        """Return the milliseconds for a shard of so many chunks.

        Between two sizes that were measured the curve is a straight line over the logarithms; outside of all of them
        it goes on from the nearest by the slope.
        """
        measured = sorted(self.latency_ms)
        for (fewer, below), (more, above) in pairwise(measured):
            if fewer <= chunks <= more:
                return float(below * (chunks / fewer) ** (log(above / below) / log(more / fewer)))
        nearest, ms = measured[0] if chunks < measured[0][0] else measured[-1]
        return float(ms * (chunks / nearest) ** self.slope)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizePlan:
    """The resources that a collection takes; bytes are of all copies, but for `primary_bytes`.

    Attributes:
        vector_bytes: of memory, outside of the heap.
        primary_bytes, disk_bytes: on disk without and with copies.
        shards: primary ones; with copies `shards * (1 + replicas)`.
        shard_chunks, shard_bytes: of one shard.
        nodes_for_memory: that hold `vector_bytes` beside their heap.
        prepare_hours, embed_hours, index_hours: by themselves; they run side by side, so the longest counts.
        latency_ms: of one shard, computed from the curve that was measured.
    """

    vector_bytes: float
    primary_bytes: float
    disk_bytes: float
    shards: int
    shard_chunks: float
    shard_bytes: float
    nodes_for_memory: int
    prepare_hours: float
    embed_hours: float
    index_hours: float
    latency_ms: float

    @property
    def hours(self) -> float:
        """The time to index everything, when reading, embedding and indexing run side by side."""
        return max(self.prepare_hours, self.embed_hours, self.index_hours)


def vector_memory(vector_index: VectorIndex, dim: int) -> float:
    """Return the bytes of memory that one vector wants; see the formulas above."""
    quantised = {"hnsw": 4.0 * dim, "int8_hnsw": dim + 4.0, "bbq_hnsw": dim / 8 + 14.0, "flat": 4.0 * dim}
    return quantised[vector_index] + (0 if vector_index == "flat" else GRAPH_BYTES)


def vector_disk(vector_index: VectorIndex, dim: int) -> float:
    """Return the bytes on disk of one vector: its numbers, and what it is searched by where that is another."""
    whole = vector_index in ("hnsw", "flat")
    return vector_memory(vector_index, dim) + (0.0 if whole else 4.0 * dim)


def plan_size(collection: Collection, cluster: Cluster, costs: Costs) -> SizePlan:
    """Return the resources that a collection takes on a cluster.

    `primary = documents * bytes_per_document
    + chunks * (bytes_per_chunk + vectors * vector_disk + characters * (source + views * words))`,
    `shards = ceil(max(primary / shard_gb, chunks / MOST_IN_A_SHARD))`,
    `nodes_for_memory = ceil(vector memory of all copies / (node memory * (1 - heap_share)))`; with copies at least
    `1 + replicas`, since two copies of a shard never lie on one node.
    """
    copies = 1 + cluster.replicas
    per_chunk = (
        costs.bytes_per_chunk
        + collection.vectors * vector_disk(cluster.vector_index, collection.dim)
        + collection.characters * (costs.source_per_character + collection.views * costs.words_per_character)
    )
    primary = collection.documents * costs.bytes_per_document + collection.chunks * per_chunk
    shards = max(
        ceil(round(primary / (cluster.shard_gb * _GB), ROUNDING)), ceil(collection.chunks / MOST_IN_A_SHARD), 1
    )
    memory = collection.chunks * collection.vectors * vector_memory(cluster.vector_index, collection.dim) * copies
    free = cluster.node_memory_gb * _GB * (1 - cluster.heap_share)
    return SizePlan(
        vector_bytes=memory,
        primary_bytes=primary,
        disk_bytes=primary * copies,
        shards=shards,
        shard_chunks=collection.chunks / shards,
        shard_bytes=primary / shards,
        nodes_for_memory=max(ceil(round(memory / free, ROUNDING)), copies),
        prepare_hours=collection.chunks / costs.prepared / cluster.embedders / 3600,
        embed_hours=collection.chunks * collection.vectors / costs.embedded / cluster.embedders / 3600,
        index_hours=collection.chunks * copies / costs.indexed / cluster.nodes / 3600,
        latency_ms=costs.latency(collection.chunks / shards),
    )


MEASURED = Costs(
    bytes_per_document=400.0,
    bytes_per_chunk=260.0,
    words_per_character=0.125,
    source_per_character=2.0,
    prepared=1_300.0,
    embedded=4_200.0,
    indexed=1_200.0,
    latency_ms=((10_000, 17.3), (100_000, 20.0), (1_000_000, 27.7)),
)
"""Elasticsearch 9.5.3, one node and its client on two cores with little else to do (load 1 to 2).

Chunks of `similar_docs`, 347 characters on average, and look-alikes of them; vectors of 256 numbers as int8_hnsw. The
latency is that of "formula_one_request", the indexing that from 100,000 to 1,000,000 chunks. Preparing (Markdown) and
embedding (the shipped model) are chunks per second of processor time of one process.
"""

"""Draw the picture of a size plan: memory, disk and latency over the number of chunks, on logarithmic axes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from catena_server.index_layout import VectorIndex
from catena_server.sizing import Cluster, Collection, Costs, plan_size
from catena_view.plots import Picture
from catena_view.plots.picture import Axis, LineMark, Panel, Points, finished, log_axis

CHUNKS = tuple(10**power for power in range(4, 10))
_KINDS: tuple[VectorIndex, ...] = ("hnsw", "int8_hnsw", "bbq_hnsw")
_GB = 1e9


def size_curves(
    collection: Collection, cluster: Cluster, costs: Costs, path: str | Path | None = None
) -> Picture | Path:
    """Draw what 10^4 to 10^9 chunks take: bytes on the left, the latency of one question on the right.

    The left panel has a line for the memory of each way to keep vectors, and one for the disk with the cluster's own;
    the right one the latency of a shard, which every shard works at side by side, and the sizes that were measured.
    Large points are the collection's own.

    Args:
        collection: its documents grow with the chunks.
        cluster: on what it is indexed.
        costs: measured constants, with at least one latency.
        path: a .png or .html to write; None returns the picture.

    Raises:
        ParameterError: the suffix is not known.
        MissingExtraError: the library that draws is not installed.
    """
    sizes = [float(chunks) for chunks in CHUNKS]
    memory = {
        kind: [_plan(collection, replace(cluster, vector_index=kind), costs, n)[0] for n in CHUNKS] for kind in _KINDS
    }
    disk = [_plan(collection, cluster, costs, n)[1] for n in CHUNKS]
    own_memory, own_disk = _plan(collection, cluster, costs, collection.chunks)
    own = float(collection.chunks)
    every = [*(value for values in memory.values() for value in values), *disk, own_memory, own_disk]
    bytes_panel = Panel(
        title="Bytes",
        marks=[
            *(
                LineMark(x=sizes, y=memory[kind], label=f"memory, {kind}", series=at)
                for at, kind in enumerate(_KINDS)
            ),
            LineMark(x=sizes, y=disk, label=f"disk, {cluster.vector_index}", series=len(_KINDS)),
            Points(x=[own, own], y=[own_memory, own_disk], label="this collection", series=6, large=True),
        ],
        x=_chunks_axis(own),
        y=log_axis("GB", 0.5 * min(every), 2 * max(every)),
    )
    measured = sorted(costs.latency_ms)
    latency = [costs.latency(n) for n in CHUNKS]
    times = [*latency, *(ms for _, ms in measured)]
    latency_panel = Panel(
        title="One question, one shard",
        marks=[
            LineMark(x=sizes, y=latency, label=f"computed, as chunks^{costs.slope:.2f}"),
            Points(x=[float(n) for n, _ in measured], y=[ms for _, ms in measured], label="measured", large=True),
        ],
        x=_chunks_axis(own),
        y=log_axis("milliseconds", 0.5 * min(times), 2 * max(times)),
    )
    caption = (
        f"{collection.chunks:,} chunks of {collection.dim} numbers, {1 + cluster.replicas} copies: "
        f"{_short(own_memory)} GB of memory as {cluster.vector_index}, {_short(own_disk)} GB of disk. "
        "Latency was measured at "
        + ", ".join(f"{n:,} chunks ({ms:.3g} ms)" for n, ms in measured)
        + f" and grows as chunks^{costs.slope:.2f}; what lies beyond is computed."
    )
    title = "What a collection takes"
    return finished(Picture(title=title, caption=caption, panels=[bytes_panel, latency_panel]), path)


def _plan(collection: Collection, cluster: Cluster, costs: Costs, chunks: int) -> tuple[float, float]:
    """Return the GB of memory and of disk that so many chunks of such a collection take."""
    documents = max(1, round(collection.documents * chunks / collection.chunks))
    plan = plan_size(replace(collection, documents=documents, chunks=chunks), cluster, costs)
    return plan.vector_bytes / _GB, plan.disk_bytes / _GB


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _chunks_axis(own: float) -> Axis:
    limits = (0.7 * min(CHUNKS[0], own), 1.4 * max(CHUNKS[-1], own))
    ticks = [(float(n), f"10^{len(str(n)) - 1}") for n in CHUNKS]
    return Axis(label="chunks", limits=limits, ticks=ticks, logarithmic=True)

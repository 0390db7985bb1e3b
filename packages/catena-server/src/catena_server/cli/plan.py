"""`catena plan`: how much memory, disk and time, and how many shards a collection takes on a server."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catena.cli.console import err, out, write_json
from catena.cli.options import AsJson
from catena.model import needs

if TYPE_CHECKING:
    from catena_server.sizing import Cluster, Collection, Costs, SizePlan

_UNITS = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


class VectorIndexName(StrEnum):
    """Ways to keep vectors: as they are, in one byte a number, or in one bit a number."""

    HNSW = "hnsw"
    INT8 = "int8_hnsw"
    BBQ = "bbq_hnsw"
    FLAT = "flat"


def plan(  # noqa: PLR0917 - typer hands them over by name
    documents: Annotated[int, typer.Option("--documents", min=1, help="Documents in all.")],
    chunks: Annotated[int, typer.Option("--chunks", min=1, help="Chunks in all.")],
    dim: Annotated[int, typer.Option("--dim", min=1, help="Numbers in a vector.")] = 256,
    characters: Annotated[float, typer.Option("--characters", help="Of a chunk, on average.")] = 800.0,
    views: Annotated[
        float, typer.Option("--views", help="Kinds of view per chunk, each with its words and its vector.")
    ] = 1.0,
    vector_index: Annotated[
        VectorIndexName, typer.Option("--vector-index", help="How vectors are kept.")
    ] = VectorIndexName.INT8,
    replicas: Annotated[int, typer.Option("--replicas", min=0, help="Copies besides the first.")] = 1,
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="That index side by side.")] = 3,
    node_memory: Annotated[float, typer.Option("--node-memory", help="Of each node, in GB.")] = 64.0,
    shard_size: Annotated[float, typer.Option("--shard-size", help="Wanted, in GB.")] = 30.0,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that read and embed.")] = 1,
    embed_rate: Annotated[
        float | None,
        typer.Option("--embed-rate", help="Texts a second of your embedder; the shipped model's by default."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw bytes over chunks, .png or .html (extra plots)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a collection takes on Elasticsearch or OpenSearch: memory, disk, shards, nodes, hours.

    Nothing is asked of a server. Memory follows Elastic's formulas; bytes, rates and latency are what one small
    machine measured, so hours are those of such machines: docs/past-one-machine.md says what was measured and how.
    """
    from dataclasses import replace

    from catena_server.sizing import MEASURED, Cluster, Collection, plan_size

    collection = Collection(
        documents=documents, chunks=chunks, dim=dim, characters=characters, vectors=views, views=views
    )
    cluster = Cluster(
        vector_index=vector_index.value,
        replicas=replicas,
        shard_gb=shard_size,
        node_memory_gb=node_memory,
        nodes=nodes,
        embedders=workers,
    )
    costs = MEASURED if embed_rate is None else replace(MEASURED, embedded=embed_rate)
    planned = plan_size(collection, cluster, costs)
    if as_json:
        write_json({"collection": collection, "cluster": cluster, "plan": planned, "hours": planned.hours})
    else:
        _show(collection, cluster, costs, planned)
    if plot is not None:
        with needs("catena-view"):
            from catena_server.size_picture import size_curves

        size_curves(collection, cluster, costs, plot)
        err().print(f"drawn into {plot}")


def _show(collection: Collection, cluster: Cluster, costs: Costs, planned: SizePlan) -> None:
    from rich.table import Table

    measured = max(chunks for chunks, _ in costs.latency_ms)
    memory, disk = in_bytes(planned.vector_bytes), in_bytes(planned.disk_bytes)
    in_each = f"of {planned.shard_chunks:,.0f} chunks and {in_bytes(planned.shard_bytes)} each, without copies"
    on_each = f"of {cluster.node_memory_gb:g} GB, {cluster.heap_share:.0%} of it heap"
    rows = (
        ("memory of vectors", memory, f"{cluster.vector_index}, outside of the heap, copies too"),
        ("disk", disk, f"{in_bytes(planned.primary_bytes)} in each of {1 + cluster.replicas}"),
        ("shards", f"{planned.shards:,}", in_each),
        ("nodes for the memory", f"{planned.nodes_for_memory:,}", on_each),
        ("reading and cutting", in_hours(planned.prepare_hours), f"{costs.prepared:,.0f} chunks a second and worker"),
        ("embedding", in_hours(planned.embed_hours), f"{costs.embedded:,.0f} texts a second and worker"),
        ("indexing", in_hours(planned.index_hours), f"{costs.indexed:,.0f} chunks a second and node, copies too"),
        ("one question", f"{planned.latency_ms:,.0f} ms", f"one shard; measured up to {measured:,} chunks"),
    )
    table = Table(title=f"{collection.chunks:,} chunks of {collection.documents:,} documents", title_justify="left")
    for name, justify in (("what", "left"), ("takes", "right"), ("how", "left")):
        table.add_column(name, justify="left" if justify == "left" else "right")
    for row in rows:
        table.add_row(*row)
    out().print(table)


def in_bytes(value: float) -> str:
    """Return bytes with a unit that is a power of 1,000: "1.1 TB"."""
    for size, unit in _UNITS:
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


def in_hours(hours: float) -> str:
    """Return a time in the unit that says most: "3.1 h", "12 min", "5 s"."""
    if hours >= 48:
        return f"{hours / 24:.3g} days"
    if hours >= 1:
        return f"{hours:.3g} h"
    return f"{hours * 60:.3g} min" if hours >= 1 / 60 else f"{hours * 3600:.3g} s"

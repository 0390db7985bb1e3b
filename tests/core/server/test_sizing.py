"""The cost model: Elastic's formulas by hand, how plans grow, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf, log10, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from catena.cli.app import app
from catena.model import ParameterError
from catena_server import MEASURED, Cluster, Collection, Costs, plan_size, size_curves
from catena_server.cli.plan import in_bytes, in_hours
from catena_server.sizing import MOST_IN_A_SHARD, vector_memory
from catena_view.plots import Picture

COSTS = Costs(
    bytes_per_document=1_000.0, bytes_per_chunk=100.0, words_per_character=0.5, source_per_character=1.0,
    prepared=1_000.0, embedded=2_000.0, indexed=500.0, latency_ms=((10_000, 4.0), (1_000_000, 40.0)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "dim", "expected"),
    [
        ("hnsw", 384, 1600), ("hnsw", 1024, 4160), ("int8_hnsw", 384, 452), ("int8_hnsw", 1024, 1092),
        ("bbq_hnsw", 384, 126), ("bbq_hnsw", 1024, 206), ("flat", 256, 1024),
    ],
)  # fmt: skip
def test_memory_of_a_vector_is_that_of_elastics_table(kind, dim: int, expected: int) -> None:
    assert vector_memory(kind, dim) == expected


def test_a_plan_by_hand() -> None:
    collection = Collection(documents=1_000, chunks=1_000_000, dim=256, characters=400.0, vectors=2.0, views=3.0)
    cluster = Cluster(replicas=1, shard_gb=1.0, node_memory_gb=2.0, heap_share=0.5, nodes=2, embedders=4)
    plan = plan_size(collection, cluster, COSTS)
    per_chunk = 100 + 2 * (324 + 1024) + 400 * (1 + 3 * 0.5)
    assert plan.primary_bytes == 1_000 * 1_000 + 1_000_000 * per_chunk == 3_797_000_000
    assert plan.disk_bytes == 2 * plan.primary_bytes
    assert (plan.shards, plan.shard_chunks, plan.shard_bytes) == (4, 250_000, 949_250_000)
    assert plan.vector_bytes == 1_000_000 * 2 * 324 * 2 == 1_296_000_000
    assert plan.nodes_for_memory == 2  # 1.296 GB over 1 GB a node
    assert plan.prepare_hours == pytest.approx(1_000_000 / 1_000 / 4 / 3600)
    assert plan.embed_hours == pytest.approx(2_000_000 / 2_000 / 4 / 3600)
    assert plan.index_hours == pytest.approx(2_000_000 / 500 / 2 / 3600)
    assert plan.hours == plan.index_hours
    assert plan.latency_ms == pytest.approx(40 * 0.25**0.5)


def test_no_shard_holds_more_than_lucene_can_and_each_copy_wants_a_node_of_its_own() -> None:
    full = Collection(documents=1, chunks=3 * MOST_IN_A_SHARD, dim=1)
    assert plan_size(full, Cluster(shard_gb=1e9), COSTS).shards == 3
    plan = plan_size(replace(full, chunks=1), Cluster(replicas=2), COSTS)
    assert (plan.nodes_for_memory, plan.shards) == (3, 1)


def test_the_slope_is_that_of_the_logarithms() -> None:
    assert COSTS.slope == pytest.approx(0.5)
    assert COSTS.latency(1_000_000) == pytest.approx(40.0)
    assert COSTS.latency(100_000_000) == pytest.approx(400.0)
    bent = replace(COSTS, latency_ms=((10_000, 4.0), (100_000, 4.0), (1_000_000, 16.0)))
    assert [bent.latency(n) for n in (10_000, 30_000, 100_000, 1_000_000)] == pytest.approx([4.0, 4.0, 4.0, 16.0])
    assert bent.latency(10**5.5) == pytest.approx(8.0)  # half way over the logarithms
    assert bent.slope == pytest.approx(log10(4) / 2)
    assert bent.latency(100_000_000) == pytest.approx(64.0)
    assert bent.latency(100) == pytest.approx(1.0)
    uneven = replace(COSTS, latency_ms=((1_000, 1.0), (10_000, 100.0), (1_000_000, 100.0)))
    assert uneven.slope == pytest.approx(4 / 7)
    ends = (uneven.latency(100), uneven.latency(10_000_000))  # each goes on from the nearest size
    assert ends == pytest.approx((10 ** (-4 / 7), 100 * 10 ** (4 / 7)))
    assert replace(COSTS, latency_ms=((10, 3.0),)).slope == 0.0


sizes = st.integers(1, 10**10)


@given(sizes, sizes, st.integers(1, 4096), st.sampled_from(["hnsw", "int8_hnsw", "bbq_hnsw", "flat"]))
def test_more_chunks_never_take_less(one: int, other: int, dim: int, kind) -> None:
    fewer, more = sorted((one, other))
    cluster = Cluster(vector_index=kind)
    small, large = (plan_size(Collection(documents=1, chunks=n, dim=dim), cluster, MEASURED) for n in (fewer, more))
    for field in ("vector_bytes", "disk_bytes", "shards", "nodes_for_memory", "hours"):
        assert getattr(small, field) <= getattr(large, field)
    assert small.shards * small.shard_chunks == pytest.approx(fewer)


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        (Collection, "documents", 0), (Collection, "chunks", True), (Collection, "dim", 1.5),
        (Collection, "characters", nan), (Collection, "views", 0), (Collection, "vectors", inf),
        (Cluster, "vector_index", "pq"), (Cluster, "replicas", -1), (Cluster, "nodes", 0),
        (Cluster, "heap_share", 1.0), (Cluster, "shard_gb", 0), (Cluster, "node_memory_gb", -1),
    ],
)  # fmt: skip
def test_what_no_collection_or_cluster_can_be_is_refused_by_name(make, name: str, value: object) -> None:
    sound = {"documents": 1, "chunks": 1, "dim": 1} if make is Collection else {}
    with pytest.raises(ParameterError, match=name):
        make(**{**sound, name: value})


ASKED = ("plan", "--documents", "1000", "--chunks", "100000000", "--dim", "1024")


def call(*arguments: str, code: int = 0):
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100"})
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def planned(*arguments: str):
    return json.loads(call(*ASKED, *arguments, "--json").stdout)


def test_it_says_memory_disk_shards_and_hours() -> None:
    shown = call(*ASKED).stdout
    for word in ("218 GB", "memory of vectors", "disk", "shards", "reading and cutting", "embedding", "indexing"):
        assert word in shown
    assert all(len(line) <= 100 for line in shown.splitlines())


@pytest.mark.parametrize(
    ("option", "changes"),
    [
        (("--documents", "50000000"), "disk_bytes"),
        (("--characters", "2000"), "disk_bytes"),
        (("--views", "3"), "vector_bytes"),
        (("--vector-index", "bbq_hnsw"), "vector_bytes"),
        (("--replicas", "0"), "disk_bytes"),
        (("--nodes", "7"), "index_hours"),
        (("--node-memory", "128"), "nodes_for_memory"),
        (("--shard-size", "10"), "shards"),
        (("--workers", "4"), "prepare_hours"),
        (("--embed-rate", "10"), "embed_hours"),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else given,
)
def test_every_option_counts(option: tuple[str, ...], changes: str) -> None:
    assert planned(*option)["plan"][changes] != planned()["plan"][changes]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".html"])
def test_the_picture_is_written(tmp_path, suffix: str) -> None:
    target = tmp_path / f"plan{suffix}"
    result = call(*ASKED, "--plot", str(target))
    assert target.stat().st_size > 10_000
    assert str(target) in result.stderr.replace("\n", "")


def test_the_picture_states_what_was_measured_and_what_is_computed() -> None:
    picture = size_curves(Collection(documents=10, chunks=2_000_000, dim=256), Cluster(), MEASURED)
    assert isinstance(picture, Picture)
    for chunks, _ in MEASURED.latency_ms:
        assert f"{chunks:,} chunks" in picture.caption
    assert f"chunks^{MEASURED.slope:.2f}" in picture.caption
    assert "computed" in picture.caption


def test_units() -> None:
    assert [in_bytes(n) for n in (12, 1_500, 2.5e9, 1.34e12)] == ["12 B", "1.5 kB", "2.5 GB", "1.34 TB"]
    assert [in_hours(h) for h in (0.001, 0.5, 3.14159, 480)] == ["3.6 s", "30 min", "3.14 h", "20 days"]

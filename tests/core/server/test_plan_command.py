"""`catena plan`: what it says, in words, as JSON and as a picture; and that every option of it counts."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from catena.cli.app import app
from catena_server import MEASURED, Cluster, Collection, size_curves
from catena_server.cli.plan import in_bytes, in_hours
from catena_view.plots import Picture

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


def test_what_no_cluster_can_be_is_said_in_words() -> None:
    result = call(*ASKED, "--node-memory", "0", code=2)
    assert "node_memory_gb must be a finite number > 0" in result.stderr


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

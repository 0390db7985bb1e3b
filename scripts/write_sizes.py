"""Write the tables of docs/past-one-machine.md from what was measured; with `--check` only say if they are stale.

What stands in the tables is `catena_server.sizing.MEASURED`, and what `catena plan` makes of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from catena_server import MEASURED, Cluster, Collection, SizePlan, plan_size
from catena_server.cli.plan import in_bytes, in_hours

PAGE = Path(__file__).resolve().parents[1] / "docs" / "past-one-machine.md"
BEGIN, END = "<!-- sizes: scripts/write_sizes.py writes what follows -->\n", "<!-- end of sizes -->\n"
CHUNKS = tuple(10**power for power in range(4, 10))
PER_DOCUMENT = 100  # chunks
CLUSTER = Cluster()  # the defaults of `catena plan`, as are those of a collection
DIM = 256  # of the shipped embedding


def tables() -> str:
    """Return the tables: the constants, and what they make of 10^4 to 10^9 chunks."""
    return f"{_constants()}\n{_latencies()}\n{_sizes()}"


def _constants() -> str:
    rows = (
        ("on disk per document, besides its text", f"{MEASURED.bytes_per_document:,.0f} bytes"),
        ("on disk per chunk, besides its text and its vector", f"{MEASURED.bytes_per_chunk:,.0f} bytes"),
        ("on disk for the words of a view", f"{MEASURED.words_per_character:.2f} bytes per character"),
        ("on disk for the text itself", f"{MEASURED.source_per_character:.2f} bytes per character"),
        ("read, cut and prepared by one process", f"{MEASURED.prepared:,.0f} chunks a second"),
        ("embedded by one process, shipped model", f"{MEASURED.embedded:,.0f} chunks a second"),
        ("taken in by one node", f"{MEASURED.indexed:,.0f} chunks a second"),
    )
    return _table(("measured", "is"), rows)


def _latencies() -> str:
    rows = [(f"{chunks:,}", f"{ms:.3g} ms") for chunks, ms in sorted(MEASURED.latency_ms)]
    slope = f"slope of their logarithms: {MEASURED.slope:.2f}"
    return _table(("chunks in one shard", "one question, median (measured)"), rows) + f"\nThe {slope}.\n"


def _sizes() -> str:
    head = (
        "chunks",
        "documents",
        "memory, int8",
        "memory, one bit",
        "disk",
        "shards",
        "nodes of 64 GB",
        "to index",
        "one question",
        "what was measured of the line",
    )
    return _table(head, [_row(chunks) for chunks in CHUNKS])


def _row(chunks: int) -> Sequence[str]:
    planned, smallest = (_planned(chunks, replace(CLUSTER, vector_index=kind)) for kind in ("int8_hnsw", "bbq_hnsw"))
    measured = chunks in dict(MEASURED.latency_ms) and planned.shards == 1
    return (
        f"{chunks:,}",
        f"{chunks // PER_DOCUMENT:,}",
        in_bytes(planned.vector_bytes),
        in_bytes(smallest.vector_bytes),
        in_bytes(planned.disk_bytes),
        f"{planned.shards:,}",
        f"{planned.nodes_for_memory:,}",
        in_hours(planned.hours),
        f"{planned.latency_ms:.3g} ms",
        "the question's time" if measured else "nothing: all is computed",
    )


def _planned(chunks: int, cluster: Cluster) -> SizePlan:
    return plan_size(Collection(documents=chunks // PER_DOCUMENT, chunks=chunks, dim=DIM), cluster, MEASURED)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (head, ["---"] + ["---:"] * (len(head) - 1), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def written(page: str) -> str:
    """Return the page with the tables as they are to be."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE.name} has no place for the tables: {BEGIN.strip()!r} … {END.strip()!r}")
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    fresh = written(page)
    if "--check" in sys.argv[1:]:
        sys.exit(None if fresh == page else f"{PAGE.name} is stale. Try: python scripts/write_sizes.py")
    PAGE.write_text(fresh, encoding="utf-8")

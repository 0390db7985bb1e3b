"""What one machine measured: the constants of `catena.server.sizing`; docs/past-one-machine.md says how."""

from __future__ import annotations

from catena.server.sizing import Costs

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

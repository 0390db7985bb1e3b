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
    indexed=450.0,
    latency_ms=((10_000, 39.2), (626_000, 56.8)),
)
"""Elasticsearch 9.5.3, one node and its client on two cores that other work shared (load 4 to 6).

Chunks of `similar_docs`, 347 characters on average, and look-alikes of them; vectors of 256 numbers as int8_hnsw. The
latency is that of "formula_one_request", the indexing that from 100,000 to 300,000 chunks. Preparing (Markdown) and
embedding (the shipped model) are chunks per second of processor time of one process.
"""

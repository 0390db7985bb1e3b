"""The benchmarks of entity finding and of fusion: equal data each time, peers that must agree, sizes of a choice."""

from __future__ import annotations

import pytest

from catena.model import EvaluationError
from catena_bench import search_speed
from catena_bench.search_speed import finding, fusion


def test_it_counts_what_it_finds_and_names_its_size() -> None:
    figures = finding(terms=200, chunks=20)
    assert (figures["terms"], figures["chunks"], figures["checked_chunks"]) == (200, 20, 20)
    assert 60 <= figures["matches"] <= 100  # four places a chunk, a term twice in one now and then
    assert all(value >= 0 for value in figures.values())
    assert figures["one_by_one.ratio_to_ours"] > 0


def test_an_engine_that_finds_something_else_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_speed, "_one_by_one", lambda terms: lambda normal: [])
    with pytest.raises(EvaluationError, match="one_by_one and ours differ at chunk 0"):
        finding(terms=20, chunks=2)


def test_fusion_is_measured_on_top_of_its_routes() -> None:
    figures = fusion(chunks=60, questions=2)
    assert figures["n_chunks"] >= 60
    methods = ("catena", "catena_with_completion", "ensemble_retriever", "query_fusion_retriever")
    for key in ("routes_ms", "entity_lookup_ms", *(f"overhead_ms.{method}" for method in methods)):
        assert 0 < figures[f"{key}.q1"] <= figures[key] <= figures[f"{key}.q3"]
    assert figures["overhead_ms.catena"] <= figures["overhead_ms.catena_with_completion"]
    ours = figures["overhead_ms.catena_with_completion"]
    assert figures["ratio.ensemble_retriever"] == pytest.approx(figures["overhead_ms.ensemble_retriever"] / ours)

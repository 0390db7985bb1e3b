"""The degradation bench: collections that grow, hold the gold, and are the same for equal seeds."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from catena.model import ParameterError
from catena_bench.collection import CollectionQuestion, SimilarDocuments, read_collection
from catena_bench.degradation import grown, run, sizes_for
from catena_bench.search_speed import fusion

TITLES = {
    "a": frozenset({"board", "hx210"}),
    "b": frozenset({"board", "hx210", "plus"}),
    "c": frozenset({"board", "kl7"}),
    "d": frozenset({"pump"}),
    "e": frozenset(),
}


def collection() -> SimilarDocuments:
    return SimilarDocuments(files={name: Path(name) for name in TITLES}, sections={}, questions=())


def question(*gold: str) -> CollectionQuestion:
    return CollectionQuestion(id="q", text="?", kind="field", gold=gold)


def test_sizes_are_powers_of_ten_and_all() -> None:
    assert sizes_for(1_430) == [1, 10, 100, 1_430]
    assert sizes_for(2_000) == [1, 10, 100, 1_000, 2_000]
    assert sizes_for(100) == [1, 10, 100]
    assert sizes_for(4) == [1, 4]
    assert sizes_for(1) == [1]


def test_gold_comes_first_and_then_the_next_look_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimilarDocuments, "documents_of", lambda self, question: frozenset(question.gold))
    order = grown(question("a"), collection(), TITLES, Random(1))
    assert order[:2] == ["a", "b"]
    assert sorted(order) == sorted(TITLES)
    assert grown(question("a"), collection(), TITLES, Random(1)) == order
    assert grown(question("d", "c"), collection(), TITLES, Random(1))[:2] == ["c", "d"]


def test_figures_of_boards(boards: Path) -> None:
    figures = run(boards)
    assert figures["n_documents"] == 4
    assert figures["n_judged"] == 4
    for system in ("full", "vector", "raw_bm25"):
        assert figures[f"recall.{system}.1"] == 1.0, "two chunks fit into the first five"
        for size in (1, 4):
            key = f"accuracy.{system}.{size}"
            assert 0 <= figures[f"{key}.low"] <= figures[key] <= figures[f"{key}.high"] <= 1
    assert figures["accuracy.full.4"] == 1.0, "each board's own hardware comes first"
    assert figures["accuracy.raw_bm25.4"] < 1.0, "the sections do not name their board"
    assert figures == run(boards)


def test_a_smaller_collection_never_returns_other_documents(boards: Path) -> None:
    with pytest.raises(ParameterError):
        run(boards, questions=0)
    assert len(read_collection(boards).files) == 4


def test_fusion_is_measured_on_top_of_its_routes() -> None:
    figures = fusion(chunks=60, questions=2)
    assert figures["n_chunks"] >= 60
    methods = ("catena", "catena_with_completion", "ensemble_retriever", "query_fusion_retriever")
    for key in ("routes_ms", "entity_lookup_ms", *(f"overhead_ms.{method}" for method in methods)):
        assert 0 < figures[f"{key}.q1"] <= figures[key] <= figures[f"{key}.q3"]
    assert figures["overhead_ms.catena"] <= figures["overhead_ms.catena_with_completion"]
    ours = figures["overhead_ms.catena_with_completion"]
    assert figures["ratio.ensemble_retriever"] == pytest.approx(figures["overhead_ms.ensemble_retriever"] / ours)

"""The look-alike benchmark on a collection made here: its figures are those that can be worked out by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from catena.evaluation import log_rank_index
from catena_bench.collection import CollectionQuestion, Judge, read_collection
from catena_bench.similar_docs import run
from conftest import needs_data


def test_figures_of_a_collection_that_is_easy(boards: Path) -> None:
    figures = run(boards)
    assert figures["n_documents"] == 4
    assert figures["n_chunks"] == 8
    assert figures["n_questions"] == 5
    assert figures["n_judged"] == 4
    assert figures["recall.fused"] == figures["recall.fused.field"] == 1.0
    assert figures["lri.fused"] == 1.0
    assert set(figures) >= {
        f"{metric}.{method}" for metric in ("recall", "lri") for method in ("lexical", "dense", "keyword", "fused")
    }
    others = ("raw_bm25", "cascade_bm25", "ensemble_retriever", "query_fusion_retriever")
    assert set(figures) >= {f"{metric}.{method}" for metric in ("recall", "lri") for method in others}
    assert set(figures) >= {f"recall.{method}_two_routes.field" for method in others[2:]}
    assert figures["recall.cascade_bm25"] == 1.0
    assert all(0 <= value <= 1 for key, value in figures.items() if "." in key)
    assert 0 < figures["query_ms_p50"] <= figures["query_ms_p95"]


def test_without_the_frameworks_their_figures_are_left_out_and_said_to_be(
    boards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "langchain_classic.retrievers", None)
    monkeypatch.delitem(sys.modules, "catena_bench.peers", raising=False)
    monkeypatch.delattr("catena_bench.peers", raising=False)
    told: list[str] = []
    figures = run(boards, tell=told.append)
    assert "recall.fused" in figures
    assert not [key for key in figures if "ensemble" in key or "query_fusion" in key]
    assert any("catena-bench[peers]" in message for message in told)


def test_a_section_counts_at_its_first_chunk_and_recall_looks_at_five_hits() -> None:
    question = CollectionQuestion(id="q", text="?", kind="x", gold=("s",))
    judge = Judge(items={"s": frozenset("bd")}, n=9)
    assert judge.log_rank(question, list("abcd")) == log_rank_index({"b"}, list("abcd"), n=9).value
    assert [judge.recall(question, list(ranked)) for ranked in ("acxyb", "acxyzb")] == [1.0, 0.0]


@pytest.mark.slow
def test_the_public_collection_is_read_whole() -> None:
    collection = read_collection(needs_data("similar_docs"))
    assert all(path.exists() for path in collection.files.values())
    assert all(name in collection.sections for question in collection.questions for name in question.gold)

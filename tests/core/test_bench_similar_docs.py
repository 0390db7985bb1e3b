"""The look-alike benchmark on a collection made here: its figures are those that can be worked out by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from catena_bench.collection import read_collection
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


def test_gold_of_another_document_is_a_miss(boards: Path, tmp_path: Path) -> None:
    """Every board has the same wiring text; each must be found in its own document."""
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "docs").symlink_to(boards / "docs")
    (copy / "documents.json").write_text((boards / "documents.json").read_text())
    texts = {path.stem: path.read_text() for path in (boards / "docs").glob("*.md")}
    sections = [
        {"section_id": f"x/{name}#wiring", "doc_id": f"x/{name}", "start": text.index("## Wiring"), "end": len(text)}
        for name, text in texts.items()
    ]
    questions = [
        {"qid": name, "question": f"Which wire does the Board {name.title()} need?", "gold": [f"x/{name}#wiring"]}
        for name in texts
    ]
    for name, rows in (("sections", sections), ("questions", questions)):
        (copy / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    figures = run(copy)
    assert figures["lri.fused.other"] == 1.0


@pytest.mark.slow
def test_the_public_collection_is_read_whole() -> None:
    collection = read_collection(needs_data("similar_docs"))
    assert all(path.exists() for path in collection.files.values())
    assert all(name in collection.sections for question in collection.questions for name in question.gold)

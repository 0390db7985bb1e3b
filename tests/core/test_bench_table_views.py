"""The benchmark of table views on tables whose truth is known, and on vectors whose products can be worked out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from written_rows import write_rows

from catena.effects import Services
from catena.model import ParameterError
from catena_bench.table_views import EmbeddedTable, TablePair, TableSet, collection_set, measured, run

DIRECTIONS = {
    "ask a": (1.0, 0.0), "ask b": (0.0, 1.0),
    "whole a": (0.6, 0.8), "whole b": (0.6, 0.8),
    "named a": (1.0, 0.0), "named b": (0.6, 0.8),
    "bare a": (0.8, 0.6), "bare b": (0.0, 1.0),
}  # fmt: skip


class Directions:
    """An embedder that looks its vectors up."""

    identity, dim = "directions", 2

    def embed_documents(self, texts: list[str]) -> np.ndarray:
        return np.array([DIRECTIONS[text] for text in texts], np.float32)

    def embed_query(self, text: str) -> np.ndarray:
        return np.array(DIRECTIONS[text], np.float32)


A, B = (
    EmbeddedTable(chunk_id=n, document_id=n, whole=f"whole {n}", definition=f"named {n}", bare=f"bare {n}")
    for n in "ab"
)
PAIRS = (TablePair(question="ask a", kind="x", table=A), TablePair(question="ask b", kind="y", table=B))


def test_figures_are_those_worked_out_by_hand() -> None:
    figures = measured(TableSet(pairs=PAIRS, tables=(A, B)), Services(embedder=Directions()))
    expected = {
        "product_before.x": 0.6, "product_after.x": 1.0, "product_after_bare.x": 0.8, "product_shift.x": 0.4,
        "product_before.y": 0.8, "product_after.y": 0.8, "product_shift.y": 0.0,
        "product_before": 0.7, "product_after": 0.9, "product_shift": 0.2, "product_shift_median": 0.2,
        "product_rises": 0.5, "product_p": 1.0,
        "margin_before.x": 0.0, "margin_after.x": 0.4, "margin_after_bare.x": 0.8,
        "margin_before.y": 0.0, "margin_after.y": 0.8, "margin_after_bare.y": 0.4,
        "margin_shift": 0.6, "margin_p": 0.5, "lead_shift": 0.6,
        "first_before": 0.0, "first_after": 1.0, "first_after_bare": 1.0,
    }  # fmt: skip
    assert {name: figures[name] for name in expected} == pytest.approx(expected)


def test_leaving_data_out_helps_questions_by_label_and_hurts_those_by_value() -> None:
    messages: list[str] = []
    figures = run(tell=messages.append)
    assert figures["generated.static.first_after.label"] > figures["generated.static.first_before.label"]
    assert figures["generated.static.first_after.value"] < figures["generated.static.first_before.value"]
    assert figures["generated.static.margin_p"] < 0.01
    assert figures["generated.n_pairs"] == 160
    assert figures["models_left_out"] in {0.0, 1.0}
    assert (figures["models_left_out"] == 1.0) == any("left out" in message for message in messages)


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """Three boards of one table each, in the published layout; a question about one, and one about two."""
    documents, sections = [], []
    for name in "abc":
        text = f"# Board {name}\n\n## Data\n\n| Key | Value |\n|---|---|\n| Clock | {ord(name)} MHz |\n"
        (tmp_path / f"{name}.md").write_text(text, newline="")
        documents.append({"doc_id": name, "path": f"{name}.md"})
        start = text.index("## Data")
        sections.append({"section_id": f"{name}#data", "doc_id": name, "start": start, "end": len(text)})
    questions = [
        {"qid": "1", "question": "Clock of Board a?", "gold": ["a#data"], "kind": "field"},
        {"qid": "2", "question": "Which is faster, a or b?", "gold": ["a#data", "b#data"], "kind": "compare"},
        {"qid": "3", "question": "Clock of Board z?", "gold": [], "kind": "none"},
    ]
    (tmp_path / "documents.json").write_text(json.dumps(documents))
    write_rows(tmp_path / "sections.jsonl", sections)
    return write_rows(tmp_path / "questions.jsonl", questions).parent


def test_a_collection_gives_a_pair_for_each_table_that_answers(collection: Path) -> None:
    chosen = collection_set(collection)
    assert [(pair.question, pair.table.document_id) for pair in chosen.pairs] == [
        ("Clock of Board a?", "a"),
        ("Which is faster, a or b?", "a"),
        ("Which is faster, a or b?", "b"),
    ]
    assert chosen.pairs[0].table.whole == "Board a › Data\n| Key | Value |\n|---|---|\n| Clock | 97 MHz |"
    assert chosen.pairs[0].table.definition == "Board a › Data\nKey, Value\nClock"
    assert len(chosen.tables) == 3
    fewer = collection_set(collection, most_tables=2)
    assert {table.document_id for table in fewer.tables} == {"a", "b"}
    figures = run(collection, questions=1)
    assert figures["collection.n_pairs"] == 3
    assert 0 < figures["collection.words_kept"] < 1
    assert {f"collection.static.margin_after_bare.{kind}" for kind in ("field", "compare")} <= figures.keys()


def test_what_cannot_be_measured_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"documents\.json, sections\.jsonl and questions\.jsonl"):
        run(tmp_path)
    with pytest.raises(ParameterError, match="most_tables must be a number >= 2, got 1"):
        run(most_tables=1)

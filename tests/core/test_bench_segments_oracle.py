"""The benchmark against reference numbers: the shared file, any file of its layout, and files that are not."""

from __future__ import annotations

import json
from math import exp
from pathlib import Path
from typing import Any

import pytest

from catena.model import EvaluationError
from catena_bench.segments_oracle import run
from conftest import needs_data

VALUE = (0.9 * exp(-1 / 30) - 0.2) * 2  # rank 1, 1,400 characters
FOUND = ((1, 0, 700), (0, 2, 1400))  # document, chunk, characters
CASE: dict[str, Any] = {
    "name": "two-documents",
    "params": {"max_length": 3, "overall_max_length": 4, "minimum_value": 0.5, "irrelevant_chunk_penalty": 0.2},
    "ranked_results": [[{"doc": doc, "chunk": at, "similarity": 0.9, "length": n} for doc, at, n in FOUND]],
    "expected": {
        "document_order": [0, 1],
        "document_splits": [3, 4],
        "relevance_values": [[-0.2, -0.2, VALUE, 0.7]],
        "segments": [[2, 3], [3, 4]],
        "scores": [VALUE, 0.7],
    },
}


def written(folder: Path, **content: Any) -> Path:
    path = folder / "numbers.json"
    path.write_text(json.dumps(content))
    return path


def test_the_reference_numbers_come_out() -> None:
    figures = run(needs_data("segments_oracle.json"))
    assert (figures["cases"], figures["mismatches"], figures["optimal.worse"]) == (28, 0, 0)
    assert max(figures["max_score_error"], figures["max_value_error"], figures["max_length_error"]) <= 1e-9
    assert figures["max_beta_error"] <= 1e-12
    assert figures["optimal.mean_gain"] > 0


def test_what_differs_is_counted_and_told(tmp_path: Path) -> None:
    told: list[str] = []
    wrong = CASE["expected"] | {"segments": [[2, 4]], "scores": [9.0]}
    figures = run(written(tmp_path, cases=[CASE | {"expected": wrong}]), tell=told.append)
    assert figures["mismatches"] >= 1
    assert figures["max_score_error"] > 1
    assert any("two-documents" in line and "differ" in line for line in told)
    json.dumps(figures, allow_nan=False)


def test_with_ties_only_the_sums_count(tmp_path: Path) -> None:
    bounds = {"max_length": 1, "overall_max_length": 1, "minimum_value": 0.5}
    given = {"name": "ties", "relevance_values": [[0.6, -1.0, 0.6]], "document_splits": [3], **bounds}
    for ties, mismatches in ((False, 1), (True, 0)):
        direct = given | {"segments": [[2, 3]], "scores": [0.6], "has_ties": ties}
        assert run(written(tmp_path, direct_best_segments=[direct]))["mismatches"] == mismatches


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"cases": [{"name": "x"}]}', '{"cases": [3]}', '{"beta_transform": 3}']
)
def test_a_file_of_another_layout_is_an_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(EvaluationError):
        run(path)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="no file of reference numbers"):
        run(tmp_path)

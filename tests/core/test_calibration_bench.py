"""The calibration benchmark: it reads any collection of its layout, and what it prints is what is drawn."""

from __future__ import annotations

import gzip
import json
from itertools import product
from math import pi, sqrt
from pathlib import Path

import numpy as np
import pytest

from catena.model import ParameterError
from catena_bench import calibration
from catena_bench.pictures import PICTURES

ANIMALS = ("otter", "heron", "badger", "lynx", "marten", "stork")
HABITS = ("eats fish at dawn", "sleeps in a hollow tree", "raises three young a year", "crosses the river in spring")


@pytest.fixture
def collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(calibration, "COUNTS", (500,))
    monkeypatch.setattr(calibration, "DRAWS", 2)
    monkeypatch.setattr(calibration, "ROUNDS", 20)
    for split, ending, packed in (("train", ".gz", gzip.compress), ("dev", "", bytes)):
        corpus, questions = [], []
        for number, (animal, habit) in enumerate(product(ANIMALS, HABITS)):
            name = f"{split}-{number}"
            corpus.append(json.dumps({"id": name, "title": animal, "text": f"The {animal} {habit}."}))
            question = f"Which animal {habit}: the {animal}?"
            questions.append(json.dumps({"id": str(number), "question": question, "supporting": [name]}))
        for part, rows in (("corpus", corpus), ("questions", questions)):
            (tmp_path / f"{split}_{part}.jsonl{ending}").write_bytes(packed("\n".join(rows).encode()))
    return tmp_path


@pytest.mark.slow
def test_a_fit_on_one_split_is_judged_on_the_other_and_drawn(collection: Path, tmp_path: Path) -> None:
    told: list[str] = []
    figures = calibration.run(collection, depth=8, tell=told.append)
    assert figures["n_scores.dev"] == 24 * 8
    assert figures["share_relevant.dev"] == pytest.approx(1 / 8, abs=0.02)
    assert figures["ece.labelled"] < figures["ece.raw"]
    assert figures["log_loss.labelled"] < figures["log_loss.share"]
    assert figures["ece.raw.low"] <= figures["ece.raw"] <= figures["ece.raw.high"] + 0.05
    assert sum(value for key, value in figures.items() if key.startswith("bin.raw.") and key.endswith(".n")) == 192
    assert any("embedding 24 paragraphs" in line for line in told)
    assert calibration.run(collection, depth=8) == figures
    PICTURES["calibration"](figures, tmp_path / "reliability.html")
    page = (tmp_path / "reliability.html").read_text(encoding="utf-8")
    assert all(f"expected calibration error {figures[f'ece.{way}']:.4f}" in page for way in ("raw", "labelled"))


def test_without_a_collection_only_synthetic_scores_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "COUNTS", (20_000,))
    monkeypatch.setattr(calibration, "DRAWS", 2)
    figures = calibration.run()
    assert set(figures) == {f"recovery.{name}.20000" for name in ("worst", "median", "close", "bound")}
    assert figures["recovery.close.20000"] == 1.0


def test_the_least_error_of_uniform_scores_by_hand() -> None:
    rest = pi**2 / 6 - 1  # the trigamma function at 2; at 1 it is 1 more, so the information is n [[1, -r], [-r, 1]]
    assert calibration._least_error(1.0, 1.0, 100) == pytest.approx(sqrt(1 / (1 - rest**2) / 100))


@pytest.mark.parametrize("name", ["dev_corpus.jsonl", "train_questions.jsonl.gz"])
def test_files_of_another_layout_are_named(collection: Path, name: str) -> None:
    (collection / name).unlink()
    with pytest.raises(ParameterError, match=name.removesuffix(".gz")):
        calibration.run(collection)
    (collection / name).write_bytes(b'{"id": "x"}\n')
    with pytest.raises(ParameterError, match=name.partition("_")[0]):
        calibration.run(collection)


def test_the_nearest_paragraphs_are_scored_and_depth_must_be_positive(collection: Path) -> None:
    dev = calibration._scored(collection, "dev", 3, lambda message: None)
    assert (np.diff(dev.scores) <= 0).all()
    assert dev.relevant.any(axis=1).mean() > 0.9
    with pytest.raises(ParameterError, match="depth"):
        calibration.run(depth=0)

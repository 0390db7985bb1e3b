"""`catena calibrate`: a library's fused scores become probabilities, told, kept and drawn."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from cli_calls import call, plain, refused, value

from catena.library import Library
from catena.model import CalibrationError, Scale
from catena.segments import fused_scores_of, load
from catena.segments.calibration import calibrated

NAMES = [f"{letters}{number}" for letters in ("HX", "KL", "MT", "QZ") for number in (110, 120, 130)]
PARTS = ("seal", "wire", "lamp", "valve")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibrate")
    for name in NAMES:
        parts = "".join(f"## The {part}\n\nReplace the {part} of the {name} once a year.\n\n" for part in PARTS)
        (folder / f"{name}.md").write_text(f"# Pump {name}\n\n{parts}")
    rows = []
    for name, part in product(NAMES, PARTS[:2]):
        gold = {"document": f"{name}.md", "heading": f"The {part}"}
        rows.append(json.dumps({"question": f"When is the {part} of the {name} replaced?", "gold": gold}))
    (folder / "questions.jsonl").write_text("\n".join(rows))
    (folder / "few.jsonl").write_text(rows[0])
    with Library.open(folder / "library") as opened:
        opened.index(folder / f"{name}.md" for name in NAMES)
    return folder


def test_a_calibration_is_fitted_told_kept_drawn_and_used(folder: Path, tmp_path: Path) -> None:
    kept, drawn = tmp_path / "calibration.json", tmp_path / "reliability.html"
    asked = ("calibrate", folder / "library", folder / "questions.jsonl", "--depth", 20, "--date", "2026-11-21")
    done = call(*asked, "--out", kept, "--plot", drawn)
    assert all(part in done.stdout for part in ("24 questions", "5 folds", "calibrated"))
    assert done.stderr.count("written:") == 2
    assert "fused scores, as they are: expected calibration error" in drawn.read_text(encoding="utf-8")
    with Library.open(folder / "library", create=False) as opened:
        artefact = load(kept, model=fused_scores_of(opened.stats().embedder))
        found = opened.search("When is the seal of the HX110 replaced?", k=20, by_name=False)
    assert artefact.date == "2026-11-21"
    assert artefact.fit.after.log_loss < artefact.fit.before.log_loss  # type: ignore[union-attr]
    ranking = calibrated(found, artefact.calibration)
    assert ranking.scale is Scale.PROBABILITY
    assert [hit.chunk for hit in ranking.hits] == [hit.chunk for hit in found.hits]
    assert ranking.hits[0].score > ranking.hits[-1].score
    with pytest.raises(CalibrationError, match="fitted to scores of"):
        load(kept, model="another")
    again = tmp_path / "again.json"
    assert value(*asked, "--out", again) == json.loads(again.read_text(encoding="utf-8"))
    assert again.read_bytes() == kept.read_bytes()


@pytest.mark.parametrize(
    ("questions", "options", "named"),
    [
        ("few.jsonl", ["--depth", "30"], "at least 5 relevant"),
        ("few.jsonl", ["--depth", "3"], "at least 20"),
        ("questions.jsonl", ["--plot", "a.gif"], "neither .png nor .html"),
        ("questions.jsonl", ["--out", "nowhere/a.json"], "its folder is not there"),
        ("none.jsonl", [], "cannot read none.jsonl"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_message(folder: Path, questions: str, options: list[str], named: str):
    said = plain(refused("calibrate", folder / "library", folder / questions, *options))
    assert named in said
    assert "Try: " in said

"""`catena calibrate`: a library's fused scores become probabilities, told, kept and drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from catena.cli.app import app
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
    rows = [
        {
            "question": f"When is the {part} of the {name} replaced?",
            "gold": {"document": f"{name}.md", "heading": f"The {part}"},
        }
        for name in NAMES
        for part in PARTS[:2]
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "few.jsonl").write_text(json.dumps(rows[0]) + "\n")
    with Library.open(folder / "library") as opened:
        opened.index(folder / f"{name}.md" for name in NAMES)
    return folder


def catena(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout, done.stderr


def test_a_calibration_is_fitted_told_kept_drawn_and_used(folder: Path, tmp_path: Path) -> None:
    kept, drawn = tmp_path / "calibration.json", tmp_path / "reliability.html"
    code, told, noted = catena(
        "calibrate", folder / "library", folder / "questions.jsonl", "--out", kept, "--plot", drawn, "--depth", 20,
        "--date", "2026-11-21",
    )  # fmt: skip
    assert code == 0, noted
    assert all(part in told for part in ("24 questions", "5 folds", "calibrated"))
    assert noted.count("written:") == 2
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
    given = ["--out", again, "--depth", 20, "--date", "2026-11-21", "--json"]
    code, told, _ = catena("calibrate", folder / "library", folder / "questions.jsonl", *given)
    assert (code, json.loads(told)) == (0, json.loads(again.read_text(encoding="utf-8")))
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
def test_what_cannot_be_done_is_said_in_one_message(
    folder: Path, questions: str, options: list[str], named: str
) -> None:
    code, told, noted = catena("calibrate", folder / "library", folder / questions, *options)
    assert (code, told) == (2, "")
    assert named in noted.replace("\n", " ")
    assert "Try: " in noted
    assert "Traceback" not in noted

"""The training of the shipped scorer: what it learns from, that it is the same twice, and that the bench takes it."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest
from bench_graph_case import Letters, write_split
from typer.testing import CliRunner

from catena.graph import FeatureScorer, FeatureTraining
from catena.model import ParameterError
from catena_bench.graph_cli import app

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "train_walk_scorer.py"
NAMES = runpy.run_path(str(SCRIPT))
collections, lesson, trained = (NAMES[name] for name in ("collections", "lesson", "trained"))
FEW = FeatureTraining(networks=2, epochs=2)


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """Two collections with a train split, one without, and a file beside them."""
    data = tmp_path / "several"
    data.mkdir()
    write_split(data / "boats", "train")
    write_split(data / "towns", "train")
    write_split(data / "towns", "dev")
    write_split(data / "untaught", "dev")
    (data / "README.md").write_text("About these.")
    return data


def silent(message: str) -> None:
    """Tell nobody."""


def test_collections_are_discovered_and_can_be_left_out(several: Path) -> None:
    assert [place.name for place in collections(several)] == ["boats", "towns"]
    assert [place.name for place in collections(several, ["boats"])] == ["towns"]
    assert collections(several / "towns") == (several / "towns",)
    for data, without in (
        (several, ["untaught"]),
        (several, ["boats", "towns"]),
        (several / "untaught", []),
        (several / "nowhere", []),
    ):
        with pytest.raises(ParameterError):
            collections(data, without)


def test_a_scorer_is_trained_the_same_twice_and_says_on_what(several: Path) -> None:
    places = collections(several)
    one, other = (
        trained([lesson(place, Letters(), None, silent) for place in places], FEW, note="ours", tell=silent)
        for _ in range(2)
    )
    assert one.identity == other.identity
    assert one.record == other.record == json.loads(json.dumps(dict(one.record)))
    assert one.record["collections"]["boats train"] == {"questions": 4, "passages": 6}
    assert (one.record["embedders"], one.record["note"]) == (["letters"], "ours")
    assert one.record["options"]["networks"] == 2
    alone = trained([lesson(places[0], Letters(), None, silent)], FEW, note="ours", tell=silent)
    assert alone.record["choices"] < one.record["choices"]
    assert alone.identity != one.identity
    again = trained([lesson(places[0], Letters(), None, silent)], FEW, note="", tell=silent)
    assert again.identity == alone.identity


@pytest.mark.slow
def test_the_script_writes_a_file_that_the_bench_takes(
    several: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # the script sets them for its own process
    files = [tmp_path / f"{number}.safetensors" for number in range(2)]
    for file in files:
        arguments = ["--data", str(several), "--networks", "2", "--embedder", "static", "--leave-out", "boats"]
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(file), *arguments])
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert files[0].read_bytes() == files[1].read_bytes()
    scorer = FeatureScorer.load(files[0])
    assert list(scorer.record["collections"]) == ["towns train"]
    assert scorer.identity in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(files[0]), "--data", str(several / "untaught")])
    with pytest.raises(SystemExit, match="error: "):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    command = ["--data", str(several / "towns"), "--methods", "walk,scorer_only,walk_untrained,hybrid"]
    result = CliRunner().invoke(app, [*command, "--scorer", str(files[0])], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert {"walk_ms_p50", "recall_at_5.walk", "difference.recall_at_5.walk-scorer_only"} <= figures.keys()
    lost = CliRunner().invoke(app, [*command, "--scorer", str(tmp_path / "nowhere")])
    assert (lost.exit_code, "Traceback" in lost.output) == (2, False)

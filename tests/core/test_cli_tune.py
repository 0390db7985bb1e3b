"""`catena tune`: weights chosen, told and kept; and `catena search` that takes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from catena.cli.app import app
from catena.library import Library

NAMES = ("HX210", "HX220", "KL7", "KL8", "MT100", "MT200")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tune")
    for name in NAMES:
        text = f"# Pump {name}\n\n## Service\n\nReplace the seal once a year.\n\n## Wiring\n\nUse the red wire.\n"
        (folder / f"{name}.md").write_text(text)
    rows = [
        {
            "id": name,
            "question": f"When is the seal of the {name} replaced?",
            "gold": {"document": f"{name}.md", "heading": "Service"},
        }
        for name in NAMES
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Library.open(folder / "library") as opened:
        opened.index(folder / f"{name}.md" for name in NAMES)
    return folder


def catena(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.slow
def test_weights_are_chosen_told_kept_and_used(library: Path, tmp_path: Path) -> None:
    kept = tmp_path / "tuned.json"
    code, told, _ = catena("tune", library / "library", library / "questions.jsonl", "--folds", 3, "--out", kept)
    assert code == 0
    assert "6 questions in 6 groups" in told
    assert "alpha 0.65 and beta 0.3 stay" in " ".join(told.split())
    assert "by the shape of this library" in told
    written = json.loads(kept.read_text())
    assert written["model"]
    assert (written["questions"], written["adopted"]) == (6, False)

    question = "seal of the KL7"
    code, found, _ = catena("search", question, "-l", library / "library", "--tuned", kept, "--json")
    assert code == 0
    usual = catena("search", question, "-l", library / "library", "--json")[1]
    assert json.loads(found) == json.loads(usual)


@pytest.mark.slow
def test_the_shape_of_the_library_decides_where_asked(library: Path) -> None:
    question = "when is the seal replaced"
    code, found, _ = catena("search", question, "-l", library / "library", "--adapted", "--json")
    assert code == 0
    by_hand = catena("search", question, "-l", library / "library", "--alpha", 0.65, "--beta", 0.426, "--json")[1]
    scores = [[hit["score"] for hit in json.loads(told)["hits"]] for told in (found, by_hand)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3), "six documents of one page, with a title and chapters"


def test_json(library: Path) -> None:
    code, told, _ = catena("tune", library / "library", library / "questions.jsonl", "--folds", 2, "--json")
    assert code == 0
    told = json.loads(told)
    assert told["tuned"]["objective"] == "log-rank"
    assert 0.5 <= told["adapted"]["alpha"] <= 0.7


@pytest.mark.slow
def test_weights_of_another_model_and_two_ways_at_once_are_refused(library: Path, tmp_path: Path) -> None:
    kept = tmp_path / "tuned.json"
    catena("tune", library / "library", library / "questions.jsonl", "--folds", 2, "--out", kept)
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "model": "another"}))
    code, _, problem = catena("search", "seal", "-l", library / "library", "--tuned", kept)
    assert code == 2
    assert "'another'" in problem
    code, _, problem = catena("search", "seal", "-l", library / "library", "--tuned", kept, "--alpha", "0.5")
    assert code == 2
    assert "one of them" in problem
    code, _, problem = catena("search", "seal", "-l", library / "library", "--adapted", "--route", "dense")
    assert code == 2
    assert "only one" in problem


def test_too_few_questions_for_the_folds(library: Path) -> None:
    code, _, problem = catena("tune", library / "library", library / "questions.jsonl", "--folds", 7)
    assert code == 2
    assert "fewer folds" in problem


def test_weights_that_could_not_be_kept_are_not_looked_for(library: Path, tmp_path: Path) -> None:
    target = tmp_path / "none" / "weights.json"
    code, found, problem = catena("tune", library / "library", library / "questions.jsonl", "--out", target)
    assert (code, found) == (2, "")
    assert "its folder is not there" in problem

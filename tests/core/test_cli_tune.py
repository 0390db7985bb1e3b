"""`catena tune`: weights chosen, told and kept; and `catena search` that takes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_calls import call, plain, refused, value

from catena.library import Library

NAMES = ("HX210", "HX220", "KL7", "KL8", "MT100", "MT200")


@pytest.fixture(scope="module")
def tune(tmp_path_factory: pytest.TempPathFactory) -> list[Path | str]:
    """Return the command line that tunes a library of six pumps by a question about each."""
    folder = tmp_path_factory.mktemp("tune")
    rows = []
    for name in NAMES:
        text = f"# Pump {name}\n\n## Service\n\nReplace the seal once a year.\n\n## Wiring\n\nUse the red wire.\n"
        (folder / f"{name}.md").write_text(text)
        gold = {"document": f"{name}.md", "heading": "Service"}
        rows.append({"id": name, "question": f"When is the seal of the {name} replaced?", "gold": gold})
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Library.open(folder / "library") as opened:
        opened.index(folder / f"{name}.md" for name in NAMES)
    return ["tune", folder / "library", folder / "questions.jsonl"]


def test_weights_are_chosen_told_kept_and_used_for_their_own_model_alone(tune, tmp_path: Path) -> None:
    kept = tmp_path / "tuned.json"
    told = call(*tune, "--folds", 2, "--out", kept).stdout
    for part in ("6 questions in 6 groups", "alpha as routes agree and beta 0.1 stay", "chosen: alpha"):
        assert part in plain(told)
    written = json.loads(kept.read_text())
    assert (written["questions"], written["adopted"], bool(written["model"])) == (6, False, True)
    search = ("search", "seal of the KL7", "-l", tune[1])
    assert value(*search, "--tuned", kept) == value(*search)
    kept.write_text(json.dumps({**written, "model": "another"}))
    assert "'another'" in refused(*search, "--tuned", kept)
    told = value(*tune, "--folds", 2)
    assert told["tuned"]["objective"] == "log-rank"
    assert "fewer folds" in refused(*tune, "--folds", 7)

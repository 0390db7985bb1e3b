"""No command writes over a file that it reads, under whatever name the file is given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from catena.cli.app import app

PAGE = "<html><body><h1>Note</h1><p>A sentence.</p></body></html>"
QUESTIONS = '{"question": "What?", "gold": {"document": "note.md", "text": "sentence"}}\n'
READ = ("mine.html", "note.md", "bank.html", "mine-2.html")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in READ:
        Path(name).write_text(QUESTIONS if name == "bank.html" else PAGE)
    Path("folder").mkdir()
    Path("link.md").symlink_to("mine.html")
    os.link("mine.html", "other.md")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        "parse mine.html --out mine.html",
        "parse mine.html --out folder/../mine.html",
        "parse mine.html --out link.md",
        "parse link.md --out mine.html",
        "parse mine.html --out other.md",
        "parse mine.html note.md --out .",
        "parse mine.html note.md --llm m --fidelity note.md",
        "parse mine.html --llm m --fidelity-plot mine.html",
        "parse note.md mine-2.html --llm m --fidelity-plot mine.html",
        "tune lib bank.html --out bank.html",
        "calibrate lib bank.html --out bank.html",
        "calibrate lib bank.html --plot folder/../bank.html",
        "evaluate lib bank.html --plot bank.html",
        "evaluate lib bank.html --curve bank.html",
        "report what? --library lib --questions bank.html --out bank.html",
        "report what? --library lib --fidelity mine.html --out mine.html",
        "graph train lib bank.html --output bank.html",
        "graph train lib bank.html --output scorer --picture bank.html",
    ],
)
def test_an_input_is_never_an_output(place: Path, words: str) -> None:
    before = {name: Path(name).read_bytes() for name in READ}
    result = CliRunner().invoke(app, words.split())
    assert result.exit_code == 2, result.output
    assert "is read by this command, and would be overwritten" in result.stderr
    assert "Try: another name for what is written" in result.stderr
    assert {name: Path(name).read_bytes() for name in READ} == before


def test_what_an_earlier_run_wrote_is_replaced(place: Path) -> None:
    Path("out.md").write_text("old")
    assert CliRunner().invoke(app, ["parse", "mine.html", "--out", "out.md"]).exit_code == 0
    assert Path("out.md").read_text().startswith("# Note")

"""What a person sees of the command line: progress with rates, guesses, what is kept, exit codes; no secrets."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from doc_blocks import ROOT
from typer.testing import CliRunner

from catena.cli import doctor
from catena.cli.app import app
from catena.cli.progress import LINE_SECONDS, RunState, counted, progress
from catena.model import MissingExtraError
from catena.testing import FakeClock

CATENA = [sys.executable, "-c", "from catena.cli import main; main()"]


def test_a_line_tells_how_many_how_fast_and_how_long_it_will_take() -> None:
    for noun, total, completed, seconds, line in (
        ("files", 40, 0, 1.0, "indexing: 0/40 files, 0:01 so far"),
        ("files", 40, 10, 5.0, "indexing: 10/40 files, 2.0/s, 0:15 left, 0:05 so far"),
        ("files", 40, 40, 2.0, "indexing: 40/40 files, 20/s, 0:02 so far"),
        ("files", 4_000, 10, 100.0, "indexing: 10/4,000 files, 6.0/min, 11:05:00 left, 1:40 so far"),
        ("files", None, 10, 5.0, "indexing: 10/? files, 2.0/s, 0:05 so far"),
        ("", 200, 50, 5.0, "indexing: 25%, 0:15 left, 0:05 so far"),
        ("", None, 0, 5.0, "indexing: 0:05 so far"),
    ):
        clock = FakeClock()
        state = RunState("indexing", noun, total, clock=clock.now)
        clock.sleep(seconds)
        state.completed = completed
        assert state.line() == line


def test_where_nobody_looks_a_line_comes_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = FakeClock()
    monkeypatch.setattr("catena.cli.progress.RunState.__init__.__kwdefaults__", {"clock": clock.now})
    for _ in counted(range(25), "asking", "questions"):
        clock.sleep(1.0)
    told = capsys.readouterr()
    assert told.out == ""
    assert LINE_SECONDS == 10.0
    assert told.err.splitlines() == [
        "asking: 10/25 questions, 1.0/s, 0:15 left, 0:10 so far",
        "asking: 20/25 questions, 1.0/s, 0:05 left, 0:20 so far",
    ]


def test_what_ends_at_once_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("asking", "questions", 1) as tell:
        tell(completed=1, notes="kept", what="asking again", total=1)
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize("option", ["", "--json", "NO_COLOR"])
def test_a_person_sees_a_bar_with_rate_and_remaining_time_and_a_program_none(tmp_path: Path, option: str) -> None:
    for at in range(30):
        (tmp_path / f"{at:02}.md").write_text(f"# File {at}\n\n## Torque\n\nTighten it to {at} N·m.\n")
    arguments = ["index", str(tmp_path), "-l", str(tmp_path / "lib"), *([option] if option.startswith("-") else [])]
    shown = seen(arguments, {"NO_COLOR": "1"} if option == "NO_COLOR" else {})
    if option == "--json":
        assert "indexing" not in shown
        return
    assert all(part in shown for part in ("indexing", "/30 files · ", "/s", "chunks/s"))
    assert ("\x1b[3" in shown) == (option == "")  # colours


def seen(arguments: list[str], environment: dict[str, str]) -> str:
    """Return what a command writes to stderr, where that is a terminal of 120 columns."""
    import pty
    import subprocess

    reading, writing = pty.openpty()
    running = subprocess.Popen(
        [*CATENA, *arguments], stdout=subprocess.DEVNULL, stderr=writing, stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", **environment},
    )  # fmt: skip
    os.close(writing)
    parts: list[bytes] = []
    with suppress(OSError):  # the other end is closed
        while part := os.read(reading, 65_536):
            parts.append(part)
    os.close(reading)
    assert running.wait(60) == 0
    return b"".join(parts).decode("utf-8", "replace")


def test_the_doctor_knows_every_extra_and_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "packages/catena/pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    own = {
        found[1]: doctor.EXTRAS[name] for name in doctor.EXTRAS if (found := re.match(r"catena-core\[(.*)\]", name))
    }
    assert sorted(own) == sorted(extras), "name each extra of pyproject.toml in doctor.EXTRAS"
    for extra, (package, _) in own.items():
        assert any(re.match(rf"{re.escape(package)}\b", each) for each in extras[extra]), f"{extra} has no {package}"
    monkeypatch.setattr(doctor, "_version", lambda package: None)
    monkeypatch.setattr(doctor, "_tried", lambda name, work: doctor.Check("work", name, "ok", ""))
    shown = CliRunner().invoke(app, ["doctor", "--json"]).stdout
    assert all(f"pip install './packages/catena[{extra}]'" in shown for extra in extras)
    monkeypatch.setattr("importlib.metadata.PathDistribution.read_text", lambda *_: None)  # as from an index
    assert str(MissingExtraError("torch", "catena-core[train]")).endswith("Try: pip install 'catena-core[train]'")

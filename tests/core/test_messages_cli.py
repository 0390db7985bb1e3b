"""What a person sees of the command line: progress with rates, guesses, what is kept, exit codes; no secrets."""

from __future__ import annotations

import os
import re
import select
import sys
import tomllib
from pathlib import Path

import pytest
from doc_blocks import ROOT
from typer.testing import CliRunner

import catena
from catena.cli import doctor
from catena.cli.app import app
from catena.cli.console import PLAIN
from catena.cli.doctor import catalogue, explain_error
from catena.cli.progress import LINE_SECONDS, RunState, counted, progress
from catena.model import BudgetExceededError, CatenaError

CATENA = [sys.executable, "-c", "from catena.cli import main; main()"]


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("noun", "total", "completed", "seconds", "line"),
    [
        ("files", 40, 0, 1.0, "indexing: 0/40 files, 0:01 so far"),
        ("files", 40, 10, 5.0, "indexing: 10/40 files, 2.0/s, 0:15 left, 0:05 so far"),
        ("files", 40, 40, 2.0, "indexing: 40/40 files, 20/s, 0:02 so far"),
        ("files", 4_000, 10, 100.0, "indexing: 10/4,000 files, 6.0/min, 11:05:00 left, 1:40 so far"),
        ("files", None, 10, 5.0, "indexing: 10/? files, 2.0/s, 0:05 so far"),
        ("", 200, 50, 5.0, "indexing: 25%, 0:15 left, 0:05 so far"),
        ("", None, 0, 5.0, "indexing: 0:05 so far"),
    ],
)
def test_a_line_tells_how_many_how_fast_and_how_long_it_will_take(
    noun: str, total: int | None, completed: int, seconds: float, line: str
) -> None:
    clock = Clock()
    course = RunState("indexing", noun, total, clock=clock)
    clock.now, course.completed = seconds, completed
    assert course.line() == line


def test_where_nobody_looks_a_line_comes_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr("catena.cli.progress.RunState.__init__.__kwdefaults__", {"clock": clock})
    for _ in counted(range(25), "asking", "questions"):
        clock.now += 1.0
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
    assert "indexing" in shown
    assert "/30 files · " in shown
    assert "/s" in shown
    assert "chunks/s" in shown
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
    while running.poll() is None or select.select([reading], [], [], 0)[0]:
        if select.select([reading], [], [], 0.05)[0]:
            try:
                parts.append(os.read(reading, 65_536))
            except OSError:  # the other end is closed
                break
    os.close(reading)
    assert running.wait(60) == 0
    return b"".join(parts).decode("utf-8", "replace")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CATENA_LIBRARY", raising=False)
    (tmp_path / "note.md").write_text("# Note\n\nA sentence.\n")
    with catena.Library.open("lib") as library:
        library.index(["note.md"])
    return tmp_path


def ended(*arguments: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(app, list(arguments))
    assert "Traceback" not in result.output
    return result.exit_code, result.stderr.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("serach", "x"), "Did you mean 'search'?"),
        (("graph", "bild", "lib"), "Did you mean 'build'?"),
        (("search", "x", "-l", "lib", "--route", "lexcial"), "Did you mean 'lexical'?"),
        (("parse", "note.md", "--engine", "pypdfum"), "Did you mean 'pypdfium2'?"),
        (("search", "x", "-l", "lib", "--where", '{"a": {"$lke": 1}}'), "Did you mean '$lte'?"),
        (("delete", "notes.md", "-l", "lib"), "Did you mean 'note.md'?"),
        (("explain-error", "ParesError"), "Did you mean 'ParseError'?"),
        (("search", "x", "-l", "lib", "--rout", "dense"), "--route"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_nearest(place: Path, arguments: tuple[str, ...], told: str) -> None:
    code, lines = ended(*arguments)
    assert code == 2
    assert told in "\n".join(lines)
    assert lines[-1].startswith("Try: ")


def test_our_errors_say_what_is_kept_and_where_they_are_explained(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = ended("search", "x", "-l", "lib", "--where", '{"a": {"$like": 1}}')
    assert code == 2
    assert [line.partition(":")[0] for line in lines] == ["Error", "Kept", "See", "Try"]
    assert lines[2] == "See: catena explain-error FilterError"
    result = CliRunner().invoke(app, ["explain-error", "FilterError"])
    assert result.exit_code == 0
    for section in catalogue():
        explain_error(section.name)
        shown = capsys.readouterr().out
        assert shown.startswith(f"{section.name}\n")
        assert section.kept.split()[0] in shown
        assert section.name != "FilterError" or shown == result.stdout


def test_a_damaged_library_and_a_cap_that_is_reached_have_codes_of_their_own(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "lib" / "library.sqlite").write_bytes(b"no database " * 1_000)
    assert ended("status", "-l", "lib")[0] == 4

    def spent(*_: object, **__: object) -> None:
        raise BudgetExceededError(1.0, 0.9, "'titles'")

    monkeypatch.setattr("catena.library.Library.open", spent)
    code, lines = ended("search", "x", "-l", "lib")
    assert code == 3
    assert lines[-1] == "Try: a higher cap; the run continues where it stopped"


@pytest.mark.parametrize(
    ("arguments", "kept", "again"),
    [
        (("index", "note.md", "-l", "lib"), "what was written to a library is kept", "is skipped"),
        (("search", "x", "-l", "lib"), "libraries are whole, and as they were", "it begins anew"),
    ],
)
def test_ctrl_c_promises_only_what_the_next_run_will_do(
    place: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], kept: str, again: str
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("catena.library.Library.open", stopped)
    code, lines = ended(*arguments)
    assert code == 130
    assert lines[0] == f"Stopped: {kept}"
    assert lines[1].startswith("Try: the same command again: ")
    assert lines[1].endswith(again)


def test_an_unforeseen_error_shows_no_secret_and_no_path_that_nobody_typed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-" + "a1" * 12

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError(f"api_key={secret} of /home/someone/private/settings.toml, {place / 'lib'} and a/b")

    monkeypatch.setattr("catena.library.Library.open", fails)
    monkeypatch.setattr(sys, "argv", ["catena", "search", "x", f"--library={place / 'lib'}"])
    code, lines = ended("search", "x", "-l", str(place / "lib"))
    assert code == 2
    assert lines[0] == f"Error: RuntimeError: api_key=*** of …/settings.toml, {place / 'lib'} and a/b"
    result = CliRunner().invoke(app, ["-v", "search", "x", "-l", "lib"])
    assert "Traceback" in result.stderr
    assert secret not in result.output


def test_an_error_of_someone_else_has_no_section_and_still_says_what_is_kept(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TheirError(CatenaError):
        """Raised by a plug-in."""

    def fails(*_: object, **__: object) -> None:
        raise TheirError("their part failed")

    monkeypatch.setattr("catena.library.Library.open", fails)
    _, lines = ended("search", "x", "-l", "lib")
    assert [line.partition(":")[0] for line in lines] == ["Error", "Kept", "Try"]


def test_whether_a_program_reads_is_decided_by_each_command_line(place: Path) -> None:
    ended("status", "-l", "lib", "--json")
    ended("status", "-l", "lib")
    assert PLAIN.get() is False


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
    monkeypatch.setattr(
        doctor, "_tried", lambda name, work: doctor.Check(kind="work", name=name, state="ok", detail="")
    )
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never-shown")
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert all(f"pip install 'catena-core[{extra}]'" in result.stdout for extra in extras)
    assert "sk-never-shown" not in result.output

"""Nothing from outside steers the terminal it is shown in, and programs still get every character."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import catena
from catena.cli.app import app
from catena.cli.console import printable, write_text
from catena.cli.failures import say

STEERING = [
    *map(chr, [*range(9), *range(11, 32), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
]
EVIL = "\x1b]0;owned\x07\x9b31m\u202egnp.\u2066"


def is_harmless(shown: str) -> bool:
    return not any(character in shown for character in STEERING)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 表\n\ttext", "plain ü 表\n\ttext"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b2J\x7f", r"\x9b2J\x7f"),
        ("\u202efdp.exe", r"\u202efdp.exe"),
        ("one\r\ntwo\rthree", "one\ntwo\\rthree"),
        ("\u200fעברית\u200e", "\u200fעברית\u200e"),
    ],
)
def test_what_steers_a_terminal_is_shown(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable("a\nb\tc\u2028d\r\ne", one_line=True) == r"a\nb\tc\u2028d\ne"


@given(st.text() | st.text(st.sampled_from([*STEERING, "\n", "\t", "a"])), st.booleans())
def test_printable_text_is_harmless_and_stays_as_it_is(text: str, one_line: bool) -> None:
    shown = printable(text, one_line=one_line)
    assert is_harmless(shown)
    assert printable(shown, one_line=one_line) == shown
    assert not one_line or len(shown.split("\n")) == 1


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a library of documents whose names, titles and texts try to steer the terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("CATENA_LIBRARY", raising=False)
    text = f"# Title{EVIL}\n\n## Part{EVIL}\n\nThe fuse{EVIL} is rated 250 mA.\n"
    document = catena.Document(id=f"a{EVIL}\nindexed   fake.md", title=f"Title{EVIL}\nfake", text=text)
    with catena.Library.open("lib") as library:
        library.add(document)
    (tmp_path / "note.md").write_text(text, encoding="utf-8")
    return tmp_path


NAME, GONE = f"a{EVIL}\nindexed   fake.md", f"{EVIL}\nfake.pdf"
COMMANDS: list[tuple[int, list[str]]] = [
    (0, ["search", "fuse", "-l", "lib"]),
    (0, ["search", "fuse", "-l", "lib", "--section"]),
    (0, ["search", "fuse", "-l", "lib", "--segments", "--explain"]),
    (0, ["segment", "note.md"]),
    (0, ["ask", "fuse", "-l", "lib"]),
    (0, ["ask", "fuse", "-l", "lib", "--segments"]),
    (0, ["ask", "note.md", "fuse"]),
    (0, ["status", "-l", "lib"]),
    (0, ["verify", "-l", "lib"]),
    (2, ["delete", f"b{EVIL}", "-l", "lib"]),
    (0, ["delete", NAME, "-l", "lib"]),
    (1, ["parse", GONE]),
    (1, ["index", GONE, "-l", "lib"]),
    (1, ["ask", GONE, "fuse"]),
    (2, ["status", f"--{EVIL}"]),
    (2, [f"x{EVIL}"]),
]


def test_no_command_lets_a_document_steer_the_terminal(shelf: Path) -> None:
    told = CliRunner().invoke(app, ["status", "-l", "lib", "--json"]).stdout
    assert is_harmless(told)
    assert json.loads(told)["documents"][0]["id"] == NAME  # to a program it is exact
    for code, arguments in COMMANDS:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == code, result.output
        assert result.output.strip()
        assert is_harmless(result.output), ascii(result.output)
        assert not any(line.lstrip().startswith(("indexed   fake", "fake")) for line in result.output.splitlines())


def test_markdown_is_exact_to_a_program_and_harmless_to_a_terminal(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_text(EVIL)
    assert capsys.readouterr().out == f"{EVIL}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    write_text(EVIL)
    assert capsys.readouterr().out == f"{printable(EVIL)}\n"


def test_what_a_server_answers_and_a_traceback_are_shown_not_obeyed(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    say(f"the server said {EVIL}", f"again{EVIL}")
    told = capsys.readouterr().err
    assert is_harmless(told)
    assert r"\x1b]0;owned\x07\x9b31m\u202egnp.\u2066" in told

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError(EVIL)

    monkeypatch.setattr("catena.library.Library.open", fails)
    result = CliRunner().invoke(app, ["-v", "search", "x", "-l", "lib"])
    assert "Traceback" in result.stderr
    assert is_harmless(result.stderr)

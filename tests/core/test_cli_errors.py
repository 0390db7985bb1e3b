"""How `catena` fails: one message, one line of advice, a named exit code, no traceback, no foreign path."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from catena.cli.app import app
from catena.cli.failures import split_hint

BAD = {
    "unknown command": (["frobnicate"], 2, "frobnicate"),
    "unknown option": (["search", "x", "--nope"], 2, "--nope"),
    "no question": (["search", "-l", "lib"], 2, "QUESTION"),
    "no library": (["search", "x"], 2, "--library"),
    "library that is not there": (["search", "x", "-l", "nowhere"], 2, "nowhere"),
    "library that is a file": (["status", "-l", "note.md"], 2, "note.md"),
    "k of zero": (["search", "x", "-l", "lib", "-k", "0"], 2, "k"),
    "unknown route": (["search", "x", "-l", "lib", "--route", "sparse"], 2, "sparse"),
    "alpha out of range": (["search", "x", "-l", "lib", "--alpha", "2"], 2, "alpha"),
    "alpha for ranks": (["search", "x", "-l", "lib", "--alpha", "0.5", "--fusion", "rank"], 2, "--alpha"),
    "filter that is not JSON": (["search", "x", "-l", "lib", "--where", "{"], 2, "--where"),
    "filter that is a list": (["search", "x", "-l", "lib", "--where", "[1]"], 2, "--where"),
    "filter with a wrong operator": (["search", "x", "-l", "lib", "--where", '{"a": {"$like": 1}}'], 2, "$like"),
    "alpha for one route": (["search", "x", "-l", "lib", "-r", "dense", "--alpha", "0.9"], 2, "only one"),
    "beta for one route": (["search", "x", "-l", "lib", "-r", "dense", "-r", "dense", "--beta", "1"], 2, "only one"),
    "filter nested thousands deep": (
        ["search", "x", "-l", "lib", "--where", '{"$not": ' * 9_000 + "{}" + "}" * 9_000],
        2,
        "nested more than 150",
    ),
    "list nested hundreds deep": (
        ["search", "x", "-l", "lib", "--where", '{"a": ' + "[" * 500 + "]" * 500 + "}"],
        2,
        "nested more than 150",
    ),
    "filters nested too deep": (
        ["search", "x", "-l", "lib", "--where", '{"$not": ' * 60 + "{}" + "}" * 60],
        2,
        "nested more than 50",
    ),
    "asked of nothing": (["ask", "nofile", "what?"], 1, "nofile: missing: there is no such file"),
    "file that is not there": (["parse", "gone.pdf"], 1, "gone.pdf"),
    "file that is broken": (["parse", "broken.pdf"], 1, "broken.pdf"),
    "file of another kind": (["parse", "picture.png"], 1, "picture.png"),
    "output that cannot be written": (["parse", "note.md", "--out", "no/such/folder.md"], 2, "no/such/folder.md"),
    "unknown engine": (["parse", "note.md", "--engine", "foo"], 2, "foo"),
    "unknown document": (["delete", "gone.md", "-l", "lib"], 2, "gone.md"),
    "ask without files": (["ask", "what?"], 2, "no files"),
    "address without model": (["ask", "note.md", "what?", "--base-url", "http://localhost"], 2, "--model"),
    "model without key": (["ask", "note.md", "what?", "--model", "m"], 2, "OPENAI_API_KEY"),
    "only files that cannot be read": (["ask", "broken.pdf", "what?"], 1, "broken.pdf"),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("CATENA_LIBRARY", "OPENAI_API_KEY", "CATENA_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "note.md").write_text("# Note\n\nA sentence.\n")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    assert CliRunner().invoke(app, ["index", "note.md", "-l", "lib"]).exit_code == 0
    return tmp_path


def test_every_failure_names_what_is_wrong_and_what_to_do(place):
    for case, (arguments, code, named) in BAD.items():
        result = CliRunner().invoke(app, arguments)
        lines = result.stderr.splitlines()
        assert result.exit_code == code, (case, result.output)
        assert named in result.stderr, (case, result.output)
        assert sum(line.startswith("Try: ") for line in lines) == 1, (case, result.output)
        assert lines[-1].startswith("Try: "), (case, result.output)
        assert len(lines[-1]) > len("Try: x"), (case, result.output)
        assert "Traceback" not in result.output, case
        assert str(place) not in result.output, case
        assert result.stdout == "", (case, result.stdout)


def test_a_failure_with_json_leaves_stdout_to_programs(place):
    for arguments, _, _ in BAD.values():
        stdout = CliRunner().invoke(app, [*arguments, "--json"]).stdout
        assert stdout == "" or json.loads(stdout)


def test_an_unforeseen_error_is_short_unless_the_traceback_is_asked_for(place, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("unforeseen")

    monkeypatch.setattr("catena.library.Library.open", fails)
    short = CliRunner().invoke(app, ["search", "x", "-l", "lib"])
    assert short.exit_code == 2
    assert short.stderr.splitlines() == [
        "Error: RuntimeError: unforeseen",
        "Try: catena -v COMMAND … for the traceback, then report it",
    ]
    long = CliRunner().invoke(app, ["-v", "search", "x", "-l", "lib"])
    assert "Traceback" in long.stderr
    assert long.exit_code == 2


@pytest.mark.parametrize(
    ("message", "what", "hint"),
    [
        ("a: b. Try: c", "a: b", "c"),
        ("no advice.", "no advice", ""),
        ("a. Try: parse(path, password=...)", "a", "the same command with --password"),
        ("a. Try: a higher Limits(pages=...)", "a", "reading it from Python with a higher Limits(pages=...)"),
        ("a. Try: a higher Limits(seconds_per_page=...)", "a", "the same command with a higher --timeout"),
        ("a. Try: a higher Limits(memory_bytes=...), or more", "a", "the same command with a higher --memory"),
    ],
)
def test_advice_is_given_in_the_words_of_the_command_line(message, what, hint):
    assert split_hint(message) == (what, hint)

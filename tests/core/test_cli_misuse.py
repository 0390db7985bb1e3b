"""What is said to those who use a command wrongly: one message, one line of advice, an exit code; inputs are kept."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from cli_calls import at_home, refused
from typer.testing import CliRunner

import catena
from catena.cli.app import app
from catena.cli.failures import split_hint
from catena.model import LibraryError


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CATENA_LIBRARY", raising=False)
    Path("shelf").mkdir()
    Path("shelf/note.md").write_text("# Note\n\nThe foot bolts take 5 Nm.\n")
    return tmp_path


@pytest.mark.parametrize("words", [["status", "-l", "shelf"], ["search", "q", "-l", "shelf/note.md"]])
def test_what_is_no_library_is_not_to_be_verified(words: list[str]) -> None:
    told = refused(*words)
    assert "Kept: everything as it was: nothing was opened or made" in told
    assert told.endswith(
        "Try: the folder of a library; catena index FILES --library PATH makes one where there is nothing\n"
    )


def test_where_something_else_is_no_library_is_made() -> None:
    assert "Try: an empty folder, or a path where there is nothing\n" in refused("index", "shelf", "-l", "shelf")


def test_what_such_an_error_says_is_kept_survives_pickling() -> None:
    with pytest.raises(LibraryError) as caught:
        catena.Library.open("nowhere", create=False)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.kept) == (str(caught.value), caught.value.kept)
    assert again.kept == "everything as it was: nothing was opened or made"
    assert LibraryError.kept.startswith("what the library held before")


def test_a_folder_is_not_to_be_opened_in_a_viewer() -> None:
    told = refused("parse", "shelf", code=1)
    assert "shelf: unsupported: it is a folder, not a file" in told
    assert told.endswith("Try: the files in it; catena index takes folders\n")


@pytest.mark.parametrize("command", ["search", "report"])
def test_a_question_without_quotes_is_told_of_quotes(command: str) -> None:
    assert f'Try: quotes around the whole question, as in catena {command} "' in refused(
        command, "foot", "bolts", "-l", "lib"
    )


def test_a_question_before_its_files_is_told_of_the_order() -> None:
    told = refused("ask", "What torque?", "shelf")
    assert "shelf is a path, and stands where the question does: it comes last" in told
    assert told.endswith('Try: catena ask shelf "What torque?"\n')
    with catena.Library.open("lib") as library:
        library.index("shelf")
    assert refused("ask", "What torque?", "lib").endswith('Try: catena ask "What torque?" --library lib\n')


def test_where_one_may_not_write_is_said_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    told = refused("report", "What?", "-l", "nowhere", "--out", "page.html")
    assert told == "Error: cannot write page.html: you may not write there\nTry: a folder of your own\n"


@pytest.mark.parametrize(
    "words",
    [
        ["search", "", "-l", "lib"],
        ["search", " \n", "-l", "lib", "--segments"],
        ["search", "", "-l", "lib", "--json"],
        ["ask", "shelf", ""],
        ["ask", "shelf", " "],
        ["report", "", "-l", "lib"],
        ["server", "search", "", "--name", "lib", "--url", "http://localhost:9"],
    ],
)
def test_an_empty_question_is_refused_everywhere_in_the_same_words(words: list[str]) -> None:
    assert refused(*words) == ("Error: the question is empty\nTry: what you would ask a colleague, in quotes\n")


@pytest.mark.parametrize("words", [["index", "", "-l", "lib"], ["ask", "", "what?"], ["views", ""]])
def test_an_empty_path_is_not_the_current_folder(words: list[str]) -> None:
    assert "a path is empty" in refused(*words)
    assert not Path("lib").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
@pytest.mark.parametrize(
    "words", [["search", "q", "-l", "lib", "--tuned", "pipe"], ["index", "shelf", "-l", "lib", "--expert", "pipe"]]
)
@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(words: list[str]) -> None:
    CliRunner().invoke(app, ["index", "shelf", "-l", "lib"])
    os.mkfifo("pipe")
    assert "a device or a pipe" in refused(*words)


def test_each_hint_names_the_files_that_it_is_for() -> None:
    Path("bad.pdf").write_text("junk")
    Path("empty.pdf").touch()
    hint = "opening it in a viewer and printing it to a new PDF"
    several = CliRunner().invoke(app, ["index", "bad.pdf", "empty.pdf", "-l", "lib"])
    assert several.stderr.splitlines()[-1] == f"Try: for bad.pdf: {hint}"
    one = CliRunner().invoke(app, ["index", "bad.pdf", "-l", "lib"])
    assert one.stderr.splitlines()[-1] == f"Try: {hint}"
    asked = refused("ask", "shelf", "bad.pdf", "gone.md", "Which torque?", code=1)
    assert "Error: 2 of 3 files were not, or not wholly, read; what is shown is from the rest\n" in asked
    assert asked.endswith(f"Try: for bad.pdf: {hint}; for gone.md: checking its name and folder\n")


# every failure

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
def small_library(tmp_path, monkeypatch):
    at_home(tmp_path, monkeypatch, key=False)
    (tmp_path / "note.md").write_text("# Note\n\nA sentence.\n")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    assert CliRunner().invoke(app, ["index", "note.md", "-l", "lib"]).exit_code == 0
    return tmp_path


@pytest.mark.slow
def test_every_failure_names_what_is_wrong_and_what_to_do(small_library):
    for case, (arguments, code, named) in BAD.items():
        result = CliRunner().invoke(app, arguments)
        lines = result.stderr.splitlines()
        assert result.exit_code == code, (case, result.output)
        assert named in result.stderr, (case, result.output)
        assert sum(line.startswith("Try: ") for line in lines) == 1, (case, result.output)
        assert lines[-1].startswith("Try: "), (case, result.output)
        assert len(lines[-1]) > len("Try: x"), (case, result.output)
        assert "Traceback" not in result.output, case
        assert str(small_library) not in result.output, case
        assert result.stdout == "", (case, result.stdout)


@pytest.mark.slow
def test_a_failure_with_json_leaves_stdout_to_programs(small_library):
    for arguments, _, _ in BAD.values():
        stdout = CliRunner().invoke(app, [*arguments, "--json"]).stdout
        assert stdout == "" or json.loads(stdout)


def test_an_unforeseen_error_is_short_unless_the_traceback_is_asked_for(small_library, monkeypatch):
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


# what a command reads is not written over

PAGE = "<html><body><h1>Note</h1><p>A sentence.</p></body></html>"
QUESTIONS = '{"question": "What?", "gold": {"document": "note.md", "text": "sentence"}}\n'
READ = ("mine.html", "note.md", "bank.html", "mine-2.html")


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in READ:
        Path(name).write_text(QUESTIONS if name == "bank.html" else PAGE)
    Path("folder").mkdir()
    Path("link.md").symlink_to("mine.html")
    os.link("mine.html", "other.md")
    return tmp_path


@pytest.mark.slow
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
def test_an_input_is_never_an_output(inputs: Path, words: str) -> None:
    before = {name: Path(name).read_bytes() for name in READ}
    result = CliRunner().invoke(app, words.split())
    assert result.exit_code == 2, result.output
    assert "is read by this command, and would be overwritten" in result.stderr
    assert "Try: another name for what is written" in result.stderr
    assert {name: Path(name).read_bytes() for name in READ} == before


def test_what_an_earlier_run_wrote_is_replaced(inputs: Path) -> None:
    Path("out.md").write_text("old")
    assert CliRunner().invoke(app, ["parse", "mine.html", "--out", "out.md"]).exit_code == 0
    assert Path("out.md").read_text().startswith("# Note")

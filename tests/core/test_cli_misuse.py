"""What is said to those who use a command otherwise than it is meant: what to do instead, and nothing untrue."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from typer.testing import CliRunner

import catena
from catena.cli.app import app
from catena.model import LibraryError


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CATENA_LIBRARY", raising=False)
    Path("shelf").mkdir()
    Path("shelf/note.md").write_text("# Note\n\nThe foot bolts take 5 Nm.\n")
    return tmp_path


def refused(*words: str, code: int = 2) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.stderr


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

"""How commands fail: in the words of the command line, with advice that can be followed, no secret, no input lost."""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_calls import at_home, call, refused
from typer.testing import CliRunner

import catena
from catena.cli.app import app
from catena.cli.console import PLAIN
from catena.cli.doctor import catalogue, explain_error
from catena.cli.failures import split_hint
from catena.model import BudgetExceededError, CatenaError, LibraryBusyError, LibraryError, RouteError
from catena.store.schema import WriterLock
from catena.testing import FakeEmbedder


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    at_home(tmp_path, monkeypatch, key=False)
    Path("note.md").write_text("# Note\n\nThe foot bolts take 5 Nm.\n")
    return tmp_path


@pytest.fixture
def lib(place: Path) -> None:
    with catena.Library.open("lib") as library:
        library.index(["note.md"])


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let every command that opens a library fail with an error."""

    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("catena.library.Library.open", fails)


class TheirError(CatenaError):
    """Raised by a plug-in."""


def labels(told: str) -> list[str]:
    return [line.partition(":")[0] for line in told.splitlines()]


def test_what_an_error_says_is_kept_survives_pickling() -> None:
    with pytest.raises(LibraryError) as caught:
        catena.Library.open("nowhere", create=False)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.kept) == (str(caught.value), "everything as it was: nothing was opened or made")


def test_where_one_may_not_write_is_said_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    told = refused("report", "What?", "-l", "nowhere", "--out", "page.html")
    assert told == "Error: cannot write page.html: you may not write there\nTry: a folder of your own\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
@pytest.mark.parametrize("words", ["search q -l lib --tuned pipe", "index note.md -l lib --expert pipe"])
@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(lib: None, words: str) -> None:
    os.mkfifo("pipe")
    assert "a device or a pipe" in refused(*words.split())


def test_each_hint_names_the_files_that_it_is_for() -> None:
    Path("bad.pdf").write_text("junk")
    Path("empty.pdf").touch()
    hint = "opening it in a viewer and printing it to a new PDF"
    assert refused("index", "bad.pdf", "empty.pdf", "-l", "lib", code=1).endswith(f"Try: for bad.pdf: {hint}\n")
    assert refused("index", "bad.pdf", "-l", "lib", code=1).endswith(f"Try: {hint}\n")
    asked = refused("ask", "note.md", "bad.pdf", "gone.md", "Which torque?", code=1)
    assert "Error: 2 of 3 files were not, or not wholly, read; what is shown is from the rest\n" in asked
    assert asked.endswith(f"Try: for bad.pdf: {hint}; for gone.md: checking its name and folder\n")


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
def test_advice_is_given_in_the_words_of_the_command_line(message: str, what: str, hint: str) -> None:
    assert split_hint(message) == (what, hint)


def test_no_one_is_told_to_stop_itself_or_an_unknown_process(place: Path) -> None:
    ends = "waiting until {} has ended, or stopping it"
    with WriterLock(place, timeout=1).held():
        for holder, told in (
            (str(os.getpid()), "again when that thread has finished"),
            ("1", ends.format("process 1")),
            *((unknown, ends.format("that process")) for unknown in ("", "no number", None)),
        ):
            Path("writer.pid").unlink()
            if holder is not None:
                Path("writer.pid").write_text(holder)
            with pytest.raises(LibraryBusyError) as caught, WriterLock(place, timeout=0.1).held():
                pass
            assert caught.value.do_next == told


def test_no_one_is_told_to_rank_by_the_other_routes_when_there_are_none() -> None:
    one, every = RouteError("dense", "gone"), RouteError("dense, lexical", "gone", all_failed=True)
    assert str(one) == "route 'dense' failed: gone. Try: on_route_error='degrade' to rank by the others"
    assert str(every) == "every route failed (dense, lexical): gone"
    assert [pickle.loads(pickle.dumps(each)).all_failed for each in (one, every)] == [False, True]


def test_a_sound_library_that_cannot_be_written_is_sound_and_an_index_that_cannot_be_read_is_named(
    lib: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = Path("lib/lexical/headed/.tantivy-meta.lock")
    lock.unlink(missing_ok=True)
    lock.mkdir()  # tantivy cannot make the lock it reads under; the tests may run as root, whom no rights stop
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK)
        assert call("verify", "-l", "lib").stdout == "sound: 1 document, 1 chunk checked\n"
    result = call("verify", "-l", "lib", code=4)
    assert "headed views: the lexical index cannot be read (" in result.stdout
    assert "disk space" not in result.output


def test_a_model_that_breaks_its_word_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        FakeEmbedder, "embed_documents", lambda self, texts: np.full((len(texts), 8), 0.5, np.float32)
    )
    with catena.Library.open("lib", embedder=FakeEmbedder(4, "odd/1")) as library:
        with pytest.raises(CatenaError, match="the embedder 'odd/1' declares 4 numbers and gave 8"):
            library.add(catena.Document(id="a", text="# A\n\nA sentence.\n"))
        assert library.documents() == ()


# what an error says of itself


def test_our_errors_say_what_is_kept_and_where_they_are_explained(
    lib: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = refused("search", "x", "-l", "lib", "--where", '{"a": {"$like": 1}}')
    assert labels(told) == ["Error", "Kept", "See", "Try"]
    assert "See: catena explain-error FilterError\n" in told
    shown = call("explain-error", "FilterError").stdout
    for section in catalogue():
        explain_error(section.name)
        explained = capsys.readouterr().out
        assert explained.startswith(f"{section.name}\n")
        assert section.kept.split()[0] in explained
        assert section.name != "FilterError" or explained == shown
    failing(monkeypatch, TheirError("their part failed"))
    assert labels(refused("search", "x", "-l", "lib")) == ["Error", "Kept", "Try"]  # there is no section of it


def test_a_damaged_library_and_a_cap_that_is_reached_have_codes_of_their_own(
    lib: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("lib/library.sqlite").write_bytes(b"no database " * 1_000)
    call("status", "-l", "lib", code=4)
    failing(monkeypatch, BudgetExceededError(1.0, 0.9, "'titles'"))
    told = refused("search", "x", "-l", "lib", code=3)
    assert told.endswith("Try: a higher cap; the run continues where it stopped\n")


def test_ctrl_c_promises_only_what_the_next_run_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    for words, kept, again in (
        ("index note.md", "what was written to a library is kept", "what is in the library already is skipped"),
        ("search x", "libraries are whole, and as they were", "it begins anew"),
    ):
        told = refused(*words.split(), "-l", "lib", code=130)
        assert told == f"Stopped: {kept}\nTry: the same command again: {again}\n"


def test_an_unforeseen_error_is_short_and_shows_no_secret_and_no_path_that_nobody_typed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-" + "a1" * 12
    told = f"api_key={secret} of /home/someone/private/settings.toml, {place / 'lib'} and a/b"
    failing(monkeypatch, RuntimeError(told))
    monkeypatch.setattr(sys, "argv", ["catena", "search", "x", f"--library={place / 'lib'}"])
    assert refused("search", "x", "-l", str(place / "lib")).splitlines() == [
        f"Error: RuntimeError: api_key=*** of …/settings.toml, {place / 'lib'} and a/b",
        "Try: catena -v COMMAND … for the traceback, then report it",
    ]
    long = CliRunner().invoke(app, ["-v", "search", "x", "-l", "lib"])
    assert (long.exit_code, "Traceback" in long.stderr, secret in long.output) == (2, True, False)


def test_whether_a_program_reads_is_decided_by_each_command_line(lib: None) -> None:
    call("status", "-l", "lib", "--json")
    call("status", "-l", "lib")
    assert PLAIN.get() is False


def test_a_failure_with_json_leaves_stdout_to_programs() -> None:
    for words in ("search x -l nowhere", "ask nofile what?", "parse gone.pdf", "search x", "delete gone.md -l lib"):
        stdout = CliRunner().invoke(app, [*words.split(), "--json"]).stdout
        assert stdout == "" or json.loads(stdout)


# what a command reads is not written over

READ = ("mine.html", "note.md", "bank.html", "mine-2.html")


@pytest.fixture
def inputs(place: Path) -> Path:
    for name in READ:
        Path(name).write_text("<html><body><h1>Note</h1><p>A sentence.</p></body></html>")
    Path("bank.html").write_text('{"question": "What?", "gold": {"document": "note.md", "text": "sentence"}}\n')
    Path("folder").mkdir()
    Path("link.md").symlink_to("mine.html")
    os.link("mine.html", "other.md")
    return place


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
    before: dict[str, Any] = {name: Path(name).read_bytes() for name in READ}
    told = refused(*words.split())
    assert "is read by this command, and would be overwritten" in told
    assert "Try: another name for what is written" in told
    assert {name: Path(name).read_bytes() for name in READ} == before

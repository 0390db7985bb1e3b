"""Every command of `catena` in this process: what it writes, where, and how it exits."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import cli_calls
import pytest
from cli_calls import MANUALS, filled, value
from pypdf import PdfWriter

import catena
from catena.effects import Completion

TWO_MANUALS = {name: MANUALS[name] for name in ("hx200.md", "hx210.md")}
REPORT = Path(catena.__file__).parent / "data" / "demo" / "halden-field-reliability-report-2025.pdf"
NOWHERE = "Which fuse has the HX220?"
TOLD = "'HX220' stands nowhere in the documents; near it: HX200, HX210"
BROKEN = b"%PDF-1.4\nnothing"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make a folder with two manuals and a library of them, to be copied."""
    return filled(tmp_path_factory.mktemp("made"), TWO_MANUALS)


def call(*arguments: str, code: int = 0) -> Any:
    result = cli_calls.call(*arguments, code=code)
    if "--json" not in arguments and arguments[0] != "parse":
        assert all(len(line) <= 100 for line in result.stdout.splitlines())
    return result


def documents(found: dict[str, Any]) -> set[str]:
    return {hit["chunk"]["document_id"] for hit in found["hits"]}


# parse


def test_parse_writes_markdown_to_stdout_or_a_file_and_its_size_to_stderr(shelf):
    result = call("parse", "hx200.md")
    assert (result.stdout, result.stderr) == (TWO_MANUALS["hx200.md"], "hx200.md -> 3 sections\n")
    assert call("parse", "hx200.md", "--out", "-").stdout == result.stdout
    assert not Path("-").exists()
    written = call("parse", "hx200.md", "--out", "out.md")
    assert (written.stdout, "out.md" in written.stderr) == ("", True)
    assert Path("out.md").read_bytes().decode() == TWO_MANUALS["hx200.md"]
    found = value("parse", "hx200.md")
    text = found["document"]["text"]
    assert "".join(text[each["start"] : each["end"]] for each in found["sections"]) == text
    assert [each["title"] for each in found["sections"]] == ["HX200 Manual", "Fuse", "Cover"]
    assert found["state"] == "parsed"


@pytest.mark.parametrize("engine", ["pypdf", "pypdfium2"])
def test_parse_tells_the_pages_and_sections_of_a_pdf(shelf, engine):
    shutil.copy(REPORT, "report.pdf")
    result = call("parse", "report.pdf", "--engine", engine, "--json")
    found = json.loads(result.stdout)
    assert [page["number"] for page in found["pages"]] == [1, 2, 3, 4, 5]
    assert found["pages"][-1]["end"] == len(found["document"]["text"])
    assert "4.1 Moisture" in [each["title"] for each in found["sections"]]
    assert result.stderr.startswith("report.pdf -> 5 pages, ")


def test_a_password_opens_an_encrypted_pdf(shelf, monkeypatch):
    writer = PdfWriter(clone_from=REPORT)
    writer.encrypt("open", algorithm="AES-256")
    writer.write("locked.pdf")
    refused = call("parse", "locked.pdf", code=1)
    assert "encrypted" in refused.stderr
    assert refused.stderr.splitlines()[-1] == "Try: the same command with --password"
    assert "Reliability" in call("parse", "locked.pdf", "--password", "open").stdout
    monkeypatch.setenv("CATENA_PASSWORD", "open")
    assert value("index", "locked.pdf", "-l", "lib")["states"] == {"indexed": 1}
    assert "Reliability" in call("ask", "locked.pdf", "What is the report about?", "-k", "1").stdout


# index


def test_index_shows_the_ledger_and_goes_on_past_a_bad_file(shelf):
    Path("broken.pdf").write_bytes(BROKEN)
    result = call("index", "hx200.md", "broken.pdf", "--library", "new", code=1)
    for part in ("indexed   hx200.md", "failed    broken.pdf", "2 files: 1 indexed, 1 failed"):
        assert part in result.stdout
    assert "Try: " in result.stderr
    shown = call("status", "-l", "new").stdout
    assert "broken.pdf" in shown.partition("need a look")[2]
    assert "HX200 Manual" in shown.partition("need a look")[0]
    assert "1 document, 3 sections, 2 chunks" in shown


def test_types_that_are_not_read_are_named_once_and_lock_files_of_office_are_left_out(shelf):
    Path("mixed").mkdir()
    for name in ("a.csv", "b.CSV", "c.zip", "~$d.docx"):
        Path("mixed", name).write_bytes(b"x")
    result = call("index", "hx200.md", "mixed", "--library", "new")
    assert "4 files: 1 indexed, 3 skipped (not read: 2 .csv, 1 .zip); " in " ".join(result.stdout.split())
    assert "files that are not read: 2 .csv, 1 .zip" in " ".join(call("status", "-l", "new").stdout.split())


def test_index_skips_what_did_not_change_searches_folders_and_names_no_file_that_is_well_in_a_long_ledger(shelf):
    found = value("index", "hx200.md", "hx210.md", "--library", "lib")
    assert (found["states"], found["holds"]["documents"]) == ({"skipped": 2}, 2)
    Path("sub").mkdir()
    for number in range(30):
        Path(f"sub/note{number}.md").write_text(f"# Note {number}\n\nText {number}.\n")
    Path("sub/broken.pdf").write_bytes(BROKEN)
    result = call("index", "sub", "-l", "lib", code=1)
    assert ("note7.md" in result.stdout, "sub/broken.pdf" in result.stdout) == (False, True)
    assert "31 files: 30 indexed, 1 failed" in result.stdout
    assert "sub/note7.md" in {each["id"] for each in value("status", "-l", "lib")["documents"]}


def test_of_a_mistyped_path_no_library_is_made(shelf):
    told = call("index", "hx2000.md", "gone", "-l", "fresh", code=1).stderr
    assert "neither file nor folder hx2000.md, gone; no library was made. Did you mean 'hx200.md'?" in told
    assert not Path("fresh").exists()
    assert value("index", "hx200.md", "gone", "-l", "fresh", code=1)["states"] == {"indexed": 1, "failed": 1}
    assert value("index", "gone", "-l", "fresh", code=1)["states"] == {"failed": 1}


def test_a_file_that_failed_and_is_as_it_was_again_is_read_again(shelf):
    text = Path("hx200.md").read_text()
    for content, code, state in ((text, 0, "indexed"), ("", 1, "failed"), (text, 0, "indexed"), (text, 0, "skipped")):
        Path("hx200.md").write_text(content)
        assert value("index", "hx200.md", "-l", "fresh", code=code)["states"] == {state: 1}
    assert [outcome["state"] for outcome in value("status", "-l", "fresh")["ledger"]] == ["indexed"]


def test_a_missing_extra_ends_the_run_before_anything_is_written(shelf, monkeypatch):
    monkeypatch.setitem(sys.modules, "pdfplumber", None)
    assert "pip install" in call("index", "hx200.md", "-l", "fresh", "--ruled-tables", code=2).stderr
    assert value("status", "-l", "fresh")["ledger"] == []


# search


def test_search_cites_the_right_manual_first_and_as_json_is_complete(shelf):
    result = call("search", "To how many N·m is the cover of the HX210 tightened?", "-l", "lib")
    assert "HX210 Manual › Cover, lines 7-9" in result.stdout.splitlines()[0]
    assert "hx210.md  found by " in result.stdout
    assert result.stderr == ""
    found = value("search", "Which fuse for the HX200?", "-l", "lib", "--k", "2", "--section")
    first = found["hits"][0]
    assert [hit["rank"] for hit in found["hits"]] == [1, 2]
    assert first["citation"] == "HX200 Manual › Fuse, lines 3-5"
    assert first["chunk"]["document_id"] == "hx200.md"
    assert first["chunk"]["text"] in first["section"]["text"]
    assert {way["route"] for way in first["provenance"]} == {"dense", "lexical", "keyword", "name"}
    assert (found["scale"], found["unknown"]) == ("rank", [])
    assert "## Fuse" in call("search", "fuse of the HX200", "-l", "lib", "--section", "-k", "1").stdout


# names in questions


def test_a_name_that_stands_nowhere_is_the_answer_and_no_model_is_asked_about_it(shelf, monkeypatch):
    for command in ("search", "ask"):
        result = call(command, NOWHERE, "-l", "lib", code=1)
        hint = "Try: a name that is there, or --keep-neighbours for what is said of the others"
        assert (result.stdout, result.stderr) == ("", f"Error: nothing was found: {TOLD}\n{hint}\n")
        found = value(command, NOWHERE, "-l", "lib", code=1)
        assert (found["hits"], found["unknown"]) == ([], [{"text": "HX220", "near": ["HX200", "HX210"]}])
    monkeypatch.setattr("catena.backends.openai.OpenAILLM.complete", lambda *_: pytest.fail("a model was asked"))
    asked = ("ask", NOWHERE, "-l", "lib", "--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    assert TOLD in call(*asked, code=1).stderr


@pytest.mark.parametrize("command", ["search", "ask"])
def test_neighbours_and_the_others_are_shown_and_the_name_is_still_said(shelf, command):
    result = call(command, NOWHERE, "-l", "lib", "--keep-neighbours")
    assert ("Fuse" in result.stdout, result.stderr) == (True, f"{TOLD}\n")
    if command == "search":  # whose scores, of which the best is 1, say how well the rest fits
        for more in ((), ("--segments",)):
            shown = call(command, NOWHERE, "-l", "lib", "--keep-neighbours", *more).stdout
            assert shown.startswith("About others than HX220, by how well they fit the rest:\n1 ")
    assert value(command, NOWHERE, "-l", "lib", "--keep-neighbours")["unknown"][0]["text"] == "HX220"
    result = call(command, "Compare the fuses of the HX200 and the HX220", "-l", "lib", "-k", "1")
    assert ("HX200 Manual › Fuse" in result.stdout, result.stderr) == (True, f"{TOLD}\n")
    whole = value(command, NOWHERE, "-l", "lib", "--no-names")
    assert (bool(whole["hits"]), whole["unknown"]) == (True, [])


def test_cells_of_others_are_headed_and_the_name_is_said(shelf):
    table = "# Fuses\n\n| | 2013 | 2014 |\n|---|---|---|\n| Fuse | 250 | 260 |\n"
    Path("fuses.md").write_text(table, encoding="utf-8")
    call("index", "fuses.md", "-l", "cells")
    result = call("cells", "Zephyr's fuse", "-l", "cells")
    assert result.stdout.startswith("About others than Zephyr, by how well they fit the rest:\n1 ")
    assert result.stderr == "'Zephyr' stands nowhere in the documents\n"
    assert call("cells", "Fuse in 2014", "-l", "cells").stderr == ""
    assert call("cells", "Zephyr", "-l", "cells", code=1).stderr.count("'Zephyr' stands nowhere") == 1
    assert "near it: HX200, HX210" in call("cells", NOWHERE, "-l", "lib", code=1).stderr


def test_a_model_that_answers_is_told_which_name_stands_nowhere(shelf, monkeypatch):
    asked: list[str] = []

    def complete(self, request):
        asked.append(request.prompt)
        return Completion(text="250 mA [1].")

    monkeypatch.setattr("catena.backends.openai.OpenAILLM.complete", complete)
    model = ("--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    call("ask", "The fuses of HX200 and HX220?", "-l", "lib", *model)
    assert f"- {TOLD}\n" in asked[0]


# ask


def test_ask_without_a_model_gives_cited_passages_and_keeps_nothing(shelf):
    before = sorted(path.name for path in shelf.iterdir())
    result = call("ask", "hx200.md", "hx210.md", "Which fuse for the HX210?", "-k", "2")
    assert result.stdout.startswith("[1] HX210 Manual › Fuse, lines 3-5")
    assert "400 mA slow" in result.stdout
    assert sorted(path.name for path in shelf.iterdir()) == before
    found = value("ask", "Which fuse for the HX200?", "-l", "lib")
    assert (found["answer"], found["hits"][0]["chunk"]["document_id"]) == (None, "hx200.md")


def test_ask_answers_from_the_files_that_could_be_read_and_names_the_others(shelf):
    result = call("ask", "hx200.md", "gone.md", "Which fuse?", code=1)
    assert ("250 mA" in result.stdout, "gone.md" in result.stderr) == (True, True)
    two = call("ask", "nofile", "gone.md", "Which fuse?", code=1).stderr.splitlines()
    assert [line.partition(": missing")[0] for line in two[:2]] == ["not read: nofile", "not read: gone.md"]
    assert two[2] == "Error: 2 files were not read; no passage was found"


# delete, and files that are gone from disk


def test_delete_removes_all_or_nothing_by_id_or_by_path(shelf, monkeypatch):
    call("delete", "hx200.md", "gone.md", "-l", "lib", code=2)
    assert value("status", "-l", "lib")["holds"]["documents"] == 2
    Path("sub").mkdir()
    Path("sub/hx200.md").write_text("# Other\n\nText.\n")
    call("index", "sub", "-l", "lib")
    monkeypatch.chdir("sub")
    assert value("delete", "hx200.md", "-l", "../lib")["deleted"] == ["hx200.md"]  # an id, though a file as well
    assert value("delete", "hx200.md", "./hx200.md", "-l", "../lib")["deleted"] == ["sub/hx200.md"]
    assert documents(value("search", "fuse", "-l", "../lib")) == {"hx210.md"}
    last = value("delete", str(shelf / "hx210.md"), "-l", "../lib")
    assert last == {"library": "../lib", "deleted": ["hx210.md"], "documents": 0}
    assert "gone.md" in call("delete", "../gone.md", "-l", "../lib", code=2).stderr


def test_files_that_are_gone_are_named_and_pruned_where_asked(shelf):
    Path("hx200.md").unlink()
    assert call("index", ".", "-l", "lib").stderr.splitlines() == [
        "1 indexed file is gone from disk and can still be found: hx200.md",
        "Try: catena index . --library lib --prune",
    ]
    found = value("index", ".", "-l", "lib")
    assert (found["vanished"], found["pruned"], found["holds"]["documents"]) == (["hx200.md"], [], 2)
    assert value("status", "-l", "lib")["vanished"] == ["hx200.md"]
    assert "\nFiles that are gone from disk and can still be found\nhx200.md\n" in call("status", "-l", "lib").stdout
    found = value("index", "hx210.md", "-l", "lib", "--prune")
    assert (found["vanished"], found["pruned"], found["holds"]["documents"]) == (["hx200.md"], [], 2)
    assert call("index", "hx210.md", "-l", "lib", "--prune").stderr.splitlines() == [
        "1 indexed file is gone from disk, outside of what was given, and can still be found",
        "Try: catena status --library lib, which names them",
    ]
    found = value("index", ".", "-l", "lib", "--prune")
    assert (found["vanished"], found["pruned"], found["holds"]["documents"]) == ([], ["hx200.md"], 1)
    assert value("status", "-l", "lib")["vanished"] == []
    assert documents(value("search", "fuse", "-l", "lib")) == {"hx210.md"}
    assert call("index", "hx210.md", "-l", "lib", "--prune").stderr == ""


def test_prune_deletes_what_lay_below_the_folders_given_and_nothing_of_a_folder_that_is_gone(shelf):
    for name in ("share/a.md", "share/b.md", "shared/a.md", "shared/b.md"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(f"# {name}\n\nText of {name}.\n")
    call("index", "share", "shared", "-l", "lib")
    Path("share").rename("elsewhere")
    Path("shared/b.md").unlink()
    for given in ("share", "share/a.md"):
        told = call("index", given, "shared", "-l", "lib", "--prune", code=2).stderr
        assert "the folder share is not there; what is held of it is kept (2)" in told
        assert "catena delete DOC… --library PATH" in told
    assert value("status", "-l", "lib")["holds"]["documents"] == 6
    found = value("index", "shared", "-l", "lib", "--prune")
    assert (found["vanished"], found["pruned"]) == (["share/a.md", "share/b.md"], ["shared/b.md"])


def test_files_that_were_moved_are_told_of_and_found_once(shelf):
    Path("new").mkdir()
    Path("hx200.md").rename("new/hx200.md")
    assert call("index", ".", "-l", "lib").stderr == (
        "1 file was moved, and found under the new name alone: new/hx200.md (was hx200.md)\n"
    )
    assert value("status", "-l", "lib")["holds"]["documents"] == 2


def test_prune_never_deletes_what_this_run_read(shelf, monkeypatch):
    monkeypatch.setattr("catena.library.base.is_gone", lambda name, home: True)
    for words in (["hx200.md", "hx210.md"], ["."]):
        found = value("index", *words, "-l", "lib", "--prune")
        assert (found["vanished"], found["pruned"], found["holds"]["documents"]) == ([], [], 2)


def test_prune_empties_a_folder_whose_files_are_all_gone(shelf):
    Path("sub").mkdir()
    for number in range(7):
        Path(f"sub/{number}.md").write_text(f"# {number}\n\nText.\n")
    call("index", "sub", "-l", "lib")
    for path in Path("sub").iterdir():
        path.unlink()
    assert "7 indexed files are gone" in call("index", "sub", "-l", "lib", code=1).stderr
    done = call("index", "sub", "-l", "lib", "--prune")
    assert done.stdout.lstrip().startswith("0 files; 0 pages, 0 chunks in ")
    names = "sub/0.md, sub/1.md, sub/2.md, sub/3.md, sub/4.md and 2 more"
    assert done.stderr == f"7 indexed files are gone from disk, and deleted from the library: {names}\n"
    assert value("status", "-l", "lib")["holds"]["documents"] == 2


# verify, doctor, version


def test_verify_finds_a_library_sound_or_lists_what_is_wrong(shelf):
    assert value("verify", "-l", "lib") == {"library": "lib", "sound": True, "problems": []}
    assert call("verify", "-l", "lib").stdout == "sound: 2 documents, 4 chunks checked\n"
    with sqlite3.connect("lib/library.sqlite") as connection:
        connection.execute("DELETE FROM vectors WHERE chunk = (SELECT min(chunk) FROM vectors)")
    connection.close()
    found = value("verify", "-l", "lib", code=4)
    assert not found["sound"]
    assert any("vector" in problem for problem in found["problems"])
    result = call("verify", "-l", "lib", code=4)
    assert ("vector" in result.stdout, "Try: " in result.stderr) == (True, True)


def test_doctor_finds_this_machine_healthy_or_says_what_does_not_work_and_shows_no_key(shelf, monkeypatch):
    assert "embedding" in call("doctor").stdout
    found = value("doctor")
    assert found["healthy"]
    states = {check["name"]: check["state"] for check in found["checks"]}
    assert (states["OPENAI_API_KEY"], states["CATENA_API_KEY"]) == ("ok", "absent")
    assert {states[name] for name in ("embedding", "parser process", "library")} == {"ok"}

    def fails() -> str:
        raise OSError("no process")

    monkeypatch.setattr("catena.cli.doctor._parser", fails)
    result = call("doctor", code=1)
    assert ("no process" in result.stdout, "not working: parser process" in result.stderr) == (True, True)


def test_the_version_is_told():
    assert call("--version").stdout == f"catena {catena.__version__}\n"

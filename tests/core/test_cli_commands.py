"""Every command of `catena` in this process: what it writes, where, and how it exits."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest
from cli_calls import at_home, value
from pypdf import PdfWriter
from typer.testing import CliRunner

import catena
from catena.cli.app import app

TWO_MANUALS = {
    "hx200.md": "# HX200 Manual\n\n## Fuse\n\nThe fuse is rated 250 mA slow.\n\n## Cover\n\nTighten it to 1.8 N·m.\n",
    "hx210.md": "# HX210 Manual\n\n## Fuse\n\nThe fuse is rated 400 mA slow.\n\n## Cover\n\nTighten it to 2.4 N·m.\n",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make a folder with two manuals and a library of them, to be copied."""
    folder = tmp_path_factory.mktemp("made")
    for name, text in TWO_MANUALS.items():
        (folder / name).write_text(text, encoding="utf-8")
    with catena.Library.open(folder / "lib") as library:
        library.index([folder / name for name in TWO_MANUALS])
    return folder


@pytest.fixture
def shelf(made, tmp_path, monkeypatch):
    """Work in a fresh copy of the folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    at_home(tmp_path, monkeypatch, key=False)
    return tmp_path


def call(*arguments: str, code: int = 0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    if "--json" not in arguments and arguments[0] != "parse":
        assert all(len(line) <= 100 for line in result.stdout.splitlines())
    return result


# parse


def test_parse_writes_markdown_to_stdout_and_its_size_to_stderr(shelf):
    result = call("parse", "hx200.md")
    assert result.stdout == TWO_MANUALS["hx200.md"]
    assert result.stderr == "hx200.md -> 3 sections\n"


def test_parse_writes_to_a_file_exactly_what_it_would_print(shelf):
    result = call("parse", "hx200.md", "--out", "out.md")
    assert result.stdout == ""
    assert (shelf / "out.md").read_bytes().decode() == TWO_MANUALS["hx200.md"]
    assert "out.md" in result.stderr


def test_parse_as_json_holds_sections_that_tile_the_text(shelf):
    found = value("parse", "hx200.md")
    text = found["document"]["text"]
    assert "".join(text[each["start"] : each["end"]] for each in found["sections"]) == text
    assert [each["title"] for each in found["sections"]] == ["HX200 Manual", "Fuse", "Cover"]
    assert found["state"] == "parsed"


def test_parse_tells_the_pages_of_a_pdf(shelf):
    pdf = Path(catena.__file__).parent / "data" / "demo" / "halden-field-reliability-report-2025.pdf"
    shutil.copy(pdf, shelf / "report.pdf")
    result = call("parse", "report.pdf", "--json")
    found = json.loads(result.stdout)
    assert [page["number"] for page in found["pages"]] == [1, 2, 3, 4, 5]
    assert found["pages"][-1]["end"] == len(found["document"]["text"])
    assert result.stderr.startswith("report.pdf -> 5 pages, ")


@pytest.fixture
def locked(shelf):
    """Make an encrypted PDF, whose password is "open"."""
    pdf = Path(catena.__file__).parent / "data" / "demo" / "halden-field-reliability-report-2025.pdf"
    writer = PdfWriter(clone_from=pdf)
    writer.encrypt("open", algorithm="AES-256")
    writer.write(shelf / "locked.pdf")
    return "locked.pdf"


def test_a_password_opens_an_encrypted_pdf(locked, monkeypatch):
    refused = call("parse", locked, code=1)
    assert "encrypted" in refused.stderr
    assert refused.stderr.splitlines()[-1] == "Try: the same command with --password"
    assert "Reliability" in call("parse", locked, "--password", "open").stdout
    monkeypatch.setenv("CATENA_PASSWORD", "open")
    assert value("index", locked, "-l", "lib")["states"] == {"indexed": 1}
    assert "Reliability" in call("ask", locked, "What is the report about?", "-k", "1").stdout


@pytest.mark.parametrize("engine", ["pypdf", "pypdfium2"])
def test_both_engines_read_the_same_sections(shelf, engine):
    pdf = Path(catena.__file__).parent / "data" / "demo" / "halden-field-reliability-report-2025.pdf"
    shutil.copy(pdf, shelf / "report.pdf")
    titles = [each["title"] for each in value("parse", "report.pdf", "--engine", engine)["sections"]]
    assert "4.1 Moisture" in titles


# index


def test_index_shows_the_ledger_and_goes_on_past_a_bad_file(shelf):
    (shelf / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    result = call("index", "hx200.md", "broken.pdf", "--library", "new", code=1)
    assert "indexed   hx200.md" in result.stdout
    assert "failed    broken.pdf" in result.stdout
    assert "2 files: 1 indexed, 1 failed" in result.stdout
    assert "Try: " in result.stderr
    assert value("status", "-l", "new")["holds"]["documents"] == 1


def test_index_again_skips_what_did_not_change(shelf):
    found = value("index", "hx200.md", "hx210.md", "--library", "lib")
    assert found["states"] == {"skipped": 2}
    assert found["holds"]["documents"] == 2


def test_index_searches_folders(shelf):
    (shelf / "sub").mkdir()
    (shelf / "sub" / "more.md").write_text("# More\n\nText.\n")
    found = value("index", "sub", "-l", "lib")
    assert [file["document_id"] for file in found["files"]] == ["sub/more.md"]


def test_index_of_an_empty_folder_is_a_failure(shelf):
    (shelf / "none").mkdir()
    assert "no files" in call("index", "none", "-l", "fresh", code=1).stderr
    assert not (shelf / "fresh").exists()


def test_of_a_mistyped_path_no_library_is_made(shelf):
    result = call("index", "hx2000.md", "gone", "-l", "fresh", code=1)
    assert "neither file nor folder hx2000.md, gone; no library was made. Did you mean 'hx200.md'?" in result.stderr
    assert not (shelf / "fresh").exists()
    assert value("index", "hx200.md", "gone", "-l", "fresh", code=1)["states"] == {"indexed": 1, "failed": 1}
    assert value("index", "gone", "-l", "fresh", code=1)["states"] == {"failed": 1}


def test_a_file_that_failed_and_is_as_it_was_again_is_read_again(shelf):
    text = (shelf / "hx200.md").read_text()
    value("index", "hx200.md", "-l", "fresh")
    (shelf / "hx200.md").write_text("")
    assert value("index", "hx200.md", "-l", "fresh", code=1)["states"] == {"failed": 1}
    (shelf / "hx200.md").write_text(text)
    assert value("index", "hx200.md", "-l", "fresh")["states"] == {"indexed": 1}
    assert value("index", "hx200.md", "-l", "fresh")["states"] == {"skipped": 1}
    with catena.Library.open("fresh", create=False) as library:
        assert [outcome.state for outcome in library.ledger()] == ["indexed"]


def test_a_missing_extra_ends_the_run_before_anything_is_written(shelf, monkeypatch):
    monkeypatch.setitem(sys.modules, "pdfplumber", None)
    result = call("index", "hx200.md", "-l", "fresh", "--ruled-tables", code=2)
    assert "pip install" in result.stderr
    with catena.Library.open("fresh", create=False) as library:
        assert library.ledger() == ()


def test_a_long_ledger_shows_only_what_needs_a_look(shelf):
    for number in range(30):
        (shelf / f"note{number}.md").write_text(f"# Note {number}\n\nText {number}.\n")
    (shelf / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    names = [f"note{number}.md" for number in range(30)]
    result = call("index", *names, "broken.pdf", "-l", "lib", code=1)
    assert "note7.md" not in result.stdout
    assert "broken.pdf" in result.stdout
    assert "31 files: 30 indexed, 1 failed" in result.stdout


# search


def test_search_cites_the_right_manual_first(shelf):
    result = call("search", "To how many N·m is the cover of the HX210 tightened?", "-l", "lib")
    assert "HX210 Manual › Cover, lines 7-9" in result.stdout.splitlines()[0]
    assert "hx210.md  found by " in result.stdout
    assert result.stderr == ""


def test_search_as_json_is_complete(shelf):
    found = value("search", "Which fuse for the HX200?", "-l", "lib", "--k", "2", "--section")
    first = found["hits"][0]
    assert [hit["rank"] for hit in found["hits"]] == [1, 2]
    assert first["citation"] == "HX200 Manual › Fuse, lines 3-5"
    assert first["chunk"]["document_id"] == "hx200.md"
    assert first["chunk"]["text"] in first["section"]["text"]
    assert {way["route"] for way in first["provenance"]} == {"dense", "lexical", "keyword", "name"}
    assert (found["scale"], found["unknown"]) == ("rank", [])
    plain = value("search", "Which fuse for the HX200?", "-l", "lib", "--no-names")
    assert {way["route"] for way in plain["hits"][0]["provenance"]} == {"dense", "lexical", "keyword"}
    assert plain["scale"] == "normalized"


def test_search_shows_whole_sections(shelf):
    result = call("search", "fuse of the HX200", "-l", "lib", "--section", "-k", "1")
    assert "## Fuse" in result.stdout


def test_search_obeys_routes_filters_and_fusion(shelf):
    only = value("search", "fuse", "-l", "lib", "--route", "lexical")
    assert only["scale"] == "similarity"
    assert {way["route"] for hit in only["hits"] for way in hit["provenance"]} == {"lexical"}
    where = value("search", "fuse", "-l", "lib", "--where", '{"document_id": "hx210.md"}')
    assert {hit["chunk"]["document_id"] for hit in where["hits"]} == {"hx210.md"}
    assert value("search", "fuse", "-l", "lib", "--fusion", "rank")["scale"] == "rank"


def test_alpha_and_beta_act(shelf):
    def scores(*options):
        found = value("search", "fuse of the HX200", "-l", "lib", "--no-names", *options)
        return [hit["score"] for hit in found["hits"]]

    assert scores("--alpha", "0.9") != scores("--alpha", "0.1")
    assert scores("--beta", "3") != scores("--beta", "0")


def test_nothing_found_is_exit_code_1_and_still_json(shelf):
    assert value("search", "fuse", "-l", "lib", "--where", '{"title": "other"}', code=1)["hits"] == []


# ask


def test_ask_without_a_model_gives_cited_passages_and_keeps_nothing(shelf):
    before = sorted(path.name for path in shelf.iterdir())
    result = call("ask", "hx200.md", "hx210.md", "Which fuse for the HX210?", "-k", "2")
    assert result.stdout.startswith("[1] HX210 Manual › Fuse, lines 3-5")
    assert "400 mA slow" in result.stdout
    assert sorted(path.name for path in shelf.iterdir()) == before


def test_ask_uses_a_library_that_is_there(shelf):
    found = value("ask", "Which fuse for the HX200?", "-l", "lib")
    assert found["answer"] is None
    assert found["hits"][0]["chunk"]["document_id"] == "hx200.md"


def test_ask_answers_from_the_files_that_could_be_read(shelf):
    result = call("ask", "hx200.md", "gone.md", "Which fuse?", code=1)
    assert "250 mA" in result.stdout
    assert "gone.md" in result.stderr


def test_ask_names_a_file_that_is_not_there(shelf):
    result = call("ask", "nofile", "Which fuse?", code=1)
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "Error: not read: nofile: missing: there is no such file; no passage was found",
        "Try: checking its name and folder",
    ]
    two = call("ask", "nofile", "gone.md", "Which fuse?", code=1).stderr.splitlines()
    assert [line.partition(": missing")[0] for line in two[:2]] == ["not read: nofile", "not read: gone.md"]
    assert two[2] == "Error: 2 files were not read; no passage was found"


# status, delete, verify


def test_status_lists_documents_and_failures(shelf):
    (shelf / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    call("index", "broken.pdf", "-l", "lib", code=1)
    result = call("status", "-l", "lib")
    assert "hx200.md" in result.stdout
    assert "HX200 Manual" in result.stdout
    assert "broken.pdf" in result.stdout.partition("need a look")[2]
    assert "2 documents, 6 sections, 4 chunks" in result.stdout


def test_delete_removes_all_or_nothing(shelf):
    call("delete", "hx200.md", "gone.md", "-l", "lib", code=2)
    assert value("status", "-l", "lib")["holds"]["documents"] == 2
    assert value("delete", "hx200.md", "-l", "lib") == {"library": "lib", "deleted": ["hx200.md"], "documents": 1}
    hits = value("search", "fuse", "-l", "lib")["hits"]
    assert {hit["chunk"]["document_id"] for hit in hits} == {"hx210.md"}


def test_delete_takes_a_path_as_index_does_and_an_id_before_it(shelf, monkeypatch):
    (shelf / "sub").mkdir()
    (shelf / "sub" / "hx200.md").write_text("# Other\n\nText.\n")
    call("index", "sub", "-l", "lib")
    monkeypatch.chdir(shelf / "sub")
    assert value("delete", "hx200.md", "-l", "../lib")["deleted"] == ["hx200.md"]  # an id, though a file as well
    assert value("delete", "hx200.md", "./hx200.md", "-l", "../lib")["deleted"] == ["sub/hx200.md"]
    assert value("delete", str(shelf / "hx210.md"), "-l", "../lib") == {
        "library": "../lib",
        "deleted": ["hx210.md"],
        "documents": 0,
    }
    assert "gone.md" in call("delete", "../gone.md", "-l", "../lib", code=2).stderr


# files that are gone from disk


def test_index_and_status_name_files_that_are_gone(shelf):
    (shelf / "hx200.md").unlink()
    result = call("index", "hx210.md", "-l", "lib")
    assert result.stderr.splitlines() == [
        "1 indexed file is gone from disk and can still be found: hx200.md",
        "Try: catena index hx210.md --library lib --prune",
    ]
    found = value("index", "hx210.md", "-l", "lib")
    assert (found["vanished"], found["pruned"], found["holds"]["documents"]) == (["hx200.md"], [], 2)
    assert value("status", "-l", "lib")["vanished"] == ["hx200.md"]
    assert "\nFiles that are gone from disk and can still be found\nhx200.md\n" in call("status", "-l", "lib").stdout


def test_prune_deletes_what_is_gone_and_nothing_else(shelf):
    (shelf / "hx200.md").unlink()
    found = value("index", "hx210.md", "-l", "lib", "--prune")
    assert (found["vanished"], found["pruned"], found["holds"]["documents"]) == ([], ["hx200.md"], 1)
    assert value("status", "-l", "lib")["vanished"] == []
    assert {hit["chunk"]["document_id"] for hit in value("search", "fuse", "-l", "lib")["hits"]} == {"hx210.md"}
    assert call("index", "hx210.md", "-l", "lib", "--prune").stderr == ""


def test_prune_never_deletes_what_this_run_read(shelf, monkeypatch):
    monkeypatch.setattr("catena.library.base.is_gone", lambda name, home: True)
    for words in (["hx200.md", "hx210.md"], ["."]):
        found = value("index", *words, "-l", "lib", "--prune")
        assert (found["vanished"], found["pruned"], found["holds"]["documents"]) == ([], [], 2)


def test_prune_empties_a_folder_whose_files_are_all_gone(shelf):
    (shelf / "sub").mkdir()
    for number in range(7):
        (shelf / "sub" / f"{number}.md").write_text(f"# {number}\n\nText.\n")
    call("index", "sub", "-l", "lib")
    for path in (shelf / "sub").iterdir():
        path.unlink()
    assert "7 indexed files are gone" in call("index", "sub", "-l", "lib", code=1).stderr
    told = call("index", "sub", "-l", "lib", "--prune").stderr
    assert told.startswith("7 indexed files are gone from disk, and deleted from the library: sub/0.md, ")
    assert told.endswith("sub/4.md and 2 more\n")
    assert value("status", "-l", "lib")["holds"]["documents"] == 2


def test_verify_finds_a_library_sound(shelf):
    assert value("verify", "-l", "lib") == {"library": "lib", "sound": True, "problems": []}
    assert call("verify", "-l", "lib").stdout == "sound: 2 documents, 4 chunks checked\n"


def test_verify_lists_what_is_wrong(shelf):
    (database,) = [
        path for path in (shelf / "lib").iterdir() if path.is_file() and path.read_bytes()[:6] == b"SQLite"
    ]
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM vectors WHERE chunk = (SELECT min(chunk) FROM vectors)")
    connection.close()
    found = value("verify", "-l", "lib", code=4)
    assert not found["sound"]
    assert any("vector" in problem for problem in found["problems"])
    result = call("verify", "-l", "lib", code=4)
    assert "vector" in result.stdout
    assert "Try: " in result.stderr


# doctor


def test_doctor_finds_this_machine_healthy_and_shows_no_key(shelf, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-secret-secret")
    result = call("doctor")
    assert "secret" not in result.output
    assert "embedding" in result.stdout
    found = value("doctor")
    assert found["healthy"]
    states = {check["name"]: check["state"] for check in found["checks"]}
    assert states["OPENAI_API_KEY"] == "ok"
    assert states["CATENA_API_KEY"] == "absent"
    assert {states[name] for name in ("embedding", "parser process", "library")} == {"ok"}


def test_doctor_says_what_does_not_work(shelf, monkeypatch):
    def fails() -> str:
        raise OSError("no process")

    monkeypatch.setattr("catena.cli.doctor._parser", fails)
    result = call("doctor", code=1)
    assert "no process" in result.stdout
    assert "not working: parser process" in result.stderr


# help and version


@pytest.mark.slow
def test_version_and_help():
    assert call("--version").stdout == f"catena {catena.__version__}\n"
    shown = call("--help").stdout
    commands = ["demo", "index", "search", "ask", "report", "parse", "segment", "views", "figures", "status"]
    commands += ["delete", "verify", "plan", "questions", "evaluate", "tune", "calibrate", "judge", "doctor"]
    commands += ["explain-error"]
    listed = re.findall(r"^  ([a-z-]+)  ", shown.partition("First:")[2], flags=re.MULTILINE)
    assert sorted(listed) == sorted([*commands, "graph", "server"])
    of_graph = [f"graph {name}" for name in ("build", "show", "export", "drop", "train")]
    of_server = ("index", "search", "status", "verify", "delete", "rebuild", "export", "graph")
    for command in (*commands, *of_graph, *(f"server {name}" for name in of_server)):
        assert "--json" in call(*command.split(), "--help").stdout

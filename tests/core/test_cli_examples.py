"""What `--help` shows is true: every example parses, and runs where nothing in `ONLY_PARSED` speaks against it."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_calls import commands
from drawn_pages import bars, pdf, prose, text
from typer.main import get_command
from typer.testing import CliRunner

from catena import Library
from catena.cli.app import app
from catena.cli.examples import EXAMPLES, GREETING, SECTIONS
from catena.parsing.figure_shapes import Box

NAMES = [f"{letters}{number}" for letters in ("HX", "KL", "MT") for number in (110, 120, 130, 140)]
PARTS = ("seal", "wire", "valve")
ALL = [(name, line) for name, lines in EXAMPLES.items() for line in lines]
# What is parsed and not run here, by its words behind `catena`, and why. All else takes less than a second each.
ONLY_PARSED = {
    r"(?!.* --plan$).* --(llm|model) ": "asks a model",
    r".* --llm .* --plan$": "asks no model, but looks for its key",
    r"server ": "asks a server",
    r"demo": "parses and indexes the bundled PDFs: over two seconds; the README's blocks run it",
    r"report .* --questions ": "a page of each question: seconds; test_report.py asks some",
    r"graph train ": "trains and validates several times over: minutes; test_cli_graph.py trains once",
    r"show ": "looks up a citation of a real PDF; test_boxes.py does",
    r"doctor": "looks at the machine, which may lack a package; test_cli_commands.py runs it",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all that examples name."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "manuals").mkdir()
    for name in NAMES:
        parts = "".join(f"## The {part}\n\nReplace the {part} of the {name} once a year.\n\n" for part in PARTS)
        (folder / "manuals" / f"{name}.md").write_text(f"# Pump {name}\n\n{parts}")
    head = "| | Three months ended September 30, 2022 | Year ended December 31, 2014 |\n|-|-|-|\n"
    (folder / "manuals" / "northwind.md").write_text(
        f"# Northwind\n\n{head}| Revenue | 7 | 25 |\n| Net income | 1 | 2 |\n"
    )
    (folder / "manuals" / "old.pdf").write_bytes(drawn())
    (folder / "manual.pdf").write_bytes(drawn())
    (folder / "questions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in questions()))
    (folder / "pairs.jsonl").write_text(json.dumps({"question": "?", "reference": "x", "a": "x", "b": "y"}) + "\n")
    with contextlib.chdir(folder), Library.open("lib") as library:
        library.index(["manuals"])
    return folder


def drawn() -> bytes:
    """Return a PDF of one page with words and a figure."""

    def page(canvas: Any) -> None:
        text(canvas, "Torque of the HX200", 60, 60, 16)
        prose(canvas, 60, 100, 470, 5)
        bars(canvas, Box(120, 200, 360, 280))
        text(canvas, "Figure 1: Failures by year", 60, 306)

    return pdf(page)


def questions() -> Iterator[dict[str, Any]]:
    for name in NAMES:
        document = f"manuals/{name}.md"
        for part in PARTS[:2]:
            said = [f"Replace the {each} of the {name} once a year." for each in PARTS]
            yield {
                "question": f"When is the {part} of the {name} replaced, and when the rest?",
                "gold": {"document": document, "heading": f"The {part}"},
                "supporting": [{"document": document, "text": each} for each in said],
            }


def test_every_command_shows_its_examples_last_and_they_parse(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commands().keys() == EXAMPLES.keys()
    monkeypatch.chdir(files)
    for name, lines in EXAMPLES.items():
        with commands()[name].make_context(name, [], resilient_parsing=True) as context:
            shown = commands()[name].get_help(context)
        assert shown.endswith("\n".join(["Examples:", *(f"    {line}" for line in lines)])), shown
        for line in lines:
            program, *words = shlex.split(line)
            assert (program, words[: len(name.split())]) == ("catena", name.split())
            with commands()[name].make_context(name, words[len(name.split()) :]) as context:
                assert context.params, line


def reasons(line: str) -> list[str]:
    """Return why an example is only parsed: nothing for one that runs."""
    return [why for words, why in ONLY_PARSED.items() if re.match(words, line.removeprefix("catena "))]


def test_what_is_only_parsed_is_so_for_one_reason_and_most_examples_run() -> None:
    told = [reasons(line) for _, line in ALL]
    assert all(len(each) <= 1 for each in told)
    assert {why for each in told for why in each} == set(ONLY_PARSED.values())
    assert told.count([]) > len(ALL) / 2


@pytest.mark.slow
def test_the_examples_run_in_their_order(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    for name, line in sorted(ALL, key=lambda each: each[0] in {"delete", "graph drop"}):
        if not reasons(line):
            result = CliRunner().invoke(app, shlex.split(line)[1:])
            assert result.exit_code == 0, f"{name}: {line}: {result.output}"


def test_the_help_lists_every_command_once_and_none_is_cut_short() -> None:
    names = [name for section in SECTIONS.values() for name in section]
    assert sorted(names) == sorted(get_command(app).list_commands(None))  # type: ignore[attr-defined,arg-type]
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout
    for section, told in SECTIONS.items():
        assert f"\n{section}:\n" in shown
        for name, what in told.items():
            assert re.search(rf"^  {name} +{re.escape(what)}$", shown, re.MULTILINE), name


def test_a_newcomer_is_met_with_three_commands_and_a_group_alone_with_its_help() -> None:
    result = CliRunner().invoke(app, [])
    assert (result.exit_code, result.stdout, result.stderr) == (0, GREETING, "")
    begun = [line.split()[1] for line in GREETING.splitlines() if line.startswith("  catena ")]
    assert begun == ["demo", "index", "search"]
    for group in ("graph", "server"):
        result = CliRunner().invoke(app, [group])
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"Usage: catena {group} ")

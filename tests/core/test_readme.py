"""README and pages do what they say: blocks are executed in order, set-up commands are those that CI runs."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CLI = "packages/catena/src/catena/cli"
PROMPTS = sorted((ROOT / "packages/catena/src/catena/prompts").glob("*.md"))
SET_UP = re.compile(r"\b(python3 -m venv|pip install|nox)\b")


class Block(NamedTuple):
    """A fenced block: its language, its text, and the number of its first line, from 1."""

    language: str
    text: str
    line: int


def blocks_of(markdown: str) -> list[Block]:
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", markdown, re.MULTILINE | re.DOTALL)
    return [Block(each[1], each[2], markdown.count("\n", 0, each.start(2)) + 1) for each in found]


def commands_of(text: str) -> list[str]:
    return [part.strip() for line in text.splitlines() for part in line.split("&&") if part.strip()]


BLOCKS = blocks_of(README)
SHELL = [block for block in BLOCKS if block.language == "sh"]
SET_UP_BLOCKS = [block for block in SHELL if SET_UP.search(block.text)]


def metadata_of(package: str) -> dict[str, dict[str, dict[str, list[str]]]]:
    return tomllib.loads((ROOT / package / "pyproject.toml").read_text(encoding="utf-8"))


def run_shell(block: Block) -> None:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CATENA_")}
    ended = subprocess.run(
        ["sh", "-eu", "-c", block.text],
        env={**environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, f"README.md:{block.line}: {ended.stderr}"


def run_blocks(page: Path, blocks: Sequence[Block], capsys: pytest.CaptureFixture[str]) -> None:
    """Execute what is not set-up, in order, in one namespace; compare output with the `text` block that follows."""
    namespace = {"__name__": "page"}
    for block, following in pairwise([*blocks, Block("", "", 0)]):
        if block.language == "sh" and not SET_UP.search(block.text):
            run_shell(block)
        elif block.language == "python":
            capsys.readouterr()
            shifted = "\n" * (block.line - 1) + block.text  # so that a traceback names the page's line
            exec(compile(shifted, page.name, "exec", dont_inherit=True), namespace)  # as a reader runs it
            if following.language == "text":
                assert capsys.readouterr().out == following.text, f"{page.name}:{following.line}"


@pytest.mark.timeout(900)  # the README's blocks index the bundled manuals several times: minutes on a busy machine
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_does_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(page, blocks_of(page.read_text(encoding="utf-8")), capsys)


def test_blocks_are_of_known_kinds() -> None:
    assert {block.language for block in BLOCKS} == {"sh", "python", "text"}
    for block in SET_UP_BLOCKS:
        assert all(SET_UP.search(command) for command in commands_of(block.text))


def test_two_commands_do_all_the_set_up() -> None:
    one_liners = [block for block in SET_UP_BLOCKS if "venv .venv" in block.text]
    assert [len(block.text.splitlines()) for block in one_liners] == [1, 1]
    demo, tests = (commands_of(block.text) for block in one_liners)
    assert demo == [*tests[:-1], tests[-1].replace("tests", "demo")]
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    start = lines.index(tests[0])
    assert lines[start : start + len(tests)] == tests


def test_nox_sessions_and_benchmarks_exist() -> None:
    from catena_bench.cli import BENCHMARKS, OWN_OPTIONS

    sessions = re.findall(
        r"^@nox\.session\ndef (\w+)", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(re.findall(r"nox -s (\w+)", README)) <= set(sessions)
    assert re.findall(r"nox -s bench -- (\S+)", README) == sorted({*BENCHMARKS, *OWN_OPTIONS}, reverse=True)


def test_install_commands_name_packages_and_extras_of_this_tree() -> None:
    installs = [
        command for block in SHELL for command in commands_of(block.text) if command.startswith("pip install")
    ]
    targets = [target for command in installs for target in re.findall(r"\./([\w/-]+)(?:\[([\w,-]+)\])?", command)]
    assert {package for package, _ in targets} == {
        "packages/catena",
        "integrations/langchain-catena",
        "integrations/llama-index-catena",
    }
    for package, extras in targets:
        known = metadata_of(package)["project"].get("optional-dependencies", {})
        assert set(filter(None, extras.split(","))) <= set(known)


def test_the_table_of_extras_is_complete() -> None:
    table = README.split("| extra of `catena` |")[1].split("\n\n")[0]
    listed = re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)
    assert sorted(listed) == sorted(metadata_of("packages/catena")["project"]["optional-dependencies"])


def test_the_formula_is_written_with_the_default_weights() -> None:
    from catena.retrieval.fusion import ScoreFusion

    weights = ScoreFusion()
    assert f"α = {weights.alpha:g}, β = {weights.beta:g}\n" in README


@pytest.mark.parametrize("name", ["hiqa.md", "iier.md", "mc-indexing.md", "textrag.md"])
def test_the_map_of_a_paper_names_modules_functions_and_options_that_exist(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", page)) - {prompt.name for prompt in PROMPTS}
    assert len(named) > 30
    assert [name for name in sorted(named) if not is_there(name)] == []
    commands = "".join(path.read_text(encoding="utf-8") for path in (ROOT / CLI).glob("*.py"))
    options = set(re.findall(r"--[a-z][a-z-]+", page))
    assert options
    assert [option for option in sorted(options) if f'"{option}"' not in commands] == []


def test_textrag_names_presets_prompts_and_notebooks_as_they_are() -> None:
    from catena.extraction.params import PENALTY_LENGTHS, PRESETS

    page = (ROOT / "docs" / "textrag.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(\w+\.md)`", page)) <= {prompt.name for prompt in PROMPTS}
    for penalty, fewest, most in PENALTY_LENGTHS:
        assert f"\n| {penalty:g} | {fewest} to {most} |\n" in page
    for field in (
        "max_chunks",
        "overall_max_chunks",
        "extension",
        "minimum_value",
        "irrelevance_penalty",
        "decay_rate",
        "top_k",
    ):
        row = next(line for line in page.splitlines() if line.startswith(f"| `{field}`") and line.count("|") == 5)
        assert [cell.strip() for cell in row.split("|")[2:5]] == [
            f"{getattr(each, field):g}" for each in PRESETS.values()
        ]


def is_there(name: str) -> bool:
    """Return whether a dotted name, of an adapter or below `catena`, is a module or stands in one."""
    full = name if name.partition(".")[0].endswith("_catena") else f"catena.{name}"
    module, _, attribute = full.rpartition(".")
    if importlib.util.find_spec(module) is None:
        return False
    found = importlib.import_module(module)
    is_package = hasattr(found, "__path__")
    return hasattr(found, attribute) or (is_package and importlib.util.find_spec(full) is not None)


def test_the_tables_of_states_and_limits_are_complete() -> None:
    from catena.layout import FailureState, PageState
    from catena.model import IngestState
    from catena.parsing import Limits

    page = (ROOT / "docs" / "parsing-states.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)
    states = [*get_args(IngestState), *get_args(FailureState), *get_args(PageState)]
    assert sorted(listed) == sorted(states)
    limits = Limits()
    for number in (
        f"{limits.seconds:g} seconds",
        *(f"{n:,}" for n in (limits.memory_bytes, limits.pages, limits.bytes)),
    ):
        assert number in page

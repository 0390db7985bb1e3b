"""README and pages do what they say: blocks are executed in order, set-up commands are those that CI runs."""

from __future__ import annotations

import importlib
import importlib.util
import re
import runpy
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from click import Context
from doc_blocks import ROOT, SET_UP, blocks_of, commands_of, run_blocks

from catena.testing.chat_server import ChatServer

README, INSTALL, BENCHMARKS, RANKING = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "docs/install.md", "docs/benchmarks.md", "docs/guide.md")
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
PROMPTS = sorted((ROOT / "packages/catena/src/catena/prompts").glob("*.md"))


BLOCKS = blocks_of(README)
SHELL = [block for block in BLOCKS if block.language == "sh"]
SET_UP_BLOCKS = [block for block in SHELL if SET_UP.search(block.text)]


def metadata_of(package: str) -> dict[str, dict[str, dict[str, list[str]]]]:
    return tomllib.loads((ROOT / package / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.timeout(900)  # the guide's blocks index the bundled manuals several times: minutes on a busy machine
@pytest.mark.parametrize(
    "page",
    [PAGES[0], *(pytest.param(page, marks=pytest.mark.slow) for page in PAGES[1:])],
    ids=lambda page: page.name,
)
def test_every_block_does_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with ChatServer(lambda body: f"2.4 N·m, for {body['model']}") as provider:  # speaks OpenAI's protocol
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        monkeypatch.setenv("OPENAI_API_BASE", provider.url)
        run_blocks(page, blocks_of(page.read_text(encoding="utf-8")), capsys, there={"provider"})
    assert len(provider.bodies) == sum(block.needs == "provider" for block in blocks_of(page.read_text("utf-8")))


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
    from catena_bench.cli import BENCHMARKS as MEASURED
    from catena_bench.cli import OWN_OPTIONS

    sessions = re.findall(
        r"^@nox\.session\ndef (\w+)", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(re.findall(r"nox -s (\w+)", README + BENCHMARKS)) <= set(sessions)
    assert re.findall(r"nox -s bench -- (\S+)", BENCHMARKS) == sorted({*MEASURED, *OWN_OPTIONS}, reverse=True)


def test_install_commands_name_packages_and_extras_of_this_tree() -> None:
    installs = [
        command
        for block in [*SHELL, *blocks_of(INSTALL)]
        for command in commands_of(block.text)
        if command.startswith("pip install")
    ]
    targets = [target for command in installs for target in re.findall(r"\./([\w/-]+)(?:\[([\w,-]+)\])?", command)]
    assert {package for package, _ in targets} == {
        "packages/catena",
        "packages/catena-server",
        "packages/catena-view",
        "packages/catena-bench",
        "integrations/langchain-catena",
        "integrations/llama-index-catena",
    }
    for package, extras in targets:
        known = metadata_of(package)["project"].get("optional-dependencies", {})
        assert set(filter(None, extras.split(","))) <= set(known)


def test_the_table_of_extras_is_complete() -> None:
    table = INSTALL.split("| extra of `catena-core` |")[1].split("\n\n")[0]
    listed = re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)
    assert sorted(listed) == sorted(metadata_of("packages/catena")["project"]["optional-dependencies"])


def test_the_formula_is_written_with_the_default_weights() -> None:
    from catena.retrieval import ScoreFusion

    weights = ScoreFusion()
    assert f"α = {weights.alpha:g}, β = {weights.beta:g}\n" in RANKING


@pytest.mark.parametrize("name", ["hiqa.md", "iier.md", "mc-indexing.md", "textrag.md"])
def test_the_map_of_a_paper_names_modules_functions_and_options_that_exist(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", page)) - {prompt.name for prompt in PROMPTS}
    assert len(named) > 30
    assert [name for name in sorted(named) if not is_there(name)] == []
    options = set(re.findall(r"--[a-z][a-z-]+", page))
    assert options
    assert sorted(options - options_of_commands()) == []


def test_textrag_names_presets_prompts_and_notebooks_as_they_are() -> None:
    from catena.segments import PRESETS
    from catena.segments.params import PENALTY_LENGTHS

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


def test_the_page_about_servers_names_what_exists_and_tells_what_was_measured() -> None:
    page = (ROOT / "docs" / "past-one-machine.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:catena_server\.|text\.|\w+_catena\.)\w*(?:\.\w+)*)`", page))
    assert len(named) > 8
    assert [name for name in sorted(named) if not is_there(name)] == []
    options = set(re.findall(r"--[a-z][a-z-]+", page)) - {"--data"}
    assert sorted(options - options_of_commands()) == []
    written = runpy.run_path(str(ROOT / "scripts" / "write_sizes.py"))["written"]
    assert page == written(page), "Try: python scripts/write_sizes.py"


@cache
def options_of_commands() -> frozenset[str]:
    """Return the long options of all commands of `catena` and `catena-bench`."""
    from catena.cli.app import app
    from catena_bench.cli import app as bench

    def walked(command: Any, context: Any) -> Iterator[str]:
        for each in command.params:
            yield from (name for name in (*each.opts, *each.secondary_opts) if name.startswith("--"))
        for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
            yield from walked(command.get_command(context, name), context)

    commands = [typer.main.get_command(each) for each in (app, bench)]
    return frozenset(name for command in commands for name in walked(command, Context(command)))


def is_there(name: str) -> bool:
    """Return whether a dotted name, of an adapter or below `catena`, is a module or stands in one."""
    full = name if name.partition(".")[0].endswith(("_catena", "_server", "_bench", "_view")) else f"catena.{name}"
    module, _, attribute = full.rpartition(".")
    if importlib.util.find_spec(module) is None:
        return False
    found = importlib.import_module(module)
    is_package = hasattr(found, "__path__")
    return hasattr(found, attribute) or (is_package and importlib.util.find_spec(full) is not None)


def test_the_tables_of_states_and_limits_are_complete() -> None:
    from catena.model import IngestState, PageState
    from catena.model.layout import FailureState
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

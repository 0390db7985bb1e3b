"""Options made from option dataclasses; pictures are refused before any work where catena-view is missing."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from annotated_types import Ge, Gt, Le
from cli_calls import at_home, call, commands, refused
from typer.testing import CliRunner

from catena.cli.options import FieldsOf, Given, given_options, grouped
from catena.model.options import Doc, declared


@dataclass(frozen=True, kw_only=True)
class Settings:
    size: Annotated[int, Ge(1), Le(9), Doc("How many")] = 3
    share: Annotated[Annotated[float, Gt(0)] | None, Doc("How much of it")] = None
    way: Annotated[Literal["up", "down"], Doc("Where to")] = "up"
    joined: Annotated[bool, Doc("Join them")] = True


OF_ALL = FieldsOf(Settings, only_with="--all", size="--size", share="--share", way="--way", joined="--join/--no-join")


@dataclass(frozen=True, kw_only=True)
class Group:
    loud: Annotated[bool, typer.Option("--loud")] = False
    settings: Annotated[Given, OF_ALL] = field(default_factory=dict)


def run(*words: str) -> tuple[Any, str]:
    """Return the group that a command is given, None where it is refused, and what it prints."""
    seen: list[Any] = []

    def command(*, group: Group) -> None:
        seen.append(group)

    command.__annotations__ = {"group": Group, "return": None}
    made = typer.Typer(rich_markup_mode=None)
    made.command()(grouped(command))
    result = CliRunner().invoke(made, [*words], env={"COLUMNS": "200"})
    return (seen[0] if seen else None), result.output


def test_what_was_given_reaches_the_dataclass_and_nothing_else() -> None:
    assert run()[0] == Group()
    group, _ = run("--size", "4", "--no-join", "--way", "down", "--loud")
    assert Settings(**group.settings) == Settings(size=4, joined=False, way="down")
    assert given_options(group) == {"--loud": True, "--size": 4, "--way": "down", "--join/--no-join": False}
    assert given_options(Group()) == {}
    for words in (("--size", "0"), ("--size", "10"), ("--size", "x"), ("--way", "left")):
        group, told = run(*words)
        assert group is None
        assert f"'{words[0]}'" in told


def test_the_help_says_what_the_field_declares() -> None:
    told = re.sub(" +", " ", run("--help")[1])
    assert "--size N With --all: how many [3]. [1<=x<=9]" in told
    assert "--share X With --all: how much of it." in told
    assert re.search(r"[<[]up\|down[]>] With --all: where to \[up\]\.", told)
    assert "--join / --no-join With --all: join them." in told
    assert declared(Settings, "share")[:5] == (float, None, "How much of it", None, None)  # Gt is left to it


def test_every_option_of_every_command_has_a_help_in_words_and_json_is_one_of_each() -> None:
    for name, command in commands().items():
        options = [each for each in command.params if each.param_type_name == "option"]
        assert "--json" in {word for each in options for word in each.opts}, name
        assert [each.opts for each in options if not (each.help or "").endswith((".", "?"))] == [], name


PICTURES = (
    "search q -l lib --segments --curve c.html",
    "search q -l lib --graph --picture g.html",
    "search q -l lib --graph --strip s.png",
    "ask note.md q --graph --strip s.html",
    "evaluate lib bank.jsonl --plot p.html",
    "evaluate lib bank.jsonl --curve p.html",
    "calibrate lib bank.jsonl --plot p.html --out fit.json",
    "graph show lib --picture g.html",
    "graph train lib bank.jsonl --output scorer --picture l.html",
    "parse note.md --llm m --base-url http://127.0.0.1:9/v1 --fidelity-plot f.html --out out.md",
)


def test_a_picture_without_its_package_is_refused_before_any_work_and_all_else_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(tmp_path, monkeypatch)
    monkeypatch.setitem(sys.modules, "catena_view", None)
    Path("note.md").write_text("# Note\n\nThe seal is replaced once a year.\n")
    Path("bank.jsonl").write_text('{"question": "q", "gold": {"document": "note.md", "text": "seal"}}\n')
    with monkeypatch.context() as working:
        for work in ("library.Library.open", "store.store.LibraryStore.open", "parsing.parse"):
            working.setattr(f"catena.{work}", lambda *_, **__: pytest.fail("it began to work"))
        for words in PICTURES:
            assert "pip install ./packages/catena-view" in refused(*words.split()).replace("'", ""), words
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bank.jsonl", "note.md"]
    for words in ("index note.md -l lib --graph", "search seal -l lib --graph", "graph show lib"):
        call(*words.split())

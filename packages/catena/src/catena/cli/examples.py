"""Read from `data/help.toml` what commands show: examples, the sections of `--help`, extras, advice."""

from __future__ import annotations

import tomllib
from collections.abc import Container
from importlib.resources import files
from typing import Any

import typer

_HELP = tomllib.loads(files("catena").joinpath("data", "help.toml").read_text(encoding="utf-8"))
GREETING: str = _HELP["greeting"]
SECTIONS: dict[str, dict[str, str]] = _HELP["sections"]
EXAMPLES: dict[str, list[str]] = _HELP["examples"]
EXTRAS: dict[str, list[str]] = _HELP["extras"]
"""What pip is told to install -> the package that it brings, and what that is for."""
IN_COMMANDS: dict[str, str] = _HELP["advice"]
"""Advice that errors give to Python programs -> the same in the words of the command line."""


def with_examples(app: typer.Typer, group: str = "") -> None:
    """Let the help of each command that is registered end with its examples."""
    for command in app.registered_commands:
        assert command.callback is not None
        name = f"{group}{command.name or command.callback.__name__.replace('_', '-')}"
        command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[name])


def list_in_sections(commands: Container[str], formatter: Any) -> None:
    """Write the list of all commands in their sections to the help that is being made."""
    width = max(len(name) for section in SECTIONS.values() for name in section)
    for title, section in SECTIONS.items():
        with formatter.section(title):
            formatter.write_dl([(name.ljust(width), told) for name, told in section.items() if name in commands])

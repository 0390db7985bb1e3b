"""Command lines that are run in this process: what they print, checked for what no command may print."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from catena.cli.app import app
from catena.cli.segment_search import RERANKER_KEYS
from catena.library import Library

KEY = "sk-test-0123456789abcdefghij"
"""The key of every model that a test asks; no command shows it."""
MANUALS = {
    f"hx{number}.md": f"# HX{number} Manual\n\n## Fuse\n\nThe fuse is rated {fuse} mA slow.\n\n## Cover\n\n"
    f"Tighten it to {torque} N·m.\n"
    for number, fuse, torque in ((200, 250, 1.8), (210, 400, 2.4), (220, 630, 3.1))
}
"""Three manuals that differ in two numbers."""


def call(*arguments: object, code: int = 0) -> Any:
    """Run one command line, and check its exit code, and that it shows neither a traceback nor the key."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert KEY not in result.output
    return result


def value(*arguments: object, code: int = 0) -> Any:
    """Return the JSON value that a command line prints with --json."""
    return json.loads(call(*arguments, "--json", code=code).stdout)


def refused(*arguments: object, code: int = 2) -> str:
    """Return what a command line that fails says on stderr."""
    return str(call(*arguments, code=code).stderr)


@cache
def commands() -> dict[str, Any]:
    """Return every command, also those of groups, by the words that call it."""
    return dict(_below(get_command(app)))


def _below(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield from _below(command, f"{above}{name} ") if hasattr(command, "commands") else [(above + name, command)]


def plain(text: str) -> str:
    """Return a text with single spaces in place of breaks and runs of spaces."""
    return " ".join(text.split())


def filled(folder: Path, texts: Mapping[str, str]) -> Path:
    """Write files into a folder, and index them into the library "lib" in it."""
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    with Library.open(folder / "lib") as library:
        library.index([folder / name for name in texts])
    return folder


def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch, *, key: bool = True) -> Path:
    """Work in a folder, 100 columns wide, with the key of the tests, or none, in the environment."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("CATENA_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "CATENA_LIBRARY", *RERANKER_KEYS.values()):
        monkeypatch.delenv(name, raising=False)
    if key:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return folder

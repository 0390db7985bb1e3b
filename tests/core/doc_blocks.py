"""The fenced blocks of a page: found, and executed as a reader does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
SET_UP = re.compile(r"\b(python3 -m venv|pip install|nox)\b")
FENCED = re.compile(r"^```(\w*)(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its language, its text, the number of its first line, from 1, and what it needs.

    What it needs is a word behind the language, as "server"; "" for nothing.
    """

    language: str
    text: str
    line: int
    needs: str = ""


def blocks_of(markdown: str) -> list[Block]:
    return [
        Block(each[1], each[3], markdown.count("\n", 0, each.start(3)) + 1, each[2] or "")
        for each in FENCED.finditer(markdown)
    ]


def commands_of(text: str) -> list[str]:
    return [part.strip() for line in text.splitlines() for part in line.split("&&") if part.strip()]


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
    assert ended.returncode == 0, f"line {block.line}: {ended.stderr}"


def run_blocks(
    page: Path, blocks: Sequence[Block], capsys: pytest.CaptureFixture[str], *, there: Collection[str] = ()
) -> None:
    """Execute what is not set-up, in order, in one namespace; compare output with the `text` block that follows.

    Args:
        page: whose blocks they are.
        blocks: all of them.
        capsys: holds what they print.
        there: what blocks may need; those that need something else are passed over.
    """
    namespace = {"__name__": "page"}
    for block, following in pairwise([*blocks, Block("", "", 0)]):
        if block.needs and block.needs not in there:
            continue
        if block.language == "sh" and not SET_UP.search(block.text):
            run_shell(block)
        elif block.language == "python":
            capsys.readouterr()
            shifted = "\n" * (block.line - 1) + block.text  # so that a traceback names the page's line
            exec(compile(shifted, page.name, "exec", dont_inherit=True), namespace)  # as a reader runs it
            if following.language == "text":
                assert capsys.readouterr().out == following.text, f"{page.name}:{following.line}"

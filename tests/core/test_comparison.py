"""The table of other systems says how every cell is known; our column leads to pages and code that are there."""

from __future__ import annotations

import importlib
import importlib.util
import re

import pytest
from doc_blocks import ROOT

PAGE = ROOT / "docs" / "comparison.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in re.findall(r"^\| \d+ \|.*$", TEXT, re.M)
]
LETTER = re.compile(r"(?:Y|P|N|\d+|many)\b")
KNOWN = re.compile(r" · [rsid]$")
OURS = re.compile(r"^(Y|P|N)\b.* · \[t\]\(([^)#]+)(?:#[\w-]+)?\)$")


def is_there(name: str) -> bool:
    """Return whether a dotted name below `catena` is a module, or stands in one."""
    module, _, attribute = f"catena.{name}".rpartition(".")
    if importlib.util.find_spec(f"catena.{name}" if "." not in name else module) is None:
        return False
    if "." not in name:
        return True
    found = importlib.import_module(module)
    return hasattr(found, attribute) or (
        hasattr(found, "__path__") and importlib.util.find_spec(f"catena.{name}") is not None
    )


def test_the_table_is_whole() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 56))
    assert {len(row) for row in ROWS} == {11}
    assert "21 November 2026" in TEXT


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_cell_says_how_it_is_known(row: list[str]) -> None:
    for cell in row[3:]:
        assert cell == "—" or (LETTER.match(cell) and KNOWN.search(cell)), cell
        assert (" · i" not in cell) or "](https://github.com/" in cell, cell


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_our_cell_leads_to_a_page_and_to_code(row: list[str]) -> None:
    ours = OURS.match(row[2])
    assert ours, row[2]
    assert (PAGE.parent / ours[2]).exists(), ours[2]
    names = re.findall(r"`([a-z_]+(?:\.\w+)*)`", row[2])
    assert [name for name in names if not is_there(name)] == []
    assert names or ours[1] != "Y" or ours[2].endswith(".ipynb")


def test_what_is_missing_is_said_below_the_table() -> None:
    missing = TEXT.split("## What Catena does not have")[1].split("\n## ")[0]
    for words in ("No OCR", "No late chunking", "each single chunk"):
        assert words.lower() in re.sub(r"\s+", " ", missing).lower()
    assert sum(row[2].startswith("N") for row in ROWS) > 0

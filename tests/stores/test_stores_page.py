"""The page about stores has a row for each store of these tests, and says of it what they check."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType

import pytest
import stores_of_langchain
import stores_of_llama_index
import test_stores_langchain
import test_stores_llama_index

PAGE = Path(__file__).parents[2] / "docs" / "stores.md"
TWICE = {"calls", "filled", "store"}  # what is called and awaited
SIDES = {
    "LangChain": (stores_of_langchain.KINDS, test_stores_langchain),
    "LlamaIndex": (stores_of_llama_index.KINDS, test_stores_llama_index),
}


def rows(side: str) -> dict[str, list[str]]:
    """Return the cells of the table's rows of one side, by class."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {side} |")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {each[1].strip("`"): each[2:] for each in cells}


def cases(module: ModuleType) -> int:
    """Return how many cases are run over each store."""
    tests = [given for name, given in inspect.getmembers(module, inspect.isfunction) if name.startswith("test_")]
    asked = [set(inspect.signature(test).parameters) for test in tests]
    return sum(2 if names & TWICE else 1 for names in asked if "kind" in names)


@pytest.mark.parametrize("side", SIDES)
def test_the_table_is_that_of_the_cases(side: str) -> None:
    kinds, module = SIDES[side]
    found = rows(side)
    assert list(found) == [kind.name for kind in kinds]
    for kind in kinds:
        packages, count, ids, scores = found[kind.name]
        assert packages.startswith(f"{kind.package} ")
        assert int(count) == cases(module)
        assert ids == ("UUIDs" if kind.uuids else "any") + (", lost" if kind.loses_ids else "")
        assert scores == ("distances" if kind.distances else "similarities")

"""Rooms: no loose module, a face for each room, and no name in a text that leads nowhere."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import catena

ROOT = Path(__file__).parents[2]
SOURCES = ("packages/catena/src", "packages/catena-bench/src", "integrations")
ROOMS = sorted(each.name for each in pkgutil.iter_modules(catena.__path__))
_NAME = re.compile(r"`((?:catena|catena_bench|langchain_catena|llama_index_catena)(?:\.\w+)+)")
_NO_MODULE = re.compile(r"\.(?:md|py|toml|json|txt|html|sqlite)\b")


def texts() -> Iterator[tuple[str, str]]:
    """Yield what documentation and docstrings say, by place."""
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("integrations/*/README.md")):
        if page.name != "CHANGELOG.md":
            yield str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")
    for path in (path for source in SOURCES for path in (ROOT / source).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def resolves(name: str) -> bool:
    """Whether a dotted name leads to a module or to something in one."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            annotations = getattr(found, "__annotations__", {})
            if not hasattr(found, part) and part not in annotations:
                return False
            found = getattr(found, part, None)
        return True
    return False


def test_every_module_of_the_core_is_in_a_room() -> None:
    assert [each.name for each in pkgutil.iter_modules(catena.__path__) if not each.ispkg] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_face_names_what_is_there(room: str) -> None:
    face = importlib.import_module(f"catena.{room}")
    names = getattr(face, "__all__", ())
    assert all(getattr(face, name) is not None for name in names)
    assert len(names) or room in ("cli", "prompts", "data")


def test_every_dotted_name_leads_somewhere() -> None:
    named = {(place, name) for place, text in texts() for name in _NAME.findall(text) if not _NO_MODULE.search(name)}
    known = {name: resolves(name) for _, name in named}
    assert len(known) > 100
    assert sorted(f"{place}: {name}" for place, name in named if not known[name]) == []

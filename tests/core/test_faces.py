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
SOURCES = ("packages", "integrations")
STUBS = sorted(stub for source in SOURCES for stub in (ROOT / source).rglob("__init__.pyi"))
_NAME = re.compile(r"`((?:catena(?:_server|_view|_bench)?|langchain_catena|llama_index_catena)(?:\.\w+)+)")
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


def module_of(stub: Path) -> str:
    """Return the dotted name of a package, by the file that lists its names."""
    parts = stub.parent.relative_to(ROOT).parts
    return ".".join(parts[3 if parts[0] == "packages" else 2 :])


@pytest.mark.parametrize("face", [module_of(stub) for stub in STUBS])
def test_a_face_names_what_is_there(face: str) -> None:
    module = importlib.import_module(face)
    assert module.__all__
    assert all(getattr(module, name) is not None for name in module.__all__)


def test_every_room_has_a_face() -> None:
    rooms = {f"catena.{each.name}" for each in pkgutil.iter_modules(catena.__path__)}
    assert rooms - set(map(module_of, STUBS)) == {"catena.cli", "catena.prompts"}


def test_every_dotted_name_leads_somewhere() -> None:
    named = {(place, name) for place, text in texts() for name in _NAME.findall(text) if not _NO_MODULE.search(name)}
    known = {name: resolves(name) for _, name in named}
    assert len(known) > 100
    assert sorted(f"{place}: {name}" for place, name in named if not known[name]) == []

"""Two claims of the threat model about all of the code; scripts/check_docs.py resolves what its rows name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_blocks import ROOT

SOURCES = [ROOT / "packages" / name / "src" for name in ("catena", "catena-server", "catena-view")]
EXCHANGED = {"catena_server/ray_ingestion.py"}  # pickles between workers of one run; nothing of them is kept
NETWORK = {"socket", "http", "urllib.request", "httpx", "requests", "aiohttp", "urllib3", "ftplib", "smtplib"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            yield path.relative_to(source).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""
            yield from (f"{node.module}.{each.name}" for each in node.names)


@pytest.mark.slow
def test_nothing_that_is_stored_is_a_pickle() -> None:
    found = []
    for name, tree in modules():
        if name in EXCHANGED:
            continue
        if {"pickle", "shelve", "joblib", "dill", "cloudpickle", "marshal"} & set(imported(tree)):
            found.append(name)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            called = ast.unparse(call.func)
            safe = any(each.arg == "allow_pickle" and ast.unparse(each.value) == "False" for each in call.keywords)
            if called == "torch.load" or (called in {"np.load", "numpy.load"} and not safe):
                found.append(f"{name}: {called}")
    assert found == []


@pytest.mark.slow
def test_only_backends_speak_to_a_network() -> None:
    speaking = {
        name
        for name, tree in modules()
        if any(each == part or each.startswith(f"{part}.") for each in imported(tree) for part in NETWORK)
    }
    assert {"/".join(Path(name).parts[:2]) for name in speaking} <= {"catena/backends", "catena/testing"}

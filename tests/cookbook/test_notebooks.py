"""The notebooks' kept outputs are what their cells print now, and they hold nothing of the machine that made them.

The nox session `cookbook` runs the same notebooks in a real kernel.
"""

from __future__ import annotations

import ast
import base64
import gc
import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

COOKBOOK = Path(__file__).resolve().parents[2] / "cookbook"
NOTEBOOKS = sorted(COOKBOOK.glob("*.ipynb"))
OURS = ("catena", "langchain_catena", "llama_index_catena", "langsmith")
REFRESH = "Try: nox -s cookbook -- --overwrite"

every_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


def read(notebook: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(notebook.read_text(encoding="utf-8"))
    return found


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    return [cell for cell in read(notebook)["cells"] if cell["cell_type"] == "code"]


def kept_output(cell: dict[str, Any]) -> str:
    return "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")


def kept_pictures(cell: dict[str, Any]) -> list[bytes]:
    shown = [output["data"] for output in cell["outputs"] if output["output_type"] == "execute_result"]
    assert all(set(data) == {"image/png"} for data in shown)
    return [base64.b64decode("".join(data["image/png"])) for data in shown]


def executed(source: str, name: str, namespace: dict[str, Any]) -> object:
    """Run a cell, and return what its last line is worth, which a notebook shows."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)
    return eval(compile(ast.Expression(last.value), name, "eval"), namespace) if last else None


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """What a notebook silences speaks again in the tests after it."""
    disabled = logging.root.manager.disable
    levels = {name: logging.getLogger(name).level for name in OURS}
    yield
    logging.disable(disabled)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.slow
@every_notebook
def test_outputs_are_what_the_cells_print(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.mkdtemp", lambda **_: os.fspath(tmp_path))
    monkeypatch.chdir(tmp_path)  # back at the end, wherever the cells go
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook), start=1):
        value = executed("".join(cell["source"]), f"{notebook.name}, code cell {number}", namespace)
        assert capsys.readouterr().out == kept_output(cell), f"code cell {number}. {REFRESH}"
        pictures = [value._repr_png_()] if hasattr(value, "_repr_png_") else []
        kept = kept_pictures(cell)  # not compared byte by byte: matplotlib draws a little differently by version
        assert list(map(size, kept)) == list(map(size, pictures)), f"code cell {number}. {REFRESH}"
    namespace.clear()
    gc.collect()  # what the notebook left open is said here, not in a test that happens to run later


@every_notebook
def test_cells_were_run_once_from_top_to_bottom(notebook: Path) -> None:
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    kinds = {(output["output_type"], output.get("name")) for output in outputs}
    assert kinds <= {("stream", "stdout"), ("execute_result", None)}


@every_notebook
def test_a_notebook_is_small_and_names_no_machine(notebook: Path) -> None:
    text = notebook.read_text(encoding="utf-8")
    assert len(text) < 400_000
    assert read(notebook)["metadata"]["kernelspec"]["name"] == "python3"
    assert not re.search(r"(?<![\w.:/])/(?:home|root|tmp|Users|work|private)/\w", text)

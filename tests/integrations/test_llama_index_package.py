"""The adapter as a package: its README runs, its names are importable, it drags nothing heavy along."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "integrations" / "llama-index-catena"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (PACKAGE / "README.md").read_text(encoding="utf-8"), re.M | re.S)


def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)
    said = capsys.readouterr().out.splitlines()
    citation, notice, unknown, calls, entities, headings, view, came_from, linked, segment, answer, score = said
    assert citation == "HX210 manual › Mounting, lines 3-5"
    assert notice.startswith("'HX230' stands nowhere in the documents; near it: ")
    assert (unknown, calls, entities) == ("HX230", "0", "HX-210")
    assert headings == "HX210 manual › Mounting"
    assert view == "1"
    assert (came_from, linked) == ("HX210 manual", "True")
    assert segment == "HX210 manual › Mounting, lines 3-5"
    passages, coverage = answer.split()
    assert int(passages) > 0
    assert coverage == "0.0"  # the mock model quotes nothing
    assert float(score) > 0
    assert len(BLOCKS) == 10


@pytest.mark.slow
def test_importing_the_adapter_loads_no_sdk_and_no_torch() -> None:
    heavy = "torch transformers sentence_transformers openai cohere voyageai elasticsearch pypdfium2 langchain_core"
    code = f"import sys, llama_index_catena; print([m for m in {heavy.split()} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=200)
    assert run.stdout.strip() == "[]"

"""Take out of executed notebooks what changes with every run: clock times, and how output was cut into pieces."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any


def tidy(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook without execution times, with adjoining output of one stream joined."""
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
        if "outputs" in cell:
            cell["outputs"] = joined(cell["outputs"])
    return notebook


def joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the outputs with runs of one stream made one."""
    result: list[dict[str, Any]] = []
    for name, run in groupby(outputs, key=lambda output: output.get("name")):
        pieces = list(run)
        if name is None:
            result.extend(pieces)
        else:
            text = "".join("".join(piece["text"]) for piece in pieces)
            result.append({**pieces[0], "text": text.splitlines(keepends=True)})
    return result


for path in map(Path, sys.argv[1:]):
    text = json.dumps(tidy(json.loads(path.read_text(encoding="utf-8"))), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")

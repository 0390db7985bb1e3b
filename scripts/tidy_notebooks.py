"""Take out of executed notebooks what changes with every run, such as clock times, and make their pictures small."""

from __future__ import annotations

import base64
import io
import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from PIL import Image  # comes with matplotlib

PALETTE = 96  # colours kept of a picture: lines and bars need few, and the file is a third as long


def tidy(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook without execution times, with adjoining output of one stream joined and pictures alone."""
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
        if "outputs" in cell:
            cell["outputs"] = [without_text(output) for output in joined(cell["outputs"])]
    return notebook


def without_text(output: dict[str, Any]) -> dict[str, Any]:
    """Return an output that shows a picture without the text that stands beside it for those who see none."""
    if "image/png" not in output.get("data", {}):
        return output
    return {**output, "data": {"image/png": small(output["data"]["image/png"])}, "metadata": {}}


def small(png: str) -> str:
    """Return a picture in base64 with few colours; one that has few already is left as it is."""
    picture = Image.open(io.BytesIO(base64.b64decode(png)))
    if picture.mode == "P":
        return png
    kept = io.BytesIO()
    picture.convert("RGB").quantize(PALETTE, dither=Image.Dither.NONE).save(kept, "PNG", optimize=True)
    return base64.b64encode(kept.getvalue()).decode("ascii")


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

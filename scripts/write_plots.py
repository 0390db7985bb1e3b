"""Write the pictures of docs/plots.md by running its blocks: each plot's is the `figure` of the block below its name.

The pages' own blocks are run, in a folder that is gone afterwards; a picture is kept small.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "plots.md"
PICTURES = PAGE.with_name("plots")
MOST_BYTES = 60_000
DPI = 90
SHADES = 64  # colours of a kept picture
_PART = re.compile(r"^### (?P<name>\w+)$|^```(?P<language>sh|python)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def drawn(page: str) -> Iterator[tuple[str, Any]]:
    """Run the blocks of the page in order; yield the name and the figure of each section that draws one."""
    namespace: dict[str, Any] = {"__name__": "page"}
    name = ""
    for part in _PART.finditer(page):
        if part["name"]:
            name = part["name"]
        elif part["language"] == "sh":
            command = ["sh", "-eu", "-c", part["code"]]
            subprocess.run(command, check=True, env=_environment(), stdout=subprocess.DEVNULL)
        else:
            exec(part["code"], namespace)
            if name:
                yield name, namespace.pop("figure")
                name = ""


def small(figure: Any) -> bytes:
    """Return a figure as a PNG of few colours, the rare ones among them."""
    from PIL import Image

    whole, kept = BytesIO(), BytesIO()
    figure.savefig(whole, format="png", dpi=DPI)
    image = Image.open(whole).convert("RGB")
    few = image.quantize(SHADES, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(kept, format="png", optimize=True)
    return kept.getvalue()


def _environment() -> dict[str, str]:
    """Return the environment with the commands of this Python first."""
    return os.environ | {"PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))}


def main() -> int:
    """Write the pictures; say with exit code 1 that one is too large."""
    PICTURES.mkdir(exist_ok=True)
    large = []
    with tempfile.TemporaryDirectory(prefix="catena-plots-") as folder:
        os.chdir(folder)
        for name, figure in drawn(PAGE.read_text(encoding="utf-8")):
            data = small(figure)
            (PICTURES / f"{name}.png").write_bytes(data)
            print(f"{name}.png, {len(data):,} bytes")
            large += [name] * (len(data) >= MOST_BYTES)
        os.chdir(PAGE.parent)
    if large:
        print(f"{', '.join(large)}: {MOST_BYTES:,} bytes or more. Try: fewer marks in the picture")
    return int(bool(large))


if __name__ == "__main__":
    sys.exit(main())

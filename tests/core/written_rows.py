"""Write rows of JSON, one a line, as collections and questions are kept."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path


def write_rows(path: Path, rows: Iterable[object]) -> Path:
    """Write the rows, packed where the name says so, into a folder that is made; a text is a line as it stands."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows).encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path

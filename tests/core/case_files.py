"""Read files of cases: what goes in, and what must come out, as both look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def cases_of(name: str) -> list[Any]:
    """Return the cases of a file beside this one, each a tuple of its parts, named as there.

    A case is a line "%%%% name" and its parts, with a line "====" between them; what comes before the first case is
    for the reader.
    """
    _, *cases = Path(__file__).with_name(name).read_text(encoding="utf-8").split("\n%%%% ")
    found = []
    for case in cases:
        title, _, parts = case.rstrip("\n").partition("\n")
        *given, made = f"{parts}\n".split("\n====\n")
        found.append(pytest.param(*given, made.rstrip("\n"), id=title))
    return found

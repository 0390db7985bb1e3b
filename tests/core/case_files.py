"""Read files of cases: what goes in, and what must come out, as both look."""

from __future__ import annotations

import json
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


def texts_of(name: str) -> dict[str, str]:
    """Return the texts of a file of cases that have one part each, by the names of the cases."""
    return {str(case.id): case.values[0] for case in cases_of(name)}


def rows_of(name: str) -> list[Any]:
    """Return the rows of a file beside this one: a JSON list a line, as a tuple; a line with "#" is for the reader.

    The first line says what the rows are.
    """
    _, *lines = Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    return [_tuples(json.loads(line)) for line in lines if line and not line.startswith("#")]


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value

"""The objects of a text of JSON lines, each with its place for messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from catena.errors import EvaluationError


def objects_of(text: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place for messages, object) of each line that is not blank; lines are counted from 1.

    Args:
        text: of the file, decoded.
        name: of the file, for messages.

    Raises:
        EvaluationError: a line holds no JSON, or something else than an object.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise EvaluationError(f"{where}: not JSON ({type(error).__name__})") from None
        if not isinstance(row, dict):
            raise EvaluationError(f"{where}: expected an object, got {line.strip()[:60]!r}")
        yield where, row

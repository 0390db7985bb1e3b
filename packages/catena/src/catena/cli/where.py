"""The filter of a search as it is typed: a JSON object, checked before anything is opened."""

from __future__ import annotations

import json
from typing import Any

from catena.cli.failures import ProblemError

DEEPEST = 150  # lists and objects in one another; no filter that can be obeyed is as deep


def filter_of(where: str | None) -> Any:
    """Return what the text says, None where there is none.

    Raises:
        ProblemError: it is no JSON object, or is nested too deep.
    """
    if where is None:
        return None
    try:
        found = json.loads(where)
    except ValueError as error:
        raise ProblemError(f"--where is not JSON ({error})", 'e.g. --where \'{"kind": "table"}\'') from None
    except RecursionError:
        raise _too_deep() from None
    if _depth(found) > DEEPEST:
        raise _too_deep()
    if not isinstance(found, dict):
        raise ProblemError("--where must be a JSON object", 'e.g. --where \'{"kind": "table"}\'')
    return found


def _too_deep() -> ProblemError:
    return ProblemError(f"--where is nested more than {DEEPEST} deep", "a flat filter; $in takes many values")


def _depth(value: Any) -> int:
    """Return how deep lists and objects are nested; 1 for a value that holds no other."""
    level, depth = [value], 0
    while level:
        depth += 1
        holders = [
            each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)
        ]
        level = [inner for holder in holders for inner in holder]
    return depth

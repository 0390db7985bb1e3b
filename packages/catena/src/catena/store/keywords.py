"""The keyword route: the critical terms that a query names exactly, and the chunks that carry them.

`score(c) = |C|`, the number of distinct known terms of the query that chunk c carries; a term that the chunk
carries w times counts w, so that a title can weigh more than a word of a table.
Source: HiQA, arXiv:2402.01767, the term `beta * log(1 + |C|)` of its ranking formula.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from catena.store.selection import Scored

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEW = 1_000  # up to so many allowed chunks no others are read
_CARRIERS = "SELECT chunk, count(*) FROM terms WHERE term IN (SELECT value FROM json_each(?))"
_CARRIERS_AMONG = f"{_CARRIERS} AND chunk IN (SELECT value FROM json_each(?))"


def vocabulary(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return all critical terms, sorted."""
    return tuple(row[0] for row in connection.execute("SELECT DISTINCT term FROM terms ORDER BY term"))


def carriers(
    connection: sqlite3.Connection, terms: Sequence[str], allowed: NDArray[np.int64] | None = None
) -> Scored:
    """Return the chunks that carry any of the terms, and the sum of the weights of those that each carries.

    Args:
        connection: sees one state of the library.
        terms: normalised.
        allowed: keys of the chunks to look at, ascending; all when None.
    """
    if not terms or (allowed is not None and not len(allowed)):
        return Scored.nothing()
    select, values = _CARRIERS, [json.dumps(list(terms))]
    if allowed is not None and len(allowed) <= _FEW:
        select, values = _CARRIERS_AMONG, [*values, json.dumps(allowed.tolist())]
    rows = connection.execute(f"{select} GROUP BY chunk", values).fetchall()
    found = Scored(np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.float64))
    return found.among(allowed)

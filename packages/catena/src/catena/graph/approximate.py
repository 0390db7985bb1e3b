"""Approximate neighbours by meaning, for collections in which exact ones take too long: an inverted file of faiss.

The rows are divided among about 4 sqrt(n) centres, and a row is compared with those of the centres nearest to it. The
cosines that count are taken as for exact neighbours, so what is approximate is only who is compared.
"""

from __future__ import annotations

from importlib.util import find_spec
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.model.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_PROBES = 48  # centres whose rows are compared
_PER_CENTRE = 32  # rows by which each centre is found
_ROUNDS = 8
_BATCH = 8_192  # rows sought at once
_MORE = 4  # candidates beside those that are kept: faiss does not round as we do


def require_faiss() -> None:
    """Raise `MissingExtraError` where faiss is not installed."""
    if find_spec("faiss") is None:
        raise MissingExtraError("faiss-cpu", "ann")


def candidates(
    rows: NDArray[np.float32], k: int, tick: Callable[[int, int], None]
) -> list[tuple[int, NDArray[np.int64]]]:
    """Return who may be among the k nearest of each row: batches of rows, by their first, shape (batch, k + 4).

    Args:
        rows: of unit length, shape (n, dim).
        k: neighbours of each, itself among them.
        tick: told the rows done.

    Raises:
        MissingExtraError: faiss is not installed.
    """
    require_faiss()
    import faiss

    index = _index(faiss, rows)
    found = []
    for a in range(0, len(rows), _BATCH):
        tick(a, len(rows))
        found.append((a, index.search(rows[a : a + _BATCH], min(k + _MORE, len(rows)))[1]))
    tick(len(rows), len(rows))
    return found


def _index(faiss: Any, rows: NDArray[np.float32]) -> Any:
    """Return the rows by centre. Centres are found by one thread, since several add up in any order."""
    size, dim = rows.shape
    centres = max(1, min(4 * isqrt(size), size // _PER_CENTRE))
    sample = np.linspace(0, size - 1, min(size, _PER_CENTRE * centres)).astype(np.int64)
    quantizer = faiss.IndexFlatIP(dim)
    index = faiss.IndexIVFFlat(quantizer, dim, centres, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.seed = _ROUNDS, 1
    index.cp.min_points_per_centroid, index.cp.spherical = 1, True
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        index.train(np.ascontiguousarray(rows[sample]))
    finally:
        faiss.omp_set_num_threads(threads)
    index.add(rows)
    index.nprobe = min(_PROBES, centres)
    return index

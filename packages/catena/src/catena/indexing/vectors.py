"""The dense route: exact dot products over a memory-mapped matrix.

The matrix on disk is immutable: a base of float32 rows. Rows that came after it are read from the truth
into a tail in memory, rows of removed documents are masked; when both grow, the base is written anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from catena.errors import LibraryError
from catena.indexing.derived import Manifest, cleared, discard, seal
from catena.indexing.records import removed_since, whole
from catena.indexing.selection import Scored

if TYPE_CHECKING:
    from numpy.typing import NDArray

MADE = "float32 1"
_TAIL = 4_096  # rows beside the base, added or removed, that are always tolerated
_TAIL_PART = 0.2  # and this part of the base
_MANY = 0.2  # above this part of the rows, copying those that are asked for costs more than all products


class VectorSearcher:
    """All vectors of one generation."""

    def __init__(
        self,
        generation: int,
        base: NDArray[np.float32],
        tail: NDArray[np.float32],
        keys: NDArray[np.int64],
        alive: NDArray[np.bool_],
    ) -> None:
        self.generation = generation
        self._base, self._tail = base, tail
        self._rows = np.flatnonzero(alive)  # of base and tail together, ascending
        self._keys = keys[self._rows]  # ascending as well, as keys are never reused

    def search(self, vector: NDArray[np.float32], allowed: NDArray[np.int64] | None) -> Scored:
        """Return the dot product of every allowed row with `vector`, shape (dim,).

        Row by row, not `rows @ vector`: a BLAS with several threads takes 4 to 16 ms for 6,000 rows when other
        processes keep the cores busy, this 0.2. Equal rows get equal scores wherever they lie.
        """
        keys, rows = self._keys, self._rows
        if allowed is not None:
            at = np.searchsorted(keys, allowed)
            at = at[keys[np.minimum(at, len(keys) - 1)] == allowed] if len(keys) else at[:0]
            keys, rows = keys[at], rows[at]
        in_base = rows < len(self._base)
        scores = np.concatenate(
            [_dots(self._base, rows[in_base], vector), _dots(self._tail, rows[~in_base] - len(self._base), vector)]
        )
        return Scored(keys, scores.astype(np.float64))

    def rows(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the keys and the vectors of all living rows."""
        return self._keys, np.concatenate([self._base, self._tail])[self._rows]


class VectorMatrix:
    """The matrix file of a library, and what came after it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._searcher: VectorSearcher | None = None

    def at(self, connection: sqlite3.Connection, generation: int, dim: int) -> VectorSearcher | None:
        """Return the vectors of the generation that `connection` sees, None when there is no usable base."""
        held = self._searcher
        if held is not None and held.generation == generation:
            return held
        searcher = self._on_base(connection, generation, dim)
        if searcher is not None and (held is None or held.generation < generation):
            self._searcher = searcher
        return searcher

    def sync(self, connection: sqlite3.Connection, generation: int, dim: int) -> None:
        """Write the base anew when it is missing, damaged or far behind; the caller holds the writer lock."""
        manifest = Manifest.read(self.folder)
        if manifest is not None and manifest.generation <= generation and manifest.is_intact(self.folder, MADE):
            changed = _count_since(connection, manifest.generation)
            if changed <= max(_TAIL, _TAIL_PART * _count_since(connection, 0)):
                return
        keys, docs, matrix = _read(connection, dim, since=0)
        try:
            cleared(self.folder)
            Manifest(generation=generation, made=MADE, files={}, writing=True).write(self.folder)
            np.save(self.folder / "matrix.npy", matrix, allow_pickle=False)
            np.save(self.folder / "rows.npy", np.stack([keys, docs]), allow_pickle=False)
            seal(self.folder, generation=generation, made=MADE)
        except OSError as error:
            what = f"the vector matrix cannot be written ({error}); all documents are stored"
            raise LibraryError(str(self.folder), what, "more disk space; it is rebuilt at the next search") from None

    def problems(self, connection: sqlite3.Connection, generation: int, dim: int) -> Iterator[str]:
        """Yield where the matrix differs from the truth."""
        searcher = self._on_base(connection, generation, dim)
        if searcher is None:
            yield "the files of the vector matrix are missing or damaged"
            return
        keys, matrix = searcher.rows()
        wanted, _, truth = _read(connection, dim, since=0)
        if not np.array_equal(keys, wanted) or not np.array_equal(matrix, truth):
            yield f"the vector matrix ({len(keys)} rows) is not the library's vectors ({len(wanted)} rows)"

    def discard(self) -> None:
        """Declare the matrix wrong: it is rebuilt when next needed."""
        self._searcher = None
        discard(self.folder)

    def _on_base(self, connection: sqlite3.Connection, generation: int, dim: int) -> VectorSearcher | None:
        manifest = Manifest.read(self.folder)
        if manifest is None or manifest.generation > generation or not manifest.is_intact(self.folder, MADE):
            return None
        try:
            base = np.asarray(np.load(self.folder / "matrix.npy", mmap_mode="r", allow_pickle=False))
            keys, docs = np.load(self.folder / "rows.npy", allow_pickle=False)
        except (OSError, ValueError):  # a writer came in between
            return None
        if Manifest.read(self.folder) != manifest or base.shape != (len(keys), dim):
            return None
        gone = removed_since(connection, manifest.generation)
        new_keys, _, tail = _read(connection, dim, since=manifest.generation)
        alive = np.concatenate([~np.isin(docs, gone), np.ones(len(new_keys), bool)])
        return VectorSearcher(generation, base, tail, np.concatenate([keys, new_keys]), alive)


def in_memory(connection: sqlite3.Connection, generation: int, dim: int) -> VectorSearcher:
    """Return all vectors read from the truth, for a library on a folder that cannot be written."""
    keys, _, matrix = _read(connection, dim, since=0)
    return VectorSearcher(generation, matrix, matrix[:0], keys, np.ones(len(keys), bool))


def _dots(matrix: NDArray[np.float32], rows: NDArray[np.int64], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the products of some rows, ascending; where they are many, those of all rows are computed."""
    few = len(rows) <= _MANY * len(matrix)
    products: NDArray[np.float32] = np.vecdot(matrix[rows] if few else matrix, vector)
    return products if few or len(rows) == len(matrix) else products[rows]


def _count_since(connection: sqlite3.Connection, generation: int) -> int:
    added = connection.execute(
        "SELECT count(*) FROM documents d JOIN chunks c USING (doc) WHERE d.generation > ?", (generation,)
    ).fetchone()[0]
    return int(added) + (len(removed_since(connection, generation)) if generation else 0)


def _read(
    connection: sqlite3.Connection, dim: int, *, since: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    rows = connection.execute(
        "SELECT c.chunk, c.doc, v.vector FROM documents d JOIN chunks c USING (doc) JOIN vectors v USING (chunk)"
        " WHERE d.generation > ? ORDER BY c.chunk",
        (since,),
    ).fetchall()
    with whole("a vector"):
        matrix = np.frombuffer(b"".join(row[2] for row in rows), np.float32).reshape(len(rows), dim)
    return np.array([r[0] for r in rows], np.int64), np.array([r[1] for r in rows], np.int64), matrix

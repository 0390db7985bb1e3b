"""Search vectors by exact dot products over a memory-mapped matrix; take the k best of any scores.

The matrix on disk is immutable: a base of float32 rows, those of one kind of view together, so that a search reads
those of its own kind alone. Rows that came after it are read from the truth into a tail in memory, rows of removed
chunks are masked; when both grow, the base is written anew.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.model.errors import LibraryError, ParameterError
from catena.store.derived import Manifest, cleared, discard, seal, what_helps
from catena.store.records import matrix, removed_since, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Scored:
    """n chunk keys and their scores, each key once, in no order."""

    keys: NDArray[np.int64]
    scores: NDArray[np.float64]

    @classmethod
    def nothing(cls) -> Scored:
        """Return a result without hits."""
        return cls(np.empty(0, np.int64), np.empty(0))

    def among(self, allowed: NDArray[np.int64] | None) -> Scored:
        """Keep the chunks a filter allows, ascending; None allows all."""
        if allowed is None:
            return self
        at = np.searchsorted(allowed, self.keys)
        kept = np.append(allowed, -1)[at] == self.keys
        return Scored(self.keys[kept], self.scores[kept])

    def of(self, keys: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the score of each of these keys, 0 where it has none."""
        held = dict(zip(self.keys.tolist(), self.scores.tolist(), strict=True))
        return np.array([held.get(key, 0.0) for key in keys.tolist()], np.float64)

    def down_to(self, k: int) -> Scored:
        """Keep what scores at least as the k-th best, k >= 1: with all ties at the border."""
        if len(self.keys) <= k:
            return self
        kept = self.scores >= np.partition(self.scores, -k)[-k]
        return Scored(self.keys[kept], self.scores[kept])

    def best(self, k: int, places: Callable[[], NDArray[np.int64]]) -> Scored:
        """Return the k best; of equal scores at the border, the smallest chunk ids.

        Args:
            k: how many, >= 0.
            places: returns for each chunk key the place of its id among all ids; called only when equal scores
                lie on both sides of the cut.
        """
        if len(self.keys) <= k:
            return self
        if k == 0:
            return Scored.nothing()
        border = np.partition(self.scores, -k)[-k]
        above = self.scores > border
        tied = self.keys[self.scores == border]
        room = k - int(above.sum())
        if len(tied) > room:
            tied = tied[np.argsort(places()[tied])[:room]]
        keys = np.concatenate([self.keys[above], tied])
        return Scored(keys, np.concatenate([self.scores[above], np.full(len(tied), border)]))


MADE = "float32 2"
_TAIL = 4_096  # rows beside the base, added or removed, that are always tolerated
_TAIL_PART = 0.2  # and this part of the base
_MANY = 0.2  # above this part of the rows, copying those that are asked for costs more than all products


@dataclass(frozen=True, slots=True)
class Rows:
    """n vectors of one kind, shape (n, dim), and the keys of their chunks, ascending, some of them several times."""

    keys: NDArray[np.int64]
    matrix: NDArray[np.float32]


class VectorSearcher:
    """All vectors of one kind, of one generation."""

    def __init__(self, base: Rows, tail: Rows, gone: NDArray[np.int64]) -> None:
        self._base, self._tail = base.matrix, tail.matrix
        alive = np.concatenate([~np.isin(base.keys, gone), np.ones(len(tail.keys), bool)])
        self._rows = np.flatnonzero(alive)  # of base and tail together, ascending
        # The tail's keys come after the base's, as keys are never reused.
        self._row_keys = np.concatenate([base.keys, tail.keys])[self._rows]
        self._keys, self._starts, self._counts = np.unique(self._row_keys, return_index=True, return_counts=True)

    def search(self, vector: NDArray[np.float32], allowed: NDArray[np.int64] | None) -> Scored:
        """Return for every allowed chunk the greatest dot product of one of its rows with `vector`, shape (dim,).

        Row by row, not `rows @ vector`: a BLAS with several threads takes 4 to 16 ms for 6,000 rows when other
        processes keep the cores busy, this 0.2. Equal rows get equal scores wherever they lie.
        """
        keys, rows, starts, counts = self._keys, self._rows, self._starts, self._counts
        if allowed is not None:
            at = np.searchsorted(keys, allowed)
            at = at[keys[np.minimum(at, len(keys) - 1)] == allowed] if len(keys) else at[:0]
            keys, counts = keys[at], counts[at]
            begins = np.cumsum(counts) - counts  # the rows of these chunks, one range after the other
            rows, starts = rows[np.repeat(starts[at] - begins, counts) + np.arange(counts.sum())], begins
        in_base = rows < len(self._base)
        scores = np.concatenate(
            [_dots(self._base, rows[in_base], vector), _dots(self._tail, rows[~in_base] - len(self._base), vector)]
        )
        if len(rows) > len(keys):
            scores = np.maximum.reduceat(scores, starts)
        return Scored(keys, scores.astype(np.float64))

    def rows(self) -> Rows:
        """Return all living rows."""
        return Rows(self._row_keys, np.concatenate([self._base, self._tail])[self._rows])


class VectorSearchers:
    """All vectors of one generation, by kind."""

    def __init__(
        self, generation: int, base: Mapping[str, Rows], tail: Mapping[str, Rows], gone: NDArray[np.int64], dim: int
    ) -> None:
        self.generation = generation
        nothing = Rows(np.empty(0, np.int64), np.empty((0, dim), np.float32))
        self._by_kind = {
            kind: VectorSearcher(base.get(kind, nothing), tail.get(kind, nothing), gone)
            for kind in sorted({*base, *tail})
        }

    def search(self, kind: str, vector: NDArray[np.float32], allowed: NDArray[np.int64] | None) -> Scored:
        """Return the score of every allowed chunk that has a vector of this kind."""
        searcher = self._by_kind.get(kind)
        return Scored.nothing() if searcher is None else searcher.search(vector, allowed)

    def rows(self) -> dict[str, Rows]:
        """Return all living rows, by kind; no kind without rows."""
        found = {kind: searcher.rows() for kind, searcher in self._by_kind.items()}
        return {kind: rows for kind, rows in found.items() if len(rows.keys)}


class VectorMatrix:
    """The matrix file of a library, and what came after it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._searchers: VectorSearchers | None = None

    def at(self, connection: sqlite3.Connection, generation: int, dim: int) -> VectorSearchers | None:
        """Return the vectors of the generation that `connection` sees, None when there is no usable base."""
        held = self._searchers
        if held is not None and held.generation == generation:
            return held
        searchers = self._on_base(connection, generation, dim)
        if searchers is not None and (held is None or held.generation < generation):
            self._searchers = searchers
        return searchers

    def sync(self, connection: sqlite3.Connection, generation: int, dim: int) -> None:
        """Write the base anew when it is missing, damaged or far behind; the caller holds the writer lock."""
        manifest = Manifest.read(self.folder)
        if manifest is not None and manifest.generation <= generation and manifest.is_intact(self.folder, MADE):
            changed = _count_since(connection, manifest.generation)
            if changed <= max(_TAIL, _TAIL_PART * _count_since(connection, 0)):
                return
        rows = _read(connection, dim, since=-1)
        try:
            cleared(self.folder)
            Manifest(generation=generation, made=MADE, files={}, writing=True).write(self.folder)
            parts = [np.empty((0, dim), np.float32), *(part.matrix for part in rows.values())]
            np.save(self.folder / "matrix.npy", np.concatenate(parts), allow_pickle=False)
            keys = [np.empty(0, np.int64), *(part.keys for part in rows.values())]
            np.save(self.folder / "rows.npy", np.concatenate(keys), allow_pickle=False)
            kinds = [(kind, len(part.keys)) for kind, part in rows.items()]
            (self.folder / "kinds.json").write_text(json.dumps(kinds), encoding="utf-8")
            seal(self.folder, generation=generation, made=MADE)
        except OSError as error:
            what = f"the vector matrix cannot be written ({error}); all documents are stored"
            raise LibraryError(str(self.folder), what, what_helps(error)) from None

    def problems(self, connection: sqlite3.Connection, generation: int, dim: int) -> Iterator[str]:
        """Yield where the matrix differs from the truth."""
        searchers = self._on_base(connection, generation, dim)
        if searchers is None:
            yield "the files of the vector matrix are missing or damaged"
            return
        found, wanted = searchers.rows(), _read(connection, dim, since=-1)
        pairs = ((found.get(kind, rows), rows) for kind, rows in wanted.items())
        same = all(np.array_equal(a.keys, b.keys) and np.array_equal(a.matrix, b.matrix) for a, b in pairs)
        if found.keys() != wanted.keys() or not same:
            held, truth = (sum(len(rows.keys) for rows in all_.values()) for all_ in (found, wanted))
            yield f"the vector matrix ({held} rows) is not the library's vectors ({truth} rows)"

    def discard(self) -> None:
        """Declare the matrix wrong: it is rebuilt when next needed."""
        self._searchers = None
        discard(self.folder)

    def _on_base(self, connection: sqlite3.Connection, generation: int, dim: int) -> VectorSearchers | None:
        manifest = Manifest.read(self.folder)
        if manifest is None or manifest.generation > generation or not manifest.is_intact(self.folder, MADE):
            return None
        try:
            stored = np.asarray(np.load(self.folder / "matrix.npy", mmap_mode="r", allow_pickle=False))
            keys = np.load(self.folder / "rows.npy", allow_pickle=False)
            kinds = json.loads((self.folder / "kinds.json").read_bytes())
        except (OSError, ValueError):  # a writer came in between
            return None
        if Manifest.read(self.folder) != manifest or stored.shape != (len(keys), dim):
            return None
        ends = list(accumulate(count for _, count in kinds))
        paired = zip(kinds, ends, strict=True)
        base = {kind: Rows(keys[end - count : end], stored[end - count : end]) for (kind, count), end in paired}
        gone = np.array(removed_since(connection, manifest.generation), np.int64)
        return VectorSearchers(generation, base, _read(connection, dim, since=manifest.generation), gone, dim)


def in_memory(connection: sqlite3.Connection, generation: int, dim: int) -> VectorSearchers:
    """Return all vectors read from the truth, for a library on a folder that cannot be written."""
    return VectorSearchers(generation, _read(connection, dim, since=-1), {}, np.empty(0, np.int64), dim)


def _dots(matrix: NDArray[np.float32], rows: NDArray[np.int64], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the products of some rows, ascending; where they are many, those of all rows are computed."""
    few = len(rows) <= _MANY * len(matrix)
    products: NDArray[np.float32] = np.vecdot(matrix[rows] if few else matrix, vector)
    return products if few or len(rows) == len(matrix) else products[rows]


def _count_since(connection: sqlite3.Connection, generation: int) -> int:
    added = connection.execute(
        "SELECT count(*) FROM chunks c JOIN vectors v USING (chunk) WHERE c.generation > ?", (generation,)
    ).fetchone()[0]
    return int(added) + (len(removed_since(connection, generation)) if generation else 0)


def _read(connection: sqlite3.Connection, dim: int, *, since: int) -> dict[str, Rows]:
    """Return the vectors of chunks newer than a generation, by kind."""
    rows = connection.execute(
        "SELECT v.kind, c.chunk, v.vector FROM chunks c JOIN vectors v USING (chunk)"
        " WHERE c.generation > ? ORDER BY v.kind, c.chunk, v.row",
        (since,),
    )
    parts = ((kind, list(part)) for kind, part in groupby(rows, key=lambda row: str(row[0])))
    with whole("a vector"):
        return {
            kind: Rows(np.array([row[1] for row in part], np.int64), matrix([row[2] for row in part], dim))
            for kind, part in parts
        }


def checked(vector: Any, dim: int) -> NDArray[np.float32]:
    """Return the vector of a question as float32; of any length where `dim` is 0.

    Raises:
        ParameterError: it is no vector of finite numbers, of this length.
    """
    allowed = f"{dim or 'dim'} finite numbers, the query's embedding, for the dense route"
    try:
        array = np.asarray(vector, np.float32)
    except (TypeError, ValueError):
        raise ParameterError("vector", vector, allowed) from None
    if array.ndim != 1 or (dim and len(array) != dim):
        raise ParameterError("vector", f"the shape {array.shape}", allowed)
    if not np.isfinite(array).all():
        raise ParameterError("vector", "NaN or infinity", allowed)
    return array

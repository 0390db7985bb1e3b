"""One state of a library, for what is derived from it outside of this stage, as the graph is."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from catena.model import Chunk
from catena.model.vectors import DEFAULT, mean_direction
from catena.store import records, schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")
STAMP = 16  # bytes
_OF_IDS = "WHERE c.id IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True, slots=True)
class Contents:
    """All that a library holds of its chunks at one generation, while the block lasts that gave it."""

    _connection: sqlite3.Connection
    generation: int
    _once: Callable[[Hashable, Callable[[], Any]], Any]

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` derives from this generation, made by the first who asks while it is the present one."""
        return self._once(what, make)  # type: ignore[no-any-return]

    def setting(self, name: str) -> str:
        """Return what the library was told to remember under a name, "" for nothing."""
        return schema.get_meta(self._connection, setting_name(name))

    def stamps(self) -> dict[str, bytes]:
        """Return the hash of all that is stored of each chunk, by its id: `STAMP` bytes each.

        It covers the chunk, where it stands, its views, vectors and terms: while it is the same, so is whatever is
        derived from this chunk alone.
        """
        return self._stamps(since=-1)

    def stamps_after(self, before: Mapping[str, bytes], generation: int) -> dict[str, bytes]:
        """Return `stamps()`, given those of an earlier generation: only what came, went or moved since is read."""
        changed = self._stamps(since=generation)
        moved = "SELECT 1 FROM chunks WHERE placed > ? AND generation <= ? LIMIT 1"
        went = records.removed_since(self._connection, generation)
        if not went and self._connection.execute(moved, (generation, generation)).fetchone() is None:
            return {**before, **changed}
        ids = (row[0] for row in self._connection.execute("SELECT id FROM chunks"))
        return {chunk_id: changed.get(chunk_id) or before[chunk_id] for chunk_id in ids}

    def _stamps(self, *, since: int) -> dict[str, bytes]:
        select = "SELECT c.id, c.chunk, d.id, c.content, c.body FROM chunks c JOIN documents d USING (doc)"
        rows = self._connection.execute(f"{select} WHERE c.placed > ?", (since,))
        with records.whole("a chunk"):  # content is "" in a library of an older version; then its key stands for it
            return {
                chunk_id: _stamp(content or str(key), document_id, body)
                for chunk_id, key, document_id, content, body in rows
            }

    def chunks(self, ids: Sequence[str]) -> tuple[Chunk, ...]:
        """Return chunks by id, in the order of `ids`; all of them are there."""
        rows = self._connection.execute(
            f"SELECT d.id, c.id, c.body, c.text FROM chunks c JOIN documents d USING (doc) {_OF_IDS}",
            (json.dumps(list(ids)),),
        )
        with records.whole("a chunk"):
            found = {row[1]: records.to_chunk(*row) for row in rows}
            return tuple(found[chunk_id] for chunk_id in ids)

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return the default vector of each chunk, shape (len(ids), dim), of unit length or zero.

        Of a chunk with several it is their mean, brought to unit length.
        """
        dim = schema.number(self._connection, "dim")
        rows = self._connection.execute(
            "SELECT c.id, v.vector FROM chunks c JOIN vectors v USING (chunk)"
            f" {_OF_IDS} AND v.kind = ? ORDER BY v.row",
            (json.dumps(list(ids)), DEFAULT),
        )
        with records.whole("a vector"):
            places = {chunk_id: place for place, chunk_id in enumerate(ids)}
            found = sorted(((places[chunk_id], row) for chunk_id, row in rows), key=lambda each: each[0])
            stored = records.matrix([row for _, row in found], dim)
            owners, starts, counts = np.unique([place for place, _ in found], return_index=True, return_counts=True)
            if len(owners) < len(ids):
                raise ValueError(f"{len(ids) - len(owners)} chunks have none")
        vectors = stored[starts]
        for place in np.flatnonzero(counts > 1):
            vectors[place] = mean_direction(stored[starts[place] : starts[place] + counts[place]])
        return vectors

    def views(self, kind: str, ids: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """Return the texts of the views of a kind, in order, by the id of the chunk; no chunk that has none."""
        rows = self._connection.execute(
            "SELECT c.id, coalesce(v.text, c.text) FROM chunks c JOIN views v USING (chunk)"
            f" {_OF_IDS} AND v.kind = ? ORDER BY v.view",
            (json.dumps(list(ids)), kind),
        )
        found: dict[str, list[str]] = {}
        with records.whole("a view"):
            for chunk_id, text in rows:
                found.setdefault(chunk_id, []).append(records.to_text(text))
        return {chunk_id: tuple(texts) for chunk_id, texts in found.items()}


def _stamp(content: str, document_id: str, body: str) -> bytes:
    return blake2b("\0".join((content, document_id, body)).encode("utf-8"), digest_size=STAMP).digest()


def setting_name(name: str) -> str:
    """Return the name of the meta table's row that holds a setting."""
    return f"setting {name}"

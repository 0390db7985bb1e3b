"""The three routes of a library: one consistent state, one filter, one way to settle ties."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from catena.effects import FindNames, NamesFound, Search
from catena.errors import LibraryBusyError, LibraryError, ParameterError
from catena.filters import compiled
from catena.ids import digest
from catena.indexing import keywords, lexical, records, schema, vectors
from catena.indexing.connections import Connections
from catena.indexing.derived import Manifest
from catena.indexing.lexical import LexicalIndex, LexicalSearcher, RankBm25Searcher
from catena.indexing.names import DocumentNames
from catena.indexing.selection import Scored
from catena.indexing.vectors import VectorMatrix
from catena.model import Chunk, Hit, Provenance, Ranking, Scale, Where
from catena.terms import TermMatcher
from catena.vectors import DEFAULT, DEFAULT_VIEW, EMBEDDED_VIEWS

if TYPE_CHECKING:
    from numpy.typing import NDArray

Route: TypeAlias = "Callable[[Search, sqlite3.Connection, int, NDArray[np.int64] | None], Scored | None]"

ROUTES = ("dense", "lexical", "keyword")
_FILTERS = 64  # results of filters kept per generation
_CHUNKS = 20_000  # chunks kept in memory per generation, about 2 kB each


class Routes:
    """Answers searches from derived indexes that are of the same generation as the rows they point to."""

    def __init__(self, connections: Connections, *, engine: str) -> None:
        self._connections, self._engine = connections, engine
        self._folder = connections.path / "lexical"
        self._guard = threading.Lock()
        self._lexical: dict[str, LexicalIndex] = {}
        self._in_memory: dict[str, LexicalSearcher] = {}
        self._vectors = VectorMatrix(connections.path / "vectors")
        self._finder: tuple[int, TermMatcher] | None = None
        self._names: DocumentNames | None = None
        self._fields: tuple[int, list[tuple[int, dict[str, Any]]]] | None = None
        self._field_names: tuple[int, frozenset[str]] | None = None
        self._allowed: dict[tuple[int, str], NDArray[np.int64]] = {}
        self._chunks: tuple[int, dict[int, Chunk]] = (0, {})
        self._known: tuple[int, dict[str, int]] = (0, {})  # chunk keys by id
        self._places: tuple[int, NDArray[np.int64]] | None = None
        self._embedded: tuple[int, dict[int, str]] = (0, {})

    def close(self) -> None:
        """Let go of all memory-mapped files."""
        self._lexical.clear()
        self._in_memory.clear()
        self._vectors = VectorMatrix(self._vectors.folder)

    def sync(self, connection: sqlite3.Connection, also: str = DEFAULT_VIEW) -> None:
        """Bring the files of the derived indexes up to date; the caller holds the writer lock."""
        with schema.snapshot(connection) as generation:
            dim = int(schema.get_meta(connection, "dim") or 0)
            if dim:
                self._vectors.sync(connection, generation, dim)
            if self._engine == "tantivy":
                for kind in sorted({*self._kinds(), also}):
                    self._index(kind).sync(connection, generation)

    def catch_up(self) -> None:
        """Bring up to date what a killed writer left behind, unless another one is at it."""
        with self._connections.reading() as (connection, generation):
            dim = int(schema.get_meta(connection, "dim") or 0)
            if not generation or (self._are_settled(generation) and self._vectors.at(connection, generation, dim)):
                return
        with suppress(LibraryBusyError), self._connections.locked() as connection:
            self.sync(connection)

    def search(self, request: Search) -> Ranking:
        """Return the ranking that a request asks for."""
        route = self._route(request)
        with self._connections.reading() as (connection, generation):
            ranking = self._rank(request, route, connection, generation)
        if ranking is not None:
            return ranking
        # A derived index on disk is of another generation: wait for its writer, or make it so ourselves.
        with self._connections.locked() as connection:
            self.sync(connection, _view(request))
            with schema.snapshot(connection) as generation:
                ranking = self._rank(request, route, connection, generation)
        if ranking is None:
            what = "an index cannot be read although it was just written; all documents are kept"
            raise LibraryError(str(self._connections.path), what, "whether the disk is sound")
        return ranking

    def names(self, request: FindNames) -> NamesFound:
        """Return what a question names."""
        with self._connections.reading() as (connection, generation):
            names = self._names
            if names is None or names.generation != generation:
                names = self._names = DocumentNames(connection, generation)
            return names.find(connection, request)

    def field_names(self) -> frozenset[str]:
        """Return the names of the fields by which chunks can be filtered here: of any of them."""
        with self._connections.reading() as (connection, generation):
            names = self._field_names
            if names is None or names[0] != generation:
                held = self._fields_held(connection, generation)
                names = self._field_names = (generation, frozenset().union(*(fields for _, fields in held)))
            return names[1]

    def _route(self, request: Search) -> Route:
        routes: dict[str, Route] = {"dense": self._dense, "lexical": self._words, "keyword": self._terms}
        if request.route not in routes:
            raise ParameterError("route", request.route, f"one of {', '.join(ROUTES)}")
        if not isinstance(request.k, int) or isinstance(request.k, bool) or request.k < 0:
            raise ParameterError("k", request.k, "a whole number >= 0")
        if not isinstance(request.query, str):
            raise ParameterError("query", request.query, "a string")
        return routes[request.route]

    def _rank(self, request: Search, route: Route, connection: sqlite3.Connection, generation: int) -> Ranking | None:
        allowed = self._chunks_allowed(request, connection, generation)
        scored = route(request, connection, generation, allowed)
        if scored is None:
            return None
        best = scored.best(request.k, lambda: self._places_of(connection, generation))
        keys = best.keys.tolist()
        chunks = self._chunks_of(connection, generation, keys)
        if len(chunks) < len(keys):  # a derived folder of another library, or an older truth put in place
            self._discard()
            return None
        self._keys_held(generation).update((chunk.id, key) for key, chunk in chunks.items())
        views = self._views_of(request, connection, generation, keys)
        found = zip(keys, best.scores.tolist(), views, strict=True)
        scored_chunks = [(chunks[key], score, view) for key, score, view in found]
        return _ranking(scored_chunks, request.route, ranked=request.among is None)

    def _views_of(
        self, request: Search, connection: sqlite3.Connection, generation: int, keys: Sequence[int]
    ) -> list[str]:
        """Return the kind of view by which each chunk was found."""
        if request.route != "dense" or request.view:
            return ["terms" if request.route == "keyword" else _view(request)] * len(keys)
        if self._embedded[0] != generation:
            found = connection.execute(
                "SELECT DISTINCT chunk, kind FROM views WHERE kind IN (?, ?, ?, ?)", EMBEDDED_VIEWS
            )
            ordered = sorted(found.fetchall(), key=lambda row: EMBEDDED_VIEWS.index(row[1]))
            self._embedded = (generation, dict(ordered))
        kinds = self._embedded[1]
        return [kinds.get(key, DEFAULT_VIEW) for key in keys]

    def _chunks_of(self, connection: sqlite3.Connection, generation: int, keys: Sequence[int]) -> dict[int, Chunk]:
        """Return the chunks of these keys, those of earlier searches from memory."""
        known, held = self._chunks
        if known != generation or len(held) > _CHUNKS:
            held = {}
        if missing := [key for key in keys if key not in held]:
            held.update(records.chunks_of(connection, missing))
        self._chunks = (generation, held)
        return {key: held[key] for key in keys if key in held}

    def _places_of(self, connection: sqlite3.Connection, generation: int) -> NDArray[np.int64]:
        """Return the place of each chunk key's id among all ids, by key: what settles ties."""
        if self._places is None or self._places[0] != generation:
            keys = np.array(connection.execute("SELECT chunk FROM chunks ORDER BY id").fetchall(), np.int64).ravel()
            places = np.zeros(keys.max(initial=0) + 1, np.int64)
            places[keys] = np.arange(len(keys))
            self._places = (generation, places)
        return self._places[1]

    def _words(
        self, request: Search, connection: sqlite3.Connection, generation: int, allowed: NDArray[np.int64] | None
    ) -> Scored | None:
        kind = _view(request)
        if not records.has_view(connection, kind):
            return Scored.nothing()
        searcher: LexicalSearcher | None = None
        if self._engine == "tantivy":
            searcher = self._index(kind).at(generation)
        if searcher is None and (self._engine != "tantivy" or self._connections.read_only):
            searcher = self._words_of_memory(kind, connection, generation)
        return None if searcher is None else searcher.search(request.query, request.k, allowed)

    def _dense(
        self, request: Search, connection: sqlite3.Connection, generation: int, allowed: NDArray[np.int64] | None
    ) -> Scored | None:
        dim = int(schema.get_meta(connection, "dim") or 0)
        vector = _vector(request.vector, dim)
        if not dim or not vector.any():
            return Scored.nothing()
        searchers = self._vectors.at(connection, generation, dim)
        if searchers is None and self._connections.read_only:
            searchers = vectors.in_memory(connection, generation, dim)
        return None if searchers is None else searchers.search(request.view or DEFAULT, vector, allowed)

    def _terms(
        self, request: Search, connection: sqlite3.Connection, generation: int, allowed: NDArray[np.int64] | None
    ) -> Scored:
        finder = self._finder
        if finder is None or finder[0] != generation:
            finder = self._finder = (generation, TermMatcher(keywords.vocabulary(connection)))
        return keywords.carriers(connection, finder[1].longest_in(request.query), allowed)

    def _chunks_allowed(
        self, request: Search, connection: sqlite3.Connection, generation: int
    ) -> NDArray[np.int64] | None:
        """Return the keys of the chunks that filter, `among` and `documents` leave, ascending; None for all."""
        limits = []
        if request.where is not None:
            limits.append(self._chunks_where(request.where, connection, generation))
        if request.among is not None:
            limits.append(self._keys_of(connection, generation, request.among))
        if request.documents is not None:
            of_documents = "SELECT chunk FROM chunks JOIN documents USING (doc) WHERE documents.id IN"
            limits.append(_keys(connection, of_documents, request.documents))
        return reduce(np.intersect1d, limits) if limits else None

    def _keys_held(self, generation: int) -> dict[str, int]:
        if self._known[0] != generation or len(self._known[1]) > _CHUNKS:
            self._known = (generation, {})
        return self._known[1]

    def _keys_of(self, connection: sqlite3.Connection, generation: int, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the keys of the chunks of these ids, ascending: those of earlier searches from memory."""
        held = self._keys_held(generation)
        if missing := [chunk_id for chunk_id in ids if chunk_id not in held]:
            select = "SELECT id, chunk FROM chunks WHERE id IN (SELECT value FROM json_each(?))"
            held.update(connection.execute(select, (json.dumps(missing),)).fetchall())
        return np.array(sorted(held[chunk_id] for chunk_id in ids if chunk_id in held), np.int64)

    def _chunks_where(self, where: Where, connection: sqlite3.Connection, generation: int) -> NDArray[np.int64]:
        """Return the keys of the chunks that a filter allows, ascending."""
        allows, name = compiled(where), (generation, repr(where))
        if name not in self._allowed:
            held = self._fields_held(connection, generation)
            keys = np.array([key for key, fields in held if allows(fields)], np.int64)
            with self._guard:
                if len(self._allowed) >= _FILTERS or any(known != generation for known, _ in self._allowed):
                    self._allowed.clear()
                self._allowed[name] = keys
            return keys
        return self._allowed[name]

    def _fields_held(self, connection: sqlite3.Connection, generation: int) -> list[tuple[int, dict[str, Any]]]:
        """Return what filters see of each chunk by its key, of this generation."""
        held = self._fields
        if held is None or held[0] != generation:
            held = self._fields = (generation, records.fields(connection))
        return held[1]

    def problems(self, connection: sqlite3.Connection, generation: int) -> Iterator[str]:
        """Yield where a derived index differs from the truth that `connection` sees."""
        dim = int(schema.get_meta(connection, "dim") or 0)
        if generation and dim:
            yield from self._vectors.problems(connection, generation, dim)
        if generation and self._engine == "tantivy":
            for kind in sorted({*self._kinds(), DEFAULT_VIEW}):
                yield from self._index(kind).problems(connection, generation)

    def _kinds(self) -> set[str]:
        """Return the kinds of view that have a lexical index here or on disk."""
        kinds = set(self._lexical)
        for folder in self._folder.glob("*"):
            manifest = Manifest.read(folder)
            if manifest is not None:
                kinds.add(manifest.made.partition(", view ")[2])
        return kinds

    def _are_settled(self, generation: int) -> bool:
        if self._engine != "tantivy":
            return True
        manifests = [Manifest.read(self._index(kind).folder) for kind in {*self._kinds(), DEFAULT_VIEW}]
        return all(manifest is not None and manifest.is_settled(generation) for manifest in manifests)

    def _discard(self) -> None:
        self._vectors.discard()
        for index in self._lexical.values():
            index.discard()

    def _index(self, kind: str) -> LexicalIndex:
        with self._guard:
            if kind not in self._lexical:
                self._lexical[kind] = LexicalIndex(self._folder / _folder_name(kind), kind)
            return self._lexical[kind]

    def _words_of_memory(self, kind: str, connection: sqlite3.Connection, generation: int) -> LexicalSearcher:
        held = self._in_memory.get(kind)
        if held is None or held.generation != generation:
            if self._engine == "rank-bm25":
                held = RankBm25Searcher(connection, kind, generation)
            else:
                held = lexical.in_memory(connection, kind, generation, self._folder)
            self._in_memory[kind] = held
        return held


def _view(request: Search) -> str:
    return request.view or DEFAULT_VIEW


def _folder_name(kind: str) -> str:
    """Return a name that is safe on any file system: kinds come from callers."""
    return kind if re.fullmatch(r"[a-z][a-z0-9-]{0,40}", kind) else f"_{digest(kind)}"


def _vector(vector: Any, dim: int) -> NDArray[np.float32]:
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


def _keys(connection: sqlite3.Connection, select: str, ids: Sequence[str]) -> NDArray[np.int64]:
    rows = connection.execute(f"{select} (SELECT value FROM json_each(?))", (json.dumps(list(ids)),))
    return np.sort(np.array(rows.fetchall(), np.int64).ravel())


def _ranking(scored: Sequence[tuple[Chunk, float, str]], route: str, *, ranked: bool) -> Ranking:
    """Return the hits, best first; without ranks where single chunks were asked for."""
    ordered = sorted(scored, key=lambda item: (-item[1], item[0].id))
    hits = (
        Hit(chunk, score, (Provenance(route=route, rank=rank if ranked else None, score=score, view=view),))
        for rank, (chunk, score, view) in enumerate(ordered, start=1)
    )
    return Ranking(tuple(hits), Scale.SIMILARITY)

"""The three routes of a library: one consistent state, one filter, one way to settle ties."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial, reduce
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from catena.effects import FindNames, NamesFound, Search
from catena.model import NO_DOCUMENTS, Chunk, Degraded, Hit, Provenance, Ranking, Scale, Where, told_apart
from catena.model.errors import LibraryBusyError, LibraryError, ParameterError
from catena.model.filters import MOST_VALUES, compiled, distinct
from catena.model.ids import digest
from catena.model.vectors import DEFAULT, DEFAULT_VIEW, EMBEDDED_VIEWS
from catena.store import lexical, records, schema, vectors
from catena.store import names as keywords
from catena.store.derived import Manifest
from catena.store.lexical import LexicalIndex, LexicalSearcher, RankBm25Searcher
from catena.store.names import DocumentNameSearch
from catena.store.schema import Connections, Snapshot, as_written
from catena.store.vectors import Scored, VectorMatrix, VectorSearchers
from catena.text.names import TermMatcher

if TYPE_CHECKING:
    from numpy.typing import NDArray

Route: TypeAlias = "Callable[[Search, sqlite3.Connection, State, NDArray[np.int64] | None], Scored]"
T = TypeVar("T")

ROUTES = ("dense", "lexical", "keyword")
DOCUMENTS = 50  # the best of a question, whose scores are added to those of their chunks
INDEXED = (DEFAULT_VIEW, lexical.WHOLE)  # the kinds that always have a lexical index
_RECENT = 64  # results of filters and of questions to whole documents kept per generation
_CHUNKS = 20_000  # chunks kept in memory per generation, about 2 kB each
_DOCUMENTS = "SELECT doc FROM documents WHERE id IN"
_OF_DOCUMENTS = "SELECT chunk FROM chunks JOIN documents USING (doc) WHERE documents.id IN"
_PAUSE = 0.005  # seconds, between two looks at what a writer is about to complete

_log = logging.getLogger(__name__)


class State:
    """Indexes derived from one generation of a library, kept while it is the present one or a question sees it."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.chunks: dict[int, Chunk] = {}
        self.keys: dict[str, int] = {}  # of chunks, by their ids
        self.lexical: dict[str, LexicalSearcher] = {}  # by the kind of view
        self.vectors: VectorSearchers | None = None
        self._made: dict[Hashable, Any] = {}
        self._recent: dict[Hashable, Any] = {}

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` makes, made by the first who asks."""
        found = self._made.get(what)
        if found is None:
            found = self._made[what] = make()
        return found

    def recent(self, what: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` makes, kept for what else this question and the next ones ask."""
        held = self._recent  # of which nothing is taken out: routes ask side by side
        if what not in held:
            made = make()
            if len(held) >= _RECENT:
                held = self._recent = {}
            held[what] = made
        return held[what]  # type: ignore[no-any-return]

    def forget(self) -> None:
        """Let go of the indexes that were opened and of what they said."""
        self.lexical, self.vectors, self._recent = {}, None, {}


class Routes:
    """Answers searches from derived indexes that are of the same generation as the rows they point to."""

    def __init__(self, connections: Connections, *, engine: str) -> None:
        self._connections, self._engine = connections, engine
        self._folder = connections.path / "lexical"
        self._guard, self._mending = threading.Lock(), threading.Lock()
        self._lexical: dict[str, LexicalIndex] = {}
        self._vectors = VectorMatrix(connections.path / "vectors")
        self._state = State(0)  # of the generation that was last begun with

    def close(self) -> None:
        """Let go of all memory-mapped files."""
        self._lexical.clear()
        self._vectors = VectorMatrix(self._vectors.folder)
        self._state = State(0)

    def snapshot(self) -> Snapshot[State]:
        """Return one state for all that a question reads; nothing is read yet."""
        return Snapshot(self._connections, self._ready)

    @contextmanager
    def reading(self, *, searching: bool = True) -> Iterator[tuple[sqlite3.Connection, State]]:
        """Give a connection and what is derived from the state it sees: that of the question, where there is one.

        Args:
            searching: False where no lexical index will be asked: outside of a question none is then waited for.
        """
        active = self._connections.active()
        own = active or Snapshot(self._connections, self._ready if searching else self._begun)
        with ExitStack() as stack:
            if searching:  # else a graph may be built meanwhile, by functions of others
                stack.enter_context(as_written(self._connections.path))
            if active is None:
                stack.enter_context(closing(own))
                stack.enter_context(own.active())
            yield stack.enter_context(own.reading())

    def _ready(self, connection: sqlite3.Connection) -> State:
        """Begin a transaction and return what is derived from the state it sees, with its lexical indexes open.

        They are files of one generation: opened now, before the next one takes their place. A writer brings them
        up to date after its commit; whoever begins in between begins anew, until that is done.
        """
        give_up = monotonic() + self._connections.timeout
        while not self._has_lexical(state := self._begun(connection)):
            connection.execute("ROLLBACK")
            try:
                with self._connections.locked(wait=False) as own:
                    self.sync(own)
                    self._has_lexical(state := self._begun(connection))
                    return state
            except LibraryBusyError:
                if monotonic() > give_up:
                    raise
                sleep(_PAUSE)
            except LibraryError as error:  # their folder cannot be written: they are made in memory
                _log.warning("%s", error)
                return self._begun(connection)
        return state

    def _begun(self, connection: sqlite3.Connection) -> State:
        connection.execute("BEGIN")
        generation = schema.number(connection, "generation")
        if self._state.generation != generation:
            self._state = State(generation)
        return self._state

    def _has_lexical(self, state: State) -> bool:
        """Open the lexical indexes of a generation that are in use here; return whether each could be."""
        if self._engine != "tantivy" or self._connections.read_only or not state.generation:
            return True
        for kind in set(self._lexical).difference(state.lexical):
            searcher = self._index(kind).at(state.generation)
            if searcher is None:
                return False
            state.lexical[kind] = searcher
        return True

    def sync(self, connection: sqlite3.Connection, also: str = DEFAULT_VIEW) -> None:
        """Bring the files of the derived indexes up to date; the caller holds the writer lock."""
        with schema.snapshot(connection) as generation:
            dim = schema.number(connection, "dim")
            if dim:
                self._vectors.sync(connection, generation, dim)
            if self._engine == "tantivy":
                for kind in sorted({*self._kinds(), *INDEXED, also}):
                    self._index(kind).sync(connection, generation)

    def catch_up(self) -> None:
        """Bring up to date what a killed writer left behind, unless another one is at it."""
        with self._connections.reading() as (connection, generation):
            dim = schema.number(connection, "dim")
            if not generation or (self._are_settled(generation) and self._vectors.at(connection, generation, dim)):
                return
        try:
            with self._connections.locked() as connection:
                self.sync(connection)
        except LibraryBusyError:
            pass
        except LibraryError as error:  # what cannot be written is made in memory, when it is first asked
            _log.warning("%s", error)

    def search(self, request: Search) -> Ranking:
        """Return the ranking that a request asks for; of a library without documents it says so."""
        route = self._route(request)
        with self.reading() as (connection, state):
            for _ in range(2):
                if (ranking := self._rank(request, route, connection, state)) is not None:
                    if ranking.hits or len(self._all_keys(connection, state)):
                        return ranking
                    empty = Degraded(f"library {self._connections.path.name!r}", NO_DOCUMENTS)
                    return replace(ranking, degraded=(empty,))
        what = "an index cannot be read although it was just written; all documents are kept"
        raise LibraryError(str(self._connections.path), what, "whether the disk is sound")

    def names(self, request: FindNames) -> NamesFound:
        """Return what a question names."""
        with self.reading() as (connection, state):
            search = state.once("names", lambda: DocumentNameSearch(connection))

            def printed(words: str, k: int, documents: Sequence[str], of_others: bool) -> list[str]:
                allowed = _keys(connection, state, _OF_DOCUMENTS, documents)
                if of_others:
                    allowed = np.setdiff1d(self._all_keys(connection, state), allowed, assume_unique=True)
                asked = Search(route="lexical", query=words, k=k)
                best = self._words(asked, connection, state, allowed).best(
                    k, partial(self._places_of, connection, state)
                )
                return [chunk.text for chunk in self._chunks_of(connection, state, best.keys.tolist()).values()]

            return search.find(connection, request, printed)

    def field_names(self) -> frozenset[str]:
        """Return the names of the fields by which chunks can be filtered here: of any of them."""
        with self.reading() as (connection, state):
            held = partial(self._fields_of, connection, state)
            return state.once("field names", lambda: frozenset().union(*(fields for _, fields in held())))

    def told_apart(self) -> dict[str, str]:
        """Return what tells documents of one title from each other, by id."""
        with self.reading(searching=False) as (connection, state):
            return state.once("told apart", lambda: told_apart(records.names_of(connection)))

    def values_of(self, name: str) -> tuple[Any, ...] | None:
        """Return the values of a field, sorted as text; None where there are more than `MOST_VALUES`."""
        with self.reading() as (connection, state):
            held = partial(self._fields_of, connection, state)
            found = state.once(
                ("values", name), lambda: distinct(fields[name] for _, fields in held() if name in fields)
            )
            return found if len(found) <= MOST_VALUES else None

    def _route(self, request: Search) -> Route:
        routes: dict[str, Route] = {"dense": self._dense, "lexical": self._words, "keyword": self._terms}
        if request.route not in routes:
            raise ParameterError("route", request.route, f"one of {', '.join(ROUTES)}")
        if not isinstance(request.k, int) or isinstance(request.k, bool) or request.k < 0:
            raise ParameterError("k", request.k, "a whole number >= 0")
        if not isinstance(request.query, str):
            raise ParameterError("query", request.query, "a string")
        return routes[request.route]

    def _rank(self, request: Search, route: Route, connection: sqlite3.Connection, state: State) -> Ranking | None:
        allowed = self._chunks_allowed(request, connection, state)
        best = route(request, connection, state, allowed).best(request.k, lambda: self._places_of(connection, state))
        keys = best.keys.tolist()
        chunks = self._chunks_of(connection, state, keys)
        if len(chunks) < len(keys):  # a derived folder of another library, or an older truth put in place
            self._discard(state)
            return None
        if len(state.keys) > _CHUNKS:
            state.keys = {}
        state.keys.update((chunk.id, key) for key, chunk in chunks.items())
        views = self._views_of(request, connection, state, keys)
        found = zip(keys, best.scores.tolist(), views, strict=True)
        scored_chunks = [(chunks[key], score, view) for key, score, view in found]
        return _ranking(scored_chunks, request.route, ranked=request.among is None)

    def _views_of(
        self, request: Search, connection: sqlite3.Connection, state: State, keys: Sequence[int]
    ) -> list[str]:
        """Return the kind of view by which each chunk was found."""
        if request.route != "dense" or request.view:
            return ["terms" if request.route == "keyword" else _view(request)] * len(keys)

        def embedded() -> dict[int, str]:
            select = "SELECT DISTINCT chunk, kind FROM views WHERE kind IN (?, ?, ?, ?)"
            found = connection.execute(select, EMBEDDED_VIEWS).fetchall()
            return dict(sorted(found, key=lambda row: EMBEDDED_VIEWS.index(row[1])))

        kinds = state.once("embedded", embedded)
        return [kinds.get(key, DEFAULT_VIEW) for key in keys]

    def _chunks_of(self, connection: sqlite3.Connection, state: State, keys: Sequence[int]) -> dict[int, Chunk]:
        """Return the chunks of these keys, those of earlier searches from memory."""
        held = state.chunks if len(state.chunks) <= _CHUNKS else {}
        if missing := [key for key in keys if key not in held]:
            held.update(records.chunks_of(connection, missing))
        state.chunks = held
        return {key: held[key] for key in keys if key in held}

    def _all_keys(self, connection: sqlite3.Connection, state: State) -> NDArray[np.int64]:
        rows = partial(connection.execute, "SELECT chunk FROM chunks ORDER BY chunk")
        return state.once("keys", lambda: np.array(rows().fetchall(), np.int64).ravel())

    def _places_of(self, connection: sqlite3.Connection, state: State) -> NDArray[np.int64]:
        """Return the place of each chunk key's id among all ids, by key: what settles ties."""

        def places() -> NDArray[np.int64]:
            keys = np.array(connection.execute("SELECT chunk FROM chunks ORDER BY id").fetchall(), np.int64).ravel()
            found = np.zeros(keys.max(initial=0) + 1, np.int64)
            found[keys] = np.arange(len(keys))
            return found

        return state.once("places", places)

    def _words(
        self, request: Search, connection: sqlite3.Connection, state: State, allowed: NDArray[np.int64] | None
    ) -> Scored:
        kind = _view(request)
        if not state.once(("view", kind), lambda: records.has_view(connection, kind)):
            return Scored.nothing()
        searcher = self._searcher(kind, connection, state)
        documents = None
        if request.view is None and self._engine == "tantivy":  # the reference engine knows no documents
            whole = self._searcher(lexical.WHOLE, connection, state)
            documents = state.recent(
                ("documents", request.query), lambda: whole.search(request.query, DOCUMENTS).down_to(DOCUMENTS)
            )
            if request.documents is not None and not request.besides:
                documents = documents.among(_keys(connection, state, _DOCUMENTS, request.documents))
        return searcher.search(request.query, request.k, allowed, documents)

    def _searcher(self, kind: str, connection: sqlite3.Connection, state: State) -> LexicalSearcher:
        if kind not in state.lexical:
            state.lexical[kind] = self._lexical_of(kind, connection, state.generation)
        return state.lexical[kind]

    def _lexical_of(self, kind: str, connection: sqlite3.Connection, generation: int) -> LexicalSearcher:
        if self._engine == "rank-bm25":
            return RankBm25Searcher(connection, kind, generation)
        index = self._index(kind)
        at = partial(index.at, generation)
        return (
            at()
            or self._mended(generation, at, kind)
            or lexical.in_memory(connection, kind, generation, index.folder)
        )

    def _dense(
        self, request: Search, connection: sqlite3.Connection, state: State, allowed: NDArray[np.int64] | None
    ) -> Scored:
        dim = state.once("dim", lambda: schema.number(connection, "dim"))
        vector = vectors.checked(request.vector, dim)
        if not dim or not vector.any():
            return Scored.nothing()
        searchers = state.vectors
        if searchers is None:
            at = partial(self._vectors.at, connection, state.generation, dim)
            searchers = (
                at() or self._mended(state.generation, at) or vectors.in_memory(connection, state.generation, dim)
            )
            state.vectors = searchers
        return searchers.search(request.view or DEFAULT, vector, allowed)

    def _mended(self, generation: int, at: Callable[[], T | None], kind: str = DEFAULT_VIEW) -> T | None:
        """Return what the files hold once they are brought up to date; None where they cannot be, or not any more."""
        if self._connections.read_only:
            return None
        with self._mending:  # the other routes of a question find it done
            if (found := at()) is not None:
                return found
            try:
                with self._connections.locked(wait=False) as own:
                    with schema.snapshot(own) as now:
                        pass
                    if now == generation:
                        self.sync(own, kind)
                    return at()
            except LibraryError as error:
                _log.warning("%s", error)
                return None

    def _terms(
        self, request: Search, connection: sqlite3.Connection, state: State, allowed: NDArray[np.int64] | None
    ) -> Scored:
        matcher = state.once("terms", lambda: TermMatcher(keywords.vocabulary(connection)))
        return keywords.carriers(connection, matcher.longest_in(request.query), allowed)

    def _chunks_allowed(
        self, request: Search, connection: sqlite3.Connection, state: State
    ) -> NDArray[np.int64] | None:
        """Return the keys of the chunks that filter, `among` and `documents` leave, ascending; None for all."""
        limits = []
        if request.where is not None:
            limits.append(self._chunks_where(request.where, connection, state))
        if request.among is not None:
            limits.append(self._keys_of(connection, state, request.among))
        if request.documents is not None:
            of_documents = _keys(connection, state, _OF_DOCUMENTS, request.documents)
            limits.append(np.union1d(of_documents, self._keys_of(connection, state, request.besides)))
        return reduce(np.intersect1d, limits) if limits else None

    def _keys_of(self, connection: sqlite3.Connection, state: State, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the keys of the chunks of these ids, ascending: those of earlier searches from memory."""
        held = state.keys
        if missing := [chunk_id for chunk_id in ids if chunk_id not in held]:
            select = "SELECT id, chunk FROM chunks WHERE id IN (SELECT value FROM json_each(?))"
            held.update(connection.execute(select, (json.dumps(missing),)).fetchall())
        return np.array(sorted(held[chunk_id] for chunk_id in ids if chunk_id in held), np.int64)

    def _chunks_where(self, where: Where, connection: sqlite3.Connection, state: State) -> NDArray[np.int64]:
        """Return the keys of the chunks that a filter allows, ascending."""
        allows = compiled(where)
        rows = partial(self._fields_of, connection, state)
        return state.recent(
            ("where", repr(where)), lambda: np.array([key for key, fields in rows() if allows(fields)], np.int64)
        )

    def _fields_of(self, connection: sqlite3.Connection, state: State) -> list[tuple[int, dict[str, Any]]]:
        """Return what filters see of each chunk by its key."""
        return state.once("fields", lambda: records.fields(connection))

    def problems(self, connection: sqlite3.Connection) -> Iterator[str]:
        """Yield where a derived index differs from the truth that `connection` sees."""
        generation = schema.number(connection, "generation")
        dim = schema.number(connection, "dim")
        if generation and dim:
            yield from self._vectors.problems(connection, generation, dim)
        if generation and self._engine == "tantivy":
            for kind in sorted({*self._kinds(), *INDEXED}):
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
        manifests = [Manifest.read(self._index(kind).folder) for kind in {*self._kinds(), *INDEXED}]
        return all(manifest is not None and manifest.is_settled(generation) for manifest in manifests)

    def _discard(self, state: State) -> None:
        self._vectors.discard()
        for index in self._lexical.values():
            index.discard()
        state.forget()

    def _index(self, kind: str) -> LexicalIndex:
        with self._guard:
            if kind not in self._lexical:  # under a name that is safe on any file system: kinds come from callers
                name = kind if re.fullmatch(r"[a-z][a-z0-9-]{0,40}", kind) else f"_{digest(kind)}"
                self._lexical[kind] = LexicalIndex(self._folder / name, kind)
            return self._lexical[kind]


def _view(request: Search) -> str:
    return request.view or DEFAULT_VIEW


def _keys(connection: sqlite3.Connection, state: State, select: str, ids: Sequence[str]) -> NDArray[np.int64]:
    """Return the keys that belong to some ids, ascending; one question asks for the same ones again and again."""

    def selected() -> NDArray[np.int64]:
        rows = connection.execute(f"{select} (SELECT value FROM json_each(?))", (json.dumps(list(ids)),))
        return np.sort(np.array(rows.fetchall(), np.int64).ravel())

    return state.recent((select, tuple(ids)), selected)


def _ranking(scored: Sequence[tuple[Chunk, float, str]], route: str, *, ranked: bool) -> Ranking:
    """Return the hits, best first; without ranks where single chunks were asked for."""
    ordered = sorted(scored, key=lambda item: (-item[1], item[0].id))
    hits = (
        Hit(chunk, score, (Provenance(route=route, rank=rank if ranked else None, score=score, view=view),))
        for rank, (chunk, score, view) in enumerate(ordered, start=1)
    )
    return Ranking(tuple(hits), Scale.SIMILARITY)

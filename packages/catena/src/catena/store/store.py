"""The embedded library: documents, chunks, views, vectors and terms on one path, searched by three routes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np

from catena.effects import FetchChunks, FetchText, FindNames, Holdings, Inspect, NamesFound, Search
from catena.model import LOOKED_AT, Chunk, Entry, Figure, ParameterError, ViewVectors, meant
from catena.model.errors import DuplicateDocumentError, LibraryError, ModelMismatchError, UnknownDocumentError
from catena.model.values import Document, Outcome, Place, Ranking, View, placed_in
from catena.store import contents as listing
from catena.store import figures, records, schema, writing
from catena.store import names as keywords
from catena.store.checks import check_entry, problems_of_truth, told
from catena.store.contents import GRAPH_SETTING, Contents, DocumentInfo, LibraryStats, setting_name
from catena.store.routes import ROUTES, Routes, State
from catena.store.schema import Connections, Snapshot, check_place, prepare
from catena.store.writing import Replaced

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Addition", "DocumentInfo", "LibraryStats", "LibraryStore", "Replaced"]

Addition: TypeAlias = "tuple[Entry, NDArray[np.float32] | ViewVectors]"
"""An entry and its vectors: those of its views, or an array of one default vector per chunk, shape (chunks, dim)."""


class LibraryStore:
    """An embedded store on one path; safe for threads and for several processes.

    SQLite holds the truth. The lexical index and the vector matrix are derived from it, say of which
    generation they are, and are brought up to date or rebuilt when they are behind, damaged or gone.
    """

    def __init__(
        self, connections: Connections, *, embedder_identity: str | None, dim: int | None, lexical: str
    ) -> None:
        self.path = connections.path
        self.embedder_identity, self.dim, self.lexical = embedder_identity, dim, lexical
        self._connections = connections
        self._routes = Routes(connections, engine=lexical)
        self._longest_log = schema.LONG_LOG

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        embedder_identity: str | None = None,
        dim: int | None = None,
        lexical: Literal["tantivy", "rank-bm25"] = "tantivy",
        create: bool = True,
        timeout: float = 30.0,
    ) -> Self:
        """Open the library on a path, or create it where there is nothing.

        Args:
            path: a folder.
            embedder_identity: the model whose vectors are stored and searched; None takes the library's own,
                which allows everything but adding to a new library.
            dim: length of that model's vectors; given exactly when the identity is.
            lexical: the engine of the lexical route. "rank-bm25" is the reference: all in memory, made anew
                after every change.
            create: whether a path without a library becomes one.
            timeout: seconds to wait for another writer.

        Raises:
            LibraryError: the path holds something else, is damaged, or was written by a newer version.
            ModelMismatchError: the library holds vectors of another model.
        """
        if (embedder_identity is None) != (dim is None) or (dim is not None and dim < 1):
            raise ParameterError("dim", dim, "a length >= 1, given exactly when embedder_identity is")
        if lexical not in ("tantivy", "rank-bm25"):
            raise ParameterError("lexical", lexical, "'tantivy' or 'rank-bm25'")
        folder = Path(path)
        check_place(folder, create=create)
        read_only = not os.access(folder, os.W_OK)
        connections = Connections(folder, timeout=timeout, read_only=read_only)
        try:
            prepare(connections)
            store = cls(connections, embedder_identity=embedder_identity, dim=dim, lexical=lexical)
            store._adopt_stamp()
            if not read_only:
                store._routes.catch_up()
        except BaseException:
            connections.close()
            raise
        return store

    @staticmethod
    def embedder_name(path: str | os.PathLike[str]) -> str:
        """Return the name of the embedder that a library remembers; "" where it has none, or is not there.

        Raises:
            LibraryError: the path holds a library that cannot be read.
        """
        folder = Path(path)
        if not (folder / schema.FILE).is_file():
            return ""
        check_place(folder, create=False)
        connections = Connections(folder, timeout=30.0, read_only=not os.access(folder, os.W_OK))
        try:
            prepare(connections)
            return _remembered(connections)
        finally:
            connections.close()

    def remember_embedder(self, name: str) -> None:
        """Keep the name by which this library's embedder is made, where the folder can be written."""
        if not self.read_only and _remembered(self._connections) != name:
            self.remember(f"embedder {self.embedder_identity}", name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release all files; what was acknowledged is on disk already."""
        self._routes.close()
        self._connections.close()

    @property
    def routes(self) -> tuple[str, ...]:
        return ROUTES

    def snapshot(self) -> Snapshot[State] | None:
        """Return one state of the library for all that a question reads; None inside of a question that has one.

        `catena.effects.run` and `arun` ask for it: what a step reads is of one generation, whatever others write.
        """
        return None if self._connections.active() is not None else self._routes.snapshot()

    def search(self, request: Search) -> Ranking:
        """Return the k best chunks of one route, in `Scale.SIMILARITY`, ties by chunk id.

        `lexical`: BM25 over the views of kind `request.view`, "headed" by default; only chunks that hold a word
        of the query. `dense`: dot product with `request.vector`, shape (dim,), over the vectors of the views of
        kind `request.view`, by default over the default vector of every chunk; a chunk counts as the best of its
        rows, and a zero vector is like nothing and finds nothing. `keyword`: the weights of the critical terms of
        the query that a chunk carries, summed; at least one. Filters are exact: the k best among the chunks they
        allow. A library without documents says so in `Ranking.degraded`.

        Raises:
            ParameterError: unknown route, k below 0, or a vector that is missing, of another length or not finite.
            FilterError: the filter is malformed.
        """
        return self._routes.search(request)

    def names(self, request: FindNames) -> NamesFound:
        """Return which documents a question names, and what looks like a name but is none that is known here."""
        return self._routes.names(request)

    def chunks(self, request: FetchChunks) -> tuple[tuple[Chunk, ...], ...]:
        """Return the chunks of each span of positions, in reading order; of an unknown document none."""
        with self._connections.reading() as (connection, _):
            return tuple(records.chunks_between(connection, *span) for span in request.spans)

    def texts(self, request: FetchText) -> tuple[str | None, ...]:
        """Return each slice of a document's text, None where the document or the span is not there."""
        with self._connections.reading() as (connection, _):
            ids = dict.fromkeys(document_id for document_id, _, _ in request.spans)
            held = {document_id: records.text_of(connection, document_id) for document_id in ids}
        slices = ((held[document_id], start, end) for document_id, start, end in request.spans)
        return tuple(
            None if text is None or not 0 <= start <= end <= len(text) else text[start:end]
            for text, start, end in slices
        )

    def places(self, spans: Sequence[tuple[str, int, int]]) -> tuple[Place, ...]:
        """Return on which pages slices of documents are, the labels of these pages, and their boxes; no lines.

        Args:
            spans: (document id, start, end) each.

        Returns:
            One place per span; without pages where the document has none, or is not there.
        """
        with self._connections.reading() as (connection, _):
            pages = {name: records.pages_of(connection, name) for name in dict.fromkeys(span[0] for span in spans)}
        return tuple(placed_in(*pages[name], start, end) for name, start, end in spans)

    def add(self, additions: Sequence[Addition]) -> None:
        """Store new documents: all of them, or none when one is refused.

        Raises:
            DuplicateDocumentError: a document is there already.
            ParameterError: an entry contradicts itself, see `catena.store.checks`.
        """
        ready = [(entry, self._checked(entry, vectors)) for entry, vectors in additions]
        with self._writing() as (connection, generation):
            for entry, vectors in ready:
                if _key(connection, entry.document.id) is not None:
                    what = f"document {entry.document.id!r} is there already; nothing was added"
                    raise DuplicateDocumentError(str(self.path), what, "replace")
                self._write(connection, entry, vectors, generation)

    def replace(self, additions: Sequence[Addition], *, outcomes: Sequence[Outcome] = ()) -> tuple[str, ...]:
        """Store documents in place of their older versions, all or none; what is not there yet is added.

        As `put`, which says more of what was done.

        Returns:
            The ids of the documents that were written, in order.
        """
        return tuple(each.document_id for each in self.put(additions, outcomes=outcomes))

    def put(self, additions: Sequence[Addition], *, outcomes: Sequence[Outcome] = ()) -> tuple[Replaced, ...]:
        """Store documents in place of their older versions, all or none; what is not there yet is added.

        The older version can be found until the new one is complete. An entry whose fingerprint is the
        stored one is skipped; an empty fingerprint never is. A chunk whose text, views, vectors and terms are as
        before is kept with all its rows, wherever it stands now; all others come and go.

        Args:
            additions: entries with their vectors.
            outcomes: written into the ledger together with the documents, or not at all; the documents that they
                were moved from go.

        Returns:
            What was done to each document that was written, in order.
        """
        ready = [(entry, self._checked(entry, vectors)) for entry, vectors in additions]
        written: list[Replaced] = []
        with self._writing() as (connection, generation):
            for entry, vectors in ready:
                old = _key(connection, entry.document.id)
                if old is not None and entry.fingerprint and entry.fingerprint == _fingerprint(connection, old):
                    continue
                written.append(self._write(connection, entry, vectors, generation))
            moved = [name for each in outcomes for name in each.moved_from if _key(connection, name) is not None]
            for name in dict.fromkeys(moved):
                self._delete(connection, name, generation)
            listing.record(connection, outcomes)
        for name in (*(each.document_id for each in written), *moved):
            figures.remove_files(self.path, name)
        return tuple(written)

    def delete(self, document_id: str) -> None:
        """Remove a document: its text, views, vectors, terms, postings and its line in the ledger.

        Raises:
            UnknownDocumentError: it is not there.
        """
        with self._writing() as (connection, generation):
            self._delete(connection, document_id, generation)
        figures.remove_files(self.path, document_id)

    def _delete(self, connection: sqlite3.Connection, document_id: str, generation: int) -> None:
        writing.delete(connection, self._known(connection, document_id), generation=generation)
        connection.execute("DELETE FROM ledger WHERE document_id = ?", (document_id,))

    def get(self, document_id: str, *, pictures: bool = True) -> Entry:
        """Return all that was stored of a document, its figures only where `pictures` is true.

        Raises:
            UnknownDocumentError: it is not there.
        """
        with self._connections.reading() as (connection, _):
            return records.read(connection, self._known(connection, document_id), pictures=pictures)

    def made_views(self, document_id: str) -> Mapping[str, tuple[View, ...]]:
        """Return the views of a document that say what they were made from (`View.made`), by that.

        What is made from the same again need not be made again: the views of a hash that several chunks have are
        given once, with the id of the first of these chunks. Of an unknown document there are none.
        """
        with self._connections.present() as (connection, _):
            return records.made_views(connection, document_id)

    def known_vectors(self, document_id: str) -> Mapping[tuple[str, str], NDArray[np.float32]]:
        """Return the vectors of a document whose text is known, shape (dim,), by (kind of view, `text_digest`).

        What is embedded already need not be embedded again. Of an unknown document there are none.
        """
        with self._connections.present() as (connection, _):
            key, dim = _key(connection, document_id), schema.number(connection, "dim")
            if key is None:
                return {}
            held = records.vectors(connection, key, dim)
        named = zip(held.kinds, held.digests, held.rows, strict=True)
        return {(kind, name): row for kind, name, row in named if name}

    def figure(self, document_id: str, name: str) -> Figure:
        """Return a figure of a document by its file name.

        Raises:
            UnknownDocumentError: the document is not there.
            LibraryError: it has no such figure.
        """
        with self._connections.reading() as (connection, _):
            key = self._known(connection, document_id)
            with records.whole(f"figure {name!r}"):
                found = figures.find(connection, key, records.name_asked(name))
        if found is None:
            raise LibraryError(str(self.path), f"document {document_id!r} has no figure {name!r}")
        return found

    def figure_file(self, document_id: str, name: str) -> Path:
        """Write a figure's picture into the library's folder `figures`, where it is not yet, and return its path.

        Raises:
            UnknownDocumentError: the document is not there.
            LibraryError: it has no such figure, or the file cannot be written.
        """
        return figures.write_file(self.path, self.figure(document_id, name))

    def chunk(self, chunk_id: str) -> Chunk:
        """Return one chunk.

        Raises:
            LibraryError: no chunk has this id.
        """
        with self._connections.reading() as (connection, _):
            select, asked = "SELECT chunk FROM chunks WHERE id = ?", (records.name_asked(chunk_id),)
            row = connection.execute(select, asked).fetchone()
            if row is None:
                raise LibraryError(str(self.path), f"it holds no chunk {chunk_id!r}")
            return records.chunks_of(connection, row)[row[0]]

    def fingerprint(self, document_id: str) -> str | None:
        """Return the fingerprint of a document, None when it is not there."""
        with self._connections.present() as (connection, _):
            key = _key(connection, document_id)
            return None if key is None else _fingerprint(connection, key)

    def has_failed(self, document_id: str) -> bool:
        """Return whether the latest outcome of a document is "failed"."""
        with self._connections.present() as (connection, _):
            return listing.has_failed(connection, document_id)

    def documents(self) -> tuple[DocumentInfo, ...]:
        """Return what is known of each document, by id."""
        with self._connections.reading() as (connection, _):
            return listing.documents(connection)

    def document_count(self) -> int:
        """Return how many documents there are."""
        with self._connections.reading() as (connection, _):
            return int(connection.execute("SELECT count(*) FROM documents").fetchone()[0])

    def has_view(self, kind: str) -> bool:
        """Return whether any chunk has a view of this kind."""
        with self._connections.reading() as (connection, _):
            return records.has_view(connection, kind)

    def view_kinds(self) -> tuple[str, ...]:
        """Return the kinds of view that chunks here have, sorted."""
        with self._connections.reading() as (connection, _):
            kinds = [kind for (kind,) in connection.execute("SELECT DISTINCT kind FROM views ORDER BY kind")]
            with records.whole("the kinds of view"):
                records.all_of(str, *kinds)
        return tuple(kinds)

    def field_names(self) -> frozenset[str]:
        """Return the names of the fields by which chunks can be filtered: those that any of them has."""
        return self._routes.field_names()

    def inspect(self, request: Inspect) -> Holdings:
        """Return what decides how a question is put to this library."""
        kinds = self.view_kinds() if request.views is None else filter(self.has_view, sorted(request.views))
        fields = self.field_names() if request.fields else frozenset[str]()
        graph = False
        if request.graph:
            with self._connections.reading() as (connection, _):
                graph = bool(schema.get_meta(connection, setting_name(GRAPH_SETTING)))
        told = {name: values for name in request.values if (values := self._routes.values_of(name)) is not None}
        model = self.embedder_identity or ""
        apart = self._routes.told_apart()
        return Holdings(views=tuple(kinds), fields=fields, embedder=model, graph=graph, values=told, told_apart=apart)

    def whole(self, ids: Sequence[str]) -> tuple[Document | None, ...]:
        """Return documents by id, without their figures; None for one that is not there."""
        with self._connections.reading() as (connection, _):
            keys = [_key(connection, each) for each in ids]
            return tuple(
                None if key is None else records.read(connection, key, pictures=False).document for key in keys
            )

    def vocabulary(self) -> tuple[str, ...]:
        """Return all critical terms, sorted."""
        with self._connections.reading() as (connection, _):
            return keywords.vocabulary(connection)

    @property
    def read_only(self) -> bool:
        """True where the library lies in a folder that cannot be written."""
        return self._connections.read_only

    @contextmanager
    def contents(self) -> Iterator[Contents]:
        """Give one state of the library, as what is derived from it elsewhere reads it, until the block ends."""
        with self._routes.reading(searching=False) as (connection, state):
            yield Contents(connection, state.generation, state.once)

    @contextmanager
    def exclusive(self, *, wait: bool = True) -> Iterator[Contents]:
        """As `contents`, while no one writes: for the files of what is derived elsewhere.

        Args:
            wait: for another writer, as long as the library was opened to; False gives up at once.

        Raises:
            LibraryBusyError: another writer did not finish.
            LibraryError: the folder cannot be written.
        """
        with self._connections.locked(wait=wait) as connection, schema.snapshot(connection) as generation:
            yield Contents(connection, generation, State(generation).once)

    def remember(self, name: str, value: str) -> None:
        """Keep a setting with the library, for `Contents.setting`; "" forgets it. No generation passes."""
        with self._writing(moves=False) as (connection, _):
            schema.set_meta(connection, setting_name(name), value)

    def record(self, outcomes: Sequence[Outcome]) -> None:
        """Write into the ledger how inputs ended; the latest outcome of a document stands.

        A document that is kept while its new version failed stays searchable, and the ledger says "failed".
        """
        with self._writing(moves=False) as (connection, _):
            listing.record(connection, outcomes)

    def ledger(self) -> tuple[Outcome, ...]:
        """Return the latest outcome of every document, by source."""
        with self._connections.reading() as (connection, _):
            return listing.ledger(connection)

    def stats(self) -> LibraryStats:
        """Return the size of the library."""
        with self._connections.reading() as (connection, generation):
            return listing.stats(connection, self.path, generation)

    def verify(self, progress: Callable[[int, int], None] | None = None) -> tuple[str, ...]:
        """Return every broken invariant, each as one sentence; () when all is well.

        Args:
            progress: told after each document how many are checked, and of how many.

        Checked: SQLite's own integrity; sections tile, chunks are exact slices and cover; every view, vector and
        term has its chunk and every chunk a view and a vector; vectors are finite and of unit length or zero;
        the derived indexes are of the library's generation, intact and hold what it holds. Nothing is
        repaired: damage to a derived index mends itself at the next search that uses it.
        """
        with ExitStack() as stack:
            if self._connections.read_only:
                connection = stack.enter_context(self._connections.connection())
            else:  # a writer between its commit and its indexes would look like damage
                connection = stack.enter_context(self._connections.locked())
            stack.enter_context(schema.reading(connection))
            problems = problems_of_truth(connection, progress)
            return (*problems, *told("the derived indexes", self._routes.problems(connection)))

    def _checked(self, entry: Entry, vectors: Any) -> ViewVectors:
        if self.dim is None:
            raise ParameterError("embedder_identity", None, "the model of the vectors, given to open")
        given = vectors.rows if isinstance(vectors, ViewVectors) else vectors
        try:
            rows = np.ascontiguousarray(given, dtype=np.float32)
        except (TypeError, ValueError):
            raise ParameterError("vectors", type(given).__name__, "numbers of shape (chunks, dim)") from None
        checked = replace(vectors, rows=rows) if isinstance(vectors, ViewVectors) else rows
        check_entry(entry, checked, embedder=self.embedder_identity, dim=self.dim)
        return checked if isinstance(checked, ViewVectors) else ViewVectors.default(checked)

    def _write(self, connection: sqlite3.Connection, entry: Entry, vectors: ViewVectors, generation: int) -> Replaced:
        try:
            return writing.write(connection, entry, vectors, generation=generation)
        except sqlite3.IntegrityError:
            what = f"a chunk id of document {entry.document.id!r} belongs to another document; nothing was stored"
            raise LibraryError(str(self.path), what, "chunk ids made from document id and span") from None

    def _known(self, connection: sqlite3.Connection, document_id: str) -> int:
        key = _key(connection, document_id)
        if key is None:
            there = connection.execute("SELECT id FROM documents ORDER BY id LIMIT ?", (LOOKED_AT,))
            names = [row[0] for row in there]
            with records.whole("the documents"):
                records.all_of(str, *names)
            near = meant(document_id, names)
            raise UnknownDocumentError(str(self.path), f"it holds no document {document_id!r}{near}")
        return key

    @contextmanager
    def _writing(self, *, moves: bool = True) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Write in one transaction, then bring the derived indexes up to date, while no one else writes."""
        with self._connections.locked() as connection:
            schema.upgrade(connection, self.path)
            with schema.transaction(connection):
                self._stamp(connection)
                generation = schema.number(connection, "generation") + 1
                before = connection.total_changes
                yield connection, generation
                moved = moves and connection.total_changes > before
                if moved:
                    schema.set_meta(connection, "generation", str(generation))
            if moved:
                self._routes.sync(connection)
            self._longest_log = schema.shorten_log(connection, self.path, self._longest_log)

    def _adopt_stamp(self) -> None:
        """Compare the given model with the library's, take that over, or write ours into an empty library."""
        with self._connections.reading() as (connection, _):
            if self.embedder_identity is None:
                self.embedder_identity = schema.get_meta(connection, "embedder") or None
                self.dim = schema.number(connection, "dim") or None
                return
            stamped = self._check_stamp(connection)
        if not stamped and not self._connections.read_only:
            with self._connections.locked() as connection, schema.transaction(connection):
                self._stamp(connection)

    def _stamp(self, connection: sqlite3.Connection) -> None:
        """Write the given model into the library, where no vector is of another one."""
        if self.embedder_identity is not None and not self._check_stamp(connection):
            schema.set_meta(connection, "embedder", self.embedder_identity)
            schema.set_meta(connection, "dim", str(self.dim))

    def _check_stamp(self, connection: sqlite3.Connection) -> bool:
        """Return whether the library has our stamp; raise where it has another one's, and vectors of it."""
        identity, dim = schema.get_meta(connection, "embedder"), schema.number(connection, "dim")
        if (identity, dim) == (self.embedder_identity, self.dim):
            return True
        if connection.execute("SELECT 1 FROM vectors LIMIT 1").fetchone():
            what = (
                f"it holds vectors of {identity!r} ({dim} numbers each), the given model is"
                f" {self.embedder_identity!r} ({self.dim}); nothing was changed"
            )
            raise ModelMismatchError(str(self.path), what, f"{identity!r}, or index into a new library")
        return False


def _remembered(connections: Connections) -> str:
    """Return the name of the embedder that the library has now, "" where it has none."""
    with connections.reading() as (connection, _):
        identity = schema.get_meta(connection, "embedder")
        return schema.get_meta(connection, setting_name(f"embedder {identity}"))


def _key(connection: sqlite3.Connection, document_id: str) -> int | None:
    row = connection.execute("SELECT doc FROM documents WHERE id = ?", (records.name_asked(document_id),)).fetchone()
    return None if row is None else int(row[0])


def _fingerprint(connection: sqlite3.Connection, key: int) -> str:
    return str(connection.execute("SELECT fingerprint FROM documents WHERE doc = ?", (key,)).fetchone()[0])

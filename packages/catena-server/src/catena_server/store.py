"""Open an index set on a server as a store: `ServerStore` answers all that the embedded library's store is asked.

Each method runs one step of this package; what questions ask has an async twin, which awaits the same step. A request
of a question is sent once, since the driver of the question tries again; all others are tried again here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from annotated_types import Ge, Le, Lt

from catena import Services, arun, run
from catena.effects import Clock, Handler, Holdings, Inspect, Retry, Step
from catena.model import Checked, DuplicateDocumentError, ParameterError, ServerError, UnknownDocumentError
from catena.store import DocumentInfo
from catena_server import contents, lookups, rebuilding, writing
from catena_server.bulk import BulkOptions
from catena_server.calls import Call, Closing, Flavour, Pause, Transport, items
from catena_server.contents import ServerStats
from catena_server.fused_search import FusedOptions, search_fused
from catena_server.index_layout import IndexLayout, VectorIndex, check_name, open_or_create, refresh
from catena_server.queries import MOST, dialect_of
from catena_server.route_search import ROUTES, CountCache, QueryOptions, is_mapped, lately, search
from catena_server.writing import Addition, PutReport

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from catena import Chunk, Document, Entry, Outcome, Ranking, View
    from catena.effects import FetchChunks, FetchText, FindNames, Fused, NamesFound, Search, SearchFused
    from catena.model import Figure, Place
    from catena_server.restoring import StoredChunk

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions(Checked):
    """Options of reading and writing a set.

    Attributes:
        in_flight: requests of one question, or of one writing, that are on their way at once.
        candidates, oversample: of searches by vectors, see `QueryOptions`.
        counts_seconds: for which counts of words and terms are kept; what this store writes is seen at once.
        fused: how far the ranking of the whole formula is made sure of.
        bulk: how much is written at once, and how a busy server is waited for.
        retry: of all requests but those of questions.
        clock: how pauses are made.
    """

    in_flight: Annotated[int, Ge(1)] = 4
    candidates: Annotated[int, Ge(1), Le(MOST)] = 1_000
    oversample: Annotated[float, Ge(1), Lt(inf)] = 2.0
    counts_seconds: Annotated[float, Ge(0), Lt(inf)] = 5.0
    fused: FusedOptions = field(default_factory=FusedOptions)
    bulk: BulkOptions = field(default_factory=BulkOptions)
    retry: Retry = field(default_factory=Retry)
    clock: Clock = field(default_factory=Clock)


class ServerStore(Closing):
    """The index set of one name; safe for threads. `ports.Store`, and the writing and reading of documents.

    It is not pickled, as its connections are not: open it in each process.

    Args:
        transport: to the server; `close` closes it.
        layout: of a set that is there; `open` looks it up.
        options: how it is asked and written.
    """

    routes = ROUTES

    def __init__(self, transport: Transport, layout: IndexLayout, options: ServerOptions | None = None) -> None:
        self.layout, self.options = layout, options or ServerOptions()
        self.identity = f"{layout.name} on {transport.identity}"
        self._transport = transport
        self._flavour: Flavour = transport.flavour
        self._working = calling(transport, self.options)
        self._asking = replace(self._working, retry=Retry(attempts=1))
        self._how = QueryOptions(
            dialect=dialect_of(transport.flavour),
            counts=CountCache(seconds=self.options.counts_seconds),
            candidates=self.options.candidates,
            oversample=self.options.oversample,
        )

    @classmethod
    def open(
        cls,
        transport: Transport,
        name: str,
        *,
        embedder_identity: str | None = None,
        dim: int | None = None,
        create: bool = True,
        vector_index: VectorIndex = "int8_hnsw",
        several: Sequence[str] = (),
        shards: int = 1,
        replicas: int = 0,
        options: ServerOptions | None = None,
    ) -> Self:
        """Open the index set of a name, or make it where there is none.

        Args:
            transport: to the server.
            name: of the set: its indices begin with it.
            embedder_identity: of the model whose vectors are stored and searched; None takes the set's own.
            dim: length of that model's vectors; given exactly when the identity is.
            create: False refuses to make a set.
            vector_index: how vectors of a set that is made are kept; a set that is there lies as it lies, in this
                and in all that follows.
            several: kinds of view of which a chunk may have more than one.
            shards: of chunks and graph.
            replicas: copies of each shard.
            options: how it is asked and written.

        Raises:
            ModelMismatchError: the set holds vectors of another model.
            LibraryError: something else has this name, or there is nothing and `create` is False, or the set is of
                another format.
            ServerError: the server refused, or cannot be reached.
        """
        shape = {"vector_index": vector_index, "several": tuple(several), "shards": shards, "replicas": replicas}
        wanted = _wanted(name, embedder_identity, dim, **shape)
        step = open_or_create(name, wanted, transport.flavour, make=create)
        return cls(transport, run(step, calling(transport, options or ServerOptions())), options)

    @property
    def transport(self) -> Transport:
        """The transport that sends the calls."""
        return self._transport

    def __repr__(self) -> str:
        return f"ServerStore({self.identity!r})"

    def close(self) -> None:
        """Close the connections that the transport made; the user's own clients stay open."""
        if callable(close := getattr(self._transport, "close", None)):
            close()

    async def aclose(self) -> None:
        """As `close`, of the connections of this event loop, too."""
        if callable(aclose := getattr(self._transport, "aclose", None)):
            await aclose()
        else:
            self.close()

    # What questions ask.

    def search(self, request: Search) -> Ranking:
        """Return the k best chunks of one route, as `LibraryStore.search` does.

        Raises:
            ParameterError: unknown route, k out of range, or a vector that is missing, of another length or infinite.
            FilterError: the filter is malformed.
            ServerError: the server refused, or cannot be reached.
        """
        return run(search(request, self.layout, self._how), self._asking)

    async def asearch(self, request: Search) -> Ranking:
        """As `search`."""
        return await arun(search(request, self.layout, self._how), self._asking)

    def search_fused(self, request: SearchFused) -> Fused | None:
        """Return the k best chunks by HiQA's whole formula, and whether they are surely the best; see `fused`.

        None where the formula has a part that the server cannot sum.
        """
        return run(search_fused(request, self.layout, self._how, self.options.fused), self._asking)

    async def asearch_fused(self, request: SearchFused) -> Fused | None:
        """As `search_fused`."""
        return await arun(search_fused(request, self.layout, self._how, self.options.fused), self._asking)

    def names(self, request: FindNames) -> NamesFound:
        """Return which documents a question names, and what looks like a name but is none that is known here."""
        return run(lookups.find_names(request, self.layout), self._asking)

    async def anames(self, request: FindNames) -> NamesFound:
        """As `names`."""
        return await arun(lookups.find_names(request, self.layout), self._asking)

    def chunks(self, request: FetchChunks) -> tuple[tuple[Chunk, ...], ...]:
        """Return the chunks of each span of positions, in reading order; one that is not there is missing."""
        return run(lookups.chunks(request, self.layout), self._asking)

    async def achunks(self, request: FetchChunks) -> tuple[tuple[Chunk, ...], ...]:
        """As `chunks`."""
        return await arun(lookups.chunks(request, self.layout), self._asking)

    def texts(self, request: FetchText) -> tuple[str | None, ...]:
        """Return each slice of a document's text, None where it is not there."""
        return run(lookups.texts(request, self.layout), self._asking)

    async def atexts(self, request: FetchText) -> tuple[str | None, ...]:
        """As `texts`."""
        return await arun(lookups.texts(request, self.layout), self._asking)

    # Writing.

    def add(self, additions: Sequence[Addition], *, outcomes: Sequence[Outcome] = ()) -> tuple[str, ...]:
        """Put documents that are not there yet, and return their ids.

        Raises:
            DuplicateDocumentError: one is there already; nothing was written.
            ServerError: the server refused a part of one; the others are written.
        """
        return self._write(self._added(additions, outcomes))

    def replace(self, additions: Sequence[Addition], *, outcomes: Sequence[Outcome] = ()) -> tuple[str, ...]:
        """Put documents in place of their older versions, and return the ids of those that changed.

        Raises:
            ServerError: the server refused a part of one; the others are written.
        """
        return self._write(self._replaced(additions, outcomes))

    def put(
        self, additions: Sequence[Addition], *, outcomes: Sequence[Outcome] = (), visible: bool = True
    ) -> PutReport:
        """As `replace`, and return what became of each document.

        A document whose fingerprint is the stored one is skipped. Killed at any point, the same again loses and
        doubles nothing. The ledger takes the outcomes of documents that were written whole.

        Args:
            additions: entries with their vectors, each document once.
            outcomes: lines for the ledger.
            visible: whether searches see it when this returns; else after the next `refresh`.

        Raises:
            ParameterError: an entry is not sound; nothing was written.
            ServerError: nobody may write there, or the server cannot be reached for too long.
        """
        step = self._put(additions, outcomes)
        return self._write(step) if visible else self._run(step)

    def delete(self, document_id: str) -> None:
        """Remove a document with every chunk, view and vector of it, and its lines in the ledger.

        Raises:
            UnknownDocumentError: it is not there.
        """
        self._write(writing.delete(document_id, self.layout, self.options.bulk))

    def record(self, outcomes: Sequence[Outcome], *, visible: bool = True) -> None:
        """Write into the ledger how inputs ended; the latest outcome of a source stands."""
        step = writing.record(outcomes, self.layout, self.options.bulk)
        return self._write(step) if visible else self._run(step)

    def refresh(self) -> None:
        """Let searches see what other processes have written."""
        self._write(refresh(self.layout))

    def rebuild(
        self,
        *,
        vector_index: VectorIndex | None = None,
        several: Sequence[str] | None = None,
        shards: int | None = None,
        replicas: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Build the set anew from what it holds, beside the one that is searched, and put it in its place.

        Args:
            vector_index: how vectors are kept; None is as now, here and below.
            several: kinds of view of which a chunk may have more than one.
            shards: of chunks and graph.
            replicas: copies of each shard.
            progress: told after each document how many are copied, and of how many.

        Raises:
            LibraryError: a document is not whole, or another generation is being built.
        """
        given = {"vector_index": vector_index, "several": several, "shards": shards, "replicas": replicas}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if several is not None:
            changes["several"] = tuple(several)
        wanted = replace(self.layout, **changes)
        step = rebuilding.rebuild(self.layout, wanted, self._flavour, self.options.bulk, self._of_all(progress))
        self.layout = self._write(step)

    # Reading back.

    def get(self, document_id: str, *, pictures: bool = True) -> Entry:
        """Return all that was put of a document, its vectors aside; its figures only where `pictures` is true.

        Raises:
            UnknownDocumentError: it is not there.
            LibraryError: its writing did not end.
        """
        return run(contents.get(document_id, self.layout, pictures=pictures), self._working)

    def figure(self, document_id: str, name: str) -> Figure:
        """Return a figure of a document by its file name.

        Raises:
            UnknownDocumentError: the document is not there.
            LibraryError: it has no such figure.
        """
        return run(contents.figure(document_id, name, self.layout), self._working)

    def places(self, spans: Sequence[tuple[str, int, int]]) -> tuple[Place, ...]:
        """Return on which pages slices of documents are, and the labels of these pages; no lines.

        Args:
            spans: (document id, start, end) each.

        Returns:
            One place per span; without pages where the document has none, or is not there.
        """
        return run(lookups.places(spans, self.layout), self._working)

    def fingerprint(self, document_id: str) -> str | None:
        """Return the fingerprint of a document, "" of one that is not whole, None when it is not there."""
        return run(contents.fingerprint(document_id, self.layout), self._working)

    def fingerprints(self, document_ids: Sequence[str]) -> Mapping[str, str]:
        """Return the fingerprints of those of the documents that are there and whole, by id."""
        return run(writing.fingerprints(document_ids, self.layout), self._working)

    def fingerprints_read(self, document_ids: Sequence[str]) -> Mapping[str, str]:
        """As `fingerprints`, without the documents whose latest reading failed, as the ledger says."""
        return run(contents.fingerprints_read(document_ids, self.layout), self._working)

    def known_vectors(self, document_id: str) -> Mapping[tuple[str, str], NDArray[np.float32]]:
        """Return the vectors of a document whose text is known, by (kind of view, `text_digest`)."""
        return run(contents.known_vectors(document_id, self.layout, self._flavour), self._working)

    def made_views(self, document_id: str) -> Mapping[str, tuple[View, ...]]:
        """Return the views of a document that say what they were made from, by that."""
        return run(contents.made_views(document_id, self.layout), self._working)

    def has_view(self, kind: str) -> bool:
        """Return whether chunks have views of this kind, as was true some seconds ago."""
        return run(is_mapped(self.layout.words(kind), self.layout, self._how.counts), self._working)

    def view_kinds(self) -> tuple[str, ...]:
        """Return the kinds of view that chunks here have, sorted."""
        return tuple(sorted(kind for kind, chunks in self.stats().views.items() if chunks))

    def documents(self) -> tuple[DocumentInfo, ...]:
        """Return what is known of each document, by id."""
        return tuple(items(lambda at: contents.documents(self.layout, self._flavour, at), self._run))

    def ledger(self) -> tuple[Outcome, ...]:
        """Return how each input that was ever given ended, by source."""
        return tuple(items(lambda at: contents.ledger(self.layout, self._flavour, at), self._run))

    def export(self, *, document_id: str | None = None) -> Iterator[StoredChunk]:
        """Yield all chunks with their views and vectors, by document and position, as of one moment."""
        return items(lambda at: contents.export(self.layout, self._flavour, at, document_id=document_id), self._run)

    def stats(self) -> ServerStats:
        """Return the size of the set."""
        return run(contents.stats(self.layout), self._working)

    def field_names(self) -> frozenset[str]:
        """Return the names of the fields by which chunks can be filtered; none where that is not known.

        Known for `ServerOptions.counts_seconds`, as counts of words are. A server that does not answer knows none.
        """
        with suppress(ServerError):  # the search that follows says so, or does without a route, as its caller wants
            key, counts = ("fields", self.layout.name, ""), self._how.counts
            return run(lately(key, counts, lambda: contents.field_names(self.layout)), self._asking)
        return frozenset()

    def _values_of(self, names: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        """Return the values of fields, as far as they can be told; known for as long as the names of fields."""
        counts, keys = self._how.counts, {("values", self.layout.name, name): name for name in names}
        writings, known = counts.writings, counts.known(keys)
        with suppress(ServerError):
            if missing := [name for key, name in keys.items() if key not in known]:
                found = run(contents.field_values(missing, self.layout), self._asking)
                known |= {key: found[name] for key, name in keys.items() if name in found}
                counts.keep(known, writings=writings)
            return {name: known[key] for key, name in keys.items() if known[key] is not None}
        return {}

    def inspect(self, request: Inspect) -> Holdings:
        """Return what decides how a question is put to this set, as was true some seconds ago."""
        kinds = self.view_kinds() if request.views is None else filter(self.has_view, sorted(request.views))
        fields = self.field_names() if request.fields else frozenset[str]()
        values = self._values_of(request.values)
        return Holdings(views=tuple(kinds), fields=fields, embedder=self.layout.embedder, values=values)

    def whole(self, ids: Sequence[str]) -> tuple[Document | None, ...]:
        """Return documents by id, without their figures; None for one that is not there."""
        found: list[Document | None] = []
        for each in ids:
            try:
                found.append(self.get(each, pictures=False).document)
            except UnknownDocumentError:
                found.append(None)
        return tuple(found)

    def verify(self, progress: Callable[[int, int], None] | None = None) -> tuple[str, ...]:
        """Check what is stored and return what is wrong, in words; () when all is well.

        Args:
            progress: told now and then how many documents are checked, and of how many.
        """
        return run(contents.verify(self.layout, self._flavour, self._of_all(progress)), self._working)

    def _of_all(self, progress: Callable[[int, int], None] | None) -> Callable[[int], None]:
        """Return what tells the number of all documents, too."""
        if progress is None:
            return lambda done: None
        total = self.stats().documents
        return lambda done: progress(done, max(done, total))

    def _added(self, additions: Sequence[Addition], outcomes: Sequence[Outcome]) -> Step[tuple[str, ...]]:
        ids = [entry.document.id for entry, _ in additions]
        there = yield from writing.fingerprints(ids, self.layout)
        if there:
            what = f"it holds document {min(there)!r} already; nothing was written"
            raise DuplicateDocumentError(self.layout.name, what, "replace, or another id")
        return (yield from self._replaced(additions, outcomes))

    def _replaced(self, additions: Sequence[Addition], outcomes: Sequence[Outcome]) -> Step[tuple[str, ...]]:
        report = yield from self._put(additions, outcomes)
        report.check()
        return tuple(written.document_id for written in report.written)

    def _put(self, additions: Sequence[Addition], outcomes: Sequence[Outcome]) -> Step[PutReport]:
        options = self.options.bulk
        return (yield from writing.put(additions, self.layout, self._flavour, outcomes=outcomes, options=options))

    def _write(self, step: Step[T]) -> T:
        return run(self._seen(step), self._working)

    def _seen(self, step: Step[T]) -> Step[T]:
        """Do a writing, after which searches see it, and count words and terms anew."""
        try:
            result = yield from step
            yield from refresh(self.layout)
        finally:
            self._how.counts.clear()
        return result

    def _run(self, step: Step[T]) -> T:
        return run(step, self._working)


def calling(transport: Transport, options: ServerOptions) -> Services:
    """Return who answers the steps over `Call` and `Pause`."""
    name, clock = transport.identity, options.clock
    return Services(
        handlers={
            Call: Handler(identity=name, call=transport.perform, acall=getattr(transport, "aperform", None)),
            Pause: Handler(
                identity=name,
                call=lambda pause: clock.sleep(pause.seconds),
                acall=lambda pause: clock.asleep(pause.seconds),
            ),
        },
        max_concurrency=options.in_flight,
        retry=options.retry,
        clock=clock,
    )


def _wanted(name: str, embedder_identity: str | None, dim: int | None, **shape: Any) -> IndexLayout | None:
    """Return the layout of a set that would be made, None where no model is given."""
    check_name(name)
    if (embedder_identity is None) != (dim is None):
        raise ParameterError("dim", dim, "a length >= 1, given exactly when embedder_identity is")
    if embedder_identity is None or dim is None:
        return None
    return IndexLayout(name=name, dim=dim, embedder=embedder_identity, **shape)

"""Open a library whose documents are kept on a search server; it answers as `Library` does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, cast

from catena import Document, Entry, Outcome, Services, run
from catena.effects import LLM, Cancel, Embedder, Event, all_together
from catena.graph import GraphOptions, GraphProgress
from catena.library import (
    SIDE_BY_SIDE,
    UNCHANGED,
    BaseLibrary,
    Input,
    Paths,
    Preparation,
    Progress,
    Source,
    discover,
    grouped,
    inputs_given,
)
from catena.library.base import services_given
from catena.model import DEFAULT, CancelledError, LibraryError, ParameterError, digest
from catena.store import DocumentInfo
from catena.structure import PASSAGE, ChunkOptions
from catena_server.calls import Closing, Transport
from catena_server.contents import ServerStats
from catena_server.graph import ServerGraph
from catena_server.graph_writing import drop_graph, graph_of, upload_graph
from catena_server.index_layout import VectorIndex
from catena_server.store import ServerOptions, ServerStore, calling
from catena_server.writing import PutReport


class ServerLibrary(Closing, BaseLibrary):
    """Documents, chunks, views and vectors in an index set of a server; open it with `ServerLibrary.open`.

    A document's id is its file's path relative to the folder `home`. All questions are those of `Library`, with the
    same answers. What differs: documents are written one by one, so that a refused one does not hold back the others;
    the graph is walked on the server, and built anew when documents have changed (`build_graph`, `verify`); there is
    no folder to write pictures to (`figure` gives their bytes), and no other lexical engine than the server's.
    """

    _opener = "ServerLibrary.open"
    _store: ServerStore

    def __init__(
        self, store: ServerStore, graph: ServerGraph, services: Services, preparation: Preparation, home: Path
    ) -> None:
        self._store, self._graph, self._services = store, graph, services
        self._in_turn = services  # a server answers side by side
        self.preparation, self._folder = preparation, home

    @classmethod
    def open(
        cls,
        server: Any,
        name: str,
        *,
        product: Literal["elasticsearch", "opensearch"] = "elasticsearch",
        connection: Mapping[str, Any] | None = None,
        home: str | Path = ".",
        embedder: Embedder | str | None = None,
        llm: LLM | None = None,
        preparation: Preparation | None = None,
        services: Services | None = None,
        create: bool = True,
        vector_index: VectorIndex = "int8_hnsw",
        several: Sequence[str] | None = None,
        shards: int = 1,
        replicas: int = 0,
        options: ServerOptions | None = None,
    ) -> Self:
        """Open the library of a name on a server, or make an empty one there.

        Args:
            server: address of a node, addresses of several, a client of your own, sync or async, or a transport.
            name: of its index set.
            product: what answers at the addresses; a client and a transport say it themselves.
            connection: further arguments of the transport's `connect`, as `api_key` or `ca_certs`.
            home: the folder to which documents' ids are relative.
            embedder: the dense route's model, or its name, which the set does not remember; the shipped static
                embedding by default.
            preparation: how files become chunks, views and terms.
            llm: the language model, as in `Library.open`.
            services: the other models, the journal, the budget and the pace of requests to models, as in
                `Library.open`; requests to the server are counted and repeated by `options`.
            create: False refuses to make a new library.
            vector_index: how vectors of a set that is made are kept; see `IndexLayout` for this and the next three.
            several: kinds of view of which a chunk may have more than one; None for those of the preparation.
            shards: of chunks.
            replicas: copies of each shard.
            options: how the server is asked and written.

        Raises:
            ModelMismatchError: the set holds vectors of another model.
            LibraryError: something else has this name, or there is nothing and `create` is False.
            MissingExtraError: the server's client is not installed.
            ServerError: the server refused, or cannot be reached.
        """
        services, model = services_given(services, embedder=embedder, llm=llm, preparation=preparation)
        how = preparation or Preparation()
        transport = _transport(server, product, connection)
        try:
            store = ServerStore.open(
                transport,
                name,
                embedder_identity=model.identity,
                dim=model.dim,
                create=create,
                vector_index=vector_index,
                several=several_kinds(how) if several is None else several,
                shards=shards,
                replicas=replicas,
                options=options,
            )
        except BaseException:
            if transport is not server and callable(close := getattr(transport, "close", None)):
                close()
            raise
        graph = ServerGraph(transport, name)
        services = replace(services, store=store, graph=graph)
        return cls(store, graph, services, how, Path(home))

    def close(self) -> None:
        """Close the connections."""
        self._store.close()

    async def aclose(self) -> None:
        """Close the connections, those of this event loop, too."""
        await self._store.aclose()

    @property
    def store(self) -> ServerStore:
        """The index set, for parts that bring their own chunks and vectors."""
        return self._store

    @property
    def graph(self) -> ServerGraph:
        """The chunk-interaction graph of the set, where `upload_graph` has written one."""
        return self._graph

    @property
    def _place(self) -> str:
        return self._store.identity

    @property
    def _home(self) -> Path:
        return self._folder

    # Documents in and out.

    def add(self, *sources: Source, password: str | None = None) -> tuple[str, ...]:
        """Add new documents and return their ids; as in `Library.add`, but that each is written by itself.

        Raises:
            ParseError: a file gave no document; nothing was written.
            DuplicateDocumentError: a document is there already; nothing was written.
            ServerError: the server refused a part of one; the others are written.
        """
        return self._store.add(self._additions(self._entries(sources, password)))

    def replace(self, *sources: Source, password: str | None = None) -> tuple[str, ...]:
        """Put documents in place of their older versions; return the ids of those that changed.

        Raises:
            ParseError: a file gave no document; nothing was written.
            ServerError: the server refused a part of one; the others are written.
        """
        return self._replaced(self._entries(sources, password))

    def _replaced(self, entries: Sequence[Entry]) -> tuple[str, ...]:
        return self._store.replace(self._additions(entries))

    def delete(self, document_id: str) -> None:
        """Remove a document with every chunk, view and vector of it.

        Raises:
            UnknownDocumentError: there is no document of this id.
        """
        self._store.delete(document_id)

    def index(
        self,
        paths: Paths | Sequence[Document],
        *,
        password: str | None = None,
        workers: int | None = None,
        progress: Callable[[Progress], None] | None = None,
        watch: Callable[[Event], None] | None = None,
        cancel: Cancel | None = None,
    ) -> tuple[Outcome, ...]:
        """Index files and whole folders, as `Library.index` does; `bulk_ingestion` does it by several processes.

        What is written is searched when this returns. A document that the server refuses is "failed".

        Args:
            paths: files, or folders that are searched for files of the types Catena reads; or one of them. Or
                documents, of any loader, each put in place of the one with its id: one without an id of its own has
                one by its source, page and text. The ledger is of files alone.
            password: opens encrypted PDFs.
            workers: processes that read files side by side, and the pages of long ones; None is one a core.
            progress: called after each file.
            watch: told of each request to a model, see `Services.progress`, and of each page that is read.
            cancel: another thread may stop the run with it.

        Returns:
            One outcome per file, in the order of the files.

        Raises:
            CancelledError: the run was stopped; what was done is kept.
            BudgetExceededError: the next request would pass the budget; what was done is kept.
            ParameterError: the preparation asks a model that was not given.
            ServerError: nobody may write there, or the server cannot be reached for too long; what was done is kept.
        """
        documents, paths = inputs_given(paths)
        if documents:
            return self._indexed(documents)
        self._files.check_models()
        files = list(discover(paths))
        services = replace(self._services, progress=watch, cancel=cancel)
        outcomes: list[Outcome] = []
        try:
            for group in grouped(files, SIDE_BY_SIDE):
                if cancel is not None and cancel.is_set:
                    raise CancelledError
                for outcome in self._written(group, password, services, workers):
                    outcomes.append(outcome)
                    if progress is not None:
                        progress(Progress(outcome, len(outcomes), len(files)))
        finally:
            if outcomes:
                self._store.refresh()
        return tuple(outcomes)

    def _written(
        self, group: Sequence[tuple[Path, str]], password: str | None, services: Services, workers: int | None
    ) -> Iterator[Outcome]:
        """Read, embed and write some files, and yield how each ended."""
        files = self._files
        inputs = [Input(path=path, source=source, document_id=files.document_id(path)) for path, source in group]
        known = self._store.fingerprints_read([given.document_id for given in inputs])
        inputs = [replace(given, known=known.get(given.document_id, "")) for given in inputs]
        ahead = files.read_ahead(inputs, password, workers=workers, watch=services.progress)
        steps = [files.taken(given, password) for given in ahead]
        outcomes, additions = [], []
        for outcome, addition in run(all_together(steps), services):
            outcomes.append(outcome)
            if addition is not None:
                additions.append(addition)
        told = [outcome for outcome in outcomes if outcome.reason != UNCHANGED]  # else the ledger keeps its line
        report = self._store.put(additions, outcomes=told, visible=False)
        ended = [_ended(outcome, report) for outcome in outcomes]
        refused = [outcome for outcome in ended if outcome not in outcomes]
        if refused:
            self._store.record(refused, visible=False)
        yield from ended

    # The graph.

    @property
    def has_graph(self) -> bool:
        """Return whether the set has a chunk-interaction graph that can be walked."""
        try:
            self._graph.about()
        except LibraryError:
            return False
        return True

    def build_graph(
        self,
        options: GraphOptions | None = None,
        *,
        progress: Callable[[GraphProgress], None] | None = None,
        cancel: Cancel | None = None,
    ) -> ServerGraph:
        """Join all chunks of the library by what they share, and write that graph to the server.

        It is built in the memory of this process, from the chunks, views and vectors that the server holds. It does
        not follow the documents: `verify` says when they have changed since, and building it again takes its place.

        Args:
            options: which edges, see `GraphOptions`; another graph that is there is replaced.
            progress: told how far the building is.
            cancel: another thread may stop it with this.

        Raises:
            CancelledError: it was stopped; the graph that was there stays.
            ServerError: the server failed, or refused a node; the graph that was there stays.
        """
        store, layout = self._store, self._store.layout
        made_of = _content(store.documents())
        graph = graph_of(store.export(), options, progress=progress, cancel=cancel)
        upload_graph(
            store.transport,
            layout.name,
            graph,
            made_of=made_of,
            shards=layout.shards,
            replicas=layout.replicas,
            options=store.options,
        )
        return self._graph

    def drop_graph(self) -> None:
        """Remove the graph, where there is one; nothing else of the library changes."""
        run(drop_graph(self._store.layout.name), calling(self._store.transport, self._store.options))

    # What is there.

    def stats(self) -> ServerStats:
        """Return the size of the library."""
        return self._store.stats()

    def verify(self, progress: Callable[[int, int], None] | None = None) -> tuple[str, ...]:
        """Check what is stored and return what is wrong, in words; empty when all is well.

        Args:
            progress: told now and then how many documents are checked, and of how many.
        """
        return (*self._store.verify(progress), *self._graph_problems())

    def _graph_problems(self) -> Iterator[str]:
        try:
            made_of = self._graph.about().made_of
        except LibraryError:
            return
        if made_of and made_of != _content(self._store.documents()):
            yield "the graph was built before documents came, went or changed: build_graph builds it anew"


def several_kinds(preparation: Preparation) -> tuple[str, ...]:
    """Return the kinds of view of which a chunk may have more than one: passages, and what makers of views make."""
    passages = () if isinstance(preparation.chunks, ChunkOptions) else (DEFAULT, PASSAGE)
    return (*passages, *(maker.kind for maker in preparation.views))


def _transport(server: Any, product: str, connection: Mapping[str, Any] | None) -> Transport:
    """Return the transport that was given, or one to addresses or over a client."""
    if not isinstance(server, str) and hasattr(server, "perform") and hasattr(server, "flavour"):
        if connection:
            raise ParameterError("connection", "given", "None beside a transport, which is connected already")
        return cast(Transport, server)
    if product == "opensearch" or type(server).__module__.startswith("opensearchpy"):
        from catena_server.opensearch import OpenSearchTransport

        return OpenSearchTransport.over(server, **(connection or {}))
    if product != "elasticsearch":
        raise ParameterError("product", product, "'elasticsearch' or 'opensearch'")
    from catena_server.elasticsearch import ElasticsearchTransport

    return ElasticsearchTransport.over(server, **(connection or {}))


def _ended(outcome: Outcome, report: PutReport) -> Outcome:
    """Return how a file ended, after what the server refused of it."""
    if outcome.document_id not in report.unfinished:
        return outcome
    why = report.failures[0]
    reason = f"the server refused a part of it ({why.kind}: {why.reason})"
    return Outcome(source=outcome.source, document_id=outcome.document_id, state="failed", reason=reason)


def _content(documents: Iterable[DocumentInfo]) -> str:
    """Return a name for what a set holds: equal for equal documents that were cut in the same way."""
    return digest(*(part for each in documents for part in (each.id, each.fingerprint, str(each.chunks))), length=32)

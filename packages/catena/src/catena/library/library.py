"""The embedded library as users meet it: files in, ranked and cited passages out, one path on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge

from catena.backends.embedders import embedder_named
from catena.effects import Cancel, Event, Failed, Services, run, together
from catena.library.ask import SearchOptions, SegmentSearchOptions
from catena.library.base import BaseLibrary, Paths, inputs_given, services_given
from catena.library.discovery import discover
from catena.library.file_ingestion import SIDE_BY_SIDE, Batch, Input, Progress, Source, grouped
from catena.library.graph import LibraryGraph
from catena.library.pipeline import Preparation
from catena.model import CancelledError, CatenaError, Chunk, Document, Entry, Hit, Outcome, ParameterError
from catena.model.errors import LibraryError
from catena.model.options import check_given
from catena.store.store import LibraryStats, LibraryStore

if TYPE_CHECKING:
    from catena.effects.ports import LLM, Embedder
    from catena.graph.chunk_graph import ChunkGraph, GraphProgress
    from catena.graph.options import GraphOptions, TermEdges
    from catena.model.vectors import ViewVectors

    Addition: TypeAlias = tuple[Entry, ViewVectors]


__all__ = ["Library", "SearchOptions", "SegmentSearchOptions"]


class Library(BaseLibrary):
    """Documents, chunks, views, vectors and indexes at one path; open it with `Library.open`.

    A document's id is its path relative to the folder that holds the library, so that a project can be moved
    as a whole, and a new version of a file replaces the old one.
    """

    _opener = "Library.open"
    _store: LibraryStore

    def __init__(
        self,
        store: LibraryStore,
        services: Services,
        preparation: Preparation | None = None,
        graph_kinds: Iterable[TermEdges] = (),
    ) -> None:
        self._store = store
        self._graph_kinds = tuple(graph_kinds)
        self._graph = LibraryGraph(store, self._graph_kinds)
        self.preparation = preparation or Preparation()
        self._services = replace(services, store=store, graph=self._graph)
        # Threads of one interpreter that search one store in it only wait for each other: 8 ms became 12.
        self._in_turn = replace(self._services, max_concurrency=1)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        embedder: Embedder | str | None = None,
        llm: LLM | None = None,
        preparation: Preparation | None = None,
        services: Services | None = None,
        lexical: Literal["tantivy", "rank-bm25"] = "tantivy",
        graph_kinds: Iterable[TermEdges] = (),
        create: bool = True,
    ) -> Library:
        """Open the library at a path, or make an empty one there.

        Args:
            path: a folder of its own.
            embedder: the dense route's model, or its name ("minilm", "openai:MODEL@URL"; see
                `catena.backends.embedder_named`), which the library remembers: by default it is opened with the one
                it remembers, or with the shipped static embedding.
            llm: the language model, for all steps that ask one: it writes Markdown, titles, summaries, queries and
                answers, divides documents, and finds critical entities, as `preparation` and the questions say.
            preparation: how files become chunks, views and terms.
            services: the other models (reranker, captioner, recognizer), the journal of their replies, the budget,
                and the pace of requests, as `Services(reranker=..., journal=...)`.
            lexical: the lexical engine; "rank-bm25" (an extra) is the reference.
            graph_kinds: kinds of edge of your own with which the graph of this library was built.
            create: False refuses to make a new library.

        Raises:
            ModelMismatchError: the library holds vectors of another model.
            MissingExtraError: the package of a named embedder is not installed.
            LibraryError: the path holds something else, or there is nothing and `create` is False.
            ParameterError: the embedder, the path or the preparation is none, or a model is given twice.
        """
        if not isinstance(path, str | os.PathLike):
            raise ParameterError("path", path, "a folder, as a string or a path")
        name = ""
        if embedder is None and getattr(services, "embedder", None) is None:
            embedder = LibraryStore.embedder_name(path) or None
        if isinstance(embedder, str):
            embedder, name = embedder_named(embedder)
        services, model = services_given(services, embedder=embedder, llm=llm, preparation=preparation)
        store = LibraryStore.open(
            path, embedder_identity=model.identity, dim=model.dim, lexical=lexical, create=create
        )
        if name:
            store.remember_embedder(name)
        return cls(store, services, preparation, graph_kinds)

    def __enter__(self) -> Library:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            count = self._store.document_count()
            told = f"{count:,} document{'' if count == 1 else 's'}"
        except CatenaError:  # a debugger that shows it should not stop at this
            told = "closed, or not readable"
        # the folder's name alone: frameworks write what they cannot serialise into traces, as it shows itself
        return f"<Library {self._store.path.name!r}: {told}>"

    def __reduce__(self) -> tuple[Callable[..., Library], tuple[str, Mapping[str, Any]]]:
        """Pickle as the path and the models: another process opens files and locks of its own."""
        services = self._services
        allowed = "None in a library that other processes open: they would not count together"
        if services.budget is not None:
            raise ParameterError("budget", "a cap", allowed)
        if services.limiter.per_minute:
            raise ParameterError("limiter", "requests per minute", allowed)
        theirs = replace(services, store=None, graph=None, progress=None, cancel=None)
        how = {"lexical": self._store.lexical, "preparation": self.preparation, "graph_kinds": self._graph_kinds}
        return _reopened, (str(self._store.path.resolve()), {**how, "services": theirs})

    def close(self) -> None:
        """Release files and locks; what was added is on disk already."""
        self._graph.close()
        self._store.close()

    @property
    def store(self) -> LibraryStore:
        """The storage engine, for parts that bring their own chunks and vectors."""
        return self._store

    @property
    def _place(self) -> str:
        return str(self._store.path)

    @property
    def _home(self) -> Path:
        return self._store.path.parent

    @property
    def _left_out(self) -> Path:
        return self._store.path

    @property
    def _asks_models(self) -> bool:
        captioned = self.preparation.figures and self._services.captioner is not None
        return captioned or bool(self.preparation.may_ask)

    def add(self, *sources: Source, password: str | None = None) -> tuple[str, ...]:
        """Add new documents, all of them or none, and return their ids.

        Args:
            sources: files, or documents already parsed.
            password: opens encrypted PDFs.

        Raises:
            ParseError: a file gave no document.
            DuplicateDocumentError: a document is there already.
            LibraryBusyError: another process is writing.
        """
        entries = self._entries(sources, password)
        self._store.add(self._additions(entries))
        return tuple(entry.document.id for entry in entries)

    def replace(self, *sources: Source, password: str | None = None) -> tuple[str, ...]:
        """Put documents in place of their older versions, all or none; return the ids of those that changed.

        What is not there yet is added; the same bytes cut in the same way are left alone. The old version is
        found until the new one is complete.

        Raises:
            ParseError: a file gave no document; the older version stays.
            LibraryBusyError: another process is writing.
        """
        return self._replaced(self._entries(sources, password))

    def _replaced(self, entries: Sequence[Entry]) -> tuple[str, ...]:
        # one without a fingerprint lacks what a model failed at: it is never as the store has it
        held = self._store.fingerprint
        changed = [e for e in entries if not e.fingerprint or e.fingerprint != held(e.document.id)]
        return self._store.replace(self._additions(changed))

    def delete(self, document_id: str) -> None:
        """Remove a document with every chunk, view, vector and posting of it.

        Raises:
            UnknownDocumentError: there is no document of this id.
        """
        self._store.delete(document_id)

    def index(
        self,
        paths: Paths | Sequence[Document],
        *,
        password: str | None = None,
        workers: Annotated[int, Ge(1)] | None = None,
        progress: Callable[[Progress], None] | None = None,
        watch: Callable[[Event], None] | None = None,
        cancel: Cancel | None = None,
    ) -> tuple[Outcome, ...]:
        """Index files and whole folders; what changed is replaced, what did not is skipped.

        A file that fails loses nothing of the others, and an older version of it stays. A file that was moved, alone
        or because the library was, stands under its new name alone: where the old name leads nowhere, the same bytes
        are the same document, and `Outcome.moved_from` says which. Every file ends in the ledger.
        Killed or stopped at any point, the next call goes on where this one ended; with a journal it pays for nothing
        twice. What a model failed at is said in the outcome's reason, and asked for again by the next call. Where
        models are asked, several files go side by side.

        Args:
            paths: files, or folders that are searched for files of the types Catena reads; or one of them. Or
                documents, of any loader, each put in place of the one with its id: one without an id of its own has
                one by its source, page and text. The ledger is of files alone.
            password: opens encrypted PDFs.
            workers: processes that read files side by side, and the pages of long ones; None is one a core. What is
                indexed does not depend on it.
            progress: called after each file.
            watch: told of each request to a model, see `Services.progress`, and of each page that is read.
            cancel: another thread may stop the run with it.

        Returns:
            One outcome per file, in the order of the files.

        Raises:
            CancelledError: the run was stopped; what was done is kept.
            BudgetExceededError: the next request would pass the budget; what was done is kept.
            ParameterError: the preparation asks a model that was not given.
            MissingServiceError: a detector of your own does.
            MissingExtraError: the preparation needs a package that is not installed.
            JournalError: a reply could not be kept.
            LibraryError: the library cannot be written.
        """
        check_given({"workers": workers}, Library.index)
        documents, paths = inputs_given(paths)
        if documents:
            return self._indexed(documents)
        self._files.check_models()
        files = [(*found, self._files.document_id(found[0])) for found in discover(paths, leave_out=self._store.path)]
        inputs = [
            Input(path=path, source=source, document_id=name, known="" if self._store.has_failed(name) else None)
            for path, source, name in files
        ]
        ingestion = self._moving
        services = replace(self._services, progress=watch, cancel=cancel)
        outcomes: list[Outcome] = []
        batch = Batch(self._store)
        ahead = ingestion.read_ahead(inputs, password, workers=workers, watch=watch)
        try:
            for group in grouped(ahead, SIDE_BY_SIDE if self._asks_models else 1):
                if cancel is not None and cancel.is_set:
                    raise CancelledError
                for result in run(together([ingestion.taken(given, password) for given in group]), services):
                    if isinstance(result, Failed):
                        raise result.error
                    outcomes.append(result[0])
                    batch.take(*result)
                    if progress is not None:
                        progress(Progress(result[0], len(outcomes), len(files)))
        finally:
            batch.write()
        return tuple(outcomes)

    @property
    def has_graph(self) -> bool:
        """True where this library has a chunk-interaction graph; nothing of it is read."""
        return self._graph.exists

    @property
    def graph(self) -> ChunkGraph:
        """The chunk-interaction graph of what the library holds now.

        It is read when it is first needed, and follows every change of the documents. Steps that ask a graph need not
        be given it: `services` answers them.

        Raises:
            LibraryError: there is none yet: `build_graph` makes it.
        """
        return self._graph.current()

    def build_graph(
        self,
        options: GraphOptions | None = None,
        *,
        progress: Callable[[GraphProgress], None] | None = None,
        cancel: Cancel | None = None,
    ) -> ChunkGraph:
        """Join all chunks of the library by what they share, and keep that graph with it from now on.

        Documents that come, go or change later reach the graph at its next use. A chunk's keywords are those that
        `Preparation(views=[GraphKeywords(by="llm")])` had made, where it has such, else they are found offline.

        Args:
            options: which edges, see `GraphOptions`; another graph that is there is replaced.
            progress: told how far the building is.
            cancel: another thread may stop it with this.

        Raises:
            CancelledError: it was stopped; the graph that was there stays.
            LibraryError: the library cannot be written.
        """
        return self._graph.build(options, progress=progress, cancel=cancel)

    def drop_graph(self) -> None:
        """Remove the graph, where there is one; nothing else of the library changes."""
        self._graph.drop()

    def figure_file(self, found: Hit | Chunk) -> Path:
        """Write the picture of a figure into the library's folder `figures`, where it is not yet; return its path.

        The file is derived: it goes with its document, and is written anew when asked for again.

        Raises:
            LibraryError: there is no figure, or the file cannot be written.
        """
        return self._store.figure_file(*self._figure_of(found))

    def figure_path(self, found: Hit | Chunk) -> Path | None:
        with suppress(LibraryError):
            return self.figure_file(found)
        return None

    def stats(self) -> LibraryStats:
        """Return the size of the library."""
        return self._store.stats()

    def verify(self, progress: Callable[[int, int], None] | None = None) -> tuple[str, ...]:
        """Check every invariant of what is stored and return what is wrong, in words; empty when all is well.

        Args:
            progress: told after each document how many are checked, and of how many.
        """
        return (*self._store.verify(progress), *self._graph.problems())


def _reopened(path: str, options: Mapping[str, Any]) -> Library:
    return Library.open(path, **options, create=False)

"""Ask and read an open library, in a folder or on a server: searches, answers, entries, sections, figures, a plan."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar, Unpack, cast

from catena.answering.answers import AnswerOptions, SegmentAnswer
from catena.backends.embedders import embedder_named
from catena.effects import (
    Graph,
    Inspect,
    Plan,
    Services,
    Step,
    Store,
    Tariff,
    arun,
    as_core,
    ask,
    one_state,
    plan,
    run,
)
from catena.enrichment.entities import Detector
from catena.graph.search import GraphResult, GraphSearch
from catena.library.ask import (
    Cited,
    SearchOptions,
    SegmentSearchOptions,
    answer_step,
    boxes_step,
    cells_step,
    figures_step,
    graph_step,
    read_step,
    search_step,
    segments_step,
    usual_formula,
    views_step,
    widen_step,
)
from catena.library.discovery import discover, is_below, is_gone
from catena.library.file_ingestion import STOPPING, UNCHANGED, FileIngestion, HeldDocuments
from catena.library.ingestion import PLANNED_ANSWERS
from catena.library.pipeline import Preparation, embed
from catena.model import Chunk, Document, Entry, Figure, Hit, Outcome, PageBox, Ranking, Segment, Where
from catena.model.errors import CatenaError, DamagedLibraryError, LibraryError, ParameterError, UnknownDocumentError
from catena.model.figures import FIGURE
from catena.model.filters import MOST_VALUES
from catena.model.options import checked_names
from catena.retrieval import FoundCell, Fusion, ReadingOptions, Route, ScoreFusion, Tuned, ViewSearch
from catena.segments import Extraction, SegmentSearch
from catena.structure.passages import PASSAGE, section_segment
from catena.text import path_text

if TYPE_CHECKING:
    from catena.effects import Cancel, Event
    from catena.effects.ports import LLM, Embedder
    from catena.library.file_ingestion import Progress, Source
    from catena.model.vectors import ViewVectors
    from catena.retrieval.fusion import ScoreFusion
    from catena.store.contents import DocumentInfo


Paths: TypeAlias = str | Path | Iterable[str | Path]
"""Files, or folders that are searched for files; or one of them."""

T = TypeVar("T")

_MODELS = {"llm": "a_language_model", "reranker": "a_reranker"}
_MISSING = "that folder again, where its share can be mounted; Library.delete where its documents are to go"
_OF_EMBEDDER = ("identity", "dim", "embed_documents", "embed_query")


class LibraryContents(HeldDocuments, Store, Protocol):
    """A library's store: all that the library asks of it besides the requests of steps."""

    def get(self, document_id: str, *, pictures: bool = True) -> Entry:
        """Return a document, its figures only where `pictures` is true."""

    def figure(self, document_id: str, name: str) -> Figure:
        """Return a figure by its file name."""

    def has_view(self, kind: str) -> bool:
        """Return whether any chunk has a view of this kind."""

    def documents(self) -> tuple[DocumentInfo, ...]:
        """Return what is known of each document, by id."""

    def ledger(self) -> tuple[Outcome, ...]:
        """Return how each input ended."""


class BaseLibrary(ABC):
    """A library that is open, in a folder or on a server: all that it is asked, and all that is read of it."""

    _opener: ClassVar[str]  # in messages: what models are given to
    _store: LibraryContents
    _services: Services
    _in_turn: Services  # what answers a question of one thread
    preparation: Preparation

    @property
    @abstractmethod
    def store(self) -> LibraryContents:
        """The storage engine, for parts that bring their own chunks and vectors."""

    @property
    @abstractmethod
    def has_graph(self) -> bool:
        """True where there is a chunk-interaction graph."""

    @property
    @abstractmethod
    def graph(self) -> Graph:
        """The chunk-interaction graph."""

    @property
    @abstractmethod
    def _place(self) -> str:
        """Folder or address of the library, for messages."""

    @property
    @abstractmethod
    def _home(self) -> Path:
        """The folder to which the documents' ids are relative."""

    @property
    def _left_out(self) -> Path | None:
        """The folder below which no file is a document."""
        return None

    @property
    def _files(self) -> FileIngestion:
        return FileIngestion(self._store, self._services, self.preparation, self._home)

    @property
    def _moving(self) -> FileIngestion:
        """Take files as `_files` does, and know which documents may stand elsewhere now."""
        gone: dict[str, tuple[str, ...]] = {}
        for document_id, fingerprint in self._gone():
            gone[fingerprint] = (*gone.get(fingerprint, ()), document_id)
        return replace(self._files, gone=gone)

    @property
    def services(self) -> Services:
        """The services that answer the steps of this library: its store and its models."""
        return self._services

    def _asked(self, step: Step[T]) -> T:
        return run(step, self._in_turn)

    async def _awaited(self, step: Step[T]) -> T:
        return await arun(step, self._services)

    def formula(self, routes: Sequence[str] | Mapping[str, Route] | None = None) -> ScoreFusion:
        """Return the formula by which this library ranks where none is given.

        Args:
            routes: that are asked; None for all that `search` asks by itself.
        """
        return usual_formula(routes, has_passages=self._store.has_view(PASSAGE))

    @checked_names(SearchOptions.__annotations__)
    def search(self, query: str, *, detect: bool = False, **options: Unpack[SearchOptions]) -> Ranking:
        """Return the k best chunks for a question, best first, each with every route that found it.

        Args:
            query: what the user asks, as typed.
            detect: let the detectors of `Preparation(detectors=...)` find names in the question, too, besides
                `entities`: one that stands nowhere is then said even where it does not look like a code.
            options: see `SearchOptions`.

        Raises:
            ParameterError: an option is out of range, or there are no detectors.
            FilterError: `where` is malformed, or asks for a field that nothing there has.
        """
        return self._asked(search_step(query, options, detectors=self._detectors(detect)))

    @checked_names(SearchOptions.__annotations__)
    async def asearch(self, query: str, *, detect: bool = False, **options: Unpack[SearchOptions]) -> Ranking:
        """As `search`, without blocking the event loop."""
        return await self._awaited(search_step(query, options, detectors=self._detectors(detect)))

    def _detectors(self, detect: bool) -> Sequence[Detector]:
        if not detect:
            return ()
        if not self.preparation.detectors:
            raise ParameterError("detect", detect, "False in a library without Preparation(detectors=...)")
        self._files.check_models()
        return self.preparation.detectors

    @checked_names()
    def search_views(
        self, query: str, how: ViewSearch | None = None, *, k: float | None = None, where: Where | None = None
    ) -> Ranking:
        """Return chunks found under several views, each with the views that found it and its rank in them.

        For a library whose preparation makes views: `Preparation(chunks=SectionChunkOptions(), views=[Keywords(),
        Summaries()])`.

        Args:
            query: as typed.
            how: which views, and by which rule they become one; the article's by default.
            k: how many, 3 by default; the article's rule takes 1.5 too, and returns as many as its views differ.
            where: a filter that every view obeys.

        Raises:
            ParameterError: an option is out of range, or the library holds no views of a kind that is asked for.
            ViewError: all views failed.
        """
        return self._asked(views_step(query, how, k=k, where=where, preparation=self.preparation))

    @checked_names()
    async def asearch_views(
        self, query: str, how: ViewSearch | None = None, *, k: float | None = None, where: Where | None = None
    ) -> Ranking:
        """As `search_views`, without blocking the event loop."""
        return await self._awaited(views_step(query, how, k=k, where=where, preparation=self.preparation))

    @checked_names()
    def search_graph(
        self, query: str, how: GraphSearch | None = None, *, k: int | None = None, where: Where | None = None
    ) -> GraphResult:
        """Return the chunks that answer a question together, and the chains by which the graph led to them.

        For questions whose answer stands in several places, each of which says where the next one is: a first
        ranking, then a walk over the graph from there. `build_graph` makes the graph.

        Args:
            query: as typed.
            how: first ranking, walk and scorer; see `catena.graph.search`.
            k: length of the ranking, >= 0; 10 by default.
            where: a filter that every route obeys, and the graph.

        Raises:
            LibraryError: the library has no graph.
            ParameterError: an option is out of range, a model is asked for that was not given, or the scorer was
                trained with another embedder.
            CatenaError: the walk failed, and `how.on_graph_error` is "raise".
        """
        self._check_walk(how)
        return self._asked(graph_step(query, how, k=k, where=where))

    @checked_names()
    async def asearch_graph(
        self, query: str, how: GraphSearch | None = None, *, k: int | None = None, where: Where | None = None
    ) -> GraphResult:
        """As `search_graph`, without blocking the event loop."""
        self._check_walk(how)
        return await self._awaited(graph_step(query, how, k=k, where=where))

    @checked_names()
    def widen(
        self, query: str, ranking: Ranking, how: GraphSearch | None = None, *, k: int | None = None,
        where: Where | None = None,
    ) -> GraphResult:  # fmt: skip
        """Return a ranking of any retriever over this library's chunks, widened by a walk over its graph from there.

        Args:
            query: as typed.
            ranking: of chunks of this library, in any scale.
            how: walk and scorer; its first ranking is the one that is given.
            k: length of the ranking, >= 0; 10 by default.
            where: a filter that the graph obeys; the given ranking is believed to obey it.

        Raises:
            LibraryError: the library has no graph.
            ParameterError: an option is out of range, a model is asked for that was not given, or the scorer was
                trained with another embedder.
            CatenaError: the walk failed, and `how.on_graph_error` is "raise".
        """
        self._check_walk(how)
        return self._asked(widen_step(query, ranking, how, k=k, where=where))

    @checked_names()
    async def awiden(
        self, query: str, ranking: Ranking, how: GraphSearch | None = None, *, k: int | None = None,
        where: Where | None = None,
    ) -> GraphResult:  # fmt: skip
        """As `widen`, without blocking the event loop."""
        self._check_walk(how)
        return await self._awaited(widen_step(query, ranking, how, k=k, where=where))

    def _check_walk(self, how: GraphSearch | None) -> None:
        asks = isinstance(how, GraphSearch) and how.keywords_by == "llm" and how.walk.needs_keywords
        self._check_given({"llm": asks})

    @checked_names(SearchOptions.__annotations__)
    def read(
        self, query: str, *, budget_tokens: int | None = None, reading: ReadingOptions | None = None,
        views: ViewSearch | None = None, **options: Unpack[SearchOptions],
    ) -> Ranking:  # fmt: skip
        """Return the best text for a budget of tokens: what says most about a question in the best chunks.

        Few tokens give sentences, more of them passages, and many whole chunks. They are exact slices, with their
        pages and lines, and obey `where` with these. A larger budget reads the same and more.

        Args:
            query: as typed.
            budget_tokens: of all passages together; 1,000 by default.
            reading: how sentences are ranked, and how many chunks are looked into.
            views: find the chunks under several views, as `search_views` does.
            options: as for `search`; `k` is how many chunks are looked into, 30, or more for a budget above 3,000.
                With `views`, `k` and `where` alone.
        """
        step = read_step(
            query, options, budget_tokens=budget_tokens, reading=reading, views=views, preparation=self.preparation
        )
        return self._asked(step)

    @checked_names(SearchOptions.__annotations__)
    async def aread(
        self, query: str, *, budget_tokens: int | None = None, reading: ReadingOptions | None = None,
        views: ViewSearch | None = None, **options: Unpack[SearchOptions],
    ) -> Ranking:  # fmt: skip
        """As `read`, without blocking the event loop."""
        step = read_step(
            query, options, budget_tokens=budget_tokens, reading=reading, views=views, preparation=self.preparation
        )
        return await self._awaited(step)

    passages, apassages = read, aread

    @checked_names(SearchOptions.__annotations__)
    def cells(self, query: str, **options: Unpack[SearchOptions]) -> tuple[FoundCell, ...]:
        """Return the cells of tables that answer a question, best first, each with its row, its column and its place.

        Args:
            query: as typed: "What was net income in 2014?".
            options: as for `search`; `k` is how many cells, 10 by default.
        """
        return self._asked(cells_step(query, options))

    @checked_names(SearchOptions.__annotations__)
    async def acells(self, query: str, **options: Unpack[SearchOptions]) -> tuple[FoundCell, ...]:
        """As `cells`, without blocking the event loop."""
        return await self._awaited(cells_step(query, options))

    @checked_names(SegmentSearchOptions.__annotations__)
    def segments(
        self, question: str, how: SegmentSearch | None = None, **options: Unpack[SegmentSearchOptions]
    ) -> Extraction:
        """Return the segments that answer a question: runs of adjacent chunks, each an exact slice of its document.

        Args:
            question: as typed.
            how: queries, reranker, calibration, and what a segment is worth; see `catena.segments.search`.
            options: as for `search`.

        Raises:
            ParameterError: an option is out of range, or a model is asked for that was not given.
        """
        self._check_models(how)
        return run(segments_step(question, how, options), self._services)

    @checked_names(SegmentSearchOptions.__annotations__)
    async def asegments(
        self, question: str, how: SegmentSearch | None = None, **options: Unpack[SegmentSearchOptions]
    ) -> Extraction:
        """As `segments`, without blocking the event loop."""
        self._check_models(how)
        return await self._awaited(segments_step(question, how, options))

    def _check_models(self, how: SegmentSearch | None, *, answers: bool = False) -> None:
        asked = how if isinstance(how, SegmentSearch) else SegmentSearch()
        self._check_given({"reranker": asked.rerank, "llm": answers or asked.queries_by == "llm"})

    @checked_names(SegmentSearchOptions.__annotations__)
    def answer(
        self,
        question: str,
        how: SegmentSearch | None = None,
        answering: AnswerOptions | None = None,
        **options: Unpack[SegmentSearchOptions],
    ) -> SegmentAnswer:
        """Write an answer from the segments for a question, each of its quotes looked up in its source.

        Args:
            question: as typed.
            how: the segments, as for `segments`.
            answering: what the model is given.
            options: as for `search`.

        Raises:
            ParameterError: an option is out of range, or the library has no language model.
            ServiceError: the model failed.
        """
        self._check_models(how, answers=True)
        return run(answer_step(question, how, answering, options), self._services)

    @checked_names(SegmentSearchOptions.__annotations__)
    async def aanswer(
        self,
        question: str,
        how: SegmentSearch | None = None,
        answering: AnswerOptions | None = None,
        **options: Unpack[SegmentSearchOptions],
    ) -> SegmentAnswer:
        """As `answer`, without blocking the event loop."""
        self._check_models(how, answers=True)
        return await self._awaited(answer_step(question, how, answering, options))

    @checked_names()
    def search_figures(
        self, query: str, *, k: int | None = None, where: Where | None = None, fusion: Fusion | Tuned | None = None
    ) -> Ranking:
        """Return the k best figures for a question, by their titles, the text around them and their captions."""
        return self._asked(figures_step(query, k=k, where=where, fusion=fusion))

    @checked_names()
    async def asearch_figures(
        self, query: str, *, k: int | None = None, where: Where | None = None, fusion: Fusion | Tuned | None = None
    ) -> Ranking:
        """As `search_figures`, without blocking the event loop."""
        return await self._awaited(figures_step(query, k=k, where=where, fusion=fusion))

    def plan(
        self, paths: str | Path | Iterable[str | Path], *, password: str | None = None, tariff: Tariff | None = None
    ) -> tuple[Plan, tuple[Outcome, ...]]:
        """Say what indexing these files would ask of language models, recognisers and captioners; nothing is asked.

        Vectors are not counted. What the journal holds, and files that are in the library unchanged, cost nothing.

        Args:
            paths: as for `index`.
            password: opens encrypted PDFs.
            tariff: prices; those of the budget by default.

        Returns:
            The plan, and how each file would end if every answer were good.

        Raises:
            ParameterError: the preparation asks a model that was not given.
        """
        self._files.check_models()
        files = list(discover(paths, leave_out=self._left_out))
        outcomes: list[Outcome] = []
        ingestion = self._moving

        def all_files() -> Step[None]:
            for path, source in files:
                outcome, _ = yield from ingestion.ingested(path, source, password, embedded=False)
                outcomes.append(outcome)

        return plan(all_files(), self._services, tariff=tariff, stand_ins=PLANNED_ANSWERS), tuple(outcomes)

    @abstractmethod
    def _replaced(self, entries: Sequence[Entry]) -> tuple[str, ...]:
        """Write entries in place of their older versions; return the ids of those that changed."""

    def _entries(self, sources: Sequence[Source], password: str | None) -> list[Entry]:
        self._files.check_models()
        return [run(self._files.entry(source, password), self._services) for source in sources]

    def _additions(self, entries: Sequence[Entry]) -> list[tuple[Entry, ViewVectors]]:
        known = self._store.known_vectors
        return [(entry, run(embed(entry, known=known(entry.document.id)), self._services)) for entry in entries]

    def _indexed(self, documents: Iterable[Document]) -> tuple[Outcome, ...]:
        """Put documents in place of their older versions, each by itself, and say how each ended.

        They are in no ledger: it is of files, and `vanished` would miss them.
        """
        self._files.check_models()
        outcomes: list[Outcome] = []
        ids: set[str] = set()
        for document in documents:
            failed = Outcome(source=document.source or document.id, document_id=document.id, state="failed")
            if document.id in ids:
                why = "another document of this call has the same id. Try: giving each an id of its own"
                outcomes.append(replace(failed, reason=why))
                continue
            ids.add(document.id)
            try:
                outcome, entry = run(self._files.prepared(document), self._services)
                if entry is not None and not self._replaced([entry]):
                    outcome = replace(failed, state="skipped", reason=UNCHANGED)
            except STOPPING:
                raise
            except CatenaError as error:
                outcome = replace(failed, reason=str(error).removeprefix(f"{document.id}: "))
            outcomes.append(outcome)
        return tuple(outcomes)

    def figure(self, found: Hit | Chunk) -> Figure:
        """Return the figure that a hit or a chunk shows: its picture, page, title and caption.

        Raises:
            LibraryError: it shows none, or the library does not hold it any more.
        """
        return self._store.figure(*self._figure_of(found))

    def boxes(self, found: Cited, quote: str = "") -> tuple[PageBox, ...]:
        """Return where something found, or a quote from it, is printed: page, and one box for each line.

        A figure is one box. Nothing comes of text without pages, and of files indexed before places were kept.

        Raises:
            ParameterError: it has no such words; the message names it, and what stands there.
        """
        return self._asked(boxes_step(found, quote))

    async def aboxes(self, found: Cited, quote: str = "") -> tuple[PageBox, ...]:
        """As `boxes`, without blocking the event loop."""
        return await self._awaited(boxes_step(found, quote))

    def figures(self, ranking: Ranking) -> tuple[tuple[Figure, Hit], ...]:
        """Return the figures of a ranking with their hits, best first; what was deleted since is left out."""
        found: list[tuple[Figure, Hit]] = []
        for hit in ranking.hits:
            try:
                found.append((self.figure(hit), hit))
            except DamagedLibraryError:
                raise
            except LibraryError:
                continue
        return tuple(found)

    def figure_path(self, found: Hit | Chunk) -> Path | None:
        """Return the file of a figure's picture; None where none can be written: on a server, in a folder to read."""
        return None

    def _figure_of(self, found: Hit | Chunk) -> tuple[str, str]:
        chunk = _chunk_of(found)
        name = chunk.metadata.get(FIGURE)
        if not isinstance(name, str):
            what = f"chunk {chunk.id!r} of {chunk.document_id!r} shows no figure"
            raise LibraryError(self._place, what, "search_figures, or a hit whose kind is 'figure'")
        return chunk.document_id, name

    @abstractmethod
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
        """Index files, whole folders, or documents of any loader; return how each ended."""

    @abstractmethod
    def stats(self) -> Any:
        """Return the size of the library; `documents`, `chunks` and `embedder` are of it."""

    def documents(self) -> tuple[DocumentInfo, ...]:
        """Return what is known of each document, by id."""
        return self._store.documents()

    def values(self, field: str) -> tuple[Any, ...]:
        """Return the values of a field by which chunks can be filtered, such as "company", sorted as text.

        Raises:
            ParameterError: nothing has such a field, or it has more than `catena.model.MOST_VALUES` values.
        """
        (held,) = self._asked(ask([Inspect(fields=True, values=(field,))]))
        if held.values.get(field):
            found: tuple[Any, ...] = held.values[field]
            return found
        allowed = f"one of {', '.join(sorted(held.fields))}, with at most {MOST_VALUES:,} values"
        raise ParameterError("field", field, allowed)

    def get(self, document_id: str) -> Entry:
        """Return a document with its sections, chunks and views.

        Raises:
            UnknownDocumentError: there is no document of this id.
        """
        return self._store.get(document_id)

    def section(self, found: Hit | Chunk, *, descendants: bool = False) -> Segment:
        """Return the whole section that a hit or a chunk was cut from, as it stands now.

        Where the document has changed since, it is the section with the same headings; without one, or where the
        document is gone, the chunk itself.

        Args:
            found: of this library.
            descendants: whether the sections below it come along.
        """
        chunk = _chunk_of(found)
        return _section(self._standing(chunk.document_id), chunk, descendants=descendants)

    def sections(self, ranking: Ranking, *, descendants: bool = False) -> tuple[tuple[Segment, Hit], ...]:
        """Return the whole sections of a ranking, each once and with its best hit, best first; see `section`."""
        if not isinstance(ranking, Ranking):
            raise ParameterError("ranking", ranking, "a Ranking, as a search returns it")
        found: dict[str, tuple[Segment, Hit]] = {}
        ids = dict.fromkeys(hit.chunk.document_id for hit in ranking.hits)
        with one_state(self._services):
            entries = {document_id: self._standing(document_id) for document_id in ids}
        for hit in ranking.hits:
            segment = _section(entries[hit.chunk.document_id], hit.chunk, descendants=descendants)
            found.setdefault(segment.id, (segment, hit))
        return tuple(found.values())

    def _standing(self, document_id: str) -> Entry | None:
        """Return a document without its pictures; None where it was deleted after it had been found."""
        try:
            return self._store.get(document_id, pictures=False)
        except UnknownDocumentError:
            return None

    def ledger(self) -> tuple[Outcome, ...]:
        """Return how each file that was ever given ended, by source."""
        return self._store.ledger()

    def document_id(self, path: str | Path) -> str:
        """Return the id of a file's document: its path relative to the folder of this library's files."""
        return self._files.document_id(path)

    def vanished(self, below: Paths | None = None) -> tuple[str, ...]:
        """Return the ids of indexed files that are gone from disk; they are found until they are deleted.

        Documents that were not read from a file, and files whose names are no valid text, are left alone.

        Args:
            below: folders of which this is asked, and files; None is the whole library. A folder that is gone itself
                may be a share that is not mounted: nothing can be said of its files.

        Raises:
            LibraryError: a folder in `below` is gone, and so are files that were in it.
        """
        gone = tuple(document_id for document_id, _ in self._gone())
        if below is None:
            return gone
        found: set[str] = set()
        for root in [below] if isinstance(below, str | os.PathLike) else below:
            there = {document_id for document_id in gone if is_below(document_id, root, self._home)}
            folder = Path(root).parent if self.document_id(root) in there else root
            if there and not os.path.isdir(folder):
                held = sum(is_below(document_id, folder, self._home) for document_id in gone)
                what = f"the folder {path_text(Path(folder))} is not there; what is held of it is kept ({held:,})"
                raise LibraryError(self._place, what, _MISSING)
            found |= there
        return tuple(filter(found.__contains__, gone))

    def _gone(self) -> Iterator[tuple[str, str]]:
        """Yield id and fingerprint of each indexed file that is gone from disk."""
        home = os.path.abspath(self._home)
        files = {outcome.document_id for outcome in self._store.ledger()}
        held = self._store.documents()
        # older ledgers forgot the first of two files of one source: its twin is a file, so it was one
        twins = {info.fingerprint for info in held if info.id in files and info.fingerprint}
        for info in held:
            is_file = info.id in files or info.fingerprint in twins
            if is_file and "\\" not in info.id and is_gone(info.id, home):
                yield info.id, info.fingerprint

    def _check_given(self, needed: Mapping[str, bool]) -> None:
        for name in (name for name, needs in needed.items() if needs and getattr(self._services, name) is None):
            raise ParameterError(name, None, f"given to {self._opener}, as {name}={_MODELS[name]}")


def services_given(
    services: Services | None, *, embedder: object, llm: LLM | None, preparation: object
) -> tuple[Services, Embedder]:
    """Return the services of a library that is opened, and their embedder: the shipped one where none is given.

    Raises:
        ParameterError: something is of another kind, or given twice, or belongs to the library itself.
    """
    if not isinstance(preparation, Preparation | None):
        raise ParameterError("preparation", preparation, "Preparation(...) or None")
    if not isinstance(services, Services | None):
        raise ParameterError("services", services, "Services(...) or None")
    services = services or Services()
    for name, given in (("embedder", embedder), ("llm", llm)):
        if given is not None and getattr(services, name) is not None:
            raise ParameterError(name, "one beside services=", f"given once: {name}= or Services({name}=...)")
    for name in ("store", "graph"):
        if getattr(services, name) is not None:
            raise ParameterError(f"services.{name}", "one of your own", "None: the library brings its own")
    model = embedder_given(services.embedder if embedder is None else embedder)
    return replace(services, embedder=model, llm=services.llm if llm is None else llm), model


def embedder_given(given: object) -> Embedder:
    """Return an embedder as the core's, the shipped one for None; see `catena.backends.embedder_named` for names.

    Raises:
        MissingExtraError: it is a name, and its package is not installed.
        ParameterError: it is no `catena.effects.ports.Embedder`; the message says what it lacks.
    """
    if given is None:
        from catena.enrichment.static_embedding import StaticEmbedder

        return StaticEmbedder()
    if isinstance(given, str):
        return embedder_named(given)[0]
    embedder = as_core("embedder", given)
    is_made = not isinstance(embedder, type)
    lacking = [name for name in _OF_EMBEDDER if not hasattr(embedder, name)]
    if lacking or not is_made:
        what = f"which lacks {', '.join(lacking)}" if is_made else "a class, which is not yet made"
        allowed = (
            f"a name, an embedder with {', '.join(_OF_EMBEDDER)}, see catena.effects.Embedder; or None for the"
            " shipped one"
        )
        shown = embedder.__name__ if isinstance(embedder, type) else type(embedder).__name__
        raise ParameterError("embedder", f"{shown}, {what}", allowed)
    return cast("Embedder", embedder)


def _chunk_of(found: object) -> Chunk:
    chunk = found.chunk if isinstance(found, Hit) else found
    if not isinstance(chunk, Chunk):
        raise ParameterError("found", found, "a Hit or a Chunk of this library")
    return chunk


def _section(entry: Entry | None, chunk: Chunk, *, descendants: bool) -> Segment:
    now = None if entry is None else _now(entry, chunk)
    if entry is None or now is None:
        return chunk.as_segment()
    return section_segment(entry.document, entry.sections, now, chunks=entry.chunks, descendants=descendants)


def _now(entry: Entry, chunk: Chunk) -> Chunk | None:
    """Return a chunk, as it was once found, if it still stands there; else one that stands under its headings now."""
    section = entry.sections[chunk.section] if chunk.section < len(entry.sections) else None
    if section is not None and section.start <= chunk.start < section.end and section.path == chunk.path:
        return chunk
    return next((each for each in entry.chunks if each.path == chunk.path), None)


def inputs_given(given: object) -> tuple[tuple[Document, ...], Paths]:
    """Return what is given as the core's documents where it is documents, the core's or a framework's; else as paths.

    Raises:
        ParameterError: documents and paths are mixed, or a framework's adapter is not imported.
    """
    one = as_core("document", given)  # a document of a framework can be iterated over, too
    if isinstance(one, Document):
        return (one,), ()
    if isinstance(given, str | os.PathLike) or not isinstance(given, Iterable):
        return (), cast("Paths", given)
    several = [as_core("document", each) for each in given]
    documents = tuple(each for each in several if isinstance(each, Document))
    if documents and len(documents) < len(several):
        raise ParameterError("paths", "documents among paths", "paths alone, or documents alone")
    return documents, [] if documents else several

"""What a library reads back, wherever its documents lie: entries, whole sections, figures, its shape, a plan."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, cast

from catena.effects import Plan, Services, Step, Tariff, one_state, plan, run
from catena.effects.frameworks import as_core
from catena.library.discovery import discover, is_gone
from catena.library.file_ingestion import STOPPING, UNCHANGED, FileIngestion, HeldDocuments
from catena.library.ingestion import PLANNED_ANSWERS
from catena.library.pipeline import embed
from catena.model import Chunk, Document, Entry, Figure, Hit, Outcome, Ranking, Segment
from catena.model.errors import CatenaError, DamagedLibraryError, LibraryError, ParameterError, UnknownDocumentError
from catena.model.figures import FIGURE
from catena.retrieval.adaptation import CorpusStatistics, adapted
from catena.structure.sections import section_segment

if TYPE_CHECKING:
    from catena.effects.ports import Embedder
    from catena.library.file_ingestion import Source
    from catena.library.pipeline import Preparation
    from catena.model.vectors import ViewVectors
    from catena.retrieval.fusion import ScoreFusion


Paths: TypeAlias = str | Path | Iterable[str | Path]
"""Files, or folders that are searched for files; or one of them."""

_MODELS = {"llm": "a_language_model", "reranker": "a_reranker"}
_OF_EMBEDDER = ("identity", "dim", "embed_documents", "embed_query")


class LibraryContents(HeldDocuments, Protocol):
    """What a library asks its store, besides what the steps ask."""

    def get(self, document_id: str, *, pictures: bool = True) -> Entry:
        """Return a document, its figures only where `pictures` is true."""
        ...

    def figure(self, document_id: str, name: str) -> Figure:
        """Return a figure by its file name."""
        ...

    def has_view(self, kind: str) -> bool:
        """Return whether any chunk has a view of this kind."""
        ...

    def documents(self) -> tuple[Any, ...]:
        """Return what is known of each document; `id` is one of it."""
        ...

    def ledger(self) -> tuple[Outcome, ...]:
        """Return how each input ended."""
        ...


class LibraryReading(ABC):
    """A library that is open, in a folder or on a server: what is read of it."""

    _opener: ClassVar[str]  # in messages: what models are given to
    _store: LibraryContents
    _services: Services
    preparation: Preparation

    @property
    @abstractmethod
    def _place(self) -> str:
        """Where the library lies, for messages."""

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
    def services(self) -> Services:
        """What answers the steps of this library: its store and its models."""
        return self._services

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

        def all_files() -> Step[None]:
            for path, source in files:
                outcome, _ = yield from self._files.ingested(path, source, password, embedded=False)
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

    def _figure_of(self, found: Hit | Chunk) -> tuple[str, str]:
        chunk = _chunk_of(found)
        name = chunk.metadata.get(FIGURE)
        if not isinstance(name, str):
            what = f"chunk {chunk.id!r} of {chunk.document_id!r} shows no figure"
            raise LibraryError(self._place, what, "search_figures, or a hit whose kind is 'figure'")
        return chunk.document_id, name

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

    def adapted(self) -> ScoreFusion:
        """Return HiQA's formula with weights by the shape of this library: its headings, documents and pages.

        For `search(fusion=...)`; not the default, see `catena.retrieval.adaptation`. It reads every document.
        """
        with one_state(self._services):
            ids = [info.id for info in self._store.documents()]
            return adapted(CorpusStatistics.of(self._store.get(each, pictures=False) for each in ids))

    def document_id(self, path: str | Path) -> str:
        """Return the id of a file's document: its path relative to the folder of this library's files."""
        return self._files.document_id(path)

    def vanished(self) -> tuple[str, ...]:
        """Return the ids of indexed files that are gone from disk; they are found until they are deleted.

        Documents that were not read from a file, and files whose names are no valid text, are left alone.
        """
        home = os.path.abspath(self._home)
        files = {outcome.document_id for outcome in self._store.ledger()}
        held = (info.id for info in self._store.documents())
        return tuple(name for name in held if name in files and "\\" not in name and is_gone(name, home))

    def _check_given(self, needed: Mapping[str, bool]) -> None:
        for name in (name for name, needs in needed.items() if needs and getattr(self._services, name) is None):
            raise ParameterError(name, None, f"given to {self._opener}, as {name}={_MODELS[name]}")


def embedder_given(given: object) -> Embedder:
    """Return an embedder as the core's, the shipped one for None.

    Raises:
        ParameterError: it is no `catena.effects.ports.Embedder`; the message says what it lacks.
    """
    if given is None:
        from catena.enrichment.static_embedding import StaticEmbedder

        return StaticEmbedder()
    embedder = as_core("embedder", given)
    is_made = not isinstance(embedder, type)
    lacking = [name for name in _OF_EMBEDDER if not hasattr(embedder, name)]
    if lacking or not is_made:
        what = f"which lacks {', '.join(lacking)}" if is_made else "a class, which is not yet made"
        allowed = (
            f"an embedder with {', '.join(_OF_EMBEDDER)}, see catena.effects.Embedder; or None for the shipped one"
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

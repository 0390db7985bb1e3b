"""What a library reads back, wherever its documents lie: entries, whole sections, figures, its shape, a plan."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from catena.discovery import discover, is_gone
from catena.effects import Plan, Services, Step, Tariff, plan
from catena.errors import LibraryError, ParameterError
from catena.figures import FIGURE
from catena.file_ingestion import FileIngestion, HeldDocuments
from catena.ingestion import PLANNED_ANSWERS
from catena.model import Chunk, Entry, Figure, Hit, Outcome, Ranking, Segment
from catena.retrieval.adaptation import CorpusStatistics, adapted
from catena.structure.sections import section_segment

if TYPE_CHECKING:
    from catena.pipeline import Preparation
    from catena.retrieval.fusion import ScoreFusion


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

    def pages(self, spans: Sequence[tuple[str, int, int]]) -> tuple[tuple[int, int] | None, ...]:
        """Return the first and the last page (1-based, inclusive) of slices: (document id, start, end) each."""
        ...

    def has_view(self, kind: str) -> bool:
        """Return whether any chunk has a view of this kind."""
        ...

    def view_kinds(self) -> tuple[str, ...]:
        """Return the kinds of view that chunks have."""
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
        outcomes: list[Outcome] = []

        def all_files() -> Step[None]:
            for path, source in discover(paths, leave_out=self._left_out):
                outcome, _ = yield from self._files.ingested(path, source, password, embedded=False)
                outcomes.append(outcome)

        return plan(all_files(), self._services, tariff=tariff, stand_ins=PLANNED_ANSWERS), tuple(outcomes)

    def figure(self, found: Hit | Chunk) -> Figure:
        """Return the figure that a hit or a chunk shows: its picture, page, title and caption.

        Raises:
            LibraryError: it shows none, or the library does not hold it any more.
        """
        return self._store.figure(*self._figure_of(found))

    def _figure_of(self, found: Hit | Chunk) -> tuple[str, str]:
        chunk = found.chunk if isinstance(found, Hit) else found
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
        """Return the whole section that a hit or a chunk was cut from.

        Args:
            found: of this library.
            descendants: whether the sections below it come along.
        """
        chunk = found.chunk if isinstance(found, Hit) else found
        return _section(self._store.get(chunk.document_id, pictures=False), chunk, descendants=descendants)

    def sections(self, ranking: Ranking, *, descendants: bool = False) -> tuple[tuple[Segment, Hit], ...]:
        """Return the whole sections of a ranking, each once and with its best hit, best first."""
        found: dict[str, tuple[Segment, Hit]] = {}
        ids = dict.fromkeys(hit.chunk.document_id for hit in ranking.hits)
        entries = {document_id: self._store.get(document_id, pictures=False) for document_id in ids}
        for hit in ranking.hits:
            segment = _section(entries[hit.chunk.document_id], hit.chunk, descendants=descendants)
            found.setdefault(segment.id, (segment, hit))
        return tuple(found.values())

    def ledger(self) -> tuple[Outcome, ...]:
        """Return how each file that was ever given ended, by source."""
        return self._store.ledger()

    def adapted(self) -> ScoreFusion:
        """Return HiQA's formula with weights by the shape of this library: its headings, documents and pages.

        For `search(fusion=...)`; not the default, see `catena.retrieval.adaptation`. It reads every document.
        """
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


def check_embedder(embedder: object) -> None:
    """Raise `ParameterError` where something is no `catena.ports.Embedder`, and say what it lacks."""
    is_made = not isinstance(embedder, type)
    lacking = [name for name in _OF_EMBEDDER if not hasattr(embedder, name)]
    if lacking or not is_made:
        what = f"which lacks {', '.join(lacking)}" if is_made else "a class, which is not yet made"
        allowed = (
            f"an embedder with {', '.join(_OF_EMBEDDER)}, see catena.ports.Embedder; or None for the shipped one"
        )
        shown = embedder.__name__ if isinstance(embedder, type) else type(embedder).__name__
        raise ParameterError("embedder", f"{shown}, {what}", allowed)


def _section(entry: Entry, chunk: Chunk, *, descendants: bool) -> Segment:
    return section_segment(entry.document, entry.sections, chunk, chunks=entry.chunks, descendants=descendants)

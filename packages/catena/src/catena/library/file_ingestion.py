"""Files on their way into a library: read, cut, embedded, and written together."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypedDict, TypeVar, cast

from catena.effects import Complete, Event, Recognise, Services, Step, as_core
from catena.library.discovery import document_id_of
from catena.library.ingestion import ingest, ingest_document
from catena.library.pipeline import Preparation, embed, read
from catena.model import Document, Entry, Outcome, ParseError, digest
from catena.model.errors import CatenaError, LibraryError, MissingExtraError, MissingServiceError, ParameterError
from catena.parsing import cores, file_bytes, in_background, reader_of, supported_suffixes, usual_engine
from catena.store.store import LibraryStore

if TYPE_CHECKING:
    from concurrent.futures import Future

    from catena.enrichment.views import Held
    from catena.model.layout import PageNote, Parsed
    from catena.model.vectors import ViewVectors

    Addition: TypeAlias = tuple[Entry, ViewVectors]

T = TypeVar("T")
Source: TypeAlias = Document | str | Path
"""A document already parsed, or the path of a file."""

STOPPING = (LibraryError, MissingExtraError, MissingServiceError)
"""Errors in a file's step that are no matter of this file; a cap, a stop or a journal's fault end the run itself."""

UNCHANGED = "unchanged"
"""Reason of a file that was skipped because the library holds it as it is."""

_NO_TEXT = "there is no text in it"
_LEFT_OUT = "all its sections are left out by SectionChunkOptions(leave_out=..., min_characters=...)"

# A transaction's price against what a kill may cost: documents are written when either is reached.
SIDE_BY_SIDE = 8  # files whose models are asked together: within a file one window waits for the other
BATCH_CHUNKS = 2_000
BATCH_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One file on its way into an index.

    Attributes:
        path: where it lies; its name tells the type where the content does not.
        source: what citations, messages and the ledger call it.
        document_id: of its document.
        content: its bytes, where they are at hand already; None reads `path`.
        known: fingerprint of the document as the index holds it whole, "" where it does not, or where its latest
            reading failed, so that it is read again; None asks the store.
        reading: what another thread reads of it; None reads it when it is its turn.
    """

    path: Path
    source: str
    document_id: str
    content: bytes | None = field(default=None, repr=False)
    known: str | None = None
    reading: Future[FileReading] | None = None


@dataclass(frozen=True, slots=True)
class FileReading:
    """The result of reading a file; `parsed` is None where the index holds the file as it is.

    Attributes:
        moved_from: ids under which the index holds the same, of files that are gone.
    """

    fingerprint: str
    parsed: Parsed | None
    moved_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """One input of a run has ended: its outcome, and how far the run is."""

    outcome: Outcome
    done: int
    total: int


class _Held(TypedDict):
    held: Held
    model: str


class HeldDocuments(Protocol):
    """A store that is asked about the older version of a document before a file is read."""

    def fingerprint(self, document_id: str) -> str | None:
        """Return that of the document, None of an unknown one."""

    def known_vectors(self, document_id: str) -> Mapping[tuple[str, str], Any]:
        """Return vectors, shape (dim,), by (kind of view, `text_digest`): what is there is not embedded again."""

    def made_views(self, document_id: str) -> Held:
        """Return views by `View.made`: what is there no model writes again."""

    def whole(self, ids: Sequence[str]) -> tuple[Document | None, ...]:
        """Return documents by id, None for one that is not there: a cut reading replaces none with more pages."""


@dataclass(frozen=True, slots=True)
class FileIngestion:
    """Take files into one library, with its store, the models that it may ask, and its preparation.

    Attributes:
        home: the folder to which documents' ids are relative.
        gone: fingerprint -> ids of the documents of it whose files are gone: what has it now was moved from there.
    """

    store: HeldDocuments
    services: Services
    how: Preparation
    home: Path
    gone: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def entry(self, source: Source, password: str | None) -> Step[Entry]:
        """Return what a document or a file puts into the store.

        Raises:
            ParseError: it gave no document.
            ParameterError: it is neither a path nor a document.
        """
        source = as_core("document", source)
        if isinstance(source, Document):
            outcome, entry_or_none = yield from self.prepared(source)
            if entry_or_none is None:
                raise ParseError(source.id, "empty", outcome.reason)
            return entry_or_none
        if not isinstance(source, str | Path):
            allowed = (
                "a path, or a Document, as catena.formatting.format_layout makes it of what parse returned; several"
                " are given as add(*documents), or index(documents)"
            )
            raise ParameterError("source", type(source).__name__, allowed)
        given = Input(path=Path(source), source=str(source), document_id=self.document_id(source), known="")
        outcome, entry_or_none = yield from self._read(given, self.reading(given, password), self.how)
        if entry_or_none is None:
            raise ParseError(outcome.source, "limit" if outcome.cut else "empty", outcome.reason)
        return entry_or_none

    def prepared(self, document: Document) -> Step[tuple[Outcome, Entry | None]]:
        """Return how a document that is already parsed ends, and what is to be stored of it; no entry for nothing."""
        outcome = Outcome(source=document.source or document.id, document_id=document.id, state="indexed")
        if not document.text.strip():
            return replace(outcome, state="failed", reason=_NO_TEXT), None
        done = yield from ingest_document(document, self.how, **self._held(document.id))
        identified = done.entry.fingerprint and self._identified(done.entry.fingerprint)
        told = replace(outcome, reason="; ".join(done.notes))
        return _ended(told, replace(done.entry, fingerprint=identified))

    def ingested(
        self, path: Path, source: str, password: str | None, *, embedded: bool = True, again: bool = False
    ) -> Step[tuple[Outcome, Addition | None]]:
        """Return how one file ends, and what is to be stored of it; no failure of a file leaves this step.

        Args:
            path: where it lies.
            source: what citations, messages and the ledger call it.
            password: opens it, where it is encrypted.
            embedded: False makes no vectors, and nothing to store.
            again: read it though the store holds it as it is.
        """
        given = Input(path=path, source=source, document_id=self.document_id(path), known="" if again else None)
        return self.taken(given, password, embedded=embedded)

    def taken(
        self, given: Input, password: str | None, *, embedded: bool = True
    ) -> Step[tuple[Outcome, Addition | None]]:
        """As `ingested`, of a file whose document's id is not for this library to say."""
        failed = Outcome(source=given.source, document_id=given.document_id, state="failed")
        suffix = given.path.suffix
        if not _is_read(given):
            return replace(failed, state="skipped", reason=f"files of type {suffix or 'unknown'} are not read"), None
        try:
            reading = given.reading.result() if given.reading is not None else self.reading(given, password)
            if reading.parsed is None:
                return replace(failed, state="skipped", reason=UNCHANGED), None
            how = self.how if embedded else _without_vectors(self.how)
            outcome, entry = yield from self._read(given, reading, how)
            if entry is None or not embedded:
                return outcome, None
            vectors = self.store.known_vectors(_held_as(given, reading))
            embedded_entry = entry, (yield from embed(entry, known=vectors))
            return replace(outcome, moved_from=reading.moved_from), embedded_entry
        except STOPPING:
            raise
        except CatenaError as error:
            return replace(failed, reason=str(error).removeprefix(f"{given.source}: ")), None

    def reading(
        self,
        given: Input,
        password: str | None,
        *,
        workers: int = 1,
        on_page: Callable[[int, int], None] | None = None,
    ) -> FileReading:
        """Read a file, where the index does not hold it as it is; for `workers` and `on_page` see `read`.

        Raises:
            ParseError: it gave no document.
        """
        content = given.content
        if content is None:
            content = file_bytes(given.path, source=given.source, limits=self.how.limits)
        fingerprint = self._identified(self.how.fingerprint(content))
        if reader := reader_of(given.path.name):
            fingerprint = digest(fingerprint, reader)
        known = self.store.fingerprint(given.document_id) if given.known is None else given.known
        if known == fingerprint:
            return FileReading(fingerprint, None)
        parsed = read(
            given.path, self.how, document_id=given.document_id, source=given.source, password=password,
            layout=self.how.format_with_llm is None, content=content, workers=workers, on_page=on_page,
        )  # fmt: skip
        return FileReading(fingerprint, parsed, self.gone.get(fingerprint, ()))

    def read_ahead(
        self,
        inputs: Sequence[Input],
        password: str | None,
        *,
        workers: int | None = None,
        watch: Callable[[Event], None] | None = None,
    ) -> Iterator[Input]:
        """Yield the files in their order, each with what other threads read of it while those before it are taken.

        Args:
            inputs: the files.
            password: opens encrypted PDFs.
            workers: reading processes at once, among the files and the pages of long ones; None is one a core.
            watch: told of each page that is read.
        """
        workers = cores() if workers is None else workers
        turns = threading.Semaphore(workers)

        def reading(given: Input, share: int) -> FileReading:
            def on_page(done: int, total: int) -> None:
                if watch is not None:
                    watch(Event(kind="read", purpose=given.source, done=done, total=total))

            with turns:
                return self.reading(given, password, workers=share, on_page=on_page)

        waiting: deque[Input] = deque()
        for number, given in enumerate(inputs):
            known = self.store.fingerprint(given.document_id) if given.known is None else given.known
            told = replace(given, known=known or "")
            if _is_read(given):
                share = max(1, workers // (len(inputs) - number + len(waiting)))  # the last ones have cores left over
                told = replace(told, reading=in_background(partial(reading, told, share)))
            waiting.append(told)
            if len(waiting) > workers:
                yield waiting.popleft()
        yield from waiting

    def _read(self, given: Input, reading: FileReading, how: Preparation) -> Step[tuple[Outcome, Entry | None]]:
        """Cut one file that was read; no entry where nothing is found, or less than the version before it has."""
        document_id, source, fingerprint = given.document_id, given.source, reading.fingerprint
        parsed = cast("Parsed", reading.parsed)
        captions = self.services.captioner is not None
        done = yield from ingest(
            parsed, how, fingerprint=fingerprint, captions=captions, **self._held(_held_as(given, reading))
        )
        entry = done.entry
        (before,) = self.store.whole([document_id]) if parsed.retry else (None,)
        is_less = before is not None and _extent(entry.document) < _extent(before)
        kept = "the version that is kept has more of it, and the next run reads the file again" if is_less else ""
        told = "; ".join(filter(None, [_reason(parsed.notes), *done.notes, _about_figures(parsed, how), kept]))
        outcome = Outcome(
            source=source,
            document_id=document_id,
            state="indexed" if parsed.state == "parsed" else "partial",
            reason=f"{told}. Try: {parsed.retry}" if parsed.retry else told,
            failed_pages=tuple(note.page for note in parsed.notes if note.lost),
            cut=bool(parsed.retry),
        )
        return (replace(outcome, state="failed"), None) if is_less else _ended(outcome, entry)

    def _held(self, document_id: str) -> _Held:
        """Return what an older version of a document offers to take over, where a model would write it again."""
        llm = self.services.llm
        asks = llm is not None and any(maker.asks_model for maker in self.how.views)
        held = self.store.made_views(document_id) if asks else {}
        return {"held": held, "model": llm.identity if llm is not None else ""}

    def _identified(self, fingerprint: str) -> str:
        """Return a fingerprint that covers the models that the preparation may ask."""
        given, asked = self.services, self.how.may_ask
        services = [
            given.captioner if self.how.figures else None,
            given.llm if Complete in asked else None,
            given.recognizer if Recognise in asked else None,
        ]
        identities = [service.identity for service in services if service is not None]
        return digest(fingerprint, *identities) if identities else fingerprint

    def check_models(self) -> None:
        """Raise where the preparation asks for a model that was not given, before any file is read."""
        needed = {Complete: ("llm", self.services.llm), Recognise: ("recognizer", self.services.recognizer)}
        for kind, (name, service) in needed.items():
            if kind in self.how.asks and service is None:
                raise ParameterError(name, None, "given to Library.open: the preparation asks it while indexing")

    def document_id(self, path: str | Path) -> str:
        """Return the id of a file's document."""
        return document_id_of(path, self.home)


class Batch:
    """Files on their way into the store, written together: documents and their lines of the ledger at once."""

    def __init__(self, store: LibraryStore) -> None:
        self._store = store
        self._additions: list[Addition] = []
        self._outcomes: list[Outcome] = []
        self._written_at = monotonic()

    def take(self, outcome: Outcome, addition: Addition | None) -> None:
        """Hold one file's result, and write all that is held when it is enough."""
        if outcome.reason != UNCHANGED:  # the ledger keeps saying how the file ended when it was read
            self._outcomes.append(outcome)
        if addition is not None:
            self._additions.append(addition)
        held = sum(len(entry.chunks) for entry, _ in self._additions)
        if held >= BATCH_CHUNKS or monotonic() - self._written_at >= BATCH_SECONDS:
            self.write()

    def write(self) -> None:
        """Write what is held."""
        if self._additions:
            self._store.replace(self._additions, outcomes=self._outcomes)
        elif self._outcomes:
            self._store.record(self._outcomes)
        self._additions, self._outcomes = [], []
        self._written_at = monotonic()


def grouped(files: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    """Yield the files in groups of a size, the last one maybe smaller."""
    waiting = iter(files)
    while group := tuple(islice(waiting, size)):
        yield group


def _held_as(given: Input, reading: FileReading) -> str:
    """Return the id under which the store has the older version of a file."""
    return (*reading.moved_from, given.document_id)[0]


def _is_read(given: Input) -> bool:
    """Return whether its type is one that is read; what is not there is for the reader to tell of."""
    there = given.content is not None or os.path.isfile(given.path)
    return not there or given.path.suffix.lower() in supported_suffixes()


def _without_vectors(preparation: Preparation) -> Preparation:
    """Return what a dry run follows: what is made offline asks the embedder, which is not counted."""
    context = preparation.context
    offline = context is not None and context.by == "offline"
    views = tuple(maker for maker in preparation.views if maker.asks_model)
    return replace(preparation, context=None if offline else context, views=views)


def _ended(outcome: Outcome, entry: Entry) -> tuple[Outcome, Entry | None]:
    """Return an outcome with the size of its entry; where there is nothing to be found, a failure and no entry."""
    outcome = replace(outcome, chunks=len(entry.chunks), pages=len(entry.document.page_starts))
    if entry.chunks:
        return outcome, entry
    return replace(outcome, state="failed", reason=_LEFT_OUT if entry.left_out else _NO_TEXT), None


def _extent(document: Document) -> tuple[int, int]:
    """Return how many pages of a document have text, and how many have labels, which are read after all pages."""
    borders = pairwise((*document.page_starts, len(document.text)))
    pages = sum(bool(document.text[start:end].strip()) for start, end in borders)
    return pages, len(document.page_labels)


def _about_figures(parsed: Parsed, preparation: Preparation) -> str:
    """Return why there are no figures, "" where they were looked for."""
    if preparation.figures and parsed.layout is not None and (preparation.engine or usual_engine()) == "pypdf":
        return "its figures were not cropped: only the engine pypdfium2 can (extra fast-pdf)"
    return ""


def _reason(notes: Sequence[PageNote]) -> str:
    """Return the pages without text in a few words: those of one reason that follow each other together."""
    runs: list[list[PageNote]] = []
    for note in notes:
        if note.state == "blank":
            continue
        if runs and note.why == runs[-1][-1].why and note.page <= runs[-1][-1].page + 1:
            runs[-1].append(note)
        else:
            runs.append([note])
    spans = ((run[0].page, run[-1].page, run[0].why) for run in runs[:3])
    shown = "; ".join(f"page {a}: {why}" if a == b else f"pages {a}-{b}: {why}" for a, b, why in spans)
    more = sum(map(len, runs[3:]))
    return shown + (f"; and {more} more pages" if more else "")

"""Files on their way into a library: read, cut, embedded, and written together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from catena.discovery import path_text
from catena.effects import Complete, Recognise, Services, Step
from catena.errors import CatenaError, LibraryError, MissingServiceError, ParameterError, ParseError
from catena.ids import digest
from catena.indexing.store import LibraryStore
from catena.ingestion import ingest, ingest_document
from catena.model import Document, Entry, Outcome
from catena.parsing import SUPPORTED_SUFFIXES, file_bytes
from catena.pipeline import Preparation, embed, read

if TYPE_CHECKING:
    from catena.layout import PageNote, Parsed
    from catena.vectors import ViewVectors
    from catena.view_making import Held

    Addition: TypeAlias = tuple[Entry, ViewVectors]

Source: TypeAlias = Document | str | Path
"""A document already parsed, or the path of a file."""

STOPPING = (LibraryError, MissingServiceError)
"""Errors in a file's step that are no matter of this file; a cap, a stop or a journal's fault end the run itself."""

UNCHANGED = "unchanged"
"""Reason of a file that was skipped because the library holds it as it is."""

# A transaction's price against what a kill may cost: documents are written when either is reached.
SIDE_BY_SIDE = 8  # files whose models are asked together: within a file one window waits for the other
BATCH_CHUNKS = 2_000
BATCH_SECONDS = 2.0


class _Held(TypedDict):
    held: Held
    model: str


@dataclass(frozen=True, slots=True)
class FileIngestion:
    """How one library takes files: its store, the models that it may ask, and its preparation."""

    store: LibraryStore
    services: Services
    how: Preparation

    def entry(self, source: Source, password: str | None) -> Step[Entry]:
        """Return what a document or a file puts into the store.

        Raises:
            ParseError: it gave no document.
        """
        if isinstance(source, Document):
            if not source.text.strip():
                raise ParseError(source.id, "empty", "there is no text in it")
            done = yield from ingest_document(source, self.how, **self._held(source.id))
            entry = done.entry
            if not entry.chunks:
                raise ParseError(source.id, "empty", _nothing(entry))
            return replace(entry, fingerprint=entry.fingerprint and self._identified(entry.fingerprint))
        path = Path(source)
        outcome, entry_or_none = yield from self._read(
            path, str(source), password, self._fingerprint(path, str(source)), self.how
        )
        if entry_or_none is None:
            raise ParseError(outcome.source, "empty", outcome.reason)
        return entry_or_none

    def ingested(
        self, path: Path, source: str, password: str | None, *, embedded: bool = True
    ) -> Step[tuple[Outcome, Addition | None]]:
        """Return how one file ends, and what is to be stored of it; no failure of a file leaves this step."""
        document_id = self.document_id(path)
        failed = Outcome(source=source, document_id=document_id, state="failed")
        if path.is_file() and path.suffix.lower() not in SUPPORTED_SUFFIXES:
            return replace(
                failed, state="skipped", reason=f"files of type {path.suffix or 'unknown'} are not read"
            ), None
        try:
            fingerprint = self._fingerprint(path, source)
            if self.store.fingerprint(document_id) == fingerprint:
                return replace(failed, state="skipped", reason=UNCHANGED), None
            how = self.how if embedded else _without_vectors(self.how)
            outcome, entry = yield from self._read(path, source, password, fingerprint, how)
            if entry is None or not embedded:
                return outcome, None
            return outcome, (entry, (yield from embed(entry, known=self.store.known_vectors(document_id))))
        except STOPPING:
            raise
        except CatenaError as error:
            return replace(failed, reason=str(error).removeprefix(f"{source}: ")), None

    def _read(
        self, path: Path, source: str, password: str | None, fingerprint: str, how: Preparation
    ) -> Step[tuple[Outcome, Entry | None]]:
        """Read and cut one file; no entry when there is nothing in it to be found."""
        document_id = self.document_id(path)
        by_layout = how.format_with_llm is None
        parsed = read(path, how, document_id=document_id, source=source, password=password, layout=by_layout)
        captions = self.services.captioner is not None
        done = yield from ingest(parsed, how, fingerprint=fingerprint, captions=captions, **self._held(document_id))
        entry = done.entry
        told = [_reason(parsed.notes), *done.notes, _about_figures(parsed, how)]
        outcome = Outcome(
            source=source,
            document_id=document_id,
            state="indexed" if parsed.state == "parsed" else "partial",
            reason="; ".join(filter(None, told)),
            chunks=len(entry.chunks),
            pages=len(entry.document.page_starts),
            failed_pages=tuple(note.page for note in parsed.notes if note.state not in {"blank", "text"}),
        )
        if not entry.chunks:
            return replace(outcome, state="failed", reason=_nothing(entry)), None
        return outcome, entry

    def _held(self, document_id: str) -> _Held:
        """Return what an older version of a document offers to take over, where a model would write it again."""
        llm = self.services.llm
        asks = llm is not None and any(maker.asks_model for maker in self.how.views)
        return {
            "held": self.store.made_views(document_id) if asks else {},
            "model": llm.identity if llm is not None else "",
        }

    def _fingerprint(self, path: Path, source: str) -> str:
        content = file_bytes(path, source=source, limits=self.how.limits)
        return self._identified(self.how.fingerprint(content))

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
        """Return the id of a file's document: its path relative to the folder that holds this library."""
        home = os.path.abspath(self.store.path.parent)
        try:
            return path_text(Path(os.path.relpath(os.path.abspath(path), home)))
        except ValueError:  # another drive
            return path_text(Path(os.path.abspath(path)))


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


def grouped(files: Sequence[tuple[Path, str]], size: int) -> Iterator[tuple[tuple[Path, str], ...]]:
    """Yield the files in groups of a size, the last one maybe smaller."""
    waiting = iter(files)
    while group := tuple(islice(waiting, size)):
        yield group


def _without_vectors(preparation: Preparation) -> Preparation:
    """Return what a dry run follows: what is made offline asks the embedder, which is not counted."""
    context = preparation.context
    offline = context is not None and context.by == "offline"
    views = tuple(maker for maker in preparation.views if maker.asks_model)
    return replace(preparation, context=None if offline else context, views=views)


def _nothing(entry: Entry) -> str:
    """Return why there is nothing to be found in a document."""
    left_out = "all its sections are left out by SectionChunkOptions(leave_out=..., min_characters=...)"
    return left_out if entry.left_out else "there is no text in it"


def _about_figures(parsed: Parsed, preparation: Preparation) -> str:
    """Return why there are no figures, "" where they were looked for."""
    if preparation.figures and parsed.layout is not None and preparation.engine != "pypdfium2":
        return "its figures were not cropped: only the engine pypdfium2 can (extra fast-pdf)"
    return ""


def _reason(notes: Sequence[PageNote]) -> str:
    """Return the pages without text in a few words."""
    bad = [note for note in notes if note.state != "blank"]
    shown = "; ".join(f"page {note.page}: {note.why}" for note in bad[:3])
    return shown + (f"; and {len(bad) - 3} more pages" if len(bad) > 3 else "")

"""Index files into a set on a server by several processes; a run that was killed is continued by the next one.

    paths -discover-> batches -> worker 1..n: what does the server hold? -> prepare_batch -> write_batch -> outcomes

There is no journal of files on this machine: the server's own records say which documents are whole, of which bytes
and by which preparation, so a run goes on where any other ended, on any machine. Models' replies have their journal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from catena import Journal, Outcome, Services, View, run
from catena.effects import Cancel, Step, all_together
from catena.library import (
    SIDE_BY_SIDE,
    STOPPING,
    UNCHANGED,
    FileIngestion,
    Input,
    Preparation,
    Progress,
    discover,
    document_id_of,
)
from catena.model import CancelledError, CatenaError, ModelMismatchError, ParameterError
from catena_server.actions import entry_actions, kinds_of
from catena_server.bulk import BulkFailure, BulkOptions, batched
from catena_server.bulk_processes import Lost, Work, through_processes
from catena_server.calls import Flavour, Transport
from catena_server.contents import fingerprints_read
from catena_server.index_layout import IndexLayout, check_layout, create, kept_as, open_layout, refresh
from catena_server.store import ServerOptions, calling
from catena_server.writing import PreparedDocument, put_actions, record

BATCH_BYTES = 8_000_000  # of files in one batch, but at least one file: bounds what a worker holds

_Numbered = tuple[int, Input]


def ingest_files(
    paths: str | Path | Iterable[str | Path],
    transport_factory: TransportFactory,
    recipe: Recipe,
    *,
    home: str | Path = ".",
    workers: int = 2,
    batch_files: int = SIDE_BY_SIDE,
    options: BulkOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
    cancel: Cancel | None = None,
) -> tuple[Outcome, ...]:
    """Index files and whole folders into a set, which is made where it is not there; what did not change is skipped.

    A file that fails loses nothing of the others, and an older version of it stays. Every file ends in the set's
    ledger. Stopped or killed at any point, the workers or the whole program, the next call goes on where this one
    ended: nothing is lost or doubled. A file that twice ends the process that reads it is "failed".

    Processes are spawned: call this under `if __name__ == "__main__":`, with factories that a new process can import.

    Args:
        paths: files, or folders that are searched for files of the types Catena reads; or one of them.
        transport_factory: makes a client of the server in each worker.
        recipe: how files become what is written, and where.
        home: the folder to which the documents' ids are relative.
        workers: processes that read, embed and write.
        batch_files: files that one of them takes at a time; their models are asked together.
        options: of the bulk calls.
        progress: called after each file.
        cancel: another thread may stop the run with it.

    Returns:
        One outcome per file, in the order of the files.

    Raises:
        CancelledError: the run was stopped; what was done is kept.
        LibraryError: something else has the set's name, or it lies differently.
        ModelMismatchError: the set holds vectors of another model.
        ParameterError: an option is out of range, or the preparation asks a model that was not given.
        BudgetExceededError, JournalError, MissingServiceError: as in `Library.index`.
        ServerError: the server refuses all, or cannot be reached for too long.
        ServiceError: processes cannot be started.
    """
    inputs = inputs_of(paths, home)
    check_size("batch_files", batch_files)
    with connected(transport_factory) as (server, flavour):
        recipe = replace(recipe, layout=run(opened_set(recipe.layout, flavour), server))
        outcomes: dict[int, Outcome] = {}
        open_work = partial(_open_work, recipe, transport_factory, options)
        batches = batched(enumerate(inputs), lambda each: _bytes(each[1].path), most=batch_files, size=BATCH_BYTES)
        for (number, given), result in through_processes(batches, open_work, workers=workers, cancel=cancel):
            outcomes[number] = outcome = lost(given, result.reason) if isinstance(result, Lost) else result
            if isinstance(result, Lost):  # no worker lives to write it
                run(record([outcome], recipe.layout, options), server)
            if progress is not None:
                progress(Progress(outcome, len(outcomes), len(inputs)))
        run(refresh(recipe.layout), server)
    return tuple(outcomes[number] for number in range(len(inputs)))


def inputs_of(paths: str | Path | Iterable[str | Path], home: str | Path) -> tuple[Input, ...]:
    """Return what is below paths, each file once, with the ids of its documents."""
    return tuple(
        Input(path=path, source=source, document_id=document_id_of(path, home)) for path, source in discover(paths)
    )


def opened_set(layout: IndexLayout, flavour: Flavour) -> Step[IndexLayout]:
    """Return the layout of the set as the server holds it; made where it is not there.

    Raises:
        LibraryError: something else is there, or a set that lies differently.
        ModelMismatchError: a set of another model is there.
    """
    found = yield from open_layout(layout.name)
    if found is None:
        return (yield from create(layout, flavour))
    check_layout(found, kept_as(layout, flavour))
    return found


def lost(given: Input | Outcome, reason: str) -> Outcome:
    """Return the outcome of a file that failed."""
    return Outcome(source=given.source, document_id=given.document_id, state="failed", reason=reason)


def check_size(name: str, value: int) -> None:
    """Raise `ParameterError` unless a number of things is a whole number >= 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ParameterError(name, value, "a whole number >= 1")


def _bytes(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):  # the reader says what is wrong with it
        return 0


@contextmanager
def _open_work(
    recipe: Recipe, transport_factory: TransportFactory, options: BulkOptions | None, cancel: Cancel
) -> Iterator[Work[_Numbered, Outcome]]:
    """Open the models and a client of the server in this worker, once for all its batches."""
    with recipe.opened() as models, connected(transport_factory) as (server, flavour):
        stoppable = replace(models, cancel=cancel)

        def work(batch: Sequence[_Numbered]) -> tuple[Outcome, ...]:
            inputs = run(with_known([given for _, given in batch], recipe.layout), server)
            prepared = prepare_batch(inputs, recipe, stoppable)
            if cancel.is_set:
                raise CancelledError
            return run(write_batch(prepared, recipe.layout, flavour, options), server)

        yield work


Models: TypeAlias = Callable[[], Services]
"""Makes the models in the process that is to use them; picklable, as a module's function or `functools.partial`."""


def shipped_models() -> Services:
    """Return the shipped embedder and nothing else: no key, no network."""
    from catena.enrichment import StaticEmbedder

    return Services(embedder=StaticEmbedder())


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that decides what is written of a file, as a value that other processes can be sent.

    Attributes:
        layout: of the set that the files go to.
        preparation: how files become entries.
        models: makes what the preparation asks, with their limits; a budget or a limiter in it is each process's own.
        journal: path of the file that keeps the models' replies, which all processes of one machine may share: a
            batch that is done again pays nothing again. None keeps none.
        password: opens encrypted PDFs.
    """

    layout: IndexLayout
    preparation: Preparation = field(default_factory=Preparation)
    models: Models = shipped_models
    journal: str | None = None
    password: str | None = field(default=None, repr=False)

    @contextmanager
    def opened(self) -> Iterator[Services]:
        """Make the models and open the journal; for many batches, not for each.

        Raises:
            ModelMismatchError: the set holds vectors of another model.
            ParameterError: the preparation asks for a model that is not made.
            JournalError: the journal cannot be opened.
        """
        services = self.models()
        embedder = services.embedder
        if embedder is None:
            raise ParameterError("models", "no embedder", "a function whose Services have one")
        if (embedder.identity, embedder.dim) != (self.layout.embedder, self.layout.dim):
            made = f"{self.layout.embedder} ({self.layout.dim})"
            what = f"its vectors are of {made}, and the recipe's model is {embedder.identity} ({embedder.dim})"
            raise ModelMismatchError(self.layout.name, what, "the same model, or another name")
        _files(self, services).check_models()
        if self.journal is None:
            yield services
            return
        with Journal.open(self.journal) as journal:
            yield replace(services, journal=journal)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBatch:
    """One `PreparedDocument` per input, in their order."""

    documents: tuple[PreparedDocument, ...]


def prepare_batch(inputs: Sequence[Input], recipe: Recipe, services: Services | None = None) -> PreparedBatch:
    """Return what is written of files: parsed, divided, cut, with views, terms and vectors.

    Nothing is sent anywhere but to the models that the recipe names, no file is written but its journal, and equal
    inputs with equal replies give equal actions. No failure of a file leaves this function: its outcome says it.

    Args:
        inputs: whose `known` is compared, None counting as "": no store is asked.
        recipe: what decides.
        services: what `recipe.opened()` gave, to open it once for many batches.

    Raises:
        ModelMismatchError: the set holds vectors of another model than the recipe makes.
        ParameterError: the preparation asks for a model that was not given.
        CancelledError, BudgetExceededError, JournalError, MissingServiceError: as in `Library.index`.
    """
    if services is None:
        with recipe.opened() as opened:
            return prepare_batch(inputs, recipe, opened)
    files = _files(recipe, services)
    results = run(all_together([_taken(files, given, recipe) for given in inputs]), services)
    return PreparedBatch(documents=tuple(results))


def _taken(files: FileIngestion, given: Input, recipe: Recipe) -> Step[PreparedDocument]:
    outcome, addition = yield from files.taken(given, recipe.password)
    if addition is None:
        return PreparedDocument(outcome=outcome)
    try:
        actions = entry_actions(*addition, recipe.layout)
    except STOPPING:
        raise
    except CatenaError as error:
        return PreparedDocument(outcome=lost(given, str(error)))
    return PreparedDocument(outcome=outcome, actions=actions, kinds=tuple(sorted(kinds_of(*addition))))


class _NothingHeld:
    """An empty store: older versions of documents are known by `Input.known` alone."""

    def fingerprint(self, document_id: str) -> str | None:
        return None

    def known_vectors(self, document_id: str) -> Mapping[tuple[str, str], Any]:
        return {}

    def made_views(self, document_id: str) -> Mapping[str, Sequence[View]]:
        return {}

    def whole(self, ids: Sequence[str]) -> tuple[None, ...]:
        return (None,) * len(ids)


def _files(recipe: Recipe, services: Services) -> FileIngestion:
    return FileIngestion(_NothingHeld(), services, recipe.preparation, Path())


TransportFactory: TypeAlias = Callable[[], Transport]
"""Makes the client in the process that is to use it; picklable, as `partial(ElasticsearchTransport.connect, url)`."""


@contextmanager
def connected(transport_factory: TransportFactory) -> Iterator[tuple[Services, Flavour]]:
    """Open a client, answer the calls of steps by it, and close it."""
    transport = transport_factory()
    try:
        yield calling(transport, ServerOptions(in_flight=8)), transport.flavour
    finally:
        if callable(close := getattr(transport, "close", None)):
            close()


def with_known(inputs: Sequence[Input], layout: IndexLayout) -> Step[tuple[Input, ...]]:
    """Return inputs that say the fingerprints of their documents as the server holds them, whole and read last."""
    stored = yield from fingerprints_read([given.document_id for given in inputs], layout)
    return tuple(replace(given, known=stored.get(given.document_id, "")) for given in inputs)


def write_batch(
    batch: PreparedBatch, layout: IndexLayout, flavour: Flavour, options: BulkOptions | None = None
) -> Step[tuple[Outcome, ...]]:
    """Write a batch and return how its inputs ended, in order; writing it again changes nothing.

    What the server refuses of a document makes that document "failed", to be done again by the next run. The ledger
    keeps saying of an unchanged file how it ended when it was read.

    Raises:
        ServerError: nobody may write there, or the server cannot be reached for too long.
    """
    documents = [document for document in batch.documents if document.actions]
    report = yield from put_actions(documents, layout, flavour, options=options)
    unfinished = frozenset(report.unfinished)
    refused = {
        document.outcome.document_id: _refused(document, report.failures)
        for document in documents
        if document.outcome.document_id in unfinished
    }
    ended = [document.outcome for document in batch.documents]
    outcomes = tuple(lost(each, refused[each.document_id]) if each.document_id in refused else each for each in ended)
    written = {document.outcome.document_id for document in documents} - unfinished
    rest = [each for each in outcomes if each.reason != UNCHANGED and each.document_id not in written]
    yield from record(rest, layout, options)
    return outcomes


def _refused(document: PreparedDocument, failures: Sequence[BulkFailure]) -> str:
    """Return what the server refused of a document; failures come from the whole batch."""
    own = {(action.part, action.id) for action in document.actions}
    of_it = [failure for failure in failures if (failure.part, failure.id) in own] or failures
    first = of_it[0]
    why = f"{first.kind}: {first.reason}" if first.kind else first.reason
    return f"the server refused {len(of_it)} of its parts (first: {first.id!r} of the {first.part}: {why})"

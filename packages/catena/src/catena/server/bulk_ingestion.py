"""Files into an index set of a server by several processes: kill any of them, or all, and run it again.

    paths -discover-> batches -> worker 1..n: what does the server hold? -> prepare_batch -> write_batch -> outcomes

There is no journal of files on this machine: the server's own records say which documents are whole, of which bytes
and by which preparation, so a run goes on where any other ended, on any machine. Models' replies have their journal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from catena.effects import Cancel, run
from catena.effects.steps import Step
from catena.library.discovery import discover, document_id_of
from catena.library.file_ingestion import SIDE_BY_SIDE, Input, Progress
from catena.model import Outcome
from catena.model.errors import CancelledError, ParameterError
from catena.server.bulk import BulkOptions
from catena.server.bulk_preparation import Recipe, prepare_batch
from catena.server.bulk_processes import Lost, Work, through_processes
from catena.server.bulk_writing import TransportFactory, connected, with_known, write_batch
from catena.server.call import Flavour
from catena.server.dialect import kept_as
from catena.server.indices import check_layout, create, open_layout, refresh
from catena.server.layout import IndexLayout
from catena.server.writing import record

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
        batches = _batches(list(enumerate(inputs)), batch_files)
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


def lost(given: Input, reason: str) -> Outcome:
    """Return the outcome of a file that ended the processes that read it."""
    return Outcome(source=given.source, document_id=given.document_id, state="failed", reason=reason)


def check_size(name: str, value: int) -> None:
    """Raise `ParameterError` unless a number of things is a whole number >= 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ParameterError(name, value, "a whole number >= 1")


def _batches(inputs: Sequence[_Numbered], files: int) -> Iterator[list[_Numbered]]:
    batch: list[_Numbered] = []
    size = 0
    for number, given in inputs:
        more = _bytes(given.path)
        if batch and (len(batch) >= files or size + more > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((number, given))
        size += more
    if batch:
        yield batch


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

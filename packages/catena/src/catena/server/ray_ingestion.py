"""Files into an index set of a server by Ray Data: from one machine to a cluster, by the same pure function.

inputs -> known? -> prepare_batch (actors that compute) -> write_batch (actors that wait) -> outcomes
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from catena.effects import Cancel, run
from catena.library.file_ingestion import SIDE_BY_SIDE, Input, Progress
from catena.model import Outcome
from catena.server.bulk import BulkOptions
from catena.server.bulk_ingestion import check_size, inputs_of, lost, opened_set
from catena.server.bulk_preparation import PreparedBatch, PreparedDocument, Recipe, prepare_batch
from catena.server.bulk_processes import Lost, Work, through_processes
from catena.server.bulk_writing import TransportFactory, connected, with_known, write_batch
from catena.server.indices import refresh
from catena.server.ray_data import RayStage, through_ray

WRITER_CPUS = 0.25  # a writer mostly waits for the server

_Numbered = tuple[int, Input]


def ray_ingest(
    paths: str | Path | Iterable[str | Path],
    transport_factory: TransportFactory,
    recipe: Recipe,
    *,
    home: str | Path = ".",
    preparers: int = 2,
    writers: int = 1,
    batch_files: int = SIDE_BY_SIDE,
    options: BulkOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[Outcome, ...]:
    """As `ingest_files`, by actors of Ray: on this machine, or on the cluster that `ray.init(...)` joined before.

    All machines see the files under the same names, and can import the recipe's factories. A batch whose actor ends
    is given to another. Each actor that reads has a process of its own do it, so that a file that twice ends that
    process is "failed" and costs no other. Stopped or killed at any point, the next call goes on where it ended.

    Args:
        paths: files, or folders that are searched for files of the types Catena reads; or one of them.
        transport_factory: makes a client of the server in each actor.
        recipe: how files become what is written, and where; its journal is one file per machine.
        home: the folder to which the documents' ids are relative.
        preparers: actors that read and embed, of one CPU each.
        writers: actors that write, of a quarter of a CPU each.
        batch_files: files that an actor takes at a time.
        options: of the bulk calls.
        progress: called after each file.

    Returns:
        One outcome per file, in the order of the files.

    Raises:
        MissingExtraError: Ray is not installed.
        LibraryError, ModelMismatchError, ParameterError, ServerError: as in `ingest_files`.
        ServiceError: Ray cannot go on.
    """
    for name, value in (("preparers", preparers), ("writers", writers), ("batch_files", batch_files)):
        check_size(name, value)
    inputs = tuple(replace(given, path=given.path.absolute()) for given in inputs_of(paths, home))
    outcomes: dict[int, Outcome] = {}
    with connected(transport_factory) as (server, flavour):
        recipe = replace(recipe, layout=run(opened_set(recipe.layout, flavour), server))
        writing = partial(_writing, recipe, transport_factory, options)
        stages = (
            RayStage(open_work=partial(_preparing, recipe, transport_factory), actors=preparers),
            RayStage(open_work=writing, actors=writers, cpus=WRITER_CPUS),
        )
        for number, outcome in through_ray(inputs, stages, batch_size=batch_files):
            outcomes[number] = outcome
            if progress is not None:
                progress(Progress(outcome, len(outcomes), len(inputs)))
        run(refresh(recipe.layout), server)
    return tuple(outcomes[number] for number in range(len(inputs)))


@contextmanager
def _preparing(
    recipe: Recipe, transport_factory: TransportFactory
) -> Iterator[Callable[[Sequence[Input]], Sequence[PreparedDocument]]]:
    """Prepare batches in a process below this actor: Ray would give what ends an actor to the next one, for ever."""
    waiting: deque[tuple[_Numbered, ...]] = deque()
    batches = iter(waiting.popleft, None)  # asked for a batch only while one waits
    results = through_processes(batches, partial(_open_work, recipe, transport_factory), workers=1)

    def prepared(inputs: Sequence[Input]) -> Sequence[PreparedDocument]:
        waiting.append(tuple(enumerate(inputs)))
        found = {
            number: PreparedDocument(outcome=lost(given, result.reason)) if isinstance(result, Lost) else result
            for (number, given), result in islice(results, len(inputs))
        }
        return [found[number] for number in range(len(inputs))]

    with closing(results):
        yield prepared


@contextmanager
def _open_work(
    recipe: Recipe, transport_factory: TransportFactory, cancel: Cancel
) -> Iterator[Work[_Numbered, PreparedDocument]]:
    with recipe.opened() as models, connected(transport_factory) as (server, _):

        def work(batch: Sequence[_Numbered]) -> Sequence[PreparedDocument]:
            known = run(with_known([given for _, given in batch], recipe.layout), server)
            return prepare_batch(known, recipe, models).documents

        yield work


@contextmanager
def _writing(
    recipe: Recipe, transport_factory: TransportFactory, options: BulkOptions | None
) -> Iterator[Callable[[Sequence[PreparedDocument]], Sequence[Outcome]]]:
    with connected(transport_factory) as (server, flavour):

        def written(documents: Sequence[PreparedDocument]) -> Sequence[Outcome]:
            batch = PreparedBatch(documents=tuple(documents))
            return run(write_batch(batch, recipe.layout, flavour, options), server)

        yield written

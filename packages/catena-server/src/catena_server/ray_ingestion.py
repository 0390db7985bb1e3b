"""Index files into a set on a server by Ray Data, on one machine or a cluster (extra `ray`).

inputs -> known? -> prepare_batch (actors that compute) -> write_batch (actors that wait) -> outcomes
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from catena import Outcome, run
from catena.effects import Cancel, Failed
from catena.library import SIDE_BY_SIDE, Input, Progress
from catena.model import CatenaError, MissingExtraError, ServiceError
from catena_server.bulk import BulkOptions
from catena_server.bulk_ingestion import (
    PreparedBatch,
    Recipe,
    TransportFactory,
    check_size,
    connected,
    inputs_of,
    lost,
    opened_set,
    prepare_batch,
    with_known,
    write_batch,
)
from catena_server.bulk_processes import Lost, Work, through_processes
from catena_server.index_layout import refresh
from catena_server.writing import PreparedDocument

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


OpenStage: TypeAlias = Callable[[], AbstractContextManager[Callable[[Sequence[Any]], Sequence[Any]]]]
"""Makes an actor's work, in the actor and once: picklable. The work gives one result per value, in order."""

SERVICE: Final = "Ray"


@dataclass(frozen=True, slots=True, kw_only=True)
class RayStage:
    """One kind of work, and who does it: so many actors, each taking so many CPUs of the cluster."""

    open_work: OpenStage
    actors: int = 1
    cpus: float = 1.0


def through_ray(values: Sequence[Any], stages: Sequence[RayStage], *, batch_size: int) -> Iterator[tuple[int, Any]]:
    """Yield (place, result) of every value that went through all stages, as they come.

    A batch whose actor ends is given to another, as often as that happens: work may be done more than once and must
    be repeatable, and what would end every actor is for the work itself to isolate.

    Args:
        values: picklable.
        stages: the second takes the results of the first, and so on.
        batch_size: values that an actor takes at a time, >= 1.

    Raises:
        MissingExtraError: Ray is not installed.
        CatenaError: the work of a batch raised it.
        ServiceError: the work raised something else, or Ray cannot go on.
    """
    if find_spec("ray") is None:
        raise MissingExtraError("ray", "catena-server[ray]")
    if not values:
        return
    import ray

    rows = [{"place": place, "value": pickle.dumps(value)} for place, value in enumerate(values)]
    try:
        dataset = ray.data.from_items(rows, override_num_blocks=-(-len(rows) // batch_size))
        for stage in stages:
            dataset = dataset.map_batches(
                _Actor,
                fn_constructor_args=(stage.open_work,),
                batch_size=batch_size,
                batch_format="pyarrow",
                compute=ray.data.ActorPoolStrategy(size=stage.actors),
                num_cpus=stage.cpus,
            )
        for row in dataset.iter_rows():
            result = pickle.loads(row["value"])
            if isinstance(result, Failed):
                raise result.error
            yield row["place"], result
    except (ray.exceptions.RayError, ConnectionError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ServiceError(SERVICE, f"{lines[-1]}. What is done is kept. Try: the same again") from None


class _Actor:
    """The work of a stage in one process of Ray."""

    def __init__(self, open_work: OpenStage) -> None:
        self._open_work = open_work
        self._opened = ExitStack()
        self._work: Callable[[Sequence[Any]], Sequence[Any]] | None = None
        self._failed: Failed | None = None  # what this actor failed at holds for all that it is given later

    def __call__(self, batch: Any) -> Any:
        import pyarrow

        values = [pickle.loads(value) for value in batch["value"].to_pylist()]
        results = [pickle.dumps(result) for result in self._results(values)]
        return pyarrow.table({"place": batch["place"], "value": pyarrow.array(results, pyarrow.large_binary())})

    def _results(self, values: Sequence[Any]) -> Sequence[Any]:
        before = [value for value in values if isinstance(value, Failed)]  # of the stage before
        if self._failed is None and not before:
            try:
                if self._work is None:  # here, where an error can be told
                    self._work = self._opened.enter_context(self._open_work())
                return list(self._work(values))
            except CatenaError as error:
                self._failed = Failed(error)
            except Exception as error:
                self._failed = Failed(ServiceError(SERVICE, f"{type(error).__name__}: {error}"))
        return [self._failed or before[0]] * len(values)

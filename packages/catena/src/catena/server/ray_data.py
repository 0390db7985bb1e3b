"""Values through stages of work on Ray Data (extra `ray`): in actors, on one machine or on many.

Values travel as bytes that only our own processes make and read. A failure of the work travels as a value, too, so
that Ray is left with one kind of trouble: an actor that ended, whose batches it gives to another.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, TypeAlias

from catena.effects.steps import Failed
from catena.model.errors import CatenaError, MissingExtraError, ServiceError

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
        raise MissingExtraError("ray", "ray")
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
    """What Ray keeps of a stage in one process."""

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

"""Worker processes: every item has one result, whichever processes are killed; these functions run in the workers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from catena.effects import Cancel, Failed
from catena.model import CancelledError, MissingExtraError, ParameterError, ServiceError
from catena_server import ray_ingestion as ray_data
from catena_server.bulk_processes import Lost, Work, through_processes
from catena_server.ray_ingestion import RayStage, through_ray

POISON = -1


@contextmanager
def opened(work: Work[int, int], cancel: Cancel) -> Iterator[Work[int, int]]:
    """Open work that is not stopped by the way."""
    yield work


def doubled(batch: Sequence[int]) -> Iterator[int]:
    """Double numbers, and leave the results of a batch before its poison."""
    for number in batch:
        if number <= POISON:
            os.kill(os.getpid(), signal.SIGKILL)
        yield 2 * number


def doubled_at_once(batch: Sequence[int]) -> Sequence[int]:
    """Take a whole batch before the first result, as a request to a model does."""
    return list(doubled(batch))


def doubled_after_a_death(folder: Path, batch: Sequence[int]) -> Iterator[int]:
    for number in batch:
        if not (folder / str(number)).exists():
            (folder / str(number)).touch()
            os._exit(3)
        yield 2 * number


def divided_by_zero(batch: Sequence[int]) -> Sequence[int]:
    return [number // 0 for number in batch]


doubling, at_once, broken = (partial(opened, work) for work in (doubled, doubled_at_once, divided_by_zero))


@contextmanager
def never_ready(cancel: Cancel) -> Iterator[Work[int, int]]:
    os._exit(7)
    yield doubled


@contextmanager
def heeding(folder: Path, cancel: Cancel) -> Iterator[Work[int, int]]:
    """Say that it has begun, and wait until it is stopped."""

    def work(batch: Sequence[int]) -> Iterator[int]:
        (folder / "begun").touch()
        while not cancel.is_set:
            time.sleep(0.01)
        (folder / "ended").touch()
        yield from batch

    yield work


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_every_item_has_its_result(workers: int) -> None:
    batches = [range(at, min(at + 3, 20)) for at in range(0, 20, 3)]
    found = dict(through_processes(batches, doubling, workers=workers))
    assert found == {number: 2 * number for number in range(20)}


@pytest.mark.slow
@pytest.mark.parametrize("open_work", [doubling, at_once])
def test_an_item_that_kills_its_process_is_found_and_costs_no_other(open_work: object) -> None:
    items = [0, 1, 2, POISON, 4, 5, 6, 7, 8]
    found = dict(through_processes([items[:8], items[8:]], open_work, workers=2))
    reason = "the process that prepared it was killed, most likely for its memory, twice"
    assert found.pop(POISON) == Lost(reason=reason)
    assert found == {number: 2 * number for number in items if number != POISON}


@pytest.mark.slow
def test_a_first_death_may_be_chance(tmp_path: Path) -> None:
    open_work = partial(opened, partial(doubled_after_a_death, tmp_path))
    assert dict(through_processes([(0,), (1,)], open_work, workers=2)) == {0: 0, 1: 2}


@pytest.mark.slow
def test_batches_are_drawn_when_a_worker_is_free() -> None:
    drawn = []

    def endless() -> Iterator[tuple[int]]:
        for number in range(1_000_000):
            drawn.append(number)
            yield (number,)

    results = through_processes(endless(), doubling, workers=1)
    assert [next(results) for _ in range(3)] == [(0, 0), (1, 2), (2, 4)]
    results.close()
    assert len(drawn) <= 5


def test_other_errors_are_named(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ServiceError, match="worker process: ZeroDivisionError"):
        list(through_processes([(5,)], broken))
    assert "divided_by_zero" in capfd.readouterr().err  # the trace is not lost


@pytest.mark.slow
def test_workers_that_never_get_ready_are_not_started_for_ever() -> None:
    with pytest.raises(ServiceError, match=r"ended with code 7 before it was ready, 3 times\. Try: .*__main__"):
        list(through_processes([(5,), (6,)], never_ready))


@pytest.mark.parametrize("workers", [0, True, 1.0])
def test_the_number_of_workers_is_checked(workers: object) -> None:
    with pytest.raises(ParameterError, match="workers must be a whole number >= 1"):
        list(through_processes([(5,)], doubling, workers=workers))


@pytest.mark.slow
def test_a_run_that_is_stopped_lets_workers_end_what_they_began(tmp_path: Path) -> None:
    cancel = Cancel()

    def stop() -> None:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        cancel.set()

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(CancelledError):
        list(through_processes([(1,), (2,)], partial(heeding, tmp_path), workers=1, cancel=cancel))
    stopping.join()
    assert (tmp_path / "ended").exists()


@contextmanager
def halving() -> Iterator[Callable[[Sequence[int]], Sequence[int]]]:
    yield halved


def halved(values: Sequence[int]) -> Sequence[int]:
    if any(value % 2 for value in values):
        raise ParameterError("value", values[0], "even")
    return [8 // value for value in values]


def results(open_work: ray_data.OpenStage, *batches: Sequence[object]) -> list[list[object]]:
    actor = ray_data._Actor(open_work)
    return [list(actor._results(batch)) for batch in batches]


def test_a_failure_is_the_result_of_its_batch_and_of_all_later_ones() -> None:
    first, *others = results(halving, [2], [3, 4], [2])
    assert first == [4]
    assert [len(batch) for batch in others] == [2, 1]
    assert {str(result.error) for batch in others for result in batch} == {"value must be even, got 3"}


def test_other_errors_of_an_actor_are_named() -> None:
    (batch,) = results(halving, [0])
    assert isinstance(batch[0].error, ServiceError)
    assert str(batch[0].error) == "Ray: ZeroDivisionError: integer division or modulo by zero"


def test_a_failure_of_the_stage_before_passes_through_and_does_no_harm() -> None:
    failed = Failed(ParameterError("value", 3, "even"))
    assert results(halving, [failed, failed], [2]) == [[failed, failed], [4]]


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_data, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"catena-server\[ray\]"):
        list(through_ray([1], [RayStage(open_work=halving)], batch_size=1))

"""What a stage's actor makes of failures, and what is said without Ray; Ray itself is in `tests/servers`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from catena.effects import Failed
from catena.model import MissingExtraError, ParameterError, ServiceError
from catena_server import ray_ingestion as ray_data
from catena_server.ray_ingestion import RayStage, through_ray


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


def test_other_errors_are_named() -> None:
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

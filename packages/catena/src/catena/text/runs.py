"""Part a sequence into runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def runs_of(items: Iterable[T], joins: Callable[[T, T], bool]) -> Iterator[list[T]]:
    """Yield runs of items, in order: each item of a run but the first joins the one before it.

    Args:
        items: any.
        joins: tells of an item and the next one whether that goes on with it.
    """
    run: list[T] = []
    for item in items:
        if run and not joins(run[-1], item):
            yield run
            run = []
        run.append(item)
    if run:
        yield run

"""Show progress on stderr: a bar with rate and remaining time in a terminal, else a plain line now and then."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from catena.cli.console import PLAIN, err

if TYPE_CHECKING:
    from rich.console import Console

    from catena.effects import Event


T = TypeVar("T")

LINE_SECONDS = 10.0  # between two lines where stderr is no terminal; what ends before the first writes none
_MINUTE = 60

Tell = Callable[..., None]
"""Called with `completed=` and, where they are known or changed, `total=`, `notes=` and `what=`."""


class RunState:
    """State of a run: its name, how much of it is done, and notes.

    Args:
        what: is being done.
        noun: of what is counted, in the plural; "" where the count says nothing to a reader.
        total: how many there are; None while that is not known.
        clock: seconds from any beginning.
    """

    def __init__(
        self, what: str, noun: str, total: int | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.what, self.noun, self.total, self.notes = what, noun, total, ""
        self.completed = 0
        self._clock, self._began = clock, clock()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return self._clock() - self._began

    def count(self) -> str:
        """Return e.g. "12/40 files", or a share where nothing is counted that has a name."""
        if self.noun:
            return f"{self.completed:,}/{'?' if self.total is None else f'{self.total:,}'} {self.noun}"
        return f"{self.completed / self.total:.0%}" if self.total else ""

    def pace(self) -> str:
        """Return the rate, and what is left if it goes on so, e.g. "3.1/s, 0:12 left"; "" while nothing is done."""
        if not self.completed:
            return ""
        seconds = max(self.seconds, 1e-3)
        left = (self.total or 0) - self.completed
        remaining = [f"{_clock_time(left * seconds / self.completed)} left"] * (left > 0)
        return ", ".join([_rate(self.completed / seconds)] * bool(self.noun) + remaining)

    def line(self) -> str:
        """Return all of it in one line."""
        parts = (self.count(), self.pace(), self.notes, f"{_clock_time(self.seconds)} so far")
        return f"{self.what}: {', '.join(filter(None, parts))}"


@contextmanager
def progress(what: str, noun: str = "", total: int | None = None) -> Iterator[Tell]:
    """Show how far a run is.

    Args:
        what: is being done.
        noun: of what is counted, in the plural.
        total: how many there are; None while that is not known.

    Yields:
        What to call at each step; nothing is written for a run that ends at once.
    """
    state, console = RunState(what, noun, total), err()
    drawn = console.is_terminal and not console.is_dumb_terminal and not PLAIN.get()
    with _bar(state, console) if drawn else _lines(state, console) as show:

        def tell(**changed: int | str | None) -> None:
            for name, value in changed.items():
                if value is not None:
                    setattr(state, name, value)
            show()

        yield tell


def counted(items: Iterable[T], what: str, noun: str, total: int | None = None) -> Iterator[T]:
    """Yield items one by one, and show how many are done."""
    known = len(items) if total is None and isinstance(items, Sized) else total
    with progress(what, noun, known) as tell:
        for done, item in enumerate(items, start=1):
            yield item
            tell(completed=done)


@contextmanager
def _bar(state: RunState, console: Console) -> Iterator[Callable[[], None]]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[told]}"), TimeElapsedColumn(),
        console=console, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task(state.what, total=state.total, told="")

        def show() -> None:
            told = " · ".join(filter(None, (state.count(), state.pace(), state.notes)))
            bar.update(
                task, description=state.what, completed=state.completed, total=state.total, told=told
            )  # fmt: skip

        yield show


@contextmanager
def _lines(state: RunState, console: Console) -> Iterator[Callable[[], None]]:
    said = 0.0

    def show() -> None:
        nonlocal said
        if state.seconds - said >= LINE_SECONDS:
            said = state.seconds
            console.print(state.line(), soft_wrap=True)

    yield show


def _rate(per_second: float) -> str:
    if per_second >= 1:
        return f"{per_second:,.0f}/s" if per_second >= 10 else f"{per_second:.1f}/s"
    return f"{per_second * _MINUTE:.1f}/min"


def _clock_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def notes_of(**counts: int) -> str:
    """Return e.g. "3 kept, 1 failed": what there is none of is left out."""
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


@contextmanager
def asking_bar(
    what: str, noun: str, total: int | None = None, *, again: str = ""
) -> Iterator[Callable[[Event], None]]:
    """Show how far a run is.

    Args:
        what: is being done.
        noun: of what one request is about, in the plural.
        total: how many there are; None for as many as were asked for so far.
        again: purpose of requests that repeat others, which are counted by themselves.

    Yields:
        What to tell of each request.
    """
    counts: Counter[str] = Counter()
    with progress(what, noun, total) as show:

        def tell(event: Event) -> None:
            counts[event.kind] += 1
            counts["again"] += event.purpose == again and event.kind in {"finished", "cached", "failed"}
            notes = notes_of(kept=counts["cached"], failed=counts["failed"], again=counts["again"])
            show(completed=event.done - counts["again"], total=total or event.total, notes=notes)

        yield tell

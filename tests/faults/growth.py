"""How fast the cost of a piece of work grows with the size of its input, on a machine that does other things too."""

from __future__ import annotations

import contextlib
import gc
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import TypeVar

TOLERANCE = 1.3  # times the ratio of the sizes: room for caches and for n log n
_AT_ONCE = 0.005  # seconds: shorter work is seldom put aside for others, and processor time is too coarse for it
_TICK = 0.004  # seconds: the step of processor time on coarse systems
_FURTHER = 4  # times the largest size, at which what looks steep is looked at once more
_SURE = 1.6  # times the ratio of these two sizes: a square takes 4, and a busy machine adds less
Item = TypeVar("Item")


class OutOfTimeError(Exception):
    """The work took more processor time than it was given."""


@contextlib.contextmanager
def clocked(seconds: float) -> Iterator[None]:
    """Raise `OutOfTimeError` in the body once this process has used so many seconds of processor time in it.

    A pattern that is tried is interrupted too: `re` looks for signals while it backtracks.
    """

    def ring(signum: int, frame: FrameType | None) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def cost(work: Callable[[Item], object], item: Item, *, repeats: int = 1, patience: float = 2.0) -> float:
    """Return the least seconds of so many runs, without those of other processes; infinity past `patience`."""
    times = []
    gc.disable()  # its passes over all objects alive are no cost of the work
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        try:
            with clocked(patience):
                work(item)
        except OutOfTimeError:
            times = [math.inf]
            break
        passed, used = time.perf_counter() - start, time.process_time() - used
        times.append(passed if passed < _AT_ONCE else min(passed, used + _TICK))
    gc.enable()
    return min(times)


def worse_than_linear(
    work: Callable[[Item], object],
    make: Callable[[int], Item],
    sizes: Sequence[int],
    *,
    floor: float,
    patience: float = 2.0,
    tries: int = 6,
    tolerance: float = TOLERANCE,
) -> str:
    """Return the times that show growth above linear, or "" where there is none.

    Growth is above linear where the time of the largest size is more than `tolerance` times the ratio of the
    sizes above that of the smallest. What looks so is measured again, each time with more repeats, and last at a
    larger size: what other processes slow down is not steep there, too.

    Args:
        work: what is measured.
        make: builds its input, of about the size given; not measured.
        sizes: rising.
        floor: seconds; a largest size that takes less is not compared, for no steep growth fits under it.
        patience: seconds of processor time for one run.
        tries: measurements, all of which must show it.
        tolerance: times the ratio of the sizes.
    """
    seen = ""
    for attempt in range(tries):
        times = []
        for size in sizes:
            times.append(cost(work, make(size), repeats=1 + 2 * attempt, patience=patience))
            if times[-1] == math.inf:
                break
        seen = ", ".join(f"{size}: {1000 * each:.2f} ms" for size, each in zip(sizes, times, strict=False))
        if times[-1] == math.inf:
            return seen
        if times[-1] < floor or times[-1] <= tolerance * times[0] * sizes[-1] / sizes[0]:
            return ""
    repeats, larger = 2 * tries, _FURTHER * sizes[-1]
    again = cost(work, make(sizes[-1]), repeats=repeats, patience=patience)
    further = cost(work, make(larger), repeats=repeats, patience=_FURTHER * patience)
    return seen if further > _SURE * _FURTHER * again else ""

"""Make flat figures of measured values: means with intervals, paired differences, percentiles of times, seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, quantiles
from time import perf_counter, process_time
from typing import TypeAlias, TypeVar

from catena.evaluation import MeanScore, bootstrap_interval, compare, holm

T = TypeVar("T")
Figures: TypeAlias = dict[str, float]
"""What a benchmark measured, by name."""
Tell: TypeAlias = Callable[[str], None]
"""Takes a line that says how far a benchmark is."""
PERCENT = 100.0
ROUNDS = 2_000  # bootstrap samples, and sign patterns of a test


def silent(_: str) -> None:
    """Take what is told, and show nothing."""


def mean_figures(
    key: str, values: Sequence[float], *, of: str = "", unit: float = 1.0, rounds: int = 10_000
) -> dict[str, float]:
    """Return `KEY.OF`, the mean times `unit`, and the ends of its 95% bootstrap interval `KEY.low.OF`, `KEY.high.OF`.

    Without `of` these are `KEY`, `KEY.low` and `KEY.high`; a single value is both ends.
    """
    low, high = bootstrap_interval(values, rounds=rounds) if len(values) > 1 else (values[0], values[0])
    end = f".{of}" if of else ""
    return {f"{key}{end}": unit * fmean(values), f"{key}.low{end}": unit * low, f"{key}.high{end}": unit * high}


def score_figures(key: str, of: str, mean: MeanScore) -> dict[str, float]:
    """Return `KEY.OF` in percent, and `KEY.low.OF` and `KEY.high.OF` where the mean has an interval."""
    found = {f"{key}.{of}": PERCENT * mean.value}
    if mean.interval is not None:
        found |= {f"{key}.{end}.{of}": PERCENT * at for end, at in zip(("low", "high"), mean.interval, strict=True)}
    return found


def paired_figures(
    measure: str, values: Mapping[str, Mapping[str, float]], pairs: Sequence[tuple[str, str]]
) -> dict[str, float]:
    """Return what one method has over another, in points of percent, question by question.

    `difference.MEASURE.A-B` with `.low` and `.high`, the ends of its 95% interval, `.p` of the randomisation test and
    `.p_holm`, the same corrected for the number of pairs.

    Args:
        measure: its name in the keys.
        values: method -> question -> a value in [0, 1].
        pairs: (A, B); one of which a method was not measured is left out.
    """
    tests = {
        f"difference.{measure}.{one}-{other}": compare(values[one], values[other], rounds=ROUNDS)
        for one, other in pairs
        if one in values and other in values
    }
    corrected = holm({key: test.p for key, test in tests.items()})
    figures: dict[str, float] = {}
    for key, test in tests.items():
        low, high = test.interval
        figures |= {key: PERCENT * test.difference, f"{key}.low": PERCENT * low, f"{key}.high": PERCENT * high}
        figures |= {f"{key}.p": test.p, f"{key}.p_holm": corrected[key]}
    return figures


def percentiles(key: str, times: Sequence[float], of: str = "") -> dict[str, float]:
    """Return the median and the 95th percentile as `KEY_p50` and `KEY_p95`, with `.OF` behind where that is given."""
    cuts = quantiles(times, n=20, method="inclusive") if len(times) > 1 else [*times] * 19
    return {f"{key}_p50{of and '.'}{of}": cuts[9], f"{key}_p95{of and '.'}{of}": cuts[18]}


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds that some work takes."""
    return timed(work, perf_counter)[0]


def timed(work: Callable[[], T], clock: Callable[[], float] = process_time) -> tuple[float, T]:
    """Return the seconds of processor time, or of another clock, that some work takes, and what it returns."""
    start = clock()
    result = work()
    return clock() - start, result

"""Ranks on a logarithmic scale: the arithmetic under the Log-Rank Index, exact for any gamma and any corpus size."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from math import exp, fsum, log, log1p
from typing import TypeAlias

import numpy as np

Place: TypeAlias = tuple[float, float]  # a piece stands at each rank from the first to the last with equal chance

_TINY_GAMMA = 1e-30  # below, the index is the linear 1 - (r-1)/(N-1) to the last bit, and products would underflow
_HUGE_GAMMA = 1e18  # above, ln(1 + gamma x) = ln gamma + ln x to the last bit, and products would overflow
_BLOCK = 1 << 20  # ranks summed at a time: 8 MiB


def log_rank_mean(places: Collection[Place], n: int, gamma: float) -> float:
    """Return `1 - mean ln(1 + gamma (r - 1)) / ln(1 + gamma (n - 1))` over at least one place; 1 for n = 1."""
    if n == 1:
        return 1.0
    gamma = max(gamma, _TINY_GAMMA)
    share = _mean_log(places, gamma) / _log_growth(n - 1, gamma)
    return min(1.0, max(0.0, 1.0 - share))  # the share may be one rounding above 1


def geometric_mean_rank(places: Collection[Place]) -> float:
    """Return exp(mean ln r), from 1, over at least one place."""
    return exp(_mean_log(places, 1.0))


def _mean_log(places: Collection[Place], gamma: float) -> float:
    return fsum(_place_log(first, last, gamma) for first, last in places) / len(places)


@lru_cache(maxsize=4096)  # the tail of unretrieved pieces is the same for every query of a run
def _place_log(first: float, last: float, gamma: float) -> float:
    """Return the mean of ln(1 + gamma (r - 1)) over the ranks first … last."""
    if first == last:
        return _log_growth(first - 1, gamma)
    start, stop = int(first) - 1, int(last)
    sums = [_log_sum(low, min(low + _BLOCK, stop), gamma) for low in range(start, stop, _BLOCK)]
    return fsum(sums) / (stop - start)


def _log_growth(offset: float, gamma: float) -> float:
    """Return ln(1 + gamma x); a plain logarithm would lose a small gamma x beside the 1."""
    if gamma > _HUGE_GAMMA:
        return log(gamma) + log(offset) if offset else 0.0
    return log1p(gamma * offset)


def _log_sum(low: int, high: int, gamma: float) -> float:
    """Return the sum of ln(1 + gamma x) over x = low … high - 1."""
    offsets = np.arange(low, high, dtype=np.float64)
    if gamma > _HUGE_GAMMA:
        offsets = offsets[offsets > 0]
        return float(np.log(offsets).sum()) + len(offsets) * log(gamma)
    return float(np.log1p(gamma * offsets).sum())

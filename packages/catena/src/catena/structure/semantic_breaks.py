"""Where a text changes its subject: how unlike neighbouring windows are, and the best breaks under length limits."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from catena.model.errors import ParameterError

_BLOCK = 2_048  # borders at once: what is computed for them fits a processor's cache
_NO_DIRECTION = 1e-12

Value: TypeAlias = tuple[int, float]  # minus the number of short segments, and the sum of gains: larger is better


def dissimilarities(vectors: NDArray[np.float32], *, reach: int) -> NDArray[np.float64]:
    """Return how unlike the units before and after each inner border are: `d_i = 1 - cos(before_i, after_i)`.

    `before_i` is the sum of the `reach` vectors before unit i, `after_i` that of unit i and the `reach - 1` after it;
    there are fewer at the ends of the text. A side without any direction (all zeros) is unlike nothing: d_i = 0.

    Args:
        vectors: one row per unit, shape (n, dim).
        reach: units on each side, >= 1; the more, the smoother.

    Returns:
        Shape (max(n - 1, 0),), in [0, 2]; element i is the border before unit i + 1. Time O(n * dim).

    Raises:
        ParameterError: `reach` is below 1.

    Source: TextTiling (Hearst, 1997), with vectors instead of counts of words.
    """
    if reach < 1:
        raise ParameterError("reach", reach, "at least 1 unit")
    found = np.zeros(max(len(vectors) - 1, 0), dtype=np.float64)
    for first in range(1, len(vectors), _BLOCK):
        last = min(first + _BLOCK, len(vectors))
        found[first - 1 : last - 1] = _unlike(vectors, np.arange(first, last), reach)
    return found


def _unlike(vectors: NDArray[np.float32], borders: NDArray[np.intp], reach: int) -> NDArray[np.float64]:
    """Return the dissimilarities at some borders that follow each other."""
    low, high = max(int(borders[0]) - reach, 0), min(int(borders[-1]) + reach, len(vectors))
    sums = np.zeros((high - low + 1, vectors.shape[1]), dtype=np.float64)
    np.cumsum(vectors[low:high], axis=0, dtype=np.float64, out=sums[1:])
    middle = sums[borders - low]
    before = middle - sums[np.maximum(borders - reach, low) - low]
    after = sums[np.minimum(borders + reach, high) - low] - middle
    lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    products = np.einsum("ij,ij->i", before, after)
    known = lengths > _NO_DIRECTION
    found = np.zeros(len(borders), dtype=np.float64)
    found[known] = 1.0 - np.clip(products[known] / lengths[known], -1.0, 1.0)
    return found


def depths(unlike: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far each border stands out from the calm around it: `(d_i - left_i) + (d_i - right_i)`.

    `left_i` is where d ends to fall on the way left from border i, `right_i` likewise: a text whose sentences differ
    all along has no deep borders, only the ones above their own neighbours are.

    Args:
        unlike: the dissimilarities d, shape (n,).

    Returns:
        Shape (n,), numbers >= 0; 0 at the calmest border between two others. Time O(n).

    Source: the depth score of TextTiling (Hearst, 1997).
    """
    return 2.0 * unlike - _descended(unlike) - _descended(unlike[::-1])[::-1]


def _descended(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the value at which a walk to the left ends that never goes up."""
    found: list[float] = []
    before, lowest = float("inf"), float("inf")
    for value in values.tolist():
        lowest = min(lowest, value) if value >= before else value
        found.append(lowest)
        before = value
    return np.array(found, dtype=np.float64)


def best_breaks(gains: Sequence[float], sizes: Sequence[int], *, shortest: int, longest: int) -> list[int]:
    """Return the breaks of greatest total gain among all divisions of n units into runs within length limits.

    A run of several units is never longer than `longest`; one unit that is longer by itself is a run of its own.
    Where no division keeps every run at least `shortest` long, one with the fewest short runs is taken; among
    these, the greatest sum of gains. Exact: a dynamic programme over the borders,

        best(j) = gain(j) + max { best(i) : i < j, the units i..j-1 are a run within the limits }

    whose maxima over sliding windows are kept in queues, so that it takes time O(n) whatever the limits.

    Args:
        gains: n - 1 numbers, of a break before unit 1, 2, …; a break of negative gain is made only to keep a limit.
        sizes: n lengths >= 0.
        shortest: length of a run, in the unit of `sizes`.
        longest: likewise, >= `shortest`.

    Returns:
        Ascending indexes of the units that begin a run, the first unit (0) left out. Of equal divisions the one
        whose runs are longer from the end of the text on.

    Raises:
        ParameterError: the numbers do not fit together.
    """
    count = len(sizes)
    if len(gains) != max(count - 1, 0):
        raise ParameterError("gains", f"{len(gains)} numbers", f"one per border between {count} units")
    if not 0 <= shortest <= longest:
        raise ParameterError("shortest and longest", (shortest, longest), "0 <= shortest <= longest")
    ends = [0]
    for size in sizes:
        ends.append(ends[-1] + size)
    best: list[Value] = [(0, 0.0)]
    came_from = [0]
    fitting: deque[int] = deque()  # borders i from which a run to j is within both limits, values falling
    short: deque[int] = deque()  # those from which it is too short
    next_fitting = 0
    for j in range(1, count + 1):
        _push(short, j - 1, best)
        while next_fitting < j and ends[j] - ends[next_fitting] >= shortest:
            _push(fitting, next_fitting, best)
            next_fitting += 1
        while short and short[0] < next_fitting:
            short.popleft()
        for queue in (fitting, short):
            while queue and queue[0] < j - 1 and ends[j] - ends[queue[0]] > longest:
                queue.popleft()
        choices = [(best[queue[0]], penalty, queue[0]) for queue, penalty in ((fitting, 0), (short, 1)) if queue]
        (shorts, total), i = max(
            (((value[0] - penalty, value[1]), border) for value, penalty, border in choices),
            key=lambda choice: choice[0],
        )  # the first of equals
        best.append((shorts, total + (gains[j - 1] if j < count else 0.0)))
        came_from.append(i)
    breaks: list[int] = []
    at = came_from[count]
    while at > 0:
        breaks.append(at)
        at = came_from[at]
    return breaks[::-1]


def _push(queue: deque[int], border: int, best: Sequence[Value]) -> None:
    while queue and best[queue[-1]] < best[border]:
        queue.pop()
    queue.append(border)

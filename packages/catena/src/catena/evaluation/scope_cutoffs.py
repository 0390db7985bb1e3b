"""Cutoffs that are not whole, or not the same: how methods that return unlike amounts of text are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import floor, fsum, isfinite

from catena.model.errors import EvaluationError, ParameterError


def at_cutoff(k: float, value: Callable[[int], float]) -> float:
    """Return a measure at a cutoff that need not be whole: `(1 - f) v(floor k) + f v(ceil k)`.

    It is what one expects of drawing the upper cutoff with probability f = k - floor k, as the paper's half and half
    does with f = 0.5. The k' = 1.5 and 6.5 results per view of MC-indexing, "1 or 2" and "6 or 7", are read in
    the same way, with `value` the coverage of the union of the first k' of each view.

    Args:
        k: pieces.
        value: v, the measure at a whole cutoff of 0 or more.

    Raises:
        ParameterError: k is not a finite number > 0.
    """
    _check_cutoff(k)
    lower = floor(k)
    share = k - lower
    return value(lower) if share == 0 else (1 - share) * value(lower) + share * value(lower + 1)


def whole_cutoffs(k: float, questions: int) -> tuple[int, ...]:
    """Return a whole cutoff for each question, in their order, with the mean k: 1, 2, 1, 2, … for k = 1.5.

    Question i (from 0) gets `floor(k (i + 1)) - floor(k i)`: the two cutoffs take turns, so that neither falls on
    one document only where questions are ordered by document.

    Args:
        k: pieces.
        questions: how many there are, at least 0.

    Raises:
        ParameterError: k is not a finite number > 0, or questions is negative.
    """
    _check_cutoff(k)
    if questions < 0:
        raise ParameterError("questions", questions, "a number >= 0")
    ends = [floor(round(k * number, 9)) for number in range(questions + 1)]  # rounded: 0.29 * 100 is 29
    return tuple(end - start for start, end in pairwise(ends))


def at_equal_count(points: Iterable[tuple[float, float]], k: float) -> float:
    """Return the recall at a mean of exactly k unique pieces, read off linearly between two measured points.

    Multi-view retrieval returns as many unique pieces as its views disagree; measured at k' = 1, 2, 3, … it gives
    points (mean unique pieces, mean recall). Recall is concave in k, so the line is a little pessimistic.

    Args:
        points: of one system over the same questions, in any order.
        k: pieces, between the lowest and the highest measured.

    Raises:
        EvaluationError: there are no points, or k lies outside them: nothing is extrapolated.
    """
    ordered = sorted(points)
    if not ordered or not ordered[0][0] <= k <= ordered[-1][0]:
        span = f"{ordered[0][0]:g} to {ordered[-1][0]:g}" if ordered else "none"
        raise EvaluationError(f"recall at {k:g} pieces lies outside what was measured ({span}). Try: more results")
    for (low, below), (high, above) in pairwise(ordered):
        if low <= k <= high and low < high:
            return below + (above - below) * (k - low) / (high - low)
    return fsum(recall for count, recall in ordered if count == k) / sum(1 for count, _ in ordered if count == k)


def equal_length_cutoff(k: float, tokens: float, of_reference: float) -> float:
    """Return the cutoff at which pieces of `tokens` tokens give as much text as k reference pieces (Table 10).

    `k of_reference / tokens`, both the mean tokens of a returned piece; it is seldom whole (see `at_cutoff`).

    Raises:
        ParameterError: an argument is not a finite number > 0.
    """
    _check_cutoff(k)
    for name, value in (("tokens", tokens), ("of_reference", of_reference)):
        if not (isfinite(value) and value > 0):
            raise ParameterError(name, value, "a finite number of tokens > 0")
    return k * of_reference / tokens


def _check_cutoff(k: float) -> None:
    if not (isfinite(k) and k > 0):
        raise ParameterError("k", k, "a finite number > 0")

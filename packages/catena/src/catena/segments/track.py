"""What selection works on: values of chunks laid end to end, which runs they form, and what each one costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from catena.model.errors import ParameterError

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pick:
    """A segment of a track: places [start, end), what it is worth, and to which query (from 0)."""

    start: int
    end: int
    value: float
    query: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Track:
    """Chunks laid end to end; a segment may begin and end anywhere within one run.

    A segment [i, j) costs j - i chunks, and `heads[i] + sum(tokens[i:j])` tokens.

    Attributes:
        values: shape (queries, n), finite.
        ends: where each run ends, ascending; the last is n. A run is a document, or a part of one without holes.
        tokens: shape (n,), what each chunk adds to a segment, >= 0; None where nothing is counted in tokens.
        heads: shape (n,), what a segment that begins there costs besides (its header), >= 0; None: nothing.
    """

    values: Floats
    ends: Ints
    tokens: Ints | None = None
    heads: Ints | None = None

    def __post_init__(self) -> None:
        n, ends = self.values.shape[1], self.ends
        if not np.isfinite(self.values).all():
            raise ParameterError("values", "nan or infinity", "finite numbers")
        if (ends[-1] if len(ends) else 0) != n or (np.diff(ends) < 0).any() or (ends < 0).any():
            raise ParameterError("ends", tuple(ends[:10].tolist()), f"ascending ends of runs, the last {n}")
        for name in ("tokens", "heads"):
            counted = getattr(self, name)
            if counted is not None and counted.shape != (n,):
                raise ParameterError(name, counted.shape, f"one number for each of {n} chunks")

    @property
    def size(self) -> int:
        """Return the number of chunks."""
        return int(self.values.shape[1])

    @cached_property
    def run_ends(self) -> Ints:
        """Return for each place where its run ends."""
        return np.repeat(self.ends, np.diff(self.ends, prepend=0))

    @cached_property
    def spent(self) -> Ints:
        """Return the tokens before each place, shape (n + 1,)."""
        counted = np.zeros(self.size, np.int64) if self.tokens is None else self.tokens
        return np.concatenate(([0], np.cumsum(counted, dtype=np.int64)))

    @cached_property
    def first_cost(self) -> Ints:
        """Return what a segment costs in tokens for where it begins."""
        return np.zeros(self.size, np.int64) if self.heads is None else self.heads

    def tokens_of(self, starts: Ints, ends: Ints) -> Ints:
        """Return the cost in tokens of segments [starts, ends)."""
        return self.first_cost[starts] + self.spent[ends] - self.spent[starts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one segment and all together may cost, and what one must be worth.

    Attributes:
        max_chunks: in one segment.
        budget: of all segments, in chunks, or in tokens where `in_tokens`.
        max_tokens: in one segment; None: no limit.
        minimum_value: of a segment.
    """

    max_chunks: int
    budget: int
    minimum_value: float
    in_tokens: bool = False
    max_tokens: int | None = None


def reaches(track: Track, limits: Limits, left: int | None = None) -> Ints:
    """Return for each start the last end that run, limits and budget allow; the start itself where none is.

    Args:
        track: the chunks.
        limits: of one segment and of all.
        left: what is left of the budget; None: all of it.
    """
    left = limits.budget if left is None else left
    starts = np.arange(track.size, dtype=np.int64)
    longest = limits.max_chunks if limits.in_tokens else min(limits.max_chunks, left)
    reach = np.minimum(starts + longest, track.run_ends)
    most = _most_tokens(limits, left)
    if most is not None:
        within = np.searchsorted(track.spent, track.spent[:-1] + most - track.first_cost, side="right") - 1
        reach = np.minimum(reach, np.maximum(within, starts))
    return reach


def _most_tokens(limits: Limits, left: int) -> int | None:
    bounds = [limits.max_tokens] if limits.max_tokens is not None else []
    return min(bounds + ([left] if limits.in_tokens else []), default=None)


def prefix_sums(values: Floats) -> Floats:
    """Return the sums of the values before each place, shape (n + 1,)."""
    return np.concatenate(([0.0], np.cumsum(values)))


def rounding(prefix: Floats, longest: int) -> float:
    """Return how far a difference of prefix sums can be from the sum of the same values added left to right.

    `cumsum` adds in order, so only the additions between the two places count: at most `longest` of them, each
    wrong by half a unit in the last place of the largest sum; the values added by themselves are wrong by less.
    """
    largest = float(np.abs(prefix).max(initial=0.0))
    return 4.0 * (longest + 2) * float(np.finfo(np.float64).eps) * largest

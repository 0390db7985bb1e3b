"""Rows that only grow: a large base that is never copied, perhaps a file's, and a small tail of what came later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """The rows of two arrays, those of the base first; equal to their concatenation."""

    base: NDArray[Any]
    tail: NDArray[Any]

    @classmethod
    def of(cls, base: NDArray[Any]) -> Layers:
        """Return an array as a base without a tail."""
        return cls(base, base[:0])

    def __len__(self) -> int:
        return len(self.base) + len(self.tail)

    def parts(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the arrays that have rows, each with the number of rows before it."""
        for start, part in ((0, self.base), (len(self.base), self.tail)):
            if len(part):
                yield start, part

    def take(self, rows: NDArray[np.integer]) -> NDArray[Any]:
        """Return a copy of some rows."""
        if not len(self.tail):
            return np.asarray(self.base[rows])
        taken = np.empty((len(rows), *self.base.shape[1:]), dtype=self.base.dtype)
        late = rows >= len(self.base)
        taken[~late] = self.base[rows[~late]]
        taken[late] = self.tail[rows[late] - len(self.base)]
        return taken

    def with_rows(self, rows: NDArray[Any]) -> Layers:
        """Return these rows and some more, which cost a copy of the tail alone."""
        return Layers(self.base, np.concatenate([self.tail, rows]))


def ranges(starts: NDArray[np.integer], counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the numbers of some ranges [start, start + count), one range after the other."""
    ends = counts.cumsum(dtype=np.int64)
    numbers: NDArray[np.int64] = (starts - (ends - counts)).repeat(counts)
    numbers += np.arange(len(numbers))
    return numbers


def distinct(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which of some values, ascending, are the first of their kind."""
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def starts_of(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return where each of some runs of these lengths begins, and the end of the last: one number more."""
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts

"""The k best of many scores, with ties settled by chunk id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Scored:
    """n chunk keys and their scores, each key once, in no order."""

    keys: NDArray[np.int64]
    scores: NDArray[np.float64]

    @classmethod
    def nothing(cls) -> Scored:
        """Return a result without hits."""
        return cls(np.empty(0, np.int64), np.empty(0))

    def among(self, allowed: NDArray[np.int64] | None) -> Scored:
        """Keep the chunks a filter allows; None allows all."""
        if allowed is None:
            return self
        kept = np.isin(self.keys, allowed)
        return Scored(self.keys[kept], self.scores[kept])

    def best(self, k: int, places: Callable[[], NDArray[np.int64]]) -> Scored:
        """Return the k best; of equal scores at the border, the smallest chunk ids.

        Args:
            k: how many, >= 0.
            places: returns for each chunk key the place of its id among all ids; called only when equal scores
                lie on both sides of the cut.
        """
        if len(self.keys) <= k:
            return self
        if k == 0:
            return Scored.nothing()
        border = np.partition(self.scores, len(self.scores) - k)[len(self.scores) - k]
        above = self.scores > border
        tied = self.keys[self.scores == border]
        room = k - int(above.sum())
        if len(tied) > room:
            tied = tied[np.argsort(places()[tied])[:room]]
        keys = np.concatenate([self.keys[above], tied])
        return Scored(keys, np.concatenate([self.scores[above], np.full(len(tied), border)]))

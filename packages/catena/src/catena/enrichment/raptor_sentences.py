"""Which sentences stand for many: near the middle of all of them, and unlike each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_RELEVANCE = 0.7  # weight of nearness to the middle against unlikeness to what is taken


def central_sentences(
    vectors: Sequence[NDArray[np.float64]], sizes: Sequence[int], *, sentences: int, words: int
) -> tuple[int, ...]:
    """Return the places of sentences that together stand for all of them, ascending.

    By maximal marginal relevance: one after the other, of those for which there is room, the sentence with the
    greatest `0.7 * cos(v, mean) - 0.3 * max(0, cos(v, u) for u taken)` is taken; of equal ones the first.

    Args:
        vectors: one row per sentence, of unit length or zero.
        sizes: words of each sentence.
        sentences: at most so many.
        words: at most so many in all.

    Returns:
        Places from 0; () where no sentence is short enough.

    Source: Carbonell and Goldstein, SIGIR 1998, doi:10.1145/290941.291025, with the mean of all sentences as query.
    """
    import numpy as np

    if not len(vectors):
        return ()
    rows = np.asarray(vectors, dtype=np.float64)
    mean = rows.mean(axis=0)
    relevance = rows @ mean / (float(np.linalg.norm(mean)) or 1.0)
    likeness = np.zeros(len(rows))
    is_open = np.ones(len(rows), dtype=bool)
    room, chosen = words, list[int]()
    while len(chosen) < sentences and (is_open := is_open & (np.asarray(sizes) <= room)).any():
        # rounded: what differs by less differs by the order in which a machine sums
        value = np.round(_RELEVANCE * relevance - (1 - _RELEVANCE) * likeness, 9)
        best = int(np.where(is_open, value, -np.inf).argmax())
        chosen.append(best)
        room -= sizes[best]
        is_open[best] = False
        likeness = np.maximum(likeness, rows @ rows[best])
    return tuple(sorted(chosen))

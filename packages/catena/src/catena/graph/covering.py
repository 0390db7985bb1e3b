"""Which nodes of a graph cover most of some terms: where the paper's seeds are sought."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from catena.graph.words import Words, word_number
from catena.text.words import word_keys

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from catena.graph.state import GraphState


def covering(state: GraphState, terms: Sequence[str], vector: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return the places of the k nodes that cover most of the terms, best first.

    A node covers a term when its text or its titles hold all words of the term. Ties go by the dot product with
    `vector`, then by place; a node that covers none is not among them. Time: one look at all words a distinct word.
    """
    covered = np.zeros(state.size, dtype=np.int32)
    for term in terms:
        words = sorted(set(word_keys(term)))
        if words:
            held = np.logical_and.reduce([_slots_with(state.words, word) for word in words])
            covered += held[state.slots]
    places = np.flatnonzero(covered)
    if len(places) > k > 0:  # whoever covers fewer than the k-th cannot be among the k
        places = places[covered[places] >= np.partition(covered[places], -k)[-k]]
    near = state.vectors.take(state.slots[places]) @ np.asarray(vector, dtype=np.float32)
    order = np.lexsort((places, -near, -covered[places]))
    return places[order[: max(k, 0)]]


def _slots_with(words: Words, word: str) -> NDArray[np.bool_]:
    held = np.zeros(len(words.starts), dtype=np.bool_)
    number = np.uint32(word_number(word))
    for before, part in words.words.parts():
        at = np.flatnonzero(part == number) + before
        held[np.searchsorted(words.starts, at, side="right") - 1] = True
    return held

"""A graph after nodes came and went: equal to one built anew, for the work of the nodes that changed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from catena.graph import semantic
from catena.graph.joins import Terms, terms_of
from catena.graph.layers import Layers
from catena.graph.mentions import titles_of
from catena.graph.state import GraphState, numbered_titles, without_own
from catena.graph.structural import standings
from catena.graph.words import Vocabulary, Words, numbers_said, title_number, titles_said

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.graph.node import Node
    from catena.graph.options import GraphOptions
    from catena.graph.semantic import Tick

P = TypeVar("P")
T = TypeVar("T", bound=np.generic)

_SPARE = 4_096  # slots beside the base, added or empty, that are always tolerated
_SPARE_PART = 0.2  # and this part of the base


class Places:
    """Where n nodes are after some of them went and others came between them.

    Attributes:
        alive: which of the old nodes stay, shape (n,).
        moved: the new place of each old node, -1 of one that went.
        added: the new places of those that came, ascending.
        size: how many there are now.
    """

    def __init__(self, ids: Sequence[str], added: Sequence[str], removed: NDArray[np.integer]) -> None:
        self.alive = np.ones(len(ids), bool)
        self.alive[removed] = False
        before = np.concatenate([[0], np.cumsum(self.alive)])  # nodes that stay, before each place
        self._at = before[[bisect_left(ids, each) for each in added]] if added else np.empty(0, np.int64)
        rank = before[:-1]
        self.moved = np.where(self.alive, rank + np.searchsorted(self._at, rank, side="right"), semantic.NOBODY)
        self.added = self._at + np.arange(len(added))
        self.size = int(before[-1]) + len(added)

    def merged(self, nodes: Sequence[P], added: Sequence[P]) -> tuple[P, ...]:
        """Return what belongs to the nodes that stay and to those that came, by place."""
        stay = nodes if self.alive.all() else tuple(compress(nodes, self.alive.tolist()))
        merged: list[P] = []
        start = 0
        for at, node in zip(self._at.tolist(), added, strict=True):
            merged.extend(stay[start:at])
            merged.append(node)
            start = at
        return (*merged, *stay[start:])

    def spread(self, old: NDArray[T], new: NDArray[T]) -> NDArray[T]:
        """Return an array by place from one of the old nodes and one of those that came."""
        spread = np.empty((self.size, *old.shape[1:]), old.dtype)
        spread[self.moved[self.alive]] = old[self.alive]
        spread[self.added] = new
        return spread


def updated_state(
    state: GraphState,
    places: Places,
    added: Sequence[Node],
    rows: NDArray[np.float32],
    *,
    options: GraphOptions,
    tick: Tick,
) -> GraphState:
    """Return the state after a change.

    Args:
        state: before it.
        places: where all nodes are after it.
        added: the nodes that came, ordered by id.
        rows: their vectors, of unit length or zero.
        options: of the graph.
        tick: told how far it is.
    """
    came = Words.of(added)
    went = Vocabulary.of(state.words.take(state.slots[~places.alive]))
    slots = places.spread(state.slots, len(state.vectors) + np.arange(len(added)))
    vectors, words = state.vectors.with_rows(rows), state.words.with_slots(came)
    bearers, sayers = _mentions(state, places, added, came, options)
    tight = GraphState(
        slots=slots,
        vectors=vectors,
        words=words,
        vocabulary=state.vocabulary.changed(added=Vocabulary.of(came), removed=went),
        reading=state.reading.changed(places.moved, places.added, standings(added)),
        nearest=semantic.updated(
            state.nearest,
            places.moved,
            places.added,
            slots=slots,
            vectors=vectors,
            tick=tick,
            exact=places.size <= options.exact_up_to,
        ),
        terms={
            kind.name: _changed(state.terms[kind.name], places, *terms_of(map(kind.terms, added)))
            for kind in options.term_kinds
        },
        sayers=sayers,
        bearers=bearers,
    )
    spare = len(vectors.tail) + len(vectors) - places.size
    return compact(tight) if spare > max(_SPARE, _SPARE_PART * len(vectors.base)) else tight


def compact(state: GraphState) -> GraphState:
    """Return the same state with the slots in the order of the places, and none beside them."""
    vectors = Layers.of(np.ascontiguousarray(state.vectors.take(state.slots)))
    return replace(state, slots=np.arange(state.size), vectors=vectors, words=state.words.take(state.slots))


def _changed(index: Terms, places: Places, who: NDArray[np.integer], terms: NDArray[np.uint64]) -> Terms:
    return index.changed(places.moved, places.added[who], terms, places.size)


def _mentions(
    state: GraphState, places: Places, added: Sequence[Node], came: Words, options: GraphOptions
) -> tuple[Terms, Terms]:
    """Return who bears which title, and who says it: new texts may say all titles, old ones new titles."""
    titles = [titles_of(node) for node in added] if options.mentions else [()] * len(added)
    borne = numbered_titles(titles)
    bearers = _changed(state.bearers, places, *borne)
    who, said = without_own(numbers_said(came, bearers.keys), borne)
    fresh = {title for each in titles for title in each}
    known = set(state.bearers.keys[np.isin(state.bearers.keys, borne[1], kind="sort")].tolist())
    unknown = [title for title in fresh if title_number(title) not in known]
    slots, heard = titles_said(state.words, unknown)
    old = state.places[slots]
    here = np.where(old == semantic.NOBODY, semantic.NOBODY, places.moved[old])
    all_places = np.concatenate([here[here != semantic.NOBODY], places.added[who]])
    all_titles = np.concatenate([heard[here != semantic.NOBODY], said])
    order = np.lexsort((all_titles, all_places))
    sayers = state.sayers.changed(places.moved, all_places[order], all_titles[order], places.size)
    return bearers, sayers.only(bearers.keys)

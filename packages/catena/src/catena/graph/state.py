"""Hold a graph as arrays over its nodes: compute all of them from the nodes, or renew them after a change.

A changed graph equals one built anew, for the work of the nodes that changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from catena.graph import semantic
from catena.graph.options import GraphOptions, Node, Title, titles_of
from catena.graph.semantic import NO_NODE, NearestNodes, Tick
from catena.graph.term_index import (
    GrowingRows,
    NodeWords,
    TermIndex,
    TermPairs,
    Vocabulary,
    distinct,
    numbers_said,
    starts_of,
    term_number,
    terms_of,
    title_number,
    titles_said,
)

P = TypeVar("P")
T = TypeVar("T", bound=np.generic)

_SPARE = 4_096  # slots beside the base, added or empty, that are always tolerated
_SPARE_PART = 0.2  # and this part of the base


class PlaceChanges:
    """The places of n nodes after some of them went and others came between them.

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
        self.moved = np.where(self.alive, rank + np.searchsorted(self._at, rank, side="right"), NO_NODE)
        self.added = self._at + np.arange(len(added))
        self.size = int(before[-1]) + len(added)

    def merged(self, nodes: Sequence[P], added: Sequence[P]) -> tuple[P, ...]:
        """Merge values of the old nodes and of those that came, by place, without those of nodes that went."""
        stay = nodes if self.alive.all() else tuple(compress(nodes, self.alive.tolist()))
        merged: list[P] = []
        start = 0
        for at, node in zip(self._at.tolist(), added, strict=True):
            merged.extend(stay[start:at])
            merged.append(node)
            start = at
        return (*merged, *stay[start:])

    def spread(self, old: NDArray[T], new: NDArray[T]) -> NDArray[T]:
        """Merge an array of the old nodes and one of those that came into one by place."""
        spread = np.empty((self.size, *old.shape[1:]), old.dtype)
        spread[self.moved[self.alive]] = old[self.alive]
        spread[self.added] = new
        return spread


@dataclass(frozen=True, slots=True, eq=False)
class ReadingOrder:
    """The places of n nodes in their documents, and their neighbours there.

    Attributes:
        documents: number of each node's document, shape (n,), uint64.
        positions: of each node in it, shape (n,), int64.
        beside: the nodes before and after each, shape (n, 2), int32; -1 where there is none.
    """

    documents: NDArray[np.uint64]
    positions: NDArray[np.int64]
    beside: NDArray[np.int32]

    @classmethod
    def of(cls, documents: NDArray[np.uint64], positions: NDArray[np.int64]) -> ReadingOrder:
        """Find the next node in reading order on either side; of equal positions the lower place comes first."""
        beside = np.full((len(documents), 2), NO_NODE, np.int32)
        order = np.lexsort((positions, documents))
        here, there = order[:-1], order[1:]
        same = documents[here] == documents[there]
        beside[there[same], 0] = here[same]
        beside[here[same], 1] = there[same]
        return cls(documents, positions, beside)


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphState:
    """n nodes, ordered by the ids of their chunks: a place is an index into that order, and ties by place are by id.

    Vectors and words lie in slots, which are only added, so that a small change copies little; all else is by place.

    Attributes:
        slots: of each node, shape (n,), int64.
        vectors: of all slots, of unit length or zero, float32.
        words: of all slots.
        vocabulary: number of nodes that hold each word.
        reading: places of the nodes in their documents.
        nearest: of each node.
        terms: by kind of edge.
        mentions: titles of others that each node's text holds; none without `GraphOptions.mentions`.
        titles: under which each node may be mentioned.
    """

    slots: NDArray[np.int64]
    vectors: GrowingRows
    words: NodeWords
    vocabulary: Vocabulary
    reading: ReadingOrder
    nearest: NearestNodes
    terms: Mapping[str, TermIndex]
    mentions: TermIndex
    titles: TermIndex

    @property
    def size(self) -> int:
        """Return n."""
        return len(self.slots)

    @property
    def dim(self) -> int:
        """Return the length of a vector."""
        return int(self.vectors.base.shape[1])

    @cached_property
    def places(self) -> NDArray[np.int32]:
        """Return the place of the node in each slot, -1 where there is none any more."""
        places = np.full(len(self.vectors), NO_NODE, np.int32)
        places[self.slots] = np.arange(self.size, dtype=np.int32)
        return places

    @cached_property
    def near(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        """Return the edges by meaning of all nodes: the start of those of each node, their targets, their cosines.

        A node is joined to those in its list, and to those in whose lists it is; a cosine of 0 or less joins nothing.
        """
        own, at = np.nonzero((self.nearest.cosines > 0) & (self.nearest.places != NO_NODE))
        other, cosine = self.nearest.places[own, at].astype(np.int64), self.nearest.cosines[own, at]
        size = max(self.size, 1)
        pairs = np.concatenate([own * size + other, other * size + own])
        order = pairs.argsort(kind="stable")  # of two that list each other, the cosine of the own list comes first
        first = order[distinct(pairs[order])]
        source, target = np.divmod(pairs[first], size)
        starts = starts_of(np.bincount(source, minlength=self.size))
        return starts, target.astype(np.int32), np.concatenate([cosine, cosine])[first]


def state_of(
    nodes: Sequence[Node], vectors: NDArray[np.float32], nearest: NearestNodes, options: GraphOptions
) -> GraphState:
    """Return the state of a whole graph.

    Args:
        nodes: ordered by id.
        vectors: theirs, of unit length or zero.
        nearest: their neighbours by meaning.
        options: of the graph.
    """
    words, size = NodeWords.of(nodes), len(nodes)
    titles = [titles_of(node) if options.mentions else () for node in nodes]
    own = _numbered(titles)
    held = titles_said(words, {title for each in titles for title in each})
    return GraphState(
        slots=np.arange(size),
        vectors=GrowingRows.of(vectors),
        words=words,
        vocabulary=Vocabulary.of(words),
        reading=ReadingOrder.of(*_positions(nodes)),
        nearest=nearest,
        terms={kind.name: TermIndex.of_pairs(*terms_of(map(kind.terms, nodes)), size) for kind in options.term_kinds},
        mentions=TermIndex.of_pairs(*_without(held, own), size),
        titles=TermIndex.of_pairs(*own, size),
    )


def updated_state(
    state: GraphState,
    places: PlaceChanges,
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

    def changed(index: TermIndex, nodes: NDArray[np.integer], terms: NDArray[np.uint64]) -> TermIndex:
        return index.changed(places.moved, places.added[nodes], terms, places.size)

    came = NodeWords.of(added)
    documents, positions = _positions(added)
    reading, spread = state.reading, places.spread
    went = Vocabulary.of(state.words.take(state.slots[~places.alive]))
    slots = places.spread(state.slots, len(state.vectors) + np.arange(len(added)))
    vectors = state.vectors.with_rows(rows)
    moves, exact = (places.moved, places.added), places.size <= options.exact_up_to
    near = semantic.updated(state.nearest, *moves, slots=slots, vectors=vectors, tick=tick, exact=exact)
    titles = [titles_of(node) if options.mentions else () for node in added]
    own = _numbered(titles)
    all_titles = changed(state.titles, *own)
    mentions = _changed_mentions(state, places, titles, own, _without(numbers_said(came, all_titles.keys), own))
    grown = GraphState(
        slots=slots,
        vectors=vectors,
        words=state.words.with_slots(came),
        vocabulary=state.vocabulary.changed(added=Vocabulary.of(came), removed=went),
        reading=ReadingOrder.of(spread(reading.documents, documents), spread(reading.positions, positions)),
        nearest=near,
        terms={
            kind.name: changed(state.terms[kind.name], *terms_of(map(kind.terms, added)))
            for kind in options.term_kinds
        },
        mentions=mentions.only(all_titles.keys),
        titles=all_titles,
    )
    spare = len(vectors.tail) + len(vectors) - places.size
    return compact(grown) if spare > max(_SPARE, _SPARE_PART * len(vectors.base)) else grown


def compact(state: GraphState) -> GraphState:
    """Return the same state with the slots in the order of the places, and none beside them."""
    vectors = GrowingRows.of(np.ascontiguousarray(state.vectors.take(state.slots)))
    return replace(state, slots=np.arange(state.size), vectors=vectors, words=state.words.take(state.slots))


def _changed_mentions(
    state: GraphState, places: PlaceChanges, titles: Sequence[Sequence[Title]], own: TermPairs, held: TermPairs
) -> TermIndex:
    """Return the mentions after a change: new texts may hold all titles, old texts the new ones.

    Args:
        state: before it.
        places: where all nodes are after it.
        titles: of the nodes that came.
        own: the same as pairs.
        held: the titles of others that the texts of these nodes hold, as pairs.
    """
    known = set(state.titles.keys[np.isin(state.titles.keys, own[1], kind="sort")].tolist())
    fresh = {title for each in titles for title in each if title_number(title) not in known}
    slots, numbers = titles_said(state.words, fresh)
    old = state.places[slots]
    here = np.where(old == NO_NODE, NO_NODE, places.moved[old])
    alive = here != NO_NODE
    nodes = np.concatenate([here[alive], places.added[held[0]]])
    numbers = np.concatenate([numbers[alive], held[1]])
    order = np.lexsort((numbers, nodes))
    return state.mentions.changed(places.moved, nodes[order], numbers[order], places.size)


def _positions(nodes: Sequence[Node]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the number of each node's document, and its position there."""
    known = {name: term_number(name) for name in {node.chunk.document_id for node in nodes}}
    documents = np.array([known[node.chunk.document_id] for node in nodes], np.uint64)
    return documents, np.array([node.chunk.position for node in nodes], np.int64)


def _numbered(titles: Sequence[Sequence[Title]]) -> TermPairs:
    """Return the titles of nodes 0, 1, ... as pairs (place, number of title), each once, ordered."""
    numbers = [sorted({title_number(title) for title in each}) for each in titles]
    places = np.repeat(np.arange(len(titles)), [len(each) for each in numbers])
    return places, np.array([number for each in numbers for number in each], np.uint64)


def _without(pairs: TermPairs, others: TermPairs) -> TermPairs:
    """Return pairs that are not among others: no node mentions itself."""
    pair = np.dtype([("place", np.int64), ("title", np.uint64)])
    one, other = np.empty(len(pairs[0]), pair), np.empty(len(others[0]), pair)
    one["place"], one["title"] = pairs
    other["place"], other["title"] = others
    kept = ~np.isin(one, other)
    return pairs[0][kept], pairs[1][kept]

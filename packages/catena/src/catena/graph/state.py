"""What a graph is made of: arrays over its nodes, and how all of them are computed from the nodes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from catena.graph.joins import Terms, terms_of
from catena.graph.layers import Layers, distinct, starts_of
from catena.graph.mentions import titles_of
from catena.graph.semantic import NOBODY, Nearest
from catena.graph.structural import Reading, standings
from catena.graph.words import Vocabulary, Words, title_number, titles_said

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.graph.node import Node
    from catena.graph.options import GraphOptions


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphState:
    """n nodes, ordered by the ids of their chunks: a place is an index into that order, and ties by place are by id.

    Vectors and words lie in slots, which are only added, so that a small change copies little; all else is by place.

    Attributes:
        slots: of each node, shape (n,), int64.
        vectors: of all slots, of unit length or zero, float32.
        words: of all slots.
        vocabulary: in how many of the nodes each word is.
        reading: where the nodes stand in their documents.
        nearest: of each node.
        terms: by kind of edge.
        sayers: titles of others that stand in each node's text; nothing without mentions.
        bearers: titles under which each node may be mentioned.
    """

    slots: NDArray[np.int64]
    vectors: Layers
    words: Words
    vocabulary: Vocabulary
    reading: Reading
    nearest: Nearest
    terms: Mapping[str, Terms]
    sayers: Terms
    bearers: Terms

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
        places = np.full(len(self.vectors), NOBODY, np.int32)
        places[self.slots] = np.arange(self.size, dtype=np.int32)
        return places

    @cached_property
    def near(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        """Return the edges by meaning of all nodes: where those of each node start, where they lead, the cosines.

        A node is joined to those in its list, and to those in whose lists it is; a cosine of 0 or less joins nothing.
        """
        own, at = np.nonzero((self.nearest.cosines > 0) & (self.nearest.places != NOBODY))
        other, cosine = self.nearest.places[own, at].astype(np.int64), self.nearest.cosines[own, at]
        size = max(self.size, 1)
        pairs = np.concatenate([own * size + other, other * size + own])
        order = pairs.argsort(kind="stable")  # of two that list each other, the cosine of the own list comes first
        first = order[distinct(pairs[order])]
        source, target = np.divmod(pairs[first], size)
        starts = starts_of(np.bincount(source, minlength=self.size))
        return starts, target.astype(np.int32), np.concatenate([cosine, cosine])[first]


def state_of(
    nodes: Sequence[Node], vectors: NDArray[np.float32], nearest: Nearest, options: GraphOptions
) -> GraphState:
    """Return the state of a whole graph.

    Args:
        nodes: ordered by id.
        vectors: theirs, of unit length or zero.
        nearest: their neighbours by meaning.
        options: of the graph.
    """
    words = Words.of(nodes)
    size = len(nodes)
    titles = [titles_of(node) for node in nodes] if options.mentions else [()] * size
    borne = numbered_titles(titles)
    said = titles_said(words, {title for each in titles for title in each})
    return GraphState(
        slots=np.arange(size),
        vectors=Layers.of(vectors),
        words=words,
        vocabulary=Vocabulary.of(words),
        reading=Reading.of(*standings(nodes)),
        nearest=nearest,
        terms={kind.name: Terms.of_pairs(*terms_of(map(kind.terms, nodes)), size) for kind in options.term_kinds},
        sayers=Terms.of_pairs(*without_own(said, borne), size),
        bearers=Terms.of_pairs(*borne, size),
    )


def numbered_titles(
    titles: Sequence[Sequence[tuple[str, ...]]],
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the titles of nodes 0, 1, ... as pairs (place, number of title), each once, ordered."""
    numbers = [sorted({title_number(title) for title in each}) for each in titles]
    places = np.repeat(np.arange(len(titles)), [len(each) for each in numbers])
    return places, np.array([number for each in numbers for number in each], np.uint64)


def without_own(
    said: tuple[NDArray[np.integer], NDArray[np.uint64]], borne: tuple[NDArray[np.integer], NDArray[np.uint64]]
) -> tuple[NDArray[np.integer], NDArray[np.uint64]]:
    """Return the pairs of what nodes say that are not among the pairs of what they bear: nobody mentions himself."""
    pair = np.dtype([("place", np.int64), ("title", np.uint64)])
    one, other = np.empty(len(said[0]), pair), np.empty(len(borne[0]), pair)
    one["place"], one["title"] = said
    other["place"], other["title"] = borne
    kept = ~np.isin(one, other)
    return said[0][kept], said[1][kept]

"""Hold the nodes of a graph and the edges between them as arrays, so that a hop costs no loop."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STRUCTURAL = "structural"
"""Next to each other in their document; weight 1."""
SEMANTIC = "semantic"
"""One among the nearest of the other; weight: their cosine."""
KEYWORD = "keyword"
"""More shared keywords than a threshold; weight: their number."""
NAME = "name"
"""Rare names or phrases that both texts hold; weight: the sum of their rarities. Ours."""
MENTION = "mention"
"""The text of the first holds a title of the second; weight: the rarity of the title. Ours."""
MENTIONED = "mentioned"
"""The same edge, seen from the second: a title of the first is held by the text of the second."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nodes:
    """n nodes as arrays; row i is that of `ids[i]`.

    Attributes:
        ids: of their chunks.
        vectors: of unit length (or zero, where a chunk has none), shape (n, dim), float32.
        counts: how often each word that was asked for is in the text or the titles, shape (n, words), int32.
        in_title: whether it is in a title, shape (n, words), bool.
        lengths: words of the text and the titles, shape (n,), int32.
        title_lengths: words of the titles, shape (n,), int32.
    """

    ids: tuple[str, ...]
    vectors: NDArray[np.float32]
    counts: NDArray[np.int32]
    in_title: NDArray[np.bool_]
    lengths: NDArray[np.int32]
    title_lengths: NDArray[np.int32]

    def take(self, rows: NDArray[np.integer]) -> Nodes:
        """Return some of the nodes, in the order of `rows`; one may be there twice."""
        arrays = {each.name: getattr(self, each.name)[rows] for each in fields(self) if each.name != "ids"}
        return Nodes(ids=tuple([self.ids[row] for row in rows.tolist()]), **arrays)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighbourhood:
    """The neighbours of some nodes, each once, by ascending id, and the edges to them.

    Edge e leads from `sources[source[e]]` to `nodes.ids[target[e]]`; edges are ordered by (source, target), no two
    are of the same pair, and none leads to its own source.

    Attributes:
        sources: the ids that were asked for, in that order, without those that the graph does not have.
        source, target: places in `sources` and in `nodes.ids`, shape (edges,), int32.
        kinds: of edges that the graph has, or that were asked for, sorted; "mention" and "mentioned" are two.
        weights: 0 where a kind does not join the two, shape (edges, kinds), float32.
    """

    sources: tuple[str, ...]
    nodes: Nodes
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    kinds: tuple[str, ...]
    weights: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class WordCounts:
    """Number of a graph's nodes, of their words on average, and of the nodes that have each word."""

    nodes: int
    mean_length: float
    holding: tuple[int, ...]

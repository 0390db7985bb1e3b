"""Build the chunk-interaction graph in memory from nodes and vectors, keep it up to date, answer walks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catena.effects import Cancel, CountWords, DescribeEdges, Expand, FetchById, FetchNodes, FindCovering
from catena.graph.edges import JoinedBy, NodeSets, all_edges, joined_by, shared_words
from catena.graph.options import GraphOptions, Node
from catena.graph.semantic import Tick, nearest, unit
from catena.graph.state import GraphState, PlaceChanges, state_of, updated_state
from catena.graph.storage import load, save, to_line, to_networkx, to_node, write_graphml
from catena.graph.term_index import starts_of
from catena.model import (
    MENTION,
    MENTIONED,
    CancelledError,
    Chunk,
    Edge,
    Neighbourhood,
    Nodes,
    ParameterError,
    WordCounts,
    digest,
)
from catena.text.words import word_keys

if TYPE_CHECKING:
    import networkx

_EDGES_KEPT = 1 << 14  # nodes whose edges are kept once they were asked for; some kilobytes each
_NODES_KEPT = 1 << 10  # nodes that are kept once their lines were read


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphProgress:
    """Progress of the building of a graph: parts of the work that are done, of all."""

    done: int
    total: int


Progress: TypeAlias = Callable[[GraphProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EdgeTable:
    """All edges of one kind, by rows; those of node i are in [starts[i], starts[i + 1]), by ascending target.

    A kind that has no direction has each edge twice, once from either end.

    Attributes:
        starts: shape (nodes + 1,), int64.
        targets: places in `ChunkGraph.ids`, shape (edges,), int32.
        weights: above 0, shape (edges,), float32.
    """

    starts: NDArray[np.int64]
    targets: NDArray[np.int32]
    weights: NDArray[np.float32]

    @property
    def sources(self) -> NDArray[np.int32]:
        """Return the place from which each edge leads."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))


class ChunkGraph:
    """A chunk-interaction graph, never changed: an update returns another one. It is a `catena.effects.ports.Graph`.

    The order in which nodes come, the number of threads and the hash seed change nothing; ties go by id.

    Source: IIER (arXiv 2408.02907), section 3.1.
    """

    def __init__(
        self, nodes: tuple[Node | bytes, ...], ids: tuple[str, ...], state: GraphState, options: GraphOptions
    ) -> None:
        self._nodes = nodes  # lines of a file (`to_node`) where they were loaded
        self._state = state
        self.ids = ids
        self.options = options

    @classmethod
    def build(
        cls,
        nodes: Sequence[Node],
        vectors: ArrayLike,
        options: GraphOptions | None = None,
        *,
        progress: Progress | None = None,
        cancel: Cancel | None = None,
    ) -> ChunkGraph:
        """Return the graph of some nodes.

        Args:
            nodes: of distinct chunks, in any order.
            vectors: of each node, shape (nodes, dim); they are scaled to unit length, and a zero row is near none.
            options: which edges there are.
            progress: told how far it is, some thousand times at most.
            cancel: stops it.

        Raises:
            ParameterError: two nodes of one id; vectors of another shape, or not finite.
            MissingExtraError: more nodes than `options.exact_up_to`, and no library for approximate neighbours.
            CancelledError: stopped.
        """
        options = options or GraphOptions()
        if not isinstance(options, GraphOptions):
            raise ParameterError("options", options, "GraphOptions(...) or None")
        ordered, rows = in_order(nodes, vectors)
        exact = len(rows) <= options.exact_up_to
        lists = nearest(rows, options.neighbours, ticker(progress, cancel), exact=exact)
        return cls(ordered, tuple(node.id for node in ordered), state_of(ordered, rows, lists, options), options)

    def updated(
        self,
        *,
        added: Sequence[Node] = (),
        vectors: ArrayLike = (),
        removed: Collection[str] = (),
        progress: Progress | None = None,
        cancel: Cancel | None = None,
    ) -> ChunkGraph:
        """Return the graph with nodes more, and others less: equal to one that is built of what is left.

        A node is replaced by removing and adding it in one call. (Above `options.exact_up_to` nodes the neighbours by
        meaning of newcomers are exact, while those of a graph built at once are not.)

        Args:
            added: of distinct chunks, none of which stays in the graph.
            vectors: of each of them, shape (added, dim).
            removed: ids of nodes of the graph.
            progress: told how far it is.
            cancel: stops it; this graph is as it was.

        Raises:
            ParameterError: unknown ids in `removed`, ids in `added` twice or in the graph already, or vectors of
                another shape or not finite.
            CancelledError: stopped.
        """
        given = vectors if len(added) else np.empty((0, self.dim))
        newcomers, rows = in_order(added, given)
        if len(added) and rows.shape[1] != self.dim and len(self):
            raise ParameterError("vectors", rows.shape, f"of shape ({len(added)}, {self.dim}), as the graph's are")
        gone = {self._known_place(each) for each in removed}
        if len(gone) == len(self):
            return self.build(added, given, self.options, progress=progress, cancel=cancel)
        for node in newcomers:
            if (place := self._place(node.id)) is not None and place not in gone:
                allowed = "of new chunks, or also in `removed`"
                raise ParameterError("added", f"chunk {node.id!r} of the graph", allowed)
        new_ids = [node.id for node in newcomers]
        places = PlaceChanges(self.ids, new_ids, np.array(sorted(gone), np.int64))
        tick = ticker(progress, cancel)
        state = updated_state(self._state, places, newcomers, rows, options=self.options, tick=tick)
        return ChunkGraph(
            places.merged(self._nodes, newcomers), places.merged(self.ids, new_ids), state, self.options
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce__(self) -> tuple[type[ChunkGraph], tuple[object, ...]]:  # what is kept for speed stays here
        return ChunkGraph, (self._nodes, self.ids, self._state, self.options)

    def __contains__(self, chunk_id: object) -> bool:
        return isinstance(chunk_id, str) and self._place(chunk_id) is not None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of edge that it has, sorted."""
        return self.options.all_kinds

    @property
    def dim(self) -> int:
        """Return the length of its vectors."""
        return self._state.dim

    @cached_property
    def identity(self) -> str:
        """A name that graphs of equal nodes, vectors and options share, and no others."""
        vectors = np.ascontiguousarray(self._state.vectors.take(self._state.slots))
        return digest(self.options.identity, *map(to_line, self._nodes), vectors.tobytes())

    def chunk(self, chunk_id: str) -> Chunk:
        """Return the chunk of a node.

        Raises:
            ParameterError: the graph has no such node.
        """
        return self.node(chunk_id).chunk

    def node(self, chunk_id: str) -> Node:
        """Return a node.

        Raises:
            ParameterError: the graph has no such node.
        """
        return self._node_at(self._known_place(chunk_id))

    def expand(self, request: Expand) -> Neighbourhood:
        """Return the neighbours of nodes, and the edges by which they are.

        Raises:
            ParameterError: a kind of edge that the graph does not have.
        """
        kinds = self._kinds(request.kinds)
        sources = tuple(each for each in dict.fromkeys(request.chunk_ids) if each in self)
        source, target, weights = self._edges_of(sources, kinds)
        places, at = (target, np.arange(len(target))) if len(sources) == 1 else np.unique(target, return_inverse=True)
        return Neighbourhood(
            sources=sources,
            nodes=self._nodes_at(places, request.words),
            source=source.astype(np.int32),
            target=at.astype(np.int32),
            kinds=kinds,
            weights=weights,
        )

    def nodes(self, request: FetchNodes) -> Nodes:
        """Return nodes by id, in the order asked for, without those that it does not have."""
        return self._nodes_at(self._places([each for each in request.chunk_ids if each in self]), request.words)

    def count_words(self, request: CountWords) -> WordCounts:
        """Return in how many nodes each word is."""
        vocabulary = self._state.vocabulary
        return WordCounts(
            nodes=len(self),
            mean_length=vocabulary.length / len(self) if len(self) else 0.0,
            holding=vocabulary.holding_of(request.words),
        )

    def chunks_by_id(self, request: FetchById) -> tuple[Chunk | None, ...]:
        """Return the chunk of each id, None where there is none."""
        places = [self._place(each) for each in request.chunk_ids]
        return tuple(None if place is None else self._node_at(place).chunk for place in places)

    def covering(self, request: FindCovering) -> Nodes:
        """Return the nodes that cover most of some terms, best first, `k` at most.

        A node covers a term when its text or its titles hold all words of the term. Ties go by the dot product with
        the vector, then by id; a node that covers none is left out. Time: one look at all words a distinct word.

        Raises:
            ParameterError: the vector of the question is of another length than the nodes'.
        """
        if len(self) and np.shape(request.vector) != (self.dim,):
            allowed = f"of shape ({self.dim},): by the embedder of the graph's nodes"
            raise ParameterError("vector of the question", np.shape(request.vector), allowed)
        state, k = self._state, request.k
        covered = np.zeros(state.size, dtype=np.int32)
        for term in request.terms:
            if words := sorted(set(word_keys(term))):
                covered += np.logical_and.reduce([state.words.slots_with(word) for word in words])[state.slots]
        places = np.flatnonzero(covered)
        if len(places) > k > 0:  # a node that covers fewer than the k-th cannot be among the k
            places = places[covered[places] >= np.partition(covered[places], -k)[-k]]
        cosines = state.vectors.take(state.slots[places]) @ np.asarray(request.vector, dtype=np.float32)
        order = np.lexsort((places, -cosines, -covered[places]))
        return self._nodes_at(places[order[: max(k, 0)]], request.words)

    def describe_edges(self, request: DescribeEdges) -> tuple[Edge | None, ...]:
        """Return the edges of pairs of chunks, each seen from its first; None where nothing joins them."""
        return tuple(self._edge(self._place(one), self._place(other)) for one, other in request.pairs)

    def edge(self, one: str, other: str) -> Edge | None:
        """Return the edge of two chunks, seen from the first; None where nothing joins them.

        Raises:
            ParameterError: the graph has no such node.
        """
        self._known_place(one), self._known_place(other)
        (edge,) = self.describe_edges(DescribeEdges(pairs=((one, other),)))
        return edge

    def _edge(self, one: int | None, other: int | None) -> Edge | None:
        """Return the edge of the nodes of two places, seen from the first."""
        if one is None or other is None:
            return None
        target, weights = self._edges_from(one)
        row = int(target.searchsorted(other))
        if row == len(target) or target[row] != other:
            return None
        by_kind = {kind: weight for kind, weight in zip(self.kinds, weights[row].tolist(), strict=True) if weight}
        words = {kind: self._shared_words(one, other, kind) for kind in by_kind}
        return Edge(weights=by_kind, words={kind: shared for kind, shared in words.items() if shared})

    def _shared_words(self, one: int, other: int, kind: str) -> tuple[str, ...]:
        ends = (one, self._node_at(one)), (other, self._node_at(other))
        return shared_words(self._state, self.options, *ends, kind)

    def shared_words(self, one: str, other: str, kind: str) -> tuple[str, ...]:
        """Return the words that two chunks share in one kind of edge; none where it does not join them by words.

        Raises:
            ParameterError: the graph has no such node, or no such kind of edge.
        """
        self._kinds((kind,))
        return self._shared_words(self._known_place(one), self._known_place(other), kind)

    def joined_by(self, chunk_id: str) -> JoinedBy:
        """Return the terms and titles that may join a node to others.

        Raises:
            ParameterError: the graph has no such node.
        """
        place = self._known_place(chunk_id)
        return joined_by(self._state, self.options, place, self._node_at(place))

    def links(self, kind: str) -> EdgeTable:
        """Return all edges of one kind.

        Raises:
            ParameterError: a kind of edge that the graph does not have.
        """
        (kind,) = self._kinds((kind,))
        source, target, weight = all_edges(self._state, self.options, kind)
        starts = starts_of(np.bincount(source, minlength=len(self)))
        return EdgeTable(starts=starts, targets=target.astype(np.int32), weights=weight)

    def degrees(self, kind: str | None = None) -> NDArray[np.int32]:
        """Return how many neighbours each node has, by one kind or by any, shape (nodes,).

        By "mention" those are counted that mention a node, and those that it mentions.
        """
        if kind is not None:
            ends = (kind, MENTIONED) if kind == MENTION else (kind,)
            counts = [np.diff(self.links(each).starts) for each in ends]
            total: NDArray[np.int32] = np.sum(counts, axis=0, dtype=np.int32)
            return total
        links = [self.links(kind) for kind in self.kinds]
        size = max(len(self), 1)
        pairs = np.concatenate([each.sources * np.int64(size) + each.targets for each in links])
        return np.bincount(np.unique(pairs) // size, minlength=len(self)).astype(np.int32)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the graph into a folder of its own.

        Raises:
            LibraryError: the folder cannot be written.
            ParameterError: metadata of a chunk that no store can keep.
        """
        save(Path(folder), self._nodes, self.ids, self._state, self.options)

    @classmethod
    def load(cls, folder: str | PathLike[str], options: GraphOptions | None = None) -> ChunkGraph:
        """Return the graph that `save` wrote; its vectors stay in their file until they are read.

        Args:
            folder: of the graph.
            options: with which it was built; needed only where it has kinds of edge of one's own.

        Raises:
            LibraryError: there is no graph, it is damaged, of another version, or of other options.
        """
        return cls(*load(Path(folder), options))

    def to_networkx(self) -> networkx.Graph[str]:
        """Return the graph for NetworkX (extra `graph`): see `catena.graph.storage.to_networkx`.

        Raises:
            MissingExtraError: NetworkX is not installed.
        """
        return to_networkx(self)

    def write_graphml(self, path: str | PathLike[str]) -> None:
        """Write the graph as GraphML (extra `graph`); any text gives a well-formed file.

        Raises:
            MissingExtraError: NetworkX is not installed.
            LibraryError: the file cannot be written.
        """
        write_graphml(self, Path(path))

    @cached_property
    def _node_at(self) -> Callable[[int], Node]:
        """The node at a place; a line is read once for all questions about it."""
        nodes = self._nodes
        return lru_cache(maxsize=_NODES_KEPT)(lambda place: to_node(nodes[place]))

    @cached_property
    def _sets(self) -> NodeSets:
        return NodeSets.of(self._state, self.options, self.kinds)

    @cached_property
    def _edges_from(self) -> Callable[[int], tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """The targets of the edges of the node at a place, and their weights; kept, as a walk asks again."""
        sets = self._sets

        @lru_cache(maxsize=_EDGES_KEPT)
        def edges_from(place: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
            _, target, weights = sets.edges(np.array([place]))
            target.flags.writeable = weights.flags.writeable = False  # shared by all callers
            return target, weights

        return edges_from

    def _edges_of(
        self, chunk_ids: Sequence[str], kinds: tuple[str, ...]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Return the edges of nodes that it has: which of them, the place it leads to, and the weights, by row."""
        found = [self._edges_from(place) for place in self._places(chunk_ids).tolist()]
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, len(kinds)), np.float32)
        source = np.arange(len(found)).repeat([len(target) for target, _ in found])
        target, weights = found[0] if len(found) == 1 else map(np.concatenate, zip(*found, strict=True))
        if kinds != self.kinds:
            weights = weights[:, [self.kinds.index(kind) for kind in kinds]]
            joined = weights.any(axis=1)
            source, target, weights = source[joined], target[joined], weights[joined]
        return source, target, weights

    def _nodes_at(self, places: NDArray[np.integer], words: Sequence[str]) -> Nodes:
        state = self._state
        slots = state.slots[places]
        counts, in_title = state.words.counts(slots, words)
        return Nodes(
            ids=tuple(self.ids[place] for place in places.tolist()),
            vectors=state.vectors.take(slots),
            counts=counts,
            in_title=in_title,
            lengths=state.words.all[slots],
            title_lengths=state.words.all[slots] - state.words.text[slots],
        )

    def _kinds(self, kinds: Sequence[str] | None) -> tuple[str, ...]:
        asked = self.kinds if kinds is None else tuple(sorted(set(kinds)))
        if unknown := [kind for kind in asked if kind not in self.kinds]:
            raise ParameterError("kind of edge", unknown[0], f"one of {', '.join(self.kinds)}")
        return asked

    def _place(self, chunk_id: str) -> int | None:
        place = bisect_left(self.ids, chunk_id)
        return place if place < len(self.ids) and self.ids[place] == chunk_id else None

    def _known_place(self, chunk_id: str) -> int:
        place = self._place(chunk_id) if isinstance(chunk_id, str) else None
        if place is None:
            raise ParameterError("chunk id", chunk_id, "of a node of the graph")
        return place

    def _places(self, chunk_ids: Sequence[str]) -> NDArray[np.int64]:
        return np.array([bisect_left(self.ids, each) for each in chunk_ids], np.int64)


def in_order(nodes: Sequence[Node], vectors: ArrayLike) -> tuple[tuple[Node, ...], NDArray[np.float32]]:
    """Return nodes ordered by id, and their vectors at unit length.

    Raises:
        ParameterError: two are of one chunk, or one is no node; vectors are of another shape, or not finite.
    """
    rows = checked_vectors(vectors, len(nodes))
    for node in nodes:
        if not isinstance(node, Node):
            raise ParameterError("nodes", type(node).__name__, "of Node: node_of(chunk) makes one")
    order = sorted(range(len(nodes)), key=lambda place: nodes[place].id)
    for one, other in pairwise(order):
        if nodes[one].id == nodes[other].id:
            raise ParameterError("nodes", f"two of chunk {nodes[one].id!r}", "of distinct chunks")
    return tuple(nodes[place] for place in order), unit(rows[order])


def checked_vectors(vectors: ArrayLike, nodes: int) -> NDArray[np.float32]:
    """Return vectors as rows of float32.

    Raises:
        ParameterError: they are not one row of finite numbers per node.
    """
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused below
            rows = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError):
        raise ParameterError("vectors", type(vectors).__name__, "an array of numbers") from None
    if rows.ndim != 2 or len(rows) != nodes:
        raise ParameterError("vectors", rows.shape, f"of shape ({nodes}, dim): a row per node")
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise ParameterError("vectors", f"row {bad} with {rows[bad][~np.isfinite(rows[bad])][0]}", "finite numbers")
    return rows


def ticker(progress: Progress | None, cancel: Cancel | None) -> Tick:
    """Return a function that reports progress, and raises `CancelledError` where the caller wants to stop."""

    def tick(done: int, total: int) -> None:
        if cancel is not None and cancel.is_set:
            raise CancelledError
        if progress is not None:
            progress(GraphProgress(done=done, total=total))

    return tick

"""The edges of some nodes, read off the sets of nodes that each of them is joined to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from catena.graph.edge_kinds import rarity
from catena.graph.joins import Joined, Terms, all_joined
from catena.graph.layers import distinct, ranges, starts_of
from catena.graph.structural import NOBODY
from catena.model.neighbourhood import MENTION, MENTIONED, SEMANTIC, STRUCTURAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.graph.edge_kinds import TermEdges
    from catena.graph.options import GraphOptions
    from catena.graph.state import GraphState


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sets:
    """Which sets of nodes each of n nodes is joined to: those that share a term with it, say, itself among them.

    What a term joins is looked up once for the whole graph, so that to read the edges of a node takes few steps.

    Attributes:
        kinds: of edges, by column.
        least: sets that a node has to share with another to be joined by each kind, shape (kinds,).
        rarest: whether an edge weighs what the best of its sets does, else their sum, shape (kinds,).
        starts: shape (n + 1,); the sets of node i are those in [starts[i], starts[i + 1]), by column.
        columns: the kind of each set.
        weights: of each set, above 0.
        firsts, sizes: set j is `members[firsts[j]:firsts[j] + sizes[j]]`.
        members: places.
    """

    kinds: tuple[str, ...]
    least: NDArray[np.int64]
    rarest: NDArray[np.bool_]
    starts: NDArray[np.int64]
    columns: NDArray[np.int8]
    weights: NDArray[np.float64]
    firsts: NDArray[np.int64]
    sizes: NDArray[np.int32]
    members: NDArray[np.int32]

    @classmethod
    def of(cls, state: GraphState, options: GraphOptions, kinds: Sequence[str]) -> Sets:
        """Return the sets of all nodes of a graph; at least one kind is asked for."""
        by_name = {kind.name: kind for kind in options.term_kinds}
        parts = [_sets_of(state, options, kind, by_name) for kind in kinds]
        offsets = starts_of(np.array([len(part.members) for part in parts])).tolist()
        places = np.concatenate([part.places for part in parts])
        order = places.argsort(kind="stable")
        firsts = [part.firsts + offset for part, offset in zip(parts, offsets[:-1], strict=True)]
        return cls(
            kinds=tuple(kinds),
            least=np.array([by_name[kind].more_than + 1 if kind in by_name else 1 for kind in kinds]),
            rarest=np.array([kind in (MENTION, MENTIONED) for kind in kinds]),
            starts=starts_of(np.bincount(places, minlength=state.size)),
            columns=np.arange(len(parts), dtype=np.int8).repeat([len(part.places) for part in parts])[order],
            weights=np.concatenate([part.weights for part in parts], dtype=np.float64)[order],
            firsts=np.concatenate(firsts)[order],
            sizes=np.concatenate([part.sizes for part in parts], dtype=np.int32)[order],
            members=np.concatenate([part.members for part in parts], dtype=np.int32),
        )

    def edges(self, places: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Return the edges of some nodes: which of the nodes, the place it leads to, and the weight for each kind.

        Each pair is there once, ordered; weights have the shape (edges, kinds).
        """
        nodes, width = len(self.starts) - 1, len(self.kinds)
        starts = self.starts[places]
        counts = self.starts[places + 1] - starts
        rows = ranges(starts, counts)
        sizes = self.sizes[rows]
        target = self.members[ranges(self.firsts[rows], sizes)]
        source = np.arange(len(places)).repeat(counts).repeat(sizes)
        keys = (source * nodes + target) * width + self.columns[rows].repeat(sizes)
        other = places[source] != target
        keys, weights = keys[other], self.weights[rows].repeat(sizes)[other]
        order = keys.argsort(kind="stable")
        keys, weights = keys[order], weights[order]
        new = distinct(keys)
        bounds = new.nonzero()[0]
        edge = new.cumsum() - 1
        pairs, columns = np.divmod(keys[bounds], width)
        shared = np.bincount(edge, minlength=len(bounds))
        whole = np.bincount(edge, weights=weights, minlength=len(bounds))
        if len(bounds):  # `reduceat` takes no empty one
            whole = np.where(self.rarest[columns], np.maximum.reduceat(weights, bounds), whole)
        kept = shared >= self.least[columns]
        pairs, columns, whole = pairs[kept], columns[kept], whole[kept]
        new = distinct(pairs)
        pairs, row = pairs[new], new.cumsum() - 1
        by_kind = np.zeros((len(pairs), width), np.float32)
        by_kind[row, columns] = whole
        source, target = np.divmod(pairs, max(nodes, 1))
        return source, target, by_kind


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The sets of one kind: the node that is joined to each, what it weighs, and where its members are."""

    places: NDArray[np.integer]
    weights: NDArray[np.floating]
    firsts: NDArray[np.int64]
    sizes: NDArray[np.integer]
    members: NDArray[np.integer]

    @classmethod
    def single(
        cls, places: NDArray[np.integer], weights: NDArray[np.floating], members: NDArray[np.integer]
    ) -> _Part:
        """Return sets of one node each."""
        return cls(places, weights, np.arange(len(places)), np.ones(len(places), np.int32), members)


def all_edges(state: GraphState, options: GraphOptions, kind: str) -> Joined:
    """Return all edges of one kind, `source` being a place; ordered."""
    for each in options.term_kinds:
        if each.name == kind:
            return all_joined(state.terms[kind], each)
    source, target, weights = Sets.of(state, options, (kind,)).edges(np.arange(state.size))
    return Joined(source, target, weights[:, 0])


def _sets_of(state: GraphState, options: GraphOptions, kind: str, by_name: dict[str, TermEdges]) -> _Part:
    if kind == STRUCTURAL:
        beside = state.reading.beside
        places, side = np.nonzero(beside != NOBODY)
        return _Part.single(places, np.ones(len(places)), beside[places, side])
    if kind == SEMANTIC:
        starts, near, cosines = state.near
        return _Part.single(np.arange(state.size).repeat(np.diff(starts)), cosines, near)
    if kind == MENTION:
        return _mentioned(state.sayers, state.bearers, options.cap)
    if kind == MENTIONED:
        return _mentioned(state.bearers, state.sayers, options.cap)
    return _sharing(state.terms[kind], by_name[kind])


def _sharing(index: Terms, kind: TermEdges) -> _Part:
    """Return for each node who holds a term of its own, for each of these, unless the term is too common."""
    holding = np.diff(index.key_starts)
    fit = (holding > 1) & (holding <= kind.limit(index.nodes))
    sizes = holding[fit]
    weights = rarity(sizes, index.nodes) if kind.weight == "rarity" else np.ones(len(sizes))
    return _Part(
        places=index.places[fit.repeat(holding)],
        weights=weights.repeat(sizes),
        firsts=index.key_starts[:-1][fit].repeat(sizes),
        sizes=sizes.repeat(sizes),
        members=index.places,
    )


def _mentioned(sayers: Terms, bearers: Terms, cap: int) -> _Part:
    """Return for each node that holds a term of `sayers` who holds it in `bearers`, weighted by its rarity.

    A title joins nothing where more than `cap` nodes say it, or bear it. Nobody says his own title, so both are
    disjoint.
    """
    holding = np.diff(sayers.key_starts)
    firsts, borne = bearers.find(sayers.keys)
    fit = (holding <= cap) & (borne <= cap) & (borne > 0)
    said, borne = holding[fit], borne[fit]
    return _Part(
        places=sayers.places[fit.repeat(holding)],
        weights=rarity(said + borne, sayers.nodes).repeat(said),
        firsts=firsts[fit].repeat(said),
        sizes=borne.repeat(said),
        members=bearers.places,
    )

"""The edges of some nodes, gathered from all kinds, and the neighbours to which they lead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from catena.graph.joins import Joined, all_joined, joined, mentioned
from catena.graph.layers import distinct
from catena.neighbourhood import MENTION, MENTIONED, SEMANTIC, STRUCTURAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.graph.options import GraphOptions
    from catena.graph.state import GraphState


def edges_of(
    state: GraphState, options: GraphOptions, places: NDArray[np.integer], kinds: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return the edges of some nodes: which of the nodes, the place it leads to, and the weight for each kind.

    Each pair is there once, ordered; weights have the shape (edges, kinds).
    """
    found = [_of_kind(state, options, places, kind) for kind in kinds]
    source = np.concatenate([np.empty(0, np.int64), *(edges.source for edges in found)])
    target = np.concatenate([np.empty(0, np.int64), *(edges.target for edges in found)])
    size = max(state.size, 1)
    ends = source * size + target
    order = ends.argsort(kind="stable")
    first = distinct(ends[order])
    row = np.empty(len(ends), np.int64)
    row[order] = first.cumsum() - 1
    pairs = ends[order][first]
    weights = np.zeros((len(pairs), len(kinds)), np.float32)
    column = np.arange(len(kinds)).repeat([len(edges.source) for edges in found])
    weights[row, column] = np.concatenate([np.empty(0, np.float32), *(edges.weight for edges in found)])
    source = pairs // size
    return source, pairs - source * size, weights


def all_edges(state: GraphState, options: GraphOptions, kind: str) -> Joined:
    """Return all edges of one kind, `source` being a place; ordered."""
    if kind in state.terms:
        return all_joined(state.terms[kind], next(each for each in options.term_kinds if each.name == kind))
    return _of_kind(state, options, np.arange(state.size), kind)


def _of_kind(state: GraphState, options: GraphOptions, places: NDArray[np.integer], kind: str) -> Joined:
    if not len(places):
        return Joined.nothing()
    if kind == STRUCTURAL:
        return state.reading.joined(places)
    if kind == SEMANTIC:
        return state.joined_by_meaning(places)
    if kind == MENTION:
        return mentioned(state.sayers, state.bearers, options.cap, places)
    if kind == MENTIONED:
        return mentioned(state.bearers, state.sayers, options.cap, places)
    return joined(state.terms[kind], next(each for each in options.term_kinds if each.name == kind), places)

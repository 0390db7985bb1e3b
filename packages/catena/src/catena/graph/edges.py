"""Find the edges of nodes in the state of a graph: their weights, the words shared, a description for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from catena.graph.options import GraphOptions, Node, TermEdges, rarity, words_of
from catena.graph.semantic import NO_NODE
from catena.graph.state import GraphState
from catena.graph.term_index import TermIndex, distinct, ranges, starts_of, term_number, title_number
from catena.model import KEYWORD, MENTION, MENTIONED, NAME, SEMANTIC, STRUCTURAL, Edge
from catena.text.phrases import outermost

_ORDER = (STRUCTURAL, SEMANTIC, KEYWORD, NAME, MENTION)
_AT_ONCE = 1_024  # nodes
_WORDS = 5  # of one kind of edge: enough to see why


Edges: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]
"""Edges as three arrays: the index of the source, the place of the target, the weight."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeSets:
    """The sets of nodes that each of n nodes is joined to: for example all that share a term with it, and itself.

    The sets of a term are looked up once for the whole graph, so that to read the edges of a node takes few steps.

    Attributes:
        kinds: of edges, by column.
        least: sets that a node has to share with another to be joined by each kind, shape (kinds,).
        rarest: whether an edge has the weight of the best of its sets, else of their sum, shape (kinds,).
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
    def of(cls, state: GraphState, options: GraphOptions, kinds: Sequence[str]) -> NodeSets:
        """Return the sets of all nodes of a graph; at least one kind is asked for."""
        by_name = {kind.name: kind for kind in options.term_kinds}
        least = [by_name[kind].more_than + 1 if kind in by_name else 1 for kind in kinds]
        parts = [_sets_of(state, options, kind) for kind in kinds]
        offsets = starts_of(np.array([len(part.members) for part in parts])).tolist()
        places = np.concatenate([part.places for part in parts])
        order = places.argsort(kind="stable")
        firsts = [part.firsts + offset for part, offset in zip(parts, offsets[:-1], strict=True)]
        return cls(
            kinds=tuple(kinds),
            least=np.array(least),
            rarest=np.array([kind in (MENTION, MENTIONED) for kind in kinds]),
            starts=starts_of(np.bincount(places, minlength=state.size)),
            columns=np.arange(len(parts), dtype=np.int8).repeat([len(part.places) for part in parts])[order],
            weights=np.concatenate([part.weights for part in parts], dtype=np.float64)[order],
            firsts=np.concatenate(firsts)[order],
            sizes=np.concatenate([part.sizes for part in parts], dtype=np.int32)[order],
            members=np.concatenate([part.members for part in parts], dtype=np.int32),
        )

    def edges(self, places: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Return the edges of some nodes: the index of the node, the place of the target, a weight for each kind.

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
        bounds = np.flatnonzero(new)
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
    """The sets of one kind: the node that is joined to each, its weight, and its members."""

    places: NDArray[np.integer]
    weights: NDArray[np.floating]
    firsts: NDArray[np.int64]
    sizes: NDArray[np.integer]
    members: NDArray[np.integer]


def all_edges(state: GraphState, options: GraphOptions, kind: str) -> Edges:
    """Return all edges of one kind from place to place: source, target, weight; ordered."""
    sets, nodes = NodeSets.of(state, options, (kind,)), state.size
    found = [(at, sets.edges(np.arange(at, min(at + _AT_ONCE, nodes)))) for at in range(0, max(nodes, 1), _AT_ONCE)]
    placed = ((own + at, other, by_kind[:, 0]) for at, (own, other, by_kind) in found)
    source, target, weight = zip(*placed, strict=True)
    return np.concatenate(source), np.concatenate(target), np.concatenate(weight)


def _sets_of(state: GraphState, options: GraphOptions, kind: str) -> _Part:
    """Return the sets of one kind of edge; in reading order and by meaning each is of one node."""
    if kind == MENTION:
        return _mentioned(state.mentions, state.titles, options.cap)
    if kind == MENTIONED:
        return _mentioned(state.titles, state.mentions, options.cap)
    for each in options.term_kinds:
        if each.name == kind:
            return _sharing(state.terms[kind], each.limit(state.size), each.weight)
    if kind == STRUCTURAL:
        places, side = np.nonzero(state.reading.beside != NO_NODE)
        weights, members = np.ones(len(places), np.float32), state.reading.beside[places, side]
    else:
        starts, members, weights = state.near
        places = np.arange(state.size).repeat(np.diff(starts))
    return _Part(places, weights, np.arange(len(places)), np.ones(len(places), np.int32), members)


def _sharing(index: TermIndex, most: int, weight: str) -> _Part:
    """Return for each term of a node all nodes that hold it, unless the term is too common."""
    holding = np.diff(index.key_starts)
    fit = (holding > 1) & (holding <= most)
    sizes = holding[fit]
    weights = rarity(sizes, index.nodes) if weight == "rarity" else np.ones(len(sizes))
    return _Part(
        places=index.places[fit.repeat(holding)],
        weights=weights.repeat(sizes),
        firsts=index.key_starts[:-1][fit].repeat(sizes),
        sizes=sizes.repeat(sizes),
        members=index.places,
    )


def _mentioned(ones: TermIndex, others: TermIndex, cap: int) -> _Part:
    """Return for each title of a node in `ones` all nodes that have it in `others`, weighted by its rarity.

    One of the two holds the titles of nodes, the other the titles in their texts. A title joins nothing where more
    than `cap` nodes have it in either. A node's own title is not among those in its text, so the two are disjoint.
    """
    holding = np.diff(ones.key_starts)
    firsts, sizes = others.find(ones.keys)
    fit = (holding <= cap) & (sizes <= cap) & (sizes > 0)
    held, sizes = holding[fit], sizes[fit]
    return _Part(
        places=ones.places[fit.repeat(holding)],
        weights=rarity(held + sizes, ones.nodes).repeat(held),
        firsts=firsts[fit].repeat(held),
        sizes=sizes.repeat(held),
        members=others.places,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedBy:
    """The terms and titles that may join a node to others: two nodes share the words that both of them have.

    Attributes:
        terms: by kind of edge, its terms that at least one other node holds and not too many do, in order.
        titles: its titles that other texts hold, as (number, as printed), the first of each number.
        says: numbers of the titles of others that its text holds.
    """

    terms: Mapping[str, tuple[str, ...]]
    titles: tuple[tuple[int, str], ...]
    says: tuple[int, ...]


def joined_by(state: GraphState, options: GraphOptions, place: int, node: Node) -> JoinedBy:
    """Return the terms and titles that may join a node to others, to explain its edges without the graph."""
    terms = {kind.name: _joining_terms(state, kind, kind.terms(node)) for kind in options.term_kinds}
    titles, said = _by_number(node.titles), _said(state, place)
    joining = _joining(state, options, [*titles, *said])
    return JoinedBy(
        terms={kind: each for kind, each in terms.items() if each},
        titles=tuple((number, printed) for number, printed in titles.items() if number in joining),
        says=tuple(number for number in said if number in joining),
    )


def _joining(state: GraphState, options: GraphOptions, titles: Sequence[int]) -> set[int]:
    """Return the titles that make edges: at least one text holds each, one node has it, and neither do too many."""
    said, borne = _holding(state.mentions, titles), _holding(state.titles, titles)
    counts = zip(titles, said, borne, strict=True)
    return {title for title, *nodes in counts if min(nodes) > 0 and max(nodes) <= options.cap}


def shared_words(
    state: GraphState, options: GraphOptions, one: tuple[int, Node], other: tuple[int, Node], kind: str
) -> tuple[str, ...]:
    """Return the words that join two nodes in a kind of edge: terms in the order of the first, or titles as printed.

    Args:
        state: of the graph.
        options: of the graph.
        one: place and node from which the edge is seen.
        other: place and node to which it leads.
        kind: of edge.
    """
    if kind == MENTION:
        return _titles(state, options, one[0], other[1])
    if kind == MENTIONED:
        return _titles(state, options, other[0], one[1])
    for each in options.term_kinds:
        if each.name == kind:
            held = set(each.terms(other[1]))
            return _joining_terms(state, each, [term for term in each.terms(one[1]) if term in held])
    return ()


def _joining_terms(state: GraphState, kind: TermEdges, terms: Sequence[str]) -> tuple[str, ...]:
    """Return the terms that several nodes hold, and not too many."""
    holding, limit = _holding(state.terms[kind.name], [term_number(term) for term in terms]), kind.limit(state.size)
    return tuple(term for term, nodes in zip(terms, holding, strict=True) if 1 < nodes <= limit)


def _titles(state: GraphState, options: GraphOptions, place: int, mentioned: Node) -> tuple[str, ...]:
    """Return the titles of a node by which the text of the node at a place mentions it, as printed."""
    titles = _by_number(mentioned.titles)
    joining = _joining(state, options, [number for number in _said(state, place) if number in titles])
    return tuple(printed for number, printed in titles.items() if number in joining)


def _by_number(titles: Iterable[str]) -> dict[int, str]:
    """Return titles as printed by their numbers, the first of each."""
    found: dict[int, str] = {}
    for printed in titles:
        found.setdefault(title_number(words_of(printed)), printed)
    return found


def _said(state: GraphState, place: int) -> list[int]:
    """Return the numbers of the titles of others in the text of the node at a place."""
    said: list[int] = state.mentions.terms[state.mentions.starts[place] : state.mentions.starts[place + 1]].tolist()
    return said


def _holding(index: TermIndex, numbers: Sequence[int]) -> list[int]:
    """Return how many nodes hold each term."""
    found: list[int] = index.find(np.array(numbers, np.uint64))[1].tolist()
    return found


def kinds_in_order(kinds: Iterable[str]) -> list[str]:
    """Return kinds in the order of the legend, each once; a mention is one kind from either side."""
    merged = {MENTION if kind == MENTIONED else kind for kind in kinds}
    return sorted(merged, key=lambda kind: (_ORDER.index(kind) if kind in _ORDER else len(_ORDER), kind))


def reasons(edge: Edge) -> list[str]:
    """Describe an edge in words, a line for each kind, with its weight unless it is always the same."""
    return [reason(kind, edge.weights, edge.words) for kind in kinds_in_order(edge.weights)]


def reason(kind: str, weights: Mapping[str, float], words: Mapping[str, tuple[str, ...]]) -> str:
    """Describe one kind of an edge, e.g. "keyword 3: pump, seal, valve"; of many words the first."""
    seen = [each for each in (kind, MENTIONED if kind == MENTION else kind) if each in weights]
    weight = max((weights[each] for each in seen), default=0.0)
    shared = list(dict.fromkeys(word for each in seen for word in words.get(each, ())))
    if kind == NAME:
        shared = list(outermost(shared))
    if len(shared) > _WORDS:
        shared[_WORDS:] = ["…"]
    number = "" if kind == STRUCTURAL else f" {weight:.0f}" if kind == KEYWORD else f" {weight:.2f}"
    return f"{kind}{number}" + (f": {', '.join(shared)}" if shared else "")

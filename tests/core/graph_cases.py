"""Small graphs drawn by hypothesis, and what their edges are by the definitions, one pair at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise, permutations
from typing import TypeAlias

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from catena.graph import ChunkGraph, GraphOptions, Node, TermEdges
from catena.graph.options import keywords_of_node, names_of_node, titles_of, words_of
from catena.graph.state import compact
from catena.model import Chunk, digest

Weights: TypeAlias = dict[tuple[str, str], float]

DIM = 3
WORDS = ("alpha", "beta", "gamma", "delta", "電", "池", "omega")
_TERMS = ("one", "two", "three", "four", "five")


def node(
    number: int,
    text: str = "",
    *,
    titles: Sequence[str] = (),
    keywords: Sequence[str] = (),
    names: Sequence[str] = (),
    per_document: int = 4,
) -> Node:
    """Return a node whose id says nothing of its place in its document."""
    document, position = divmod(number, per_document)
    chunk_id = digest("node", str(number))
    chunk = Chunk(id=chunk_id, document_id=f"doc {document}", position=position, start=0, end=len(text), text=text)
    return Node(chunk=chunk, titles=tuple(titles), keywords=tuple(keywords), names=tuple(names))


_texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
_terms = st.lists(st.sampled_from(_TERMS), unique=True, max_size=5)
_titles = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join), unique=True, max_size=2)
_vectors = st.tuples(*[st.sampled_from([-1.0, 0.0, 0.5, 1.0])] * DIM)


@st.composite
def nodes_and_vectors(draw: st.DrawFn, most: int = 12) -> tuple[list[Node], NDArray[np.float32]]:
    """Draw nodes with many ties: few words, few terms, few directions, zero vectors among them."""
    size = draw(st.integers(0, most))
    nodes = [
        node(number, draw(_texts), titles=draw(_titles), keywords=draw(_terms), names=draw(_terms))
        for number in range(size)
    ]
    vectors = [draw(_vectors) for _ in range(size)]
    return nodes, np.array(vectors, np.float32).reshape(size, DIM)


@st.composite
def graph_options(draw: st.DrawFn) -> GraphOptions:
    """Draw options whose caps and thresholds matter in small graphs."""
    keywords = TermEdges(
        name="keyword", of=keywords_of_node, more_than=draw(st.integers(0, 3)), cap=draw(st.sampled_from([2, 4, 0.5]))
    )
    names = TermEdges(name="name", of=names_of_node, weight="rarity", cap=draw(st.sampled_from([2, 5, 1.0])))
    return GraphOptions(
        neighbours=draw(st.integers(0, 4)),
        cap=draw(st.integers(1, 6)),
        kinds=(keywords, names),
        mentions=draw(st.booleans()),
    )


def weights_of(graph: ChunkGraph, kind: str) -> Weights:
    """Return all edges of one kind by the ids of their ends."""
    links = graph.links(kind)
    ends = zip(links.sources.tolist(), links.targets.tolist(), links.weights.tolist(), strict=True)
    return {(graph.ids[one], graph.ids[other]): weight for one, other, weight in ends}


def expected(nodes: Sequence[Node], vectors: NDArray[np.float32], options: GraphOptions) -> dict[str, Weights]:
    """Return the weights of all edges by kind, computed from the definitions."""
    edges = {
        "structural": _structural(nodes),
        "semantic": _semantic(nodes, vectors, options.neighbours),
        **{kind.name: _by_terms(nodes, kind) for kind in options.kinds},
    }
    if options.mentions:
        said = _mentions(nodes, options.cap)
        edges |= {"mention": said, "mentioned": {(other, one): weight for (one, other), weight in said.items()}}
    return edges


def holds(words: Sequence[str], title: Sequence[str]) -> bool:
    """Return whether a title's words are in a text's words, next to each other and in order.

    One title inside another counts as well ("New York" in "New York City"): whether a text holds a title depends on
    these two alone, so that a new title changes no old edge.
    """
    return bool(title) and any(
        tuple(words[place : place + len(title)]) == tuple(title) for place in range(len(words))
    )


def _structural(nodes: Sequence[Node]) -> Weights:
    edges: Weights = {}
    order = sorted(nodes, key=lambda node: (node.chunk.document_id, node.chunk.position))
    for one, other in pairwise(order):
        if one.chunk.document_id == other.chunk.document_id:
            edges[one.id, other.id] = edges[other.id, one.id] = 1.0
    return edges


def _semantic(nodes: Sequence[Node], vectors: NDArray[np.float32], k: int) -> Weights:
    rows = {each.id: row.astype(np.float64) for each, row in zip(nodes, vectors, strict=True)}
    edges: Weights = {}
    for one, row in rows.items():
        cosines = {
            other: round(float(row @ there / np.linalg.norm(row) / np.linalg.norm(there)), 6)
            for other, there in rows.items()
            if other != one and row.any() and there.any()
        }
        near = sorted(cosines, key=lambda other: (-cosines[other], other))[:k]
        edges |= {pair: cosines[o] for o in near if cosines[o] > 0 for pair in ((one, o), (o, one))}
    return edges


def _rarity(holding: int, nodes: int) -> float:
    return float(np.log((nodes + 1) / holding) / np.log(nodes + 1))


def _by_terms(nodes: Sequence[Node], kind: TermEdges) -> Weights:
    holding = Counter(term for node in nodes for term in set(kind.of(node)))
    edges: Weights = {}
    for one, other in permutations(nodes, 2):
        shared = set(kind.of(one)) & set(kind.of(other))
        shared = {term for term in shared if holding[term] <= kind.limit(len(nodes))}
        if len(shared) > kind.more_than:
            rare = sum(_rarity(holding[term], len(nodes)) for term in shared)
            edges[one.id, other.id] = len(shared) if kind.weight == "count" else rare
    return edges


def _mentions(nodes: Sequence[Node], cap: int) -> Weights:
    edges: Weights = {}
    for title in {title for node in nodes for title in titles_of(node)}:
        bearers = [node.id for node in nodes if title in titles_of(node)]
        sayers = [node.id for node in nodes if holds(words_of(node.chunk.text), title) and node.id not in bearers]
        if max(len(bearers), len(sayers)) <= cap:
            weight = _rarity(len(bearers) + len(sayers), len(nodes))
            for pair in ((sayer, bearer) for sayer in sayers for bearer in bearers):
                edges[pair] = max(weight, edges.get(pair, 0.0))
    return edges


def assert_equal(one: object, other: object) -> None:
    """Assert that two values are equal, array by array."""
    if isinstance(one, np.ndarray):
        assert isinstance(other, np.ndarray)
        assert one.shape == other.shape
        assert np.array_equal(one, other)
    elif isinstance(one, Mapping):
        assert isinstance(other, Mapping)
        assert list(one) == list(other)
        for key in one:
            assert_equal(one[key], other[key])
    elif is_dataclass(one):
        for field in fields(one):
            assert_equal(getattr(one, field.name), getattr(other, field.name))
    else:
        assert one == other


def assert_same(one: ChunkGraph, other: ChunkGraph) -> None:
    """Assert that two graphs are equal in all that they hold."""
    assert one.ids == other.ids
    assert one.identity == other.identity
    assert_equal(compact(one._state), compact(other._state))
    for kind in one.kinds:
        assert_equal(one.links(kind), other.links(kind))

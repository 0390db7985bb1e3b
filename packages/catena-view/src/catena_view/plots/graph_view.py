"""Choose the nodes and edges that are drawn about chains, and the texts that tell of them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any, Protocol, runtime_checkable

import numpy as np

from catena import Chunk
from catena.effects import Expand, FetchById, FetchNodes, Graph
from catena.graph import reasons
from catena.model import (
    KEYWORD,
    MENTION,
    NAME,
    SEMANTIC,
    STRUCTURAL,
    TITLE,
    Chain,
    Edge,
    EvaluationError,
    ParameterError,
    citation,
)
from catena_view.plots.labels import shortened
from catena_view.plots.picture import Dash

STYLES: Mapping[str, tuple[str, Dash]] = {
    STRUCTURAL: ("#4D4D4D", "solid"),
    SEMANTIC: ("#3F6FB5", "dashed"),
    KEYWORD: ("#8A6A12", "dotted"),
    NAME: ("#7B4EA3", "dashdot"),
    MENTION: ("#B0413E", "dashdotdot"),
}
"""Colour and dashes of each kind of edge: muted colours, told apart by their dashes too."""

OTHER_STYLE: tuple[str, Dash] = ("#2B7A78", "long")  # of kinds that somebody registered

_FURTHER = 0.5  # what a hop further from the chain makes of a node's relevance
_BATCH = 500  # nodes that are expanded at once
_EXCERPT = 180  # letters of a text, on hovering
_HOVER = 84  # letters of a line, on hovering


@runtime_checkable
class WholeGraph(Graph, Protocol):
    """A graph that knows all its nodes, and what its edges share, as `catena.graph.chunk_graph.ChunkGraph` does."""

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all chunks, ascending."""
        ...

    def node(self, chunk_id: str) -> Any:
        """Return what the graph keeps of a chunk: its `keywords` among them."""
        ...

    def edge(self, one: str, other: str) -> Edge | None:
        """Return what joins two chunks."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnEdge:
    """An edge to draw: two ids, the first from which it was seen, and its weights by kind."""

    one: str
    two: str
    weights: Mapping[str, float]


def style(kind: str) -> tuple[str, Dash]:
    """Return colour and dashes of a kind of edge."""
    return STYLES.get(kind, OTHER_STYLE)


def walked(graph: Graph, chains: Sequence[Chain]) -> dict[str, Chunk]:
    """Return the chunks of chains by id, in the order of the hops.

    Raises:
        EvaluationError: there is no hop, or the graph does not have one of the chunks.
    """
    found = {chunk.id: chunk for chain in chains for chunk in chain.chunks}
    if not found:
        raise EvaluationError("a picture of chains needs at least one hop. Try: a question that the walk answers")
    held = set(graph.nodes(FetchNodes(chunk_ids=tuple(found))).ids)
    missing = [chunk_id for chunk_id in found if chunk_id not in held]
    if missing:
        raise EvaluationError(
            f"the graph does not have {len(missing)} of the {len(found)} chunks of these chains, the first is "
            f"{missing[0]!r}. Try: the graph that the chains were found on"
        )
    return found


def around(graph: Graph, start: Sequence[str], *, hops: int, most: int) -> tuple[list[str], int]:
    """Return the most relevant nodes within some hops of others, and how many there are.

    A node's relevance is the sum of `relevance of the node before it * sum over kinds of (weight / largest weight)`,
    1 for where it starts, halved for each hop after the first. Of each hop only the best go on. Ties go by id.

    Args:
        graph: to look into.
        start: ids of nodes, not among those returned.
        hops: how far, at least 0.
        most: nodes wanted.
    """
    relevance = dict.fromkeys(start, 1.0)
    frontier, found = tuple(start), dict[str, float]()
    for hop in range(hops):
        near = graph.expand(Expand(chunk_ids=frontier))
        if not len(near.source):
            break
        strength = (near.weights / np.maximum(near.weights.max(axis=0), 1e-9)).sum(axis=1, dtype=np.float64)
        before = np.array([relevance[chunk_id] for chunk_id in near.sources])
        sums = np.bincount(near.target, before[near.source] * strength, len(near.nodes.ids))
        reached = {
            chunk_id: float(value) * _FURTHER ** min(hop, 1)
            for chunk_id, value in zip(near.nodes.ids, sums, strict=True)
            if chunk_id not in relevance
        }
        relevance |= reached
        found |= reached
        frontier = tuple(sorted(reached, key=lambda chunk_id: (-reached[chunk_id], chunk_id))[:most])
    return sorted(found, key=lambda chunk_id: (-found[chunk_id], chunk_id))[:most], len(found)


def every(graph: Graph, most: int) -> list[str]:
    """Return the ids of all nodes.

    Raises:
        ParameterError: the graph cannot tell them, or has more.
    """
    if not isinstance(graph, WholeGraph):
        raise ParameterError("whole", True, f"False for a {type(graph).__name__}, which cannot tell all its nodes")
    if len(graph.ids) > most:
        raise ParameterError("whole", True, f"False for a graph of {len(graph.ids):,} nodes, more than {most:,}")
    return list(graph.ids)


def links_among(graph: Graph, ids: Sequence[str]) -> list[DrawnEdge]:
    """Return the edges between nodes, each once, by ascending ids."""
    wanted = set(ids)
    found: dict[tuple[str, str], DrawnEdge] = {}
    for start in range(0, len(ids), _BATCH):
        near = graph.expand(Expand(chunk_ids=tuple(ids[start : start + _BATCH])))
        for source, target, weights in zip(near.source, near.target, near.weights.tolist(), strict=True):
            one, two = near.sources[source], near.nodes.ids[target]
            pair = (min(one, two), max(one, two))
            if two in wanted and pair not in found:
                there = {kind: weight for kind, weight in zip(near.kinds, weights, strict=True) if weight}
                found[pair] = DrawnEdge(one=one, two=two, weights=there)
    return [found[pair] for pair in sorted(found)]


def fetched(graph: Graph, ids: Sequence[str]) -> dict[str, Chunk]:
    """Return the chunks of nodes by id, without those that the graph has lost."""
    chunks = graph.chunks_by_id(FetchById(chunk_ids=tuple(ids)))
    return {chunk.id: chunk for chunk in chunks if chunk is not None}


def title_of(chunk: Chunk) -> str:
    """Return the title of a chunk's document, or else its id."""
    return str(chunk.metadata.get(TITLE) or chunk.document_id)


def excerpt(chunk: Chunk) -> str:
    """Return the chunk's text on one line, without the headings that it begins with."""
    lines = chunk.text.strip().split("\n")
    body = dropwhile(lambda line: line.startswith("#") or not line.strip(), lines)
    return " ".join(" ".join(body).split()) or " ".join(chunk.text.split())


def place_of(chunk: Chunk) -> str:
    """Return the chunk's own heading and page, as far as it has them."""
    heading = chunk.path[-1] if chunk.path else ""
    page = "" if chunk.pages is None else f"page {chunk.pages[0]}"
    return ", ".join(part for part in (heading if heading != title_of(chunk) else "", page) if part)


def told(chunk: Chunk, graph: Graph | None = None) -> str:
    """Return what shows on hovering over a node: where it stands, how its text begins, its keywords."""
    lines = [*_lines(citation(chunk)), *_lines(f"“{shortened(excerpt(chunk), _EXCERPT)}”")]
    keywords = graph.node(chunk.id).keywords if isinstance(graph, WholeGraph) else ()
    return "\n".join([*lines, *_lines(f"keywords: {', '.join(keywords)}" if keywords else "")])


def edge_told(graph: Graph, link: DrawnEdge) -> str:
    """Return what shows on hovering over an edge: all its kinds, with the words where the graph knows them."""
    edge = graph.edge(link.one, link.two) if isinstance(graph, WholeGraph) else None
    return "\n".join(line for text in reasons(edge or Edge(weights=link.weights)) for line in _lines(text))


def _lines(text: str) -> list[str]:
    return textwrap.wrap(text, _HOVER)

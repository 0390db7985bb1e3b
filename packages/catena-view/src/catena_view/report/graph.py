"""The graph of a report: nodes laid out, edges by kind, documents as clusters, and the chains hop by hop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from catena import Chunk
from catena.graph import kinds_in_order
from catena.model import Chain, citation
from catena_view.plots.graph import document_colours
from catena_view.plots.graph_view import (
    DrawnEdge,
    WholeGraph,
    around,
    excerpt,
    fetched,
    force_layout,
    keywords_of,
    links_among,
    parted,
    spread,
    style,
    title_of,
    why,
)
from catena_view.plots.picture import COLOURS, shortened
from catena_view.report.values import EdgeKind, GraphShown, GroupMark, HopRow, Missing, NodeMark

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.effects import Graph
    from catena.graph import GraphResult

_PAGE = (16.0, 10.0)  # of the layout, in any unit: only the ratio reaches the page
_AREA = (0.0, 0.0, *_PAGE)
_HOPS = 3  # around the chains, where the graph is larger than what is drawn
_EXCERPT, _HOP_EXCERPT = 140, 400  # letters of a chunk's text
_FREE = 300  # nodes that forces place; more end in one ball
_FILLED = 0.42  # of the page, by the discs of documents
_GOLDEN = float(np.pi * (3 - np.sqrt(5)))
_ROUNDS = 300
_APART = 1.1  # of the nodes of chains, in the unit of the layout
_DIGITS = 4  # of weights and of places in the unit rectangle: less than a pixel


def graph_shown(graph: Graph, found: GraphResult, most: int) -> GraphShown | Missing:
    """Return the graph around the chains of a search, or all of it where it has no more nodes than may be drawn.

    Args:
        graph: that the chains were found on.
        found: the chains; where there are none, the nodes of the first ranking take their place.
        most: nodes, >= 1.
    """
    start = {chunk.id: chunk for chain in found.chains for chunk in chain.chunks}
    start = start or {hit.chunk.id: hit.chunk for hit in found.ranking.hits}
    if not start:
        return Missing(missing="Nothing was found from where a walk could start.", hint="other words")
    whole = isinstance(graph, WholeGraph) and len(graph.ids) <= most
    if isinstance(graph, WholeGraph) and whole:
        near, reached = [name for name in graph.ids if name not in start], len(graph.ids)
    else:
        near, reached = around(graph, tuple(start), hops=_HOPS, most=max(0, most - len(start)))
    chunks = dict(sorted((fetched(graph, near) | fetched(graph, list(start)) | start).items()))
    links = links_among(graph, list(chunks))
    numbers = {chunk_id: number for number, chunk_id in enumerate(chunks)}
    groups = _groups(chunks, start, links)
    by_document = {document: number for number, document in enumerate(groups)}
    apart, by_forces = [numbers[name] for name in start], len(chunks) <= _FREE or len(groups) == 1
    if by_forces:
        pairs = np.array([(numbers[link.one], numbers[link.two]) for link in links], dtype=np.int64).reshape(-1, 2)
        places = _unit_places(len(chunks), pairs, apart)
    else:
        places = _moved(discs_of_documents(list(chunks.values()), groups), apart, _APART / 2)
    return GraphShown(
        nodes=tuple(
            NodeMark(
                x=x,
                y=y,
                group=by_document[chunk.document_id],
                citation=citation(chunk),
                excerpt=shortened(excerpt(chunk), _EXCERPT),
                keywords=keywords_of(chunk, graph),
            )
            for chunk, (x, y) in zip(chunks.values(), places, strict=True)
        ),
        groups=tuple(groups.values()),
        kinds=_kinds(links, numbers),
        chains=tuple(_chain(chain, numbers) for chain in found.chains),
        keywords=found.keywords,
        whole=whole,
        by_document=not by_forces,
        caption=_caption(found.chains, chunks, links, whole=whole, reached=reached),
        degraded=tuple(f"{part.what}: {part.why}" for part in found.ranking.degraded),
    )


def discs_of_documents(chunks: Sequence[Chunk], groups: Mapping[str, GroupMark]) -> list[tuple[float, float]]:
    """Return places in the unit square: a disc for each document, its chunks winding outwards in reading order.

    Forces between thousands of nodes end in one ball, in which nothing can be seen. The discs have equal room for
    each chunk (Vogel's spiral: chunk i at angle i * 137.5 degrees and radius proportional to sqrt(i + 1/2)); they
    begin at the places of their documents and part until none lies on another.

    Args:
        chunks: of the nodes, in their order.
        groups: by document id, with their places.

    Source: Vogel, Mathematical Biosciences 44, 1979, doi:10.1016/0025-5564(79)90080-4.
    """
    size = np.array(_PAGE)
    each = float(np.sqrt(_FILLED * size.prod() / (np.pi * len(chunks))))  # radius of the room of one chunk
    counts = np.array([group.nodes for group in groups.values()], dtype=np.float64)
    radii = each * (np.sqrt(counts) + 1.0)
    begin = np.array([(group.x, group.y) for group in groups.values()])
    reach = np.maximum(begin.max(axis=0) - begin.min(axis=0), 1e-9)
    ends = np.minimum(radii[:, None], size / 2), np.maximum(size - radii[:, None], size / 2)
    middles = parted(np.clip((begin - begin.min(axis=0)) / reach * size, *ends), radii, ends, rounds=_ROUNDS)
    numbers = {name: number for number, name in enumerate(groups)}
    order = sorted(range(len(chunks)), key=lambda at: (chunks[at].document_id, chunks[at].position, chunks[at].id))
    seen: Counter[str] = Counter()
    places = np.empty((len(chunks), 2))
    for at in order:
        document = chunks[at].document_id
        turn, seen[document] = seen[document], seen[document] + 1
        angle, reach = turn * _GOLDEN, each * np.sqrt(turn + 0.5)
        places[at] = middles[numbers[document]] + reach * np.array([np.cos(angle), np.sin(angle)])
    unit = np.clip(places / size, 0.0, 1.0)
    return [(round(float(x), _DIGITS), round(float(y), _DIGITS)) for x, y in unit]


def _unit_places(count: int, edges: NDArray[np.int64], apart: Sequence[int] = ()) -> list[tuple[float, float]]:
    """Return the places of a force layout in the unit square, y downwards; those of `apart` do not overlap."""
    found = force_layout(count, edges, _AREA) / _PAGE
    return _moved([(float(x), 1 - float(y)) for x, y in found], apart, _APART)


def _moved(places: Sequence[tuple[float, float]], some: Sequence[int], apart: float) -> list[tuple[float, float]]:
    """Return places of which some are moved until they are no nearer to each other than `apart`, rounded."""
    wide, high = _PAGE
    moved = spread([(places[at][0] * wide, places[at][1] * high) for at in some], _AREA, apart=apart)
    found = list(places)
    for at, (x, y) in zip(some, moved, strict=True):
        found[at] = x / wide, y / high
    return [(round(x, _DIGITS), round(y, _DIGITS)) for x, y in found]


def _groups(
    chunks: Mapping[str, Chunk], start: Mapping[str, Chunk], links: Sequence[DrawnEdge]
) -> dict[str, GroupMark]:
    """Return the documents by id, those of the chains first, then the largest; joined where their chunks are."""
    counts = Counter(chunk.document_id for chunk in chunks.values())
    first = list(dict.fromkeys(chunk.document_id for chunk in start.values()))
    order = first + sorted(set(counts).difference(first), key=lambda name: (-counts[name], name))
    numbers = {name: number for number, name in enumerate(order)}
    colours = document_colours(chunks, start)
    titles = {chunk.document_id: title_of(chunk) for chunk in chunks.values()}
    joined = {
        (min(pair), max(pair))
        for link in links
        for pair in [(numbers[chunks[link.one].document_id], numbers[chunks[link.two].document_id])]
        if pair[0] != pair[1]
    }
    places = _unit_places(len(order), np.array(sorted(joined), dtype=np.int64).reshape(-1, 2))
    return {
        name: GroupMark(
            title=titles[name],
            tone=COLOURS.index(colours[name][0]) if name in colours else -1,
            x=x,
            y=y,
            nodes=counts[name],
        )
        for name, (x, y) in zip(order, places, strict=True)
    }


def _kinds(links: Sequence[DrawnEdge], numbers: Mapping[str, int]) -> tuple[EdgeKind, ...]:
    """Return the edges by kind in the order of the legend; a mention is one kind from whichever side it is seen."""
    flat: dict[str, list[float]] = {}
    for link in links:
        for kind in kinds_in_order(link.weights):
            weight = round(float(link.weight(kind)), _DIGITS)
            flat.setdefault(kind, []).extend((numbers[link.one], numbers[link.two], weight))
    return tuple(
        EdgeKind(kind=kind, dash=style(kind)[1], edges=tuple(flat[kind]), count=len(flat[kind]) // 3)
        for kind in kinds_in_order(flat)
    )


def _chain(chain: Chain, numbers: Mapping[str, int]) -> tuple[HopRow, ...]:
    steps: dict[str, int] = {}
    rows = []
    for number, hop in enumerate(chain.hops, start=1):
        rows.append(
            HopRow(
                node=numbers[hop.chunk.id],
                citation=citation(hop.chunk),
                score=hop.score if isfinite(hop.score) else None,
                came_from=steps.get(hop.came_from),
                reasons=tuple(why(hop)),
                words=hop.words,
                excerpt=shortened(excerpt(hop.chunk), _HOP_EXCERPT),
            )
        )
        steps.setdefault(hop.chunk.id, number)
    return tuple(rows)


def _caption(
    chains: Sequence[Chain], chunks: Mapping[str, Chunk], links: Sequence[DrawnEdge], *, whole: bool, reached: int
) -> str:
    hops = sum(len(chain.hops) for chain in chains)
    walked = "One chain" if len(chains) == 1 else f"{len(chains) or 'No'} chains"
    area = f"all {len(chunks):,} nodes" if whole else f"{len(chunks):,} nodes, the nearest of {reached:,} around"
    return f"{walked}, {hops} hops; {area}; {len(links):,} pairs of nodes are joined."

"""The picture of the chunk-interaction graph with chains drawn on it: what was walked, and what was near."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import hypot
from pathlib import Path

import numpy as np

from catena.effects.ports import Graph
from catena.model import Chain, Chunk
from catena.model.errors import ParameterError
from catena.model.neighbourhood import MENTION, MENTIONED
from catena.plots.graph_layout import force_layout, spread
from catena.plots.graph_marks import Discs, Place, Strokes
from catena.plots.graph_stage import Stage, chain_marks, margins, rows_of
from catena.plots.graph_view import (
    Link,
    around,
    edge_told,
    every,
    fetched,
    in_order,
    links_among,
    style,
    title_of,
    told,
    walked,
)
from catena.plots.label_rows import shortened
from catena.plots.picture import COLOURS, GREY, Axis, Mark, Panel, Picture, finished

MOST_NODES = 5_000
"""Nodes that are drawn when the whole graph is: the layout takes time as their square."""

_DISCS = "In the discs: the order of the hops; beside them: the scorer's score, or of a seed that of its selection."
_MOST_CHAINS = 4
_LEGEND = 2.4  # inches
_APART = 0.75  # inches between the discs of a chain in a whole graph
_RIM = 0.06  # inches around the page, so that no line is cut
_STRAND = 0.024  # inches between the kinds of an edge
_TITLE = 30  # letters of a document's title, in the legend


def chain_graph(
    graph: Graph,
    chains: Sequence[Chain],
    path: str | Path | None = None,
    *,
    hops: int = 1,
    nodes: int = 60,
    whole: bool = False,
    seed: int = 0,
    title: str = "The chain, and what is near it",
) -> Picture | Path:
    """Draw chains on the chunk-interaction graph, with the reason for each hop (IIER, Figure 2).

    Colours are documents and dashes are kinds of edge. A chunk of a chain is a large disc with the number of its hop,
    the scorer's score beside it, and a card with its title, place and beginning; a thick arrow leads to it from the
    chunk whose neighbour it is, with the kinds and the shared words of that edge. All other nodes are small and pale.
    On hovering (HTML) nodes tell where they stand, how they begin and their keywords, edges what they share; a click
    in the legend switches a kind of edge or a document.

    Args:
        graph: that the chains were found on.
        chains: the first four are drawn, a row each.
        path: a .png or .html to write; None returns the picture.
        hops: how far around the chains nodes are drawn, 0 or more.
        nodes: at most so many of them, the ones with the heaviest edges.
        whole: draw all nodes of the graph instead, 5,000 at most; it must tell their ids, as `ChunkGraph` does.
        seed: of the layout.
        title: of the picture.

    Raises:
        EvaluationError: there is no hop, or the graph does not have one of the chunks.
        ParameterError: a number is below its least, the graph cannot be drawn whole, or the suffix is not known.
        MissingExtraError: the library that draws is not installed.
    """
    for name, value in (("hops", hops), ("nodes", nodes)):
        if value < 0:
            raise ParameterError(name, value, "0 or more")
    told_chains = [chain for chain in chains if chain.hops]
    drawn = told_chains[:_MOST_CHAINS]
    chain_chunks = walked(graph, drawn)
    if whole:
        near = [chunk_id for chunk_id in every(graph, MOST_NODES) if chunk_id not in chain_chunks]
        reached = len(near)
    else:
        near, reached = around(graph, tuple(chain_chunks), hops=hops, most=nodes)
    chunks = fetched(graph, near) | chain_chunks
    links = links_among(graph, list(chunks))
    colours = document_colours(chunks, chain_chunks)
    shades = {chunk_id: colours.get(chunk.document_id, (GREY, 0)) for chunk_id, chunk in chunks.items()}
    stage = (margins if whole else rows_of)(drawn, {key: shades[key][0] for key in chain_chunks})
    places = _placed(chunks, links, stage, seed)
    counts = _counts(links)
    labels = {kind: f"{kind} ({count:,})" for kind, count in counts.items()}
    names = {key: told(chunk, graph) for key, chunk in chain_chunks.items()}
    marks: list[Mark] = [
        *_edges(graph, links, places, chain_chunks, labels=labels, whole=whole),
        *_nodes(graph, chunks, chain_chunks, places, colours=colours, whole=whole),
        *chain_marks(drawn, stage, places, shades, names=names, labels=labels),
    ]
    area = f"all {len(chunks):,} nodes" if whole else _said(len(near), reached, hops)
    x, y = (Axis(limits=(-_RIM, size + _RIM)) for size in (stage.width, stage.height))
    panel = Panel(marks=marks, x=x, y=y, drawing=True)
    caption = f"{_chains_told(drawn, len(told_chains))}; {area}; {_kinds_told(len(links), counts)}."
    picture = Picture(
        title=title, caption=f"{caption} {_DISCS}",
        panels=[panel], height=stage.height + 1.0, inches=stage.width + _LEGEND,
    )  # fmt: skip
    return finished(picture, path)


def document_colours(chunks: Mapping[str, Chunk], first: Mapping[str, Chunk]) -> dict[str, tuple[str, int]]:
    """Return a colour and the number of a shape for each document that gets one: those of `first`, then the largest.

    Colours repeat after seven with another shape; only documents of `first` are more than seven.
    """
    ours = list(dict.fromkeys(chunk.document_id for chunk in first.values()))
    counts = Counter(chunk.document_id for chunk in chunks.values())
    others = sorted((name for name in counts if name not in ours and counts[name] > 1), key=lambda x: (-counts[x], x))
    named = ours + others[: max(0, len(COLOURS) - len(ours))]
    return {name: (COLOURS[at % len(COLOURS)], at // len(COLOURS)) for at, name in enumerate(named)}


def _placed(chunks: Mapping[str, Chunk], links: Sequence[Link], stage: Stage, seed: int) -> dict[str, Place]:
    ids = sorted(chunks)
    row = {chunk_id: at for at, chunk_id in enumerate(ids)}
    edges = np.array([(row[link.one], row[link.two]) for link in links], dtype=np.int64).reshape(-1, 2)
    fixed = np.full((len(ids), 2), np.nan)
    for chunk_id, place in stage.places.items():
        fixed[row[chunk_id]] = place
    found = force_layout(len(ids), edges, stage.field, fixed=fixed, apart=stage.apart, seed=seed)
    placed = {chunk_id: (float(x), float(y)) for chunk_id, (x, y) in zip(ids, found, strict=True)}
    if not stage.whole:
        return placed
    left, bottom, right, top = stage.field
    inside = (left + 0.3, bottom + 0.3, right - 0.3, top - 0.3)
    parted = spread([placed[chunk_id] for chunk_id in stage.cards], inside, apart=_APART)
    return placed | dict(zip(stage.cards, parted, strict=True))


def _edges(
    graph: Graph,
    links: Sequence[Link],
    places: Mapping[str, Place],
    chain_chunks: Mapping[str, Chunk],
    *,
    labels: Mapping[str, str],
    whole: bool,
) -> list[Strokes]:
    """Return the edges of each kind that is there, pale; those at the chain a little darker, and they tell."""
    made = []
    for kind in in_order(kind for link in links for kind in link.weights):
        shade, dash = style(kind)
        seen = (kind, MENTIONED) if kind == MENTION else (kind,)
        held = [link for link in links if any(each in link.weights for each in seen)]
        for at_chain in (False, True):
            here = [link for link in held if (link.one in chain_chunks or link.two in chain_chunks) == at_chain]
            names = [edge_told(graph, link) for link in here] if at_chain or not whole else []
            opacity = (0.4 if at_chain else 0.09) if whole else (0.55 if at_chain else 0.18)
            made.append(
                Strokes(
                    paths=[_strand(link, kind, places) for link in here],
                    label=labels[kind], colour=shade, dash=dash, names=names, opacity=opacity,
                    width=0.5 if whole and not at_chain else 0.9,
                )
            )  # fmt: skip
    return [mark for mark in made if mark.paths]


def _strand(link: Link, kind: str, places: Mapping[str, Place]) -> list[Place]:
    """Return the line of one kind of an edge, beside those of its other kinds."""
    kinds = in_order(link.weights)
    (x0, y0), (x1, y1) = places[min(link.one, link.two)], places[max(link.one, link.two)]
    aside = (kinds.index(kind) - (len(kinds) - 1) / 2) * _STRAND / (hypot(x1 - x0, y1 - y0) or 1.0)
    dx, dy = aside * (y0 - y1), aside * (x1 - x0)
    return [(x0 + dx, y0 + dy), (x1 + dx, y1 + dy)]


def _nodes(
    graph: Graph,
    chunks: Mapping[str, Chunk],
    chain_chunks: Mapping[str, Chunk],
    places: Mapping[str, Place],
    *,
    colours: Mapping[str, tuple[str, int]],
    whole: bool,
) -> list[Discs]:
    """Return the nodes that no chain has, small and pale, by document; those without a colour are one grey group."""
    groups: dict[str | None, list[Chunk]] = {name: [] for name in colours}
    for chunk in (chunks[chunk_id] for chunk_id in sorted(chunks)):
        group = groups.setdefault(chunk.document_id if chunk.document_id in colours else None, [])
        if chunk.id not in chain_chunks:
            group.append(chunk)
    titles = {chunk.document_id: title_of(chunk) for chunk in chunks.values()}
    made = []
    for name, held in groups.items():
        shade, shape = (GREY, 0) if name is None else colours[name]
        others = len({chunk.document_id for chunk in held})
        label = (
            f"{others:,} other document{'s' if others != 1 else ''}"
            if name is None
            else shortened(titles[name], _TITLE)
        )
        made.append(
            Discs(
                places=[places[chunk.id] for chunk in held], label=label, colour=shade, size=3.2 if whole else 6.0,
                shape=shape, opacity=0.5 if whole else 0.6, names=[told(chunk, graph) for chunk in held],
            )
        )  # fmt: skip
    return made


def _said(shown: int, reached: int, hops: int) -> str:
    within = f"within {hops} hop{'s' if hops != 1 else ''}"
    if shown == reached:
        return f"all {reached:,} neighbours {within}"
    return f"{shown:,} of the {reached:,} neighbours {within}, those with the heaviest edges"


def _chains_told(drawn: Sequence[Chain], given: int) -> str:
    lengths = ", ".join(str(len(chain.hops)) for chain in drawn)
    left_out = f" (of {given}, the first ones)" if given > len(drawn) else ""
    documents = len({chunk.document_id for chain in drawn for chunk in chain.chunks})
    return (
        f"{len(drawn)} chain{'s' if len(drawn) != 1 else ''}{left_out} of {lengths} chunks from {documents} "
        f"document{'s' if documents != 1 else ''}"
    )


def _counts(links: Sequence[Link]) -> dict[str, int]:
    """Return how many edges are of each kind, in the order of the legend."""
    counts = Counter(kind for link in links for kind in in_order(link.weights))
    return {kind: counts[kind] for kind in in_order(counts)}


def _kinds_told(edges: int, counts: Mapping[str, int]) -> str:
    return f"{edges:,} edges: " + (", ".join(f"{kind} {count:,}" for kind, count in counts.items()) or "none")

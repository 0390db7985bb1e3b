"""Draw chains on the chunk-interaction graph, and what is near them: discs, arrows, cards and reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot
from pathlib import Path

import numpy as np

from catena import Chunk
from catena.effects import Graph
from catena.graph import kinds_in_order, reasons
from catena.model import Chain, Hop, ParameterError
from catena_view.plots.graph_view import (
    Box,
    DrawnEdge,
    around,
    beside,
    bowed,
    edge_told,
    every,
    excerpt,
    fetched,
    force_layout,
    free_box,
    least_met,
    links_among,
    place_of,
    spread,
    style,
    title_of,
    told,
    walked,
)
from catena_view.plots.picture import (
    COLOURS,
    GREY,
    LINE_HEIGHT,
    Axis,
    Card,
    Cards,
    Discs,
    Mark,
    Panel,
    Picture,
    Place,
    Strokes,
    TextMarks,
    card_height,
    card_lines,
    finished,
    lines_of,
    number_of,
    shortened,
    width,
)

MOST_NODES = 5_000
"""Nodes that are drawn when the whole graph is: the layout takes time as their square."""

_DISCS = "In the discs: the order of the hops; beside them: the scorer's score, or of a seed that of its selection."
_MOST_CHAINS = 4
_LEGEND = 2.4  # inches
_APART = 0.75  # inches between the discs of a chain in a whole graph
_RIM = 0.06  # inches around the page, so that no line is cut
_STRAND = 0.024  # inches between the kinds of an edge
_TITLE = 30  # letters of a document's title, in the legend
WIDTH = 9.4  # inches, of rows
_ONE_ROW, _ROWS = 5.6, 6.6  # inches, heights of one row and of several
_WHOLE = (11.2, 6.4)  # inches, of a whole graph with its margins
_MARGIN = 2.3  # inches, of a whole graph, left and right
_GAP = 0.14  # inches between cards
_WIDEST = 2.9  # inches, of a card
_ZIGZAG = 0.62  # inches, of discs above and below the middle of their row
_DISC = 17.0  # points
_REASON = 6.5  # points, of letters on edges
_CHAIN = "#333333"
_BOWS = (0.05, -0.05, 0.3, -0.3, 0.55, -0.55, 0.85, -0.85)  # inches, in order of preference


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
    counts = Counter(kind for link in links for kind in kinds_in_order(link.weights))
    kinds = kinds_in_order(counts)
    labels = {kind: f"{kind} ({counts[kind]:,})" for kind in kinds}
    names = {key: told(chunk, graph) for key, chunk in chain_chunks.items()}
    marks: list[Mark] = [
        *_edges(graph, links, places, chain_chunks, labels=labels, whole=whole),
        *_nodes(graph, chunks, chain_chunks, places, colours=colours, whole=whole),
        *chain_marks(drawn, stage, places, shades, names=names, labels=labels),
    ]
    area = f"all {len(chunks):,} nodes" if whole else _said(len(near), reached, hops)
    x, y = (Axis(limits=(-_RIM, size + _RIM)) for size in (stage.width, stage.height))
    panel = Panel(marks=marks, x=x, y=y, drawing=True)
    edges = ", ".join(f"{kind} {counts[kind]:,}" for kind in kinds) or "none"
    caption = f"{_chains_told(drawn, len(told_chains))}; {area}; {len(links):,} edges: {edges}."
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


def _placed(chunks: Mapping[str, Chunk], links: Sequence[DrawnEdge], stage: Stage, seed: int) -> dict[str, Place]:
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
    links: Sequence[DrawnEdge],
    places: Mapping[str, Place],
    chain_chunks: Mapping[str, Chunk],
    *,
    labels: Mapping[str, str],
    whole: bool,
) -> list[Strokes]:
    """Return the edges of each kind that is there, pale; those at the chain a little darker, and they tell."""
    made = []
    for kind in kinds_in_order(kind for link in links for kind in link.weights):
        shade, dash = style(kind)
        held = [link for link in links if link.weight(kind)]
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


def _strand(link: DrawnEdge, kind: str, places: Mapping[str, Place]) -> list[Place]:
    """Return the line of one kind of an edge, beside those of its other kinds."""
    kinds = kinds_in_order(link.weights)
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
        if name is None:
            shade, shape = GREY, 0
            label = number_of(len({chunk.document_id for chunk in held}), "other document")
        else:
            shade, shape = colours[name]
            label = shortened(titles[name], _TITLE)
        made.append(
            Discs(
                places=[places[chunk.id] for chunk in held], label=label, colour=shade, size=3.2 if whole else 6.0,
                shape=shape, opacity=0.5 if whole else 0.6, names=[told(chunk, graph) for chunk in held],
            )
        )  # fmt: skip
    return made


def _said(shown: int, reached: int, hops: int) -> str:
    within = f"within {number_of(hops, 'hop')}"
    if shown == reached:
        return f"all {reached:,} neighbours {within}"
    return f"{shown:,} of the {reached:,} neighbours {within}, those with the heaviest edges"


def _chains_told(drawn: Sequence[Chain], given: int) -> str:
    lengths = ", ".join(str(len(chain.hops)) for chain in drawn)
    left_out = f" (of {given}, the first ones)" if given > len(drawn) else ""
    documents = len({chunk.document_id for chain in drawn for chunk in chain.chunks})
    return f"{number_of(len(drawn), 'chain')}{left_out} of {lengths} chunks from {number_of(documents, 'document')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A page in inches, and what of the chains is on it before anything else is.

    Attributes:
        places: of the chunks that stay, by id; of a whole graph none.
        cards: by id; of a whole graph they lie in the margins, not yet beside their nodes.
        field: where nodes may be.
        apart: where none may.
        whole: whether all nodes of the graph are drawn.
    """

    width: float
    height: float
    places: Mapping[str, Place]
    cards: Mapping[str, Card]
    field: Box
    apart: tuple[Box, ...] = ()
    whole: bool = False


def rows_of(chains: Sequence[Chain], shades: Mapping[str, str]) -> Stage:
    """Return a page on which each chain is a row from left to right; a chunk is in the first chain that has it."""
    rows = [row for row in _rows(chains) if row]
    height = _ONE_ROW if len(rows) == 1 else _ROWS
    places: dict[str, Place] = {}
    cards: dict[str, Card] = {}
    for number, row in enumerate(rows):
        top, bottom = height * (1 - number / len(rows)), height * (1 - (number + 1) / len(rows))
        count = len(row)
        sides = 2 if len(rows) == 1 else 1  # one row has cards above and below it, several only below
        room = min(_WIDEST, (sides * WIDTH - _GAP * (count - 1)) / (count - 1 + sides))
        step = (WIDTH - room) / max(count - 1, 1)
        for at, hop in enumerate(row):
            x = room / 2 + at * step if count > 1 else WIDTH / 2
            above = sides == 2 and at % 2 == 0
            y = (top + bottom) / 2 + (_ZIGZAG if above else -_ZIGZAG) if sides == 2 else top - 0.75
            card = _card(hop, shades[hop.chunk.id], room, lines=6 if sides == 2 else 4)
            tall = card.top - card.bottom
            low = top - tall - 0.04 if above else bottom + 0.04 if sides == 2 else y - 0.3 - tall
            cards[hop.chunk.id] = replace(card, left=x - room / 2, right=x + room / 2, bottom=low, top=low + tall)
            places[hop.chunk.id] = (x, y)
    if len(rows) > 1:
        apart, low, high = tuple(_wider(card, 0.08) for card in cards.values()), 0.1, height - 0.1
    else:
        tallest = max(card.top - card.bottom for card in cards.values())
        apart, low, high = (), tallest + 0.15, height - tallest - 0.15
    field = (0.1, low, WIDTH - 0.1, high)
    return Stage(width=WIDTH, height=height, places=places, cards=cards, field=field, apart=apart)


def margins(chains: Sequence[Chain], shades: Mapping[str, str]) -> Stage:
    """Return a page whose middle is free for a whole graph, and whose margins are for the cards."""
    wide, high = _WHOLE
    hops = [hop for row in _rows(chains) for hop in row]
    each = max(2, int((high / -(-len(hops) // 2) - 0.2) / LINE_HEIGHT))  # lines that half of the cards have room for
    numbers = _numbers(chains)
    cards = {
        hop.chunk.id: _card(
            hop, shades[hop.chunk.id], _MARGIN - 0.15, lines=min(6, each), number=numbers[hop.chunk.id]
        )
        for hop in hops
    }
    field = (_MARGIN + 0.25, 0.1, wide - _MARGIN - 0.25, high - 0.1)
    return Stage(width=wide, height=high, places={}, cards=cards, field=field, whole=True)


def chain_marks(
    chains: Sequence[Chain],
    stage: Stage,
    places: Mapping[str, Place],
    shades: Mapping[str, tuple[str, int]],
    *,
    names: Mapping[str, str],
    labels: Mapping[str, str],
) -> list[Mark]:
    """Return arrows with their kinds, discs with their numbers, scores, cards, and the reasons on the arrows.

    Args:
        chains: to draw.
        stage: from `rows_of` or `margins`.
        places: of all nodes.
        shades: colour and number of the shape of each chunk of the chains.
        names: of these chunks, shown on hovering.
        labels: of the kinds of edge in the legend, so that a click there switches those of the chains too.
    """
    cards = _in_margins(stage, places) if stage.whole else dict(stage.cards)
    numbers = _numbers(chains)
    scores = {hop.chunk.id: hop.score for chain in reversed(chains) for hop in reversed(chain.hops)}
    arrows = _arrows(chains, {key: places[key] for key in cards}, cards, (0.0, 0.0, stage.width, stage.height))
    beside_disc = {key: _score_place(places[key], cards[key], stage.whole) for key in cards}
    discs = [
        Discs(
            places=[places[key]], label="", colour=shade, shape=shape,
            size=_DISC if len(numbers[key]) < 3 else _DISC + 5, texts=[numbers[key]],
            names=[f"hop {numbers[key]}, score {scores[key]:.3f}\n{names[key]}"],
        )
        for key, (shade, shape) in ((key, shades[key]) for key in cards)
    ]  # fmt: skip
    made: list[Mark] = [
        Strokes(paths=[_leader(places[key], cards[key]) for key in cards], label="", colour="#8A8A8A", width=0.8),
        Strokes(
            paths=[arrow for _, arrow in arrows], label="hop of a chain", colour=_CHAIN, heads=True,
            width=2.2 if stage.whole else 3.2,
            names=["\n".join(reasons(hop.edge)) if hop.edge else "" for hop, _ in arrows],
        ),
        *([] if stage.whole else _strands(arrows, labels)),
        *discs,
        TextMarks(
            places=list(beside_disc.values()), texts=[f"{scores[key]:.2f}" for key in beside_disc], bold=True,
            size=7.5, colour="#111111",
        ),
        Cards(cards=[replace(card, name=names[key]) for key, card in cards.items()]),
    ]  # fmt: skip
    if not stage.whole:
        taken = [_wider(card, 0.02) for card in cards.values()]
        taken += [_about(place, 0.36, 0.18) for place in beside_disc.values()]
        taken += [_about(places[key], 0.36, 0.36) for key in cards]
        made.append(_reasons(arrows, taken, stage))
    return [mark for mark in made if not isinstance(mark, Strokes) or mark.paths]


def _rows(chains: Sequence[Chain]) -> list[list[Hop]]:
    """Return the hops of each chain without the chunks that were in a chain before it, or before in itself."""
    seen: set[str] = set()
    rows = []
    for chain in chains:
        row = []
        for hop in chain.hops:
            if hop.chunk.id not in seen:
                seen.add(hop.chunk.id)
                row.append(hop)
        rows.append(row)
    return rows


def _numbers(chains: Sequence[Chain]) -> dict[str, str]:
    """Return the number of each chunk's hop: "3", or "2.3" for the third hop of the second of several chains."""
    found: dict[str, str] = {}
    for number, chain in enumerate(chains, start=1):
        for at, hop in enumerate(chain.hops, start=1):
            found.setdefault(hop.chunk.id, f"{number}.{at}" if len(chains) > 1 else str(at))
    return found


def _card(hop: Hop, shade: str, room: float, *, lines: int, number: str = "") -> Card:
    """Return a card of the size that its lines need, at no place yet; with a number it also says its reason."""
    chunk = hop.chunk
    cause = "; ".join(reasons(hop.edge)) if number and hop.edge is not None else ""
    heading = card_lines([(f"{number} · {title_of(chunk)}" if number else title_of(chunk), 2)], room, bold=True)
    known = [*heading, *card_lines([(cause, 2), (place_of(chunk), 1)], room)][:lines]
    written = [*known, *card_lines([(excerpt(chunk), lines - len(known))], room)]
    tall = card_height(len(written))
    return Card(
        left=0.0, bottom=0.0, right=room, top=tall, lines=written, colour=shade, bold=len(heading)
    )  # fmt: skip


def _in_margins(stage: Stage, places: Mapping[str, Place]) -> dict[str, Card]:
    """Return the cards of a whole graph in its margins: half of them on each side, from above in the nodes' order."""
    by_x = sorted(stage.cards, key=lambda key: (places[key][0], key))
    half = -(-len(by_x) // 2)
    placed = {}
    for number, keys in enumerate((by_x[:half], by_x[half:])):
        left = 0.05 if number == 0 else stage.width - _MARGIN + 0.1
        for at, key in enumerate(sorted(keys, key=lambda key: (-places[key][1], key))):
            card = stage.cards[key]
            middle, tall = stage.height * (1 - (at + 0.5) / len(keys)), card.top - card.bottom
            placed[key] = replace(
                card, left=left, right=left + card.right - card.left, bottom=middle - tall / 2, top=middle + tall / 2
            )
    return placed


def _arrows(
    chains: Sequence[Chain], places: Mapping[str, Place], cards: Mapping[str, Card], area: Box
) -> list[tuple[Hop, list[Place]]]:
    """Return an arrow for each hop that came from a chunk drawn, bowed around discs, cards and other arrows."""
    made: dict[tuple[str, str], tuple[Hop, list[Place]]] = {}
    for hop in (hop for chain in chains for hop in chain.hops):
        ends = (hop.came_from, hop.chunk.id)
        if hop.came_from not in places or ends in made or ends[0] == ends[1]:
            continue
        others = [place for key, place in places.items() if key not in ends]
        boxes = [_wider(card, 0.05) for card in cards.values()]
        crossed = [place for _, arrow in made.values() for place in arrow]
        paths = [bowed(places[ends[0]], places[ends[1]], bow, gaps=(0.17, 0.18)) for bow in _BOWS]
        made[ends] = (hop, paths[least_met(paths, others, boxes, crossed, area)])
    return list(made.values())


def _strands(arrows: Sequence[tuple[Hop, list[Place]]], labels: Mapping[str, str]) -> list[Strokes]:
    """Return the kinds of each arrow's edge as lines beside it, in their own dashes."""
    found: dict[str, list[list[Place]]] = {}
    for hop, arrow in arrows:
        for number, kind in enumerate(kinds_in_order(hop.edge.weights) if hop.edge else []):
            offset = (0.055 + 0.035 * (number // 2)) * (1 if number % 2 == 0 else -1)
            found.setdefault(kind, []).append(beside(arrow[:-3] or arrow, offset))
    return [
        Strokes(
            paths=found[kind], label=labels.get(kind, kind), colour=style(kind)[0], dash=style(kind)[1], width=1.5
        )
        for kind in kinds_in_order(found)
    ]


def _reasons(arrows: Sequence[tuple[Hop, list[Place]]], taken: Sequence[Box], stage: Stage) -> TextMarks:
    """Return what joins the two ends of each arrow, at the first place along it that is free."""
    boxes, places, texts = list(taken), [], []
    for hop, arrow in arrows:
        if hop.edge is None:
            continue
        room = min(1.9, max(0.95, abs(arrow[-1][0] - arrow[0][0]) * 0.95))
        lines = [line for text in reasons(hop.edge) for line in lines_of(text, room, 2, _REASON)][:5]
        wide = max(width(line, _REASON) for line in lines)
        tall = len(lines) * _REASON * 1.3 / 72
        choices = [
            (x, y + shift * (tall / 2 + 0.1))
            for shift in (0.0, 1.0, -1.0, 1.8, -1.8)
            for x, y in (arrow[len(arrow) * part // 8] for part in (4, 3, 5, 2, 6))
        ]
        choices = [
            (min(max(x, wide / 2), stage.width - wide / 2), min(max(y, tall / 2), stage.height - tall / 2))
            for x, y in choices
        ]
        place = choices[free_box([_about(choice, wide, tall) for choice in choices], boxes)]
        boxes.append(_about(place, wide, tall))
        places.append(place)
        texts.append("\n".join(lines))
    return TextMarks(places=places, texts=texts, size=_REASON)


def _score_place(place: Place, card: Card, whole: bool) -> Place:
    """Return where a score stands: beside the line that leads to the card, where arrows seldom are."""
    x, y = place
    if whole:
        return x + 0.3, y
    return x + 0.24, y + (-0.17 if card.top < y else 0.17)


def _leader(place: Place, card: Card) -> list[Place]:
    """Return the line from a node to the nearest place of its card."""
    x, y = place
    return [place, (min(max(x, card.left), card.right), min(max(y, card.bottom), card.top))]


def _wider(card: Card, by: float) -> Box:
    return card.left - by, card.bottom - by, card.right + by, card.top + by


def _about(place: Place, wide: float, tall: float) -> Box:
    return place[0] - wide / 2, place[1] - tall / 2, place[0] + wide / 2, place[1] + tall / 2

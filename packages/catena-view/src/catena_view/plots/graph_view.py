"""Choose the nodes and edges that are drawn about chains, the texts that tell of them, and where they are laid."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from catena import Chunk, ParameterError
from catena.effects import Expand, FetchById, FetchNodes, Graph
from catena.graph import reasons
from catena.model import (
    KEYWORD,
    MENTION,
    MENTIONED,
    NAME,
    SEMANTIC,
    STRUCTURAL,
    TITLE,
    Chain,
    Edge,
    EvaluationError,
    Hop,
    citation,
)
from catena_view.plots.picture import Dash, Place, shortened

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

    def weight(self, kind: str) -> float:
        """Return its weight by a kind, 0 where that does not join the two; a mention counts from either side."""
        seen = (kind, MENTIONED) if kind == MENTION else (kind,)
        return max(self.weights.get(each, 0.0) for each in seen)


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
    keywords = keywords_of(chunk, graph)
    return "\n".join([*lines, *_lines(f"keywords: {', '.join(keywords)}" if keywords else "")])


def keywords_of(chunk: Chunk, graph: Graph | None) -> tuple[str, ...]:
    """Return the keywords that a graph keeps of a chunk, as far as it can tell them."""
    return tuple(graph.node(chunk.id).keywords) if isinstance(graph, WholeGraph) else ()


def why(hop: Hop) -> list[str]:
    """Return why a hop is there, a line for each kind of the edge that led to it."""
    if not hop.came_from:
        return ["from the first ranking"]
    return reasons(hop.edge) if hop.edge is not None else ["no edge any more"]


def edge_told(graph: Graph, link: DrawnEdge) -> str:
    """Return what shows on hovering over an edge: all its kinds, with the words where the graph knows them."""
    edge = graph.edge(link.one, link.two) if isinstance(graph, WholeGraph) else None
    return "\n".join(line for text in reasons(edge or Edge(weights=link.weights)) for line in _lines(text))


def _lines(text: str) -> list[str]:
    return textwrap.wrap(text, _HOVER)


Box: TypeAlias = tuple[float, float, float, float]
"""Left, bottom, right, top in inches."""

_BLOCK = 256  # rows of the pairs of nodes that are weighed at once
_ROUNDS = 90
_SMOOTHINGS = 40
_CLEAR = 0.3  # inches that an arrow stays away from discs
_PULLS = 4.0  # edges of a node on average, from which on they pull less, so that dense graphs do not collapse
_REACH = 0.12  # inches, of the largest step in the first round, in parts of the smaller side times its root


def force_layout(
    count: int,
    edges: NDArray[np.int64],
    area: Box,
    *,
    fixed: NDArray[np.float64] | None = None,
    apart: Sequence[Box] = (),
    seed: int = 0,
) -> NDArray[np.float64]:
    """Place nodes so that joined ones are near each other and others far: Fruchterman and Reingold's forces.

    With `l = sqrt(area / n)`, nodes at distance d push each other away by l²/d, and joined ones pull by d²/l. They
    start where smoothing over the edges puts seeded random places, so that clusters are apart from the beginning.
    Sums are taken in the order of rows: the same input gives the same places.

    Args:
        count: n nodes.
        edges: pairs of them, shape (edges, 2), each pair once.
        area: that holds all nodes.
        fixed: places that stay, shape (n, 2), nan where a node may move.
        apart: boxes that no moving node may be in.
        seed: of the places to begin with.

    Returns:
        Places in inches, shape (n, 2).

    Source: Fruchterman and Reingold, Software: Practice and Experience 21(11), 1991, doi:10.1002/spe.4380211102.
    """
    left, bottom, right, top = area
    size = np.array([right - left, top - bottom])
    corner = np.array([left, bottom])
    stays = np.zeros(count, dtype=bool) if fixed is None else ~np.isnan(fixed[:, 0])
    places: NDArray[np.float64] = _smoothed(count, edges, seed) * size * 0.9 + corner + size * 0.05
    if fixed is not None and stays.any():
        places = _beside(places, fixed, stays, edges, size)
    moves = ~stays
    length = float(np.sqrt(size[0] * size[1] / max(count, 1)))
    for number in range(_ROUNDS):
        force = _pushes(places, length) + _pulls(places, edges, length) + _walls(places, corner, size, length)
        reach = np.hypot(force[:, 0], force[:, 1])[:, None]
        step = _REACH * float(size.min()) * (1 - number / _ROUNDS) ** 1.5
        places[moves] += (force / np.maximum(reach, 1e-9) * np.minimum(reach, step))[moves]
        places[moves] = np.clip(places[moves], corner, corner + size)
        for box in apart:
            places = _outside(places, box, moves)
    return places


def _smoothed(count: int, edges: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    """Return seeded places in the unit square, moved again and again to the mean of their neighbours' ranks."""
    places = np.random.default_rng(seed).random((count, 2))
    one, two = edges[:, 0], edges[:, 1]
    degree = 1.0 + np.bincount(one, minlength=count) + np.bincount(two, minlength=count)
    for _ in range(_SMOOTHINGS if len(edges) else 0):
        for axis in range(2):
            values = places[:, axis]
            sums = values + np.bincount(one, values[two], count) + np.bincount(two, values[one], count)
            places[:, axis] = sums / degree
        places = (np.argsort(np.argsort(places, axis=0, kind="stable"), axis=0, kind="stable") + 0.5) / count
    return places


def _beside(
    places: NDArray[np.float64],
    fixed: NDArray[np.float64],
    stays: NDArray[np.bool_],
    edges: NDArray[np.int64],
    size: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return places of which those that stay are where they must be, and their neighbours begin beside them."""
    sums, counts = np.zeros_like(places), np.zeros(len(places))
    for one, two in ((0, 1), (1, 0)):
        anchored = edges[stays[edges[:, one]]]
        np.add.at(sums, anchored[:, two], fixed[anchored[:, one]])
        np.add.at(counts, anchored[:, two], 1.0)
    near = (counts > 0) & ~stays
    begun = places.copy()
    scatter = (places - places.mean(axis=0)) * 0.25
    begun[near] = sums[near] / counts[near][:, None] + scatter[near]
    begun[stays] = fixed[stays]
    return begun


def _pushes(places: NDArray[np.float64], length: float) -> NDArray[np.float64]:
    x, y = (np.ascontiguousarray(places[:, axis], dtype=np.float32) for axis in range(2))
    force = np.empty_like(places)
    for start in range(0, len(places), _BLOCK):
        dx = x[start : start + _BLOCK, None] - x[None, :]
        dy = y[start : start + _BLOCK, None] - y[None, :]
        weight = np.float32(length * length) / (dx * dx + dy * dy + np.float32(1e-5))
        force[start : start + _BLOCK, 0] = (dx * weight).sum(axis=1)
        force[start : start + _BLOCK, 1] = (dy * weight).sum(axis=1)
    return force


def _pulls(places: NDArray[np.float64], edges: NDArray[np.int64], length: float) -> NDArray[np.float64]:
    one, two = edges[:, 0], edges[:, 1]
    gap = places[two] - places[one]
    count = len(places)
    slack = max(1.0, 2 * len(edges) / count / _PULLS)
    pull = gap * np.hypot(gap[:, 0], gap[:, 1])[:, None] / (length * slack)
    sides = [np.bincount(one, pull[:, axis], count) - np.bincount(two, pull[:, axis], count) for axis in range(2)]
    return np.stack(sides, axis=1)


def _walls(
    places: NDArray[np.float64], corner: NDArray[np.float64], size: NDArray[np.float64], length: float
) -> NDArray[np.float64]:
    """Return how the sides push back: as much as all nodes together push those at the border."""
    low = np.maximum(places - corner, 0.05 * length)
    high = np.maximum(corner + size - places, 0.05 * length)
    pushed: NDArray[np.float64] = 0.5 * float(size.min()) * length * (1 / low - 1 / high)
    return pushed


def _outside(places: NDArray[np.float64], box: Box, moves: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return places of which the moving ones that were in a box are above or below it, whichever is nearer."""
    left, bottom, right, top = box
    x, y = places[:, 0], places[:, 1]
    inside = moves & (x > left) & (x < right) & (y > bottom) & (y < top)
    moved = places.copy()
    moved[inside, 1] = np.where(y[inside] > (bottom + top) / 2, top, bottom)
    return moved


def free_box(choices: Sequence[Box], taken: Sequence[Box]) -> int:
    """Return the number of the first box that overlaps none that is taken, or of the one that overlaps least."""
    return min(range(len(choices)), key=lambda at: (sum(overlap(choices[at], other) for other in taken), at))


def least_met(
    paths: Sequence[Sequence[Place]],
    discs: Sequence[Place],
    boxes: Sequence[Box],
    crossed: Sequence[Place],
    area: Box,
) -> int:
    """Return the number of the path that meets least: of discs, boxes and what is outside an area, then of places."""
    return min(range(len(paths)), key=lambda at: (_met(paths[at], discs, boxes, crossed, area), at))


def _met(
    path: Sequence[Place], discs: Sequence[Place], boxes: Sequence[Box], crossed: Sequence[Place], area: Box
) -> float:
    found = 0.0
    for x, y in path:
        found += 3.0 * sum((x - dx) ** 2 + (y - dy) ** 2 < _CLEAR**2 for dx, dy in discs)
        found += 3.0 * sum(left < x < right and bottom < y < top for left, bottom, right, top in boxes)
        found += 3.0 * (not (area[0] < x < area[2] and area[1] < y < area[3]))
        found += any((x - dx) ** 2 + (y - dy) ** 2 < (_CLEAR / 2) ** 2 for dx, dy in crossed)
    return found


def spread(places: Sequence[Place], area: Box, *, apart: float) -> list[Place]:
    """Return places moved as little as it takes, about, until no two are nearer than `apart`, all inside an area."""
    begun = np.array(places, dtype=np.float64).reshape(-1, 2)
    moved = parted(begun, np.full(len(begun), apart / 2), (np.array(area[:2]), np.array(area[2:])), rounds=200)
    return [(float(x), float(y)) for x, y in moved]


def parted(
    places: NDArray[np.float64],
    radii: NDArray[np.float64],
    ends: tuple[NDArray[np.float64], NDArray[np.float64]],
    *,
    rounds: int,
) -> NDArray[np.float64]:
    """Return middles of discs moved as little as it takes, about, until none lies on another.

    Args:
        places: shape (n, 2).
        radii: of the discs, shape (n,).
        ends: the lowest and the highest places, for all discs or for each.
        rounds: at most.
    """
    moved = places
    turn = np.arange(len(moved))[:, None] - np.arange(len(moved))[None, :]
    for _ in range(rounds):
        gap = moved[:, None] - moved[None, :]
        gap[..., 0] += 1e-6 * turn  # so that two at one place part
        reach = np.hypot(gap[..., 0], gap[..., 1])
        np.fill_diagonal(reach, np.inf)
        short = np.maximum(radii[:, None] + radii[None, :] - reach, 0.0)
        if not short.any():
            break
        step = (gap / np.maximum(reach, 1e-9)[..., None] * short[..., None] * 0.5).sum(axis=1)
        moved = np.clip(moved + step, *ends)
    return moved


def overlap(one: Box, two: Box) -> float:
    """Return the area that two boxes share, in square inches."""
    across = min(one[2], two[2]) - max(one[0], two[0])
    along = min(one[3], two[3]) - max(one[1], two[1])
    return across * along if across > 0 and along > 0 else 0.0


def bowed(start: Place, end: Place, bow: float, *, gaps: tuple[float, float], steps: int = 24) -> list[Place]:
    """Return a parabola's places from one place to another, without what is nearer than `gaps` to its ends.

    Args:
        start: in inches.
        end: in inches.
        bow: how far its middle is left of the straight line, in inches; negative for right of it.
        gaps: to leave at the start and at the end, in inches.
        steps: straight pieces that it is made of, before its ends are cut.
    """
    one, two = np.array(start), np.array(end)
    along = two - one
    reach = float(np.hypot(*along)) or 1.0
    normal = np.array([-along[1], along[0]]) / reach
    t = np.linspace(0.0, 1.0, steps + 1)[:, None]
    path = one + t * along + 4 * t * (1 - t) * bow * normal
    far = (np.hypot(*(path - one).T) >= gaps[0]) & (np.hypot(*(path - two).T) >= gaps[1])
    kept = path[far]
    if len(kept) < 2:
        kept = path[steps // 2 - 1 : steps // 2 + 2]
    return [(float(x), float(y)) for x, y in kept]


def beside(path: Sequence[Place], offset: float) -> list[Place]:
    """Return a path `offset` inches to the left of another."""
    places = np.array(path)
    along = np.gradient(places, axis=0)
    along /= np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-9)[:, None]
    moved = places + offset * np.stack([-along[:, 1], along[:, 0]], axis=1)
    return [(float(x), float(y)) for x, y in moved]

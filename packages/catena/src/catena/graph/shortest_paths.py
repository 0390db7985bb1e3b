"""Shortest paths over a chunk-interaction graph: the same ones whatever the order of anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catena.effects.steps import Expand
from catena.model.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from catena.effects.ports import Graph


class Adjacency:
    """The neighbours of nodes, by ascending id, each asked of the graph once.

    Args:
        graph: of which they are asked.
        kinds: of edges that count; None counts all that the graph has.
    """

    def __init__(self, graph: Graph, kinds: Sequence[str] | None = None) -> None:
        self._graph, self._kinds = graph, None if kinds is None else tuple(kinds)
        self._known: dict[str, tuple[str, ...]] = {}

    def of(self, chunk_id: str) -> tuple[str, ...]:
        """Return the neighbours of one node; none where the graph has no such node."""
        self.ask([chunk_id])
        return self._known[chunk_id]

    def ask(self, chunk_ids: Iterable[str]) -> None:
        """Ask for the neighbours of several nodes at once, so that `of` need not."""
        wanted = tuple(dict.fromkeys(chunk for chunk in chunk_ids if chunk not in self._known))
        if not wanted:
            return
        found = self._graph.expand(Expand(chunk_ids=wanted, kinds=self._kinds))
        joined: dict[str, list[str]] = {chunk: [] for chunk in wanted}
        for source, target in zip(found.source.tolist(), found.target.tolist(), strict=True):
            joined[found.sources[source]].append(found.nodes.ids[target])
        self._known.update((chunk, tuple(sorted(ids))) for chunk, ids in joined.items())


def shortest_path(graph: Graph, start: str, end: str, max_hops: int) -> tuple[str, ...] | None:
    """Return a path of fewest edges, both ends included, or None where none has at most `max_hops` edges.

    Args:
        graph: whose edges are followed, whatever their kind and weight.
        start: id of a node.
        end: id of a node.
        max_hops: edges, at least 1.

    Returns:
        Of several the first by its ids, compared from the start.

    Raises:
        ParameterError: `max_hops` is below 1.
        CatenaError: whatever the graph fails with.
    """
    return shortest_paths(Adjacency(graph), start, (end,), max_hops).get(end)


def shortest_paths(
    adjacency: Adjacency, start: str, ends: Collection[str], max_hops: int
) -> Mapping[str, tuple[str, ...]]:
    """Return the path from one node to each of several that it reaches, as `shortest_path` does.

    A breadth-first search in which each level stands in the order of its paths: the first to reach a node is then
    the first by its ids too.

    Raises:
        ParameterError: `max_hops` is below 1.
        CatenaError: whatever the graph fails with.
    """
    if max_hops < 1:
        raise ParameterError("max_hops", max_hops, "at least 1 edge")
    before: dict[str, str] = {start: ""}
    level, sought = [start], set(ends) - {start}
    for _ in range(max_hops):
        if not level or not sought:
            break
        adjacency.ask(level)
        reached: list[str] = []
        for node in level:
            for neighbour in adjacency.of(node):
                if neighbour not in before:
                    before[neighbour] = node
                    reached.append(neighbour)
        sought -= set(reached)
        level = reached
    return {end: _back(before, end) for end in ends if end in before}


def _back(before: Mapping[str, str], end: str) -> tuple[str, ...]:
    path = [end]
    while before[path[-1]]:
        path.append(before[path[-1]])
    return tuple(reversed(path))

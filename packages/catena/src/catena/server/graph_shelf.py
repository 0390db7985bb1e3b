"""Nodes of a graph that were read from a server, kept while there is room: a walk comes back to them at each hop."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from catena.server.graph_index import GraphAbout
from catena.server.graph_node import GraphNode


class Shelf:
    """The nodes of one index, those last asked for; for all threads.

    An index is never changed once it can be found, so that what is on the shelf stays right; what the graph does not
    have is kept as None.

    Args:
        index: that holds the graph.
        about: what it says of itself.
        size: nodes kept at most; one of 384 dimensions and a page of text takes some ten kilobytes.
    """

    def __init__(self, index: str, about: GraphAbout, size: int) -> None:
        self.index = index
        self.about = about
        self._size = size
        self._nodes: OrderedDict[str, GraphNode | None] = OrderedDict()
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return len(self._nodes)

    def known(self, chunk_ids: Iterable[str]) -> dict[str, GraphNode | None]:
        """Return what is known of some ids; the others are missing."""
        found = {}
        with self._guard:
            for chunk_id in chunk_ids:
                if chunk_id in self._nodes:
                    self._nodes.move_to_end(chunk_id)
                    found[chunk_id] = self._nodes[chunk_id]
        return found

    def keep(self, nodes: Mapping[str, GraphNode | None]) -> None:
        """Put nodes on the shelf; those that were asked for longest ago make room."""
        with self._guard:
            self._nodes.update(nodes)
            while len(self._nodes) > self._size:
                self._nodes.popitem(last=False)

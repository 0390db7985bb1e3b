"""Neighbours in a document: the chunk before and the one after, be they text, table or figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from catena.graph.joins import term_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from catena.graph.node import Node

NOBODY = -1


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """Where n nodes stand in their documents, and who stands beside them.

    Attributes:
        documents: number of each node's document, shape (n,), uint64.
        positions: of each node in it, shape (n,), int64.
        beside: the places before and after each, shape (n, 2), int32; -1 where there is none.
    """

    documents: NDArray[np.uint64]
    positions: NDArray[np.int64]
    beside: NDArray[np.int32]

    @classmethod
    def of(cls, documents: NDArray[np.uint64], positions: NDArray[np.int64]) -> Reading:
        """Return who stands beside whom: next in reading order; of equal positions the lower place comes first."""
        beside = np.full((len(documents), 2), NOBODY, np.int32)
        order = np.lexsort((positions, documents))
        here, there = order[:-1], order[1:]
        same = documents[here] == documents[there]
        beside[there[same], 0] = here[same]
        beside[here[same], 1] = there[same]
        return cls(documents, positions, beside)


def standings(nodes: Sequence[Node]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the number of each node's document, and its position there."""
    known: dict[str, int] = {}
    for node in nodes:
        if node.chunk.document_id not in known:
            known[node.chunk.document_id] = term_number(node.chunk.document_id)
    documents = np.array([known[node.chunk.document_id] for node in nodes], np.uint64)
    return documents, np.array([node.chunk.position for node in nodes], np.int64)

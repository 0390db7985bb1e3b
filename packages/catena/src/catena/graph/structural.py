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

    def changed(
        self,
        moved: NDArray[np.integer],
        added: NDArray[np.integer],
        standing: tuple[NDArray[np.uint64], NDArray[np.int64]],
    ) -> Reading:
        """Return who stands beside whom after nodes moved, went and came: sought anew in their documents only.

        Args:
            moved: the new place of each node, -1 of one that went; the others keep their order.
            added: the places of those that came, ascending.
            standing: numbers of their documents, and positions.
        """
        stayed = moved >= 0
        here = moved[stayed]
        nodes = len(here) + len(added)
        documents, positions = np.empty(nodes, np.uint64), np.empty(nodes, np.int64)
        documents[here], positions[here] = self.documents[stayed], self.positions[stayed]
        documents[added], positions[added] = standing
        beside = np.full((nodes, 2), NOBODY, np.int32)
        beside[here] = np.where(self.beside[stayed] == NOBODY, NOBODY, moved[self.beside[stayed]])
        touched = np.union1d(self.documents[~stayed], documents[added])
        again = np.flatnonzero(np.isin(documents, touched, kind="sort"))
        anew = Reading.of(documents[again], positions[again]).beside
        beside[again] = np.where(anew == NOBODY, NOBODY, again[anew]) if len(again) else anew
        return Reading(documents, positions, beside)


def standings(nodes: Sequence[Node]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the number of each node's document, and its position there."""
    known: dict[str, int] = {}
    for node in nodes:
        if node.chunk.document_id not in known:
            known[node.chunk.document_id] = term_number(node.chunk.document_id)
    documents = np.array([known[node.chunk.document_id] for node in nodes], np.uint64)
    return documents, np.array([node.chunk.position for node in nodes], np.int64)

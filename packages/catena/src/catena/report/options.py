"""What a report looks at, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from catena.errors import ParameterError
from catena.plots.graph import MOST_NODES

if TYPE_CHECKING:
    from catena.model import Where


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """How much a report shows.

    Attributes:
        k: hits of the ranking, >= 1.
        where: a filter that the ranking, the segments and the walk obey.
        documents: documents of the tree, >= 1; those with hits come first, the rest is counted.
        curves: documents whose chunk values are drawn, >= 1.
        nodes: of the graph, 1 to 5,000; a graph that has more is drawn around the chains.
        depth: length of the rankings that the Log-Rank Index judges, >= 1.
        gamma: growth of the Log-Rank Index, > 0.
    """

    k: int = 10
    where: Where | None = None
    documents: int = 100
    curves: int = 3
    nodes: int = 500
    depth: int = 1_000
    gamma: float = 1.0

    def __post_init__(self) -> None:
        for name in ("k", "documents", "curves", "nodes", "depth"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ParameterError(name, value, "an integer >= 1")
        if self.nodes > MOST_NODES:
            raise ParameterError("nodes", self.nodes, f"an integer from 1 to {MOST_NODES:,}")
        if not (isfinite(self.gamma) and self.gamma > 0):
            raise ParameterError("gamma", self.gamma, "a finite number > 0")

"""What a report looks at, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt

from catena.model import Where
from catena.model.options import check_options
from catena.plots.graph import MOST_NODES


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

    k: Annotated[int, Ge(1)] = 10
    where: Where | None = None
    documents: Annotated[int, Ge(1)] = 100
    curves: Annotated[int, Ge(1)] = 3
    nodes: Annotated[int, Ge(1), Le(MOST_NODES)] = 500
    depth: Annotated[int, Ge(1)] = 1_000
    gamma: Annotated[float, Gt(0), Lt(inf)] = 1.0

    def __post_init__(self) -> None:
        check_options(self)

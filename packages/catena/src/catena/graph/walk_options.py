"""How a walk goes over the graph: where it begins, what it looks at, when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Gt, Lt

from catena.model.errors import ParameterError
from catena.model.neighbourhood import KEYWORD, SEMANTIC, STRUCTURAL
from catena.model.options import as_tuples, check_options

Strategy: TypeAlias = Literal["best_first", "paper", "beam"]
Seeds: TypeAlias = Literal["first", "scored", "keywords", "both"]
Sources: TypeAlias = Literal["graph", "ranking", "both"]

PAPER_KINDS = (STRUCTURAL, SEMANTIC, KEYWORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkOptions:
    """How a walk goes over the graph.

    Attributes:
        strategy: "best_first" takes the best of all that any of the first nodes leads to, again and again; "paper"
            takes from each seed the best neighbour of the last node, again and again; "beam" keeps the best paths
            of all seeds side by side.
        seeds: the "first" of the first ranking; those of its top `pool` that are "scored" best with nothing before
            them; nodes that cover the "keywords" of the question, by greedy cover; or "both", the first and the
            keywords. None: "keywords" for the paper's walk, "both" for a beam, else "first". Where no node covers a
            keyword, the first is taken.
        most_seeds: of each origin; None: one of the ranking, and by keywords as many as it takes to cover them.
        candidates: of the "graph" (neighbours), of the first "ranking" (its top `pool`), or "both". None: "graph" for
            the paper's walk, else "both". "ranking" with `kinds=()` is the same scorer without the graph.
        kinds: of edges to follow; () follows none. None: the paper's three for the paper's walk, else all.
        max_length: nodes of a chain, the seed counted.
        max_chunks: that the walk takes, over all chains; what `k` asks for beyond it comes from the first ranking.
            None: 5 for best-first, which found no more by going on, else 20.
        expand: of a best-first walk, how many of the nodes taken first give their neighbours.
        pool: how many of the first ranking, of those that the graph has, are candidates.
        width: of a beam, in paths.
        min_score: a walk does not take what scores less; None takes anything.
        max_drop: nor what scores this much less than the best hop before; in the scorer's unit.
        hub_penalty: `score - hub_penalty * ln(1 + neighbours)`; 0 looks at no degree.
        budget_tokens: of all chunks returned together; what does not fit is passed over for what does. None: any.
        fill: whether the rest of the first ranking follows what was walked to, up to `k`.

    Source: IIER (arXiv 2408.02907), section 3.2, for "paper"; the others are ours, see docs/decisions.
    """

    strategy: Strategy = "best_first"
    seeds: Seeds | None = None
    most_seeds: Annotated[int, Ge(1)] | None = None
    candidates: Sources | None = None
    kinds: tuple[str, ...] | None = None
    max_length: Annotated[int, Ge(1)] = 5
    max_chunks: Annotated[int, Ge(1)] | None = None
    expand: Annotated[int, Ge(1)] = 5
    pool: Annotated[int, Ge(1)] = 20
    width: Annotated[int, Ge(1)] = 3
    min_score: Annotated[float, Gt(-inf), Lt(inf)] | None = None
    max_drop: Annotated[float, Ge(0), Lt(inf)] | None = None
    hub_penalty: Annotated[float, Ge(0), Lt(inf)] = 0.0
    budget_tokens: Annotated[int, Ge(0)] | None = None
    fill: bool = True

    def __post_init__(self) -> None:
        as_tuples(self, "kinds")
        check_options(self)
        if self.kinds is not None:
            if not all(self.kinds):
                raise ParameterError("kinds", self.kinds, "a sequence of names, e.g. ('semantic', 'mention')")
            object.__setattr__(self, "kinds", tuple(sorted(set(self.kinds))))

    @property
    def begins(self) -> Seeds:
        """Where the walk begins: as asked, or as is usual for the strategy."""
        usual: dict[Strategy, Seeds] = {"paper": "keywords", "beam": "both", "best_first": "first"}
        return self.seeds or usual[self.strategy]

    @property
    def looks_at(self) -> Sources:
        """Where candidates come from: as asked, or as is usual for the strategy."""
        return self.candidates or ("graph" if self.strategy == "paper" else "both")

    @property
    def follows(self) -> tuple[str, ...] | None:
        """The kinds of edges followed, None for all: as asked, or as is usual for the strategy."""
        return PAPER_KINDS if self.kinds is None and self.strategy == "paper" else self.kinds

    @property
    def takes(self) -> int:
        """How many chunks the walk takes at most: as asked, or as is usual for the strategy."""
        return self.max_chunks or (5 if self.strategy == "best_first" else 20)

    @property
    def needs_keywords(self) -> bool:
        """Whether the question's keywords are looked at."""
        return self.begins in ("keywords", "both")


PAPER = WalkOptions(strategy="paper")
"""The paper's walk as written: seeds by keywords, one path each, three kinds of edges, five nodes a path at most."""

"""How a walk goes over the graph: where it begins, what it looks at, when it ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal, TypeAlias, get_args

from catena.errors import ParameterError
from catena.neighbourhood import KEYWORD, SEMANTIC, STRUCTURAL

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
    most_seeds: int | None = None
    candidates: Sources | None = None
    kinds: tuple[str, ...] | None = None
    max_length: int = 5
    max_chunks: int | None = None
    expand: int = 5
    pool: int = 20
    width: int = 3
    min_score: float | None = None
    max_drop: float | None = None
    hub_penalty: float = 0.0
    budget_tokens: int | None = None
    fill: bool = True

    def __post_init__(self) -> None:
        _one_of("strategy", self.strategy, get_args(Strategy))
        _one_of("seeds", self.seeds, (*get_args(Seeds), None))
        _one_of("candidates", self.candidates, (*get_args(Sources), None))
        for name in ("max_length", "expand", "pool", "width"):
            _whole(name, getattr(self, name), least=1)
        _whole("max_chunks", 1 if self.max_chunks is None else self.max_chunks, least=1)
        _whole("most_seeds", 1 if self.most_seeds is None else self.most_seeds, least=1)
        _whole("budget_tokens", 0 if self.budget_tokens is None else self.budget_tokens, least=0)
        _number("min_score", 0.0 if self.min_score is None else self.min_score)
        _number("max_drop", 0.0 if self.max_drop is None else self.max_drop, least=0.0)
        _number("hub_penalty", self.hub_penalty, least=0.0)
        if not isinstance(self.fill, bool):
            raise ParameterError("fill", self.fill, "True or False")
        if self.kinds is not None:
            object.__setattr__(self, "kinds", _names(self.kinds))

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


def _one_of(name: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        raise ParameterError(name, value, f"one of {', '.join(map(repr, allowed))}")


def _whole(name: str, value: object, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ParameterError(name, value, f"an integer >= {least}")


def _number(name: str, value: object, *, least: float = -inf) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not (isfinite(value) and value >= least):
        raise ParameterError(name, value, "a finite number" if least == -inf else f"a finite number >= {least:g}")


def _names(kinds: object) -> tuple[str, ...]:
    given = tuple(kinds) if isinstance(kinds, Iterable) and not isinstance(kinds, str) else None
    if given is None or not all(isinstance(kind, str) and kind for kind in given):
        raise ParameterError("kinds", kinds, "a sequence of names, e.g. ('semantic', 'mention')")
    return tuple(sorted(set(given)))


PAPER = WalkOptions(strategy="paper")
"""The paper's walk as written: seeds by keywords, one path each, three kinds of edges, five nodes a path at most."""

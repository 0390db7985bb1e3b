"""What graph is to be built: how many neighbours by meaning, which kinds of edge by shared terms, and their caps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

from annotated_types import Ge

from catena.graph.edge_kinds import KEYWORDS, NAMES, TermEdges
from catena.graph.mentions import MENTION_CAP
from catena.model.errors import ParameterError
from catena.model.ids import digest
from catena.model.neighbourhood import KEYWORD, MENTION, MENTIONED, SEMANTIC, STRUCTURAL
from catena.model.options import as_tuples, check_options

FORMAT = 2
"""Of what a graph keeps of a node; raised where equal nodes and options give other edges than before."""


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """How chunks are joined.

    Attributes:
        neighbours: k; two nodes are joined by meaning when one is among the k nearest of the other.
        keywords_more_than: T; so many shared keywords do not yet join two nodes; None: as `kinds` has it.
        cap: a title that more nodes bear, or more texts say, joins nothing by mention.
        kinds: of edges by shared terms.
        mentions: whether a text that says a title of another node is joined with it.
        exact_up_to: nodes up to which neighbours by meaning are exact; above, approximate ones (extra `ann`) are
            taken where the whole graph is built, and those of nodes that come later are exact.

    Source: IIER (arXiv 2408.02907), section 4.2: k = 5, T = 2.
    """

    neighbours: Annotated[int, Ge(0)] = 5
    keywords_more_than: Annotated[int, Ge(0)] | None = None
    cap: Annotated[int, Ge(1)] = MENTION_CAP
    kinds: tuple[TermEdges, ...] = (KEYWORDS, NAMES)
    mentions: bool = True
    exact_up_to: Annotated[int, Ge(0)] = 200_000

    def __post_init__(self) -> None:
        as_tuples(self, "kinds")
        check_options(self)
        names = [kind.name for kind in self.kinds]
        if len(set(names)) < len(names):
            raise ParameterError("kinds", tuple(names), "of distinct names")

    @cached_property
    def term_kinds(self) -> tuple[TermEdges, ...]:
        """The kinds of edge by shared terms, by name, the threshold of keywords among them."""
        more_than = self.keywords_more_than
        kinds = [
            replace(kind, more_than=more_than) if kind.name == KEYWORD and more_than is not None else kind
            for kind in self.kinds
        ]
        return tuple(sorted(kinds, key=lambda kind: kind.name))

    @cached_property
    def all_kinds(self) -> tuple[str, ...]:
        """The names of all kinds of edge, sorted."""
        mentions = (MENTION, MENTIONED) if self.mentions else ()
        return tuple(sorted((STRUCTURAL, SEMANTIC, *mentions, *(kind.name for kind in self.kinds))))

    @cached_property
    def identity(self) -> str:
        """A name that graphs of equal options, and no others, share."""
        kinds = [kind.identity for kind in self.term_kinds]
        numbers = (FORMAT, self.neighbours, self.cap, int(self.mentions), self.exact_up_to)
        return digest(*map(str, numbers), *kinds)

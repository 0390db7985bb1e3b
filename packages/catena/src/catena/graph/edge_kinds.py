"""Kinds of edge that shared terms make: the paper's keywords, our rare names, and any that a user registers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from catena.effects.faults import service_error
from catena.graph.node import Node
from catena.model.errors import ParameterError
from catena.model.neighbourhood import KEYWORD, MENTION, MENTIONED, NAME, SEMANTIC, STRUCTURAL

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TAKEN = (STRUCTURAL, SEMANTIC, MENTION, MENTIONED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TermEdges:
    """A kind of edge: two nodes are joined when they share more than `more_than` terms that are not too common.

    With S the shared terms that at most `limit(N)` of the N nodes hold and df(t) the nodes that hold t, the weight is
    `|S|` ("count") or the sum over S of `rarity(df(t), N)` ("rarity").

    Attributes:
        name: of the kind, in `Edge.weights`; no two kinds of a graph share one.
        of: the terms of a node, from the node alone; repetitions count once. A function of a module, not a lambda,
            where graphs are to be sent to other processes.
        more_than: so many shared terms do not yet join.
        weight: "count" or "rarity".
        cap: terms that more nodes hold join nothing: a number of nodes (int), or a share of them (float, up to 1).
        version: raised where `of` gives other terms of the same node; a graph that is kept is then built again.
    """

    name: str
    of: Callable[[Node], Iterable[str]]
    more_than: int = 0
    weight: Literal["count", "rarity"] = "count"
    cap: int | float = 100
    version: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip() or self.name in _TAKEN:
            raise ParameterError("name of a kind of edge", self.name, f"a name, and none of {', '.join(_TAKEN)}")
        if not callable(self.of):
            raise ParameterError(f"of of edges {self.name!r}", self.of, "a function from a node to its terms")
        for field in ("more_than", "version"):
            number = getattr(self, field)
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise ParameterError(f"{field} of edges {self.name!r}", number, "an integer >= 0")
        if self.weight not in ("count", "rarity"):
            raise ParameterError(f"weight of edges {self.name!r}", self.weight, "'count' or 'rarity'")
        if not _is_cap(self.cap):
            raise ParameterError(f"cap of edges {self.name!r}", self.cap, "an integer >= 2, or a float in (0, 1]")

    @property
    def identity(self) -> str:
        """All that decides which edges there are, in words: of two equal ones the edges are the same."""
        of = f"{function_name(self.of)}/{self.version}"
        return f"{self.name}: {of} > {self.more_than}, {self.weight}, cap {self.cap!r}"

    def terms(self, node: Node) -> tuple[str, ...]:
        """Return the terms of a node, each once, in order.

        Raises:
            ParameterError: `of` gives something else than strings.
            ServiceError: it fails; kind and chunk are named.
        """
        whose = f"edges {self.name!r} of chunk {node.id!r}"
        try:
            given = self.of(node)
            terms = tuple(dict.fromkeys(given))
        except Exception as error:
            raise service_error(error, whose) from error
        if isinstance(given, str) or not all(isinstance(term, str) for term in terms):
            raise ParameterError(f"terms of {whose}", given, "a sequence of strings")
        return terms

    def limit(self, nodes: int) -> int:
        """Return the most nodes, of so many, that may hold a term which still joins; 2 at least."""
        return max(2, int(self.cap * nodes)) if isinstance(self.cap, float) else self.cap


def function_name(function: Callable[..., object]) -> str:
    """Return the name under which a function can be imported; a lambda, say, has none of its own."""
    own = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '')}.{own}"


def rarity(holding: NDArray[np.integer], nodes: int) -> NDArray[np.float64]:
    """Return how rare terms are: `ln((N + 1) / df) / ln(N + 1)`, 1 for a term of one node, always above 0.

    The unit is that of a graph of any size: a term of 10 nodes is worth 0.75 among 10,000 nodes and 0.83 among
    1,000,000.

    Args:
        holding: df, how many nodes hold each term; >= 1, any shape.
        nodes: N, of the graph; >= 1.
    """
    import numpy as np

    return np.asarray(1.0 - np.log(holding) / np.log1p(nodes), dtype=np.float64)


def _is_cap(cap: object) -> bool:
    if isinstance(cap, float):
        return 0 < cap <= 1
    return isinstance(cap, int) and not isinstance(cap, bool) and cap >= 2


def keywords_of_node(node: Node) -> tuple[str, ...]:
    """Return the keywords of a node."""
    return node.keywords


def names_of_node(node: Node) -> tuple[str, ...]:
    """Return the names in a node."""
    return node.names


KEYWORDS = TermEdges(name=KEYWORD, of=keywords_of_node, more_than=2, weight="count", cap=500)
"""The paper's: more than two of five keywords shared; the weight is their number."""

NAMES = TermEdges(name=NAME, of=names_of_node, more_than=0, weight="rarity", cap=20)
"""Ours: one rare name joins; the weight is the sum of the rarities."""

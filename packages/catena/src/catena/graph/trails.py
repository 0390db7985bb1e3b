"""What every strategy of a walk keeps of the way it went, and the rules by which all of them stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from catena.effects.steps import FetchById, Step, ask
from catena.graph.frontier import Frontier, Ground, concatenated
from catena.model.neighbourhood import Nodes
from catena.text.tokens import count_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.model import Chunk


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Taken:
    """One node that a walk took.

    Attributes:
        node: with one row.
        score: of the scorer, less the penalty on hubs; of a seed that of its selection.
        came_from: id of the node whose neighbour it is; "" for a seed, and for what the first ranking offered.
        weights: of the edge that led to it, by kind, without zeros.
    """

    node: Nodes
    score: float
    came_from: str = ""
    weights: dict[str, float]

    @property
    def id(self) -> str:
        """Id of its chunk."""
        return self.node.ids[0]

    @classmethod
    def of(cls, frontier: Frontier, row: int, score: float, path: Nodes) -> Taken:
        """Return what one row of a frontier leads to."""
        pairs = zip(frontier.kinds, frontier.weights[row].tolist(), strict=True)
        weights = {kind: weight for kind, weight in pairs if weight}
        return cls(
            node=frontier.nodes.take(frontier.rows[row : row + 1]),
            score=score,
            came_from=path.ids[frontier.froms[row]] if weights else "",
            weights=weights,
        )


@dataclass(frozen=True, slots=True)
class Trails:
    """Where a walk went: `order` is that of the result, `paths` are the chains; what is in one is in the other."""

    order: tuple[Taken, ...]
    paths: tuple[tuple[Taken, ...], ...]


@dataclass(slots=True)
class Purse:
    """The budget in tokens that is left, and the chunks whose tokens were counted.

    Attributes:
        left: tokens; None for no limit.
        chunks: known so far, by id.
    """

    left: int | None
    chunks: dict[str, Chunk]

    def pay(self, chunk_id: str) -> Step[bool]:
        """Take a chunk's tokens from the budget; return whether there were enough."""
        if self.left is None:
            return True
        yield from self.fetch([chunk_id])
        if chunk_id not in self.chunks or (tokens := count_tokens(self.chunks[chunk_id].text)) > self.left:
            return False
        self.left -= tokens
        return True

    def refund(self, chunk_id: str) -> None:
        """Give back what a chunk that was paid for has cost."""
        if self.left is not None:
            self.left += count_tokens(self.chunks[chunk_id].text)

    def fetch(self, ids: Sequence[str]) -> Step[None]:
        """Get to know chunks; those that the graph does not have stay unknown."""
        wanted = tuple(chunk_id for chunk_id in ids if chunk_id not in self.chunks)
        if wanted:
            (chunks,) = yield from ask([FetchById(chunk_ids=wanted)])
            self.chunks.update({i: chunk for i, chunk in zip(wanted, chunks, strict=True) if chunk is not None})


def path_of(hops: Sequence[Taken]) -> Nodes:
    """Return the nodes of a path that is not empty, in order."""
    return concatenated([hop.node for hop in hops])


def worth_taking(
    ground: Ground, path: Nodes, frontier: Frontier, scores: NDArray[np.float64], best: float
) -> Iterator[Taken]:
    """Yield what a walk may take next, best first, down to where it stops early.

    Args:
        ground: of the walk.
        path: from which the frontier leads on.
        frontier: at least one row.
        scores: of its rows.
        best: score of the best hop before; -inf where there was none.
    """
    options = ground.options
    least = -np.inf if options.min_score is None else options.min_score
    if options.max_drop is not None:
        least = max(least, best - options.max_drop)
    for row in frontier.ordered(scores):
        if scores[row] < least:
            return
        yield Taken.of(frontier, row, float(scores[row]), path)

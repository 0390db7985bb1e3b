"""Find and score the ways on from a path: rows of (node of the path, candidate, edge), as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from catena.effects.steps import Expand, FetchById, Step, ask
from catena.graph.options import WalkOptions
from catena.graph.scoring import Candidates, Scorer, WalkQuestion, scores_by
from catena.model import Chunk, Hit, Neighbourhood, Nodes, Ranking
from catena.text.words import count_tokens

Allows: TypeAlias = "Callable[[Chunk], bool]"
"""Whether a chunk that the graph brings may be returned."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FirstRanking:
    """The first ranking, by id.

    Attributes:
        hits: in order.
        ranks: from 1.
        lexical: the lexical route's score over its best, in [0, 1]; of those that it scored.
        dense: the dense route's score; of those that it scored.
    """

    hits: dict[str, Hit]
    ranks: dict[str, int]
    lexical: dict[str, float]
    dense: dict[str, float]

    @classmethod
    def of(cls, ranking: Ranking) -> FirstRanking:
        """Index a ranking by id; a ranking whose hits do not say their routes has ranks only."""
        hits = {hit.chunk.id: hit for hit in ranking.hits}
        lexical, dense = (
            {i: way.score for i, hit in hits.items() for way in hit.provenance if way.route == route}
            for route in ("lexical", "dense")
        )
        best = max(lexical.values(), default=0.0)
        return cls(
            hits=hits,
            ranks={chunk_id: rank for rank, chunk_id in enumerate(hits, start=1)},
            lexical={chunk_id: max(score, 0.0) / best for chunk_id, score in lexical.items()} if best > 0 else {},
            dense=dense,
        )


def chunks_known(ids: Sequence[str]) -> Step[dict[str, Chunk]]:
    """Return by id the chunks that the graph has; nothing is asked where there are no ids."""
    (found,) = (yield from ask([FetchById(chunk_ids=tuple(ids))])) if ids else ((),)
    return {chunk_id: chunk for chunk_id, chunk in zip(ids, found, strict=True) if chunk is not None}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WalkContext:
    """The inputs of a walk, which do not change while it runs.

    Attributes:
        first: the first ranking.
        pool: its top, as far as the graph has it, in order.
        allows: whether a chunk that the graph brings may be returned; None allows all.
        limit: chunks that the walk visits, at most.
        least: chance above which a hop takes one of the places asked for; no other is visited.
    """

    question: WalkQuestion
    first: FirstRanking
    pool: Nodes
    options: WalkOptions
    scorer: Scorer
    allows: Allows | None
    limit: int
    least: float = -1.0

    def allowed(self, ids: Sequence[str]) -> Step[frozenset[str]]:
        """Return the ids that may be returned; a chunk of the first ranking always may."""
        if self.allows is None:
            return frozenset(ids)
        others = [chunk_id for chunk_id in ids if chunk_id not in self.first.hits]
        chunks = yield from chunks_known(others)
        return frozenset(ids) - {i for i in others if i not in chunks or not self.allows(chunks[i])}


@dataclass(slots=True)
class TokenBudget:
    """The tokens that are left, and the chunks whose tokens were counted.

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
        """Give back the tokens of a chunk that was paid for."""
        if self.left is not None:
            self.left += count_tokens(self.chunks[chunk_id].text)

    def fetch(self, ids: Sequence[str]) -> Step[None]:
        """Fetch chunks into `chunks`; chunks that the graph does not have stay unknown."""
        self.chunks.update((yield from chunks_known([chunk_id for chunk_id in ids if chunk_id not in self.chunks])))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VisitedNode:
    """One node that a walk visited, and the hop that led to it.

    Attributes:
        row: the node, as `Nodes` of one row.
        score: of the scorer; of a seed that of its selection.
        came_from: id of the node whose neighbour it is; "" for a seed, and for a candidate of the first ranking.
        weights: of the edge that led to it, by kind, without zeros.
        chance: against the other candidates, `exp(score)` over the sum of theirs, as scorers are trained to give it,
            and no better than those of the hops before; 1 for a seed.
    """

    row: Nodes
    score: float
    came_from: str = ""
    weights: dict[str, float]
    chance: float = 1.0

    @property
    def id(self) -> str:
        """Id of its chunk."""
        return self.row.ids[0]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frontier:
    """Rows as in `Candidates`, and all nodes to which rows have led so far, each once.

    Attributes:
        nodes: each once; a walk that looks at the first ranking begins with its top.
        places: of each node in `nodes`, by id.
        ranks, lexical, dense: of each node, as in `Candidates` of each row.
        rows: the place in `nodes` of the node to which each row leads, shape (m,).
        froms, kinds, weights: of each row, as in `Candidates`.
    """

    nodes: Nodes
    places: Mapping[str, int]
    ranks: NDArray[np.int32]
    lexical: NDArray[np.float32]
    dense: NDArray[np.float32]
    rows: NDArray[np.intp]
    froms: NDArray[np.int32]
    kinds: tuple[str, ...]
    weights: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.rows)

    def without(self, ids: Iterable[str]) -> Frontier:
        """Return the frontier without the rows that lead to these nodes."""
        left = [self.places[chunk_id] for chunk_id in ids if chunk_id in self.places]
        if not left:
            return self
        kept = np.ones(len(self.nodes.ids), dtype=np.bool_)
        kept[left] = False
        rows = kept[self.rows]
        return replace(self, rows=self.rows[rows], froms=self.froms[rows], weights=self.weights[rows])

    def ordered(self, scores: NDArray[np.float64]) -> Iterator[int]:
        """Yield the best row of each node, best node first; ties go by id, then by the earlier place in the path."""
        ids, rows = self.nodes.ids, self.rows
        ties = np.flatnonzero(scores == scores.max())
        best = min(ties, key=lambda row: (ids[rows[row]], self.froms[row]))
        yield int(best)  # mostly all that is asked for
        seen = {rows[best]}
        for row in sorted(range(len(self)), key=lambda row: (-scores[row], ids[rows[row]], self.froms[row])):
            if rows[row] not in seen:
                seen.add(rows[row])
                yield row


def empty_frontier(context: WalkContext) -> Frontier:
    """Return a frontier without rows, whose nodes are those of the pool where the walk looks at it."""
    none = np.empty(0, dtype=np.intp)
    nodes = context.pool if context.options.looks_at != "graph" else context.pool.take(none)
    return _new_rows(context, nodes, {}, none, 0)


def pool_frontier(context: WalkContext) -> Frontier:
    """Return one row from no node (-1) to each node of the pool: to choose seeds from."""
    return _new_rows(context, context.pool, {}, np.arange(len(context.pool.ids)), -1)


def extended(
    context: WalkContext, frontier: Frontier, near: Neighbourhood, last: str, place: int, *, follow: bool = True
) -> Frontier:
    """Return a frontier with the rows from one more node of the path.

    These lead to the neighbours of the node, and to the rest of the pool where the walk looks at it.

    Args:
        context: of the walk.
        frontier: of the nodes before.
        near: holds the neighbours of the node.
        last: id of the node.
        place: of the node in the path.
        follow: False takes no edge: the chain would become too long.
    """
    looks_at, pool = context.options.looks_at, len(context.pool.ids)
    edges = _edges_from(near, last) if follow else slice(0)
    target, weights = near.target[edges], near.weights[edges]
    if looks_at == "ranking":
        held = frozenset(context.pool.ids)
        inside = [row for row, at in enumerate(target.tolist()) if near.nodes.ids[at] in held]
        target, weights = target[inside], weights[inside]
    known = frontier.places
    rows = np.array([known.get(near.nodes.ids[at], -1) for at in target.tolist()], dtype=np.intp)
    new = np.flatnonzero(rows < 0)
    rows[new] = np.arange(len(known), len(known) + len(new))
    nodes = near.nodes.take(target[new])
    if looks_at != "graph":  # its nodes begin with the pool
        beside = np.ones(pool, dtype=np.bool_)
        beside[rows[rows < pool]] = False
        unlinked = np.flatnonzero(beside)
        rows = np.concatenate([rows, unlinked])
        weights = np.concatenate([weights, np.zeros((len(unlinked), len(near.kinds)), dtype=np.float32)])
    more = _new_rows(context, nodes, known, rows, place, kinds=near.kinds, weights=weights)
    both = [frontier, more] if len(frontier) else [more]  # where there are no rows, kinds are not known yet
    return Frontier(
        nodes=concatenated([frontier.nodes, more.nodes]) if more.places else frontier.nodes,
        places={**frontier.places, **more.places},
        kinds=more.kinds,
        **{
            name: np.concatenate([getattr(frontier, name), getattr(more, name)])
            for name in ("ranks", "lexical", "dense")  # of each node
        },
        **{name: np.concatenate([getattr(part, name) for part in both]) for name in ("rows", "froms", "weights")},
    )


def neighbours(context: WalkContext, ids: Sequence[str]) -> Step[Neighbourhood]:
    """Return the neighbours of nodes along the kinds that the walk follows, without those it may not return."""
    follows = context.options.follows
    if follows == ():
        none = np.empty(0, dtype=np.int32)
        weights = np.empty((0, 0), np.float32)
        nodes = context.pool.take(none)
        return Neighbourhood(sources=(), nodes=nodes, source=none, target=none, kinds=(), weights=weights)
    near: Neighbourhood
    (near,) = yield from ask([Expand(chunk_ids=tuple(ids), words=context.question.words, kinds=follows)])
    if context.allows is None:
        return near
    allowed = yield from context.allowed(near.nodes.ids)
    keep = np.array([chunk_id in allowed for chunk_id in near.nodes.ids], dtype=np.bool_)
    edges = np.flatnonzero(keep[near.target])
    return Neighbourhood(
        sources=near.sources,
        nodes=near.nodes.take(np.flatnonzero(keep)),
        source=near.source[edges],
        target=(np.cumsum(keep, dtype=np.int32) - 1)[near.target[edges]],
        kinds=near.kinds,
        weights=near.weights[edges],
    )


def scored(context: WalkContext, path: Nodes, frontier: Frontier) -> Step[NDArray[np.float64]]:
    """Return one score per row.

    Raises:
        ParameterError: as of `scores_by`.
        ServiceError: the scorer's code failed.
    """
    rows = frontier.rows
    candidates = Candidates(
        question=context.question,
        path=path,
        distinct=frontier.nodes,
        rows=rows,
        froms=frontier.froms,
        kinds=frontier.kinds,
        weights=frontier.weights,
        ranks=frontier.ranks[rows],
        lexical=frontier.lexical[rows],
        dense=frontier.dense[rows],
    )
    return (yield from scores_by(context.scorer, candidates))


def takeable(path: Nodes, frontier: Frontier, scores: NDArray[np.float64]) -> Iterator[VisitedNode]:
    """Yield the nodes that a walk may visit next, best first.

    Args:
        path: from which the frontier leads on.
        frontier: at least one row.
        scores: of its rows.
    """
    of_nodes = np.full(len(frontier.nodes.ids), -np.inf)
    np.maximum.at(of_nodes, frontier.rows, scores)
    chances = np.exp(of_nodes - of_nodes.max())
    chances /= chances.sum()
    for row in frontier.ordered(scores):
        weights = dict(zip(frontier.kinds, frontier.weights[row].tolist(), strict=True))
        weights = {kind: weight for kind, weight in weights.items() if weight}
        yield VisitedNode(
            row=frontier.nodes.take(frontier.rows[row : row + 1]),
            score=float(scores[row]),
            came_from=path.ids[frontier.froms[row]] if weights else "",
            weights=weights,
            chance=float(chances[frontier.rows[row]]),
        )


def path_of(visited: Sequence[VisitedNode]) -> Nodes:
    """Return the nodes of a path that is not empty, in order."""
    return concatenated([node.row for node in visited])


def concatenated(parts: Sequence[Nodes]) -> Nodes:
    """Return the nodes of all parts, in order."""
    names = ("vectors", "counts", "in_title", "lengths", "title_lengths")
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Nodes(ids=tuple([chunk_id for part in parts for chunk_id in part.ids]), **arrays)


def _new_rows(
    context: WalkContext,
    nodes: Nodes,
    known: Mapping[str, int],
    rows: NDArray[np.intp],
    place: int,
    *,
    kinds: tuple[str, ...] = (),
    weights: NDArray[np.float32] | None = None,
) -> Frontier:
    """Return nodes that come after those that are known, and rows to any of both from one place of the path."""
    ids, first = nodes.ids, context.first
    return Frontier(
        nodes=nodes,
        places={chunk_id: place for place, chunk_id in enumerate(ids, start=len(known))},
        ranks=np.array([first.ranks.get(chunk_id, 0) for chunk_id in ids], dtype=np.int32),
        lexical=np.array([first.lexical.get(chunk_id, 0.0) for chunk_id in ids], dtype=np.float32),
        dense=np.array([first.dense.get(chunk_id, 0.0) for chunk_id in ids], dtype=np.float32),
        rows=rows,
        froms=np.full(len(rows), place, dtype=np.int32),
        kinds=kinds,
        weights=np.zeros((len(rows), len(kinds)), dtype=np.float32) if weights is None else weights,
    )


def _edges_from(near: Neighbourhood, of: str) -> slice:
    """Return the rows of the edges that leave one node, which are next to each other."""
    if of not in near.sources:  # the graph does not have it
        return slice(0)
    if len(near.sources) == 1:
        return slice(None)
    first, end = np.searchsorted(near.source, [place := near.sources.index(of), place + 1])
    return slice(first, end)

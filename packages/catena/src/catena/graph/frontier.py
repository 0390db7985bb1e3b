"""Where a walk can go next: rows of (node of the path, candidate, edge), as arrays, and their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from catena.effects.steps import CountEdges, Expand, FetchById, Step, ask
from catena.graph.scoring import Candidates, Question, Scorer, scores_by
from catena.graph.walk_options import WalkOptions
from catena.model.neighbourhood import Neighbourhood, Nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.model import Chunk, Hit, Ranking

Allows: TypeAlias = "Callable[[Chunk], bool]"
"""Whether a chunk that the graph brings may be returned."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class First:
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
    def of(cls, ranking: Ranking) -> First:
        """Look a ranking up by id; a ranking whose hits do not say their routes has ranks only."""
        hits = {hit.chunk.id: hit for hit in ranking.hits}
        lexical = _raw(hits, "lexical")
        best = max(lexical.values(), default=0.0)
        return cls(
            hits=hits,
            ranks={chunk_id: rank for rank, chunk_id in enumerate(hits, start=1)},
            lexical={chunk_id: max(score, 0.0) / best for chunk_id, score in lexical.items()} if best > 0 else {},
            dense=_raw(hits, "dense"),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ground:
    """What stays the same during a walk.

    Attributes:
        first: the first ranking.
        pool: its top, as far as the graph has it, in order.
        allows: whether a chunk that the graph brings may be returned; None allows all.
        limit: chunks that the walk takes, at most.
    """

    question: Question
    first: First
    pool: Nodes
    options: WalkOptions
    scorer: Scorer
    allows: Allows | None
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frontier:
    """Rows as in `Candidates`, and all nodes to which rows have led so far, each once.

    Attributes:
        nodes: each once; a walk that looks at the first ranking begins with its top.
        places: of each node in `nodes`, by id.
        ranks, lexical, dense: of each node, as in `Candidates` of each row.
        degrees: numbers of neighbours, of each node; zeros unless hubs are penalised.
        rows: the place in `nodes` of the node to which each row leads, shape (m,).
        froms, kinds, weights: of each row, as in `Candidates`.
    """

    nodes: Nodes
    places: Mapping[str, int]
    ranks: NDArray[np.int32]
    lexical: NDArray[np.float32]
    dense: NDArray[np.float32]
    degrees: NDArray[np.float32]
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


_OF_NODES = ("ranks", "lexical", "dense", "degrees")
_OF_ROWS = ("rows", "froms", "weights")


def nowhere(ground: Ground) -> Step[Frontier]:
    """Return a frontier without rows, whose nodes are those of the pool where the walk looks at it."""
    nodes = ground.pool if ground.options.looks_at != "graph" else ground.pool.take(np.empty(0, dtype=np.intp))
    return (yield from _with_rows(ground, nodes, {}, np.empty(0, dtype=np.intp), 0))


def rows_to_pool(ground: Ground) -> Step[Frontier]:
    """Return one row from nowhere (-1) to each node of the pool: to choose seeds from."""
    return (yield from _with_rows(ground, ground.pool, {}, np.arange(len(ground.pool.ids)), -1))


def leading_on(
    ground: Ground, frontier: Frontier, hood: Neighbourhood, last: str, place: int, *, follow: bool = True
) -> Step[Frontier]:
    """Return a frontier with the rows from one more node of the path.

    These lead to the neighbours of the node, and to what the first ranking offers beside them.

    Args:
        ground: of the walk.
        frontier: of the nodes before.
        hood: holds the neighbours of the node.
        last: the node.
        place: of the node in the path.
        follow: False takes no edge: the chain would become too long.
    """
    looks_at, pool = ground.options.looks_at, len(ground.pool.ids)
    edges = _edges_from(hood, last) if follow else slice(0)
    target, weights = hood.target[edges], hood.weights[edges]
    if looks_at == "ranking":
        held = frozenset(ground.pool.ids)
        inside = [row for row, at in enumerate(target.tolist()) if hood.nodes.ids[at] in held]
        target, weights = target[inside], weights[inside]
    known = frontier.places
    rows = np.array([known.get(hood.nodes.ids[at], -1) for at in target.tolist()], dtype=np.intp)
    new = (rows < 0).nonzero()[0]
    rows[new] = np.arange(len(known), len(known) + len(new))
    nodes = hood.nodes.take(target[new])
    if looks_at != "graph":  # its nodes begin with the pool
        beside = np.ones(pool, dtype=np.bool_)
        beside[rows[rows < pool]] = False
        unlinked = beside.nonzero()[0]
        rows = np.concatenate([rows, unlinked])
        weights = np.concatenate([weights, np.zeros((len(unlinked), len(hood.kinds)), dtype=np.float32)])
    more = yield from _with_rows(ground, nodes, known, rows, place, kinds=hood.kinds, weights=weights)
    return _joined(frontier, more)


def neighbours(ground: Ground, ids: Sequence[str]) -> Step[Neighbourhood]:
    """Return the neighbours of nodes along the kinds that the walk follows, without those it may not return."""
    follows = ground.options.follows
    if follows == ():
        return _nobody(ground.pool)
    hood: Neighbourhood
    (hood,) = yield from ask([Expand(chunk_ids=tuple(ids), words=ground.question.words, kinds=follows)])
    if ground.allows is None:
        return hood
    allowed = yield from allowed_of(ground.allows, ground.first, hood.nodes.ids)
    keep = np.array([chunk_id in allowed for chunk_id in hood.nodes.ids], dtype=np.bool_)
    edges = np.flatnonzero(keep[hood.target])
    return Neighbourhood(
        sources=hood.sources,
        nodes=hood.nodes.take(np.flatnonzero(keep)),
        source=hood.source[edges],
        target=(np.cumsum(keep, dtype=np.int32) - 1)[hood.target[edges]],
        kinds=hood.kinds,
        weights=hood.weights[edges],
    )


def allowed_of(allows: Allows, first: First, ids: Sequence[str]) -> Step[frozenset[str]]:
    """Return those of the ids that may be returned; what the first ranking holds may."""
    others = tuple(chunk_id for chunk_id in ids if chunk_id not in first.hits)
    chunks: Sequence[Chunk | None] = ()
    if others:
        (chunks,) = yield from ask([FetchById(chunk_ids=others)])
    refused = {i for i, chunk in zip(others, chunks, strict=True) if chunk is None or not allows(chunk)}
    return frozenset(ids) - refused


def scored(ground: Ground, path: Nodes, frontier: Frontier) -> Step[NDArray[np.float64]]:
    """Return one score per row, less the penalty on hubs.

    Raises:
        ParameterError: as of `scores_by`.
        ServiceError: the scorer's code failed.
    """
    candidates = Candidates(
        question=ground.question,
        path=path,
        distinct=frontier.nodes,
        rows=frontier.rows,
        froms=frontier.froms,
        kinds=frontier.kinds,
        weights=frontier.weights,
        ranks=frontier.ranks[frontier.rows],
        lexical=frontier.lexical[frontier.rows],
        dense=frontier.dense[frontier.rows],
    )
    scores = yield from scores_by(ground.scorer, candidates)
    return scores - ground.options.hub_penalty * np.log1p(frontier.degrees[frontier.rows])


def concatenated(parts: Sequence[Nodes]) -> Nodes:
    """Return the nodes of all parts, in order."""
    return Nodes(
        ids=tuple([chunk_id for part in parts for chunk_id in part.ids]),
        vectors=np.concatenate([part.vectors for part in parts]),
        counts=np.concatenate([part.counts for part in parts]),
        in_title=np.concatenate([part.in_title for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
        title_lengths=np.concatenate([part.title_lengths for part in parts]),
    )


def _with_rows(
    ground: Ground,
    nodes: Nodes,
    known: Mapping[str, int],
    rows: NDArray[np.intp],
    place: int,
    *,
    kinds: tuple[str, ...] = (),
    weights: NDArray[np.float32] | None = None,
) -> Step[Frontier]:
    """Return nodes that come after those that are known, and rows to any of both from one place of the path."""
    ids, first = nodes.ids, ground.first
    return Frontier(
        nodes=nodes,
        places={chunk_id: place for place, chunk_id in enumerate(ids, start=len(known))},
        ranks=np.array([first.ranks.get(chunk_id, 0) for chunk_id in ids], dtype=np.int32),
        lexical=np.array([first.lexical.get(chunk_id, 0.0) for chunk_id in ids], dtype=np.float32),
        dense=np.array([first.dense.get(chunk_id, 0.0) for chunk_id in ids], dtype=np.float32),
        degrees=(yield from _degrees(ground, ids)),
        rows=rows,
        froms=np.full(len(rows), place, dtype=np.int32),
        kinds=kinds,
        weights=np.zeros((len(rows), len(kinds)), dtype=np.float32) if weights is None else weights,
    )


def _joined(one: Frontier, more: Frontier) -> Frontier:
    """Return the nodes and the rows of both; rows of `more` may lead to nodes of `one`."""
    of_rows = [one, more] if len(one) else [more]  # where there are none, kinds are not known yet
    return Frontier(
        nodes=concatenated([one.nodes, more.nodes]) if more.places else one.nodes,
        places={**one.places, **more.places},
        kinds=more.kinds,
        **{name: np.concatenate([getattr(one, name), getattr(more, name)]) for name in _OF_NODES},
        **{name: np.concatenate([getattr(part, name) for part in of_rows]) for name in _OF_ROWS},
    )


def _raw(hits: dict[str, Hit], route: str) -> dict[str, float]:
    return {i: way.score for i, hit in hits.items() for way in hit.provenance if way.route == route}


def _edges_from(hood: Neighbourhood, of: str) -> slice:
    if of not in hood.sources:  # the graph does not have it
        return slice(0)
    if len(hood.sources) == 1:
        return slice(None)
    first, end = np.searchsorted(hood.source, [place := hood.sources.index(of), place + 1])
    return slice(first, end)


def _degrees(ground: Ground, ids: tuple[str, ...]) -> Step[NDArray[np.float32]]:
    if ground.options.hub_penalty == 0:
        return np.zeros(len(ids), dtype=np.float32)
    (counts,) = yield from ask([CountEdges(chunk_ids=ids)])
    return np.array(counts, dtype=np.float32)


def _nobody(like: Nodes) -> Neighbourhood:
    none = np.empty(0, dtype=np.int32)
    return Neighbourhood(
        sources=(), nodes=like.take(none), source=none, target=none, kinds=(), weights=np.empty((0, 0), np.float32)
    )

"""Where a walk can go next: rows of (node of the path, candidate, edge), as arrays, and their scores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from catena.errors import ParameterError
from catena.graph.scoring import Candidates, Question, Scorer
from catena.graph.walk_options import WalkOptions
from catena.neighbourhood import Neighbourhood, Nodes
from catena.steps import CountEdges, Expand, FetchById, Step, ask

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
    """Rows as in `Candidates`; `degrees`: numbers of neighbours, shape (m,), zeros unless hubs are penalised."""

    nodes: Nodes
    kinds: tuple[str, ...]
    froms: NDArray[np.int32]
    weights: NDArray[np.float32]
    ranks: NDArray[np.int32]
    lexical: NDArray[np.float32]
    dense: NDArray[np.float32]
    degrees: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.froms)

    def without(self, ids: Collection[str]) -> Frontier:
        """Return the rows that do not lead to these nodes."""
        rows = np.array([row for row, chunk_id in enumerate(self.nodes.ids) if chunk_id not in ids], dtype=np.intp)
        if len(rows) == len(self):
            return self
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return Frontier(nodes=taken(self.nodes, rows), kinds=self.kinds, **columns)

    def ordered(self, scores: NDArray[np.float64]) -> Iterator[int]:
        """Yield the best row of each node, best node first; ties go by id, then by the earlier place in the path."""
        ties = np.flatnonzero(scores == scores.max())
        best = min(ties, key=lambda row: (self.nodes.ids[row], self.froms[row]))
        yield int(best)  # mostly all that is asked for
        seen = {self.nodes.ids[best]}
        for row in sorted(range(len(self)), key=lambda row: (-scores[row], self.nodes.ids[row], self.froms[row])):
            if self.nodes.ids[row] not in seen:
                seen.add(self.nodes.ids[row])
                yield row


_COLUMNS = ("froms", "weights", "ranks", "lexical", "dense", "degrees")


def joined(parts: Sequence[Frontier]) -> Frontier:
    """Return the rows of all parts, in order; all are of the same kinds of edges."""
    if len(parts) == 1:
        return parts[0]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    return Frontier(nodes=concatenated([part.nodes for part in parts]), kinds=parts[0].kinds, **columns)


def leading_on(ground: Ground, hood: Neighbourhood, last: str, place: int, *, follow: bool = True) -> Step[Frontier]:
    """Return the rows from one node of the path: its neighbours, and what the first ranking offers beside them.

    Args:
        ground: of the walk.
        hood: holds the neighbours of the node.
        last: the node.
        place: of the node in the path.
        follow: False takes no edge: the chain would become too long.
    """
    looks_at = ground.options.looks_at
    edges = _edges_from(hood, last) if follow else np.empty(0, dtype=np.intp)
    if looks_at == "ranking":
        pool = frozenset(ground.pool.ids)
        edges = np.array([e for e in edges if hood.nodes.ids[hood.target[e]] in pool], dtype=np.intp)
    whole = len(edges) == len(hood.nodes.ids) == len(hood.target)  # of one source: nothing to copy
    nodes = hood.nodes if whole else taken(hood.nodes, hood.target[edges])
    weights = hood.weights[edges]
    if looks_at != "graph":
        linked = frozenset(nodes.ids)
        beside = np.array([row for row, i in enumerate(ground.pool.ids) if i not in linked], dtype=np.intp)
        nodes = concatenated([nodes, taken(ground.pool, beside)])
        weights = np.concatenate([weights, np.zeros((len(beside), len(hood.kinds)), dtype=np.float32)])
    return (yield from rows_to(ground, nodes, place, hood.kinds, weights))


def rows_to(
    ground: Ground, nodes: Nodes, place: int, kinds: tuple[str, ...] = (), weights: NDArray[np.float32] | None = None
) -> Step[Frontier]:
    """Return the rows from one place of the path (-1: from nowhere, to seeds) to these nodes."""
    ids, first = nodes.ids, ground.first
    return Frontier(
        nodes=nodes,
        kinds=kinds,
        froms=np.full(len(ids), place, dtype=np.int32),
        weights=np.zeros((len(ids), len(kinds)), dtype=np.float32) if weights is None else weights,
        ranks=np.array([first.ranks.get(chunk_id, 0) for chunk_id in ids], dtype=np.int32),
        lexical=np.array([first.lexical.get(chunk_id, 0.0) for chunk_id in ids], dtype=np.float32),
        dense=np.array([first.dense.get(chunk_id, 0.0) for chunk_id in ids], dtype=np.float32),
        degrees=(yield from _degrees(ground, ids)),
    )


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
        nodes=taken(hood.nodes, np.flatnonzero(keep)),
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
        ParameterError: the scorer gave another number of scores, or one that is not finite.
    """
    given = yield from ground.scorer.score(
        Candidates(
            question=ground.question,
            path=path,
            nodes=frontier.nodes,
            froms=frontier.froms,
            kinds=frontier.kinds,
            weights=frontier.weights,
            ranks=frontier.ranks,
            lexical=frontier.lexical,
            dense=frontier.dense,
        )
    )
    scores: NDArray[np.float64] = np.asarray(given, dtype=np.float64)
    if scores.shape != (len(frontier),) or not np.isfinite(scores).all():
        got = f"the shape {scores.shape}" if scores.shape != (len(frontier),) else "NaN or infinity"
        raise ParameterError(f"what {ground.scorer.identity} scores", got, f"{len(frontier)} finite numbers")
    return scores - ground.options.hub_penalty * np.log1p(frontier.degrees)


def taken(nodes: Nodes, rows: NDArray[np.intp] | NDArray[np.int32]) -> Nodes:
    """Return some of the nodes, in the order of `rows`."""
    return Nodes(
        ids=tuple([nodes.ids[row] for row in rows.tolist()]),
        vectors=nodes.vectors[rows],
        counts=nodes.counts[rows],
        in_title=nodes.in_title[rows],
        lengths=nodes.lengths[rows],
        title_lengths=nodes.title_lengths[rows],
    )


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


def _raw(hits: dict[str, Hit], route: str) -> dict[str, float]:
    return {i: way.score for i, hit in hits.items() for way in hit.provenance if way.route == route}


def _edges_from(hood: Neighbourhood, of: str) -> NDArray[np.intp]:
    if of not in hood.sources:  # the graph does not have it
        return np.empty(0, dtype=np.intp)
    first, end = np.searchsorted(hood.source, [place := hood.sources.index(of), place + 1])
    return np.arange(first, end)


def _degrees(ground: Ground, ids: tuple[str, ...]) -> Step[NDArray[np.float32]]:
    if ground.options.hub_penalty == 0:
        return np.zeros(len(ids), dtype=np.float32)
    (counts,) = yield from ask([CountEdges(chunk_ids=ids)])
    return np.array(counts, dtype=np.float32)


def _nobody(like: Nodes) -> Neighbourhood:
    none = np.empty(0, dtype=np.int32)
    return Neighbourhood(
        sources=(), nodes=taken(like, none), source=none, target=none, kinds=(), weights=np.empty((0, 0), np.float32)
    )

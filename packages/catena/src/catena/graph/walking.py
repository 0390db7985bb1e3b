"""The walk over the chunk-interaction graph: from a first ranking to chains of chunks, each hop with its reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from catena.effects.steps import FetchNodes, Step, ask
from catena.graph.beam import beam
from catena.graph.best_first import best_first
from catena.graph.explaining import explained, merged
from catena.graph.frontier import Allows, First, Ground, concatenated
from catena.graph.paper_walk import paper_walk
from catena.graph.scoring import Question, Scorer, SimilarityScorer
from catena.graph.seeds import find_seeds
from catena.graph.trails import Purse, Taken, Trails
from catena.graph.walk_options import Strategy, WalkOptions
from catena.model import Chain, Ranking
from catena.model.errors import ParameterError
from catena.model.neighbourhood import Nodes

_Walk: TypeAlias = Callable[[Ground, Sequence[Taken], Purse], Step[Trails]]
_STRATEGIES: Mapping[Strategy, _Walk] = {"best_first": best_first, "paper": paper_walk, "beam": beam}


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk comes back with.

    Attributes:
        ranking: what was walked to, in order, then the rest of the first ranking; in `Scale.RANK`, score `1 / place`.
            What was walked to has a provenance of route "graph": its place in the walk and its score, in the unit of
            the scorer.
        chains: from each seed on, hop by hop; together they hold what was walked to.
    """

    ranking: Ranking
    chains: tuple[Chain, ...]


def walk(
    question: Question,
    ranking: Ranking,
    options: WalkOptions | None = None,
    scorer: Scorer | None = None,
    *,
    k: int = 10,
    allows: Allows | None = None,
) -> Step[Walked]:
    """Walk over the graph from a first ranking, and return what was found there, with the reason for each hop.

    Args:
        question: as `catena.graph.scoring.pose` gives it; with keywords where the seeds are sought by them.
        ranking: of any retriever over the graph's chunks; hits that the graph does not have keep their order behind
            what was walked to.
        options: how.
        scorer: of candidates; `SimilarityScorer()` by default.
        k: length of the ranking, >= 0.
        allows: whether a chunk that the graph brings may be returned; what the first ranking holds may. All by
            default.

    Returns:
        At most k hits and their chains: no chunk is in a chain that is not in the ranking. Ties go by chunk id, so
        the order in which documents were added changes nothing.

    Raises:
        ParameterError: k is out of range, the question's vector is of another length than the nodes', or the scorer
            gives no scores.
        CatenaError: whatever the graph or a model that the scorer asks fails with.
    """
    if not isinstance(k, int) or isinstance(k, bool) or k < 0:
        raise ParameterError("k", k, "an integer >= 0")
    options = options or WalkOptions()
    first = First.of(ranking)
    pool = yield from _pool(first, question.words, options.pool)
    if pool.ids and pool.vectors.shape[1:] != question.vector.shape:
        allowed = f"of shape {pool.vectors.shape[1:]}: by the embedder of the graph's nodes"
        raise ParameterError("vector of the question", question.vector.shape, allowed)
    ground = Ground(
        question=question,
        first=first,
        pool=pool,
        options=options,
        scorer=scorer or SimilarityScorer(),
        allows=allows,
        limit=min(options.takes, k),
    )
    purse = Purse(options.budget_tokens, {chunk_id: hit.chunk for chunk_id, hit in first.hits.items()})
    seeds = yield from find_seeds(ground, purse)
    trails = (yield from _STRATEGIES[options.strategy](ground, seeds, purse)) if seeds else Trails((), ())
    chains = yield from explained(ground, trails, purse)
    return Walked((yield from merged(ground, trails, ranking, k, purse)), chains)


def _pool(first: First, words: tuple[str, ...], size: int) -> Step[Nodes]:
    """Return the top of the first ranking; what the graph does not have takes nobody's place."""
    ids = tuple(first.hits)
    top: Nodes
    (top,) = yield from ask([FetchNodes(chunk_ids=ids[:size], words=words)])
    if len(top.ids) < size < len(ids):
        rest: Nodes
        (rest,) = yield from ask([FetchNodes(chunk_ids=ids[size:], words=words)])
        top = concatenated([top, rest.take(np.arange(min(len(rest.ids), size - len(top.ids))))])
    return top

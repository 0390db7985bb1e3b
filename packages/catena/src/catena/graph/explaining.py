"""The chains of a walk with the reason for each hop, and the ranking that they make with the first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from catena.effects.steps import DescribeEdges, Failed, Step
from catena.graph.frontier import Ground
from catena.graph.trails import Purse, Taken, Trails
from catena.model import Chain, Edge, Hit, Hop, Provenance, Ranking, Scale
from catena.model.errors import MissingServiceError
from catena.text.words import tokenise, word_keys

if TYPE_CHECKING:
    from catena.graph.scoring import Question
    from catena.model import Chunk

ROUTE = "graph"
"""The route by which a walk found a chunk, in its provenance: its place in the walk, and its score there."""


def explained(ground: Ground, trails: Trails, purse: Purse) -> Step[tuple[Chain, ...]]:
    """Return the chains; of a path that visits a chunk which is gone by now, what comes before it."""
    yield from purse.fetch([hop.id for hop in trails.order])
    edges = yield from _edges([hop for path in trails.paths for hop in path])
    said = _said(ground.question)
    chains = (_chain(path, edges, said, purse.chunks) for path in trails.paths)
    return tuple(chain for chain in chains if chain.hops)


def merged(ground: Ground, trails: Trails, first: Ranking, k: int, purse: Purse) -> Step[Ranking]:
    """Return what was walked to, in order, then the rest of the first ranking, k hits at most.

    A score is `1 / place`, in `Scale.RANK`: scores of the walk and of the first ranking do not compare.
    """
    hits: list[Hit] = []
    for rank, hop in enumerate(trails.order, start=1):
        if hop.id in purse.chunks:
            way = Provenance(route=ROUTE, rank=rank, score=hop.score)
            known = ground.first.hits.get(hop.id)
            hits.append(Hit(purse.chunks[hop.id], 0.0, (*(known.provenance if known else ()), way)))
    walked = {hop.id for hop in trails.order}
    for chunk_id, hit in ground.first.hits.items():
        if len(hits) >= k or not ground.options.fill:
            break
        if chunk_id not in walked and (yield from purse.pay(chunk_id)):
            hits.append(hit)
    placed = tuple(Hit(hit.chunk, 1.0 / place, hit.provenance) for place, hit in enumerate(hits[:k], start=1))
    return replace(first, hits=placed, scale=Scale.RANK)


def _edges(hops: Sequence[Taken]) -> Step[Mapping[tuple[str, str], Edge]]:
    """Return the edges of the hops, with the words shared where the graph can say them."""
    taken = {(hop.came_from, hop.id): hop for hop in hops if hop.came_from}
    plain = {pair: Edge(weights=dict(sorted(hop.weights.items()))) for pair, hop in taken.items()}
    if not taken:
        return plain
    (described,) = yield [DescribeEdges(pairs=tuple(taken))]
    if isinstance(described, Failed):
        if isinstance(described.error, MissingServiceError):
            return plain
        raise described.error
    return {pair: edge or plain[pair] for pair, edge in zip(taken, described, strict=True)}


def _chain(
    path: Sequence[Taken],
    edges: Mapping[tuple[str, str], Edge],
    said: Sequence[str],
    chunks: Mapping[str, Chunk],
) -> Chain:
    hops: list[Hop] = []
    covered: set[str] = set()
    for hop in path:
        if hop.id not in chunks:
            break
        held = {word for word, count in zip(said, hop.node.counts[0], strict=True) if word and count}
        hops.append(
            Hop(
                chunk=chunks[hop.id],
                score=hop.score,
                came_from=hop.came_from,
                edge=edges.get((hop.came_from, hop.id)),
                words=tuple(word for word in said if word in held - covered),
            )
        )
        covered |= held
    return Chain(tuple(hops))


def _said(question: Question) -> list[str]:
    """Return per word of the question how it is said there, "" for one that is in most nodes and so tells nothing."""
    first: dict[str, str] = {}
    for word, key in zip(tokenise(question.text), word_keys(question.text), strict=True):
        first.setdefault(key, word)
    return [
        first.get(key, key) if 2 * held <= question.nodes else ""
        for key, held in zip(question.words, question.holding.tolist(), strict=True)
    ]

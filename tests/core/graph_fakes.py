"""A graph of a few chunks, drawn by hand, for tests of walks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from catena.effects import CountWords, DescribeEdges, Expand, FetchById, FetchNodes, FindCovering
from catena.graph import ChunkGraph, GraphOptions, Node
from catena.graph.scoring import Candidates, WalkQuestion
from catena.model import TITLE, Chunk, Edge
from catena.model.neighbourhood import MENTION, MENTIONED, Neighbourhood, Nodes, WordCounts
from catena.testing.fakes import Recorder

T = TypeVar("T")


def candidates(
    path: Nodes,
    to: Nodes,
    kinds: Sequence[str],
    weights: Sequence[Sequence[float]],
    ranks: Sequence[int] = (),
    **question: Any,
) -> Candidates:
    """Return one way on to each of some nodes, from the end of a path, for a question of so many words."""
    n = len(to.ids)
    few = {"text": "Who?", "words": (), "holding": np.zeros(0, np.int64), "nodes": 9, "mean_length": 3.0}
    return Candidates(
        question=WalkQuestion(**{**few, **question}),
        path=path,
        distinct=to,
        rows=np.arange(n),
        froms=np.full(n, len(path.ids) - 1, np.int32),
        kinds=tuple(kinds),
        weights=np.array(weights, np.float32).reshape(n, len(kinds)),
        ranks=np.array(ranks or [0] * n, np.int32),
        lexical=np.zeros(n, np.float32),
        dense=np.zeros(n, np.float32),
    )


class FakeGraph(Recorder):
    """A graph of a few chunks whose edges are drawn by hand; what it says of nodes is what a real one says.

    Args:
        chunks: its nodes, in any order; of the titles, the document's counts.
        vectors: by chunk id, of one length; zeros where there is none.
        edges: by pair of ids, weights by kind; seen from both ends, "mention" as "mentioned" from the second.
        words: by pair and kind, what the two share there.
    """

    identity = "fake-graph"

    def __init__(
        self,
        chunks: Sequence[Chunk],
        vectors: Mapping[str, Sequence[float]],
        edges: Mapping[tuple[str, str], Mapping[str, float]],
        words: Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]] | None = None,
    ) -> None:
        super().__init__()
        zero = (0.0,) * len(next(iter(vectors.values()), ()))
        rows = np.array([vectors.get(chunk.id, zero) for chunk in chunks], np.float32).reshape(len(chunks), len(zero))
        nodes = [Node(chunk=chunk, titles=(chunk.metadata.get(TITLE, ""),)) for chunk in chunks]
        self._real = ChunkGraph.build(nodes, rows, GraphOptions(neighbours=0, kinds=(), mentions=False))
        self._edges: dict[tuple[str, str], Edge] = {}
        for (one, other), weights in edges.items():
            shared = (words or {}).get((one, other), {})
            self._edges[one, other] = Edge(weights=dict(sorted(weights.items())), words=shared)
            self._edges[other, one] = Edge(weights=_turned(weights), words=_turned(shared))

    def expand(self, request: Expand) -> Neighbourhood:
        """Return the neighbours of nodes, and the edges by which they are."""
        self.record(request)
        known = {kind for edge in self._edges.values() for kind in edge.weights}
        kinds = tuple(sorted(known if request.kinds is None else request.kinds))
        sources = tuple(chunk_id for chunk_id in request.chunk_ids if chunk_id in self._real)
        pairs = [
            (place, other, row)
            for place, source in enumerate(sources)
            for (one, other), edge in sorted(self._edges.items())
            if one == source and any(row := [edge.weights.get(kind, 0.0) for kind in kinds])
        ]
        ids = tuple(sorted({other for _, other, _ in pairs}))
        return Neighbourhood(
            sources=sources,
            nodes=self._real.nodes(FetchNodes(chunk_ids=ids, words=request.words)),
            source=np.array([place for place, _, _ in pairs], dtype=np.int32),
            target=np.array([ids.index(other) for _, other, _ in pairs], dtype=np.int32),
            kinds=kinds,
            weights=np.array([row for _, _, row in pairs], dtype=np.float32).reshape(len(pairs), len(kinds)),
        )

    def nodes(self, request: FetchNodes) -> Nodes:
        """Return nodes by id, in the order asked for."""
        self.record(request)
        return self._real.nodes(request)

    def count_words(self, request: CountWords) -> WordCounts:
        """Return in how many nodes each word is."""
        self.record(request)
        return self._real.count_words(request)

    def chunks_by_id(self, request: FetchById) -> tuple[Chunk | None, ...]:
        """Return the chunk of each id, None where there is none."""
        self.record(request)
        return self._real.chunks_by_id(request)

    def covering(self, request: FindCovering) -> Nodes:
        """Return the nodes that cover most of the terms, best first."""
        self.record(request)
        return self._real.covering(request)

    def describe_edges(self, request: DescribeEdges) -> tuple[Edge | None, ...]:
        """Return what joins pairs of nodes, None where nothing does."""
        self.record(request)
        return tuple(map(self._edges.get, request.pairs))


def _turned(by_kind: Mapping[str, T]) -> dict[str, T]:
    """Return what an edge says, seen from its other end."""
    turned = {MENTION: MENTIONED, MENTIONED: MENTION}
    return dict(sorted((turned.get(kind, kind), value) for kind, value in by_kind.items()))

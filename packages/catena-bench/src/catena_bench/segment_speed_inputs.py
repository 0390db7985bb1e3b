"""Inputs for measuring segment extraction: the same retrieved chunks as arrays, as our rankings, as dsRAG's dicts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catena.effects import FetchChunks, FetchText, Handler, Services
from catena.model import Chunk, Hit, Ranking, Scale
from catena.segments import BALANCED, ExtractionParams, Floats, Ints, dsrag_compatible

QUERIES = 6
RETRIEVED = 200  # chunks that a query finds, in the sparse case
MEAN, DEVIATION = -0.02, 0.35  # of chunk values, in the dense case
_NO_DECAY = 1e12  # in ranks: so large that every chunk keeps its probability


@dataclass(frozen=True, kw_only=True, eq=False)
class Retrieved:
    """What the queries found among n chunks, laid end to end in documents of `size` chunks.

    Attributes:
        ranks: shape (queries, n), from 0; -1 where the query did not find the chunk.
        probabilities: shape (queries, n); 0 where it did not.
        lengths: shape (n,), in characters.
        params: under which dsRAG and we do the same.
    """

    ranks: Ints
    probabilities: Floats
    lengths: Ints
    size: int
    params: ExtractionParams

    @property
    def n(self) -> int:
        """Return the number of chunks."""
        return len(self.lengths)

    @property
    def ends(self) -> Ints:
        """Return where each document ends."""
        return np.append(np.arange(self.size, self.n, self.size, dtype=np.int64), self.n)

    @cached_property
    def _before(self) -> Ints:
        """Return the characters before each chunk, of all documents."""
        return np.concatenate(([0], np.cumsum(self.lengths)))

    @cached_property
    def _texts(self) -> dict[int, str]:
        return {int(length): "x" * int(length) for length in np.unique(self.lengths)}

    def document(self, place: int) -> str:
        """Return the id of the document of the chunk at this place."""
        return f"document-{place // self.size:05d}"

    def chunk(self, place: int) -> Chunk:
        """Return the chunk at a place."""
        number, position = divmod(place, self.size)
        start = int(self._before[place] - self._before[number * self.size])
        text = self._texts[int(self.lengths[place])]
        document = self.document(place)
        return Chunk(
            id=f"{document}-{position:05d}",
            document_id=document,
            position=position,
            start=start,
            end=start + len(text),
            text=text,
        )

    def _ranked(self) -> Iterable[list[tuple[int, float]]]:
        """Return for each query the places that it found with their probabilities, best first."""
        for ranks, probabilities in zip(self.ranks, self.probabilities, strict=True):
            found = np.flatnonzero(ranks >= 0)
            places = found[np.argsort(ranks[found])]
            yield list(zip(places.tolist(), probabilities[places].tolist(), strict=True))

    def rankings(self) -> tuple[Ranking, ...]:
        """Return what `catena.segments.extract` takes."""
        chunks = {place: self.chunk(place) for place in np.flatnonzero((self.ranks >= 0).any(axis=0)).tolist()}
        return tuple(
            Ranking(tuple(Hit(chunks[place], score) for place, score in ranked), Scale.PROBABILITY)
            for ranked in self._ranked()
        )

    def results(self) -> list[list[dict[str, Any]]]:
        """Return what `dsrag.rse.get_meta_document` takes."""
        found = np.flatnonzero((self.ranks >= 0).any(axis=0)).tolist()
        told = {
            place: {
                "doc_id": self.document(place),
                "chunk_index": place % self.size,
                "chunk_text": self._texts[int(self.lengths[place])],
            }
            for place in found
        }
        return [[{"metadata": told[place], "similarity": score} for place, score in each] for each in self._ranked()]

    def meta_document(self) -> tuple[list[int], dict[str, int], list[str]]:
        """Return dsRAG's meta-document of all chunks: where documents end, where each begins, and their ids."""
        ends: list[int] = self.ends.tolist()
        documents = [self.document(end - 1) for end in ends]
        return ends, dict(zip(documents, [0, *ends[:-1]], strict=True)), documents

    def services(self) -> Services:
        """Return a store of all chunks, in memory."""

        def chunks(request: FetchChunks) -> tuple[tuple[Chunk, ...], ...]:
            begins = [int(document.rpartition("-")[2]) * self.size for document, _, _ in request.spans]
            return tuple(
                tuple(self.chunk(begin + position) for position in range(first, end))
                for begin, (_, first, end) in zip(begins, request.spans, strict=True)
            )

        def texts(request: FetchText) -> tuple[str, ...]:
            return tuple("x" * (end - start) for _, start, end in request.spans)

        return Services(
            handlers={
                FetchChunks: Handler(identity="chunks in memory", call=chunks),
                FetchText: Handler(identity="texts in memory", call=texts),
            }
        )


def dense(n: int, seed: int) -> Retrieved:
    """Return n chunks that each query found, in documents of 500, with values of normal distribution.

    As no decay of ranks has that outcome, there is none, and similarities are what the values ask for, some of
    them outside [0, 1].
    """
    size = 500
    documents = -(-n // size)
    params = dsrag_compatible(replace(BALANCED, decay_rate=_NO_DECAY, top_k=5 * max(2, documents)))
    values = np.random.default_rng(seed).normal(MEAN, DEVIATION, (QUERIES, n))
    probabilities = values + params.irrelevance_penalty
    return Retrieved(
        ranks=np.argsort(np.argsort(-probabilities, axis=1), axis=1),
        probabilities=probabilities,
        lengths=np.full(n, params.reference_length, np.int64),
        size=size,
        params=params,
    )


def sparse(n: int, seed: int) -> Retrieved:
    """Return n chunks in documents of 1,000, of which each query found 200, with probabilities from 1 down to 0."""
    draw = np.random.default_rng(seed)
    params = dsrag_compatible(replace(BALANCED, top_k=RETRIEVED))
    ranks = np.full((QUERIES, n), -1, np.int64)
    probabilities = np.zeros((QUERIES, n))
    count = min(RETRIEVED, n)
    for query in range(QUERIES):
        places: NDArray[np.int64] = draw.choice(n, count, replace=False)
        ranks[query, places] = np.arange(count)
        probabilities[query, places] = np.sort(draw.random(count))[::-1]
    return Retrieved(
        ranks=ranks, probabilities=probabilities, lengths=draw.integers(300, 1_100, n), size=1_000, params=params
    )

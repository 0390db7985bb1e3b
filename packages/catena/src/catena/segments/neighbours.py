"""Which chunks, that no query found, a segment could cross: only these are fetched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from catena.model import Chunk, Hit, Ranking
from catena.model.errors import ParameterError
from catena.segments.params import ExtractionParams
from catena.segments.values import chunk_values, length_factors

Place: TypeAlias = tuple[str, int]  # document id, position of the chunk in it, from 0
Span: TypeAlias = tuple[str, int, int]  # document id, first position, end position


@dataclass(frozen=True, slots=True)
class Found:
    """A hit of one query, with its rank (from 0) in the query's whole ranking."""

    rank: int
    hit: Hit


def hits_by_place(rankings: Sequence[Ranking], documents: Iterable[str]) -> list[dict[Place, Found]]:
    """Return for each ranking its hits in these documents, by place.

    Raises:
        ParameterError: two different chunks claim the same place; a segment would then be no slice.
    """
    wanted = frozenset(documents)
    known: dict[Place, str] = {}
    found: list[dict[Place, Found]] = []
    for ranking in rankings:
        mine: dict[Place, Found] = {}
        for rank, hit in enumerate(ranking.hits):
            chunk = hit.chunk
            if chunk.document_id in wanted:
                place = (chunk.document_id, chunk.position)
                if known.setdefault(place, chunk.id) != chunk.id:
                    raise ParameterError(
                        f"position of chunk {chunk.id!r}",
                        chunk.position,
                        f"its own place in document {chunk.document_id!r}; chunk {known[place]!r} has it too",
                    )
                mine.setdefault(place, Found(rank, hit))
        found.append(mine)
    return found


def gaps(found: Sequence[Mapping[Place, Found]], params: ExtractionParams) -> tuple[Span, ...]:
    """Return the spans that no query found and that a segment could cross, in order of document and place.

    A segment begins and ends with a value >= 0 of its query, and has at most `max_chunks`: so chunks that have such a
    value because it is lent to them, and what lies between two neighbouring such chunks of one query, at most
    `max_chunks` with both; and nothing else.
    """
    known = {place for mine in found for place in mine}
    missing: set[Place] = set()
    for mine in found:
        worth_reading = _worth_reading(mine, params)
        missing.update(worth_reading)
        for (document, before), (other, after) in pairwise(worth_reading):
            if document == other and after - before < params.max_chunks:
                missing.update((document, position) for position in range(before + 1, after))
    spans: list[Span] = []
    for document, position in sorted(missing - known):
        if spans and spans[-1][0] == document and spans[-1][2] == position:
            spans[-1] = (document, spans[-1][1], position + 1)
        else:
            spans.append((document, position, position + 1))
    return tuple(spans)


def _worth_reading(mine: Mapping[Place, Found], params: ExtractionParams) -> list[Place]:
    """Return the places with a value >= 0, in order; those that no query found only where it is lent to them."""
    if not mine:
        return []
    own = chunk_values(
        [found.rank for found in mine.values()],
        [found.hit.score for found in mine.values()],
        penalty=0.0,
        decay_rate=params.decay_rate,
    )
    worths = dict(zip(mine, own.tolist(), strict=True))
    if params.lending:
        for (document, position), worth in list(zip(mine, own.tolist(), strict=True)):
            for place in ((document, position - 1), (document, position + 1)):
                if place[1] >= 0:
                    worths[place] = max(params.lending * worth, worths.get(place, 0.0))
    factors = length_factors(
        [len(found.hit.chunk.text) for found in mine.values()],
        params.length_adjustment,
        reference=params.reference_length,
    )
    short = {place for place, factor in zip(mine, factors.tolist(), strict=True) if factor == 0.0}
    return sorted(place for place in worths if worths[place] >= params.irrelevance_penalty or place in short)


def fetched_by_place(spans: Sequence[Span], reply: Sequence[Iterable[Chunk]]) -> dict[Place, Chunk]:
    """Return what a store sent for the spans, by place; what was not asked for is left out."""
    return {
        (document, chunk.position): chunk
        for (document, first, end), chunks in zip(spans, reply, strict=False)
        for chunk in chunks
        if chunk.document_id == document and first <= chunk.position < end
    }

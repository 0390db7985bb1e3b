"""Extract relevant segments, as a step: from calibrated rankings to the segments that a reader gets; explain them.

In order: the results, the extraction, and the explanation of every chunk that it weighed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import fsum
from typing import Any

import numpy as np

from catena.effects import FetchChunks, FetchText, Step, ask
from catena.model import Chunk, Degraded, Hit, ParameterError, Provenance, Ranking, Scale, Segment, Unknown
from catena.segments.adjacency import in_reading_order, segment_of
from catena.segments.params import BALANCED, ExtractionParams, Order
from catena.segments.selection import exact_values, greedy, optimal
from catena.segments.sequence import (
    ChunkSequence,
    Ints,
    SelectedSegment,
    SelectionBounds,
    ValuedChunks,
    check_probabilities,
    documents_considered,
    fetched_by_place,
    gaps,
    hits_by_place,
    lay_out,
    length_factors,
    reaches,
    spans_between,
    with_tokens,
)


@dataclass(frozen=True, slots=True)
class SegmentHit:
    """A segment, its value, and the queries (from 0, ascending) that it has it for."""

    segment: Segment
    value: float
    queries: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Considered:
    """The material of an extraction: all chunks that it weighed, and the segments selected.

    Attributes:
        documents: ids, in the order of the sequence.
        picks: in the order they were made, not merged.
        left_out: hits of documents that were not considered, as (query, rank from 0, hit).
    """

    documents: tuple[str, ...]
    valued: ValuedChunks
    limits: SelectionBounds
    picks: tuple[SelectedSegment, ...]
    left_out: tuple[tuple[int, int, Hit], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """The segments of one question, in the order asked for.

    Attributes:
        params: the settings they were made with.
        degraded, unknown: of the rankings they come from.
        asked: the queries in words, where the caller gave them; `SegmentHit.queries` counts them.
        considered: for `catena.segments.explain`.
    """

    segments: tuple[SegmentHit, ...]
    params: ExtractionParams
    degraded: tuple[Degraded, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    asked: tuple[str, ...] = ()
    considered: Considered = field(repr=False, compare=False)

    @property
    def value(self) -> float:
        """Return the sum of the values of all segments."""
        return fsum(hit.value for hit in self.segments)

    def ranking(self) -> Ranking:
        """Return the segments as hits in `Scale.VALUE`, best first, so that what reads rankings reads them."""
        order = sorted(self.segments, key=lambda hit: (-hit.value, hit.segment.id))
        hits = tuple(
            Hit(hit.segment.as_chunk(), hit.value, (Provenance(route="segments", rank=rank, score=hit.value),))
            for rank, hit in enumerate(order, start=1)
        )
        return Ranking(hits, Scale.VALUE, self.degraded, self.unknown)


def extract(
    rankings: Sequence[Ranking],
    *,
    params: ExtractionParams = BALANCED,
    count: Callable[[str], int] | None = None,
    header: Callable[[Chunk | Segment], str] | None = None,
) -> Step[Extraction]:
    """Return the segments that are worth most to the queries, within the budget.

    1. Documents: those of the first `params.top_k` chunks of each ranking, in order of best rank, then id.
    2. Values: of each chunk to each query, see `catena.segments.sequence`. Chunks that no query found are
       fetched where a segment could cross them; one that the store does not have is a wall.
    3. Selection: greedy or optimal, never across documents.
    4. Segments: what touches is merged (values added, queries united); the text is the document's own slice.

    Args:
        rankings: of the queries, in `Scale.PROBABILITY`.
        params: how chunks are valued and how much may be taken.
        count: the tokens of a text; needed, and called, where a budget is in tokens. Tokens of a segment are those
            of its chunks, of the text between them, and of the header of its first chunk.
        header: the header that a reader will see above a segment; it is counted, not added. None: no header.

    Returns:
        The segments, and what `catena.segments.explain` needs to say why these.

    Raises:
        ScaleError: a ranking is not of calibrated probabilities.
        ParameterError: tokens are limited and `count` is missing; a probability is outside [0, 1]; two chunks claim
            one place in a document.
        CatenaError: the store failed.
    """
    check_probabilities(rankings)
    counts = params.max_tokens is not None or params.overall_max_tokens is not None
    if counts and count is None:
        raise ParameterError("count", None, "given where max_tokens or overall_max_tokens is")
    documents = documents_considered(rankings, params.top_k)
    found = hits_by_place(rankings, documents)
    known = {place: hit.hit.chunk for mine in reversed(found) for place, hit in mine.items()}
    spans = gaps(found, params)
    if spans:
        (reply,) = yield from ask([FetchChunks(spans=spans)])
        known = fetched_by_place(spans, reply) | known
    turn = {document: number for number, document in enumerate(documents)}
    places = sorted(known, key=lambda place: (turn[place[0]], place[1]))
    valued = lay_out([known[place] for place in places], found, params)
    limits = SelectionBounds(
        max_chunks=params.max_chunks,
        budget=params.overall_max_tokens or params.budget_in_chunks(len(rankings)),
        minimum_value=params.minimum_value,
        in_tokens=params.overall_max_tokens is not None,
        max_tokens=params.max_tokens,
    )
    sequence = valued.sequence if count is None or not counts else (yield from _counted(valued, count, header))
    picks = (
        optimal(sequence, limits) if params.selection == "optimal" else greedy(sequence, limits, joint=params.joint)
    )
    runs = _touching(picks, sequence) if params.merge else [(pick,) for pick in picks]
    segments = yield from _segments([valued.chunks[run[0].start : run[-1].end] for run in runs])
    return Extraction(
        segments=_ordered(segments, runs, picks, params.order),
        params=params,
        degraded=tuple(dict.fromkeys(part for ranking in rankings for part in ranking.degraded)),
        unknown=tuple(dict.fromkeys(name for ranking in rankings for name in ranking.unknown)),
        considered=Considered(
            documents=documents,
            valued=replace(valued, sequence=sequence),
            limits=limits,
            picks=picks,
            left_out=tuple(
                (query, rank, hit)
                for query, ranking in enumerate(rankings)
                for rank, hit in enumerate(ranking.hits)
                if hit.chunk.document_id not in turn
            ),
        ),
    )


def _touching(picks: Sequence[SelectedSegment], sequence: ChunkSequence) -> list[tuple[SelectedSegment, ...]]:
    """Return the picks in order of place, those together that touch within a document."""
    runs: list[tuple[SelectedSegment, ...]] = []
    for pick in sorted(picks, key=lambda pick: pick.start):
        if runs and runs[-1][-1].end == pick.start < sequence.run_ends[runs[-1][-1].start]:
            runs[-1] = (*runs[-1], pick)
        else:
            runs.append((pick,))
    return runs


def _counted(
    valued: ValuedChunks, count: Callable[[str], int], header: Callable[[Chunk | Segment], str] | None
) -> Step[ChunkSequence]:
    """Return the sequence with tokens; the store is asked for the text between neighbours."""
    spans = spans_between(valued)
    if not spans:
        return with_tokens(valued, count, header)
    (reply,) = yield from ask([FetchText(spans=tuple(spans.values()))])
    between = {
        place: text
        for (place, (_, start, end)), text in zip(spans.items(), reply, strict=False)
        if text is not None and len(text) == end - start
    }
    return with_tokens(valued, count, header, between)


def _segments(runs: Sequence[Sequence[Chunk]]) -> Step[list[Segment]]:
    """Return one segment per run of chunks; the store is asked for the exact text where there are joints."""
    wanted = [number for number, chunks in enumerate(runs) if len(chunks) > 1 and in_reading_order(chunks)]
    texts: list[str | None] = [None] * len(runs)
    if wanted:
        spans = tuple((runs[n][0].document_id, runs[n][0].start, runs[n][-1].end) for n in wanted)
        (reply,) = yield from ask([FetchText(spans=spans)])
        for number, text in zip(wanted, reply, strict=False):
            texts[number] = text
    return [segment_of(chunks, text) for chunks, text in zip(runs, texts, strict=True)]


def _ordered(
    segments: Sequence[Segment],
    runs: Sequence[tuple[SelectedSegment, ...]],
    picks: Sequence[SelectedSegment],
    order: Order,
) -> tuple[SegmentHit, ...]:
    """Return the segments with their values, in the order asked for."""
    turn = {pick.start: number for number, pick in enumerate(picks)}

    def place(pair: tuple[SegmentHit, tuple[SelectedSegment, ...]]) -> tuple[float, int]:
        hit, run = pair
        if order == "picked":
            return min(turn[pick.start] for pick in run), 0
        return (-hit.value if order == "score" else 0.0), run[0].start

    hits = [
        SegmentHit(segment, sum(pick.value for pick in run), tuple(sorted({pick.query for pick in run})))
        for segment, run in zip(segments, runs, strict=True)
    ]
    return tuple(hit for hit, _ in sorted(zip(hits, runs, strict=True), key=place))


_COLUMNS = (
    "document", "chunk", "query", "rank", "P", "decay", "lent", "penalty", "length", "factor", "value", "segment",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """The value of a chunk to one query: `value = (max(probability * decay, lent) - penalty) * factor`.

    Attributes:
        query: from 0.
        rank: from 0, in the query's whole ranking; None where the query did not find the chunk.
        lent: the neighbour bonus, by the chunk before or after it, see `ExtractionParams.lending`.
        factor: of the chunk's length.
        value: None for a chunk of a document that was not considered.
    """

    query: int
    rank: int | None
    probability: float
    decay: float
    lent: float
    penalty: float
    factor: float
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """One chunk, its worth to the queries, and the segment that it went into.

    Attributes:
        position: from 0, in its document.
        length: in characters.
        worths: one per query; of a chunk of a document that was not considered, those of the queries that found it.
        segment: number of the segment it is in, from 0, as `Extraction.segments` counts; None: in none.
        why: the reason where it is in none, else "".
    """

    chunk_id: str
    document_id: str
    position: int
    path: tuple[str, ...]
    length: int
    worths: tuple[Worth, ...]
    segment: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All chunks that extraction weighed: by document as considered, in reading order, then those left out.

    Attributes:
        spans: of the segments, as (document id, first position, end position, value), in their order.
        budget, used: of all segments together, in chunks, or in tokens where `in_tokens`.
    """

    chunks: tuple[Weighed, ...]
    spans: tuple[tuple[str, int, int, float], ...]
    params: ExtractionParams
    budget: int
    used: int
    in_tokens: bool

    def as_dict(self) -> dict[str, Any]:
        """Return everything as a value that JSON can hold."""
        return asdict(self)

    def table(self) -> str:
        """Return one line per chunk and query, for people."""
        rows = [_COLUMNS]
        for chunk in self.chunks:
            segment = f"- {chunk.why}" if chunk.segment is None else str(chunk.segment)
            for worth in chunk.worths:
                rank = "-" if worth.rank is None else str(worth.rank)
                lent = f"{worth.lent:.3f}" if worth.lent else "-"
                value = "-" if worth.value is None else f"{worth.value:+.3f}"
                terms = f"{worth.probability:.3f}", f"{worth.decay:.3f}", lent, f"{worth.penalty:.2f}"
                length = str(chunk.length), f"{worth.factor:.2f}"
                named = chunk.document_id, str(chunk.position), str(worth.query), rank
                rows.append((*named, *terms, *length, value, segment))
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS) - 1)]
        padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=False)] for row in rows]
        return "\n".join("  ".join([*cells, row[-1]]) for cells, row in zip(padded, rows, strict=True))


def explain(extraction: Extraction) -> Explanation:
    """Explain an extraction: the value of every chunk it weighed to each query, and the segment that it went into.

    Args:
        extraction: what `extract` returned.

    Returns:
        Chunks found and chunks fetched to bridge gaps, in order of the documents considered; then the hits of
        documents that were not considered.
    """
    seen = extraction.considered
    valued, sequence = seen.valued, seen.valued.sequence
    owner = {chunk: number for number, hit in enumerate(extraction.segments) for chunk in hit.segment.chunk_ids}
    reach = reaches(sequence, seen.limits)
    weighed = [
        _weighed(
            chunk,
            [_worth(extraction, query, place) for query in range(len(sequence.values))],
            segment=owner.get(chunk.id),
            why="" if chunk.id in owner else _why_not(sequence, seen.limits, reach, place),
        )
        for place, chunk in enumerate(valued.chunks)
    ]
    picked = np.array([(pick.start, pick.end) for pick in seen.picks], np.int64).reshape(-1, 2)
    costs = sequence.tokens_of(picked[:, 0], picked[:, 1]) if seen.limits.in_tokens else picked[:, 1] - picked[:, 0]
    return Explanation(
        chunks=(*weighed, *_left_out(extraction)),
        spans=tuple(
            (hit.segment.document_id, hit.segment.positions[0], hit.segment.positions[1] + 1, hit.value)
            for hit in extraction.segments
            if hit.segment.positions is not None
        ),
        params=extraction.params,
        budget=seen.limits.budget,
        used=int(costs.sum()),
        in_tokens=seen.limits.in_tokens,
    )


def _weighed(chunk: Chunk, worths: Iterable[Worth], *, segment: int | None, why: str) -> Weighed:
    return Weighed(
        chunk_id=chunk.id,
        document_id=chunk.document_id,
        position=chunk.position,
        path=chunk.path,
        length=len(chunk.text),
        worths=tuple(worths),
        segment=segment,
        why=why,
    )


def _worth(extraction: Extraction, query: int, place: int) -> Worth:
    """Return the value of the chunk at a place to a query, and its terms."""
    valued, at = extraction.considered.valued, (query, place)
    return Worth(
        query=query,
        rank=int(valued.ranks[at]) if valued.ranks[at] >= 0 else None,
        probability=float(valued.probabilities[at]),
        decay=float(valued.terms.decays[at]),
        lent=float(valued.terms.bonuses[at]),
        penalty=extraction.params.irrelevance_penalty,
        factor=float(valued.terms.factors[at]),
        value=float(valued.terms.values[at]),
    )


def _why_not(sequence: ChunkSequence, limits: SelectionBounds, reach: Ints, place: int) -> str:
    """Give the reason for which a chunk is in no segment."""
    if (sequence.values[:, place] < 0).all():
        return "worth less than 0 to every query, and no segment gains by crossing it"
    best = _best_around(sequence, limits, reach, place)
    if best == -np.inf:
        return f"alone more than the {limits.max_tokens or limits.budget} tokens that there is room for"
    if best < limits.minimum_value:
        return f"the best segment with it is worth {best:.3f}, less than the minimum of {limits.minimum_value:g}"
    return "within the budget, other segments are worth more"


def _best_around(sequence: ChunkSequence, limits: SelectionBounds, reach: Ints, place: int) -> float:
    """Return the value of the best candidate that holds a place, other picks left aside; -inf if there is none."""
    low = max(0, place - limits.max_chunks)
    spans = [(start, end) for start in range(low, place + 1) for end in range(place + 1, int(reach[start]) + 1)]
    starts, ends = np.array(spans, np.int64).reshape(-1, 2).T
    return float(exact_values(sequence, starts, ends)[0].max(initial=-np.inf))


def _left_out(extraction: Extraction) -> list[Weighed]:
    """Return the hits of documents that were not considered, by document and place."""
    params = extraction.params
    chunks: dict[str, Chunk] = {}
    worths: dict[str, list[Worth]] = {}
    for query, rank, hit in extraction.considered.left_out:
        chunk = chunks.setdefault(hit.chunk.id, hit.chunk)
        factor = length_factors(len(chunk.text), params.length_adjustment, reference=params.reference_length)
        worths.setdefault(chunk.id, []).append(
            Worth(
                query=query,
                rank=rank,
                probability=hit.score,
                decay=float(np.exp(-rank / params.decay_rate)),
                lent=0.0,
                penalty=params.irrelevance_penalty,
                factor=float(factor),
                value=None,
            )
        )
    why = f"its document is not among those of the first {params.top_k} chunks of a ranking"
    ordered = sorted(chunks.values(), key=lambda chunk: (chunk.document_id, chunk.position, chunk.id))
    return [_weighed(chunk, worths[chunk.id], segment=None, why=why) for chunk in ordered]

"""Why extraction returned these segments: every chunk it weighed, its worth to each query, and where it went."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from catena.model import Chunk
from catena.segments.params import ExtractionParams
from catena.segments.results import Extraction
from catena.segments.track import Ints, Limits, Track, reaches
from catena.segments.values import length_factors

_COLUMNS = (
    "document", "chunk", "query", "rank", "P", "decay", "lent", "penalty", "length", "factor", "value", "segment",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What a chunk is worth to one query: `value = (max(probability * decay, lent) - penalty) * factor`.

    Attributes:
        query: from 0.
        rank: from 0, in the query's whole ranking; None where the query did not find the chunk.
        lent: by the chunk before or after it, see `ExtractionParams.lending`.
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
    """One chunk, its worth to the queries, and where it went.

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
        """Return everything as what JSON can hold."""
        return asdict(self)

    def table(self) -> str:
        """Return one line per chunk and query, for people."""
        rows = [_COLUMNS]
        for chunk in self.chunks:
            where = f"{chunk.segment}" if chunk.segment is not None else f"- {chunk.why}"
            for worth in chunk.worths:
                rows.append(
                    (
                        chunk.document_id,
                        str(chunk.position),
                        str(worth.query),
                        "-" if worth.rank is None else str(worth.rank),
                        f"{worth.probability:.3f}",
                        f"{worth.decay:.3f}",
                        f"{worth.lent:.3f}" if worth.lent else "-",
                        f"{worth.penalty:.2f}",
                        str(chunk.length),
                        f"{worth.factor:.2f}",
                        "-" if worth.value is None else f"{worth.value:+.3f}",
                        where,
                    )
                )
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS) - 1)]
        padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=False)] for row in rows]
        return "\n".join("  ".join([*cells, row[-1]]) for cells, row in zip(padded, rows, strict=True))


def explain(extraction: Extraction) -> Explanation:
    """Say of every chunk that extraction weighed what it was worth to each query, and where it went.

    Args:
        extraction: what `extract` returned.

    Returns:
        Chunks found and chunks fetched to bridge gaps, in order of the documents considered; then the hits of
        documents that were not considered.
    """
    seen = extraction.considered
    laid, track, params = seen.laid, seen.laid.track, extraction.params
    owner = {chunk: number for number, hit in enumerate(extraction.segments) for chunk in hit.segment.chunk_ids}
    reach = reaches(track, seen.limits)
    weighed = [
        Weighed(
            **_identity(chunk),
            worths=tuple(
                Worth(
                    query=query,
                    rank=int(laid.ranks[query, place]) if laid.ranks[query, place] >= 0 else None,
                    probability=float(laid.probabilities[query, place]),
                    decay=float(laid.decays[query, place]),
                    lent=float(laid.lent[query, place]),
                    penalty=params.irrelevance_penalty,
                    factor=float(laid.factors[query, place]),
                    value=float(track.values[query, place]),
                )
                for query in range(len(track.values))
            ),
            segment=owner.get(chunk.id),
            why="" if chunk.id in owner else _why_not(track, seen.limits, reach, place),
        )
        for place, chunk in enumerate(laid.chunks)
    ]
    picked = np.array([(pick.start, pick.end) for pick in seen.picks], np.int64).reshape(-1, 2)
    costs = track.tokens_of(picked[:, 0], picked[:, 1]) if seen.limits.in_tokens else picked[:, 1] - picked[:, 0]
    return Explanation(
        chunks=(*weighed, *_left_out(extraction)),
        spans=tuple(
            (hit.segment.document_id, hit.segment.positions[0], hit.segment.positions[1] + 1, hit.value)
            for hit in extraction.segments
            if hit.segment.positions is not None
        ),
        params=params,
        budget=seen.limits.budget,
        used=int(costs.sum()),
        in_tokens=seen.limits.in_tokens,
    )


def _identity(chunk: Chunk) -> dict[str, Any]:
    return {
        "chunk_id": chunk.id,
        "document_id": chunk.document_id,
        "position": chunk.position,
        "path": chunk.path,
        "length": len(chunk.text),
    }


def _why_not(track: Track, limits: Limits, reach: Ints, place: int) -> str:
    """Return why a chunk is in no segment."""
    if (track.values[:, place] < 0).all():
        return "worth less than 0 to every query, and no segment gains by crossing it"
    best = _best_around(track, limits, reach, place)
    if best == -np.inf:
        return f"alone more than the {limits.max_tokens or limits.budget} tokens that there is room for"
    if best < limits.minimum_value:
        return f"the best segment with it is worth {best:.3f}, less than the minimum of {limits.minimum_value:g}"
    return "within the budget, other segments are worth more"


def _best_around(track: Track, limits: Limits, reach: Ints, place: int) -> float:
    """Return what the best candidate that holds a place is worth, whatever else is picked; -inf if there is none."""
    low = max(0, place - limits.max_chunks + 1)
    high = int(reach[low : place + 1].max())
    starts, ends = np.arange(low, place + 1), np.arange(place + 1, high + 1)
    best = -np.inf
    for row in track.values:
        sums = np.concatenate(([0.0], np.cumsum(row[low:high])))
        worth = sums[ends - low][None, :] - sums[starts - low][:, None]
        allowed = (reach[starts][:, None] >= ends[None, :]) & (row[starts] >= 0)[:, None] & (row[ends - 1] >= 0)
        best = max(best, float(np.where(allowed, worth, -np.inf).max(initial=-np.inf)))
    return best


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
    return [
        Weighed(
            **_identity(chunk),
            worths=tuple(worths[chunk.id]),
            segment=None,
            why=f"its document is not among those of the first {params.top_k} chunks of a ranking",
        )
        for chunk in sorted(chunks.values(), key=lambda chunk: (chunk.document_id, chunk.position, chunk.id))
    ]

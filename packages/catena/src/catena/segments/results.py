"""What extraction returns: segments with their values, and all that is needed to say why these."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum

from catena.model import Chunk, Degraded, Hit, Provenance, Ranking, Scale, Segment, Unknown
from catena.segments.params import ExtractionParams
from catena.segments.track import Floats, Ints, Limits, Pick, Track


@dataclass(frozen=True, slots=True)
class SegmentHit:
    """A segment, what it is worth, and to which queries (from 0, ascending)."""

    segment: Segment
    value: float
    queries: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaidOut:
    """Chunks laid end to end, document by document, with what makes their values.

    Attributes:
        chunks: one per place; those that no query found are the gaps that a segment could cross.
        track: values of shape (queries, n), and the runs without holes.
        ranks: shape (queries, n), from 0; -1 where the query did not find the chunk.
        probabilities, decays, lent, factors: shape (queries, n);
            value = (max(probability * decay, lent) - penalty) * factor.
    """

    chunks: tuple[Chunk, ...]
    track: Track
    ranks: Ints
    probabilities: Floats
    decays: Floats
    lent: Floats
    factors: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Considered:
    """All that extraction weighed, and what selection made of it.

    Attributes:
        documents: ids, in the order of the track.
        picks: in the order they were made, not merged.
        left_out: hits of documents that were not considered, as (query, rank from 0, hit).
    """

    documents: tuple[str, ...]
    laid: LaidOut
    limits: Limits
    picks: tuple[Pick, ...]
    left_out: tuple[tuple[int, int, Hit], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """The segments of one question, in the order asked for.

    Attributes:
        params: the settings they were made with.
        degraded, unknown: of the rankings they come from.
        asked: the queries in words, where whoever made the rankings says so; `SegmentHit.queries` counts them.
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
        """Return what all segments are worth together."""
        return fsum(hit.value for hit in self.segments)

    def ranking(self) -> Ranking:
        """Return the segments as hits in `Scale.VALUE`, best first, so that what reads rankings reads them."""
        order = sorted(self.segments, key=lambda hit: (-hit.value, hit.segment.id))
        hits = tuple(
            Hit(hit.segment.as_chunk(), hit.value, (Provenance(route="segments", rank=rank, score=hit.value),))
            for rank, hit in enumerate(order, start=1)
        )
        return Ranking(hits, Scale.VALUE, self.degraded, self.unknown)

"""Chunks of several documents laid end to end, with their values to each query and what they cost in tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from catena.model import Chunk, Segment
from catena.segments.joining import BLANK_LINE, joint
from catena.segments.neighbours import Found, Place
from catena.segments.params import ExtractionParams
from catena.segments.results import LaidOut
from catena.segments.track import Track
from catena.segments.values import weighted_values

TextSpan: TypeAlias = tuple[str, int, int]  # document id, start, end, as `FetchText` takes it
EMPTY: Mapping[int, str] = MappingProxyType({})


def lay_out(chunks: Sequence[Chunk], found: Sequence[Mapping[Place, Found]], params: ExtractionParams) -> LaidOut:
    """Return the chunks as a track: a run ends where the next chunk is not its document's next.

    Args:
        chunks: document by document, each in reading order.
        found: for each query, its hits by place.
        params: how chunks are valued.
    """
    index = {(chunk.document_id, chunk.position): number for number, chunk in enumerate(chunks)}
    ranks = np.full((len(found), len(chunks)), -1, np.int64)
    probabilities = np.zeros(ranks.shape)
    for query, mine in enumerate(found):
        where = [index[place] for place in mine]
        ranks[query, where] = [hit.rank for hit in mine.values()]
        probabilities[query, where] = [hit.hit.score for hit in mine.values()]
    lengths = np.array([len(chunk.text) for chunk in chunks], np.int64)
    inner = [number for number, pair in enumerate(pairwise(chunks), start=1) if not _adjacent(*pair)]
    ends = np.array([*inner, len(chunks)], np.int64)
    weights = weighted_values(ranks, probabilities, lengths, params=params, ends=ends)
    return LaidOut(
        chunks=tuple(chunks),
        track=Track(values=weights.values, ends=ends),
        ranks=ranks,
        probabilities=probabilities,
        decays=weights.decays,
        lent=weights.lent,
        factors=weights.factors,
    )


def spans_between(laid: LaidOut) -> dict[int, TextSpan]:
    """Return what stands between neighbours and may be more than white space, by the place of the later one.

    A heading without text below it is in no chunk, and yet in a segment that crosses it.
    """
    spans = {
        place: (after.document_id, before.end, after.start)
        for place, (before, after) in enumerate(pairwise(laid.chunks), start=1)
        if after.start - before.end > len(BLANK_LINE)
    }
    ends = frozenset(laid.track.ends.tolist())
    return {place: span for place, span in spans.items() if place not in ends}


def with_tokens(
    laid: LaidOut,
    count: Callable[[str], int],
    header: Callable[[Chunk | Segment], str] | None,
    between: Mapping[int, str] = EMPTY,
) -> Track:
    """Return the track with the tokens of each chunk, of what joins it to the one before, and of its header.

    A segment begins without a joint, so that of its first chunk is taken off the header there, as far as that
    goes: two segments that are merged never cost more than apart. Where the chunks of a run have no offsets to
    join by, a blank line is counted for each joint.

    Args:
        laid: the chunks.
        count: the tokens of a text.
        header: what a reader will see above a segment.
        between: what stands before the chunks at these places, as a store has it; else white space is taken.
    """
    joints = np.zeros(len(laid.chunks), np.int64)
    blank = count(BLANK_LINE)
    first = 0
    for end in laid.track.ends.tolist():
        texts = [
            between.get(place, joint(*pair)) for place, pair in enumerate(pairwise(laid.chunks[first:end]), first + 1)
        ]
        least = blank if None in texts else 0
        joints[first + 1 : end] = [max(least, count(text or "")) for text in texts]
        first = end
    headers = [header(chunk) if header else "" for chunk in laid.chunks]
    counted = {text: count(text + BLANK_LINE) if text else 0 for text in set(headers)}
    tokens = np.array([count(chunk.text) for chunk in laid.chunks], np.int64) + joints
    heads = np.maximum(np.array([counted[text] for text in headers], np.int64) - joints, 0)
    return replace(laid.track, tokens=tokens, heads=heads)


def _adjacent(before: Chunk, after: Chunk) -> bool:
    return before.document_id == after.document_id and before.position + 1 == after.position

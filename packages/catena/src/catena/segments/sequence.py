"""Value chunks and lay them end to end: the chunk sequence that selection works on.

In order: the sequence and its limits, the values of chunks, the places of hits and the gaps between them, and the
sequence of the chunks of several documents with its tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catena.model import Chunk, Hit, ParameterError, Ranking, Scale, ScaleError, Segment
from catena.segments.adjacency import BLANK_LINE, ChunkPlace, ChunkSpan, joint
from catena.segments.params import ExtractionParams, LengthAdjustment

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SelectedSegment:
    """A segment of a sequence: places [start, end), its value, and the query (from 0) that it has it for."""

    start: int
    end: int
    value: float
    query: int


@dataclass(frozen=True, kw_only=True, eq=False)
class ChunkSequence:
    """Chunks laid end to end; a segment may begin and end anywhere within one run.

    A segment [i, j) costs j - i chunks, and `heads[i] + sum(tokens[i:j])` tokens.

    Attributes:
        values: shape (queries, n), finite.
        ends: where each run ends, ascending; the last is n. A run is a document, or a part of one without holes.
        tokens: shape (n,), what each chunk adds to a segment, >= 0; None where nothing is counted in tokens.
        heads: shape (n,), what a segment that begins there costs besides (its header), >= 0; None: nothing.
    """

    values: Floats
    ends: Ints
    tokens: Ints | None = None
    heads: Ints | None = None

    def __post_init__(self) -> None:
        n, ends = self.values.shape[1], self.ends
        if not np.isfinite(self.values).all():
            raise ParameterError("values", "nan or infinity", "finite numbers")
        if (ends[-1] if len(ends) else 0) != n or (np.diff(ends) < 0).any() or (ends < 0).any():
            raise ParameterError("ends", tuple(ends[:10].tolist()), f"ascending ends of runs, the last {n}")
        for name in ("tokens", "heads"):
            counted = getattr(self, name)
            if counted is not None and counted.shape != (n,):
                raise ParameterError(name, counted.shape, f"one number for each of {n} chunks")

    @property
    def size(self) -> int:
        """Return the number of chunks."""
        return int(self.values.shape[1])

    @cached_property
    def run_ends(self) -> Ints:
        """Return the end of the run that each place is in."""
        return np.repeat(self.ends, np.diff(self.ends, prepend=0))

    @cached_property
    def spent(self) -> Ints:
        """Return the tokens before each place, shape (n + 1,)."""
        counted = np.zeros(self.size, np.int64) if self.tokens is None else self.tokens
        return np.concatenate(([0], np.cumsum(counted, dtype=np.int64)))

    @cached_property
    def first_cost(self) -> Ints:
        """Return the tokens that a segment costs for beginning at each place: its header."""
        return np.zeros(self.size, np.int64) if self.heads is None else self.heads

    def tokens_of(self, starts: Ints, ends: Ints) -> Ints:
        """Return the cost in tokens of segments [starts, ends)."""
        return self.first_cost[starts] + self.spent[ends] - self.spent[starts]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionBounds:
    """Bound the cost of one segment and of all together, and the value of one from below.

    Attributes:
        max_chunks: in one segment.
        budget: of all segments, in chunks, or in tokens where `in_tokens`.
        max_tokens: in one segment; None: no limit.
        minimum_value: of a segment.
    """

    max_chunks: int
    budget: int
    minimum_value: float
    in_tokens: bool = False
    max_tokens: int | None = None


def reaches(sequence: ChunkSequence, limits: SelectionBounds, left: int | None = None) -> Ints:
    """Return for each start the last end that run, limits and budget allow; the start itself where none is.

    Args:
        sequence: the chunks.
        limits: of one segment and of all.
        left: what is left of the budget; None: all of it.
    """
    left = limits.budget if left is None else left
    starts = np.arange(sequence.size, dtype=np.int64)
    longest = limits.max_chunks if limits.in_tokens else min(limits.max_chunks, left)
    reach = np.minimum(starts + longest, sequence.run_ends)
    bounds = [*([limits.max_tokens] if limits.max_tokens is not None else []), *([left] if limits.in_tokens else [])]
    if bounds:
        most = min(bounds)
        within = np.searchsorted(sequence.spent, sequence.spent[:-1] + most - sequence.first_cost, side="right") - 1
        reach = np.minimum(reach, np.maximum(within, starts))
    return reach


class ValueTerms(NamedTuple):
    """Values of chunks and the terms they are made of, each of shape (queries, n).

    `value = (max(probability * decay, bonus) - penalty) * factor`

    Attributes:
        decays: 0 for a chunk that the query did not find.
        bonuses: from the chunks before and after, see `neighbour_bonus`.
        factors: of the chunks' lengths.
    """

    values: Floats
    decays: Floats
    bonuses: Floats
    factors: Floats


def chunk_values(ranks: ArrayLike, probabilities: ArrayLike, *, penalty: float, decay_rate: float) -> Floats:
    """Return `probability * exp(-rank / decay_rate) - penalty` for retrieved chunks; `-penalty` for others.

    Args:
        ranks: of the chunks in the query's whole ranking, from 0; any shape.
        probabilities: P(relevant | query, chunk), calibrated; 0 for a chunk that was not retrieved.
        penalty: what reading an irrelevant chunk costs.
        decay_rate: in ranks, > 0.

    Source: the article, "relevance score calculation"; dsRAG 0.5.6, `get_chunk_value`.
    """
    decay = np.exp(-np.asarray(ranks, np.float64) / decay_rate)
    return np.asarray(decay * np.asarray(probabilities, np.float64) - penalty, np.float64)


def length_factors(lengths: ArrayLike, adjustment: LengthAdjustment, *, reference: int = 700) -> Floats:
    """Return the factor of each chunk's value, from its length in characters.

    - "scale": `length / reference`, the article's rule: a longer chunk weighs more, a shorter one less.
    - "floor": `max(length, reference / 2) / reference`, dsRAG from 2024-09-29 to 2024-11-01.
    - "boost_only": `max(length, reference) / reference`, dsRAG since then: a short chunk loses nothing.
    - "off": 1.

    A value of any sign is multiplied. A chunk that the query did not find has its real length in "scale",
    so that crossing it costs what reading it costs; in "floor" and "boost_only" it has the length 0, as in dsRAG.

    Raises:
        ParameterError: a length is negative, the reference is not > 0, or there is no such adjustment.
    """
    given = np.asarray(lengths, np.float64)
    if (given < 0).any() or reference <= 0:
        raise ParameterError("lengths", reference, "lengths >= 0 over a reference > 0, in characters")
    least = {"scale": 0.0, "floor": reference / 2, "boost_only": float(reference), "off": None}
    if adjustment not in least:
        raise ParameterError("length_adjustment", adjustment, f"one of {', '.join(least)}")
    floor = least[adjustment]
    return np.ones_like(given) if floor is None else np.maximum(given, floor) / reference


def neighbour_bonus(worths: Floats, ends: Ints, share: float) -> Floats:
    """Return the least worth that a chunk has from its neighbours: `share * max(worth before, worth after)`.

    Args:
        worths: shape (queries, n), of chunks laid end to end.
        ends: ascending, of the runs without holes; no bonus crosses one.
        share: in [0, 1).

    Returns:
        Shape (queries, n).
    """
    bonuses = np.zeros(worths.shape)
    joined = np.ones(max(0, worths.shape[1] - 1), bool)
    joined[ends[ends < worths.shape[1]] - 1] = False
    np.multiply(worths[:, :-1], share * joined, out=bonuses[:, 1:])
    bonuses[:, :-1] = np.maximum(bonuses[:, :-1], worths[:, 1:] * (share * joined))
    return bonuses


def weighted_values(
    ranks: Ints, probabilities: Floats, lengths: Ints, *, params: ExtractionParams, ends: Ints | None = None
) -> ValueTerms:
    """Return the values of all chunks of a sequence, and their terms.

    Args:
        ranks: shape (queries, n), from 0; -1 where the query did not find the chunk.
        probabilities: shape (queries, n); 0 where the query did not find the chunk.
        lengths: shape (n,), in characters, of found and other chunks.
        params: penalty, decay, lending and length adjustment.
        ends: of the runs without holes; needed for a neighbour bonus.
    """
    found = ranks >= 0
    decays = np.zeros(ranks.shape)
    decays[found] = np.exp(-ranks[found] / params.decay_rate)  # few of many: no exponential of the rest
    seen = lengths if params.length_adjustment == "scale" else np.where(found, lengths, 0)
    factors = length_factors(seen, params.length_adjustment, reference=params.reference_length)
    worths = decays * probabilities
    bonuses = np.broadcast_to(0.0, ranks.shape)
    if params.lending and ends is not None:
        bonuses = neighbour_bonus(worths, ends, params.lending)
        worths = np.maximum(worths, bonuses)
    values = (worths - params.irrelevance_penalty) * factors
    return ValueTerms(values, decays, bonuses, np.broadcast_to(factors, ranks.shape))


def documents_considered(rankings: Sequence[Ranking], top_k: int) -> tuple[str, ...]:
    """Return the ids of the documents of the first `top_k` chunks of each ranking: by best rank there, then id."""
    best: dict[str, int] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking.hits[:top_k]):
            document = hit.chunk.document_id
            best[document] = min(rank, best.get(document, rank))
    return tuple(sorted(best, key=lambda document: (best[document], document)))


def check_probabilities(rankings: Sequence[Ranking]) -> None:
    """Refuse rankings whose scores are not calibrated probabilities.

    Raises:
        ScaleError: a ranking is in another scale; a penalty taken off a similarity would mean nothing.
        ParameterError: a score is outside [0, 1], or there is one ranking where a sequence of them is meant.
    """
    if isinstance(rankings, Ranking):
        raise ParameterError("rankings", "one Ranking", "a sequence of them, one per query")
    for number, ranking in enumerate(rankings):
        if ranking.scale is not Scale.PROBABILITY:
            raise ScaleError(
                f"segment extraction (ranking {number})",
                f"{Scale.PROBABILITY.value}: rerank and calibrate first, see catena.segments.calibration",
                ranking.scale.value,
            )
        for hit in ranking.hits:
            if not 0 <= hit.score <= 1:
                raise ParameterError(f"score of chunk {hit.chunk.id!r}", hit.score, "a probability in [0, 1]")


@dataclass(frozen=True, slots=True)
class RankedHit:
    """A hit of one query, with its rank (from 0) in the query's whole ranking."""

    rank: int
    hit: Hit


def hits_by_place(rankings: Sequence[Ranking], documents: Iterable[str]) -> list[dict[ChunkPlace, RankedHit]]:
    """Return for each ranking its hits in these documents, by place.

    Raises:
        ParameterError: two different chunks claim the same place; a segment would then be no slice.
    """
    wanted = frozenset(documents)
    known: dict[ChunkPlace, str] = {}
    found: list[dict[ChunkPlace, RankedHit]] = []
    for ranking in rankings:
        mine: dict[ChunkPlace, RankedHit] = {}
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
                mine.setdefault(place, RankedHit(rank, hit))
        found.append(mine)
    return found


def gaps(found: Sequence[Mapping[ChunkPlace, RankedHit]], params: ExtractionParams) -> tuple[ChunkSpan, ...]:
    """Return the spans that no query found and that a segment could cross, in order of document and place.

    A segment begins and ends with a value >= 0 of its query, and has at most `max_chunks`: so chunks that have such a
    value by a neighbour bonus, and what lies between two neighbouring such chunks of one query, at most
    `max_chunks` with both; and nothing else.
    """
    known = {place for mine in found for place in mine}
    missing: set[ChunkPlace] = set()
    for mine in found:
        worth_reading = _worth_reading(mine, params)
        missing.update(worth_reading)
        for (document, before), (other, after) in pairwise(worth_reading):
            if document == other and after - before < params.max_chunks:
                missing.update((document, position) for position in range(before + 1, after))
    spans: list[ChunkSpan] = []
    for document, position in sorted(missing - known):
        if spans and spans[-1][0] == document and spans[-1][2] == position:
            spans[-1] = (document, spans[-1][1], position + 1)
        else:
            spans.append((document, position, position + 1))
    return tuple(spans)


def _worth_reading(mine: Mapping[ChunkPlace, RankedHit], params: ExtractionParams) -> list[ChunkPlace]:
    """Return the places with a value >= 0, in order; those that no query found only by a neighbour bonus."""
    ranks, scores = [hit.rank for hit in mine.values()], [hit.hit.score for hit in mine.values()]
    own = chunk_values(ranks, scores, penalty=0.0, decay_rate=params.decay_rate).tolist()
    worths = dict(zip(mine, own, strict=True))
    if params.lending:
        for (document, position), worth in zip(mine, own, strict=True):
            for place in ((document, position - 1), (document, position + 1)):
                if place[1] >= 0:
                    worths[place] = max(params.lending * worth, worths.get(place, 0.0))
    lengths = [len(hit.hit.chunk.text) for hit in mine.values()]
    factors = length_factors(lengths, params.length_adjustment, reference=params.reference_length)
    short = {place for place, factor in zip(mine, factors.tolist(), strict=True) if factor == 0.0}
    return sorted(place for place in worths if worths[place] >= params.irrelevance_penalty or place in short)


def fetched_by_place(spans: Sequence[ChunkSpan], reply: Sequence[Iterable[Chunk]]) -> dict[ChunkPlace, Chunk]:
    """Return the chunks that a store sent for the spans, by place; those not asked for are left out."""
    fetched = ((*span, chunk) for span, chunks in zip(spans, reply, strict=False) for chunk in chunks)
    asked = (each for name, first, end, each in fetched if each.document_id == name and first <= each.position < end)
    return {(chunk.document_id, chunk.position): chunk for chunk in asked}


TextSpan: TypeAlias = tuple[str, int, int]
"""Document id, start, end, as `FetchText` takes it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValuedChunks:
    """Chunks laid end to end, document by document, with what makes their values.

    Attributes:
        chunks: one per place; those that no query found are the gaps that a segment could cross.
        sequence: values of shape (queries, n), and the runs without holes.
        ranks: shape (queries, n), from 0; -1 where the query did not find the chunk.
        probabilities: shape (queries, n).
        terms: of the values.
    """

    chunks: tuple[Chunk, ...]
    sequence: ChunkSequence
    ranks: Ints
    probabilities: Floats
    terms: ValueTerms


def lay_out(
    chunks: Sequence[Chunk], found: Sequence[Mapping[ChunkPlace, RankedHit]], params: ExtractionParams
) -> ValuedChunks:
    """Return the chunks as a sequence: a run ends where the next chunk is not its document's next.

    Args:
        chunks: document by document, each in reading order.
        found: for each query, its hits by place.
        params: how chunks are valued.
    """
    places = [(chunk.document_id, chunk.position) for chunk in chunks]
    index = {place: number for number, place in enumerate(places)}
    ranks = np.full((len(found), len(chunks)), -1, np.int64)
    probabilities = np.zeros(ranks.shape)
    for query, mine in enumerate(found):
        where = [index[place] for place in mine]
        ranks[query, where] = [hit.rank for hit in mine.values()]
        probabilities[query, where] = [hit.hit.score for hit in mine.values()]
    lengths = np.array([len(chunk.text) for chunk in chunks], np.int64)
    inner = [at for at, ((d, n), after) in enumerate(pairwise(places), start=1) if after != (d, n + 1)]
    ends = np.array([*inner, len(chunks)], np.int64)
    terms = weighted_values(ranks, probabilities, lengths, params=params, ends=ends)
    return ValuedChunks(
        chunks=tuple(chunks),
        sequence=ChunkSequence(values=terms.values, ends=ends),
        ranks=ranks,
        probabilities=probabilities,
        terms=terms,
    )


def spans_between(valued: ValuedChunks) -> dict[int, TextSpan]:
    """Return the spans between neighbours that may hold more than white space, by the place of the later one.

    A heading without text below it is in no chunk, and yet in a segment that crosses it.
    """
    ends = frozenset(valued.sequence.ends.tolist())
    return {
        place: (after.document_id, before.end, after.start)
        for place, (before, after) in enumerate(pairwise(valued.chunks), start=1)
        if after.start - before.end > len(BLANK_LINE) and place not in ends
    }


def with_tokens(
    valued: ValuedChunks,
    count: Callable[[str], int],
    header: Callable[[Chunk | Segment], str] | None,
    between: Mapping[int, str] = MappingProxyType({}),
) -> ChunkSequence:
    """Return the sequence with the tokens of each chunk, of what joins it to the one before, and of its header.

    A segment begins without a joint, so that of its first chunk is taken off the header there, as far as that
    goes: two segments that are merged never cost more than apart. Where the chunks of a run have no offsets to
    join by, a blank line is counted for each joint.

    Args:
        valued: the chunks.
        count: the tokens of a text.
        header: what a reader will see above a segment.
        between: the text before the chunks at these places, as a store has it; else white space is taken.
    """
    joints = np.zeros(len(valued.chunks), np.int64)
    blank = count(BLANK_LINE)
    first = 0
    for end in valued.sequence.ends.tolist():
        numbered = enumerate(pairwise(valued.chunks[first:end]), first + 1)
        texts = [between.get(place, joint(*pair)) for place, pair in numbered]
        least = blank if None in texts else 0
        joints[first + 1 : end] = [max(least, count(text or "")) for text in texts]
        first = end
    headers = [header(chunk) if header else "" for chunk in valued.chunks]
    counted = {text: count(text + BLANK_LINE) if text else 0 for text in set(headers)}
    tokens = np.array([count(chunk.text) for chunk in valued.chunks], np.int64) + joints
    heads = np.maximum(np.array([counted[text] for text in headers], np.int64) - joints, 0)
    return replace(valued.sequence, tokens=tokens, heads=heads)

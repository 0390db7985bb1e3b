"""What a chunk is worth to a query: P(relevant), decayed by rank, less a penalty, weighed by the chunk's length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from catena.model import Ranking, Scale
from catena.model.errors import ParameterError, ScaleError
from catena.segments.params import ExtractionParams, LengthAdjustment
from catena.segments.track import Floats, Ints


class Weights(NamedTuple):
    """Values of chunks and what made them, each of shape (queries, n); the decay of a chunk not found is 0."""

    values: Floats
    decays: Floats
    lent: Floats
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
    """Return by what each chunk's value is multiplied, from its length in characters.

    - "scale": `length / reference`, the article's rule: a longer chunk weighs more, a shorter one less.
    - "floor": `max(length, reference / 2) / reference`, dsRAG from 2024-09-29 to 2024-11-01.
    - "boost_only": `max(length, reference) / reference`, dsRAG since then: a short chunk loses nothing.
    - "off": 1.

    A value is multiplied whatever its sign. A chunk that the query did not find has its real length in "scale",
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


def lent_by_neighbours(worths: Floats, ends: Ints, share: float) -> Floats:
    """Return what the chunk before and the chunk after lend: `share * max(worth before, worth after)`.

    Args:
        worths: shape (queries, n), of chunks laid end to end.
        ends: ascending, of the runs without holes; nothing is lent across one.
        share: in [0, 1).

    Returns:
        Shape (queries, n).
    """
    lent = np.zeros(worths.shape)
    joined = np.ones(max(0, worths.shape[1] - 1), bool)
    joined[ends[ends < worths.shape[1]] - 1] = False
    np.multiply(worths[:, :-1], share * joined, out=lent[:, 1:])
    lent[:, :-1] = np.maximum(lent[:, :-1], worths[:, 1:] * (share * joined))
    return lent


def weighted_values(
    ranks: Ints, probabilities: Floats, lengths: Ints, *, params: ExtractionParams, ends: Ints | None = None
) -> Weights:
    """Return the values of all chunks of a track, and what made them.

    `value = (max(probability * decay, lent) - penalty) * factor`

    Args:
        ranks: shape (queries, n), from 0; -1 where the query did not find the chunk.
        probabilities: shape (queries, n); 0 where the query did not find the chunk.
        lengths: shape (n,), in characters, of found and other chunks.
        params: penalty, decay, lending and length adjustment.
        ends: of the runs without holes; needed where something is lent.
    """
    found = ranks >= 0
    decays = np.zeros(ranks.shape)
    decays[found] = np.exp(-ranks[found] / params.decay_rate)  # few of many: no exponential of the rest
    seen = lengths if params.length_adjustment == "scale" else np.where(found, lengths, 0)
    factors = length_factors(seen, params.length_adjustment, reference=params.reference_length)
    worths = decays * probabilities
    lent = np.broadcast_to(0.0, ranks.shape)
    if params.lending and ends is not None:
        lent = lent_by_neighbours(worths, ends, params.lending)
        worths = np.maximum(worths, lent)
    values = (worths - params.irrelevance_penalty) * factors
    return Weights(values, decays, lent, np.broadcast_to(factors, ranks.shape))


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
                f"{Scale.PROBABILITY.value}: rerank and calibrate first, see catena.segments.reranking",
                ranking.scale.value,
            )
        for hit in ranking.hits:
            if not 0 <= hit.score <= 1:
                raise ParameterError(f"score of chunk {hit.chunk.id!r}", hit.score, "a probability in [0, 1]")

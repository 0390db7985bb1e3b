"""What a reader can be given from a ranking within a number of tokens: chunks, wider passages, or segments.

| system | what is taken |
|---|---|
| topk | chunks in order |
| window | each with the chunk before and the chunk after it |
| section | each with the rest of its section |
| article | segments: the article's `BALANCED`, every probability 0.8 (there is no reranker), greedy |
| greedy | segments: every probability 0.8, the decay set by the budget (`by_budget`) |
| optimal | the same, selected as the best sum instead |
| lent | as greedy, but each hit lends half of its probability to its two neighbours |

With "_headers" the reader gets the header of the document above each passage, and pays for it in tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import exp, log

from catena.context import segment_header
from catena.effects import Services
from catena.effects import run as run_step
from catena.extraction import BALANCED, ExtractionParams
from catena.extraction.extracting import extract
from catena.model import Hit, Ranking, Scale
from catena.rerank.reranking import by_rank
from catena_bench.segments_filling import (
    Header,
    Shelf,
    Widened,
    alone,
    fill,
    tokens_of,
    with_neighbours,
    with_section,
)

HEADERS = "_headers"
BELIEVED = 0.8  # the probability of a first hit where nothing rates it, as dsRAG takes it
LENT = 0.5  # share of its probability that a hit lends to each neighbour
_NO_DECAY = 1e9  # ranks; the probabilities were decayed already

# Chosen on the halves that tune: decision 23. The budget says where to stop, so no minimum is asked of a segment.
BY_BUDGET = replace(BALANCED, minimum_value=0.0, irrelevance_penalty=0.1, length_adjustment="off")

Runs = tuple[tuple[str, range], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What systems choose from.

    Attributes:
        shelf: the collection.
        services: of the store that holds its chunks.
        ranking: of one question.
        budget: in tokens.
    """

    shelf: Shelf
    services: Services
    ranking: Ranking
    budget: int


System = Callable[[Reading, Header | None], Runs]


def readable(reading: Reading, header: Header | None = None) -> int:
    """Return how many of the first hits fit into the budget, each with its header; at least 1."""
    left = reading.budget
    for number, hit in enumerate(reading.ranking.hits):
        left -= reading.shelf.books[hit.chunk.document_id].tokens[hit.chunk.position]
        left -= tokens_of(header(hit.chunk)) if header is not None else 0
        if left < 0:
            return max(1, number)
    return max(1, len(reading.ranking.hits))


def by_budget(n: int, *, penalty: float, share: float = 1.0) -> float:
    """Return the decay rate under which the first n hits, and no more, are worth reading.

    `decay = share * n / ln(0.8 / penalty)`: at rank n (from 0) a probability of 0.8 has decayed to the penalty.

    Args:
        n: hits that the budget holds.
        penalty: taken off each probability, below 0.8.
        share: of them that are to be worth reading.
    """
    return share * n / log(BELIEVED / penalty)


def filled(take: Widened) -> System:
    """Return the system that takes hits in order, each as widely as it fits."""

    def system(reading: Reading, header: Header | None) -> Runs:
        joined = header is None or take is not alone
        return fill(reading.shelf, reading.ranking, reading.budget, take=take, header=header, joined=joined)

    return system


def article(reading: Reading, header: Header | None) -> Runs:
    """Take segments by the article's preset."""
    return segments(reading, by_rank(reading.ranking, BELIEVED), BALANCED, header)


def greedy(reading: Reading, header: Header | None) -> Runs:
    """Take segments with the decay that the budget sets."""
    return segments(reading, by_rank(reading.ranking, BELIEVED), _decayed(reading, header), header)


def optimal(reading: Reading, header: Header | None) -> Runs:
    """Take the segments of the best sum, with the decay that the budget sets."""
    params = replace(_decayed(reading, header), selection="optimal")
    return segments(reading, by_rank(reading.ranking, BELIEVED), params, header)


def lent(reading: Reading, header: Header | None, *, share: float = LENT) -> Runs:
    """Take segments where the neighbours of a hit are worth a share of what it is."""
    params = _decayed(reading, header, share=0.5)  # a hit brings its neighbours, so fewer hits fill the budget
    ranking = lend(by_rank(reading.ranking, BELIEVED), reading.shelf, decay_rate=params.decay_rate, share=share)
    return segments(reading, ranking, replace(params, decay_rate=_NO_DECAY, top_k=len(ranking.hits) or 1), header)


def lend(ranking: Ranking, shelf: Shelf, *, decay_rate: float, share: float = LENT) -> Ranking:
    """Return a ranking with its probabilities decayed, in which neighbours of hits have a share of theirs.

    `p(c) = max(own(c), share * own(c before), share * own(c after))`, `own = exp(-rank / decay_rate) * probability`.
    """
    worth: dict[tuple[str, int], float] = {}
    for rank, hit in enumerate(ranking.hits):
        document_id, position = hit.chunk.document_id, hit.chunk.position
        own = exp(-rank / decay_rate) * hit.score
        for place, value in ((position, own), (position - 1, share * own), (position + 1, share * own)):
            if 0 <= place < len(shelf.books[document_id].entry.chunks):
                worth[document_id, place] = max(value, worth.get((document_id, place), 0.0))
    hits = (Hit(shelf.books[document_id].entry.chunks[place], value) for (document_id, place), value in worth.items())
    return Ranking.of(hits, Scale.PROBABILITY)


def segments(reading: Reading, ranking: Ranking, params: ExtractionParams, header: Header | None) -> Runs:
    """Return the segments of a ranking in `Scale.PROBABILITY` within the budget."""
    step = extract(
        [ranking],
        params=replace(params, overall_max_tokens=reading.budget),
        count=tokens_of,
        header=None if header is None else segment_header,
    )
    found = run_step(step, reading.services).segments
    return tuple(
        (each.segment.document_id, range(each.segment.positions[0], each.segment.positions[1] + 1))
        for each in found
        if each.segment.positions is not None
    )


def _decayed(reading: Reading, header: Header | None, share: float = 1.0) -> ExtractionParams:
    n = readable(reading, header)
    decay = by_budget(n, penalty=BY_BUDGET.irrelevance_penalty, share=share)
    return replace(BY_BUDGET, decay_rate=decay, top_k=max(BY_BUDGET.top_k, n))


SYSTEMS: Mapping[str, System] = {
    "topk": filled(alone),
    "window": filled(with_neighbours),
    "section": filled(with_section),
    "article": article,
    "greedy": greedy,
    "optimal": optimal,
    "lent": lent,
}

"""What a reader can be given from a ranking within a number of tokens: chunks, wider passages, or segments.

| system | what is taken |
|---|---|
| topk | chunks in order |
| window | each with the chunk before and the chunk after it |
| section | each with the rest of its section |
| article | segments: the article's `BALANCED`, every probability 0.8 (there is no reranker), greedy |
| greedy | segments: every probability 0.8, the decay set by the budget (`catena.segments.within_budget`) |
| optimal | the same, selected as the best sum instead |
| lent | as greedy, but each hit lends half of its probability to its two neighbours |

With "_headers" the reader gets the header of the document above each passage, and pays for it in tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from catena.effects import Services
from catena.effects import run as run_step
from catena.model import Ranking
from catena.segments import BALANCED, LENDING, PENALTY, SHARE, ExtractionParams, by_rank, extract, within_budget
from catena.structure import segment_header
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
    return segments(reading, by_rank(reading.ranking, BELIEVED), budgeted(reading, header), header)


def optimal(reading: Reading, header: Header | None) -> Runs:
    """Take the segments of the best sum, with the decay that the budget sets."""
    params = replace(budgeted(reading, header), selection="optimal")
    return segments(reading, by_rank(reading.ranking, BELIEVED), params, header)


def lent(reading: Reading, header: Header | None, *, lending: float = LENDING) -> Runs:
    """Take segments where the neighbours of a hit are worth a share of what it is: what `find_segments` does."""
    params = budgeted(reading, header, lending=lending, share=SHARE)
    return segments(reading, by_rank(reading.ranking, BELIEVED), params, header)


def budgeted(
    reading: Reading,
    header: Header | None = None,
    *,
    lending: float = 0.0,
    share: float = 1.0,
    penalty: float = PENALTY,
) -> ExtractionParams:
    """Return the settings of `within_budget`; by default nothing is lent, and all hits that fit are worth reading."""
    return within_budget(
        [reading.ranking],
        reading.budget,
        count=tokens_of,
        header=None if header is None else segment_header,
        believed=BELIEVED,
        penalty=penalty,
        lending=lending,
        share=share,
    )


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


SYSTEMS: Mapping[str, System] = {
    "topk": filled(alone),
    "window": filled(with_neighbours),
    "section": filled(with_section),
    "article": article,
    "greedy": greedy,
    "optimal": optimal,
    "lent": lent,
}

"""Settings of extraction where no reranker has rated anything: the order is believed, and the budget says how far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log

from catena.model import Chunk, Ranking, Segment
from catena.model.errors import ParameterError
from catena.segments.params import BALANCED, ExtractionParams

PENALTY = 0.1
LENDING = 0.5
SHARE = 0.5  # of the hits that the budget holds: each of them brings its neighbours


def within_budget(
    rankings: Sequence[Ranking],
    budget_tokens: int,
    *,
    count: Callable[[str], int],
    header: Callable[[Chunk | Segment], str] | None = None,
    believed: float = 0.8,
    penalty: float = PENALTY,
    lending: float = LENDING,
    share: float = SHARE,
) -> ExtractionParams:
    """Return settings under which as many ranks are worth reading as the budget can hold.

    `decay = share * n / ln(believed / penalty)`, n the number of first hits that fit into a query's part of the
    budget: at rank `share * n` (from 0) a probability of `believed` has decayed to the penalty, and is worth nothing
    more. No minimum is asked of a segment, and lengths do not weigh: the budget says where to stop.

    Args:
        rankings: of the queries, best first, any scale; the largest n of them counts.
        budget_tokens: of all segments together, headers counted.
        count: tokens of a text.
        header: what the reader will see above a segment.
        believed: the probability that every hit will be given, as `by_rank` gives it; above the penalty.
        penalty: taken off each probability, > 0.
        lending: see `ExtractionParams`.
        share: of the hits that the budget holds that are to be worth reading; below 1 where hits bring neighbours.

    Raises:
        ParameterError: a number is out of its domain.

    Source: measured, see `docs/decisions/0023-segments-measured.md`; the article's settings are made for a reranker.
    """
    if not 0 < penalty < believed <= 1:
        raise ParameterError("penalty and believed", (penalty, believed), "0 < penalty < believed <= 1")
    if not share > 0:
        raise ParameterError("share", share, "a number > 0")
    tokens = max(1, budget_tokens // max(1, len(rankings)))
    n = max((_readable(ranking, tokens, count, header) for ranking in rankings), default=1)
    return replace(
        BALANCED,
        overall_max_tokens=budget_tokens,
        minimum_value=0.0,
        irrelevance_penalty=penalty,
        lending=lending,
        length_adjustment="off",
        decay_rate=share * n / log(believed / penalty),
        top_k=max(BALANCED.top_k, n),
    )


def _readable(
    ranking: Ranking,
    tokens: int,
    count: Callable[[str], int],
    header: Callable[[Chunk | Segment], str] | None,
) -> int:
    """Return how many of the first hits fit into a number of tokens, each with its header; at least 1."""
    for number, hit in enumerate(ranking.hits):
        tokens -= count(hit.chunk.text) + (count(header(hit.chunk)) if header is not None else 0)
        if tokens < 0:
            return max(1, number)
    return max(1, len(ranking.hits))

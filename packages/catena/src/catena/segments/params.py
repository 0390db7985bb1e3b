"""Set how segment extraction values chunks and how much text it takes: settings, presets, settings for a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, isfinite, log
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Gt, Le, Lt

from catena.model import Chunk, ParameterError, Ranking, Segment
from catena.model.options import Doc, check_options

LengthAdjustment: TypeAlias = Literal["scale", "floor", "boost_only", "off"]
Selection: TypeAlias = Literal["greedy", "optimal"]
Queries: TypeAlias = Literal["round_robin", "joint"]
Order: TypeAlias = Literal["score", "reading", "picked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionParams:
    """Settings of segment extraction; the defaults are the preset `BALANCED`.

    Attributes:
        max_chunks: in one segment, as picked; segments that touch are merged after that.
        overall_max_chunks: in all segments together, for one query; not used with `overall_max_tokens`.
        extension: chunks added to `overall_max_chunks` for each query after the first.
        max_tokens: in one segment, header counted, besides `max_chunks`; None: no limit.
        overall_max_tokens: in all segments together, headers counted, for any number of queries; it takes
            the place of the budget in chunks. None: the budget is in chunks.
        minimum_value: a segment worth less is not returned; in units of value, see `catena.segments.sequence`.
        irrelevance_penalty: taken off each chunk's P(relevant); higher means shorter, see `penalty_for_length`. At 0
            gaps cost nothing, and a segment runs from its first to its last chunk found.
        decay_rate: in ranks: a chunk at rank r (from 0) keeps exp(-r / decay_rate) of its probability.
        lending: the neighbour bonus, as a share of a hit's decayed probability: the chunks before and after it have
            at least that worth; 0 as in the article. It brings the other half of an answer of which single chunks
            hold one half, and costs tokens where one sentence is wanted.
        top_k: documents considered are those of the first `top_k` *chunks* of each ranking.
        length_adjustment: how a chunk's length weighs, see `catena.segments.sequence.length_factors`.
        reference_length: in characters; a chunk of this length has the factor 1.
        selection: "greedy", as the article and dsRAG, or "optimal", the best sum that the budget allows.
        queries: whose turn it is to pick. "round_robin": one query after the other; "joint": the best segment of
            all queries. None: what the selection is made for, round robin if greedy and joint if optimal.
        order: of the segments: "score" (best first), "reading" (documents as considered, then place), or "picked".
        merge: make one of segments that touch; their values are added.
    """

    max_chunks: Annotated[int, Ge(1)] = 15
    overall_max_chunks: Annotated[int, Ge(1)] = 30
    extension: Annotated[int, Ge(0)] = 5
    max_tokens: Annotated[int, Ge(1)] | None = None
    overall_max_tokens: Annotated[int, Ge(1)] | None = None
    minimum_value: Annotated[float, Gt(-inf), Lt(inf), Doc("Show no segment that is worth less")] = 0.5
    irrelevance_penalty: Annotated[
        float, Ge(0), Le(1), Doc("Taken off the probability of each chunk; a higher one makes shorter segments")
    ] = 0.18
    decay_rate: Annotated[
        float, Gt(0), Lt(inf), Doc("Ranks after which a hit counts one third; a lower one trusts fewer hits")
    ] = 30.0
    lending: Annotated[float, Ge(0), Lt(1)] = 0.0
    top_k: Annotated[int, Ge(1)] = 10
    length_adjustment: Annotated[LengthAdjustment, Doc("How the length of a chunk changes its worth")] = "scale"
    reference_length: Annotated[int, Ge(1)] = 700
    selection: Annotated[
        Selection, Doc("Take the best segment first, or those whose sum is best within the budget")
    ] = "greedy"
    queries: Queries | None = None
    order: Annotated[Order, Doc("Show the best segment first, or in the order of the documents")] = "score"
    merge: bool = True

    def __post_init__(self) -> None:
        check_options(self)
        if self.selection == "optimal" and self.queries == "round_robin":
            allowed = "'joint' or None where the selection is optimal: it has no turns"
            raise ParameterError("queries", self.queries, allowed)

    @property
    def joint(self) -> bool:
        """Say whether the best segment of all queries is picked, instead of one query after the other."""
        return self.selection == "optimal" or self.queries == "joint"

    def budget_in_chunks(self, queries: int) -> int:
        """Return the overall budget: `overall_max_chunks + (queries - 1) * extension`."""
        return self.overall_max_chunks + max(0, queries - 1) * self.extension


BALANCED = ExtractionParams()
PRECISION = ExtractionParams(minimum_value=0.7, irrelevance_penalty=0.2)
FIND_ALL = ExtractionParams(
    max_chunks=40, overall_max_chunks=200, extension=0, minimum_value=0.4, decay_rate=200.0, top_k=200
)
PRESETS: dict[str, ExtractionParams] = {"balanced": BALANCED, "precision": PRECISION, "find_all": FIND_ALL}

PENALTY_LENGTHS: tuple[tuple[float, int, int], ...] = (
    (0.05, 20, 50),
    (0.1, 10, 20),
    (0.2, 4, 10),
    (0.3, 2, 6),
    (0.4, 1, 3),
)
"""The article's table: an irrelevance penalty, and the fewest and the most chunks that its segments usually have."""
_ROWS = [(log(fewest * most) / 2, penalty) for penalty, fewest, most in PENALTY_LENGTHS]  # lengths fall


def preset(name: str) -> ExtractionParams:
    """Return a preset by its name.

    Raises:
        ParameterError: there is none of that name.
    """
    if name not in PRESETS:
        raise ParameterError("preset", name, f"one of {', '.join(PRESETS)}")
    return PRESETS[name]


def dsrag_compatible(params: ExtractionParams = BALANCED) -> ExtractionParams:
    """Return the settings under which extraction gives dsRAG 0.5.6's own segments, in the order they are picked.

    Chunk length only ever enlarges, each query picks in its turn, and segments that touch stay apart.
    """
    return replace(
        params, length_adjustment="boost_only", selection="greedy", queries="round_robin", order="picked", merge=False
    )


def penalty_for_length(chunks: float) -> float:
    """Return the irrelevance penalty whose segments typically have so many chunks.

    Each row of `PENALTY_LENGTHS` means the geometric mean of its two lengths (31.6, 14.1, 6.3, 3.5 and 1.7
    chunks); between rows the penalty is interpolated over the logarithm of the length, outside them it stays at
    the nearest row's. It is a starting point: the length also depends on the probabilities and on chunk lengths.

    Args:
        chunks: the length wanted, > 0.

    Returns:
        A penalty in [0.05, 0.4].

    Raises:
        ParameterError: `chunks` is not a finite number > 0.

    Source: the TextRAG article's table, which is dsRAG's.
    """
    if not _is_number(chunks) or chunks <= 0:
        raise ParameterError("chunks", chunks, "a finite number > 0")
    lengths, penalties = zip(*reversed(_ROWS), strict=True)
    import numpy as np  # here: the command line reads this module for its help

    return float(np.interp(log(chunks), lengths, penalties))


def length_for_penalty(penalty: float) -> float:
    """Return the number of chunks that a segment typically has under a penalty: the inverse of `penalty_for_length`.

    Raises:
        ParameterError: the penalty is not in [0, 1]; outside the table's 0.05 to 0.4 the nearest row counts.
    """
    if not _is_number(penalty) or not 0 <= penalty <= 1:
        raise ParameterError("penalty", penalty, "a number in [0, 1]")
    lengths, penalties = zip(*_ROWS, strict=True)
    import numpy as np

    return exp(float(np.interp(penalty, penalties, lengths)))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


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
    tokens = budget_tokens // max(1, len(rankings))
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
    ranking: Ranking, tokens: int, count: Callable[[str], int], header: Callable[[Chunk | Segment], str] | None
) -> int:
    """Return the number of first hits that fit into so many tokens, each with its header; at least 1."""
    for number, hit in enumerate(ranking.hits):
        tokens -= count(hit.chunk.text) + (count(header(hit.chunk)) if header is not None else 0)
        if tokens < 0:
            return max(1, number)
    return max(1, len(ranking.hits))

"""How chunks are valued and how much text may be taken: the settings of segment extraction, and their presets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, inf, isfinite, log
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Gt, Le, Lt

from catena.model.errors import ParameterError
from catena.model.options import check_options

LengthAdjustment: TypeAlias = Literal["scale", "floor", "boost_only", "off"]
Selection: TypeAlias = Literal["greedy", "optimal"]
Queries: TypeAlias = Literal["round_robin", "joint"]
Order: TypeAlias = Literal["score", "reading", "picked"]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


def _check(name: str, value: object, allowed: str, holds: bool) -> None:
    if not holds:
        raise ParameterError(name, value, allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionParams:
    """Settings of segment extraction; the defaults are the preset `BALANCED`.

    Attributes:
        max_chunks: in one segment, as picked; segments that touch are merged after that.
        overall_max_chunks: in all segments together, for one query; not used with `overall_max_tokens`.
        extension: chunks added to `overall_max_chunks` for each query after the first.
        max_tokens: in one segment, header counted, besides `max_chunks`; None: no limit.
        overall_max_tokens: in all segments together, headers counted, whatever the number of queries; it takes
            the place of the budget in chunks. None: the budget is in chunks.
        minimum_value: a segment worth less is not returned; in units of value, see `catena.segments.values`.
        irrelevance_penalty: taken off each chunk's P(relevant); higher means shorter, see `penalty_for_length`. At 0
            gaps cost nothing, and a segment runs from its first to its last chunk found.
        decay_rate: in ranks: a chunk at rank r (from 0) keeps exp(-r / decay_rate) of its probability.
        lending: the share of what a hit is worth (its decayed probability) that the chunks before and after it are
            worth at least; 0 as in the article. Where single chunks hold half an answer it brings the other half;
            where one sentence is wanted it costs tokens.
        top_k: documents considered are those of the first `top_k` *chunks* of each ranking.
        length_adjustment: how a chunk's length weighs, see `catena.segments.values.length_factors`.
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
    minimum_value: Annotated[float, Gt(-inf), Lt(inf)] = 0.5
    irrelevance_penalty: Annotated[float, Ge(0), Le(1)] = 0.18
    decay_rate: Annotated[float, Gt(0), Lt(inf)] = 30.0
    lending: Annotated[float, Ge(0), Lt(1)] = 0.0
    top_k: Annotated[int, Ge(1)] = 10
    length_adjustment: LengthAdjustment = "scale"
    reference_length: Annotated[int, Ge(1)] = 700
    selection: Selection = "greedy"
    queries: Queries | None = None
    order: Order = "score"
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

    Each row of `PENALTY_LENGTHS` stands for the geometric mean of its two lengths (31.6, 14.1, 6.3, 3.5 and 1.7
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
    _check("chunks", chunks, "a finite number > 0", _is_number(chunks) and chunks > 0)
    rows = [(log(fewest * most) / 2, penalty) for penalty, fewest, most in PENALTY_LENGTHS]
    wanted = min(max(log(chunks), rows[-1][0]), rows[0][0])
    for (longer, below), (shorter, above) in pairwise(rows):
        if wanted >= shorter:
            return below + (above - below) * (longer - wanted) / (longer - shorter)
    return rows[-1][1]


def length_for_penalty(penalty: float) -> float:
    """Return how many chunks a segment typically has under a penalty: the inverse of `penalty_for_length`.

    Raises:
        ParameterError: the penalty is not in [0, 1]; outside the table's 0.05 to 0.4 the nearest row counts.
    """
    _check("penalty", penalty, "a number in [0, 1]", _is_number(penalty) and 0 <= penalty <= 1)
    rows = [(of, log(fewest * most) / 2) for of, fewest, most in PENALTY_LENGTHS]
    wanted = min(max(penalty, rows[0][0]), rows[-1][0])
    for (below, longer), (above, shorter) in pairwise(rows):
        if wanted <= above:
            return exp(longer + (shorter - longer) * (wanted - below) / (above - below))
    return exp(rows[-1][1])

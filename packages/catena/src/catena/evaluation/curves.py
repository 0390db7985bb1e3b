"""The Log-Rank Index as curves: what a rank earns, and recall over log ranks, whose area is the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum

import numpy as np
from numpy.typing import NDArray

from catena.evaluation.judgements import Qrels, Ranked, Run, as_relevant, match_queries, relevant_ids, scored_ids
from catena.evaluation.log_rank_measure import (
    LogRankRules,
    MeanLogRankIndex,
    Ties,
    Unretrieved,
    check_room,
    log_rank_score,
    mean_log_rank_index,
)
from catena.evaluation.significance import LEVEL, SEED, Rounds, Share
from catena.model import EvaluationError, ParameterError, check_given

GAMMAS = (0.01, 0.1, 1.0, 10.0, 100.0)  # HiQA draws several curves and names none of them as its own

Ranks = Mapping[str, Sequence[float]]  # query id -> the rank of each of its relevant pieces, from 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallCurve:
    """Mean recall at every rank where it grows, on an axis on which the area below is the Log-Rank Index.

    Attributes:
        ranks: rising, the first 1, the last n; half ranks are the middles of ties.
        recall: from each of these ranks on, up to the next one.
        positions: of these ranks on the axis, `ln(1 + gamma (r - 1)) / ln(1 + gamma (n - 1))`, from 0 to 1; at
            gamma = 1 this is the logarithm of the rank.
        low, high: of the bootstrap band over queries at `level`; equal to `recall` for one query.
        area: below the curve: the mean Log-Rank Index, ties by mid-rank and unretrieved pieces last.
        n_queries: over which the mean is taken.
    """

    n: int
    gamma: float
    ranks: tuple[float, ...] = field(repr=False)
    recall: tuple[float, ...] = field(repr=False)
    positions: tuple[float, ...] = field(repr=False)
    low: tuple[float, ...] = field(repr=False)
    high: tuple[float, ...] = field(repr=False)
    level: float
    area: float
    n_queries: int


def score_curve(ranks: Sequence[float], *, n: int, gamma: float = 1.0) -> tuple[float, ...]:
    """Return `S(r) = 1 - ln(1 + gamma (r - 1)) / ln(1 + gamma (n - 1))` of each rank, as `log_rank_score` does."""
    return tuple(log_rank_score(rank, n=n, gamma=gamma) for rank in ranks)


def index_over_gamma(
    qrels: Qrels,
    run: Run,
    *,
    n: int,
    gammas: Sequence[float] = GAMMAS,
    ties: Ties = "mid-rank",
    unretrieved: Unretrieved = "last",
) -> tuple[MeanLogRankIndex, ...]:
    """Return the mean index of a run for each gamma, in the order given.

    Args, Raises: as `mean_log_rank_index`.
    """
    return tuple(
        mean_log_rank_index(qrels, run, n=n, gamma=gamma, ties=ties, unretrieved=unretrieved) for gamma in gammas
    )


def ranks_of(relevant: frozenset[str], ranked: Ranked, *, n: int) -> tuple[float, ...]:
    """Return the rank of each relevant piece, rising: the middle of its tie, or n where it was not returned.

    Raises:
        EvaluationError: the ranking is malformed, or n is smaller than the number of pieces named.
    """
    pairs = scored_ids(ranked)
    wanted = as_relevant(relevant)
    places: dict[float, list[int]] = {}
    for place, (_, score) in enumerate(pairs, start=1):
        places.setdefault(score, []).append(place)
    found = [(places[score][0] + places[score][-1]) / 2 for piece, score in pairs if piece in wanted]
    lost = len(wanted) - len(found)
    check_room(n, len(pairs), lost)
    return (*sorted(found), *[float(n)] * lost)


def ranks_by_query(qrels: Qrels, run: Run, *, n: int) -> dict[str, tuple[float, ...]]:
    """Return the ranks of the relevant pieces of each defined query; in a query missing from the run all stand last.

    Raises:
        EvaluationError: as `ranks_of`, or judgements and run do not match.
    """
    defined = match_queries(qrels, run).defined
    return {query: ranks_of(relevant_ids(qrels[query]), run.get(query, ()), n=n) for query in defined}


def recall_curve(
    ranks: Ranks, *, n: int, gamma: float = 1.0, level: Share = LEVEL, rounds: Rounds = 1_000, seed: int = SEED
) -> RecallCurve:
    """Return mean recall over ranks, as a step curve whose area is the mean Log-Rank Index.

    A piece at rank r is found from r on. With `u(r) = ln(1 + gamma (r - 1)) / ln(1 + gamma (n - 1))` on the axis it
    adds `1 - u(r) = S(r)` to the area, so the area below the mean is the mean index, for any gamma and any ties.

    Args:
        ranks: of the relevant pieces of each query, from 1; at least one query, each with at least one piece.
        n: number of pieces that were ranked, at least 2.
        gamma: growth, finite and above 0.
        level: of the band, in (0, 1); percentiles of the bootstrap over queries, rank by rank.
        rounds: bootstrap samples.
        seed: of the samples.

    Raises:
        ParameterError: a parameter is outside its domain.
        EvaluationError: there are no queries, a query has no piece, or a rank is outside 1 … n.
    """
    LogRankRules(n=n, gamma=gamma)
    check_given({"level": level, "rounds": rounds}, recall_curve)
    if n < 2:
        raise ParameterError("n", n, "2 or more: a single rank has no axis")
    if not ranks or not all(ranks.values()):
        raise EvaluationError("a recall curve needs queries with relevant pieces. Try: leave the others out")
    grid = sorted({1.0, float(n), *(float(rank) for places in ranks.values() for rank in places)})
    positions = tuple(1.0 - score for score in score_curve(grid, n=n, gamma=gamma))
    placed = (np.sort(np.asarray(ranks[query], dtype=np.float64)) for query in sorted(ranks))
    found = np.stack([np.searchsorted(places, grid, side="right") / len(places) for places in placed])
    mean = found.mean(axis=0)
    low, high = _band(found, level, rounds, seed)
    widths = np.diff(positions)
    return RecallCurve(
        n=n,
        gamma=gamma,
        ranks=tuple(grid),
        recall=tuple(map(float, mean)),
        positions=positions,
        low=tuple(map(float, low)),
        high=tuple(map(float, high)),
        level=level,
        area=fsum(float(part) for part in mean[:-1] * widths),
        n_queries=len(ranks),
    )


def _band(
    found: NDArray[np.float64], level: float, rounds: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    generator = np.random.default_rng(seed)
    size = len(found)
    draws = generator.integers(0, size, (rounds, size))
    weights = np.stack([np.bincount(draw, minlength=size) for draw in draws]) / size
    low, high = np.quantile(weights @ found, ((1 - level) / 2, (1 + level) / 2), axis=0)
    return low, high

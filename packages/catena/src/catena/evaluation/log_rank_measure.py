"""Compute the Log-Rank Index of HiQA: how near the top of the whole ranking relevant pieces are, on a log scale."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from math import exp, fsum, inf, log, log1p
from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from catena.evaluation.judgements import (
    Qrels,
    QuerySet,
    Ranked,
    Run,
    as_relevant,
    match_queries,
    named,
    relevant_ids,
    scored_ids,
)
from catena.model import Checked, EvaluationError

Place: TypeAlias = tuple[float, float]  # a piece stands at each rank from the first to the last with equal chance

_TINY_GAMMA = 1e-30  # below, the index is the linear 1 - (r-1)/(N-1) to the last bit, and products would underflow
_HUGE_GAMMA = 1e18  # above, ln(1 + gamma x) = ln gamma + ln x to the last bit, and products would overflow
_BLOCK = 1 << 20  # ranks summed at a time: 8 MiB
Ties: TypeAlias = Literal["mid-rank", "expected"]
Unretrieved: TypeAlias = Literal["last", "expected", "next"]
_MAX_PIECES = 100_000_000  # expected values sum over ranks; beyond, that would look like a hang


def log_rank_mean(places: Collection[Place], n: int, gamma: float) -> float:
    """Return `1 - mean ln(1 + gamma (r - 1)) / ln(1 + gamma (n - 1))` over at least one place; 1 for n = 1."""
    if n == 1:
        return 1.0
    gamma = max(gamma, _TINY_GAMMA)
    share = _mean_log(places, gamma) / _log_growth(n - 1, gamma)
    return min(1.0, max(0.0, 1.0 - share))  # the share may be one rounding above 1


def geometric_mean_rank(places: Collection[Place]) -> float:
    """Return exp(mean ln r), from 1, over at least one place."""
    return exp(_mean_log(places, 1.0))


def _mean_log(places: Collection[Place], gamma: float) -> float:
    return fsum(_place_log(first, last, gamma) for first, last in places) / len(places)


@lru_cache(maxsize=4096)  # the tail of unretrieved pieces is the same for every query of a run
def _place_log(first: float, last: float, gamma: float) -> float:
    """Return the mean of ln(1 + gamma (r - 1)) over the ranks first … last."""
    if first == last:
        return _log_growth(first - 1, gamma)
    start, stop = int(first) - 1, int(last)
    sums = [_log_sum(low, min(low + _BLOCK, stop), gamma) for low in range(start, stop, _BLOCK)]
    return fsum(sums) / (stop - start)


def _log_growth(offset: float, gamma: float) -> float:
    """Return ln(1 + gamma x); a plain logarithm would lose a small gamma x beside the 1."""
    if gamma > _HUGE_GAMMA:
        return log(gamma) + log(offset) if offset else 0.0
    return log1p(gamma * offset)


def _log_sum(low: int, high: int, gamma: float) -> float:
    """Return the sum of ln(1 + gamma x) over x = low … high - 1."""
    offsets = np.arange(low, high, dtype=np.float64)
    if gamma > _HUGE_GAMMA:
        offsets = offsets[offsets > 0]
        return float(np.log(offsets).sum()) + len(offsets) * log(gamma)
    return float(np.log1p(gamma * offsets).sum())


class Standing(NamedTuple):
    """A tie: pieces of equal score on the ranks first … last (from 1, inclusive), `relevant` of them count."""

    first: int
    last: int
    relevant: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRankRules(Checked):
    """Rules of the index, checked here; part of every result, as values mean nothing without them.

    Attributes:
        n: number of pieces that were ranked; indexes of different n must not be compared.
        gamma: growth, finite and above 0; at 1 the index is gentle at the top, from 10 on it is sharp there.
        ties: what pieces of equal score become.
        unretrieved: what a relevant piece outside the ranking becomes.
    """

    n: Annotated[int, Ge(0), Le(_MAX_PIECES)]
    gamma: Annotated[float, Gt(0), Lt(inf)] = 1.0
    ties: Ties = "mid-rank"
    unretrieved: Unretrieved = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRankScore(LogRankRules):
    """The index of one query and what is needed to read it; the values are None where the index is undefined.

    Attributes:
        value: the index, in [0, 1].
        geometric_mean_rank: the readable form, from 1; at gamma = 1, `value == 1 - ln(geometric_mean_rank) / ln(n)`.
        ideal: the best possible value, all relevant pieces on the first ranks; below 1 when there are several.
        relative: value / ideal.
        pessimistic: the value if the relevant pieces stood last within their ties. Mid-ranks of several
            relevant pieces in one tie may give less, as they are not ranks that all of them could have.
        optimistic: the value if they stood first.
        n_relevant: number of relevant pieces.
        n_tied: how many of these share their score with another piece.
        n_unretrieved: how many of these are outside the ranking.
    """

    value: float | None = None
    geometric_mean_rank: float | None = None
    ideal: float | None = None
    relative: float | None = None
    pessimistic: float | None = None
    optimistic: float | None = None
    n_relevant: int = 0
    n_tied: int = 0
    n_unretrieved: int = 0

    def __str__(self) -> str:
        return f"LRI {_reading(self)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanLogRankIndex(LogRankRules):
    """The mean index over the defined queries of a fixed set; the values are None if there is no such query.

    Attributes:
        value: the mean; a query missing from the run counts 0. `ideal` and `relative` are means too.
        geometric_mean_rank: over the queries as well, so that the identity at gamma = 1 holds for the mean; a missing
            query enters with rank n.
        n_relevant: sum over the defined queries; so are `n_tied` and `n_unretrieved`.
        queries: which queries were defined, undefined (left out), missing (counted 0), unjudged (ignored).
        per_query: the index of each defined query.
    """

    value: float | None
    geometric_mean_rank: float | None
    ideal: float | None
    relative: float | None
    n_relevant: int
    n_tied: int
    n_unretrieved: int
    queries: QuerySet
    per_query: Mapping[str, LogRankScore] = field(hash=False, repr=False)

    def __str__(self) -> str:
        return f"mean LRI {_reading(self)}; {self.queries}"


def log_rank_score(rank: float, *, n: int, gamma: float = 1.0) -> float:
    """Return what one piece earns: `S(r) = 1 - ln(1 + gamma (r - 1)) / ln(1 + gamma (n - 1))`.

    S(1) = 1 and S(n) = 0; as gamma goes to 0 it becomes the linear `1 - (r - 1) / (n - 1)`. For n = 1 it is 1 by
    definition.

    Args:
        rank: from 1; the middle of a tie may be a half rank.
        n: number of pieces that were ranked, at least 1.
        gamma: growth, finite and above 0.

    Raises:
        ParameterError: gamma or n is outside its domain.
        EvaluationError: the rank is not within 1 … n.

    Source: Chen et al., HiQA, arXiv:2402.01767, which gives no value for gamma.
    """
    rules = LogRankRules(n=n, gamma=gamma)
    if not 1 <= rank <= n:
        raise EvaluationError(f"rank {rank!r} is outside 1 … {n}. Try: n = the number of all pieces that were ranked")
    return log_rank_mean([(rank, rank)], rules.n, rules.gamma)


def log_rank_index(
    relevant: Collection[str],
    ranked: Ranked,
    *,
    n: int,
    gamma: float = 1.0,
    ties: Ties = "mid-rank",
    unretrieved: Unretrieved = "last",
) -> LogRankScore:
    """Return the mean of `S(r) = 1 - ln(1 + gamma (r - 1)) / ln(1 + gamma (n - 1))` over the relevant pieces.

    The index is the area under recall@k over a logarithmic k axis: it needs the whole ranking and has no cutoff. A
    random ranking does not score 0, but 0.144 at n = 1000 and gamma = 1.

    Args:
        relevant: ids of the relevant pieces, all equally relevant.
        ranked: ids best first, or scores by id, or a `Ranking`. Exactly equal scores are ties; ids alone have none.
        n: number of pieces that were ranked, at least as many as `ranked` holds. The same rank scores more in a
            larger n: to compare corpora or chunkings, give all of them one reference, the largest of their sizes.
        gamma: growth, finite and above 0; the default 1 is ours, the paper gives none.
        ties: "mid-rank": every piece of a tie stands at the mean of its ranks; "expected": the expected value over
            all orders of the tie, never lower than "mid-rank".
        unretrieved: where a relevant piece outside `ranked` (k pieces) stands. "last": on rank n, so it earns 0;
            "expected": on each of the ranks k+1 … n with equal chance; "next": on rank k+1, each of them: that
            inflates the index the more the less is returned, even above `ideal`; only to compare with reports that
            did so.

    Returns:
        The index with all it depends on; its value is None if n is 0 or nothing is relevant, and 1 for n = 1 by
        definition, where the formula gives 0/0.

    Raises:
        ParameterError: gamma, n, ties or unretrieved is outside its domain.
        EvaluationError: an id is ranked twice or is not a string, or n is smaller than the number of pieces named.

    Source: Chen et al., HiQA, arXiv:2402.01767 (the formula; ties and unretrieved pieces are left open there).
    """
    rules = LogRankRules(n=n, gamma=gamma, ties=ties, unretrieved=unretrieved)
    wanted = as_relevant(relevant)
    pairs = scored_ids(ranked)
    standings = _standings(pairs, wanted)
    returned, lost = len(pairs), len(wanted) - sum(standing.relevant for standing in standings)
    if n > 0 or returned:
        check_room(n, returned, lost)
    outside = [_tail(returned, rules)] * lost
    pessimistic, placed, optimistic = (
        [*_places(standings, rule), *outside] for rule in ("pessimistic", ties, "optimistic")
    )
    if n == 0 or not wanted:
        return _index(rules, n_relevant=len(wanted), n_unretrieved=lost)
    return _index(
        rules,
        value=log_rank_mean(placed, n, gamma),
        mean_rank=geometric_mean_rank(placed),
        bounds=(log_rank_mean(pessimistic, n, gamma), log_rank_mean(optimistic, n, gamma)),
        n_relevant=len(wanted),
        n_tied=sum(count for first, last, count in standings if first < last),
        n_unretrieved=lost,
    )


def check_room(n: int, returned: int, lost: int) -> None:
    """Raise `EvaluationError` where n pieces cannot be those that were ranked and the relevant ones outside."""
    if returned + lost > n:
        raise EvaluationError(
            f"n = {n} is too small: {returned} pieces are ranked and {lost} relevant ones are outside the ranking. "
            "Try: n = the number of all pieces that were ranked"
        )


def mean_log_rank_index(
    qrels: Qrels, run: Run, *, n: int, gamma: float = 1.0, ties: Ties = "mid-rank", unretrieved: Unretrieved = "last"
) -> MeanLogRankIndex:
    """Return the mean of `log_rank_index` over the judged queries that have a relevant piece.

    Args:
        qrels: grades by query and piece; grade 1 and above is relevant, all such pieces equally.
        run: what was returned for each query. A query that is not in it counts 0 under every policy.
        n: as in `log_rank_index`, the same for every query.
        gamma: as in `log_rank_index`.
        ties: as in `log_rank_index`.
        unretrieved: as in `log_rank_index`, for queries that are in the run.

    Raises:
        ParameterError: a parameter is outside its domain.
        EvaluationError: as in `log_rank_index`, with the query named, or judgements and run do not match.
    """
    rules = LogRankRules(n=n, gamma=gamma, ties=ties, unretrieved=unretrieved)
    queries = match_queries(qrels, run)
    per_query = {query: _of_query(query, relevant_ids(qrels[query]), run, rules) for query in queries.defined}
    found = tuple(per_query.values())
    ranks = [index.geometric_mean_rank for index in found if index.geometric_mean_rank is not None]
    return MeanLogRankIndex(
        **asdict(rules),
        value=_mean(index.value for index in found),
        geometric_mean_rank=exp(fsum(map(log, ranks)) / len(ranks)) if ranks else None,
        ideal=_mean(index.ideal for index in found),
        relative=_mean(index.relative for index in found),
        n_relevant=sum(index.n_relevant for index in found),
        n_tied=sum(index.n_tied for index in found),
        n_unretrieved=sum(index.n_unretrieved for index in found),
        queries=queries,
        per_query=per_query,
    )


def _of_query(query: str, relevant: frozenset[str], run: Run, rules: LogRankRules) -> LogRankScore:
    n, missing = rules.n, query not in run
    with named(f"query {query!r}"):
        how = replace(rules, unretrieved="last") if missing else rules
        index = log_rank_index(relevant, () if missing else run[query], **asdict(how))
    if not missing or not n:
        return index
    # 0 also for n = 1, where even the last rank would earn 1: nothing was asked, nothing is earned
    return _index(rules, value=0.0, mean_rank=float(n), n_relevant=len(relevant), n_unretrieved=len(relevant))


def _tail(returned: int, rules: LogRankRules) -> Place:
    """Return where a relevant piece outside the ranking stands."""
    match rules.unretrieved:
        case "last":
            return rules.n, rules.n
        case "expected":
            return returned + 1, rules.n
        case "next":
            return returned + 1, returned + 1


def _standings(pairs: Sequence[tuple[str, float]], relevant: frozenset[str]) -> list[Standing]:
    """Return the ties that hold relevant pieces, best first; a piece without an equal is a tie of one."""
    counts = Counter(score for piece, score in pairs if piece in relevant)
    return [
        Standing(bisect_left(pairs, -score, key=_falling) + 1, bisect_right(pairs, -score, key=_falling), count)
        for score, count in counts.items()
    ]


def _falling(pair: tuple[str, float]) -> float:
    return -pair[1]


def _places(standings: Iterable[Standing], rule: str) -> list[Place]:
    """Return where each relevant piece of the ranking stands, under one rule for ties."""
    places: list[Place] = []
    for first, last, count in standings:
        middle = (first + last) / 2
        place: Mapping[str, Place] = {
            "mid-rank": (middle, middle),
            "expected": (first, last),
            "optimistic": (first, first + count - 1),
            "pessimistic": (last - count + 1, last),
        }
        places += [place[rule]] * count
    return places


def _index(
    rules: LogRankRules,
    *,
    value: float | None = None,
    mean_rank: float | None = None,
    bounds: tuple[float, float] | None = None,
    n_relevant: int,
    n_tied: int = 0,
    n_unretrieved: int,
) -> LogRankScore:
    ideal = None if value is None else log_rank_mean([(1, n_relevant)], rules.n, rules.gamma)
    pessimistic, optimistic = bounds or (value, value)
    return LogRankScore(
        **asdict(rules),
        value=value,
        geometric_mean_rank=mean_rank,
        ideal=ideal,
        relative=None if value is None or ideal is None else value / ideal,
        pessimistic=pessimistic,
        optimistic=optimistic,
        n_relevant=n_relevant,
        n_tied=n_tied,
        n_unretrieved=n_unretrieved,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None


def _reading(index: LogRankScore | MeanLogRankIndex) -> str:
    """Return the value for people, with gamma, N and the policies beside it."""
    rules = (
        f"gamma {index.gamma:g}, N {index.n}, ties {index.ties} ({index.n_tied}), "
        f"unretrieved {index.unretrieved} ({index.n_unretrieved} of {index.n_relevant})"
    )
    if index.value is None:
        return f"undefined; {rules}"
    return (
        f"{index.value:.3f}; geometric mean rank {index.geometric_mean_rank:.2f}, "
        f"{index.relative:.3f} of the ideal {index.ideal:.3f}; {rules}"
    )

"""Two systems over many judged questions: win, tie and loss rates with intervals, and what they say of the judge."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, fsum, sqrt
from statistics import NormalDist, variance

import numpy as np

from catena.evaluation.answers import MeanScore, mean_score
from catena.evaluation.judgements import check_ids
from catena.evaluation.pairwise import Outcome, Verdict, order_means
from catena.evaluation.significance import randomisation_p
from catena.model.errors import EvaluationError, ParameterError

_POINTS = {"win": 1, "tie": 0, "lose": -1}
_CELLS = 1 << 22  # numbers drawn at a time: 32 MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A count of questions as a share, with its confidence interval at `level`; None where one document is all."""

    count: int
    n: int
    value: float
    interval: tuple[float, float] | None
    level: float

    def __str__(self) -> str:
        around = "" if self.interval is None else f" [{self.interval[0]:.1%}, {self.interval[1]:.1%}]"
        return f"{self.value:.1%}{around}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Wins, ties and losses of system a by one of the two rules, over the questions that are decided.

    Attributes:
        margin: win rate minus loss rate, in [-1, 1].
        p: two-sided, of a margin at least as far from 0 were the systems alike: the exact sign test; where documents
            are known, the randomisation test that swaps the systems document by document.
    """

    win: Rate
    tie: Rate
    lose: Rate
    margin: MeanScore
    p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseResult:
    """System a against system b over all questions.

    Attributes:
        n: questions that are decided: what the rates are shares of.
        undecided: ids of those that are not, in order; they count in no rate.
        same: decided questions whose answers say the same.
        clusters: documents, where every question names its own; the intervals draw them, not questions. Else 0.
        position_bias: mean score of the answer shown first minus that of the one shown second, over the questions
            that were judged in both orders: 0 for a judge who does not mind the place. None where none was.
        judge_variance: mean variance of a score over repeats (sample variance, in squared points of the scale): what
            the judge's mood adds. None where nothing was repeated.
    """

    by_score: Tally
    by_round: Tally
    n: int
    undecided: tuple[str, ...]
    same: int
    clusters: int
    position_bias: MeanScore | None
    judge_variance: float | None


def pairwise_result(
    verdicts: Sequence[Verdict], *, level: float = 0.95, rounds: int = 10_000, seed: int = 0
) -> PairwiseResult:
    """Add up verdicts: win, tie and loss rates with intervals, and what they say of the judge.

    Intervals are Wilson's for the rates; where every verdict names its document, several questions about one are not
    independent, and the intervals are percentiles of a bootstrap that draws documents (of a rate of 0 or 1, Wilson's
    over documents). The margin is bootstrapped in both cases.

    Args:
        verdicts: one per question.
        level: of the intervals, in (0, 1).
        rounds: bootstrap samples and random sign patterns, at least 1.
        seed: of both.

    Raises:
        EvaluationError: no question is decided, or one is there twice.
        ParameterError: level or rounds is outside its domain.
    """
    if not 0 < level < 1:
        raise ParameterError("level", level, "a share in (0, 1)")
    if rounds < 1:
        raise ParameterError("rounds", rounds, "1 or more")
    check_ids([verdict.question for verdict in verdicts], "judged questions")
    ordered = sorted(verdicts, key=lambda verdict: verdict.question)
    if twice := [name for name, times in Counter(verdict.question for verdict in ordered).items() if times > 1]:
        raise EvaluationError(
            f"question {twice[0]!r} has several verdicts. Try: repeats of the judge, in one verdict"
        )
    decided = [verdict for verdict in ordered if _is_decided(verdict)]
    if not decided:
        raise EvaluationError(f"none of {len(ordered)} questions is decided; each verdict's rounds say why")
    documents = [verdict.document for verdict in decided]
    groups = documents if all(documents) else None
    return PairwiseResult(
        by_score=_tally([verdict.by_score for verdict in decided], groups, level, rounds, seed),
        by_round=_tally([verdict.by_round for verdict in decided], groups, level, rounds, seed),
        n=len(decided),
        undecided=tuple(verdict.question for verdict in ordered if not _is_decided(verdict)),
        same=sum(verdict.same for verdict in decided),
        clusters=len(set(groups)) if groups else 0,
        position_bias=_position_bias(decided, level, rounds, seed),
        judge_variance=_judge_variance(decided),
    )


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p of the exact sign test; ties count for neither side.

    `min(1, 2 sum_(i >= max(wins, losses)) C(n, i) / 2^n)` with n = wins + losses; 1 where n is 0.

    Raises:
        ParameterError: a count is negative.
    """
    if min(wins, losses) < 0:
        raise ParameterError("wins and losses", (wins, losses), "counts >= 0")
    n, most = wins + losses, max(wins, losses)
    ways, tail = comb(n, most), 0
    for i in range(most, n + 1):
        tail += ways
        ways = ways * (n - i) // (i + 1)
    return min(1.0, 2 * tail / (1 << n))  # of whole numbers: exact whatever their size


def wilson_interval(count: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a share: `(p + z²/2n ± z sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n)`.

    Raises:
        ParameterError: not 0 <= count <= n with n >= 1, or the level is not in (0, 1).

    Source: Wilson, Journal of the American Statistical Association 22 (1927), 209-212.
    """
    if not 0 < level < 1:
        raise ParameterError("level", level, "a share in (0, 1)")
    if n < 1 or not 0 <= count <= n:
        raise ParameterError("count", count, f"between 0 and n >= 1, with n = {n}")
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    share = count / n
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    low = 0.0 if count == 0 else middle - half
    return low, 1.0 if count == n else middle + half


def _is_decided(verdict: Verdict) -> bool:
    return "undecided" not in (verdict.by_score, verdict.by_round)


def _tally(
    outcomes: Sequence[Outcome], documents: Sequence[str] | None, level: float, rounds: int, seed: int
) -> Tally:
    n = len(outcomes)
    counts = Counter(outcomes)
    members: defaultdict[str, Counter[Outcome]] = defaultdict(Counter)
    for document, outcome in zip(documents or (), outcomes, strict=documents is not None):
        members[document][outcome] += 1
    groups = [members[document] for document in sorted(members)]
    leads = [float(group["win"] - group["lose"]) for group in groups]
    sizes = [float(group.total()) for group in groups]

    def rate(name: Outcome) -> Rate:
        if documents is None:
            interval: tuple[float, float] | None = wilson_interval(counts[name], n, level=level)
        elif counts[name] in (0, n) and len(groups) > 1:  # every sample is the same: no draw shows what may be
            interval = wilson_interval(len(groups) if counts[name] else 0, len(groups), level=level)
        else:
            interval = _drawn([float(group[name]) for group in groups], sizes, level, rounds, seed)
        return Rate(count=counts[name], n=n, value=counts[name] / n, interval=interval, level=level)

    if documents is None:
        points = [float(_POINTS[outcome]) for outcome in outcomes]
        margin = mean_score(points, level=level, rounds=rounds, seed=seed)
        p = sign_test(counts["win"], counts["lose"])
    else:
        interval = _drawn(leads, sizes, level, rounds, seed)
        margin = MeanScore(value=fsum(leads) / n, interval=interval, level=level, n=n)
        p = randomisation_p(leads, rounds=rounds, seed=seed)
    return Tally(win=rate("win"), tie=rate("tie"), lose=rate("lose"), margin=margin, p=p)


def _drawn(
    sums: Sequence[float], sizes: Sequence[float], level: float, rounds: int, seed: int
) -> tuple[float, float] | None:
    """Return the percentile interval of `sum / size` over groups drawn with replacement; None for a single group."""
    if len(sums) < 2:
        return None
    draw = np.random.default_rng(seed)
    total, size = np.asarray(sums), np.asarray(sizes)
    step = max(1, _CELLS // len(sums))
    shares = []
    for start in range(0, rounds, step):
        places = draw.integers(0, len(sums), (min(step, rounds - start), len(sums)))
        shares.append(total[places].sum(axis=1) / size[places].sum(axis=1))
    low, high = np.quantile(np.concatenate(shares), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _position_bias(verdicts: Sequence[Verdict], level: float, rounds: int, seed: int) -> MeanScore | None:
    leads: list[float] = []
    for verdict in verdicts:
        a_first, b_first = order_means(verdict.rounds)
        if a_first is not None and b_first is not None:
            leads.append(fsum((a_first[0], -a_first[1], b_first[1], -b_first[0])) / 2)
    return mean_score(leads, level=level, rounds=rounds, seed=seed) if leads else None


def _judge_variance(verdicts: Sequence[Verdict]) -> float | None:
    variances: list[float] = []
    for verdict in verdicts:
        for side in ("a", "b"):
            scores = [each.scores for each in verdict.rounds if each.first == side and each.scores is not None]
            if len(scores) > 1:
                variances += [variance(of_answer) for of_answer in zip(*scores, strict=True)]
    return fsum(variances) / len(variances) if variances else None

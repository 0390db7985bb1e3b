"""Test whether one system beats another: paired randomisation, bootstrap interval, effect size, Holm's correction.

Choice made: a sign-flip randomisation test on the mean difference (Smucker, Allan and Carterette, CIKM 2007), with
the effect size beside every p, because with many queries nearly every difference is significant. Queries are taken as
independent; several questions about one document are not, and make the interval too narrow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, fsum, inf, isfinite, pi, sin, sqrt, tan
from statistics import NormalDist
from typing import Annotated, Any, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Lt
from numpy.typing import NDArray

from catena.evaluation.judgements import check_ids
from catena.model import EvaluationError, check_given

Floats: TypeAlias = NDArray[np.float64]
Share: TypeAlias = Annotated[float, Gt(0), Lt(1)]
Rounds: TypeAlias = Annotated[int, Ge(1)]

LEVEL, ROUNDS, SEED = 0.95, 10_000, 0  # of intervals and tests, where none is given
_EXACT_UP_TO = 20  # differences: 2^20 sign patterns
_CELLS = 1 << 22  # numbers drawn at a time: 32 MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedComparison:
    """System a against system b over the same queries.

    Attributes:
        difference: mean of a - b, in the unit of the metric.
        p: two-sided p of the randomisation test; `exact` if all sign patterns were counted.
        interval: bootstrap confidence interval of the difference, at `level`.
        effect: Cohen's d_z, difference / standard deviation of the differences; None if they do not vary.
        wins, draws, losses: queries on which a is above, equal to, below b.
    """

    difference: float
    p: float
    exact: bool
    interval: tuple[float, float]
    level: float
    effect: float | None
    n: int
    wins: int
    draws: int
    losses: int

    def __str__(self) -> str:
        return (
            f"{self.difference:+.3f} [{self.interval[0]:+.3f}, {self.interval[1]:+.3f}], p {self.p:.4f}, "
            f"{self.wins} wins, {self.draws} draws, {self.losses} losses (n = {self.n})"
        )


def compare(
    a: Mapping[str, float], b: Mapping[str, float], *, level: float = LEVEL, rounds: int = ROUNDS, seed: int = SEED
) -> PairedComparison:
    """Compare two systems by their values per query, e.g. `MeasureResult.per_query`.

    Args:
        a: value by query id.
        b: value by query id, for exactly the same queries: dropping any would flatter the system that failed on it.
        level: of the confidence interval, in (0, 1).
        rounds: random sign patterns, and bootstrap samples.
        seed: equal seeds give equal results.

    Raises:
        EvaluationError: the queries differ, there are none, or a value is not finite.
        ParameterError: level or rounds is outside its domain.
    """
    check_ids(a, "queries of a")
    check_ids(b, "queries of b")
    if set(a) != set(b):
        lone = min(set(a) ^ set(b))
        what = f"the systems have values for different queries, e.g. {lone!r}. Try: 0 where one failed"
        raise EvaluationError(what)
    differences = [a[query] - b[query] for query in sorted(a)]
    values = _checked(differences)
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return PairedComparison(
        difference=fsum(differences) / len(differences),
        p=randomisation_p(differences, rounds=rounds, seed=seed),
        exact=len(differences) <= _EXACT_UP_TO,
        interval=bootstrap_interval(differences, level=level, rounds=rounds, seed=seed),
        level=level,
        effect=float(values.mean()) / deviation if deviation > 1e-12 * float(np.abs(values).max()) else None,
        n=len(differences),
        wins=int((values > 0).sum()),
        draws=int((values == 0).sum()),
        losses=int((values < 0).sum()),
    )


def randomisation_p(differences: Sequence[float], *, rounds: Rounds = ROUNDS, seed: int = SEED) -> float:
    """Return the two-sided p of the mean difference under random signs.

    Up to 20 differences all 2^n sign patterns are counted: `p = c / 2^n`, c patterns at least as far from 0 as the
    observed one. Beyond, `p = (c + 1) / (rounds + 1)` over random patterns, so that p is never 0.

    Args:
        differences: one per query.
        rounds: random sign patterns; not used by the exact test.
        seed: of the random patterns.

    Raises:
        EvaluationError: there are no differences, or one is not finite.
        ParameterError: rounds is below 1.

    Source: Fisher's randomisation test; Davison and Hinkley 1997, section 4.2, for the 1 that is added.
    """
    check_given({"rounds": rounds}, randomisation_p)
    values = _checked(differences)
    slack = 1e-12 * float(np.abs(values).sum())  # sums in another order differ by roundings
    observed = abs(fsum(differences)) - slack
    if len(values) <= _EXACT_UP_TO:
        sums = np.zeros(1)
        for value in values:
            sums = np.concatenate([sums + value, sums - value])
        return float((np.abs(sums) >= observed).mean())
    generator = np.random.default_rng(seed)
    count = 0
    for size in _batches(rounds, len(values)):
        signs = generator.integers(0, 2, (size, len(values)), dtype=np.int8) * 2.0 - 1.0
        count += int((np.abs(signs @ values) >= observed).sum())
    return (count + 1) / (rounds + 1)


def bootstrap_interval(
    differences: Sequence[float], *, level: Share = LEVEL, rounds: Rounds = ROUNDS, seed: int = SEED
) -> tuple[float, float]:
    """Return the bias-corrected and accelerated (BCa) interval of the mean difference.

    Where BCa is not defined, because the mean lies outside all samples, the percentile interval is returned; values
    that do not vary give an interval of no width.

    Args:
        differences: one per query.
        level: in (0, 1).
        rounds: samples drawn with replacement.
        seed: of the samples.

    Raises:
        EvaluationError: there are no differences, or one is not finite.
        ParameterError: level is not in (0, 1), or rounds is below 1.

    Source: Efron, Journal of the American Statistical Association 82 (1987), 171-185.
    """
    check_given({"level": level, "rounds": rounds}, bootstrap_interval)
    values = _checked(differences)
    generator = np.random.default_rng(seed)
    n = len(values)
    batches = [values[generator.integers(0, n, (size, n))].mean(axis=1) for size in _batches(rounds, n)]
    means: Floats = np.concatenate(batches)
    low, high = np.quantile(means, _bca_tails(values, means, ((1 - level) / 2, (1 + level) / 2)))
    return float(low), float(high)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return Holm's adjusted p by name: `max over j <= i of min(1, (m - j + 1) p_(j))`, p_(1) the smallest of m.

    Raises:
        EvaluationError: a p is not in [0, 1].

    Source: Holm, Scandinavian Journal of Statistics 6 (1979), 65-70.
    """
    adjusted: dict[str, float] = {}
    highest = 0.0
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda pair: (pair[1], pair[0]))):
        if not 0 <= p <= 1:
            raise EvaluationError(f"p of {name!r} must be in [0, 1], got {p!r}")
        highest = max(highest, min(1.0, (len(p_values) - place) * p))
        adjusted[name] = highest
    return {name: adjusted[name] for name in p_values}


def detectable_difference(
    n: Annotated[int, Ge(2)],
    *,
    deviation: Annotated[float, Ge(0), Lt(inf)] = 0.25,
    power: Share = 0.8,
    level: Share = LEVEL,
) -> float:
    """Return the smallest mean difference that a paired test over n queries finds with the given power.

    `(t_(n-1; (1 + level) / 2) + t_(n-1; power)) deviation / sqrt(n)`: a smaller difference that was seen may be
    chance, and one that was not seen may still be there.

    Args:
        n: queries, at least 2.
        deviation: standard deviation of the differences per query, at least 0. Two systems whose values vary alike
            and correlate 0.5 have differences that vary as the values of each do.
        power: chance to find it, in (0, 1).
        level: of the two-sided test, in (0, 1).

    Raises:
        ParameterError: a parameter is outside its domain.
    """
    check_given({"n": n, "deviation": deviation, "power": power, "level": level}, detectable_difference)
    return (_t_quantile((1 + level) / 2, n - 1) + _t_quantile(power, n - 1)) * deviation / sqrt(n)


def _t_quantile(share: float, freedom: int) -> float:
    """Return a quantile of Student's t, sought by the angle whose tangent is `t / sqrt(freedom)`.

    Source: Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    steps, whole = np.arange(2 + freedom % 2, freedom, 2), 1 << 50
    factors = (steps - 1) / steps

    def below(at: int) -> float:
        angle = (at / whole - 0.5) * pi
        series = sin(angle) * (1 + float(np.cumprod(factors * cos(angle) ** 2).sum()))
        if freedom % 2:
            series = (angle + (series * cos(angle) if freedom > 1 else 0)) * 2 / pi
        return (1 + series) / 2

    return tan((bisect_left(range(whole), share, key=below) / whole - 0.5) * pi) * sqrt(freedom)


def _bca_tails(values: Floats, means: Floats, tails: tuple[float, float]) -> tuple[float, float]:
    """Return the tails moved by the bias z0 of the samples and by the acceleration a of the jackknife."""
    normal = NormalDist()
    below = float(((means < values.mean()) + 0.5 * (means == values.mean())).mean())
    spread = values - values.mean()  # the jackknife means are -spread / (n - 1) about their mean
    square = float((spread**2).sum())
    if not 0 < below < 1 or square == 0:
        return tails
    bias = normal.inv_cdf(below)
    acceleration = float((spread**3).sum()) / (6 * square * sqrt(square))
    moved = []
    for tail in tails:
        z = bias + normal.inv_cdf(tail)
        moved.append(normal.cdf(bias + z / (1 - acceleration * z)) if acceleration * z < 1 else tail)
    return moved[0], moved[1]


def _batches(rounds: int, width: int) -> list[int]:
    size = max(1, _CELLS // width)
    return [min(size, rounds - start) for start in range(0, rounds, size)]


def _checked(differences: Sequence[Any]) -> Floats:
    if not differences or not all(isinstance(value, int | float) and isfinite(value) for value in differences):
        raise EvaluationError("a comparison needs at least one query, and a finite number for each")
    return np.asarray(differences, dtype=np.float64)

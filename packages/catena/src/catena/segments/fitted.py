"""Find a calibration's numbers: from scores alone, or, which is what makes probabilities true, from labelled ones."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from math import lgamma

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catena.model.errors import ParameterError
from catena.segments.calibration import (
    EDGE,
    LARGEST,
    BetaCalibration,
    BetaCDF,
    Calibration,
    Composed,
    Identity,
    Logistic,
    Probabilities,
)
from catena.segments.reliability_bins import Quality, checked, quality
from catena.segments.special import digamma, trigamma

LEAST = 20  # scores that a fit needs
LEAST_OF_EACH = 5  # relevant ones, and others, that a labelled fit needs
RIDGE = 1e-3  # weight of (a^2 + b^2) / 2 beside the summed log loss: bounds the slopes where the classes are apart
FOLDS = 5  # of the cross-validation that judges a labelled fit

_LOWEST = float(np.nextafter(0.0, 1.0))
_STEPS = 200  # of Newton's method; a dozen are usual
_HALVINGS = 60
_SETTLED = 1e-12  # relative change of the parameters

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlabelledFit:
    """A calibration fitted to scores alone.

    Attributes:
        calibration: makes these scores about uniform: it says which share of the scores seen is lower, which is not
            yet a true P(relevant).
        n: number of scores.
        distance: Kolmogorov-Smirnov distance of the calibrated scores from uniform, in [0, 1]; 0 is perfect.
    """

    calibration: Calibration
    n: int
    distance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledFit:
    """A calibration fitted to labelled scores.

    Attributes:
        calibration: fitted to all of them.
        n, positives: number of scores, and of relevant ones.
        before: quality of the scores as they are, brought into [0, 1].
        after: quality of the calibrated scores: of each fold, calibrated by a fit without it, where `folds` > 0.
        folds: of the cross-validation; 0 means that data were too few for it, and `after` flatters.
    """

    calibration: Calibration
    n: int
    positives: int
    before: Quality
    after: Quality
    folds: int


def fit_beta(scores: ArrayLike, *, first: Calibration | None = None) -> UnlabelledFit:
    """Fit `BetaCDF(a, b)` to unlabelled scores by maximum likelihood.

    Newton's method on the log likelihood, `(a-1) mean(ln x) + (b-1) mean(ln(1-x)) - ln B(a, b)`, which is concave;
    it starts at the moments' estimate and halves a step that does not improve. A score of exactly 0 or 1, where the
    likelihood is infinite, is read as half as far from there as the nearest other score: rounding made it so.

    Args:
        scores: at least 20, in [0, 1] (after `first`), not all equal; of typical queries, relevant and not.
        first: brings raw scores into [0, 1], as `Logistic()` does with logits; it becomes part of the result.

    Raises:
        ParameterError: scores are too few, outside [0, 1], or so nearly equal that no curve fits.
    """
    x = _in_unit_interval(scores, first)
    n = len(x)
    _enough(n)
    rule = BetaCDF(*_beta_parameters(*_logarithms(x)))
    uniform = np.sort(rule(x))
    ranks = np.arange(n)
    distance = float(max((uniform - ranks / n).max(), ((ranks + 1) / n - uniform).max()))
    return UnlabelledFit(calibration=_after(first, rule), n=n, distance=distance)


def fit_labelled(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    first: Calibration | None = None,
    groups: Sequence[Hashable] | None = None,
) -> LabelledFit:
    """Fit beta calibration, `logit p = a ln x - b ln(1 - x) + c` with a, b >= 0, by logistic regression.

    The summed log loss plus `RIDGE * (a^2 + b^2) / 2` is minimised by Newton's method; of the fits with each slope
    free or 0, the best one without a negative slope is taken, which is the optimum under a, b >= 0. Scores that say
    nothing get a = b = 0: everywhere the share of relevant ones.

    The fit is judged by 5-fold cross-validation where each training part has enough data, else on its own data.

    Args:
        scores: at least 20; what lies outside [0, 1] (after `first`) is refused.
        labels: True or 1 where the text was relevant; at least 5 of each.
        first: brings raw scores into [0, 1]; it becomes part of the result.
        groups: of each score, e.g. its question: scores of one group stay in one fold. None: each for itself.

    Raises:
        ParameterError: data are too few, of one class only, or outside their domain.

    Source: Kull, Silva Filho and Flach, AISTATS 2017.
    """
    judged, folds = held_out(scores, labels, first=first, groups=groups)
    x, relevant = checked(_in_unit_interval(scores, first), labels)
    return LabelledFit(
        calibration=_after(first, _beta_calibration(x, relevant)),
        n=len(x),
        positives=int(relevant.sum()),
        before=quality(x, relevant),
        after=quality(judged, relevant),
        folds=folds,
    )


def held_out(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    first: Calibration | None = None,
    groups: Sequence[Hashable] | None = None,
) -> tuple[Probabilities, int]:
    """Return the probabilities by which `fit_labelled` judges its fit, for pictures and tests, and the folds.

    Args:
        scores: as there.
        labels: as there.
        first: as there.
        groups: as there.

    Returns:
        One probability per score, by a fit without its fold; with 0 folds, where data are too few, by one fit to all.

    Raises:
        ParameterError: as there.
    """
    x, relevant = checked(_in_unit_interval(scores, first), labels)
    _enough(len(x), int(relevant.sum()))
    fold = _folds(relevant, groups)
    if fold is None:
        return _beta_calibration(x, relevant)(x), 0
    judged = np.empty_like(x)
    for number in range(FOLDS):
        held = fold == number
        judged[held] = _beta_calibration(x[~held], relevant[~held])(x[held])
    return judged, FOLDS


def standardizing(scores: ArrayLike) -> Logistic:
    """Return the sigmoid of the standardised score, for `first`: for scores without fixed ends, as fused ones.

    `1 / (1 + e^-((x - mean) / deviation))`; what comes later may lie outside the range of these scores.

    Raises:
        ParameterError: they are not at least two different finite numbers.
    """
    try:
        x = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError("scores", str(error), "numbers") from None
    deviation = float(x.std()) if x.size and np.isfinite(x).all() else 0.0
    if not deviation > 0.0:
        raise ParameterError("scores", f"{x.size} of them", "at least two different finite numbers")
    return Logistic(slope=1.0 / deviation, shift=-float(x.mean()) / deviation)


def _in_unit_interval(scores: ArrayLike, first: Calibration | None) -> Floats:
    try:
        x = np.asarray(scores if first is None else first(scores), dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError("scores", str(error), "numbers") from None
    if x.ndim != 1:
        raise ParameterError("scores", f"an array of shape {x.shape}", "a flat sequence of numbers")
    if not np.all((x >= 0.0) & (x <= 1.0)):
        hint = "in [0, 1]; for logits give first=Logistic(), for cosines first=Linear(-1.0, 1.0)"
        raise ParameterError("scores", f"{x.min():g} to {x.max():g}", hint)
    return x


def _enough(n: int, positives: int | None = None) -> None:
    if n < LEAST:
        raise ParameterError("scores", f"{n} of them", f"at least {LEAST} for a fit; until then take a preset")
    if positives is not None and min(positives, n - positives) < LEAST_OF_EACH:
        found = f"{positives} relevant of {n}"
        raise ParameterError("labels", found, f"at least {LEAST_OF_EACH} relevant and {LEAST_OF_EACH} others")


def _after(first: Calibration | None, rule: Calibration) -> Calibration:
    return rule if first is None or isinstance(first, Identity) else Composed(first, rule)


def _logarithms(x: Floats) -> tuple[Floats, Floats]:
    """Return ln x and ln(1 - x), an end of [0, 1] read as half as far from itself as the nearest score inside."""
    inner = x[(x > 0.0) & (x < 1.0)]
    if not len(inner):
        raise ParameterError("scores", "all 0 or 1", "numbers between 0 and 1: such scores are labels already")
    low, high = inner.min() / 2.0, (1.0 - inner.max()) / 2.0  # 1 - high may round to 1, its logarithms do not
    low = max(low, _LOWEST)  # half of the smallest number there is would be 0
    ends, inside = [x <= 0.0, x >= 1.0], np.where((x > 0.0) & (x < 1.0), x, 0.5)
    log_x = np.select(ends, [np.log(low), np.log1p(-high)], np.log(inside))
    log_rest = np.select(ends, [np.log1p(-low), np.log(high)], np.log1p(-inside))
    return log_x, log_rest


def _beta_parameters(log_x: Floats, log_rest: Floats) -> tuple[float, float]:
    """Return the maximum likelihood estimate of a Beta distribution's (a, b) from ln x and ln(1 - x)."""
    logs = np.asarray([log_x.mean(), log_rest.mean()])
    x = np.exp(log_x)
    mean, variance = float(x.mean()), float(x.var())
    nearly_equal = ParameterError("scores", f"all about {mean:g}", "spread out: equal scores have no distribution")
    if variance <= mean * (1.0 - mean) / LARGEST:
        raise nearly_equal
    common = mean * (1.0 - mean) / variance - 1.0
    place = np.maximum(np.asarray([mean, 1.0 - mean]) * common, 1e-3)

    def likelihood(ab: Floats) -> float:
        a, b = map(float, ab)
        return float((a - 1.0) * logs[0] + (b - 1.0) * logs[1] + lgamma(a + b) - lgamma(a) - lgamma(b))

    best = likelihood(place)
    for _ in range(_STEPS):
        a, b = map(float, place)
        both = trigamma(a + b)
        slope = logs + digamma(a + b) - np.asarray([digamma(a), digamma(b)])
        bend = np.asarray([[trigamma(a) - both, -both], [-both, trigamma(b) - both]])  # of -likelihood, positive
        step = np.linalg.solve(bend, slope)
        for _ in range(_HALVINGS):
            if np.all(place + step > 0.0) and likelihood(place + step) >= best:
                break
            step = step / 2.0
        else:
            break
        place = place + step
        best = likelihood(place)
        if np.all(np.abs(step) <= _SETTLED * place):
            break
    if place.max() > LARGEST:
        raise nearly_equal
    return float(place[0]), float(place[1])


def _beta_calibration(x: Floats, relevant: NDArray[np.bool_]) -> BetaCalibration:
    """Return the best fit without a negative slope."""
    inner = np.clip(x, EDGE, 1.0 - EDGE)
    features = np.stack([np.log(inner), -np.log1p(-inner), np.ones_like(inner)])
    feasible: list[tuple[float, tuple[float, float, float]]] = []
    for free in product((True, False), repeat=2):
        loss, weights = _logistic_regression(features, relevant, (*free, True))
        if min(weights[:2]) >= 0.0:  # without slopes: always
            feasible.append((loss, weights))
            if all(free):
                break  # the loss is convex: no bound is in the way of its minimum
    a, b, c = min(feasible)[1]
    return BetaCalibration(a, b, c)


def _logistic_regression(
    features: Floats, relevant: NDArray[np.bool_], free: tuple[bool, ...]
) -> tuple[float, tuple[float, float, float]]:
    """Return the penalised loss and the weights of the (3, n) features; those that are not free are 0."""
    used = np.flatnonzero(free)
    rows = features[used]
    ridge = np.where(used < 2, RIDGE, 0.0)  # the constant is not held back
    weights = np.zeros(len(used))
    share = float(relevant.mean())
    weights[-1] = np.log(share / (1.0 - share))

    def loss_of(tried: Floats) -> float:
        logits = tried @ rows
        return float(np.logaddexp(0.0, np.where(relevant, -logits, logits)).sum() + ridge @ tried**2 / 2.0)

    loss = loss_of(weights)
    for _ in range(_STEPS):
        p = 0.5 * (1.0 + np.tanh(weights @ rows / 2.0))
        slope = rows @ (p - relevant) + ridge * weights
        bend = (rows * (p * (1.0 - p))) @ rows.T + np.diag(ridge) + np.eye(len(used)) * 1e-12
        step = -np.linalg.solve(bend, slope)
        for _ in range(_HALVINGS):
            if loss_of(weights + step) <= loss:
                break
            step = step / 2.0
        else:
            break
        weights = weights + step
        loss = loss_of(weights)
        if np.abs(step).max() <= _SETTLED * max(1.0, np.abs(weights).max()):
            break
    whole = np.zeros(3)
    whole[used] = weights
    return loss, (float(whole[0]), float(whole[1]), float(whole[2]))


def _folds(relevant: NDArray[np.bool_], groups: Sequence[Hashable] | None) -> NDArray[np.int64] | None:
    """Return the fold of each score, or None where a training part would have too few of a class."""
    if groups is not None and len(groups) != len(relevant):
        raise ParameterError("groups", f"{len(groups)} for {len(relevant)} scores", "one per score")
    if groups is None:
        fold = np.empty(len(relevant), dtype=np.int64)
        for kind in (relevant, ~relevant):  # spread each class evenly
            fold[kind] = np.arange(int(kind.sum())) % FOLDS
    else:
        numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
        fold = np.asarray([numbers[group] % FOLDS for group in groups], dtype=np.int64)
    for number in range(FOLDS):
        rest = relevant[fold != number]
        if len(rest) < LEAST or min(rest.sum(), len(rest) - rest.sum()) < LEAST_OF_EACH or len(rest) == len(fold):
            return None
    return fold

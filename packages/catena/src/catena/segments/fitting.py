"""Fit a calibration to scores, with labels or without, judge it, and keep it in a file.

In order: how good probabilities are on labels (reliability bins, expected calibration error, log loss, Brier score),
the two fits, and the fit as a small JSON file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import fsum, inf, lgamma, log
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from annotated_types import Ge, Lt
from numpy.typing import ArrayLike, NDArray

from catena.model import CalibrationError, CatenaError, Checked, ParameterError, check_given
from catena.segments.calibration import (
    EDGE,
    LARGEST,
    BetaCalibration,
    BetaCDF,
    Calibration,
    Composed,
    Constant,
    Identity,
    Linear,
    Logistic,
    Probabilities,
    numbers,
)
from catena.text.files import regular_file

Binning: TypeAlias = Literal["mass", "width"]
Count: TypeAlias = Annotated[int, Ge(0)]
Figure: TypeAlias = Annotated[float, Ge(0), Lt(inf)]

BINS = 10
SURE = 1e-6  # log loss takes probabilities nearer to 0 or 1 as this near: a single certain miss is not infinite


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """The probabilities of one bin, and the share of positives among them.

    Attributes:
        predicted: mean of the probabilities.
        observed: share of positives among them.
        n: how many, at least 1.
    """

    predicted: float
    observed: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """A reliability diagram as values.

    Attributes:
        bins: those that are not empty, in rising order.
        ece: expected calibration error, `sum_b n_b / n * |predicted_b - observed_b|`, in [0, 1].
        binning: "mass": bins of about equal counts; "width": bins of equal width.
    """

    bins: tuple[Bin, ...]
    ece: float
    binning: Binning
    n: int
    positives: int

    @classmethod
    def of(cls, bins: Sequence[Bin], binning: Binning) -> Reliability:
        """Return the diagram of these bins."""
        n = sum(each.n for each in bins)
        ece = sum(each.n / n * abs(each.predicted - each.observed) for each in bins)
        positives = sum(round(each.n * each.observed) for each in bins)
        return cls(bins=tuple(bins), ece=ece, binning=binning, n=n, positives=positives)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality(Checked):
    """The quality of probabilities on labelled data; lower is better in all three.

    Attributes:
        log_loss: mean of -ln of the probability given to what happened, in nats.
        brier: mean squared distance of probability and label, in [0, 1].
        ece: expected calibration error over 10 bins of about equal counts.
    """

    log_loss: Figure
    brier: Figure
    ece: Figure


def reliability(
    probabilities: ArrayLike, labels: ArrayLike, *, bins: Annotated[int, Ge(1)] = BINS, binning: Binning = "mass"
) -> Reliability:
    """Compare predicted probabilities with observed shares, bin by bin.

    Equal probabilities share a bin, so that the result does not depend on the order of the input; with many equal
    ones there are fewer bins than asked for.

    Args:
        probabilities: n numbers in [0, 1].
        labels: n truth values: True or 1 where it happened.
        bins: most bins, >= 1.
        binning: "mass" for bins of about n / bins members each, "width" for bins of width 1 / bins.

    Raises:
        ParameterError: the lengths differ, there are none, or a value is outside its domain.

    Source: Naeini, Cooper and Hauskrecht, AAAI 2015 (equal width); Nixon et al., CVPR workshops 2019 (equal mass).
    """
    predicted, happened = checked(probabilities, labels)
    check_given({"bins": bins, "binning": binning}, reliability)
    order = np.argsort(predicted, kind="stable")
    predicted, happened = predicted[order], happened[order]
    n = len(predicted)
    places = np.searchsorted(predicted, predicted) / n if binning == "mass" else predicted
    numbers = np.minimum((places * bins).astype(np.int64), bins - 1)
    parts = [(predicted[numbers == each], happened[numbers == each]) for each in np.unique(numbers)]
    found = [Bin(predicted=float(p.mean()), observed=float(shares.mean()), n=len(p)) for p, shares in parts]
    return Reliability.of(found, binning)


def quality(probabilities: ArrayLike, labels: ArrayLike) -> Quality:
    """Return log loss, Brier score and expected calibration error.

    Args:
        probabilities: n numbers in [0, 1].
        labels: n truth values.

    Raises:
        ParameterError: as for `reliability`.
    """
    predicted, happened = checked(probabilities, labels)
    sure = np.clip(predicted, SURE, 1.0 - SURE)
    losses = -np.where(happened, np.log(sure), np.log1p(-sure))
    squares = (predicted - happened) ** 2
    ece = reliability(predicted, happened).ece
    return Quality(log_loss=float(losses.mean()), brier=float(squares.mean()), ece=ece)


def checked(probabilities: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return both as arrays of one length.

    Raises:
        ParameterError: they are empty, of other shapes, or hold other values than they may.
    """
    try:
        predicted, truths = np.asarray(probabilities, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError("probabilities and labels", str(error), "numbers and truth values") from None
    if predicted.ndim != 1 or predicted.shape != truths.shape or not len(predicted):
        shapes = (predicted.shape, truths.shape)
        raise ParameterError("probabilities and labels", shapes, "two sequences of one length, not empty")
    if not np.all((predicted >= 0.0) & (predicted <= 1.0)):
        raise ParameterError("probabilities", "others among them", "numbers in [0, 1]")
    if not np.all((truths == 0.0) | (truths == 1.0)):
        raise ParameterError("labels", "others among them", "True or False, 1 or 0")
    return predicted, truths == 1.0


LEAST = 20  # scores that a fit needs
LEAST_OF_EACH = 5  # relevant ones, and others, that a labelled fit needs
RIDGE = 1e-3  # weight of (a^2 + b^2) / 2 beside the summed log loss: bounds the slopes where the classes are apart
FOLDS = 5  # of the cross-validation that judges a labelled fit

_LOWEST = float(np.nextafter(0.0, 1.0))
_STEPS = 200  # of Newton's method, and halvings of each; a dozen are usual
_FAR = 100  # beyond it two terms of the asymptotic series of digamma and trigamma are exact to 1e-14
_SETTLED = 1e-12  # change of the parameters, relative and absolute

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlabelledFit(Checked):
    """A calibration fitted to scores alone.

    Attributes:
        calibration: makes these scores about uniform: it says which share of the scores seen is lower, which is not
            yet a true P(relevant).
        n: number of scores.
        distance: Kolmogorov-Smirnov distance of the calibrated scores from uniform, in [0, 1]; 0 is perfect.
    """

    calibration: Calibration
    n: Count
    distance: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledFit(Checked):
    """A calibration fitted to labelled scores.

    Attributes:
        calibration: fitted to all of them.
        n, positives: number of scores, and of relevant ones.
        before: quality of the scores as they are, brought into [0, 1].
        after: quality of the calibrated scores: of each fold, calibrated by a fit without it, where `folds` > 0.
        folds: of the cross-validation; 0 means that data were too few for it, and `after` flatters.
    """

    calibration: Calibration
    n: Count
    positives: Count
    before: Quality
    after: Quality
    folds: Count


def fit_beta(scores: ArrayLike, *, first: Calibration | None = None) -> UnlabelledFit:
    """Fit `BetaCDF(a, b)` to unlabelled scores by maximum likelihood.

    Newton's method on the log likelihood, `(a-1) mean(ln x) + (b-1) mean(ln(1-x)) - ln B(a, b)`, which is concave;
    it starts at a = b = 1 and halves a step that does not improve. A score of exactly 0 or 1, where the
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
    x = numbers(scores)
    deviation = float(x.std()) if x.size and np.isfinite(x).all() else 0.0
    if not deviation > 0.0:
        raise ParameterError("scores", f"{x.size} of them", "at least two different finite numbers")
    return Logistic(slope=1.0 / deviation, shift=-float(x.mean()) / deviation)


def _in_unit_interval(scores: ArrayLike, first: Calibration | None) -> Floats:
    x = numbers(scores if first is None else first(scores))
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

    def loss(ab: Floats) -> float:
        a, b = map(float, ab)
        if min(a, b) <= 0.0 or max(a, b) > 2.0 * LARGEST:
            return inf
        return -float((a - 1.0) * logs[0] + (b - 1.0) * logs[1] + lgamma(a + b) - lgamma(a) - lgamma(b))

    def newton_step(ab: Floats) -> Floats:
        a, b = map(float, ab)
        both = trigamma(a + b)
        slope = logs + digamma(a + b) - np.asarray([digamma(a), digamma(b)])
        bend = np.asarray([[trigamma(a) - both, -both], [-both, trigamma(b) - both]])  # positive
        return np.linalg.solve(bend, slope)

    place, _ = _minimised(np.ones(2), loss, newton_step)
    if place.max() > LARGEST:
        about = f"all about {np.exp(logs[0]):g}"
        raise ParameterError("scores", about, "spread out: equal scores have no distribution")
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

    def newton_step(tried: Floats) -> Floats:
        p = 0.5 * (1.0 + np.tanh(tried @ rows / 2.0))
        slope = rows @ (p - relevant) + ridge * tried
        bend = (rows * (p * (1.0 - p))) @ rows.T + np.diag(ridge) + np.eye(len(used)) * 1e-12
        return -np.linalg.solve(bend, slope)

    weights, loss = _minimised(weights, loss_of, newton_step)
    whole = np.zeros(3)
    whole[used] = weights
    return loss, (float(whole[0]), float(whole[1]), float(whole[2]))


def _minimised(
    place: Floats, loss: Callable[[Floats], float], newton_step: Callable[[Floats], Floats]
) -> tuple[Floats, float]:
    """Minimise a convex loss by Newton's method, halving steps that do not improve; return the place and its loss."""
    best = loss(place)
    for _ in range(_STEPS):
        step = newton_step(place)
        for _ in range(_STEPS):
            if loss(place + step) <= best:
                break
            step = step / 2.0
        else:
            break
        before, place = place, place + step
        best = loss(place)
        if np.allclose(before, place, rtol=_SETTLED, atol=_SETTLED):
            break
    return place, best


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


def digamma(x: float) -> float:
    """Return the derivative of ln Gamma at x > 0: recurrence to x + 100, then the asymptotic series (DLMF 5.11.2)."""
    far = x + _FAR
    y = 1.0 / (far * far)
    return log(far) - 0.5 / far - y * (1 / 12 - y / 120) - fsum(1.0 / (x + step) for step in range(_FAR))


def trigamma(x: float) -> float:
    """Return the second derivative of ln Gamma at x > 0: recurrence to x + 100, then the series of `digamma`."""
    far = x + _FAR
    y = 1.0 / (far * far)
    return (1.0 + 0.5 / far + y * (1 / 6 - y / 30)) / far + fsum(1.0 / (x + step) ** 2 for step in range(_FAR))


FORMAT = "catena-calibration"
VERSION = 1

_RULES: dict[str, type[Any]] = {
    rule.name: rule for rule in (Identity, Constant, BetaCDF, BetaCalibration, Logistic, Linear, Composed)
}
_REFIT = "fit it again: `catena calibrate`, or fit_beta and fit_labelled of catena.segments.fitting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    """A fit, and for which scores it holds.

    Attributes:
        fit: the calibration and its evidence.
        model: identity of what gave the scores: a reranker's `identity`, or a library's embedder and fusion.
        data: what it was fitted on, in words.
        date: when, as the caller gives it; "" for no date.
    """

    fit: LabelledFit | UnlabelledFit
    model: str
    data: str = ""
    date: str = ""

    @property
    def calibration(self) -> Calibration:
        """The fitted rule."""
        return self.fit.calibration

    def for_model(self, model: str, *, where: str = "in memory") -> Calibration:
        """Return the fitted rule.

        Args:
            model: identity of what gives the scores that are to be calibrated.
            where: of the artefact, for the message.

        Raises:
            CalibrationError: it was fitted to scores of another model.
        """
        if model != self.model:
            what = f"fitted to scores of {self.model!r}, and these are scores of {model!r}"
            raise CalibrationError(where, what, _REFIT)
        return self.calibration

    def to_json(self) -> str:
        """Return all of it as a JSON object.

        Raises:
            CalibrationError: the calibration holds a rule that is not one of `catena.segments.calibration`.
        """
        kind = "labelled" if isinstance(self.fit, LabelledFit) else "unlabelled"
        found = {
            "format": FORMAT,
            "version": VERSION,
            "kind": kind,
            "model": self.model,
            "data": self.data,
            "date": self.date,
            **asdict(replace(self.fit, calibration=Identity())),
            "calibration": _written(self.calibration),
        }
        return json.dumps(found, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, *, where: str = "in memory") -> Artefact:
        """Read the JSON object that `to_json` wrote.

        Args:
            text: the JSON object.
            where: it comes from, for the message.

        Raises:
            CalibrationError: the text is something else, or of a version that this one cannot read.
        """
        try:
            found: dict[str, Any] = json.loads(text)
            if found.pop("format") != FORMAT:
                raise CalibrationError(where, "another format", _REFIT)
            version = found.pop("version")
            if version != VERSION:
                what = f"version {version!r} of the format, and this Catena reads version {VERSION}"
                raise CalibrationError(where, what, "a newer Catena, or " + _REFIT)
            kind, named = found.pop("kind"), {key: str(found.pop(key)) for key in ("model", "data", "date")}
            found["calibration"] = _read(found["calibration"])
            if kind == "labelled":
                both = {key: Quality(**found[key]) for key in ("before", "after")}
                fit: LabelledFit | UnlabelledFit = LabelledFit(**{**found, **both})
            elif kind == "unlabelled":
                fit = UnlabelledFit(**found)
            else:
                raise CalibrationError(where, f"{kind!r} is no kind of fit", _REFIT)
            return cls(fit=fit, **named)
        except CalibrationError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, CatenaError) as error:
            what = f"damaged, or no calibration ({type(error).__name__}: {error})"
            raise CalibrationError(where, what, _REFIT) from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON object to a file.

        Raises:
            CalibrationError: the file cannot be written.
        """
        text = self.to_json()
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise CalibrationError(str(path), error.strerror or "not writable", "another path") from None


def load(path: str | os.PathLike[str], *, model: str) -> Artefact:
    """Return a saved fit, for scores of this model and no other.

    Args:
        path: a file that `Artefact.save` or `catena calibrate --out` wrote.
        model: identity of what gives the scores, e.g. `Reranker.identity`.

    Raises:
        CalibrationError: the file cannot be read, is damaged or of an unknown version, or was fitted for another
            model.
    """
    try:
        text = regular_file(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        raise CalibrationError(str(path), why, "a file that `catena calibrate --out` wrote") from None
    artefact = Artefact.from_json(text, where=str(path))
    artefact.for_model(model, where=str(path))
    return artefact


def fused_scores_of(embedder: str, *, alpha: float | None = None, beta: float = 0.1) -> str:
    """Name the fused scores of a library, as a model whose scores can be calibrated.

    Args:
        embedder: identity of the library's embedding model, `Library.stats().embedder`.
        alpha: of `ScoreFusion`.
        beta: of `ScoreFusion`.
    """
    share = "as routes agree" if alpha is None else f"{alpha:g}"
    return f"{embedder}, fused with alpha {share} and beta {beta:g}"


def _written(rule: Calibration) -> dict[str, Any]:
    name = getattr(rule, "name", "")
    if _RULES.get(name) is not type(rule):
        raise CalibrationError(getattr(rule, "identity", "unnamed"), "no rule that a file can hold", _REFIT)
    if isinstance(rule, Composed):
        return {"rule": name, "first": _written(rule.first), "then": _written(rule.then)}
    return {"rule": name, **asdict(rule)}  # type: ignore[call-overload]


def _read(found: dict[str, Any]) -> Calibration:
    values = dict(found)
    rule = _RULES[values.pop("rule")]
    if rule is Composed:
        return Composed(**{name: _read(part) for name, part in values.items()})
    made: Calibration = rule(**values)
    return made

"""How far probabilities are from what happened: bins, expected calibration error, log loss, Brier score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catena.model.errors import ParameterError

Binning: TypeAlias = Literal["mass", "width"]

BINS = 10
SURE = 1e-6  # log loss takes probabilities nearer to 0 or 1 as this near: a single certain miss is not infinite


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """The probabilities of one bin, and what became of them.

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
class Quality:
    """How good probabilities are on labelled data; lower is better in all three.

    Attributes:
        log_loss: mean of -ln of the probability given to what happened, in nats.
        brier: mean squared distance of probability and label, in [0, 1].
        ece: expected calibration error over 10 bins of about equal counts.
    """

    log_loss: float
    brier: float
    ece: float


def reliability(
    probabilities: ArrayLike, labels: ArrayLike, *, bins: int = BINS, binning: Binning = "mass"
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
    if not isinstance(bins, int) or bins < 1:
        raise ParameterError("bins", bins, "an integer >= 1")
    if binning not in get_args(Binning):
        raise ParameterError("binning", binning, "'mass' or 'width'")
    order = np.argsort(predicted, kind="stable")
    predicted, happened = predicted[order], happened[order]
    n = len(predicted)
    places = np.searchsorted(predicted, predicted) / n if binning == "mass" else predicted
    numbers = np.minimum((places * bins).astype(np.int64), bins - 1)
    found = [_bin(predicted[numbers == each], happened[numbers == each]) for each in np.unique(numbers)]
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


def _bin(predicted: NDArray[np.float64], happened: NDArray[np.bool_]) -> Bin:
    return Bin(predicted=float(predicted.mean()), observed=float(happened.mean()), n=len(predicted))

"""From a reranker's raw scores to probabilities of relevance: fixed rules; `fitted` finds their numbers.

A calibration is a value: equal parameters, equal probabilities. It keeps the order of the scores (it never
decreases), so it changes what a score means and not who comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catena.model.errors import ParameterError
from catena.segments.special import incomplete_beta

Probabilities: TypeAlias = NDArray[np.float64]

_MOST = float(np.finfo(np.float64).max)

LARGEST = 1e6  # of a and b in BetaCDF: beyond it the curve is a step
EDGE = 1e-6  # BetaCalibration reads scores nearer to 0 or 1 as this near: no score makes anything certain


@runtime_checkable
class Calibration(Protocol):
    """A non-decreasing rule from raw scores to numbers in [0, 1]."""

    @property
    def identity(self) -> str:
        """Name the rule and its parameters, for messages and files."""
        ...

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        """Return one number in [0, 1] per score, in the shape of `scores`."""
        ...


def calibration_given(given: Any) -> Any:
    """Return a calibration as it is.

    Raises:
        ParameterError: none is given; the message says what there is.
    """
    if given is None:
        allowed = (
            "what the reranker's scores say of relevance: catena.segments.COHERE or VOYAGE for their models, a fit "
            "to labels (Artefact.from_json), or Constant() to believe the order of the scores alone"
        )
        raise ParameterError("calibration", None, allowed)
    return given


def _numbers(scores: ArrayLike) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError("scores", str(error), "numbers") from None
    if np.isnan(numbers).any():
        raise ParameterError("scores", "NaN among them", "numbers")
    return numbers


def _sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 / (1 + e^-t) without overflow, for any t."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1.0, small) / (1.0 + small)


def _require(name: str, value: float, holds: Callable[[float], bool], allowed: str) -> None:
    """Refuse what is no finite number, as a file may hold, or not in the domain."""
    known = isinstance(value, int | float | np.integer | np.floating) and abs(value) <= _MOST and holds(float(value))
    if not known:
        raise ParameterError(name, value, allowed)


def _any(value: float) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Identity:
    """The scores are probabilities already; what lies outside [0, 1] is clipped."""

    @property
    def identity(self) -> str:
        return "identity"

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        return np.clip(_numbers(scores), 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Constant:
    """Every score becomes the same probability: only the order of the ranking is believed.

    Attributes:
        value: in [0, 1]; 0.8 is what dsRAG takes where absolute relevance is to be ignored.
    """

    value: float = 0.8

    def __post_init__(self) -> None:
        _require("value", self.value, lambda value: 0.0 <= value <= 1.0, "in [0, 1]")

    @property
    def identity(self) -> str:
        return f"constant({self.value!r})"

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        return np.full_like(_numbers(scores), self.value)


@dataclass(frozen=True, slots=True)
class BetaCDF:
    """`p = I_x(a, b)`, the Beta distribution's CDF: scores that are Beta(a, b) become uniform in [0, 1].

    Scores below 0 give 0 and above 1 give 1. Below a = b = 1 the curve is steep at both ends, where such
    rerankers crowd their scores.

    Attributes:
        a, b: in (0, 1e6].

    Source: dsRAG's rerank transform; presets `COHERE` and `VOYAGE`.
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        for name, value in (("a", self.a), ("b", self.b)):
            _require(name, value, lambda value: 0.0 < value <= LARGEST, f"in (0, {LARGEST:g}]")

    @property
    def identity(self) -> str:
        return f"beta-cdf({self.a!r}, {self.b!r})"

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        return incomplete_beta(_numbers(scores), self.a, self.b)


@dataclass(frozen=True, slots=True)
class BetaCalibration:
    """`logit p = a ln x - b ln(1 - x) + c`, fitted to labels; a = b = 1, c = 0 changes nothing.

    Scores below 1e-6 and above 1 - 1e-6 are read as these, so that no score makes anything certain.

    Attributes:
        a, b: >= 0, which is what keeps the order.
        c: of any sign; how common relevance is.

    Source: Kull, Silva Filho and Flach, AISTATS 2017.
    """

    a: float
    b: float
    c: float

    def __post_init__(self) -> None:
        _require("a", self.a, lambda a: a >= 0.0, ">= 0")
        _require("b", self.b, lambda b: b >= 0.0, ">= 0")
        _require("c", self.c, _any, "a finite number")

    @property
    def identity(self) -> str:
        return f"beta-calibration({self.a!r}, {self.b!r}, {self.c!r})"

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        x = np.clip(_numbers(scores), EDGE, 1.0 - EDGE)
        return _sigmoid(self.a * np.log(x) - self.b * np.log1p(-x) + self.c)


@dataclass(frozen=True, slots=True)
class Logistic:
    """`1 / (1 + e^-(slope * x + shift))`: for rerankers whose raw scores are logits, of any size and sign."""

    slope: float = 1.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        _require("slope", self.slope, lambda slope: slope > 0.0, "> 0")
        _require("shift", self.shift, _any, "a finite number")

    @property
    def identity(self) -> str:
        return f"logistic({self.slope!r}, {self.shift!r})"

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        return _sigmoid(self.slope * _numbers(scores) + self.shift)


@dataclass(frozen=True, slots=True)
class Linear:
    """`(x - low) / (high - low)`, clipped to [0, 1]: for scores with known ends, as the cosine's -1 and 1."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _require("low", self.low, _any, "a finite number")
        _require("high", self.high, lambda high: high > self.low, f"above low, {self.low!r}")

    @property
    def identity(self) -> str:
        return f"linear({self.low!r}, {self.high!r})"

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        x = np.clip(_numbers(scores), self.low, self.high)
        return np.clip(x / (self.high - self.low) - self.low / (self.high - self.low), 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Composed:
    """`then(first(x))`: `first` brings raw scores into [0, 1], `then` makes them probabilities."""

    first: Calibration
    then: Calibration

    @property
    def identity(self) -> str:
        return f"{self.first.identity}, then {self.then.identity}"

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        return self.then(self.first(scores))


COHERE = BetaCDF(0.4, 0.4)  # fitted by dsRAG to rerank-english-v3.0
VOYAGE = BetaCDF(0.5, 1.8)  # fitted by dsRAG to rerank-2

"""Turn raw scores into probabilities of relevance by a rule, those of a reranker or of the ranking itself.

A calibration is a value: equal parameters, equal probabilities. It keeps the order of the scores (it never
decreases), so it changes what a score means and not who comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from math import inf, lgamma
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import ArrayLike, NDArray

from catena.effects.steps import Failed, Rate, Step
from catena.model import Chunk, Degraded, Hit, ParameterError, Provenance, Ranking, Scale, ScaleError, ServiceError
from catena.model.options import Checked, check_given, check_options

Probabilities: TypeAlias = NDArray[np.float64]

LARGEST = 1e6  # of a and b in BetaCDF: beyond it the curve is a step
_SETTLED = 2e-15  # relative change of the fraction at which it has converged: below it, rounding may keep it busy
_MOST_TERMS = 10_000  # sqrt(max(a, b)) terms are needed; at the largest a and b allowed, 1e6, fewer than 5,000

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


def numbers(scores: ArrayLike) -> NDArray[np.float64]:
    """Return scores as an array of any shape.

    Raises:
        ParameterError: they are no numbers, or NaN is among them.
    """
    try:
        found = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError("scores", str(error), "numbers") from None
    if np.isnan(found).any():
        raise ParameterError("scores", "NaN among them", "numbers")
    return found


def _sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 / (1 + e^-t) without overflow, for any t."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1.0, small) / (1.0 + small)


Finite: TypeAlias = Annotated[float, Gt(-inf), Lt(inf)]


class _Rule(Checked):
    """The identity that rules with parameters have in common.

    Attributes:
        name: of the kind of rule, in its identity and in files.
    """

    __slots__ = ()
    name: ClassVar[str]

    @property
    def identity(self) -> str:
        values = [repr(getattr(self, field.name)) for field in fields(self)]  # type: ignore[arg-type]
        return f"{self.name}({', '.join(values)})" if values else self.name


@dataclass(frozen=True, slots=True)
class Identity(_Rule):
    """The scores are probabilities already; what lies outside [0, 1] is clipped."""

    name = "identity"

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        return np.clip(numbers(scores), 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Constant(_Rule):
    """Every score becomes the same probability: only the order of the ranking is believed.

    Attributes:
        value: in [0, 1]; 0.8 is what dsRAG takes where absolute relevance is to be ignored.
    """

    name = "constant"

    value: Annotated[float, Ge(0), Le(1)] = 0.8

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        return np.full_like(numbers(scores), self.value)


@dataclass(frozen=True, slots=True)
class BetaCDF(_Rule):
    """`p = I_x(a, b)`, the Beta distribution's CDF: scores that are Beta(a, b) become uniform in [0, 1].

    Scores below 0 give 0 and above 1 give 1. Below a = b = 1 the curve is steep at both ends, where such
    rerankers crowd their scores.

    Attributes:
        a, b: in (0, 1e6].

    Source: dsRAG's rerank transform; presets `COHERE` and `VOYAGE`.
    """

    name = "beta-cdf"

    a: Annotated[float, Gt(0), Le(LARGEST)]
    b: Annotated[float, Gt(0), Le(LARGEST)]

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        return incomplete_beta(numbers(scores), self.a, self.b)


@dataclass(frozen=True, slots=True)
class BetaCalibration(_Rule):
    """`logit p = a ln x - b ln(1 - x) + c`, fitted to labels; a = b = 1, c = 0 changes nothing.

    Scores below 1e-6 and above 1 - 1e-6 are read as these, so that no score makes anything certain.

    Attributes:
        a, b: >= 0, which is what keeps the order.
        c: of any sign; how common relevance is.

    Source: Kull, Silva Filho and Flach, AISTATS 2017.
    """

    name = "beta-calibration"

    a: Annotated[float, Ge(0), Lt(inf)]
    b: Annotated[float, Ge(0), Lt(inf)]
    c: Finite

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        x = np.clip(numbers(scores), EDGE, 1.0 - EDGE)
        return _sigmoid(self.a * np.log(x) - self.b * np.log1p(-x) + self.c)


@dataclass(frozen=True, slots=True)
class Logistic(_Rule):
    """`1 / (1 + e^-(slope * x + shift))`: for rerankers whose raw scores are logits, of any size and sign."""

    name = "logistic"

    slope: Annotated[float, Gt(0), Lt(inf)] = 1.0
    shift: Finite = 0.0

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        return _sigmoid(self.slope * numbers(scores) + self.shift)


@dataclass(frozen=True, slots=True)
class Linear(_Rule):
    """`(x - low) / (high - low)`, clipped to [0, 1]: for scores with known ends, as the cosine's -1 and 1."""

    name = "linear"

    low: Finite
    high: Finite

    def __post_init__(self) -> None:
        check_options(self)
        if not self.high > self.low:
            raise ParameterError("high", self.high, f"above low, {self.low!r}")

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        x = np.clip(numbers(scores), self.low, self.high)
        return np.clip(x / (self.high - self.low) - self.low / (self.high - self.low), 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Composed(_Rule):
    """`then(first(x))`: `first` brings raw scores into [0, 1], `then` makes them probabilities."""

    name = "composed"

    first: Calibration
    then: Calibration

    @property
    def identity(self) -> str:
        return f"{self.first.identity}, then {self.then.identity}"

    def __call__(self, scores: ArrayLike, /) -> Probabilities:
        return self.then(self.first(scores))


COHERE = BetaCDF(0.4, 0.4)  # fitted by dsRAG to rerank-english-v3.0
VOYAGE = BetaCDF(0.5, 1.8)  # fitted by dsRAG to rerank-2


def incomplete_beta(x: NDArray[np.float64], a: float, b: float) -> NDArray[np.float64]:
    """Return the regularised incomplete beta function I_x(a, b), the Beta distribution's CDF.

    `I_x(a, b) = x^a (1-x)^b / (a B(a, b)) * F(x)`, F a continued fraction that converges fast below
    x = (a+1)/(a+b+2); above it, `I_x(a, b) = 1 - I_{1-x}(b, a)`. The absolute error is below 1e-12 for a and b up
    to 1,000 and grows to about 1e-9 at 1e6.

    Args:
        x: any shape; below 0 gives 0, above 1 gives 1.
        a: in (0, 1e6].
        b: in (0, 1e6].

    Returns:
        The values, in the shape of `x`.

    Source: DLMF 8.17.22, evaluated as in Lentz, Applied Optics 15 (1976) 668.
    """
    result = np.where(x >= 1.0, 1.0, 0.0)
    inside = (x > 0.0) & (x < 1.0)
    low = x[inside]
    log_front = a * np.log(low) + b * np.log1p(-low) + (lgamma(a + b) - lgamma(a) - lgamma(b))
    mirrored = low > (a + 1.0) / (a + b + 2.0)
    first, second = np.where(mirrored, b, a), np.where(mirrored, a, b)
    share = np.exp(log_front) * _fraction(np.where(mirrored, 1.0 - low, low), first, second) / first
    result[inside] = np.clip(np.where(mirrored, 1.0 - share, share), 0.0, 1.0)
    return result


def _fraction(x: NDArray[np.float64], a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the continued fraction of the incomplete beta function by Lentz's method; no denominator is 0 here."""
    upper = np.ones_like(x)
    lower = 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = lower
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        lower = 1.0 / (1.0 + even * lower)
        upper = 1.0 + even / upper
        value = value * lower * upper
        lower = 1.0 / (1.0 + odd * lower)
        upper = 1.0 + odd / upper
        change = lower * upper
        value = value * change
        if np.abs(change - 1.0).max(initial=0.0) <= _SETTLED:
            break
    return value


OnFailure: TypeAlias = Literal["raise", "rank"]

ROUTE = "rerank"  # name in the provenance
BATCH = 100  # texts per request; requests of one step run side by side

_ROUNDING = 1e-9  # by which a later probability may exceed an earlier one before the rule is said to break the order


def chunk_text(chunk: Chunk) -> str:
    """Return the chunk's own text, without header."""
    return chunk.text


def rerank(
    query: str,
    ranking: Ranking,
    *,
    calibration: Calibration,
    text_of: Callable[[Chunk], str] = chunk_text,
    k: Annotated[int, Ge(0)] | None = None,
    batch: Annotated[int, Ge(1)] = BATCH,
    on_failure: OnFailure = "raise",
) -> Step[Ranking]:
    """Order a ranking by a reranker's scores, and turn these into P(relevant | query, chunk).

    Hits are ordered by raw score, ties by their old rank; `p = calibration(raw)`. Asks `Rate`; nothing
    where there are no hits.

    Args:
        query: the question.
        ranking: of any scale; all of its hits are scored.
        calibration: of this reranker: `COHERE`, `VOYAGE`, a fitted one, or `Constant()` to believe only the order.
        text_of: what the reranker reads of a chunk; with a header above the text it knows the document.
        k: most hits to return; None returns all.
        batch: most texts per request, >= 1.
        on_failure: "raise" raises what the reranker raised. "rank" then keeps the old order, as `by_rank` does, and
            says so in `degraded`; errors of the caller's own are raised all the same.

    Returns:
        The hits in `Scale.PROBABILITY`, each with its old provenance and one of the route "rerank": its new rank, and
        the raw score.

    Raises:
        ParameterError: an argument is out of its domain, or the calibration does not keep the order.
        ServiceError: the reranker failed.
        MissingServiceError: there is none.
    """
    check_given({"k": k, "batch": batch, "on_failure": on_failure}, rerank)
    if not ranking.hits:
        return replace(ranking, scale=Scale.PROBABILITY)
    texts = tuple(text_of(hit.chunk) for hit in ranking.hits)
    replies = yield [Rate(query=query, texts=texts[at : at + batch]) for at in range(0, len(texts), batch)]
    for reply in replies:
        if isinstance(reply, Failed):
            if on_failure == "raise" or not isinstance(reply.error, ServiceError):
                raise reply.error
            kept = by_rank(ranking)
            lost = Degraded("reranker", f"{reply.error}; the old order, every probability {Constant().value:g}")
            return _first(replace(kept, degraded=(*kept.degraded, lost)), k)
    scores = [float(score) for reply in replies for score in reply]
    order = sorted(range(len(scores)), key=lambda place: -scores[place])  # stable: ties keep their old rank
    probabilities = _probabilities([scores[place] for place in order], calibration)
    hits: list[Hit] = []
    for rank, (place, probability) in enumerate(zip(order, probabilities, strict=True), start=1):
        hit, way = ranking.hits[place], Provenance(route=ROUTE, rank=rank, score=scores[place])
        hits.append(Hit(hit.chunk, probability, (*hit.provenance, way)))
    return _first(replace(ranking, hits=tuple(hits), scale=Scale.PROBABILITY), k)


def calibrated(ranking: Ranking, calibration: Calibration) -> Ranking:
    """Turn a ranking's own scores into probabilities, without a reranker; order and provenance stay.

    For cosines of a vector store, or fused scores: with a calibration that was fitted to such scores.

    Raises:
        ScaleError: the scores are probabilities already, values of segments, or say no more than the order, for which
            there is `by_rank`.
        ParameterError: the calibration does not keep the order, or the hits are not best first.
    """
    if ranking.scale not in (Scale.SIMILARITY, Scale.NORMALIZED):
        raise ScaleError("calibration", "similarity or normalized", ranking.scale.value)
    probabilities = _probabilities([hit.score for hit in ranking.hits], calibration)
    paired = zip(ranking.hits, probabilities, strict=True)
    hits = tuple(Hit(hit.chunk, probability, hit.provenance) for hit, probability in paired)
    return replace(ranking, hits=hits, scale=Scale.PROBABILITY)


def by_rank(ranking: Ranking, value: float = Constant().value) -> Ranking:
    """Give every hit the same probability, so that only its rank counts in what follows.

    Args:
        ranking: of any scale.
        value: in [0, 1].
    """
    same = float(Constant(value)(0.0))
    hits = tuple(Hit(hit.chunk, same, hit.provenance) for hit in ranking.hits)
    return replace(ranking, hits=hits, scale=Scale.PROBABILITY)


def probabilities(ranking: Ranking, calibration: Calibration | None) -> Ranking:
    """Return a ranking in `Scale.PROBABILITY`: its own probabilities, or what its scores say of relevance.

    Where only the order means anything every probability is the same: that of the calibration where it is a
    `Constant`, else 0.8; see `by_rank`.

    Args:
        ranking: of any scale but that of segments.
        calibration: of its scores; not needed where they are probabilities, or missing.

    Raises:
        ParameterError: there are scores and no calibration.
        ScaleError: the scores are values of segments.
    """
    if ranking.scale is Scale.PROBABILITY or not ranking.hits:
        return replace(ranking, scale=Scale.PROBABILITY)
    rule = calibration_for(ranking, calibration)
    if ranking.scale is Scale.RANK:
        return by_rank(ranking, rule.value if isinstance(rule, Constant) else Constant().value)
    return calibrated(ranking, rule)


def calibration_for(ranking: Ranking, calibration: Calibration | None) -> Calibration:
    """Return what the scores of a ranking are read by: the calibration, or `Constant()` where it needs none.

    Raises:
        ParameterError: there are scores that are no probabilities, and no calibration.
    """
    if calibration is None and ranking.hits and ranking.scale not in (Scale.PROBABILITY, Scale.RANK):
        allowed = (
            "given, because the scores are no probabilities: a rule for such scores, as COHERE or a fitted one, or "
            "Constant() to believe their order alone; or let a reranker with a calibration score before"
        )
        raise ParameterError("calibration", None, allowed)
    return Constant() if calibration is None else calibration


def _first(ranking: Ranking, k: int | None) -> Ranking:
    return ranking if k is None else ranking.top(k)


def _probabilities(scores: Sequence[float], calibration: Calibration) -> list[float]:
    """Return the probabilities of scores that fall, never rising: what rounding lifts is pressed down."""
    if not scores:
        return []
    found = np.asarray(calibration(np.asarray(scores, dtype=np.float64)), dtype=np.float64)
    if found.shape != (len(scores),) or not np.all((found >= 0.0) & (found <= 1.0)):
        raise ParameterError("calibration", _name(calibration), "a rule that gives one number in [0, 1] per score")
    falling = np.minimum.accumulate(found)
    if np.any(found - falling > _ROUNDING):
        raise ParameterError("calibration", _name(calibration), "a rule that keeps the order, on hits best first")
    return [float(probability) for probability in falling]


def _name(calibration: object) -> str:
    return str(getattr(calibration, "identity", type(calibration).__name__))

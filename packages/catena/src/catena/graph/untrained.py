"""The scorer that works at once: the features of a candidate, weighed by hand, without any training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from catena.graph.features import FEATURES, features
from catena.model.errors import ParameterError
from catena.model.ids import digest
from catena.model.options import check_options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.effects.steps import Step
    from catena.graph.scoring import Candidates

BY_HAND: Mapping[str, float] = MappingProxyType(
    {
        "question": 0.12,  # per spread of the cosines
        "name": 0.2,
        "mention": 0.3,
        "mentioned": 0.1,
        "new_words": 0.5,
        "words": 0.5,
        "ranked": 0.1,
    }
)
"""By judgement; set on training questions, after a prototype that was looked at on others; see docs/decisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UntrainedScorer:
    """`score = sum over the features f of weight(f) * f(candidate)`.

    Attributes:
        weights: by name of `catena.graph.features.FEATURES`; what is not named weighs 0.

    Raises:
        ParameterError: a name is no feature, or a weight is not finite.
    """

    weights: Mapping[str, float] = field(default_factory=lambda: BY_HAND, hash=False)

    def __post_init__(self) -> None:
        check_options(self)
        unknown = sorted(set(self.weights) - set(FEATURES), key=str)
        if unknown:
            raise ParameterError("weights", unknown, f"by names among {', '.join(FEATURES)}")
        for name, weight in self.weights.items():
            if not isinstance(weight, int | float) or not isfinite(weight):
                raise ParameterError(f"weights[{name!r}]", weight, "a finite number")
        object.__setattr__(self, "weights", dict(self.weights))

    @property
    def identity(self) -> str:
        """Name and a hash of the weights."""
        return f"untrained@{digest(*(f'{name} {self.weights.get(name, 0.0)!r}' for name in FEATURES), length=8)}"

    def score(self, candidates: Candidates) -> Step[NDArray[np.float64]]:
        """Return the weighted sums, without unit."""
        yield from ()  # a step, though it has nothing to ask
        by_feature = np.array([self.weights.get(name, 0.0) for name in FEATURES])
        scores: NDArray[np.float64] = features(candidates).astype(np.float64) @ by_feature
        return scores

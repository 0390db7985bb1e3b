"""The small trained scorer: a few tiny networks over the features of a candidate, averaged; numpy alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.graph.features import FEATURES, features
from catena.graph.weights_file import read_weights, write_weights
from catena.model.errors import ParameterError
from catena.model.ids import digest

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    from catena.effects.steps import Step
    from catena.graph.scoring import Candidates

    _SideBySide: TypeAlias = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float64]]

FORMAT, VERSION = "catena-feature-scorer", 1
SHIPPED = Path(__file__).parents[1] / "data" / "walk_scorer" / "scorer.safetensors"
"""The scorer that comes with the package; what it was trained on and what it reaches says the card beside it."""

_ARRAYS = ("hidden", "bias", "out", "mean", "spread")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureScorer:
    """`score = mean over the networks e of out_e . tanh(hidden_e^T z + bias_e)`, z = (features - mean) / spread.

    Attributes:
        weights: `hidden` (networks, features, units), `bias` and `out` (networks, units), `mean` and `spread`
            (features,), float32.
        record: what it was trained on and how: anything that JSON can say.

    Raises:
        ParameterError: an array is missing, of another shape, or not finite.
    """

    weights: Mapping[str, NDArray[np.float32]] = field(repr=False)
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)
    identity: str = field(init=False)
    _side_by_side: _SideBySide = field(init=False, repr=False)

    def __post_init__(self) -> None:
        weights = _checked(self.weights)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "_side_by_side", _side_by_side(weights))
        parts = [part for name in _ARRAYS for part in (name, weights[name].tobytes())]
        object.__setattr__(self, "identity", f"features@{digest(*parts, length=8)}")

    def score(self, candidates: Candidates) -> Step[NDArray[np.float64]]:
        """Return one score per candidate, without unit."""
        yield from ()  # a step, though it has nothing to ask
        return self.of_features(features(candidates))

    def of_features(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the score of each row of features, shape (m, features) to (m,).

        Equal rows score equally wherever they stand, so that ties are ties: a matrix product does not promise that.
        """
        hidden, bias, out = self._side_by_side
        units = np.einsum("mf,fu->mu", (rows - self.weights["mean"]) / self.weights["spread"], hidden)
        units += bias
        scores: NDArray[np.float64] = np.einsum("mu,u->m", np.tanh(units, out=units).astype(np.float64), out)
        return scores

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it into one safetensors file.

        Raises:
            ParameterError: the file cannot be written.
        """
        said = {"format": FORMAT, "version": VERSION, "features": list(FEATURES), "record": dict(self.record)}
        write_weights(path, self.weights, said)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FeatureScorer:
        """Return what `save` wrote.

        Raises:
            ParameterError: the file cannot be read, is damaged, of another format, or of other features.
        """
        arrays, said = read_weights(path, form=FORMAT, version=VERSION)
        if said.get("features") != list(FEATURES) or not isinstance(said.get("record"), dict):
            raise ParameterError("file of weights", Path(path).name, "one of the features of this version of Catena")
        return cls(weights=arrays, record=said["record"])

    @classmethod
    def shipped(cls) -> FeatureScorer:
        """Return the scorer that comes with the package, trained by us; see `catena/data/walk_scorer/README.md`."""
        return _shipped()


@lru_cache(maxsize=1)
def _shipped() -> FeatureScorer:
    return FeatureScorer.load(SHIPPED)


def _side_by_side(weights: Mapping[str, NDArray[np.float32]]) -> _SideBySide:
    """Return hidden, bias and out of one wide network that gives the mean of all: one product in place of many."""
    networks, count, units = weights["hidden"].shape
    hidden = weights["hidden"].transpose(1, 0, 2).reshape(count, networks * units)
    return hidden, weights["bias"].reshape(-1), weights["out"].reshape(-1).astype(np.float64) / networks


def _checked(weights: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Return the arrays in their one type, of shapes that fit each other."""
    missing = [name for name in _ARRAYS if name not in weights]
    if missing:
        raise ParameterError("weights", sorted(weights), f"also {', '.join(missing)}")
    arrays = {name: np.ascontiguousarray(weights[name], dtype=np.float32) for name in _ARRAYS}
    count = len(FEATURES)
    networks, units = arrays["bias"].shape if arrays["bias"].ndim == 2 else (0, 0)
    wanted = {
        "hidden": (networks, count, units),
        "bias": (networks, units),
        "out": (networks, units),
        "mean": (count,),
        "spread": (count,),
    }
    for name, shape in wanted.items():
        if arrays[name].shape != shape or 0 in shape or not np.isfinite(arrays[name]).all():
            raise ParameterError(f"weights[{name!r}]", arrays[name].shape, f"finite, of shape {shape}")
    if not (arrays["spread"] > 0).all():
        raise ParameterError("weights['spread']", float(arrays["spread"].min()), "above 0")
    return arrays

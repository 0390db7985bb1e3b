"""A fitted calibration as a small JSON file: what was fitted, for which model, on how much, and how well it fits."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from catena.model.errors import CalibrationError, CatenaError
from catena.segments.calibration import (
    BetaCalibration,
    BetaCDF,
    Calibration,
    Composed,
    Constant,
    Identity,
    Linear,
    Logistic,
)
from catena.segments.fitted import LabelledFit, UnlabelledFit
from catena.segments.reliability_bins import Quality
from catena.text.files import regular_file

FORMAT = "catena-calibration"
VERSION = 1

_RULES: dict[str, type[Any]] = {
    "identity": Identity,
    "constant": Constant,
    "beta-cdf": BetaCDF,
    "beta-calibration": BetaCalibration,
    "logistic": Logistic,
    "linear": Linear,
    "composed": Composed,
}
_COUNTS = frozenset({"n", "positives", "folds"})
_FIGURES = frozenset({"distance", "log_loss", "brier", "ece"})
_MOST = 1e300  # far above any figure; infinity is none
_NAMES = {rule: name for name, rule in _RULES.items()}
_REFIT = "fit it again: `catena calibrate`, or fit_beta and fit_labelled of catena.segments.fitted"


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
        """Return what `to_json` wrote.

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
            _check_figures(found, where)
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


def fused_scores_of(embedder: str, *, alpha: float = 0.65, beta: float = 0.3) -> str:
    """Name the fused scores of a library, as a model whose scores can be calibrated.

    Args:
        embedder: identity of the library's embedding model, `Library.stats().embedder`.
        alpha: of `ScoreFusion`.
        beta: of `ScoreFusion`.
    """
    return f"{embedder}, fused with alpha {alpha:g} and beta {beta:g}"


def _check_figures(found: Mapping[str, Any], where: str) -> None:
    """Refuse figures of a fit that cannot be: they are shown to people, who would believe them."""
    for name, value in found.items():
        if isinstance(value, dict):
            _check_figures(value, f"{where}, {name}")
        elif name in _COUNTS and (type(value) is not int or value < 0):
            raise CalibrationError(where, f"{name} is {value!r}, no count", _REFIT)
        elif name in _FIGURES and not (type(value) in (int, float) and 0 <= value <= _MOST):
            raise CalibrationError(where, f"{name} is {value!r}, no number >= 0", _REFIT)


def _written(rule: Calibration) -> dict[str, Any]:
    name = _NAMES.get(type(rule))
    if name is None:
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

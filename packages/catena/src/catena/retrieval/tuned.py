"""What tuning found: two weights, what they are worth on questions not looked at, and where they may be used."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from catena.model.errors import ModelMismatchError, ParameterError
from catena.retrieval.fusion import ScoreFusion
from catena.text.files import regular_file

Objective: TypeAlias = Literal["log-rank", "recall"]

FORMAT = "catena-tuned-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """One part of the questions, judged with weights that were chosen on all other parts.

    Attributes:
        alpha, beta: the weights chosen without this part.
        held_out: mean of the objective over this part, with these weights.
        usual: the same with the default weights.
    """

    alpha: float
    beta: float
    questions: int
    held_out: float
    usual: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The weights to use, and the evidence.

    Attributes:
        alpha, beta: what to use: the weights chosen on all questions where `adopted`, else the defaults.
        adopted: whether the held-out gain is at least what so many questions can detect.
        chosen: alpha and beta chosen on all questions.
        usual: alpha and beta of the defaults.
        objective: "log-rank" (Log-Rank Index, gamma 1, over n chunks) or "recall" (at k).
        k: cutoff of recall.
        n: number of chunks in the library.
        depth: hits asked of each route.
        questions, groups: how many, and in how many groups that share no document.
        left_out: questions without gold.
        held_out, held_out_usual: means over all questions, each judged with weights chosen without its fold.
        gain: held_out - held_out_usual, with its 95% interval; standard errors are over groups.
        detectable: the smallest gain that would be seen in 80 of 100 such samples, 2.8 standard errors.
        surface: mean over all questions for each alpha (rows) and beta (columns); not held out.
        model: identity of the embedding model: the vectors decide what alpha means.
        library: what was searched, in words; weights may be used for another library of the same model.
    """

    alpha: float
    beta: float
    adopted: bool
    chosen: tuple[float, float]
    usual: tuple[float, float]
    objective: Objective
    k: int | None
    n: int
    depth: int
    questions: int
    groups: int
    left_out: int
    held_out: float
    held_out_usual: float
    gain: float
    interval: tuple[float, float]
    detectable: float
    folds: tuple[Fold, ...]
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    surface: tuple[tuple[float, ...], ...]
    model: str
    library: str = ""

    def fusion_for(self, model: str, *, path: str = "") -> ScoreFusion:
        """Return the formula with these weights.

        Args:
            model: identity of the embedding model that will be searched with.
            path: of the library, for the message.

        Raises:
            ModelMismatchError: the weights were tuned with another model.
        """
        if model != self.model:
            what = f"these weights were tuned with the model {self.model!r}, its vectors are of {model!r}"
            raise ModelMismatchError(path, what, "catena tune on this library")
        return ScoreFusion(alpha=self.alpha, beta=self.beta)

    def to_json(self) -> str:
        """Return all of it as a JSON object."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Tuned:
        """Return what `to_json` wrote.

        Raises:
            ParameterError: the text is something else.
        """
        allowed = "a JSON object that `catena tune --out` wrote"
        try:
            found: dict[str, Any] = json.loads(text)
            if found.pop("format") != FORMAT:
                raise ParameterError("tuned weights", "another format", allowed)
            pairs = {name: tuple(found[name]) for name in ("chosen", "usual", "interval", "alphas", "betas")}
            folds = tuple(Fold(**fold) for fold in found["folds"])
            surface = tuple(tuple(row) for row in found["surface"])
            tuned = cls(**{**found, **pairs, "folds": folds, "surface": surface})
            ScoreFusion(alpha=tuned.alpha, beta=tuned.beta)
        except ParameterError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ParameterError("tuned weights", f"{type(error).__name__}: {error}", allowed) from None
        return tuned

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON object to a file.

        Raises:
            ParameterError: the file cannot be written.
        """
        try:
            Path(path).write_text(self.to_json(), encoding="utf-8")
        except OSError as error:
            raise ParameterError("path", f"{path} ({error.strerror})", "a file that can be written") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tuned:
        """Return what `save` wrote.

        Raises:
            ParameterError: the file cannot be read, or holds something else.
        """
        try:
            text = regular_file(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "no UTF-8"
            raise ParameterError("path", f"{path} ({why})", "a file that `catena tune --out` wrote") from None
        return cls.from_json(text)

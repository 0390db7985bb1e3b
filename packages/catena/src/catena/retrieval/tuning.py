"""Choose alpha and beta on labelled questions, where folds judge the choice.

A gain is only believed on questions that the weights were not chosen on, and only where so many questions can show
it; otherwise the defaults stay.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import log
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from catena.effects import Failed, Search, Step, ask, together
from catena.model import ModelMismatchError, ParameterError, Ranking, check_given
from catena.retrieval.fusion import ScoreBounds, ScoreFusion, dense_share
from catena.retrieval.multi_route import completed
from catena.retrieval.routes import ROUTES
from catena.text.files import regular_file

Floats: TypeAlias = NDArray[np.float64]

Weights: TypeAlias = tuple[float | None, float]
"""alpha and beta; alpha is None where each question decides it."""

GRID = tuple(round(0.05 * step, 2) for step in range(21))  # 0 to 1
USUAL: Weights = (ScoreFusion().alpha, ScoreFusion().beta)
_MIDDLE = 0.2  # an alpha as questions decide it
_PARTS = ("dense", "lexical", "keyword")  # the order of v, r and ln(1 + |C|)
_AT_ONCE = 32  # questions asked side by side
_SEEN = 2.8  # standard errors: z(0.975) + z(0.80), seen in 80 of 100 samples at the level of 5%
_SURE = 1.96  # standard errors: a 95% interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A question and what answers it.

    Attributes:
        items: what must be found, each as the ids of the chunks that hold it; any of these will do.
        groups: names of what it is about, e.g. its gold documents; questions that share a name stay in one fold.
    """

    id: str
    text: str
    items: tuple[frozenset[str], ...]
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Candidates:
    """All chunks that any route found for a question.

    Attributes:
        parts: v, r and ln(1 + |C|) of each, shape (3, m).
        items: per item, the places of its chunks among the m; empty when no route found any.
        share: alpha, as the question decides it.
    """

    parts: Floats
    items: tuple[list[int], ...]
    share: float


def tune(
    questions: Sequence[Labelled],
    *,
    n: Annotated[int, Ge(2)],
    model: str,
    library: str = "",
    objective: Objective = "log-rank",
    k: Annotated[int, Ge(1)] = 5,
    depth: Annotated[int, Ge(1)] = 100,
    folds: Annotated[int, Ge(2)] = 5,
    alphas: Sequence[float] = GRID,
    betas: Sequence[float] = GRID,
) -> Step[Tuned]:
    """Choose alpha and beta of `ScoreFusion` on labelled questions, and say what the choice is worth.

    Each route is asked once per question, for `depth` hits, and for the chunks that only the others found; all grid
    points are then judged on these scores. Questions are ranked whole, without decomposition.

    The choice is made by the one-standard-error rule: of the points that are within one standard error of the best,
    the one nearest to the defaults. It is made once without each fold, for the held-out values, and once on all
    questions. It is adopted if the held-out gain over the defaults is at least 2.8 of its standard errors, which is
    what so many questions can be expected to show. Standard errors are over groups of questions that share a name.

    Args:
        questions: with gold; those without are left out, and counted.
        n: number of chunks in the library, the N of the Log-Rank Index.
        model: identity of the embedding model.
        library: what is searched, in words.
        objective: "log-rank": mean over the items of `1 - ln(rank) / ln(n)`, 0 for one that no route found;
            "recall": share of the items up to rank max(k, items). Equal scores share the mean of their ranks.
        k: cutoff of "recall".
        depth: hits per route, >= 1.
        folds: >= 2.
        alphas: tried, each in [0, 1].
        betas: tried, each >= 0.

    Raises:
        ParameterError: an argument is out of its domain, or the questions do not fall into as many groups as folds.
    """
    asked = sorted((question for question in questions if question.items), key=lambda question: question.id)
    clusters = clusters_of(asked)
    check_given({"objective": objective, "n": n, "k": k, "depth": depth, "folds": folds}, tune)
    _check(asked, clusters, folds, (alphas, betas))
    tried = tuple(sorted(set(alphas))), tuple(sorted(set(betas)))
    points: list[Weights] = [(alpha, beta) for alpha in tried[0] for beta in tried[1]]
    points.append(USUAL)
    values = np.empty((len(asked), len(points)))
    for start in range(0, len(asked), _AT_ONCE):
        some = asked[start : start + _AT_ONCE]
        found: list[_Candidates | Failed] = yield from together([_candidates(question, depth) for question in some])
        for number, candidates in enumerate(found, start=start):
            if isinstance(candidates, Failed):
                raise candidates.error
            cutoff = max(k, len(candidates.items)) if objective == "recall" else None
            values[number] = _values(candidates, points, n=n, cutoff=cutoff)
    choice = _Choice(points)
    return _judged(
        values,
        np.array(clusters),
        choice,
        folds=folds,
        frame={
            "objective": objective,
            "k": k if objective == "recall" else None,
            "n": n,
            "depth": depth,
            "questions": len(asked),
            "groups": len(set(clusters)),
            "left_out": len(questions) - len(asked),
            "alphas": tried[0],
            "betas": tried[1],
            "model": model,
            "library": library,
        },
    )


def _check(
    asked: Sequence[Labelled], clusters: Sequence[int], folds: int, grid: tuple[Sequence[float], Sequence[float]]
) -> None:
    for alpha in grid[0]:
        ScoreFusion(alpha=alpha)
    for beta in grid[1]:
        ScoreFusion(beta=beta)
    if len({question.id for question in asked}) != len(asked):
        raise ParameterError("questions", "an id that occurs twice", "questions with ids of their own")
    if len(set(clusters)) < folds:
        what = f"{len(asked)} with gold, in {len(set(clusters))} groups that share no document"
        raise ParameterError("questions", what, f"in at least {folds} groups: more questions, or fewer folds")


def _candidates(question: Labelled, depth: int) -> Step[_Candidates]:
    """Ask every route for its best, and for the chunks that only the others found."""
    steps = yield from together([ROUTES[name](question.text) for name in _PARTS])
    requests: list[Search] = []
    for step in steps:
        if isinstance(step, Failed):
            raise step.error
        requests.append(replace(step, k=depth))
    best: list[Ranking] = yield from ask(requests)
    asked = dict(zip(_PARTS, zip(requests, best, strict=True), strict=True))
    rankings, _ = yield from completed(asked, "raise")
    found = [{hit.chunk.id: hit.score for hit in rankings[name].hits} for name in _PARTS]
    ids = sorted(set().union(*found))
    formula = ScoreFusion().parts()
    parts = np.zeros((len(_PARTS), len(ids)))
    for row, name in enumerate(_PARTS):
        if every := found[row].values():
            bounds, normalise = ScoreBounds(low=min(every), high=max(every)), formula[name][1]
            parts[row] = [normalise(found[row][i], bounds) if i in found[row] else 0.0 for i in ids]
    place = {chunk_id: number for number, chunk_id in enumerate(ids)}
    items = tuple(sorted(place[i] for i in item if i in place) for item in question.items)
    return _Candidates(parts, items, dense_share(dict(zip(_PARTS, best, strict=True))))


def _values(candidates: _Candidates, points: Sequence[Weights], *, n: int, cutoff: int | None) -> Floats:
    """Return the objective for every point, shape (points,)."""
    shares = [candidates.share if alpha is None else alpha for alpha, _ in points]
    weights = np.array([(share, 1.0 - share, beta) for share, (_, beta) in zip(shares, points, strict=True)]).T
    scores = candidates.parts.T @ weights  # (m, points)
    total = np.zeros(weights.shape[1])
    for places in candidates.items:
        if not places:
            continue
        best = scores[places].max(axis=0)
        ranks = 1.0 + (scores > best).sum(axis=0) + ((scores == best).sum(axis=0) - 1) / 2
        total += np.maximum(1.0 - np.log(ranks) / log(n), 0.0) if cutoff is None else ranks <= cutoff
    return total / len(candidates.items)


@dataclass(frozen=True, slots=True)
class _Choice:
    """The points of the grid, and as the last one the default."""

    points: list[Weights]

    def of(self, values: Floats, clusters: NDArray[np.int64]) -> int:
        """Return the point nearest to the defaults among those within one standard error of the best."""
        means = values.mean(axis=0)
        order = sorted(range(len(self.points)), key=self._distance)
        best = max(order, key=lambda point: means[point])  # the first, so the nearest, of equal ones
        for point in order:
            lost = values[:, best] - values[:, point]
            if means[best] - means[point] <= _standard_error(lost, clusters):
                return point
        return best

    def _distance(self, point: int) -> tuple[float, float, float]:
        alpha, beta = self.points[point]
        if alpha is None:
            return -1.0, 0.0, beta
        return round(abs(alpha - _MIDDLE) + abs(beta - USUAL[1]), 9), alpha, beta


def _standard_error(values: Floats, clusters: NDArray[np.int64]) -> float:
    """Return the standard error of the mean of values that are independent between clusters only."""
    sums = np.bincount(clusters, weights=values - values.mean())
    count = len(np.unique(clusters))
    return float(np.sqrt((sums**2).sum() * count / max(count - 1, 1)) / len(values))


def _judged(
    values: Floats, clusters: NDArray[np.int64], choice: _Choice, *, folds: int, frame: dict[str, Any]
) -> Tuned:
    parts = folds_of(clusters, folds)
    held_out, reports = np.empty(len(values)), []
    for part in parts:
        rest = np.setdiff1d(np.arange(len(values)), part)
        point = choice.of(values[rest], clusters[rest])
        held_out[part] = values[part, point]
        alpha, beta = choice.points[point]
        usual = float(values[part, -1].mean())
        reports.append(
            Fold(alpha=alpha, beta=beta, questions=len(part), held_out=float(held_out[part].mean()), usual=usual)
        )
    gains = held_out - values[:, -1]
    gain, error = float(gains.mean()), _standard_error(gains, clusters)
    chosen = choice.points[choice.of(values, clusters)]
    adopted = gain > 0 and gain >= _SEEN * error
    alpha, beta = chosen if adopted else USUAL
    surface = values.mean(axis=0)[:-1].reshape(len(frame["alphas"]), len(frame["betas"]))
    return Tuned(
        alpha=alpha,
        beta=beta,
        adopted=adopted,
        chosen=chosen,
        usual=USUAL,
        held_out=float(held_out.mean()),
        held_out_usual=float(values[:, -1].mean()),
        gain=gain,
        interval=(gain - _SURE * error, gain + _SURE * error),
        detectable=_SEEN * error,
        folds=tuple(reports),
        surface=tuple(map(tuple, surface.tolist())),
        **frame,
    )


def clusters_of(questions: Sequence[Labelled]) -> list[int]:
    """Return for each question the number of its cluster: questions that share a name, directly or over others."""
    leader: dict[str, str] = {}

    def root(name: str) -> str:
        while (above := leader.setdefault(name, name)) != name:
            leader[name] = leader[above]
            name = above
        return name

    names = [sorted(f"group {group}" for group in q.groups) or [f"question {q.id}"] for q in questions]
    for first, *others in names:
        for other in others:
            leader[root(other)] = root(first)
    numbers: dict[str, int] = {}
    return [numbers.setdefault(root(first), len(numbers)) for first, *_ in names]


def folds_of(clusters: NDArray[np.int64], folds: int) -> list[NDArray[np.int64]]:
    """Return the questions of each fold: whole clusters, the largest first, each to the fold with the fewest."""
    parts: list[list[int]] = [[] for _ in range(folds)]
    sizes = np.bincount(clusters)
    for cluster in sorted(range(len(sizes)), key=lambda number: (-sizes[number], number)):
        min(parts, key=len).extend(np.flatnonzero(clusters == cluster).tolist())
    return [np.array(sorted(part), np.int64) for part in parts]


Objective: TypeAlias = Literal["log-rank", "recall"]

FORMAT = "catena-tuned-2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """One part of the questions, judged with weights that were chosen on all other parts.

    Attributes:
        alpha, beta: the weights chosen without this part; alpha is None where each question decides it.
        held_out: mean of the objective over this part, with these weights.
        usual: the same with the default weights.
    """

    alpha: float | None
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

    alpha: float | None
    beta: float
    adopted: bool
    chosen: Weights
    usual: Weights
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
        """Return the weights that `to_json` wrote.

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
        """Return the weights that `save` wrote.

        Raises:
            ParameterError: the file cannot be read, or holds something else.
        """
        try:
            text = regular_file(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "no UTF-8"
            raise ParameterError("path", f"{path} ({why})", "a file that `catena tune --out` wrote") from None
        return cls.from_json(text)

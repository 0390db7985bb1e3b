"""Train the small scorer with numpy alone: from questions with their supporting chunks, in seconds.

It learns from the choices of real walks: a walk is made for each training question, with hand-set weights first and
with the learned ones then, and every choice is kept that had a supporting chunk among its candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Lt
from numpy.typing import NDArray

from catena.effects import Cancel, Step
from catena.graph.options import WalkOptions
from catena.graph.scoring import FEATURES, Candidates, FeatureScorer, Scorer, UntrainedScorer, WalkQuestion, features
from catena.graph.walking import walk
from catena.model import CancelledError, Checked, ParameterError, Ranking

_LEAST_SPREAD = 1e-3  # of a feature; nothing can be learned from one that varies less
_NOTHING_TO_LEARN = (
    "more questions, with supporting passages in several chunks that the graph leads to from the first hits"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCase:
    """The input of a training walk: a question, the ranking it begins with, the ids of its supporting chunks."""

    question: WalkQuestion
    ranking: Ranking
    supporting: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """One choice of a walk: a row of features per way to go on, and which of them lead to a supporting chunk."""

    rows: NDArray[np.float32]
    right: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureTraining(Checked):
    """Options of the training of the small scorer.

    Attributes:
        networks: that are averaged; they differ in their random start and in what is hidden from them.
        units: of each network.
        rounds: of walks: by hand-set weights, then by what was learned from all choices so far.
        epochs: over all choices, per network.
        rate: of learning (Adam).
        batch: choices per step.
        hidden: share of the features that are replaced by their means in a second copy of each choice, so that no
            single one is relied on: a feature that helps in one collection may not help in the next.
        hops: chunks that a training walk takes.
        seed: of all random numbers.
        walk: of the training walks; its `max_chunks` is `hops`.
    """

    networks: Annotated[int, Ge(1)] = 8
    units: Annotated[int, Ge(1)] = 16
    rounds: Annotated[int, Ge(1)] = 2
    epochs: Annotated[int, Ge(1)] = 20
    rate: Annotated[float, Gt(0), Lt(1)] = 3e-3
    batch: Annotated[int, Ge(1)] = 64
    hidden: Annotated[float, Ge(0), Lt(1)] = 0.5
    hops: Annotated[int, Ge(1)] = 5
    seed: Annotated[int, Ge(0)] = 0
    walk: WalkOptions = field(default_factory=WalkOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureProgress:
    """A walk was made, or a network trained: `done` of `total` of this stage."""

    stage: str
    done: int
    total: int


Watch = Callable[[FeatureProgress], None]


def train_features(
    cases: Sequence[TrainingCase],
    training: FeatureTraining | None = None,
    *,
    watch: Watch | None = None,
    cancel: Cancel | None = None,
) -> Step[FeatureScorer]:
    """Return a scorer trained on these questions; equal cases and options give equal weights.

    Args:
        cases: of one graph, or of several: a step asks the graph of the run, so those of one graph at a time; see
            `choices_of` and `fit` for several.
        training: how.
        watch: told of every walk and network.
        cancel: another thread may stop it.

    Raises:
        ParameterError: there is no case, or no walk of any came to a choice with a supporting chunk.
        CancelledError: it was stopped.
    """
    training = training or FeatureTraining()
    choices = yield from choices_of(cases, UntrainedScorer(), training, watch=watch, cancel=cancel)
    scorer = fit(choices, training, watch=watch, cancel=cancel)
    for number in range(1, training.rounds):
        choices += yield from choices_of(cases, scorer, training, watch=watch, cancel=cancel)
        scorer = fit(choices, replace(training, seed=training.seed + number), watch=watch, cancel=cancel)
    return FeatureScorer(weights=scorer.weights, record={**scorer.record, "questions": len(cases)})


def choices_of(
    cases: Sequence[TrainingCase],
    scorer: Scorer,
    training: FeatureTraining,
    *,
    watch: Watch | None = None,
    cancel: Cancel | None = None,
) -> Step[list[Choice]]:
    """Return the choices of one walk per case that have a right way on and a wrong one, in order."""
    options = replace(training.walk, max_chunks=training.hops)
    found: list[Choice] = []
    for done, case in enumerate(cases, start=1):
        check_cancelled(cancel)
        notes = _RecordingScorer(scorer, case.supporting)
        yield from walk(case.question, case.ranking, options, notes, k=training.hops)
        found.extend(choice for choice in notes.choices if choice.right.any() and not choice.right.all())
        tell(watch, "walks", done, len(cases))
    return found


class _RecordingScorer:
    """A scorer that records the candidates it is shown, and scores them by another one."""

    def __init__(self, scorer: Scorer, supporting: frozenset[str]) -> None:
        self._scorer, self._supporting = scorer, supporting
        self.identity = scorer.identity
        self.choices: list[Choice] = []

    def score(self, candidates: Candidates) -> Step[NDArray[np.float64]]:
        right = np.array([chunk_id in self._supporting for chunk_id in candidates.nodes.ids], dtype=bool)
        self.choices.append(Choice(rows=features(candidates), right=right))
        return (yield from self._scorer.score(candidates))


def fit(
    choices: Sequence[Choice],
    training: FeatureTraining | None = None,
    *,
    watch: Watch | None = None,
    cancel: Cancel | None = None,
) -> FeatureScorer:
    """Return a scorer fitted to choices: `loss = -ln(sum over right rows of softmax(score))`, averaged over choices.

    Raises:
        ParameterError: no choice has a right way on and a wrong one.
        CancelledError: it was stopped.
    """
    training = training or FeatureTraining()
    usable = [choice for choice in choices if choice.right.any() and not choice.right.all()]
    if not usable:
        allowed = "at least one with a supporting chunk among the candidates, and another chunk"
        raise ParameterError("choices of the training walks", len(choices), allowed, _NOTHING_TO_LEARN)
    rows = np.concatenate([choice.rows for choice in usable]).astype(np.float64)
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    varied = deviation > _LEAST_SPREAD  # nothing can be learned from the others: their weights are 0
    spread = np.where(varied, deviation + _LEAST_SPREAD, 1.0)
    networks, losses, count = [], [], len(FEATURES)
    for number in range(training.networks):
        random = np.random.default_rng((training.seed, number))
        standard = [((choice.rows - mean) / spread, choice.right) for choice in usable]
        if training.hidden:  # a second copy of each choice, some of its features at their means
            gaps = [(np.where(random.random(count) < training.hidden, 0.0, rows), right) for rows, right in standard]
            standard += gaps
        network, loss = _fitted(standard, training, random, cancel)
        networks.append(network)
        losses.append(loss)
        tell(watch, "networks", number + 1, training.networks)
    arrays = [np.stack(each).astype(np.float32) for each in zip(*networks, strict=True)]
    weights = dict(zip(("hidden", "bias", "out"), arrays, strict=True))
    weights["hidden"][:, ~varied] = 0.0
    weights |= {"mean": mean.astype(np.float32), "spread": spread.astype(np.float32)}
    record = {"choices": len(usable), "loss_per_epoch": np.mean(losses, axis=0).round(4).tolist()}
    return FeatureScorer(weights=weights, record=record)


_Standard = tuple["NDArray[np.float64]", "NDArray[np.bool_]"]


def _fitted(
    choices: Sequence[_Standard], training: FeatureTraining, random: np.random.Generator, cancel: Cancel | None
) -> tuple[list[NDArray[np.float64]], list[float]]:
    """Return the weights of one network (hidden, bias, out), and its mean loss in each epoch."""
    count, units = len(FEATURES), training.units
    weights = [
        random.normal(0.0, count**-0.5, (count, units)),
        np.zeros(units),
        random.normal(0.0, units**-0.5, units),
    ]
    adam = _Adam(weights, training.rate)
    losses: list[float] = []
    for _ in range(training.epochs):
        check_cancelled(cancel)
        order = random.permutation(len(choices))
        total = 0.0
        for first, last in pairwise([*range(0, len(order), training.batch), len(order)]):
            loss, slopes = _slopes(weights, [choices[at] for at in order[first:last]])
            adam.step(weights, slopes)
            total += loss * (last - first)
        losses.append(total / len(order))
    return weights, losses


def _slopes(
    weights: Sequence[NDArray[np.float64]], choices: Sequence[_Standard]
) -> tuple[float, list[NDArray[np.float64]]]:
    """Return the mean loss of some choices, and its derivative by each weight."""
    hidden, bias, out = weights
    rows = np.concatenate([rows for rows, _ in choices])
    right = np.concatenate([right for _, right in choices])
    lengths = np.array([len(rows) for rows, _ in choices])
    starts, owner = np.cumsum(lengths) - lengths, np.repeat(np.arange(len(choices)), lengths)
    units = np.tanh(rows @ hidden + bias)
    scores = units @ out
    powers = np.exp(scores - np.maximum.reduceat(scores, starts)[owner])
    sums = np.add.reduceat(powers, starts)
    of_right = np.add.reduceat(powers * right, starts)
    slope = (powers / sums[owner] - powers * right / np.maximum(of_right, 1e-300)[owner]) / len(choices)
    below = np.outer(slope, out) * (1.0 - units * units)
    loss = float(-np.log(np.maximum(of_right, 1e-300) / sums).mean())
    return loss, [rows.T @ below, below.sum(axis=0), units.T @ slope]


class _Adam:
    """Adam (Kingma and Ba, arXiv 1412.6980), with its usual constants; weights are changed in place."""

    def __init__(self, weights: Sequence[NDArray[np.float64]], rate: float) -> None:
        self._rate, self._steps = rate, 0
        self._first = [np.zeros_like(each) for each in weights]
        self._second = [np.zeros_like(each) for each in weights]

    def step(self, weights: Sequence[NDArray[np.float64]], slopes: Sequence[NDArray[np.float64]]) -> None:
        self._steps += 1
        for at, slope in enumerate(slopes):
            self._first[at] += 0.1 * (slope - self._first[at])
            self._second[at] += 0.001 * (slope * slope - self._second[at])
            first = self._first[at] / (1.0 - 0.9**self._steps)
            second = self._second[at] / (1.0 - 0.999**self._steps)
            weights[at][...] -= self._rate * first / (np.sqrt(second) + 1e-8)


def tell(watch: Watch | None, stage: str, done: int, total: int) -> None:
    """Report the progress of a stage to a callback, if there is one."""
    if watch is not None:
        watch(FeatureProgress(stage=stage, done=done, total=total))


def check_cancelled(cancel: Cancel | None) -> None:
    """Raise `CancelledError` if the caller wants to stop."""
    if cancel is not None and cancel.is_set:
        raise CancelledError

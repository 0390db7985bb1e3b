"""Measure calibration: whether a fit finds the numbers that made the scores, and how true probabilities become.

Scores of a real retriever are fitted on one split of a collection and judged on the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from catena import ParameterError, segments
from catena.enrichment import StaticEmbedder
from catena_bench.figures import Figures, Tell, silent
from catena_bench.graph_data import read_split

Floats = NDArray[np.float64]

SHAPES = ((0.4, 0.4), (0.5, 1.8), (2.0, 5.0), (1.0, 1.0), (8.0, 3.0), (0.2, 0.9), (30.0, 60.0))  # (a, b)
COUNTS = (2_000, 5_000, 20_000)  # scores per fit
DRAWS = 20  # samples per shape and count
CLOSE = 0.05  # relative error that counts as found
ROUNDS = 200  # of the bootstrap over questions
DRAWN = {
    "raw": "cosine, as it is",
    "labelled": "calibrated on the train split",
}  # whose bins are kept, for the picture


def run(data: Path | None = None, *, depth: int = 50, seed: int = 0, tell: Tell = silent) -> Figures:
    """Fit synthetic scores, and where a collection is given, the cosines of the shipped embedding.

    For each question, the `depth` paragraphs of its split with the highest cosine are scored; the supporting ones are
    relevant. Fitted on the train split, judged on the dev split: "raw", the cosine as it is, clipped to [0, 1];
    "cohere", the Beta preset, which is not made for it; "share", everywhere the share of relevant ones in the train
    split; "unlabelled", a Beta fitted to the scores alone; "labelled",
    beta calibration.

    Args:
        data: a folder with {train,dev}_{corpus,questions}.jsonl(.gz): id and text; id, question and supporting.
        depth: paragraphs per question.
        seed: of the synthetic scores and of the bootstrap.
        tell: is told how far the run is.

    Returns:
        `recovery.worst.N` and `.median.N`, the greatest and the median relative error of a and b, and
        `recovery.close.N`, the share of fits within 5%, at N scores, and `recovery.bound.N`, the relative standard
        error that chance alone makes of it; `ece.METHOD` with 95% interval over questions,
        `brier.METHOD`, `log_loss.METHOD`; `bin.METHOD.NN.predicted`, `.observed`, `.n`.

    Raises:
        ParameterError: the folder has not that layout, or says too little.
    """
    if depth < 1:
        raise ParameterError("depth", depth, "an integer >= 1")
    figures: dict[str, float] = {}
    for count in COUNTS:
        tell(f"fitting {len(SHAPES) * DRAWS} samples of {count} synthetic scores")
        errors = [
            _error(*shape, count, np.random.default_rng((seed, count, draw)))
            for shape in SHAPES
            for draw in range(DRAWS)
        ]
        figures |= {
            f"recovery.worst.{count}": max(errors),
            f"recovery.median.{count}": median(errors),
            f"recovery.close.{count}": sum(error <= CLOSE for error in errors) / len(errors),
            f"recovery.bound.{count}": max(_least_error(*shape, count) for shape in SHAPES),
        }
    if data is None:
        return figures
    train, dev = (_scored(data, split, depth, tell) for split in ("train", "dev"))
    return figures | _judged(train, dev, np.random.default_rng(seed))


def _least_error(a: float, b: float, count: int) -> float:
    """Return the greater of the relative standard errors of a and b that no unbiased estimate can go below.

    Source: the Cramér-Rao bound, of the Beta distribution's Fisher information.
    """
    both = segments.trigamma(a + b)
    information = count * np.asarray([[segments.trigamma(a) - both, -both], [-both, segments.trigamma(b) - both]])
    variances = np.diag(np.linalg.inv(information))
    return float(max(np.sqrt(variances) / (a, b)))


def _error(a: float, b: float, count: int, draw: np.random.Generator) -> float:
    """Return the greater of the relative errors of a and b, fitted to a sample."""
    found = segments.fit_beta(draw.beta(a, b, count)).calibration
    assert isinstance(found, segments.BetaCDF)
    return max(abs(found.a / a - 1.0), abs(found.b / b - 1.0))


@dataclass(frozen=True, slots=True)
class _Scored:
    """Cosines of one split: one row per question, shape (questions, depth), and which of them are relevant."""

    scores: Floats
    relevant: NDArray[np.bool_]


def _judged(train: _Scored, dev: _Scored, draw: np.random.Generator) -> dict[str, float]:
    first = segments.Linear(-1.0, 1.0)
    groups = np.repeat(np.arange(len(train.scores)), train.scores.shape[1]).tolist()
    unlabelled = segments.fit_beta(train.scores.ravel(), first=first)
    fit = segments.fit_labelled(train.scores.ravel(), train.relevant.ravel(), first=first, groups=groups)
    methods: dict[str, segments.Calibration] = {
        "raw": segments.Identity(),
        "cohere": segments.COHERE,
        "share": segments.Constant(float(train.relevant.mean())),
        "unlabelled": unlabelled.calibration,
        "labelled": fit.calibration,
    }
    figures: dict[str, float] = {
        "n_questions.train": len(train.scores),
        "n_questions.dev": len(dev.scores),
        "n_scores.train": train.scores.size,
        "n_scores.dev": dev.scores.size,
        "share_relevant.train": float(train.relevant.mean()),
        "share_relevant.dev": float(dev.relevant.mean()),
        "distance.unlabelled": unlabelled.distance,
        "ece.held_out_in_train": fit.after.ece,
    }
    for name, method in methods.items():
        predicted = method(dev.scores)
        found = segments.quality(predicted.ravel(), dev.relevant.ravel())
        low, high = _interval(predicted, dev.relevant, draw)
        figures |= {
            f"ece.{name}": found.ece,
            f"ece.{name}.low": low,
            f"ece.{name}.high": high,
            f"brier.{name}": found.brier,
            f"log_loss.{name}": found.log_loss,
        }
        if name in DRAWN:
            for number, each in enumerate(segments.reliability(predicted.ravel(), dev.relevant.ravel()).bins):
                key = f"bin.{name}.{number:02d}"
                figures |= {f"{key}.predicted": each.predicted, f"{key}.observed": each.observed, f"{key}.n": each.n}
    return figures


def _interval(predicted: Floats, relevant: NDArray[np.bool_], draw: np.random.Generator) -> tuple[float, float]:
    """Return the 95% bootstrap interval of the ECE, questions drawn with replacement."""
    found = []
    for _ in range(ROUNDS):
        drawn = draw.integers(len(predicted), size=len(predicted))
        found.append(segments.reliability(predicted[drawn].ravel(), relevant[drawn].ravel()).ece)
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def _scored(data: Path, split: str, depth: int, tell: Tell) -> _Scored:
    of_split = read_split(data, split)
    tell(f"embedding {len(of_split.chunks)} paragraphs and {len(of_split.questions)} questions of {split}")
    embedder = StaticEmbedder()
    names = np.asarray([chunk.id for chunk in of_split.chunks])
    matrix = embedder.embed_documents([chunk.text for chunk in of_split.chunks])
    scores, relevant = [], []
    for question in of_split.questions:
        cosines = np.asarray(matrix @ embedder.embed_query(question.text), dtype=np.float64)
        best = np.lexsort((names, -cosines))[:depth]
        scores.append(cosines[best])
        relevant.append([name in question.evidence for name in names[best].tolist()])
    return _Scored(np.asarray(scores), np.asarray(relevant, dtype=np.bool_))

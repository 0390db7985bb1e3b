"""How near questions stand to the texts that answer them, before and after a change of the texts (HiQA, Table 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from catena.effects import Embed, Step, ask
from catena.evaluation.significance import PairedComparison, compare
from catena.model.errors import EvaluationError

Matrix = NDArray[np.float64]

BATCH = 256  # texts per request: large enough to be quick, small enough to be told of and stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """What a change of the texts did to their inner products with the questions.

    Attributes:
        before, after: per pair, in order.
        comparison: after against before, paired; its `difference` is the mean gain.
        points: rows of question, text before and text after, in this order and pair by pair, unit length,
            shape (3 n, dim); for pictures.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    comparison: PairedComparison
    points: Matrix = field(repr=False, compare=False)

    @property
    def mean_before(self) -> float:
        """The mean inner product before."""
        return fsum(self.before) / len(self.before)

    @property
    def mean_after(self) -> float:
        """The mean inner product after."""
        return fsum(self.after) / len(self.after)

    def __str__(self) -> str:
        found = self.comparison
        return (
            f"inner product {self.mean_before:.3f} -> {self.mean_after:.3f} ({found.difference:+.3f} "
            f"[{found.interval[0]:+.3f}, {found.interval[1]:+.3f}], p {found.p:.4f}, n = {found.n})"
        )


def unit_rows(texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> Step[Matrix]:
    """Return the texts as unit-length rows, shape (len(texts), dim); a row of zeros stays one.

    Raises:
        ServiceError: the embedder failed.
    """
    batches = [tuple(texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)]
    replies = yield from ask([Embed(texts=batch, kind=kind, purpose="evaluation") for batch in batches])
    rows = np.concatenate([np.asarray(reply, dtype=np.float64) for reply in replies]) if replies else np.zeros((0, 0))
    return normalised(rows)


def normalised(rows: NDArray[np.floating]) -> Matrix:
    """Return the rows at unit length, in double precision; a row of zeros stays one."""
    rows = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0), dtype=np.float64)


def inner_products(questions: Sequence[str], texts: Sequence[str]) -> Step[tuple[float, ...]]:
    """Return `<q_i, t_i>` of the unit vectors of question i and text i: 1 for the same direction.

    `run(inner_products(questions, texts), Services(embedder=...))` gives the numbers of HiQA's Table 3; the distance
    that goes with them is `1 - <q, t>`.

    Raises:
        EvaluationError: there are not as many texts as questions, or none.
        ServiceError: the embedder failed.
    """
    _check_pairs(questions, texts)
    asked = yield from unit_rows(questions, kind="query")
    found = yield from unit_rows(texts)
    return tuple(map(float, (asked * found).sum(axis=1)))


def embedding_shift(questions: Sequence[str], before: Sequence[str], after: Sequence[str]) -> Step[Shift]:
    """Return what changing each text from `before` to `after` does to its inner product with its question.

    For HiQA's Table 3, `before` are whole tables and `after` their definitions (title, row and column labels).

    Raises:
        EvaluationError: the three are not of one length, or empty.
        ServiceError: the embedder failed.
    """
    _check_pairs(questions, before)
    _check_pairs(questions, after)
    asked = yield from unit_rows(questions, kind="query")
    old = yield from unit_rows(before)
    new = yield from unit_rows(after)
    first, then = (tuple(map(float, (asked * rows).sum(axis=1))) for rows in (old, new))
    names = [f"{number:09d}" for number in range(len(questions))]
    gains = compare(dict(zip(names, then, strict=True)), dict(zip(names, first, strict=True)))
    points = np.stack([asked, old, new], axis=1).reshape(3 * len(questions), -1)
    return Shift(before=first, after=then, comparison=gains, points=points)


def question_distances(
    questions: Sequence[str], contexts: Mapping[str, Sequence[str]]
) -> Step[dict[str, tuple[float, ...]]]:
    """Return `1 - <q_i, c_i>` for several ways to write the contexts (HiQA, Figure 10), by their names.

    Args:
        questions: at least one.
        contexts: e.g. "cascade", "title", "body", each with one context per question.

    Raises:
        EvaluationError: a way has not one context per question, or there are no questions.
        ServiceError: the embedder failed.
    """
    for texts in contexts.values():
        _check_pairs(questions, texts)
    asked = yield from unit_rows(questions, kind="query")
    distances: dict[str, tuple[float, ...]] = {}
    for name, texts in contexts.items():
        found = yield from unit_rows(texts)
        distances[name] = tuple(map(float, 1.0 - (asked * found).sum(axis=1)))
    return distances


def _check_pairs(questions: Sequence[str], texts: Sequence[str]) -> None:
    if isinstance(questions, str) or isinstance(texts, str):
        raise EvaluationError("expected several questions and several texts, got one string. Try: a list of each")
    if not questions or len(questions) != len(texts):
        raise EvaluationError(f"{len(questions)} questions and {len(texts)} texts are no pairs: one text for each")

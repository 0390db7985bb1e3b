"""Scores of written answers as HiQA reports them: Accuracy (1, 0.5, 0) and Adequacy (ranks turned upside down)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, isfinite

from catena.evaluation.judgements import check_ids
from catena.evaluation.significance import bootstrap_interval
from catena.model.errors import EvaluationError

GRADES = (0.0, 0.5, 1.0)  # wrong, partially correct, correct


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanScore:
    """A mean over questions.

    Attributes:
        interval: bootstrap confidence interval at `level`; None for a single question, which says nothing of others.
        n: number of questions.
    """

    value: float
    interval: tuple[float, float] | None
    level: float
    n: int

    def __str__(self) -> str:
        around = "" if self.interval is None else f" [{self.interval[0]:.3f}, {self.interval[1]:.3f}]"
        return f"{self.value:.3f}{around} (n = {self.n})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Accuracy over all questions, and by their kind.

    Attributes:
        by_kind: sorted by kind; empty where no kinds were given.
    """

    overall: MeanScore
    by_kind: Mapping[str, MeanScore] = field(hash=False)


def mean_score(values: Sequence[float], *, level: float = 0.95, rounds: int = 10_000, seed: int = 0) -> MeanScore:
    """Return the mean of values per question, with its bootstrap interval.

    Raises:
        EvaluationError: there are no values, or one is not finite.
        ParameterError: level or rounds is outside its domain.
    """
    interval = bootstrap_interval(values, level=level, rounds=rounds, seed=seed)
    n = len(values)
    return MeanScore(value=fsum(values) / n, interval=interval if n > 1 else None, level=level, n=n)


def accuracy(
    grades: Mapping[str, float],
    kinds: Mapping[str, str] | None = None,
    *,
    level: float = 0.95,
    rounds: int = 10_000,
    seed: int = 0,
) -> Accuracy:
    """Return `Accuracy = mean of the grades`, each 1 (correct), 0.5 (partially correct) or 0 (wrong).

    Args:
        grades: by question id; an answer that is missing is wrong, and is to be given as 0.
        kinds: the kind of each of these questions; may hold other questions too.
        level: of the confidence intervals, in (0, 1).
        rounds: bootstrap samples.
        seed: of the samples.

    Raises:
        EvaluationError: there are no grades, one is none of the three, or a question has no kind.
        ParameterError: level or rounds is outside its domain.

    Source: HiQA, arXiv:2402.01767, appendix A.4.
    """
    check_ids(grades, "graded questions")
    for question, grade in grades.items():
        if grade not in GRADES:
            raise EvaluationError(f"question {question!r}: the grade must be 1, 0.5 or 0, got {grade!r}")
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for question in sorted(grades if kinds is not None else ()):
        if kinds is None or question not in kinds:
            raise EvaluationError(f"question {question!r} has no kind. Try: a kind for each, or none at all")
        groups[kinds[question]].append(float(grades[question]))
    values = [float(grades[question]) for question in sorted(grades)]
    return Accuracy(
        overall=mean_score(values, level=level, rounds=rounds, seed=seed),
        by_kind={kind: mean_score(groups[kind], level=level, rounds=rounds, seed=seed) for kind in sorted(groups)},
    )


def adequacy_scores(ranks: Mapping[str, float]) -> dict[str, float]:
    """Return `(K + 1) - rank` of each of K methods for one question: K for the best, 1 for the worst.

    Args:
        ranks: by method, 1 the best. Methods of equal rank share their places: they may be given the first of these
            (1, 1, 3) or the mean of them (1.5, 1.5, 3), and count with the mean, so that scores sum to K (K + 1) / 2.

    Raises:
        EvaluationError: there are no methods, or the numbers are not a ranking of them (as 1, 1, 2 is not).

    Source: HiQA, arXiv:2402.01767, appendix A.4, which says nothing of ties.
    """
    check_ids(ranks, "ranked methods")
    places = _mid_ranks(ranks)
    return {method: len(ranks) + 1 - place for method, place in places.items()}


def adequacy(
    ranks: Mapping[str, Mapping[str, float]], *, level: float = 0.95, rounds: int = 10_000, seed: int = 0
) -> dict[str, MeanScore]:
    """Return each method's mean Adequacy over the questions, sorted by method.

    Args:
        ranks: by question and method, as `adequacy_scores` takes them.
        level: of the confidence intervals, in (0, 1).
        rounds: bootstrap samples.
        seed: of the samples.

    Raises:
        EvaluationError: there are no questions, the questions rank different methods, or one is no ranking.
        ParameterError: level or rounds is outside its domain.
    """
    check_ids(ranks, "ranked questions")
    if not ranks:
        raise EvaluationError("Adequacy needs at least one question whose answers were ranked")
    methods = set(ranks[min(ranks)])
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for question in sorted(ranks):
        if set(ranks[question]) != methods:
            lone = min(set(ranks[question]) ^ methods)
            raise EvaluationError(
                f"question {question!r} ranks other methods than question {min(ranks)!r}, e.g. {lone!r}. "
                "Try: a rank for every method; one without an answer is last"
            )
        try:
            found = adequacy_scores(ranks[question])
        except EvaluationError as error:
            raise EvaluationError(f"question {question!r}: {error}") from None
        for method, score in found.items():
            scores[method].append(score)
    return {name: mean_score(scores[name], level=level, rounds=rounds, seed=seed) for name in sorted(scores)}


def _mid_ranks(ranks: Mapping[str, float]) -> dict[str, float]:
    """Return the mean of the places that methods of equal rank share, after the check that it is a ranking."""
    if not ranks:
        raise EvaluationError("there is no method to be ranked")
    groups: defaultdict[float, list[str]] = defaultdict(list)
    for method, rank in ranks.items():
        if not isinstance(rank, int | float) or isinstance(rank, bool) or not isfinite(rank):
            raise EvaluationError(f"the rank of {method!r} must be a number, got {rank!r}")
        groups[float(rank)].append(method)
    places: dict[str, float] = {}
    first = 1
    for rank in sorted(groups):
        size = len(groups[rank])
        middle = first + (size - 1) / 2
        if rank not in (first, middle):
            raise EvaluationError(
                f"{sorted(ranks.values())} is no ranking of {len(ranks)} methods: after {first - 1} of them the next "
                f"rank is {first}, got {rank:g}. Try: 1, 2, 3, … and for ties 1, 1, 3 or 1.5, 1.5, 3"
            )
        places |= dict.fromkeys(groups[rank], middle)
        first += size
    return places

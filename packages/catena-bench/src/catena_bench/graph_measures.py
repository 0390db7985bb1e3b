"""The figures of rankings whose evidence is several passages: recall, all of it, intervals, and paired tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from catena.evaluation import EvidenceResult, compare, evaluate_evidence, holm
from catena.model import Ranking
from catena_bench.graph_data import Asked

CUTOFFS = (2, 5, 10, 20)
COMPARED = ("recall@5", "all@5")
ROUNDS = 2_000  # bootstrap samples, and sign patterns of a test

Results: TypeAlias = "Mapping[str, EvidenceResult]"
"""By measure."""


def results_of(questions: Sequence[Asked], rankings: Sequence[Ranking], cutoffs: Sequence[int] = CUTOFFS) -> Results:
    """Return recall at the cutoffs, and how often all evidence is among the first five."""
    gold = {question.id: question.evidence for question in questions}
    run = {question.id: ranking for question, ranking in zip(questions, rankings, strict=True)}
    measures = dict.fromkeys((*(f"recall@{k}" for k in cutoffs), *COMPARED))
    return evaluate_evidence(gold, run, tuple(measures), rounds=ROUNDS)


def figures_of(method: str, results: Results) -> dict[str, float]:
    """Return the means of a method in percent, `recall_at_5.METHOD`, with the ends of their 95% bootstrap intervals.

    These are `recall_at_5.low.METHOD` and `recall_at_5.high.METHOD`; of a single question there are none.
    """
    figures: dict[str, float] = {}
    for name, result in results.items():
        key = _key(name)
        assert result.mean is not None  # every question that was read has evidence
        figures[f"{key}.{method}"] = 100 * result.mean.value
        if result.mean.interval is not None:
            low, high = result.mean.interval
            figures |= {f"{key}.low.{method}": 100 * low, f"{key}.high.{method}": 100 * high}
    return figures


def differences_of(found: Mapping[str, Results], pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Return what one method has over another in points, question by question, of `COMPARED`.

    `difference.recall_at_5.A-B` with `.low` and `.high`, the ends of its 95% interval, `.p` of the randomisation test
    and `.p_holm`, the same corrected for the number of pairs.

    Args:
        found: method -> its results.
        pairs: (A, B); one of which a method was not measured is left out.
    """
    figures: dict[str, float] = {}
    for name in COMPARED:
        values = {method: results[name].per_question for method, results in found.items()}
        figures |= paired(_key(name), values, pairs)
    return figures


def paired(
    measure: str, values: Mapping[str, Mapping[str, float]], pairs: Sequence[tuple[str, str]]
) -> dict[str, float]:
    """Return the figures of `differences_of` of one measure, from its values in [0, 1] by method and question."""
    tests = {
        f"difference.{measure}.{one}-{other}": compare(values[one], values[other], rounds=ROUNDS)
        for one, other in pairs
        if one in values and other in values
    }
    corrected = holm({key: test.p for key, test in tests.items()})
    figures: dict[str, float] = {}
    for key, test in tests.items():
        low, high = test.interval
        figures |= {key: 100 * test.difference, f"{key}.low": 100 * low, f"{key}.high": 100 * high}
        figures |= {f"{key}.p": test.p, f"{key}.p_holm": corrected[key]}
    return figures


def _key(measure: str) -> str:
    return measure.replace("@", "_at_")

"""Check a ranking metric of any framework on rankings whose order of merit is known."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from catena.model.ids import digest
from catena.testing.conformance import (
    Check,
    ConformanceReport,
    Detector,
    async_problems,
    given,
    refusal_problems,
    report_of,
    same_by_copies,
)

Judge = Callable[[Sequence[str], Sequence[str]], float | None]
AsyncJudge = Callable[[Sequence[str], Sequence[str]], Awaitable[float | None]]

IDS = tuple("abcdefghij")
GOOD, MIDDLING, POOR = IDS, ("j", "a", *IDS[1:-1]), tuple(reversed(IDS))
_ASKED = MIDDLING, ("a",)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSubject:
    """A metric: higher is better, between 0 and 1.

    Attributes:
        name: for the report.
        judge: the score of the ids found, best first, given the ids that are relevant; None where it has none.
        ajudge: the same, async; None where there is no such call.
        cutoff: how many of the first it looks at; None where it looks at all.
        copies: by name, how a copy (pickled, serialised) judges.
    """

    name: str
    judge: Judge
    ajudge: AsyncJudge | None = None
    cutoff: int | None = None
    copies: Mapping[str, Judge] = field(default_factory=dict)


def problems_of_evaluator(subject: EvaluatorSubject, *, blocking_detector: Detector | None = None) -> tuple[str, ...]:
    """Return what a metric does not keep, each as one sentence; () when all is well.

    Args:
        subject: the metric.
        blocking_detector: opens a context in which blocking the event loop is an error.
    """
    return report_of_evaluator(subject, blocking_detector=blocking_detector).problems


def report_of_evaluator(subject: EvaluatorSubject, *, blocking_detector: Detector | None = None) -> ConformanceReport:
    """Return what every check of the suite gave; see `problems_of_evaluator`."""
    s = subject
    checks: dict[str, Check | None] = {
        "between 0 and 1": lambda: _range(s),
        "better is higher": lambda: _order(s),
        "nothing found": lambda: () if s.judge((), ("a",)) == 0.0 else ("an empty ranking is not worth 0",),
        "nothing relevant": lambda: _none_relevant(s),
        "named twice": lambda: _twice(s),
        "equal calls, equal answers": lambda: () if _all(s) == _all(s) else ("two calls differ",),
        "async": given(s.ajudge, lambda ajudge: _async(s.judge, ajudge, blocking_detector)),
        "copies": same_by_copies(
            s.copies, lambda judge: judge(*_ASKED), lambda: s.judge(*_ASKED), "judges otherwise"
        ),
    }
    return report_of(s.name, "evaluator", checks, lambda: digest("scores", str(_all(s))))


def _all(subject: EvaluatorSubject) -> list[float | None]:
    return [subject.judge(found, ("a",)) for found in (GOOD, MIDDLING, POOR)]


def _range(subject: EvaluatorSubject) -> Iterator[str]:
    for score in _all(subject):
        if score is None or not math.isfinite(score) or not 0 <= score <= 1:
            yield f"a score is {score}"
            return
    if subject.judge(GOOD, ("a",)) != 1.0:
        yield "the best ranking is not worth 1"


def _order(subject: EvaluatorSubject) -> Iterator[str]:
    cutoff = len(IDS) if subject.cutoff is None else subject.cutoff
    good, poor = subject.judge(GOOD, ("a",)), subject.judge(POOR, ("a",))
    if good is not None and poor is not None and (good < poor or (cutoff < len(IDS) and good == poor)):
        yield "a poor ranking is worth as much as a good one"
    if subject.cutoff is None and good == poor:
        yield "the rank does not count"


def _none_relevant(subject: EvaluatorSubject) -> Iterator[str]:
    def call() -> None:
        score = subject.judge(GOOD, ())
        if score is not None:
            raise AssertionError(f"{score} is no score of a question without an answer")

    yield from refusal_problems("a question to which nothing is relevant", call)


def _twice(subject: EvaluatorSubject) -> Iterator[str]:
    if subject.judge(("b", "b", "a"), ("a",)) != subject.judge(("b", "a"), ("a",)):
        yield "what is named twice counts twice"


def _async(judge: Judge, ajudge: AsyncJudge, detector: Detector | None) -> Iterator[str]:
    async def work() -> float | None:
        return await ajudge(*_ASKED)

    yield from async_problems(lambda: judge(*_ASKED), work, detector)

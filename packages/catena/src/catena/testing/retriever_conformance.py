"""Check a retriever of any framework, one that finds something, without a test framework."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catena.testing.conformance import (
    Check,
    ConformanceReport,
    Detector,
    Failure,
    Flat,
    Found,
    Meeting,
    async_problems,
    awaited,
    change_problems,
    failure_problems,
    fingerprint_of,
    id_problems,
    metadata_problems,
    offset_problems,
    overlap_problems,
    provenance_problems,
    refusal_problems,
    report_of,
    score_problems,
)

Ask = Callable[[str], Sequence[Found]]
AsyncAsk = Callable[[str], Awaitable[Sequence[Found]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtering:
    """Questions that are put to a part of what can be found.

    Attributes:
        ask: of the question and the filter.
        where: a filter that keeps some of what is found and not all.
        keeps: whether it should have kept this.
        unknown: a filter that cannot be meant, which shall be refused; None where every filter can.
    """

    ask: Callable[[str, Any], Sequence[Found]]
    where: Any
    keeps: Callable[[Found], bool]
    unknown: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieverSubject:
    """A retriever, and what it is asked; a check whose field is None is left out, and the report says so.

    Attributes:
        name: for the report.
        queries: at least two that find something.
        ask: a question.
        aask: the same, async.
        batch: several questions at once; None where there is no such call.
        abatch: the same, async.
        ask_k: a question, for so many at most.
        filtering: see there.
        nothing: a question to which there is no answer; None where something is always near.
        answers_nothing: what such a question gives, e.g. a notice, is let through by this; by default nothing is.
        failures: by name; see `Failure`.
        meeting: makes the retriever anew on top of something whose calls each `arrive` or `aarrive` at a meeting.
        snapshot: a deep copy of what the retriever was given, to be found unchanged.
        text_of: the text of a document, by id; None where what is found is no slice.
        best_first: False where the order is another one, as that of a chain or of reading.
        scored: False where a score has no meaning.
        flat: what of metadata a store takes; None asks for JSON alone.
        nested: keys of metadata that may hold more than that.
    """

    name: str
    queries: Sequence[str]
    ask: Ask
    aask: AsyncAsk
    batch: Callable[[list[str]], Sequence[Sequence[Found]]] | None = None
    abatch: Callable[[list[str]], Awaitable[Sequence[Sequence[Found]]]] | None = None
    ask_k: Callable[[str, int], Sequence[Found]] | None = None
    filtering: Filtering | None = None
    nothing: str | None = None
    answers_nothing: Callable[[Found], bool] = lambda _: False
    failures: Mapping[str, Failure] = field(default_factory=dict)
    meeting: Callable[[Meeting], AsyncAsk] | None = None
    snapshot: Callable[[], Any] | None = None
    text_of: Callable[[str], str] | None = None
    best_first: bool = True
    scored: bool = True
    flat: Flat | None = None
    nested: Sequence[str] = ()


def problems_of_retriever(subject: RetrieverSubject, *, blocking_detector: Detector | None = None) -> tuple[str, ...]:
    """Return what a retriever does not keep, each as one sentence; () when all is well.

    Args:
        subject: the retriever, and what to ask it.
        blocking_detector: opens a context in which blocking the event loop is an error.
    """
    return report_of_retriever(subject, blocking_detector=blocking_detector).problems


def report_of_retriever(subject: RetrieverSubject, *, blocking_detector: Detector | None = None) -> ConformanceReport:
    """Return what every check of the suite gave; see `problems_of_retriever`."""
    s = subject
    checks: dict[str, Check | None] = {
        "something is found": lambda: (f"nothing for {query!r}" for query in s.queries if not s.ask(query)),
        "ids": lambda: _each(s, id_problems),
        "equal calls, equal answers": lambda: _repeated(s),
        "scores": (lambda: _each(s, lambda found: score_problems(found, best_first=s.best_first)))
        if s.scored
        else None,
        "provenance": lambda: _each(s, provenance_problems),
        "metadata": lambda: _each(s, lambda found: metadata_problems(found, s.flat, s.nested)),
        "offsets": None if s.text_of is None else lambda: _offsets(s),
        "inputs unchanged": None if s.snapshot is None else lambda: _unchanged(s),
        "async": lambda: _async(s, blocking_detector),
        "side by side": None if s.meeting is None else lambda: _overlap(s),
        "batch": None if s.batch is None and s.abatch is None else lambda: _batch(s),
        "k": None if s.ask_k is None else lambda: _k(s),
        "filters": None if s.filtering is None else lambda: _filters(s),
        "no question": lambda: refusal_problems("an empty question", lambda: s.ask("")),
        "no answer": None if s.nothing is None else lambda: _nothing(s),
        "failures": (lambda: failure_problems(s.failures)) if s.failures else None,
    }
    return report_of(s.name, "retriever", checks, lambda: _fingerprint(s))


def _fingerprint(subject: RetrieverSubject) -> str:
    return fingerprint_of(one for query in subject.queries for one in subject.ask(query))


def _each(subject: RetrieverSubject, check: Callable[[Sequence[Found]], Iterator[str]]) -> Iterator[str]:
    """Yield the problems of all answers, each once."""
    problems = (problem for query in subject.queries for problem in check(subject.ask(query)))
    yield from dict.fromkeys(problems)


def _repeated(subject: RetrieverSubject) -> Iterator[str]:
    if any(list(subject.ask(query)) != list(subject.ask(query)) for query in subject.queries):
        yield "the same question has two answers"


def _offsets(subject: RetrieverSubject) -> Iterator[str]:
    if subject.text_of is not None:
        text_of = subject.text_of
        yield from _each(subject, lambda found: offset_problems(found, text_of))


def _unchanged(subject: RetrieverSubject) -> Iterator[str]:
    if subject.snapshot is not None:
        yield from change_problems(subject.snapshot, lambda: [subject.ask(query) for query in subject.queries])


def _async(subject: RetrieverSubject, detector: Detector | None) -> Iterator[str]:
    query = subject.queries[0]

    async def work() -> list[Found]:
        return list(await subject.aask(query))

    yield from async_problems(lambda: list(subject.ask(query)), work, detector)


def _overlap(subject: RetrieverSubject) -> Iterator[str]:
    if subject.meeting is not None:
        build = subject.meeting

        def built(meeting: Meeting) -> Callable[[], Awaitable[Sequence[Found]]]:
            aask = build(meeting)
            return lambda: aask(subject.queries[0])

        yield from overlap_problems(built)


def _batch(subject: RetrieverSubject) -> Iterator[str]:
    queries, single = list(subject.queries), [list(subject.ask(query)) for query in subject.queries]
    if subject.batch is not None and [list(found) for found in subject.batch(queries)] != single:
        yield "a batch has other answers than its questions alone"
    if subject.abatch is not None:
        abatch = subject.abatch
        if [list(found) for found in awaited(lambda: abatch(queries))] != single:
            yield "an async batch has other answers than its questions alone"


def _k(subject: RetrieverSubject) -> Iterator[str]:
    if subject.ask_k is None:
        return
    for query in subject.queries:
        for k in (1, 2):
            if len(found := subject.ask_k(query, k)) > k:
                yield f"k={k} gives {len(found)}"
                return


def _filters(subject: RetrieverSubject) -> Iterator[str]:
    filtering = subject.filtering
    if filtering is None:
        return
    everything = [one for query in subject.queries for one in subject.ask(query)]
    kept = [one for query in subject.queries for one in filtering.ask(query, filtering.where)]
    if not kept:
        yield "the filter leaves nothing"
    if all(filtering.keeps(one) for one in everything):
        yield "the filter is no test: it keeps all that is found without it"
    if not all(filtering.keeps(one) for one in kept):
        yield "what the filter excludes is found"
    if filtering.unknown is not None:

        def refused() -> Sequence[Found]:
            return filtering.ask(subject.queries[0], filtering.unknown)

        yield from refusal_problems("a filter that cannot be meant", refused, answered=False)


def _nothing(subject: RetrieverSubject) -> Iterator[str]:
    if subject.nothing is not None:
        found = [one for one in subject.ask(subject.nothing) if not subject.answers_nothing(one)]
        if found:
            yield f"{len(found)} are found for {subject.nothing!r}, to which there is no answer"

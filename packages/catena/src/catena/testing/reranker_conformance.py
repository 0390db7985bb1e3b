"""Check what takes hits and gives hits: rerankers, compressors and postprocessors of any framework."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from catena.testing.conformance import (
    Check,
    ConformanceReport,
    Detector,
    Failure,
    Flat,
    Found,
    Meeting,
    async_problems,
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


class Rerank(Protocol):
    """Gives what it makes of the hits of a subject: of all of them, or of none where `empty`."""

    def __call__(self, query: str, /, *, empty: bool = False) -> Sequence[Found]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankerSubject:
    """A reranker or the like, with the hits that it is given; a check whose field is None is left out.

    Attributes:
        name: for the report.
        query: that some of the hits answer.
        rerank: see `Rerank`.
        arerank: the same, async.
        given: what it is given.
        selects: whether each thing that comes back is one that was given, with its id and its text.
        asks: whether it needs a question.
        rerank_k: at most so many; None where it does not count.
        snapshot: a deep copy of what is given, to be found unchanged.
        text_of: the text of a document, by id; None where what comes back is no slice.
        copies: by name, how a copy (pickled, serialised, cloned) gives the same.
        failures: by name; see `Failure`.
        meeting: makes it anew on top of something whose calls each `arrive` at a meeting.
        best_first: False where the order is another one, as that of a chain or of reading.
        flat: what of metadata a store takes; None asks for JSON alone.
        nested: keys of metadata that may hold more than that.
    """

    name: str
    query: str
    rerank: Rerank
    arerank: Callable[[str], Awaitable[Sequence[Found]]]
    given: Sequence[Found]
    selects: bool = True
    asks: bool = True
    rerank_k: Callable[[str, int], Sequence[Found]] | None = None
    snapshot: Callable[[], Any] | None = None
    text_of: Callable[[str], str] | None = None
    copies: Mapping[str, Callable[[str], Sequence[Found]]] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)
    meeting: Callable[[Meeting], Callable[[], Awaitable[Sequence[Found]]]] | None = None
    best_first: bool = True
    flat: Flat | None = None
    nested: Sequence[str] = ()


def problems_of_reranker(subject: RerankerSubject, *, blocking_detector: Detector | None = None) -> tuple[str, ...]:
    """Return what a reranker does not keep, each as one sentence; () when all is well.

    Args:
        subject: the reranker with its hits.
        blocking_detector: opens a context in which blocking the event loop is an error.
    """
    return report_of_reranker(subject, blocking_detector=blocking_detector).problems


def report_of_reranker(subject: RerankerSubject, *, blocking_detector: Detector | None = None) -> ConformanceReport:
    """Return what every check of the suite gave; see `problems_of_reranker`."""
    s = subject

    def found() -> list[Found]:
        return list(s.rerank(s.query))

    checks: dict[str, Check | None] = {
        "something is returned": lambda: () if found() else ("nothing is returned",),
        "ids": lambda: id_problems(found()),
        "ids and texts kept": (lambda: _kept(s, found())) if s.selects else None,
        "equal calls, equal answers": lambda: () if found() == found() else ("two calls differ",),
        "scores": lambda: score_problems(found(), best_first=s.best_first),
        "provenance": lambda: provenance_problems(found()),
        "metadata": lambda: metadata_problems(found(), s.flat, s.nested),
        "offsets": None if s.text_of is None else lambda: _offsets(s, found()),
        "inputs unchanged": None if s.snapshot is None else lambda: change_problems(s.snapshot or dict, found),
        "async": lambda: _async(s, found, blocking_detector),
        "side by side": None if s.meeting is None else lambda: _overlap(s),
        "k": None if s.rerank_k is None else lambda: _k(s, found()),
        "no hits": lambda: ("something is made of nothing",) if s.rerank(s.query, empty=True) else (),
        "no question": (lambda: refusal_problems("an empty question", lambda: s.rerank(""))) if s.asks else None,
        "copies": (lambda: _copies(s, found())) if s.copies else None,
        "failures": (lambda: failure_problems(s.failures)) if s.failures else None,
    }
    return report_of(s.name, "reranker", checks, lambda: fingerprint_of(found()))


def _kept(subject: RerankerSubject, found: Sequence[Found]) -> Iterator[str]:
    texts = {one.id: one.text for one in subject.given}
    for one in found:
        if one.id not in texts:
            yield f"{one.id} is no id that was given"
            return
        if one.text != texts[one.id]:
            yield f"{one.id} has another text than was given"
            return
    lost = {
        key
        for one in found
        for given in subject.given
        if one.id == given.id
        for key in given.metadata
        if key not in one.metadata
    }
    if lost:
        yield f"metadata are lost: {', '.join(sorted(lost))}"


def _offsets(subject: RerankerSubject, found: Sequence[Found]) -> Iterator[str]:
    if subject.text_of is not None:
        yield from offset_problems(found, subject.text_of)


def _async(subject: RerankerSubject, found: Callable[[], list[Found]], detector: Detector | None) -> Iterator[str]:
    async def work() -> list[Found]:
        return list(await subject.arerank(subject.query))

    yield from async_problems(found, work, detector)


def _overlap(subject: RerankerSubject) -> Iterator[str]:
    if subject.meeting is not None:
        yield from overlap_problems(subject.meeting)


def _k(subject: RerankerSubject, found: Sequence[Found]) -> Iterator[str]:
    if subject.rerank_k is not None:
        for k in (1, 2):
            if len(some := subject.rerank_k(subject.query, k)) > k:
                yield f"k={k} gives {len(some)}"
            elif subject.selects and subject.best_first and [one.id for one in some] != [one.id for one in found[:k]]:
                yield f"k={k} does not give the best {k}"


def _copies(subject: RerankerSubject, expected: list[Found]) -> Iterator[str]:
    for name, rerank in subject.copies.items():
        try:
            if list(rerank(subject.query)) != expected:
                yield f"{name}: the copy gives something else"
        except Exception as error:  # whatever copying raises
            yield f"{name}: {type(error).__name__}: {error}"

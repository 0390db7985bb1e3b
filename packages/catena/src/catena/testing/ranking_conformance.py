"""Check what ranks, of any framework, without a test framework: retrievers, then rerankers, then fusions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Protocol

from catena.testing.conformance import (
    Check,
    ConformanceReport,
    Detector,
    Failure,
    Found,
    Meeting,
    SubjectOfFound,
    async_problems,
    awaited,
    failure_problems,
    fingerprint_of,
    given,
    id_problems,
    listed,
    overlap_problems,
    provenance_problems,
    refusal_problems,
    report_of,
    same_by_copies,
    score_problems,
)

Ask = Callable[[str], Sequence[Found]]
AsyncAsk = Callable[[str], Awaitable[Sequence[Found]]]
AskK = Callable[[str, int], Sequence[Found]]


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
class RetrieverSubject(SubjectOfFound):
    """A retriever, and what it is asked; a check whose field is None is left out, and the report says so.

    See `SubjectOfFound`, too.

    Attributes:
        queries: at least two that find something.
        ask: a question.
        aask: the same, async.
        batch: several questions at once; None where there is no such call.
        abatch: the same, async.
        ask_k: a question, for so many at most.
        filtering: see there.
        nothing: a question to which there is no answer; None where something is always near.
        answers_nothing: what such a question gives, e.g. a notice, is let through by this; by default nothing is.
        meeting: makes the retriever anew on top of something whose calls each `arrive` or `aarrive` at a meeting.
        best_first: False where the order is another one, as that of a chain or of reading.
        scored: False where a score has no meaning.
    """

    queries: Sequence[str]
    ask: Ask
    aask: AsyncAsk
    batch: Callable[[list[str]], Sequence[Sequence[Found]]] | None = None
    abatch: Callable[[list[str]], Awaitable[Sequence[Sequence[Found]]]] | None = None
    ask_k: AskK | None = None
    filtering: Filtering | None = None
    nothing: str | None = None
    answers_nothing: Callable[[Found], bool] = lambda _: False
    meeting: Callable[[Meeting], AsyncAsk] | None = None
    best_first: bool = True
    scored: bool = True


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
    first = s.queries[0]

    def each(check: Callable[[Sequence[Found]], Iterator[str]]) -> Iterator[str]:
        """Yield the problems of all answers, each once."""
        yield from dict.fromkeys(problem for query in s.queries for problem in check(s.ask(query)))

    def all_found() -> list[list[Found]]:
        return [list(s.ask(query)) for query in s.queries]

    def called(build: Callable[[Meeting], AsyncAsk]) -> Iterator[str]:
        return overlap_problems(lambda meeting: partial(build(meeting), first))

    checks: dict[str, Check | None] = {
        "something is found": lambda: (f"nothing for {query!r}" for query in s.queries if not s.ask(query)),
        **s.checks_of_found(all_found, "the same question has two answers"),
        "scores": (lambda: each(lambda found: score_problems(found, best_first=s.best_first))) if s.scored else None,
        "provenance": lambda: each(provenance_problems),
        "async": lambda: async_problems(lambda: list(s.ask(first)), lambda: listed(s.aask(first)), blocking_detector),
        "side by side": given(s.meeting, called),
        "batch": None if s.batch is None and s.abatch is None else lambda: _batch(s, all_found()),
        "k": given(s.ask_k, lambda ask_k: _at_most(s.queries, ask_k)),
        "filters": given(s.filtering, lambda filtering: _filters(s, filtering)),
        "no question": lambda: refusal_problems("an empty question", lambda: s.ask("")),
        "no answer": given(s.nothing, lambda nothing: _nothing(s, nothing)),
        "failures": given(s.failures or None, failure_problems),
    }
    return report_of(s.name, "retriever", checks, lambda: fingerprint_of(chain.from_iterable(all_found())))


def _batch(subject: RetrieverSubject, single: list[list[Found]]) -> Iterator[str]:
    queries = list(subject.queries)
    if subject.batch is not None and [list(found) for found in subject.batch(queries)] != single:
        yield "a batch has other answers than its questions alone"
    if subject.abatch is not None:
        abatch = subject.abatch
        if [list(found) for found in awaited(lambda: abatch(queries))] != single:
            yield "an async batch has other answers than its questions alone"


def _at_most(queries: Sequence[str], ask_k: AskK) -> Iterator[str]:
    counts = ((k, len(ask_k(query, k))) for query in queries for k in (1, 2))
    yield from islice((f"k={k} gives {count}" for k, count in counts if count > k), 1)


def _filters(subject: RetrieverSubject, filtering: Filtering) -> Iterator[str]:
    everything = [one for query in subject.queries for one in subject.ask(query)]
    kept = [one for query in subject.queries for one in filtering.ask(query, filtering.where)]
    if not kept:
        yield "the filter leaves nothing"
    if all(filtering.keeps(one) for one in everything):
        yield "the filter is no test: it keeps all that is found without it"
    if not all(filtering.keeps(one) for one in kept):
        yield "what the filter excludes is found"
    if filtering.unknown is not None:
        yield from refusal_problems(
            "a filter that cannot be meant",
            lambda: filtering.ask(subject.queries[0], filtering.unknown),
            answered=False,
        )


def _nothing(subject: RetrieverSubject, nothing: str) -> Iterator[str]:
    if found := [one for one in subject.ask(nothing) if not subject.answers_nothing(one)]:
        yield f"{len(found)} are found for {nothing!r}, to which there is no answer"


# Rerankers, compressors and postprocessors: what takes hits and gives hits.


class Rerank(Protocol):
    """Gives what it makes of the hits of a subject: of all of them, or of none where `empty`."""

    def __call__(self, query: str, /, *, empty: bool = False) -> Sequence[Found]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankerSubject(SubjectOfFound):
    """A reranker or the like, with the hits that it is given; a check whose field is None is left out.

    See `SubjectOfFound`, too.

    Attributes:
        query: that some of the hits answer.
        rerank: see `Rerank`.
        arerank: the same, async.
        given: what it is given.
        selects: whether each thing that comes back is one that was given, with its id and its text.
        asks: whether it needs a question.
        rerank_k: at most so many; None where it does not count.
        copies: by name, how a copy (pickled, serialised, cloned) gives the same.
        meeting: makes it anew on top of something whose calls each `arrive` at a meeting.
        best_first: False where the order is another one, as that of a chain or of reading.
    """

    query: str
    rerank: Rerank
    arerank: Callable[[str], Awaitable[Sequence[Found]]]
    given: Sequence[Found]
    selects: bool = True
    asks: bool = True
    rerank_k: AskK | None = None
    copies: Mapping[str, Callable[[str], Sequence[Found]]] = field(default_factory=dict)
    meeting: Callable[[Meeting], Callable[[], Awaitable[Sequence[Found]]]] | None = None
    best_first: bool = True


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
        **s.checks_of_found(lambda: [found()]),
        "ids and texts kept": (lambda: _kept(s, found())) if s.selects else None,
        "scores": lambda: score_problems(found(), best_first=s.best_first),
        "provenance": lambda: provenance_problems(found()),
        "async": lambda: async_problems(found, lambda: listed(s.arerank(s.query)), blocking_detector),
        "side by side": given(s.meeting, overlap_problems),
        "k": given(s.rerank_k, lambda rerank_k: _k(s, rerank_k, found())),
        "no hits": lambda: ("something is made of nothing",) if s.rerank(s.query, empty=True) else (),
        "no question": (lambda: refusal_problems("an empty question", lambda: s.rerank(""))) if s.asks else None,
        "copies": same_by_copies(s.copies, lambda rerank: list(rerank(s.query)), found, "gives something else"),
        "failures": given(s.failures or None, failure_problems),
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


def _k(subject: RerankerSubject, rerank_k: AskK, found: Sequence[Found]) -> Iterator[str]:
    for k in (1, 2):
        if len(some := rerank_k(subject.query, k)) > k:
            yield f"k={k} gives {len(some)}"
        elif subject.selects and subject.best_first and [one.id for one in some] != [one.id for one in found[:k]]:
            yield f"k={k} does not give the best {k}"


# Fusions, on rankings that are known to lead them astray.


class Fuse(Protocol):
    """Fuses rankings, best first, and gives back what comes out, best first.

    A route that is an exception fails with it. With `changed`, what the routes themselves hold after the call is
    returned instead, in their order.
    """

    def __call__(
        self, routes: Sequence[Sequence[Found] | Exception], weights: Sequence[float], *, changed: bool = False
    ) -> Sequence[Found]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionSubject:
    """A fusion of several retrievers.

    Attributes:
        name: for the report.
        fuse: see `Fuse`.
        weighted: whether it takes weights.
    """

    name: str
    fuse: Fuse
    weighted: bool = True


def problems_of_fusion(subject: FusionSubject) -> tuple[str, ...]:
    """Return what a fusion does not keep, each as one sentence; () when all is well."""
    return report_of_fusion(subject).problems


def report_of_fusion(subject: FusionSubject) -> ConformanceReport:
    """Return what every check of the suite gave."""
    fuse = subject.fuse

    def plain() -> Sequence[Found]:
        return fuse((_ranking("abc"), _ranking("cbd")), (1.0, 1.0))

    checks: dict[str, Check | None] = {
        "ids": lambda: _ids(plain()),
        "scores": lambda: score_problems(plain()),
        "weights act": (lambda: _weights(fuse)) if subject.weighted else None,
        "agreement": lambda: _agreement(fuse),
        "equal texts": lambda: _equal_texts(fuse),
        "twice in one route": lambda: _twice(fuse),
        "inputs unchanged": lambda: _unchanged(fuse),
        "metadata kept": lambda: _metadata(fuse),
        "an empty route": lambda: _ids(fuse((_ranking("abcd"), ()), (1.0, 1.0))),
        "a failing route": lambda: _failing(fuse),
    }
    return report_of(subject.name, "fusion", checks, lambda: fingerprint_of(plain()))


def _ranking(ids: str, **more: str) -> tuple[Found, ...]:
    """Return things with these ids, and with scores as of a vector store."""
    return tuple(
        Found(id=id, text=f"Text {id}.", score=0.9 - place / 10, metadata=MappingProxyType(dict(more)))
        for place, id in enumerate(ids)
    )


def _ids(found: Sequence[Found]) -> Iterator[str]:
    yield from id_problems(found)
    if {one.id for one in found} != set("abcd"):
        yield f"of the ids a, b, c, d come back {', '.join(sorted(str(one.id) for one in found))}"


def _weights(fuse: Fuse) -> Iterator[str]:
    routes = (_ranking("ab"), _ranking("ba"))
    for weights, first in (((0.99, 0.01), "a"), ((0.01, 0.99), "b")):
        found = fuse(routes, weights)
        if not found or found[0].id != first:
            yield f"with weights {weights} the best of the heavier route is not first"


def _agreement(fuse: Fuse) -> Iterator[str]:
    """One thing that two routes find, each with metadata of its own, is before what one of them finds alone."""
    found = fuse((_ranking("ab", route="one"), _ranking("cb", route="two")), (1.0, 1.0))
    if [one.id for one in found].count("b") != 1:
        yield "what two routes find is not one, where their metadata differ"
    elif found[0].id != "b":
        yield "what two routes find is not before what one finds, where their metadata differ"


def _equal_texts(fuse: Fuse) -> Iterator[str]:
    same = [Found(id=id, text="The same words.", score=0.5) for id in "ab"]
    if {one.id for one in fuse((same[:1], same[1:]), (1.0, 1.0))} != {"a", "b"}:
        yield "two ids of equal text become one"


def _twice(fuse: Fuse) -> Iterator[str]:
    found = fuse((_ranking("abbb"), _ranking("a")), (1.0, 1.0))
    if not found or found[0].id != "a" or [one.id for one in found].count("b") != 1:
        yield "what one route names several times counts several times"


def _unchanged(fuse: Fuse) -> Iterator[str]:
    routes = (_ranking("ab"), _ranking("ba"))
    held = fuse(routes, (1.0, 1.0), changed=True)
    if _state(held) != _state([one for route in routes for one in route]):
        yield "what the routes hold is changed: scores or metadata are overwritten"


def _state(found: Sequence[Found]) -> list[tuple[str | None, str, float | None, Mapping[str, object]]]:
    return [(one.id, one.text, one.score, dict(one.metadata)) for one in found]


def _metadata(fuse: Fuse) -> Iterator[str]:
    found = fuse((_ranking("ab", of="one"), _ranking("cd", of="one")), (1.0, 1.0))
    if any(one.metadata.get("of") != "one" for one in found):
        yield "metadata of what is found are lost"


def _failing(fuse: Fuse) -> Iterator[str]:
    def call() -> Sequence[Found]:
        return fuse((_ranking("ab"), ConnectionError("the index is gone")), (1.0, 1.0))

    yield from failure_problems({"route two fails": Failure(call=call)})

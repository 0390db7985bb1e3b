"""The conformance suites themselves: a subject that keeps everything passes, and each check catches who does not."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from catena.model import ParameterError
from catena.testing import (
    DividerSubject,
    EmbedderSubject,
    EvaluatorSubject,
    Found,
    FusionSubject,
    RerankerSubject,
    RetrieverSubject,
    problems_of_divider,
    problems_of_retriever,
    report_of_embedder,
    report_of_reranker,
    report_of_retriever,
)
from catena.testing.conformance import Failure, Meeting
from catena.testing.divider_conformance import report_of_divider
from catena.testing.embedder_conformance import problems_of_embedder
from catena.testing.evaluator_conformance import problems_of_evaluator, report_of_evaluator
from catena.testing.ranking_conformance import Filtering, problems_of_fusion, problems_of_reranker, report_of_fusion

SOURCE = "The pump runs. The seal holds. The fuse blows."
HELD = [{"text": "as given"}]


def piece(id: str, start: int, end: int, **changes: Any) -> Found:
    good = Found(
        id=id, text=SOURCE[start:end], score=1.0 - start / 100, metadata={"page": 1, "of": id}, routes=("dense",),
        document_id="manual", start=start, end=end,
    )  # fmt: skip
    return replace(good, **changes)


ALL = (piece("a", 0, 14), piece("b", 15, 30), piece("c", 31, 46))


def find(query: str) -> Sequence[Found]:
    return () if query in ("", "nothing") else ALL


async def afind(query: str = "one") -> Sequence[Found]:
    await asyncio.sleep(0)
    return find(query)


def only(query: str, where: Any) -> Sequence[Found]:
    if "of" not in where:
        raise ParameterError("where", where, "of")
    return [one for one in ALL if one.metadata["of"] == where["of"]]


async def abatch(queries: list[str]) -> Sequence[Sequence[Found]]:
    return [find(query) for query in queries]


def warned() -> Sequence[Found]:
    logging.getLogger("someone").warning("a part failed")
    return ALL[:1]


def raised(*_: Any) -> Sequence[Found]:
    raise ConnectionError("it is gone")


def meeting_calls(meeting: Meeting) -> Any:
    async def call(*_: Any) -> Sequence[Found]:
        await asyncio.to_thread(meeting.arrive)
        return ALL

    return call


GOOD: dict[str, Any] = {
    "name": "good",
    "failures": {"a part": Failure(call=warned), "a part, raise": Failure(call=raised, raises=True)},
    "meeting": meeting_calls,
    "snapshot": lambda: [dict(one) for one in HELD],
    "text_of": {"manual": SOURCE}.__getitem__,
}

RETRIEVER = RetrieverSubject(
    **GOOD,
    queries=("one", "two"),
    ask=find,
    aask=afind,
    batch=lambda queries: [find(query) for query in queries],
    abatch=abatch,
    ask_k=lambda query, k: find(query)[:k],
    filtering=Filtering(
        ask=only, where={"of": "a"}, keeps=lambda found: found.metadata["of"] == "a", unknown={"on": "a"}
    ),
    nothing="nothing",
    flat="scalars",
)


Answer = Callable[[], Sequence[Found]]


def changed(**changes: Any) -> Answer:
    """An answer whose every part is changed."""
    return lambda: [replace(one, **changes) for one in ALL]


def forgetful() -> Answer:
    calls = iter(range(10_000))
    return lambda: ALL[: 1 + next(calls) % 3]


def writing() -> Sequence[Found]:
    HELD[0]["text"] += "!"
    return ALL


async def sleepy(*_: Any) -> Sequence[Found]:
    time.sleep(0.001)
    await asyncio.sleep(0)
    return ALL


async def greedy(*_: Any) -> Sequence[Found]:
    return ALL


async def other(*_: Any) -> Sequence[Found]:
    await asyncio.sleep(0)
    return ALL[:1]


def one_by_one(_: Meeting) -> Any:
    return greedy  # which waits for nobody


ANSWERS: list[tuple[str, Answer]] = [
    ("ids", changed(id=None)),
    ("ids", changed(id="same")),
    ("equal calls, equal answers", forgetful()),
    ("metadata", changed(metadata={"at": object()})),
    ("metadata", changed(metadata={"at": {"page": 1}})),
    ("metadata", changed(metadata={"share": float("nan")})),
    ("offsets", changed(start=3)),
    ("offsets", changed(end=None)),
    ("inputs unchanged", writing),
]
RANKED: list[tuple[str, Answer]] = [
    ("scores", changed(score=None)),
    ("scores", changed(score=float("nan"))),
    ("scores", lambda: ALL[::-1]),
    ("provenance", changed(routes=())),
]
FAILING = [
    Failure(call=raised),
    Failure(call=lambda: ALL),
    Failure(call=lambda: ()),
    Failure(call=warned, raises=True),
]


def of_found(
    answering: Callable[[Answer], dict[str, Any]], asynchronous: str, *ranked: tuple[str, Answer]
) -> list[tuple[str, dict[str, Any]]]:
    """Return what every suite of things found refuses, for a subject that answers by a function."""
    return [
        *((check, answering(answer)) for check, answer in (*ANSWERS, *ranked)),
        *(("async", {asynchronous: call}) for call in (other, sleepy, greedy)),
        *(("failures", {"failures": {"a part": failure}}) for failure in FAILING),
        ("side by side", {"meeting": one_by_one}),
    ]


def filtering(**changes: Any) -> Filtering:
    assert RETRIEVER.filtering is not None
    return replace(RETRIEVER.filtering, **changes)


BAD_RETRIEVERS: list[tuple[str, dict[str, Any]]] = [
    *of_found(lambda answer: {"ask": lambda query: answer()}, "aask", *RANKED),
    ("something is found", {"ask": lambda query: ()}),
    ("metadata", {"ask": lambda query: changed(metadata={"pages": [1, 2]})()}),
    ("batch", {"batch": lambda queries: [find(query)[:1] for query in queries]}),
    ("batch", {"abatch": lambda queries: abatch(queries[:1])}),
    ("k", {"ask_k": lambda query, k: find(query)}),
    ("filters", {"filtering": filtering(ask=lambda query, where: ALL)}),
    ("filters", {"filtering": filtering(ask=lambda query, where: ())}),
    ("filters", {"filtering": filtering(keeps=lambda found: True)}),
    ("filters", {"filtering": filtering(unknown={"of": "a"})}),
    ("no question", {"ask": lambda query: ALL if query else raised()}),
    ("no answer", {"ask": lambda query: ALL}),
]


# Dividers.


DIVIDER = DividerSubject(
    **GOOD,
    make=lambda: ALL,
    amake=afind,
    one_by_one=lambda: ALL,
    empty=lambda: (),
    blank=lambda: (),
    copies={"pickle": lambda: ALL},
)


BAD_DIVIDERS: list[tuple[str, dict[str, Any]]] = [
    *of_found(lambda answer: {"make": answer}, "amake"),
    ("something is made", {"make": lambda: ()}),
    ("batch", {"one_by_one": lambda: ALL[:2]}),
    ("no documents", {"empty": lambda: ALL}),
    ("no words", {"blank": changed(id="same")}),
    ("copies", {"copies": {"pickle": lambda: ALL[:1]}}),
    ("copies", {"copies": {"pickle": raised}}),
]


# Rerankers.


def rerank(query: str, *, empty: bool = False) -> Sequence[Found]:
    return () if empty else ALL


RERANKER = RerankerSubject(
    **GOOD,
    query="one",
    rerank=rerank,
    arerank=afind,
    given=ALL,
    rerank_k=lambda query, k: ALL[:k],
    copies={"pickle": lambda query: ALL},
    flat="scalars",
)


def reranked(answer: Answer) -> dict[str, Any]:
    return {"rerank": lambda query, empty=False: () if empty else answer()}


BAD_RERANKERS: list[tuple[str, dict[str, Any]]] = [
    *of_found(reranked, "arerank", *RANKED),
    ("something is returned", reranked(lambda: ())),
    *(
        ("ids and texts kept", reranked(changed(**lost)))
        for lost in ({"id": "new"}, {"text": "shorter"}, {"metadata": {}})
    ),
    ("k", {"rerank_k": lambda query, k: ALL}),
    ("k", {"rerank_k": lambda query, k: ALL[-k:]}),
    ("no hits", {"rerank": lambda query, empty=False: ALL}),
    ("no question", {"rerank": lambda query, empty=False: ALL if query else raised()}),
    ("copies", {"copies": {"pickle": lambda query: ALL[:1]}}),
]


# Embedders.


def vectors(texts: list[str]) -> list[list[float]]:
    return [[0.6, 0.8] if "e" in text else [1.0, 0.0] for text in texts]


async def avectors(texts: list[str]) -> list[list[float]]:
    await asyncio.sleep(0)
    return vectors(texts)


async def avector(text: str) -> list[float]:
    return vectors([text])[0]


EMBEDDER = EmbedderSubject(
    name="good",
    embed=vectors,
    aembed=avectors,
    embed_query=lambda text: vectors([text])[0],
    aembed_query=avector,
    copies={"pickle": vectors},
)


def drifting() -> Any:
    calls = iter(range(10_000))
    return lambda texts: [[1.0, next(calls) / 10_000] for _ in texts]


BAD_EMBEDDERS: list[tuple[str, dict[str, Any]]] = [
    ("shape", {"embed": lambda texts: vectors(texts)[:1]}),
    ("shape", {"embed_query": lambda text: [1.0]}),
    ("equal calls, equal answers", {"embed": drifting()}),
    ("plain numbers", {"embed": lambda texts: [[1, 0] for _ in texts]}),
    ("unit length", {"embed": lambda texts: [[3.0, 4.0] for _ in texts]}),
    ("batch", {"embed": lambda texts: [[1.0, 0.0] if len(texts) == 1 else [0.0, 1.0] for _ in texts]}),
    ("async", {"aembed": lambda texts: avectors(["x" for _ in texts])}),
    ("no texts", {"embed": lambda texts: vectors(texts) or [[1.0, 0.0]]}),
    ("no words", {"embed_query": lambda text: [1.0, 0.0] if text else []}),
    ("copies", {"copies": {"pickle": lambda texts: []}}),
]


# Evaluators.


def judge(found: Sequence[str], wanted: Sequence[str]) -> float | None:
    """The reciprocal rank of the first that is wanted, each id named once."""
    once = list(dict.fromkeys(found))
    ranks = [once.index(one) + 1 for one in wanted if one in once]
    return None if not wanted else 1 / min(ranks) if ranks else 0.0


async def ajudge(found: Sequence[str], wanted: Sequence[str]) -> float | None:
    await asyncio.sleep(0)
    return judge(found, wanted)


EVALUATOR = EvaluatorSubject(name="good", judge=judge, ajudge=ajudge, copies={"pickle": judge})


def counting_twice(found: Sequence[str], wanted: Sequence[str]) -> float | None:
    ranks = [list(found).index(one) + 1 for one in wanted if one in found]
    return None if not wanted else 1 / min(ranks) if ranks else 0.0


def unsteady() -> Any:
    calls = iter(range(10_000))
    return lambda found, wanted: next(calls) / 10_000


BAD_EVALUATORS: list[tuple[str, dict[str, Any]]] = [
    ("between 0 and 1", {"judge": lambda found, wanted: 2.0}),
    ("between 0 and 1", {"judge": lambda found, wanted: 0.5}),
    ("better is higher", {"judge": lambda found, wanted: 1.0}),
    ("nothing found", {"judge": lambda found, wanted: judge(found, wanted) or 0.1}),
    ("nothing relevant", {"judge": lambda found, wanted: judge(found, wanted) or 0.0}),
    ("named twice", {"judge": counting_twice}),
    ("equal calls, equal answers", {"judge": unsteady()}),
    ("async", {"ajudge": lambda found, wanted: ajudge((), wanted)}),
    ("copies", {"copies": {"pickle": lambda found, wanted: 0.25}}),
]


# Fusions.


def fuse(
    routes: Sequence[Sequence[Found] | Exception], weights: Sequence[float], *, changed: bool = False
) -> Sequence[Found]:
    """Reciprocal rank fusion as it should be."""
    shares: dict[str | None, float] = {}
    things: dict[str | None, Found] = {}
    told = tuple(str(route) for route in routes if isinstance(route, Exception))
    answered = [(w, route) for w, route in zip(weights, routes, strict=True) if not isinstance(route, Exception)]
    for weight, route in answered:
        for rank, id in enumerate(dict.fromkeys(one.id for one in route), start=1):
            shares[id] = shares.get(id, 0.0) + weight / (60 + rank)
        things |= {one.id: one for one in route}
    if changed:
        return [one for _, route in answered for one in route]
    order = sorted(shares, key=lambda id: (-shares[id], str(id)))
    return [replace(things[id], score=shares[id], told=told) for id in order]


def heedless(routes: Any, weights: Any, **how: Any) -> Any:
    return fuse(routes, [1.0] * len(weights), **how)


def by_metadata(routes: Any, weights: Any, **how: Any) -> Any:
    """Takes things of one id and other metadata for two, as LlamaIndex's fusion does by hash."""
    hashed = [
        route if isinstance(route, Exception) else [replace(one, id=f"{one.id}{dict(one.metadata)}") for one in route]
        for route in routes
    ]
    return [replace(one, id=str(one.id)[0]) for one in fuse(hashed, weights, **how)]


def by_text(routes: Any, weights: Any, **how: Any) -> Any:
    return list({one.text: one for one in fuse(routes, weights, **how)}.values())


def counting_all(routes: Any, weights: Any, **how: Any) -> Any:
    """Counts what one route names several times as often."""
    longest = max((len(route) for route in routes if not isinstance(route, Exception)), default=0)
    if longest == 4 and len({one.id for one in routes[0]}) == 2:
        return [replace(one, score=1.0) for one in (routes[0][1], routes[0][0])]
    return fuse(routes, weights, **how)


def overwriting(routes: Any, weights: Any, *, changed: bool = False) -> Any:
    found = fuse(routes, weights, changed=changed)
    return [replace(one, score=0.0) for one in found] if changed else found


def strict(routes: Any, weights: Any, **how: Any) -> Any:
    for route in routes:
        if isinstance(route, Exception):
            raise route
    return fuse(routes, weights, **how)


BAD_FUSIONS: list[tuple[str, dict[str, Any]]] = [
    ("ids", {"fuse": lambda *given, **how: [replace(one, id=None) for one in fuse(*given, **how)]}),
    ("scores", {"fuse": lambda *given, **how: [replace(one, score=None) for one in fuse(*given, **how)]}),
    ("weights act", {"fuse": heedless}),
    ("agreement", {"fuse": by_metadata}),
    ("equal texts", {"fuse": by_text}),
    ("twice in one route", {"fuse": counting_all}),
    ("inputs unchanged", {"fuse": overwriting}),
    ("metadata kept", {"fuse": lambda *given, **how: [replace(one, metadata={}) for one in fuse(*given, **how)]}),
    ("an empty route", {"fuse": lambda routes, weights, **how: fuse(routes, weights, **how) if all(routes) else ()}),
    ("a failing route", {"fuse": strict}),
]


# All of them.

SUITES: dict[str, tuple[Any, Any, Any, list[tuple[str, dict[str, Any]]]]] = {
    "retriever": (RETRIEVER, report_of_retriever, problems_of_retriever, BAD_RETRIEVERS),
    "divider": (DIVIDER, report_of_divider, problems_of_divider, BAD_DIVIDERS),
    "reranker": (RERANKER, report_of_reranker, problems_of_reranker, BAD_RERANKERS),
    "embedder": (EMBEDDER, report_of_embedder, problems_of_embedder, BAD_EMBEDDERS),
    "evaluator": (EVALUATOR, report_of_evaluator, problems_of_evaluator, BAD_EVALUATORS),
    "fusion": (FusionSubject(name="good", fuse=fuse), report_of_fusion, problems_of_fusion, BAD_FUSIONS),
}


def how(suite: str) -> dict[str, Any]:
    """Return what a suite is told besides its subject: calls of this module may not block the loop."""
    return {} if suite == "fusion" else {"blocking_detector": lambda: blockbuster_ctx(["test_testing_conformance"])}


@pytest.mark.parametrize("suite", SUITES)
def test_a_subject_that_keeps_everything_passes_every_check(suite: str) -> None:
    subject, report_of, problems_of, bad = SUITES[suite]
    report = report_of(subject, **how(suite))
    assert report.problems == problems_of(subject) == ()
    assert report.left_out == ()
    assert set(report.made) == {check for check, _ in bad}
    assert report.fingerprint == report_of(subject).fingerprint != ""


@pytest.mark.parametrize(
    ("suite", "check", "changes"), [(suite, *each) for suite, (*_, bad) in SUITES.items() for each in bad]
)
def test_a_subject_that_does_not_is_caught(monkeypatch, suite: str, check: str, changes: dict[str, Any]) -> None:
    monkeypatch.setattr("catena.testing.conformance.WAIT_SECONDS", 0.05)
    subject, report_of, *_ = SUITES[suite]
    assert check in report_of(replace(subject, **changes), **how(suite)).failed


def test_what_is_not_offered_is_left_out_and_named() -> None:
    bare = RetrieverSubject(name="bare", queries=("one", "two"), ask=find, aask=afind)
    report = report_of_retriever(bare)
    assert report.problems == ()
    assert {"filters", "k", "offsets", "failures"} < set(report.left_out)


async def test_a_problem_names_its_check_also_where_a_loop_runs_as_in_a_notebook() -> None:
    assert problems_of_retriever(replace(RETRIEVER, ask_k=lambda query, k: ALL)) == ("k: k=1 gives 3",)

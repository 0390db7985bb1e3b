"""Check a fusion of rankings, of any framework, on rankings that are known to lead fusions astray."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from catena.testing.conformance import (
    Check,
    ConformanceReport,
    Failure,
    Found,
    failure_problems,
    fingerprint_of,
    id_problems,
    report_of,
    score_problems,
)


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

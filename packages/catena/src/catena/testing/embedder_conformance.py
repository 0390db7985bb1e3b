"""Check an embedding model of any framework on texts, without a test framework."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from catena.model.ids import digest
from catena.testing.conformance import Check, ConformanceReport, Detector, async_problems, report_of, same_by_copies

Vector = Sequence[float]
Embed = Callable[[list[str]], Sequence[Vector]]
TEXTS = ("Tighten the cover screws.", "Check the seal of the cover.", "The fuse holds 3 A.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderSubject:
    """An embedding model of a framework.

    Attributes:
        name: for the report.
        embed: one vector per text.
        aembed: the same, async.
        embed_query: the vector of a question.
        aembed_query: the same, async.
        unit: whether vectors have length 1.
        copies: by name, how a copy (pickled, serialised) embeds.
    """

    name: str
    embed: Embed
    aembed: Callable[[list[str]], Awaitable[Sequence[Vector]]]
    embed_query: Callable[[str], Vector]
    aembed_query: Callable[[str], Awaitable[Vector]]
    unit: bool = True
    copies: Mapping[str, Embed] = field(default_factory=dict)


def problems_of_embedder(subject: EmbedderSubject, *, blocking_detector: Detector | None = None) -> tuple[str, ...]:
    """Return what an embedding model does not keep, each as one sentence; () when all is well.

    Args:
        subject: the model.
        blocking_detector: opens a context in which blocking the event loop is an error.
    """
    return report_of_embedder(subject, blocking_detector=blocking_detector).problems


def report_of_embedder(subject: EmbedderSubject, *, blocking_detector: Detector | None = None) -> ConformanceReport:
    """Return what every check of the suite gave; see `problems_of_embedder`."""
    s = subject

    def plain() -> tuple[list[list[float]], list[float]]:
        return _all(s.embed), list(s.embed_query(TEXTS[0]))

    async def work() -> tuple[list[list[float]], list[float]]:
        return [list(vector) for vector in await s.aembed(list(TEXTS))], list(await s.aembed_query(TEXTS[0]))

    checks: dict[str, Check | None] = {
        "shape": lambda: _shape(s),
        "equal calls, equal answers": lambda: () if _all(s.embed) == _all(s.embed) else ("two calls differ",),
        "plain numbers": lambda: _numbers(s),
        "unit length": (lambda: _unit(s)) if s.unit else None,
        "batch": lambda: _batch(s),
        "async": lambda: async_problems(plain, work, blocking_detector),
        "no texts": lambda: ("vectors are made of no texts",) if list(s.embed([])) else (),
        "no words": lambda: () if len(s.embed_query("")) == len(s.embed_query(TEXTS[0])) else ("another length",),
        "copies": same_by_copies(s.copies, _all, lambda: _all(s.embed), "gives other vectors"),
    }
    return report_of(
        s.name,
        "embedder",
        checks,
        lambda: digest("vectors", str([[round(number, 5) for number in vector] for vector in _all(s.embed)])),
    )


def _all(embed: Embed) -> list[list[float]]:
    return [list(vector) for vector in embed(list(TEXTS))]


def _shape(subject: EmbedderSubject) -> Iterator[str]:
    vectors = _all(subject.embed)
    if len(vectors) != len(TEXTS):
        yield f"{len(TEXTS)} texts give {len(vectors)} vectors"
    if len({len(vector) for vector in (*vectors, list(subject.embed_query(TEXTS[0])))}) != 1:
        yield "vectors have several lengths"


def _numbers(subject: EmbedderSubject) -> Iterator[str]:
    if not all(type(each) is float and math.isfinite(each) for vector in _all(subject.embed) for each in vector):
        yield "a vector holds something else than finite floats, which stores refuse"


def _unit(subject: EmbedderSubject) -> Iterator[str]:
    for vector in _all(subject.embed):
        if abs(math.hypot(*vector) - 1) > 1e-3:
            yield f"a vector has length {math.hypot(*vector):.4g}, not 1"
            return


def _batch(subject: EmbedderSubject) -> Iterator[str]:
    alone = [subject.embed([text])[0] for text in TEXTS]
    if not all(_near(one, other) for one, other in zip(alone, _all(subject.embed), strict=True)):
        yield "texts together have other vectors than each alone"


def _near(one: Vector, other: Vector) -> bool:
    """Tell whether two vectors differ by no more than the order of sums does."""
    return len(one) == len(other) and all(abs(a - b) <= 1e-5 for a, b in zip(one, other, strict=True))

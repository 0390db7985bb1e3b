"""Check what makes pieces of documents: loaders, transformers, parsers and extractors of any framework."""

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
    change_problems,
    failure_problems,
    fingerprint_of,
    id_problems,
    metadata_problems,
    offset_problems,
    overlap_problems,
    report_of,
)

Make = Callable[[], Sequence[Found]]
AsyncMake = Callable[[], Awaitable[Sequence[Found]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DividerSubject:
    """A maker of pieces of documents, with the documents; a check whose field is None is left out.

    Attributes:
        name: for the report.
        make: the pieces of all documents.
        amake: the same, async; None where there is no such call.
        one_by_one: the pieces made of each document alone, one after another; None where documents depend on
            each other.
        empty: what is made of no documents at all.
        blank: what is made of a document without words; None where that is no input.
        snapshot: a deep copy of the documents, to be found unchanged.
        text_of: the text of a document, by id; None where pieces are no slices.
        copies: by name, how a copy of the divider (pickled, serialised, cloned) makes the same pieces.
        failures: by name; see `Failure`.
        meeting: makes the divider anew on top of something whose calls each `arrive` at a meeting.
        flat: what of metadata a store takes.
    """

    name: str
    make: Make
    amake: AsyncMake | None = None
    one_by_one: Make | None = None
    empty: Make | None = None
    blank: Make | None = None
    snapshot: Callable[[], Any] | None = None
    text_of: Callable[[str], str] | None = None
    copies: Mapping[str, Make] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)
    meeting: Callable[[Meeting], AsyncMake] | None = None
    flat: Flat | None = "scalars"


def problems_of_divider(subject: DividerSubject, *, blocking_detector: Detector | None = None) -> tuple[str, ...]:
    """Return what a divider does not keep, each as one sentence; () when all is well.

    Args:
        subject: the divider with its documents.
        blocking_detector: opens a context in which blocking the event loop is an error.
    """
    return report_of_divider(subject, blocking_detector=blocking_detector).problems


def report_of_divider(subject: DividerSubject, *, blocking_detector: Detector | None = None) -> ConformanceReport:
    """Return what every check of the suite gave; see `problems_of_divider`."""
    s = subject
    checks: dict[str, Check | None] = {
        "something is made": lambda: () if s.make() else ("nothing is made",),
        "ids": lambda: id_problems(s.make()),
        "equal calls, equal answers": lambda: () if list(s.make()) == list(s.make()) else ("two calls differ",),
        "metadata": lambda: metadata_problems(s.make(), s.flat),
        "offsets": None if s.text_of is None else lambda: _offsets(s),
        "inputs unchanged": None if s.snapshot is None else lambda: _unchanged(s),
        "async": None if s.amake is None else lambda: _async(s, blocking_detector),
        "side by side": None if s.meeting is None else lambda: overlap_problems(s.meeting or _never),
        "batch": None if s.one_by_one is None else lambda: _batch(s),
        "no documents": None if s.empty is None else lambda: _nothing(s.empty, "no documents"),
        "no words": None if s.blank is None else lambda: _blank(s),
        "copies": (lambda: _copies(s)) if s.copies else None,
        "failures": (lambda: failure_problems(s.failures)) if s.failures else None,
    }
    return report_of(s.name, "divider", checks, lambda: fingerprint_of(s.make()))


def _never(meeting: Meeting) -> AsyncMake:
    raise LookupError(f"no divider comes to {meeting}")


def _offsets(subject: DividerSubject) -> Iterator[str]:
    if subject.text_of is not None:
        yield from offset_problems(subject.make(), subject.text_of)


def _unchanged(subject: DividerSubject) -> Iterator[str]:
    if subject.snapshot is not None:
        yield from change_problems(subject.snapshot, subject.make)


def _async(subject: DividerSubject, detector: Detector | None) -> Iterator[str]:
    if subject.amake is not None:
        amake = subject.amake

        async def work() -> list[Found]:
            return list(await amake())

        yield from async_problems(lambda: list(subject.make()), work, detector)


def _batch(subject: DividerSubject) -> Iterator[str]:
    if subject.one_by_one is not None and list(subject.one_by_one()) != list(subject.make()):
        yield "documents together give other pieces than each alone"


def _nothing(make: Make | None, what: str) -> Iterator[str]:
    if make is not None and (found := make()):
        yield f"{len(found)} pieces are made of {what}"


def _blank(subject: DividerSubject) -> Iterator[str]:
    if subject.blank is not None:
        yield from id_problems(subject.blank())


def _copies(subject: DividerSubject) -> Iterator[str]:
    expected = list(subject.make())
    for name, make in subject.copies.items():
        try:
            if list(make()) != expected:
                yield f"{name}: the copy makes other pieces"
        except Exception as error:  # whatever copying raises
            yield f"{name}: {type(error).__name__}: {error}"

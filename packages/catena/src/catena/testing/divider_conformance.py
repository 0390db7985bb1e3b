"""Check what makes pieces of documents: loaders, transformers, parsers and extractors of any framework."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from catena.testing.conformance import (
    Check,
    ConformanceReport,
    Detector,
    Flat,
    Found,
    Meeting,
    SubjectOfFound,
    async_problems,
    failure_problems,
    fingerprint_of,
    given,
    id_problems,
    listed,
    overlap_problems,
    report_of,
    same_by_copies,
)

Make = Callable[[], Sequence[Found]]
AsyncMake = Callable[[], Awaitable[Sequence[Found]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DividerSubject(SubjectOfFound):
    """A maker of pieces of documents, with the documents; a check whose field is None is left out.

    See `SubjectOfFound`, too.

    Attributes:
        make: the pieces of all documents.
        amake: the same, async; None where there is no such call.
        one_by_one: the pieces made of each document alone, one after another; None where documents depend on
            each other.
        empty: what is made of no documents at all.
        blank: what is made of a document without words; None where that is no input.
        copies: by name, how a copy of the divider (pickled, serialised, cloned) makes the same pieces.
        meeting: makes the divider anew on top of something whose calls each `arrive` at a meeting.
    """

    make: Make
    amake: AsyncMake | None = None
    one_by_one: Make | None = None
    empty: Make | None = None
    blank: Make | None = None
    copies: Mapping[str, Make] = field(default_factory=dict)
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
        **s.checks_of_found(lambda: [list(s.make())]),
        "async": given(
            s.amake, lambda amake: async_problems(lambda: list(s.make()), lambda: listed(amake()), blocking_detector)
        ),
        "side by side": given(s.meeting, overlap_problems),
        "batch": given(s.one_by_one, lambda alone: _batch(alone, s.make)),
        "no documents": given(s.empty, _nothing),
        "no words": given(s.blank, lambda blank: id_problems(blank())),
        "copies": same_by_copies(s.copies, lambda make: list(make()), lambda: list(s.make()), "makes other pieces"),
        "failures": given(s.failures or None, failure_problems),
    }
    return report_of(s.name, "divider", checks, lambda: fingerprint_of(s.make()))


def _batch(alone: Make, together: Make) -> Iterator[str]:
    if list(alone()) != list(together()):
        yield "documents together give other pieces than each alone"


def _nothing(make: Make) -> Iterator[str]:
    if found := make():
        yield f"{len(found)} pieces are made of no documents"

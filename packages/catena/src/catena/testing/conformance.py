"""Run conformance suites: what came back, the named checks, their report, and what async calls must do."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeVar

from catena.model import CatenaError, digest

T = TypeVar("T")

Detector = Callable[[], AbstractContextManager[Any]]
"""Opens a context in which a call that blocks the event loop is an error, as `blockbuster.blockbuster_ctx` does."""

Check = Callable[[], Iterable[str]]
"""Yields what is not kept, each as one sentence."""

Flat = Literal["scalars", "lists"]
"""What a store takes as a value of metadata: text, numbers, yes and no; or lists of text, too."""

WAIT_SECONDS = 10.0  # for calls that should meet; only calls that never do wait so long


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One thing that an adapter returned, in words of no framework.

    Attributes:
        id: as stores and chains see it; None where it has none.
        text: what a reader is given.
        score: None where there is none.
        metadata: all of it.
        routes: names of the ways by which it was found; () where that is not said.
        told: what failed while it was found, as it says itself.
        document_id: of the document that it is a slice of; None where it is no slice.
        start: offset of its first character in that document, from 0.
        end: offset behind its last character.
        slice_text: the slice itself, where `text` is another view of it; None where it is `text`.
    """

    id: str | None
    text: str
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    routes: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    document_id: str | None = None
    start: int | None = None
    end: int | None = None
    slice_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check: its problems, or None where the subject does not offer what it is about."""

    check: str
    problems: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceReport:
    """The results of a suite for one subject.

    Attributes:
        subject: its name.
        suite: "retriever", "divider", …
        outcomes: one per check of the suite, in its order.
        fingerprint: of everything that the subject returned; equal in another process and under another hash seed.
    """

    subject: str
    suite: str
    outcomes: tuple[CheckResult, ...]
    fingerprint: str = ""

    @property
    def problems(self) -> tuple[str, ...]:
        """Promises that are not kept, each as one sentence that begins with the name of the check."""
        return tuple(f"{one.check}: {problem}" for one in self.outcomes for problem in one.problems or ())

    @property
    def made(self) -> tuple[str, ...]:
        """Names of the checks that were made."""
        return tuple(one.check for one in self.outcomes if one.problems is not None)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the checks that need what the subject does not offer."""
        return tuple(one.check for one in self.outcomes if one.problems is None)

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the checks that found something."""
        return tuple(one.check for one in self.outcomes if one.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An adapter of which one part fails.

    Attributes:
        call: uses it, and returns what is left.
        raises: it shall fail with the failure, where False asks for the rest and for words on what failed.
    """

    call: Callable[[], Sequence[Found]]
    raises: bool = False


class Meeting:
    """A place that calls pass through only together: it tells calls side by side from calls one after another.

    Args:
        parties: how many calls must be there at once.
    """

    def __init__(self, parties: int = 2) -> None:
        self.met = False
        self._parties, self._come = parties, 0
        self._lock, self._all = threading.Lock(), threading.Event()

    def arrive(self) -> None:
        """Wait, in a thread, until all are there; give up after a while."""
        self._come_in()
        self._all.wait(WAIT_SECONDS)

    async def aarrive(self) -> None:
        """As `arrive`, on the event loop."""
        self._come_in()
        for _ in range(round(WAIT_SECONDS / 0.01)):
            if self._all.is_set():
                return
            await asyncio.sleep(0.01)

    def _come_in(self) -> None:
        with self._lock:
            self._come += 1
            if self._come >= self._parties:
                self.met = True
                self._all.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectOfFound:
    """The part of a subject that all suites have whose subjects return things found.

    Attributes:
        name: for the report.
        failures: by name; see `Failure`.
        snapshot: a deep copy of what the subject was given, to be found unchanged.
        text_of: the text of a document, by id; None where what is returned is no slice.
        flat: what of metadata a store takes; None asks for JSON alone.
        nested: keys of metadata that may hold more than that.
    """

    name: str
    failures: Mapping[str, Failure] = field(default_factory=dict)
    snapshot: Callable[[], Any] | None = None
    text_of: Callable[[str], str] | None = None
    flat: Flat | None = None
    nested: Sequence[str] = ()

    def checks_of_found(
        self, answers: Callable[[], Iterable[Sequence[Found]]], otherwise: str = "two calls differ"
    ) -> dict[str, Check | None]:
        """Return the checks of what is returned, whatever makes it.

        Args:
            answers: to all that the subject is asked, each time anew.
            otherwise: what to say where two calls have different answers.
        """

        def each(check: Callable[[Sequence[Found]], Iterable[str]]) -> Iterable[str]:
            return dict.fromkeys(problem for found in answers() for problem in check(found))

        def called() -> list[Sequence[Found]]:
            return list(answers())

        return {
            "ids": lambda: each(id_problems),
            "equal calls, equal answers": lambda: () if called() == called() else (otherwise,),
            "metadata": lambda: each(lambda found: metadata_problems(found, self.flat, self.nested)),
            "offsets": given(self.text_of, lambda text_of: each(lambda found: offset_problems(found, text_of))),
            "inputs unchanged": given(self.snapshot, lambda snapshot: change_problems(snapshot, called)),
        }


def report_of(
    subject: str, suite: str, checks: Mapping[str, Check | None], fingerprint: Callable[[], str]
) -> ConformanceReport:
    """Make all checks; one that fails itself is a problem, as the subject let an exception out."""
    outcomes = tuple(
        CheckResult(check=name, problems=None if check is None else tuple(_made(check)))
        for name, check in checks.items()
    )
    try:
        shown = fingerprint()
    except Exception:  # told by the checks
        shown = ""
    return ConformanceReport(subject=subject, suite=suite, outcomes=outcomes, fingerprint=shown)


def _made(check: Check) -> Iterator[str]:
    try:
        yield from check()
    except Exception as error:  # whatever a subject raises is what the check found
        yield f"it fails with {said(error)}"


def said(error: BaseException) -> str:
    """Return the kind and the words of an exception."""
    return f"{type(error).__name__}: {error}"


def fingerprint_of(found: Iterable[Found]) -> str:
    """Return a digest of ids, texts and scores, in their order."""
    return digest("conformance", *(f"{one.id}\n{one.text}\n{one.score}" for one in found))


def awaited(work: Callable[[], Awaitable[T]]) -> T:
    """Return what a coroutine returns, from a loop of its own in a thread: a notebook has one already."""

    async def main() -> T:
        return await work()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, main()).result()


def async_problems(
    plain: Callable[[], T], work: Callable[[], Awaitable[T]], detector: Detector | None
) -> Iterator[str]:
    """Yield where async differs from sync, blocks the event loop, or never gives it back."""
    expected = plain()
    turns = 0

    async def turning() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> T:
        other = asyncio.ensure_future(turning())
        try:
            with (detector or nullcontext)():
                return await work()
        finally:
            other.cancel()

    if awaited(main) != expected:
        yield "async and sync have different answers"
    if not turns:
        yield "async never gives the event loop back: everything else waits"


def overlap_problems(build: Callable[[Meeting], Callable[[], Awaitable[Any]]], parties: int = 2) -> Iterator[str]:
    """Yield whether calls wait for each other: each comes to one meeting, which takes them all to end."""
    meeting = Meeting(parties)
    call = build(meeting)

    async def main() -> None:
        await asyncio.gather(*(call() for _ in range(parties)))

    awaited(main)
    if not meeting.met:
        yield f"{parties} async calls do not run side by side"


def failure_problems(failures: Mapping[str, Failure]) -> Iterator[str]:
    """Yield which failures are silent, or cost everything, or pass where they shall be raised."""
    for name, failure in failures.items():
        with _warnings() as heard:
            try:
                found = failure.call()
            except Exception as error:
                if not failure.raises:
                    yield f"{name}: the whole call fails with {said(error)}"
                elif not str(error):
                    yield f"{name}: {type(error).__name__} says nothing"
                continue
        if failure.raises:
            yield f"{name}: nothing is raised"
        elif not found:
            yield f"{name}: nothing of the rest is returned"
        elif not heard and not any(one.told for one in found):
            yield f"{name}: it is told neither in what is returned nor in the log"


def refusal_problems(what: str, call: Callable[[], Any], *, answered: bool = True) -> Iterator[str]:
    """Yield when something that cannot be done is not refused in words; where `answered`, an answer will do, too."""
    try:
        call()
        if not answered:
            yield f"{what} is passed over"
    except (CatenaError, ValueError) as error:
        if not str(error):
            yield f"{what}: {type(error).__name__} says nothing"
    except Exception as error:
        yield f"{what}: {said(error)}, where an answer or a ValueError or CatenaError that says why is due"


def id_problems(found: Sequence[Found]) -> Iterator[str]:
    """Yield what lacks an id, and ids that are two things' own."""
    ids = [one.id for one in found]
    if missing := sum(not id for id in ids):
        yield f"{missing} of {len(ids)} have no id"
    if twice := sorted({id for id in ids if id and ids.count(id) > 1}):
        yield f"one id stands for several: {twice[0]}"


def score_problems(found: Sequence[Found], *, best_first: bool = True) -> Iterator[str]:
    """Yield what lacks a score, has none that counts, or stands before a better one."""
    scores = [one.score for one in found]
    if missing := sum(score is None for score in scores):
        yield f"{missing} of {len(scores)} have no score"
        return
    numbers = [score for score in scores if score is not None]
    if any(not math.isfinite(score) for score in numbers):
        yield "a score is no finite number"
    elif best_first and any(left < right for left, right in pairwise(numbers)):
        yield "the best is not first"


def provenance_problems(found: Sequence[Found]) -> Iterator[str]:
    """Yield what does not say by which ways it was found."""
    if missing := sum(not one.routes for one in found):
        yield f"{missing} of {len(found)} do not say how they were found"


def metadata_problems(found: Iterable[Found], flat: Flat | None, nested: Sequence[str] = ()) -> Iterator[str]:
    """Yield keys whose values no JSON file, or no vector store, takes.

    Args:
        found: things with metadata.
        flat: what a store takes; None asks for JSON alone.
        nested: keys that may hold more, as what is found need not be stored.
    """
    seen: set[str] = set()
    for key, value in ((key, value) for one in found for key, value in one.metadata.items()):
        if key in seen:
            continue
        try:
            json.dumps({key: value}, allow_nan=False)
        except (TypeError, ValueError) as error:
            seen.add(key)
            yield f"metadata[{key!r}] is no JSON: {error}"
            continue
        if flat is not None and key not in nested and not _fits(value, flat):
            seen.add(key)
            yield f"metadata[{key!r}] is a {type(value).__name__}, which a vector store refuses"


def given(part: T | None, check: Callable[[T], Iterable[str]]) -> Check | None:
    """Return the check of a part that a subject offers; None, which leaves it out, of one that it does not."""
    return None if part is None else lambda: check(part)


def same_by_copies(
    copies: Mapping[str, T], answer: Callable[[T], object], expected: Callable[[], object], otherwise: str
) -> Check | None:
    """Return the check that copies (pickled, serialised, cloned) of a subject answer as it does; None without any."""

    def check() -> Iterator[str]:
        own = expected()
        for name, copied in copies.items():
            try:
                if answer(copied) != own:
                    yield f"{name}: the copy {otherwise}"
            except Exception as error:  # whatever copying raises
                yield f"{name}: {said(error)}"

    return check if copies else None


async def listed(found: Awaitable[Iterable[T]]) -> list[T]:
    """Return as a list what an async call returns."""
    return list(await found)


def offset_problems(found: Sequence[Found], text_of: Callable[[str], str]) -> Iterator[str]:
    """Yield slices that are not what stands at their offsets in their documents."""
    for one in found:
        if one.document_id is None or one.start is None or one.end is None:
            yield f"{one.id} does not say of what document it is which slice"
            return
        expected = one.text if one.slice_text is None else one.slice_text
        if text_of(one.document_id)[one.start : one.end] != expected:
            yield f"{one.id} is not what stands at [{one.start}, {one.end}) of {one.document_id}"
            return


def change_problems(snapshot: Callable[[], Any], call: Callable[[], Any]) -> Iterator[str]:
    """Yield whether a call changed what was given to it; `snapshot` copies that deeply."""
    before = snapshot()
    call()
    if snapshot() != before:
        yield "what was given is changed"


def _fits(value: Any, flat: Flat) -> bool:
    if isinstance(value, str | int | float | bool):
        return True
    return flat == "lists" and isinstance(value, list) and all(isinstance(one, str) for one in value)


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collect what is written to the log as a warning or worse, whatever else becomes of it."""
    heard: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    listener, root = Listener(logging.WARNING), logging.getLogger()
    root.addHandler(listener)
    try:
        yield heard
    finally:
        root.removeHandler(listener)

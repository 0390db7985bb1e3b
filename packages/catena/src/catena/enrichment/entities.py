"""Critical named entities of documents and of questions, by any detectors together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from catena.effects import Failed, Step, together
from catena.enrichment.detectors import CodeDetector, Detected, Detector, Problem
from catena.enrichment.term_selection import merge_terms
from catena.model import Chunk, Degraded, Document, Entry
from catena.model.errors import ParameterError, ServiceError
from catena.model.ids import digest
from catena.text.terms import TermMatcher

OnError: TypeAlias = Literal["raise", "degrade"]
SHOWN = 5  # ids in a report


@dataclass(frozen=True, slots=True)
class Entities:
    """Per chunk, in order, its critical terms as `Entry.terms` takes them; and what failed or was refused.

    Attributes:
        failures: the failures alone, by 0-based place of the chunk: asked again, a detector may find more there.
    """

    terms: tuple[tuple[str, ...], ...]
    degraded: tuple[Degraded, ...] = ()
    failures: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryEntities:
    """The names that a question contains, normalised, in order of place; and what failed or was refused."""

    names: tuple[str, ...]
    degraded: tuple[Degraded, ...] = ()


def detect_entities(
    document: Document, chunks: Sequence[Chunk], detectors: Sequence[Detector], *, on_error: OnError = "degrade"
) -> Step[Entities]:
    """Return the critical entities of a document's chunks, found by several detectors side by side.

    What the text gives away by itself (title, codes, cells of tables) is `critical_terms`; this adds to it:

        entry = prepare(document, preparation)
        detectors = (
            ExpertDetector(terms=ExpertTerms.read("parts.csv")),
            RecognizerDetector(labels=("PRODUCT", "ORG")),
            LLMDetector(),
        )
        services = Services(llm=model, recognizer=SpacyRecognizer("en_core_web_sm"), journal=journal)
        found = run(detect_entities(entry.document, entry.chunks, detectors), services)
        entry = with_terms(entry, found.terms)

    A run has one recogniser; for a second one run this again with other services, and `with_terms` both results.

    Args:
        document: named in reports.
        chunks: of that document, in order.
        detectors: any number, in any order: the result is the same. A term found by two has the greater weight.
        on_error: a chunk that a detector fails at has fewer terms, and is reported; or the failure is raised.

    Raises:
        CatenaError: no service was given that a detector needs; or a detector failed and `on_error` is "raise".
    """
    detected = yield from _by_all([chunk.text for chunk in chunks], detectors, on_error)
    places = [f"chunk {chunk.id}" for chunk in chunks]
    degraded = [
        each
        for detector, found in zip(detectors, detected, strict=True)
        for each in _reports(detector.name, found.problems, places, f" of {document.id}")
    ]
    terms = merge_terms(((),) * len(chunks), *(found.terms for found in detected))
    failures = [problem for found in detected for problem in found.problems if problem.error is not None]
    return Entities(terms, tuple(degraded), tuple(failures))


def query_entities(
    query: str, detectors: Sequence[Detector] = (CodeDetector(),), *, on_error: OnError = "degrade"
) -> Step[QueryEntities]:
    """Return the names that a question contains, found by several detectors side by side.

    Only names that the question prints, never another spelling of one. Names inside longer ones are all kept;
    `TermMatcher(names).longest_in(query)` keeps the longest at each place, as the keyword route counts them.

    Args:
        query: as typed.
        detectors: without any given, the rule for code-like words alone, which asks no model.
        on_error: a detector that fails finds nothing, and is reported; or the failure is raised.

    Raises:
        CatenaError: as in `detect_entities`.
    """
    detected = yield from _by_all([query], detectors, on_error)
    names = TermMatcher(term for found in detected for term in found.terms[0]).all_in(query)
    degraded = [
        each
        for detector, found in zip(detectors, detected, strict=True)
        for each in _reports(detector.name, found.problems, ["the question"], "")
    ]
    return QueryEntities(names, tuple(degraded))


def with_terms(entry: Entry, *lists: Sequence[Sequence[str]]) -> Entry:
    """Return the entry with further critical terms, by `merge_terms`.

    Its fingerprint changes with its terms, so that a store that holds it without them takes the new one.

    Raises:
        ParameterError: a list is neither empty nor as long as there are chunks.
    """
    if wrong := [len(terms) for terms in lists if len(terms) not in {0, len(entry.chunks)}]:
        raise ParameterError("lists of terms", wrong, f"empty, or one for each of {len(entry.chunks)} chunks")
    terms = merge_terms(entry.terms, *lists)
    if terms == entry.terms:
        return entry
    return replace(entry, terms=terms, fingerprint=digest(entry.fingerprint, repr(terms)))


def _by_all(texts: Sequence[str], detectors: Sequence[Detector], on_error: OnError) -> Step[list[Detected]]:
    """Return what each detector found; one that breaks off has failed at every text."""
    if on_error not in ("raise", "degrade"):
        raise ParameterError("on_error", on_error, "'raise' or 'degrade'")
    results = yield from together([detector.detect(texts) for detector in detectors])
    detected: list[Detected] = []
    for result in results:
        if isinstance(result, Failed):
            detected.append(_broken(result.error, len(texts)))
        else:
            detected.append(result)
    errors = [problem.error for found in detected for problem in found.problems if problem.error is not None]
    if errors and on_error == "raise":
        raise errors[0]
    return detected


def _broken(error: Exception, n_texts: int) -> Detected:
    if not isinstance(error, ServiceError):
        raise error
    return Detected(((),) * n_texts, tuple(Problem(place, str(error), error) for place in range(n_texts)))


def _reports(name: str, problems: Sequence[Problem], places: Sequence[str], tail: str) -> list[Degraded]:
    """Say each reason once, with the places it concerns."""
    by_reason: dict[str, list[str]] = {}
    for problem in problems:
        by_reason.setdefault(problem.why, []).append(places[problem.text])
    return [
        Degraded(f"{name} at {', '.join(where[:SHOWN])}{_more(len(where) - SHOWN)}{tail}", why)
        for why, where in by_reason.items()
    ]


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""

"""Find the critical named entities of documents and of questions, by any detectors together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal, Protocol, TypeAlias, runtime_checkable

from annotated_types import Ge

from catena import prompts
from catena.effects import Complete, Failed, Recognise, Request, Step, together
from catena.enrichment.term_selection import ExpertTerms, merge_terms
from catena.model import Chunk, Degraded, Document, Entry
from catena.model.errors import CatenaError, InvalidReplyError, ParameterError, ServiceError
from catena.model.ids import digest
from catena.model.options import Checked, as_tuples, check_options
from catena.text import TermMatcher, codes_in, last_value, normalise_term, says_something

Names: TypeAlias = tuple[str, ...]
OnError: TypeAlias = Literal["raise", "degrade"]

SHOWN = 5  # refused names, or ids of chunks, in a message
SHOWN_CHARACTERS = 60  # of a refused name
KINDS = (
    "products, models and their part numbers; components and parts with a name or number of their own; "
    "organisations; standards and regulations; documents and versions"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One text that a detector failed at (then `error` says why), or a name that it did not take from its model."""

    text: int  # 0-based place among the texts
    why: str
    error: CatenaError | None = None


@dataclass(frozen=True, slots=True)
class Detected:
    """Per text, in order, its terms: normalised, sorted, a term of weight w occurring w times."""

    terms: tuple[tuple[str, ...], ...]
    problems: tuple[Problem, ...] = ()


@runtime_checkable
class Detector(Protocol):
    """The interface of detectors of critical entities; one may ask models, by yielding requests."""

    @property
    def name(self) -> str:
        """Return its name in reports of failures."""

    def detect(self, texts: Sequence[str]) -> Step[Detected]:
        """Return the terms of each text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertDetector(Checked):
    """Finds the terms of an expert's list, with all spellings of each. Asks no model."""

    terms: ExpertTerms
    name: str = "expert list"

    def detect(self, texts: Sequence[str]) -> Step[Detected]:
        """Return the terms of each text."""
        yield from ()
        return Detected(tuple(_repeated(self.terms.carried(text)) for text in texts))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeDetector(Checked):
    """Finds words that mix letters and digits, as product codes do ("STM32F103R4", "HX-200"). Asks no model."""

    weight: Annotated[int, Ge(1)] = 1
    name: str = "codes"

    def detect(self, texts: Sequence[str]) -> Step[Detected]:
        """Return the codes in each text."""
        yield from ()
        normal = (map(normalise_term, codes_in(text)) for text in texts)
        return Detected(tuple(_repeated(dict.fromkeys(filter(says_something, of), self.weight)) for of in normal))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognizerDetector:
    """Asks the run's entity recogniser (`Services(recognizer=...)`): spaCy, GLiNER, or your own.

    Attributes:
        labels: the kinds to take, in the model's words ("PRODUCT", "ORG"); none: those the recogniser was made with.
        weight: of each name in |C|.
        max_words: longer names are refused.
    """

    labels: tuple[str, ...] = ()
    weight: Annotated[int, Ge(1)] = 1
    max_words: Annotated[int, Ge(1)] = 8
    bounds: Bounds = field(default_factory=lambda: Bounds(texts=64, characters=200_000))
    name: str = "recogniser"

    def __post_init__(self) -> None:
        as_tuples(self, "labels")
        check_options(self)

    def detect(self, texts: Sequence[str]) -> Step[Detected]:
        """Return the names that the recogniser finds and the text prints."""

        def request(batch: tuple[str, ...]) -> Recognise:
            return Recognise(texts=batch, labels=self.labels, purpose="critical entities")

        found = yield from names_by_text(texts, self.bounds, request, lambda reply, _: reply)
        return _checked(texts, found, self.weight, self.max_words)


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMDetector(Checked):
    """Asks the run's language model for names; those that the text does not print are refused and reported.

    Attributes:
        kinds: what to look for, in words.
        weight: of each name in |C|.
        max_words: longer names are refused.
        bounds: of one call; one call per text is dearest and least likely to mix texts up.
        max_tokens: of one reply; a reply that is cut is asked for again, text by text.
    """

    kinds: str = KINDS
    weight: Annotated[int, Ge(1)] = 1
    max_words: Annotated[int, Ge(1)] = 8
    bounds: Bounds = field(default_factory=lambda: Bounds(texts=8, characters=16_000))
    max_tokens: Annotated[int, Ge(1)] = 1_024
    name: str = "language model"

    def detect(self, texts: Sequence[str]) -> Step[Detected]:
        """Return the names that the model gives and the text prints."""
        found = yield from names_by_text(
            texts, self.bounds, self._request, lambda reply, count: name_lists(reply.text, count)
        )
        return _checked(texts, found, self.weight, self.max_words)

    def _request(self, batch: tuple[str, ...]) -> Request:
        return Complete.of(
            prompts.load("critical_entities"),
            "critical entities",
            max_tokens=self.max_tokens,
            validate=partial(name_lists, count=len(batch)),
            kinds=self.kinds,
            count=str(len(batch)),
            passages=_numbered(batch),
        )


def _checked(texts: Sequence[str], found: Mapping[str, Names | CatenaError], weight: int, max_words: int) -> Detected:
    """Keep what the texts print, and say what was refused and what failed."""
    terms: list[tuple[str, ...]] = []
    problems: list[Problem] = []
    for place, text in enumerate(texts):
        names: Any = found[text]
        if isinstance(names, CatenaError):
            problems.append(Problem(place, str(names), names))
            names = ()
        kept = grounded(names, text, max_words=max_words)
        terms.append(_repeated(dict.fromkeys(kept.names, weight)))
        if kept.complaint:
            problems.append(Problem(place, kept.complaint))
    return Detected(tuple(terms), tuple(problems))


def _repeated(weights: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(sorted(term for term, weight in weights.items() for _ in range(weight)))


def _numbered(texts: Sequence[str]) -> str:
    """Return the texts as the model reads them; no text can end its own passage."""
    return "\n".join(
        f'<passage number="{number}">\n{prompts.shut_in(text.strip(), "passage")}\n</passage>'
        for number, text in enumerate(texts, start=1)
    )


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


def usual_detectors(*, llm: bool, recognizer: bool) -> tuple[Detector, ...]:
    """Return the rule for code-like words, and a detector for each model that there is."""
    by_models = ((LLMDetector(), llm), (RecognizerDetector(), recognizer))
    return (CodeDetector(), *(detector for detector, is_there in by_models if is_there))


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
    places = [f"chunk {chunk.id}" for chunk in chunks]
    texts = [chunk.text for chunk in chunks]
    detected, degraded = yield from _by_all(texts, detectors, on_error, places, f" of {document.id}")
    terms = merge_terms(((),) * len(chunks), *(found.terms for found in detected))
    failures = [problem for found in detected for problem in found.problems if problem.error is not None]
    return Entities(terms, degraded, tuple(failures))


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
    detected, degraded = yield from _by_all([query], detectors, on_error, ["the question"], "")
    names = TermMatcher(term for found in detected for term in found.terms[0]).all_in(query)
    return QueryEntities(names, degraded)


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


def _by_all(
    texts: Sequence[str], detectors: Sequence[Detector], on_error: OnError, places: Sequence[str], tail: str
) -> Step[tuple[list[Detected], tuple[Degraded, ...]]]:
    """Run all detectors and return the terms of each; one that breaks off has failed at every text."""
    if on_error not in ("raise", "degrade"):
        raise ParameterError("on_error", on_error, "'raise' or 'degrade'")
    results = yield from together([detector.detect(texts) for detector in detectors])
    detected = [_broken(result.error, len(texts)) if isinstance(result, Failed) else result for result in results]
    errors = [problem.error for found in detected for problem in found.problems if problem.error is not None]
    if errors and on_error == "raise":
        raise errors[0]
    named = zip(detectors, detected, strict=True)
    degraded = (each for detector, found in named for each in _reports(detector.name, found.problems, places, tail))
    return detected, tuple(degraded)


def _broken(error: Exception, n_texts: int) -> Detected:
    if not isinstance(error, ServiceError):
        raise error
    return Detected(((),) * n_texts, tuple(Problem(place, str(error), error) for place in range(n_texts)))


def _reports(name: str, problems: Sequence[Problem], places: Sequence[str], tail: str) -> list[Degraded]:
    """Say each reason once, with the places it concerns."""
    by_reason: dict[str, list[str]] = {}
    for problem in problems:
        by_reason.setdefault(problem.why, []).append(places[problem.text])
    return [Degraded(f"{name} at {_some(where)}{tail}", why) for why, where in by_reason.items()]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds(Checked):
    """The limits of one request; a text longer than `characters` goes alone, and whole."""

    texts: Annotated[int, Ge(1)]
    characters: Annotated[int, Ge(1)]


def batches(texts: Sequence[str], bounds: Bounds) -> Iterator[tuple[str, ...]]:
    """Yield the texts in order, in as few tuples as the bounds allow when filled one after the other."""
    batch: list[str] = []
    for text in texts:
        if batch and (len(batch) == bounds.texts or sum(map(len, batch)) + len(text) > bounds.characters):
            yield tuple(batch)
            batch = []
        batch.append(text)
    if batch:
        yield tuple(batch)


def names_by_text(
    texts: Sequence[str],
    bounds: Bounds,
    request_of: Callable[[tuple[str, ...]], Request],
    names_of: Callable[[Any, int], Sequence[Names]],
) -> Step[dict[str, Names | CatenaError]]:
    """Return per distinct text the names that the model gave, or why there are none.

    One text that the model refuses, or that breaks its reply, loses none of those that shared its request: these
    are asked for again, each alone. That is not done when the service is merely out of reach.

    Args:
        texts: blank ones are not asked about.
        bounds: of one request.
        request_of: the request for a batch.
        names_of: (reply, number of texts) -> the names in each; raises ValueError where the reply holds none.

    Raises:
        CatenaError: not a failure of the service, but of what surrounds it (no service, a broken journal).
    """
    found: dict[str, Names | CatenaError] = {text: () for text in texts}
    pending = list(batches([text for text in found if text.strip()], bounds))
    while pending:
        again: list[tuple[str, ...]] = []
        replies = yield [request_of(batch) for batch in pending]
        for batch, reply in zip(pending, replies, strict=True):
            if not isinstance(reply, Failed):
                found.update(_read(batch, reply, names_of))
            elif not isinstance(reply.error, ServiceError):
                raise reply.error
            elif len(batch) > 1 and not reply.error.retry:
                again.extend((text,) for text in batch)
            else:
                found.update(dict.fromkeys(batch, reply.error))
        pending = again
    return found


def _read(
    batch: tuple[str, ...], reply: Any, names_of: Callable[[Any, int], Sequence[Names]]
) -> dict[str, Names | CatenaError]:
    """Return the names of each text; a reply that was not checked, as in a dry run, may hold none."""
    try:
        lists = names_of(reply, len(batch))
        if len(lists) != len(batch):
            raise ValueError(f"names in {len(lists)} texts were given for {len(batch)}")
    except ValueError as error:
        return dict.fromkeys(batch, InvalidReplyError("model", str(error)))
    return dict(zip(batch, lists, strict=True))


@dataclass(frozen=True, slots=True)
class Grounded:
    """The names that a text prints, normalised, in order of place; and the others as given."""

    names: tuple[str, ...]
    refused: tuple[str, ...]

    @property
    def complaint(self) -> str:
        """Return the refused names in words; "" when none was."""
        shown = _some([repr(name[:SHOWN_CHARACTERS]) for name in self.refused])
        return f"left out {shown}: not a name that the text prints" if shown else ""


def grounded(names: Iterable[str], text: str, *, max_words: int) -> Grounded:
    """Keep the names that a text prints between word borders, in any case, width, dash and spacing.

    Refused are names that the text does not print and those of more than `max_words` words, which are sentences.
    What says nothing as a term (a number, a single character) is left out without a word.
    """
    given = {normal: name for name in names if says_something(normal := normalise_term(name))}
    found = TermMatcher([normal for normal in given if len(normal.split()) <= max_words]).all_in(text)
    return Grounded(found, tuple(name for normal, name in given.items() if normal not in found))


def name_lists(reply: str, count: int) -> tuple[tuple[str, ...], ...]:
    """Return the names in a model's reply, one tuple per passage.

    Taken is the last JSON list in it of one list of strings per passage, or an object with them as its members; for a
    single passage its list alone will do.

    Raises:
        ValueError: it is anything else; the message says what.
    """

    def of_passages(value: Any) -> tuple[tuple[str, ...], ...] | None:
        lists = [value] if count == 1 and _is_names(value) else value
        lists = list(lists.values()) if isinstance(lists, dict) else lists
        fits = len(lists) == count and all(map(_is_names, lists))
        return tuple(tuple(names) for names in lists) if fits else None

    found = last_value(reply, of_passages)
    if found is None:
        raise ValueError(f"the reply holds no JSON list of {count} lists of strings")
    return found


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)

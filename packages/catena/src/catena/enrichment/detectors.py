"""Detectors of critical entities: expert lists, code-like words, recognition models, and language models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Protocol, runtime_checkable

from annotated_types import Ge

from catena import prompts
from catena.effects import Complete, Recognise, Request, Step
from catena.enrichment.asking import Bounds, Names, names_by_text
from catena.enrichment.expert_terms import ExpertTerms
from catena.enrichment.mentions import grounded, name_lists
from catena.model.errors import CatenaError
from catena.model.options import as_tuples, check_options
from catena.text.names import codes_in, says_something
from catena.text.words import normalise_term

KINDS = (
    "products, models and their part numbers; components and parts with a name or number of their own; "
    "organisations; standards and regulations; documents and versions"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What a detector could not do with one text (then `error` says why), or would not take from its model."""

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
    """Anything that finds critical entities in texts; it may ask models, by yielding requests."""

    @property
    def name(self) -> str:
        """What reports of failures call it."""
        ...

    def detect(self, texts: Sequence[str]) -> Step[Detected]:
        """Return the terms of each text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertDetector:
    """Finds the terms of an expert's list, with all spellings of each. Asks no model."""

    terms: ExpertTerms
    name: str = "expert list"

    def __post_init__(self) -> None:
        check_options(self)

    def detect(self, texts: Sequence[str]) -> Step[Detected]:
        """Return the terms of each text."""
        yield from ()
        return Detected(tuple(_repeated(self.terms.carried(text)) for text in texts))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeDetector:
    """Finds words that mix letters and digits, as product codes do ("STM32F103R4", "HX-200"). Asks no model."""

    weight: Annotated[int, Ge(1)] = 1
    name: str = "codes"

    def __post_init__(self) -> None:
        check_options(self)

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
class LLMDetector:
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

    def __post_init__(self) -> None:
        check_options(self)

    def detect(self, texts: Sequence[str]) -> Step[Detected]:
        """Return the names that the model gives and the text prints."""
        found = yield from names_by_text(
            texts, self.bounds, self._request, lambda reply, count: name_lists(reply.text, count)
        )
        return _checked(texts, found, self.weight, self.max_words)

    def _request(self, batch: tuple[str, ...]) -> Request:
        prompt = prompts.load("critical_entities")
        return Complete(
            prompt=prompt.filled(kinds=self.kinds, count=str(len(batch)), passages=_numbered(batch)),
            purpose="critical entities",
            system=prompt.system,
            max_tokens=self.max_tokens,
            prompt_version=prompt.version,
            schema=prompt.schema,
            validate=partial(name_lists, count=len(batch)),
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
        f'<passage number="{number}">\n{text.strip().replace("</passage", "< /passage")}\n</passage>'
        for number, text in enumerate(texts, start=1)
    )

"""Measure whether a model finds the answer scope by itself: it copies sentences, and they are compared.

    cases = span_cases(dataset, given="document")  # and once more with given="section"
    answers = run(ask_spans(cases), services)
    result = span_result(cases, answers)

Copies are found as exact slices of the text, however freely a model copied them (`CopySource`).

Source: MC-indexing, section 5.7, Figures 4 and 7; the wording of the prompt is ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any, Literal, TypeAlias

from catena import Document, prompts
from catena.effects import Complete, Step, answer_of
from catena.evaluation import MeanScore, Span, coverage, mean_score
from catena.model import EvaluationError, ParameterError, ServiceError
from catena.text import Located, PlaceState, Wording, is_border, last_value, nearest, place_of, tokenise
from catena_bench.questions.dataset import ScopeDataset, ScopeQuestion

LEAST_WORDS = 3  # of a copy: fewer stand anywhere
LEAST_SIMILARITY = 0.9  # of a long copy that is only near; characters of both that agree in order / all of both
_LONG = 400  # words; of a longer copy the beginning and the end are looked for
_END = 100  # words of each

_ELLIPSIS = re.compile(r"(?:(?<!\s)\s++)?(?:[\[(]\s*+)?(?:…|\.{3,}+)(?:\s*+[\])])?\s*+")


class CopySource:
    """A text in which copies are looked for, many times."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._words = Wording(text)

    def find(self, copy: str, *, after: int = 0) -> Located | None:
        """Find a copy: the truest place; of several, the first from `after` on, else the first.

        A place begins and ends between words: a copy that ends inside one is taken to mean all of it.

        Returns:
            `exact`, `normalised` or `near`, see `catena.text.quotes`. None where it stands nowhere, where a value in
            it was changed, or where it has fewer than `LEAST_WORDS` words.
        """
        said = copy.strip()
        if len(tokenise(said)) < LEAST_WORDS:
            return None
        at = self.text.find(said, after)
        at = at if at >= 0 else self.text.find(said)
        if at >= 0:
            return self._whole_words(at, at + len(said), "exact")
        words = Wording(said)
        found = self._found(words, self._words, after)
        if found is None and said.isupper() and self._lowered is not None and len(said.lower()) == len(said):
            words = Wording(said.lower())  # written in capitals, each word would count as a name or a code
            found = self._found(words, self._lowered, after)
        if found is None:
            return None
        before = words.span(0, 1)[0]
        behind = len(said) - words.span(len(words.folded) - 1, len(words.folded))[1]
        start = found.start - len(_marks(self.text[max(0, found.start - before) : found.start][::-1]))
        end = found.end + len(_marks(self.text[found.end : found.end + behind]))
        return self._whole_words(start, end, found.state)

    @cached_property
    def _lowered(self) -> Wording | None:
        """Return the text in lower case; None where that moves its places."""
        lowered = self.text.lower()
        return Wording(lowered) if len(lowered) == len(self.text) else None

    def _found(self, words: Wording, printed: Wording, after: int) -> Located | None:
        """Find a copy by its words, true or near; None for one of which a value was changed."""
        found = place_of(words, printed, after=after, over_ellipses=False) or self._near(words, printed)
        return None if found is None or found.state == "altered" else found

    def find_all(self, copies: Iterable[str]) -> tuple[tuple[Span, ...], tuple[str, ...]]:
        """Find all copies; return their places, ascending, joined over white space, and the copies missing.

        A copy with an ellipsis in it that the text does not have stands for the runs around the ellipsis.
        """
        spans: list[Span] = []
        missing: list[str] = []
        after = 0
        for copy in copies:
            whole = self.find(copy, after=after)
            parts = [part for part in _ELLIPSIS.split(copy) if part.strip()]
            for part in [copy] if whole is not None or len(parts) < 2 else parts:
                found = whole or self.find(part, after=after)
                if found is None:
                    missing.append(part)
                else:
                    spans.append((found.start, found.end))
                    after = found.end
        return joined(spans, self.text), tuple(missing)

    def _near(self, words: Wording, printed: Wording) -> Located | None:
        """Find a copy of which some words were changed; a long one from a place like its beginning to its end's."""
        if len(words) <= _LONG:
            return nearest(words, printed)
        if LEAST_SIMILARITY * (len(words) + len(printed)) > 2 * len(printed):  # longer than what it copies
            return None
        from rapidfuzz.fuzz import ratio

        ends = [self._end(words, printed, first) for first in (0, len(words) - _END)]
        if ends[0] is None or ends[1] is None or ends[0].start >= ends[1].end:
            return None
        between = Wording(printed.text[ends[0].start : ends[1].end])
        same = 100 * LEAST_SIMILARITY
        if _values(words) != _values(between) or ratio(words.folded, between.folded, score_cutoff=same) < same:
            return None
        return Located(ends[0].start, ends[1].end, "near")

    def _end(self, words: Wording, printed: Wording, first: int) -> Located | None:
        end = Wording(words.text[slice(*words.span(words.token(first).start, words.token(first + _END - 1).end))])
        return place_of(end, printed) or nearest(end, printed)

    def _whole_words(self, start: int, end: int, state: PlaceState) -> Located:
        while not is_border(self.text, start):
            start -= 1
        while not is_border(self.text, end):
            end += 1
        return Located(start, end, state)


def _marks(text: str) -> str:
    """Return the marks that a text begins with, up to white space or a word: a copy has them around its words too."""
    return "".join(takewhile(lambda character: not character.isalnum() and not character.isspace(), text))


def _values(words: Wording) -> list[str]:
    return [token.key for token in words.tokens if token.kind == "number"]


def joined(spans: Iterable[Span], text: str) -> tuple[Span, ...]:
    """Return spans ascending, those that overlap or have only white space between them as one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and (start <= found[-1][1] or not text[found[-1][1] : start].strip()):
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return tuple(found)


Given: TypeAlias = Literal["document", "section"]

PURPOSE = "answer scope"
"""The purpose of every request made here, as a plan counts it."""

_TAGS = ("text",)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCase:
    """A question, and the part [start, end) of its document that a model reads."""

    question: ScopeQuestion
    document: Document
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end <= len(self.document.text):
            raise ParameterError("part", (self.start, self.end), f"within {len(self.document.text)} characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanAnswer:
    """The sentences that a model copied.

    Attributes:
        question: its id.
        spans: where the copies stand, offsets into `Document.text`, ascending; none where it found nothing.
        missing: what it gave that stands nowhere in what it read.
        failure: why there is no answer at all, "" where there is.
    """

    question: str
    spans: tuple[Span, ...] = ()
    missing: tuple[str, ...] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True)
class SpanScore:
    """Of visible characters: the share of what was copied that is evidence, of the evidence that was copied, F1."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanResult:
    """Means over questions.

    Attributes:
        scores: by question id; a question without an answer scores 0.
        failed: ids of questions for which the model failed or wrote something else, in order.
        missing: copies that stand nowhere, of all questions.
    """

    precision: MeanScore
    recall: MeanScore
    f1: MeanScore
    scores: dict[str, SpanScore]
    failed: tuple[str, ...]
    missing: int


def span_cases(dataset: ScopeDataset, *, given: Given) -> tuple[SpanCase, ...]:
    """Return one case per question: the model reads its whole document, or the sections that its evidence lies in.

    Sections are given from the first to the last that holds evidence, heading lines included; where the data set has
    none there, the whole document is.

    Raises:
        ParameterError: `given` is neither "document" nor "section".
    """
    if given not in ("document", "section"):
        raise ParameterError("given", given, "'document' or 'section'")
    documents = {document.id: document for document in dataset.documents}
    cases: list[SpanCase] = []
    for question in dataset.questions:
        document = documents[question.document]
        first, last = question.evidence[0][0], max(end for _, end in question.evidence)
        holding = [
            section
            for section in (dataset.sections[document.id] if given == "section" else ())
            if section.start < last and first < section.end
        ]
        start = min([first, *(section.start for section in holding)]) if holding else 0
        end = max([last, *(section.end for section in holding)]) if holding else len(document.text)
        cases.append(SpanCase(question=question, document=document, start=start, end=end))
    return tuple(cases)


def ask_spans(cases: Sequence[SpanCase], *, max_tokens: int = 2048) -> Step[tuple[SpanAnswer, ...]]:
    """Let a model copy, for each case, the sentences that answer its question: one request per case.

    A reply without a list of copies is refused, and a model that fails, as at a document longer than its window, is
    reported with its question; the others go on.

    Raises:
        CatenaError: not a failure of the model, but of what surrounds it (no service, the budget, the journal).
    """
    requests = [_request(case, max_tokens) for case in cases]
    replies: Sequence[Any] = (yield requests) if requests else ()
    sources: dict[tuple[str, int, int], CopySource] = {}  # many questions are asked of one document
    return tuple(_answer(case, reply, sources) for case, reply in zip(cases, replies, strict=True))


def read_copies(reply: str) -> tuple[str, ...]:
    """Return the texts that a reply lists last under "context": a list of strings, or one string.

    Raises:
        ValueError: there is no such list.
    """
    listed = last_value(reply, _context)
    if listed is None:
        raise ValueError('the reply holds no JSON object with "context"')
    if not all(isinstance(each, str) for each in listed):
        raise ValueError('"context" holds something else than texts')
    return tuple(each for each in listed if each.strip())


def _context(value: Any) -> list[Any] | None:
    if not isinstance(value, dict) or "context" not in value:
        return None
    return value["context"] if isinstance(value["context"], list) else [value["context"]]


def span_score(found: Sequence[Span], evidence: Sequence[Span], text: str) -> SpanScore:
    """Compare two sets of spans by the visible characters of their unions, P of them shared.

    `precision = P / found`, `recall = P / evidence`, `F1 = 2 precision recall / (precision + recall)`; all are 0
    where nothing visible was found.

    Raises:
        EvaluationError: the evidence has no visible character, or a span does not lie in the text.
    """
    recall = coverage(found, evidence, text)
    shown = [(start, end) for start, end in found if text[start:end].strip()]
    precision = coverage(evidence, shown, text) if shown else 0.0
    total = precision + recall
    return SpanScore(precision, recall, 2 * precision * recall / total if total else 0.0)


def span_result(
    cases: Sequence[SpanCase],
    answers: Sequence[SpanAnswer],
    *,
    level: float = 0.95,
    rounds: int = 10_000,
    seed: int = 0,
) -> SpanResult:
    """Return mean precision, recall and F1 over the cases, with bootstrap intervals.

    Args:
        cases: as they were asked.
        answers: one per case, in order.
        level: of the intervals, in (0, 1).
        rounds: bootstrap samples.
        seed: of the samples.

    Raises:
        EvaluationError: there are no cases, or the answers are not theirs.
        ParameterError: level or rounds is outside its domain.
    """
    ids = [case.question.id for case in cases]
    if not ids or [answer.question for answer in answers] != ids:
        raise EvaluationError(
            f"{len(answers)} answers are not those of {len(ids)} cases, one each and in their order"
        )
    scores = {
        case.question.id: span_score(answer.spans, case.question.evidence, case.document.text)
        for case, answer in zip(cases, answers, strict=True)
    }

    def mean(values: Sequence[float]) -> MeanScore:
        return mean_score(values, level=level, rounds=rounds, seed=seed)

    return SpanResult(
        precision=mean([score.precision for score in scores.values()]),
        recall=mean([score.recall for score in scores.values()]),
        f1=mean([score.f1 for score in scores.values()]),
        scores=scores,
        failed=tuple(answer.question for answer in answers if answer.failure),
        missing=sum(len(answer.missing) for answer in answers),
    )


def _request(case: SpanCase, max_tokens: int) -> Complete:
    return Complete.of(
        prompts.load("answer_scope"),
        PURPOSE,
        max_tokens=max_tokens,
        validate=read_copies,
        question=prompts.shut_in(case.question.text.strip(), *_TAGS),
        text=prompts.shut_in(case.document.text[case.start : case.end].strip(), *_TAGS),
    )


def _answer(case: SpanCase, reply: Any, sources: dict[tuple[str, int, int], CopySource]) -> SpanAnswer:
    name = case.question.id
    copies = answer_of(reply, read_copies)
    if isinstance(copies, ServiceError):
        return SpanAnswer(question=name, failure=str(copies))
    part = (case.document.text, case.start, case.end)
    if part not in sources:
        sources[part] = CopySource(case.document.text[case.start : case.end])
    spans, missing = sources[part].find_all(copies)
    return SpanAnswer(
        question=name, spans=tuple((start + case.start, end + case.start) for start, end in spans), missing=missing
    )

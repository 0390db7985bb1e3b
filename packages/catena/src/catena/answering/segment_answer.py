"""The standard way from segments to an answer: one context over documents, its conflicts, quotes that are checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from catena.answering.cited import CitedAnswer, answer_cited
from catena.answering.conflict_finding import Conflict, conflicts
from catena.answering.integration import IntegratedContext, Layout, integrate
from catena.model.options import check_options
from catena.structure.context_header import DSRAG, HeaderTemplate, segment_header
from catena.structure.tokens import count_tokens

if TYPE_CHECKING:
    from catena.answering.integration import ValuedSegment
    from catena.effects import Step
    from catena.model import Document, Hit, Segment, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """What the model is given, and how much it may write.

    Attributes:
        budget_tokens: of all passages together, headers and markers counted; None for no limit.
        layout: of the passages, as `catena.answering.integrate` takes it.
        cut: shorten the first segment that does not fit, instead of leaving it out.
        header: the words over the passages of a document; None for none.
        conflicts: look for fields that passages give different values for, and tell the model of them.
        max_tokens: of answer and quotes.
    """

    budget_tokens: Annotated[int, Ge(0)] | None = 4_000
    layout: Layout = "grouped"
    cut: bool = True
    header: HeaderTemplate | None = DSRAG
    conflicts: bool = True
    max_tokens: Annotated[int, Ge(1)] = 2_048

    def __post_init__(self) -> None:  # before segments are searched and paid for
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentAnswer:
    """An answer with all that it rests on.

    Attributes:
        answer: None where there was no passage to answer from; then no model was asked.
        context: what the model read; passage n is the answer's [n].
        conflicts: fields for which the passages print different values.
    """

    question: str
    answer: CitedAnswer | None
    context: IntegratedContext
    conflicts: tuple[Conflict, ...] = ()


def answer_from(
    question: str,
    segments: Sequence[Segment | Hit | ValuedSegment],
    options: AnswerOptions | None = None,
    *,
    nowhere: Sequence[Unknown] = (),
    documents: Iterable[Document] = (),
) -> Step[SegmentAnswer]:
    """Write an answer from segments of any number of documents, every statement with a quote that is looked up.

    Args:
        question: as typed.
        segments: as `Extraction.segments` has them, hits, or bare segments, best first.
        options: how.
        nowhere: names in the question that stand nowhere.
        documents: where given, the pages of a quote are its own, not those of its passage.

    Raises:
        ServiceError: the model failed, or its reply was truncated, refused or empty.
    """
    how = options or AnswerOptions()
    context = integrate(
        segments,
        budget_tokens=how.budget_tokens,
        count=count_tokens,
        layout=how.layout,
        cut=how.cut,
        header=_no_header if how.header is None else partial(segment_header, template=how.header),
    )
    found = conflicts(context.passages) if how.conflicts else ()
    if not context.passages:
        return SegmentAnswer(question=question, answer=None, context=context)
    answer = yield from answer_cited(
        question,
        context,
        nowhere=nowhere,
        conflicts=[conflict.note for conflict in found],
        documents=documents,
        max_tokens=how.max_tokens,
    )
    return SegmentAnswer(question=question, answer=answer, context=context, conflicts=found)


def _no_header(_: object) -> str:
    return ""

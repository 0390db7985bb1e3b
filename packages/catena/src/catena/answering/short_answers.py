"""Answer in a few words from passages alone, by which systems are compared: no citations, maybe no answer.

The comparison that IIER makes, from evidence chains, from gold evidence, or from nothing:

    asked = {case.id: chain_answer(case.text, case.chains) for case in cases}
    answered = run(answer_all(asked), services)
    squad_scores(accepted, {each.question: each.reply for each in answered})

The golden baseline is `chain_answer` over the chunks of the gold evidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from catena import prompts
from catena.answering.chains import Chained, ChainReading, chain_context
from catena.answering.integration import Header, IntegratedContext, integrate
from catena.effects import Complete, Failed, Step, ask, together
from catena.model import Chunk, Hit, InvalidReplyError, ParameterError, Segment, ServiceError
from catena.structure.views import segment_header
from catena.text.replies import plain

Readable: TypeAlias = Chunk | Segment | Hit

NOT_ANSWERABLE = "Not answerable."
"""The text of an answer that says so, in any words of the model's."""

LONGEST = 2_000  # characters; a longer one is no short answer

_NOT_ANSWERABLE = re.compile(r"\W*not answerable\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortAnswer:
    """A short answer, and the context that it was written from.

    Attributes:
        text: `NOT_ANSWERABLE` where the passages do not answer the question.
        context: the passages as they were given, and those that did not fit.
    """

    text: str
    context: IntegratedContext
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def answerable(self) -> bool:
        """Say whether there is an answer."""
        return self.text != NOT_ANSWERABLE


def short_answer(
    question: str,
    passages: Sequence[Readable],
    *,
    budget_tokens: int | None = None,
    count: Callable[[str], int] | None = None,
    header: Header = segment_header,
    max_tokens: int = 512,
) -> Step[ShortAnswer]:
    """Answer a question in a few words from passages alone.

    Passages are given best first, each under its header; those that overlap or say the same are given once. Of a
    budget the best take their share first; the first that does not fit is cut at the end of a sentence.

    Args:
        question: what the user asks, as typed.
        passages: best first. Without any, nothing answers the question, and no model is asked.
        budget_tokens: of all passages with their headers; None for no limit.
        count: tokens of a text; needed where there is a budget.
        header: what is said of a passage's document before its text, "" for nothing.
        max_tokens: of the answer.

    Raises:
        ParameterError: the question is blank, the budget has no counter or holds no passage at all.
        ServiceError: the model failed, or its reply was truncated, refused, empty or no short answer.

    Source: MC-indexing, section 5.4 and Figure 10; the wording is ours, and so is "not answerable".
    """
    pieces = (passage.chunk if isinstance(passage, Hit) else passage for passage in passages)
    segments = [piece if isinstance(piece, Segment) else piece.as_segment() for piece in pieces]
    context = integrate(segments, budget_tokens=budget_tokens, count=count, layout="value", cut=True, header=header)
    return (yield from _from_context("short_answer", question, context, budget_tokens, max_tokens))


def _from_context(
    name: str, question: str, context: IntegratedContext, budget_tokens: int | None, max_tokens: int
) -> Step[ShortAnswer]:
    """Answer a question from a context with the prompt of this name; without any passage, no model is asked."""
    asked = _checked(question)
    if not context.passages:
        if any(left.reason == "budget" for left in context.left_out):
            raise ParameterError("budget_tokens", budget_tokens, "enough for the beginning of a passage")
        return ShortAnswer(text=NOT_ANSWERABLE, context=context)
    return (yield from _ask(name, context, max_tokens, question=asked, passages=context.text))


def _checked(question: str) -> str:
    if not isinstance(question, str) or not question.strip():
        raise ParameterError("question", question, "a text that is not blank")
    return question.strip()


def _ask(name: str, context: IntegratedContext, max_tokens: int, **places: str) -> Step[ShortAnswer]:
    purpose = name.replace("_", " ")
    request = Complete.of(prompts.load(name), purpose, max_tokens=max_tokens, validate=read_short_answer, **places)
    (reply,) = yield from ask([request])
    try:
        text = read_short_answer(reply.text)
    except ValueError as error:  # a driver of one's own that does not look at `validate`
        raise InvalidReplyError("model", f"invalid reply to {purpose!r}: {error}") from None
    return ShortAnswer(text=text, context=context, input_tokens=reply.input_tokens, output_tokens=reply.output_tokens)


def read_short_answer(reply: str) -> str:
    """Return the answer in a reply, without fences, tags and the word "Answer:" around it.

    Raises:
        ValueError: it is no short answer, with the reason.
    """
    text = plain(reply)
    if not any(map(str.isalnum, text)):
        raise ValueError("the reply holds no answer")
    if _NOT_ANSWERABLE.match(text):
        return NOT_ANSWERABLE
    if len(text) > LONGEST:
        raise ValueError(f"an answer of {len(text)} characters, more than {LONGEST}")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredQuestion:
    """The answer to one question, or the reason why there is none.

    Attributes:
        question: its id.
        answer: None where asking failed.
        failure: why, "" where it did not.
    """

    question: str
    answer: ShortAnswer | None = None
    failure: str = ""

    @property
    def reply(self) -> str | None:
        """The words of the answer; None where asking failed, or nothing that was read answers the question."""
        return self.answer.text if self.answer is not None and self.answer.answerable else None


def chain_answer(
    question: str, chains: Sequence[Chained], reading: ChainReading | None = None, *, max_tokens: int = 512
) -> Step[ShortAnswer]:
    """Answer a question in at most five words from what the chains hold, and from nothing else.

    Args:
        question: as typed.
        chains: as found, or single chunks: the gold evidence, or any other retriever's. Without any, nothing answers
            the question, and no model is asked.
        reading: how the chains are written out; None for `ChainReading()`.
        max_tokens: of the reply.

    Raises:
        ParameterError: the question is blank, or the budget holds no passage at all.
        ServiceError: the model failed, or its reply was truncated, refused, empty or no short answer.

    Source: IIER, arXiv:2408.02907, appendix A.3; the wording is ours, and so is "not answerable".
    """
    how = reading or ChainReading()
    context = chain_context(chains, how)
    return (yield from _from_context("chain_answer", question, context, how.budget_tokens, max_tokens))


def answer_without_retrieval(question: str, *, max_tokens: int = 512) -> Step[ShortAnswer]:
    """Answer a question in at most five words from what the model has learned: the baseline of no retrieval.

    Raises:
        ParameterError: the question is blank.
        ServiceError: the model failed, or its reply was truncated, refused, empty or no short answer.

    Source: IIER, arXiv:2408.02907, appendix A.4; the wording is ours.
    """
    nothing = IntegratedContext(text="", passages=())
    return (yield from _ask("no_retrieval_answer", nothing, max_tokens, question=_checked(question)))


def answer_all(asked: Mapping[str, Step[ShortAnswer]]) -> Step[tuple[AnsweredQuestion, ...]]:
    """Answer many questions side by side; one that fails stops no other, and is named with what went wrong.

    Args:
        asked: by question id a step that answers it, not yet begun: `chain_answer(…)`, `short_answer(…)`, …

    Returns:
        One per question, in the order given.

    Raises:
        CatenaError: not of one question, but of all (no service answers, the budget, the journal).
    """
    answers = yield from together(list(asked.values()))
    return tuple(_answered(question, answer) for question, answer in zip(asked, answers, strict=True))


def _answered(question: str, answer: ShortAnswer | Failed) -> AnsweredQuestion:
    if not isinstance(answer, Failed):
        return AnsweredQuestion(question=question, answer=answer)
    if not isinstance(answer.error, ServiceError | ParameterError):
        raise answer.error
    return AnsweredQuestion(question=question, failure=str(answer.error))

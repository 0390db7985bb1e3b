"""Answers of a few words from evidence chains, from gold evidence, or from nothing: the comparison that IIER makes.

    asked = {case.id: chain_answer(case.text, case.chains) for case in cases}
    answered = run(answer_all(asked), services)
    squad_scores(accepted, {each.question: each.reply for each in answered})

The golden baseline is `chain_answer` over the chunks of the gold evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catena.answering.chains import Chained, ChainReading, chain_context
from catena.answering.short_answers import ShortAnswer, answer_from_context, answer_from_memory
from catena.effects import Failed, Step, together
from catena.model.errors import ParameterError, ServiceError


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredQuestion:
    """What became of one question.

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
    answer = yield from answer_from_context(
        "chain_answer", question, context, budget_tokens=how.budget_tokens, max_tokens=max_tokens
    )
    return answer


def answer_without_retrieval(question: str, *, max_tokens: int = 512) -> Step[ShortAnswer]:
    """Answer a question in at most five words from what the model has learned: the baseline of no retrieval.

    Raises:
        ParameterError: the question is blank.
        ServiceError: the model failed, or its reply was truncated, refused, empty or no short answer.

    Source: IIER, arXiv:2408.02907, appendix A.4; the wording is ours.
    """
    answer = yield from answer_from_memory("no_retrieval_answer", question, max_tokens=max_tokens)
    return answer


def answer_all(asked: Mapping[str, Step[ShortAnswer]]) -> Step[tuple[AnsweredQuestion, ...]]:
    """Answer many questions side by side; one that fails stops no other, and is named with what went wrong.

    Args:
        asked: by question id a step that answers it, not yet begun: `chain_answer(…)`, `short_answer(…)`, …

    Returns:
        One per question, in the order given.

    Raises:
        CatenaError: not of one question, but of what surrounds all of them (nobody answers, the budget, the journal).
    """
    answers = yield from together(list(asked.values()))
    return tuple(_answered(question, answer) for question, answer in zip(asked, answers, strict=True))


def _answered(question: str, answer: ShortAnswer | Failed) -> AnsweredQuestion:
    if not isinstance(answer, Failed):
        return AnsweredQuestion(question=question, answer=answer)
    if not isinstance(answer.error, ServiceError | ParameterError):
        raise answer.error
    return AnsweredQuestion(question=question, failure=str(answer.error))

"""Pairs of answers judged by a language model against a reference answer, each pair in both orders, as a step.

verdicts = run(judge_pairs(pairs), services)
result = pairwise_result(verdicts)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from catena import prompts
from catena.effects import Complete, Failed, Step
from catena.evaluation.pairwise import HIGHEST, LOWEST, Round, Side, Verdict, verdict_of
from catena.model.errors import EvaluationError, InvalidReplyError, ParameterError, ServiceError
from catena.text.replies import last_placed

PURPOSE = "judge"
"""The purpose of every request made here, as a plan counts it."""

_KEYS = ("answer_1_score", "answer_2_score")
_TAGS = ("question", "reference_answer", "answer_1", "answer_2")
_SCORE = re.compile(r"\s*+(\d{1,2}(?:[.,]\d{1,6})?)\s*+(?:(?:/|out of)\s*+10\s*+)?", re.ASCII)
_NO_ANSWER = "(no answer was given)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A question with its reference answer and what two systems answered.

    Attributes:
        id: of the question, unique among those judged together.
        reference: the gold answer, which is not empty.
        a, b: the systems' answers; "" of a system that gave none.
        document: which the question is about; "" where that is not known.
    """

    id: str
    question: str
    reference: str
    a: str
    b: str
    document: str = ""


class Judged(NamedTuple):
    """What a judge wrote: scores of the answers shown first and second, and its reasons."""

    first: float
    second: float
    reasoning: str


class _Asked(NamedTuple):
    pair: int  # place of the pair
    round: Round  # still without scores
    request: Complete


def judge_pairs(pairs: Sequence[Pair], *, repeats: int = 1, max_tokens: int = 1024) -> Step[tuple[Verdict, ...]]:
    """Let a model score both answers to each question, once with each of them first.

    Requests: two per pair and repeat, all of them side by side. Pairs whose answers say the same, white space and a
    full stop aside, are a tie by definition: nobody is asked. A reply without two scores from 0 to 10 behind a
    reason is refused; it is asked for once more, then its round has a `failure` and no scores, and a question without
    a valid round in each order is undecided, never a tie.

    The model is not told which system wrote what, and sees each pair alone.

    Args:
        pairs: any number, each id once.
        repeats: how often each order is judged, at least 1. The default is the paper's; a judge that is sampled
            differs from run to run, and at least 3 show by how much (`PairwiseResult.judge_variance`). A journal
            keeps each repeat for itself, and fewer repeats are found again among more.
        max_tokens: of one reply, reasons included.

    Returns:
        One verdict per pair, in order; `pairwise_result` adds them up.

    Raises:
        EvaluationError: an id occurs twice, or a question or reference answer is empty.
        ParameterError: repeats is below 1.
        CatenaError: not a failure of the model, but of what surrounds it (nobody answers, the budget, the journal).

    Source: MC-indexing, section 5.2 and Figure 11; the wording is ours.
    """
    if repeats < 1:
        raise ParameterError("repeats", repeats, "1 or more")
    _check(pairs)
    asked = [
        _asked(place, pair, first, repeat, max_tokens)
        for place, pair in enumerate(pairs)
        if not same_answer(pair.a, pair.b)
        for repeat in range(1, repeats + 1)
        for first in ("a", "b")
    ]
    replies: list[Any] = list((yield [each.request for each in asked])) if asked else []
    again = [place for place, reply in enumerate(replies) if _is_refused(reply)]
    if again:
        for place, reply in zip(again, (yield [asked[place].request for place in again]), strict=True):
            replies[place] = reply
    rounds: dict[int, list[Round]] = {}
    for each, reply in zip(asked, replies, strict=True):
        rounds.setdefault(each.pair, []).append(_scored(each.round, reply))
    return tuple(_verdict(pair, rounds.get(place)) for place, pair in enumerate(pairs))


def same_answer(a: str, b: str) -> bool:
    """Return whether two answers are the same but for white space, the width of letters and a full stop at the end.

    Capitals count: "5 mW" is not "5 MW".
    """
    return _plain(a) == _plain(b)


def read_scores(reply: str) -> Judged:
    """Return the scores of a judge's reply: those of the last JSON object in it that holds both.

    Scores are numbers, also written as "7" or "7/10". The reasons stand before the object, or inside it under
    "reasoning".

    Raises:
        ValueError: there is no such object, a score is none from 0 to 10, or no reasons are given.
    """
    found = last_placed(reply, _scores)
    if found is None:
        raise ValueError(f"the reply holds no JSON object with {' and '.join(_KEYS)}")
    given, before = found
    if missing := [key for key in _KEYS if key not in given]:
        raise ValueError(f"the scores lack {missing[0]}")
    first, second = (_number(given[key], key) for key in _KEYS)
    inside = given.get("reasoning", given.get("reason", ""))
    reasoning = " ".join((before.strip().removesuffix("```json").strip(), inside if isinstance(inside, str) else ""))
    if not any(map(str.isalpha, reasoning)):
        raise ValueError("scores without reasons before them")
    return Judged(first, second, reasoning.strip())


def _scores(value: Any) -> dict[str, Any] | None:
    """Return the object with scores, or one around it: with the reasons that stand beside the scores."""
    if not isinstance(value, dict):
        return None
    inner = [each for each in value.values() if isinstance(each, dict) and set(_KEYS) & set(each)]
    whole = {**value, **inner[0]} if len(inner) == 1 else value
    return whole if set(_KEYS) & set(whole) else None


def _asked(place: int, pair: Pair, first: Side, repeat: int, max_tokens: int) -> _Asked:
    prompt = prompts.load("judge_pair")
    one, two = (pair.a, pair.b) if first == "a" else (pair.b, pair.a)
    request = Complete(
        prompt=prompt.filled(
            question=prompts.shut_in(pair.question, _TAGS),
            reference=prompts.shut_in(pair.reference, _TAGS),
            answer_one=prompts.shut_in(one, _TAGS) or _NO_ANSWER,
            answer_two=prompts.shut_in(two, _TAGS) or _NO_ANSWER,
        ),
        purpose=PURPOSE,
        system=prompt.system,
        max_tokens=max_tokens,
        # the same words again would be answered from the journal, which is no second opinion
        prompt_version=prompt.version if repeat == 1 else f"{prompt.version}, repeat {repeat}",
        schema=prompt.schema,
        validate=read_scores,
    )
    return _Asked(place, Round(first=first, repeat=repeat), request)


def _is_refused(reply: Any) -> bool:
    return isinstance(reply, Failed) and isinstance(reply.error, InvalidReplyError)


def _scored(empty: Round, reply: Any) -> Round:
    if isinstance(reply, Failed):
        if not isinstance(reply.error, ServiceError):
            raise reply.error
        return replace(empty, failure=str(reply.error))
    try:
        scores = read_scores(reply.text)
    except ValueError as error:  # a driver of one's own that does not look at `validate`, or a dry run
        return replace(empty, failure=str(error))
    a, b = (scores.first, scores.second) if empty.first == "a" else (scores.second, scores.first)
    return replace(empty, score_a=a, score_b=b, reasoning=scores.reasoning)


def _verdict(pair: Pair, rounds: list[Round] | None) -> Verdict:
    if rounds is None:
        return Verdict(question=pair.id, by_score="tie", by_round="tie", document=pair.document, same=True)
    return verdict_of(pair.id, rounds, document=pair.document)


def _number(given: object, key: str) -> float:
    written = _SCORE.fullmatch(given) if isinstance(given, str) else None
    value = float(written[1].replace(",", ".")) if written else given
    if isinstance(value, int | float) and not isinstance(value, bool) and LOWEST <= value <= HIGHEST:
        return float(value)
    raise ValueError(f"{key} is no number from 0 to 10: {str(given)[:40]!r}")


def _plain(answer: str) -> str:
    narrow = "".join(unicodedata.normalize("NFKC", each) if _is_of_width(each) else each for each in answer)
    return " ".join(unicodedata.normalize("NFC", narrow).split()).removesuffix(".").rstrip()


def _is_of_width(character: str) -> bool:
    return unicodedata.decomposition(character).startswith(("<wide>", "<narrow>"))  # 10⁶ is not 106


def _check(pairs: Sequence[Pair]) -> None:
    seen: set[str] = set()
    for pair in pairs:
        if pair.id in seen:
            raise EvaluationError(f"question {pair.id!r} stands twice among the pairs. Try: an id for each")
        seen.add(pair.id)
        if not pair.question.strip() or not pair.reference.strip():
            missing = "question" if not pair.question.strip() else "reference answer"
            raise EvaluationError(f"question {pair.id!r} has an empty {missing}, so its answers cannot be judged")

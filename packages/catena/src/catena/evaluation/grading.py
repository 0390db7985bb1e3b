"""Grades without a judge: choice and judgement questions are decided by their letters and verdicts alone."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from catena.model.errors import EvaluationError, ParameterError

ClosedKind: TypeAlias = Literal["single", "multiple", "judgement"]

_GAP = r"(?:[\s,，、;；/&+()（）\[\]*.]|\band\b|和|与)*"  # between letters, and around them
_LETTERS = re.compile(rf"(?P<letters>[A-H](?:{_GAP}[A-H])*)(?![A-Za-z0-9'])")  # more options no bank has
_ONLY_LETTERS = re.compile(rf"{_GAP}{_LETTERS.pattern}{_GAP}")
_MARK = re.compile(
    r"(?:\b(?i:answers?|options?|choices?|choose|select)(?:\s+(?i:is|are|options?))*\b|答案(?:是|为)?|选择?)[\s:：*(（\[]*"
)
_LABEL = re.compile(r"(?:^|[;；])(?:[^\S\n]|[(（\[*])*+(?P<letters>[A-H])[)）\]*]*\s*(?:[:：.、)）]|$)", re.MULTILINE)
_TRUE = r"true|yes|correct|right|t|y|对|正确|是|真|√|✓"
_FALSE = r"false|no|incorrect|wrong|f|n|错误?|不正确|不对|不是|否|假|×|✗"
_VERDICT = re.compile(
    r"\W*(?:(?:the\s+)?(?:statement|answer)\s+is\s+|(?:该|此)?(?:说法|陈述|答案)(?:是|为)?[:：]?\s*)?"
    rf"(?:(?P<false>{_FALSE})|(?P<true>{_TRUE}))(?![A-Za-z/]|\s+or\b)",
    re.IGNORECASE,
)


def choice_letters(answer: str) -> frozenset[str] | None:
    """Return the option letters that an answer names, or None if it names none clearly.

    Read in this order, capital letters A to H only:

    1. the whole answer is letters and separators: "B", "(B)", "ABD", "A, B and D", "A、B";
    2. the letters behind a mark: "The answer is B", "Options: A, D", "答案：AB", "选C";
    3. the labels at line starts and behind semicolons: "A: Electronic warfare; B: Satellite".

    The article of "A NCO is …" is none of these. A letter that is named twice counts once.
    """
    if found := _ONLY_LETTERS.fullmatch(answer.strip()):
        return _set_of(found["letters"])
    for mark in _MARK.finditer(answer):
        found = _LETTERS.match(answer, mark.end())
        if found and answer[found.end() : found.end() + 1] not in (":", "："):
            return _set_of(found["letters"])
        if found:  # the first of several labels
            return frozenset(label["letters"] for label in _LABEL.finditer(answer[mark.end() :])) or None
    return frozenset(label["letters"] for label in _LABEL.finditer(answer)) or None


def verdict(answer: str) -> bool | None:
    """Return whether an answer begins by saying true (yes, correct, 对) or false (no, wrong, 错), or None.

    Only the first word, or the first one after "the statement is", is believed: in "not entirely correct" a word
    further on would say the opposite of the answer.
    """
    match = _VERDICT.match(answer)
    return None if match is None else match["true"] is not None


def closed_grade(given: str, correct: str, kind: ClosedKind) -> float | None:
    """Return the grade of an answer to a closed question: 1, 0.5 or 0; None where a person must look.

    - single: 1 if exactly the correct letter is named, else 0.
    - multiple: 1 if exactly the correct letters are named; 0.5 if some of them and no wrong one; else 0.
    - judgement: 1 if the verdicts are the same, else 0.

    An empty answer is wrong. One whose letters or verdict are not clear is None: neither right nor wrong is guessed.

    Args:
        given: what a method answered.
        correct: the gold answer.
        kind: of the question.

    Raises:
        ParameterError: the kind is not one of the three.
        EvaluationError: the gold answer names no letter or verdict, or several for a single choice.
    """
    if kind == "judgement":
        truth, said = verdict(correct), verdict(given)
        if truth is None:
            raise EvaluationError(f"the gold answer {correct!r} is neither true nor false")
        return _unless_empty(given, None if said is None else float(said == truth))
    if kind not in ("single", "multiple"):
        raise ParameterError("kind", kind, "one of single, multiple, judgement")
    right, named = choice_letters(correct), choice_letters(given)
    if right is None or (kind == "single" and len(right) != 1):
        raise EvaluationError(f"the gold answer {correct!r} does not name the letter of a {kind} choice")
    if named is None:
        return _unless_empty(given, None)
    if named == right:
        return 1.0
    return 0.5 if kind == "multiple" and named < right else 0.0


def _unless_empty(given: str, grade: float | None) -> float | None:
    return grade if given.strip() else 0.0


def _set_of(letters: str) -> frozenset[str]:
    return frozenset(re.sub(_GAP, "", letters))

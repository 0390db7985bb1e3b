"""Score written answers: Accuracy and Adequacy as HiQA has them; Accuracy, exact match and F1 as SQuAD has them."""

from __future__ import annotations

import re
import string
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, isfinite
from typing import Literal, TypeAlias, get_args

from catena.evaluation.judgements import check_ids, named
from catena.evaluation.significance import LEVEL, ROUNDS, SEED, bootstrap_interval
from catena.model.errors import EvaluationError, ParameterError

GRADES = (0.0, 0.5, 1.0)  # wrong, partially correct, correct
Accepted: TypeAlias = str | Sequence[str]  # one answer, or several of which any will do
AnswerMeasure: TypeAlias = Literal["accuracy", "exact_match", "f1"]
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = frozenset({"yes", "no", "noanswer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanScore:
    """A mean over questions.

    Attributes:
        interval: bootstrap confidence interval at `level`; None for a single question, which says nothing of others.
        n: number of questions.
    """

    value: float
    interval: tuple[float, float] | None
    level: float
    n: int

    def __str__(self) -> str:
        around = "" if self.interval is None else f" [{self.interval[0]:.3f}, {self.interval[1]:.3f}]"
        return f"{self.value:.3f}{around} (n = {self.n})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Accuracy over all questions, and by their kind.

    Attributes:
        by_kind: sorted by kind; empty where no kinds were given.
    """

    overall: MeanScore
    by_kind: Mapping[str, MeanScore] = field(hash=False)


def mean_score(values: Sequence[float], *, level: float = LEVEL, rounds: int = ROUNDS, seed: int = SEED) -> MeanScore:
    """Return the mean of values per question, with its bootstrap interval.

    Raises:
        EvaluationError: there are no values, or one is not finite.
        ParameterError: level or rounds is outside its domain.
    """
    interval = bootstrap_interval(values, level=level, rounds=rounds, seed=seed)
    n = len(values)
    return MeanScore(value=fsum(values) / n, interval=interval if n > 1 else None, level=level, n=n)


def accuracy(
    grades: Mapping[str, float],
    kinds: Mapping[str, str] | None = None,
    *,
    level: float = LEVEL,
    rounds: int = ROUNDS,
    seed: int = SEED,
) -> Accuracy:
    """Return `Accuracy = mean of the grades`, each 1 (correct), 0.5 (partially correct) or 0 (wrong).

    Args:
        grades: by question id; an answer that is missing is wrong, and is to be given as 0.
        kinds: the kind of each of these questions; may hold other questions too.
        level: of the confidence intervals, in (0, 1).
        rounds: bootstrap samples.
        seed: of the samples.

    Raises:
        EvaluationError: there are no grades, one is none of the three, or a question has no kind.
        ParameterError: level or rounds is outside its domain.

    Source: HiQA, arXiv:2402.01767, appendix A.4.
    """
    check_ids(grades, "graded questions")
    for question, grade in grades.items():
        if grade not in GRADES:
            raise EvaluationError(f"question {question!r}: the grade must be 1, 0.5 or 0, got {grade!r}")
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for question in sorted(grades if kinds is not None else ()):
        if kinds is None or question not in kinds:
            raise EvaluationError(f"question {question!r} has no kind. Try: a kind for each, or none at all")
        groups[kinds[question]].append(float(grades[question]))
    values = [float(grades[question]) for question in sorted(grades)]
    return Accuracy(
        overall=mean_score(values, level=level, rounds=rounds, seed=seed),
        by_kind={kind: mean_score(groups[kind], level=level, rounds=rounds, seed=seed) for kind in sorted(groups)},
    )


def adequacy_scores(ranks: Mapping[str, float]) -> dict[str, float]:
    """Return `(K + 1) - rank` of each of K methods for one question: K for the best, 1 for the worst.

    Args:
        ranks: by method, 1 the best. Methods of equal rank share their places: they may be given the first of these
            (1, 1, 3) or the mean of them (1.5, 1.5, 3), and count with the mean, so that scores sum to K (K + 1) / 2.

    Raises:
        EvaluationError: there are no methods, or the numbers are not a ranking of them (as 1, 1, 2 is not).

    Source: HiQA, arXiv:2402.01767, appendix A.4, which says nothing of ties.
    """
    check_ids(ranks, "ranked methods")
    return {method: len(ranks) + 1 - place for method, place in _mid_ranks(ranks).items()}


def adequacy(
    ranks: Mapping[str, Mapping[str, float]], *, level: float = LEVEL, rounds: int = ROUNDS, seed: int = SEED
) -> dict[str, MeanScore]:
    """Return each method's mean Adequacy over the questions, sorted by method.

    Args:
        ranks: by question and method, as `adequacy_scores` takes them.
        level: of the confidence intervals, in (0, 1).
        rounds: bootstrap samples.
        seed: of the samples.

    Raises:
        EvaluationError: there are no questions, the questions rank different methods, or one is no ranking.
        ParameterError: level or rounds is outside its domain.
    """
    check_ids(ranks, "ranked questions")
    if not ranks:
        raise EvaluationError("Adequacy needs at least one question whose answers were ranked")
    methods = set(ranks[min(ranks)])
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for question in sorted(ranks):
        if set(ranks[question]) != methods:
            lone = min(set(ranks[question]) ^ methods)
            raise EvaluationError(
                f"question {question!r} ranks other methods than question {min(ranks)!r}, e.g. {lone!r}. "
                "Try: a rank for every method; one without an answer is last"
            )
        with named(f"question {question!r}"):
            found = adequacy_scores(ranks[question])
        for method, score in found.items():
            scores[method].append(score)
    return {name: mean_score(scores[name], level=level, rounds=rounds, seed=seed) for name in sorted(scores)}


def _mid_ranks(ranks: Mapping[str, float]) -> dict[str, float]:
    """Return the mean of the places that methods of equal rank share, after the check that it is a ranking."""
    if not ranks:
        raise EvaluationError("there is no method to be ranked")
    groups: defaultdict[float, list[str]] = defaultdict(list)
    for method, rank in ranks.items():
        if not isinstance(rank, int | float) or isinstance(rank, bool) or not isfinite(rank):
            raise EvaluationError(f"the rank of {method!r} must be a number, got {rank!r}")
        groups[float(rank)].append(method)
    places: dict[str, float] = {}
    first = 1
    for rank in sorted(groups):
        size = len(groups[rank])
        middle = first + (size - 1) / 2
        if rank not in (first, middle):
            raise EvaluationError(
                f"{sorted(ranks.values())} is no ranking of {len(ranks)} methods: after {first - 1} of them the next "
                f"rank is {first}, got {rank:g}. Try: 1, 2, 3, … and for ties 1, 1, 3 or 1.5, 1.5, 3"
            )
        places |= dict.fromkeys(groups[rank], middle)
        first += size
    return places


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerScore:
    """The three scores of one reply, each in [0, 1] and the best over the accepted answers."""

    accuracy: float = 0.0
    exact_match: float = 0.0
    f1: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SquadScores:
    """Means over all questions, with what they are means of.

    Attributes:
        per_question: by question id, sorted; one without a reply scores 0.
        unanswered: ids of questions without a reply, sorted.
        unasked: ids of replies to no question: they are ignored, and counted.
    """

    accuracy: MeanScore
    exact_match: MeanScore
    f1: MeanScore
    per_question: Mapping[str, AnswerScore] = field(hash=False, repr=False)
    unanswered: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()

    def values(self, measure: AnswerMeasure) -> dict[str, float]:
        """Return one measure by question id, as `significance.compare` takes it.

        Raises:
            ParameterError: it is none of the three.
        """
        if measure not in get_args(AnswerMeasure):
            raise ParameterError("measure", measure, "'accuracy', 'exact_match' or 'f1'")
        return {question: getattr(score, measure) for question, score in self.per_question.items()}

    def __str__(self) -> str:
        return (
            f"accuracy {self.accuracy}, exact match {self.exact_match}, F1 {self.f1}; "
            f"{len(self.unanswered)} unanswered and counted 0"
        )


def normalise_answer(text: str) -> str:
    """Return an answer as SQuAD compares it: lower case, no ASCII punctuation, no English articles, single spaces.

    Punctuation is taken out and not replaced ("well-known" becomes "wellknown"), as the official script does it.
    Words are what white space separates: a text of a script without spaces is one word.

    Raises:
        EvaluationError: it is no text.

    Source: Rajpurkar et al., EMNLP 2016, arXiv:1606.05250; `normalize_answer` of the official evaluation v1.1.
    """
    if not isinstance(text, str):
        what = f"an answer must be a text, got {text!r}. Try: str(answer), or None where there is none"
        raise EvaluationError(what)
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(reply: str, accepted: Accepted) -> float:
    """Return 1 if the reply is one of the accepted answers, both normalised; else 0.

    Raises:
        EvaluationError: there is no accepted answer, or one is no text.
    """
    return max(float(normalise_answer(reply) == answer) for answer in _normalised(accepted))


def f1(reply: str, accepted: Accepted, *, hotpotqa: bool = False) -> float:
    """Return the best F1 of words over the accepted answers; words that stand n times count n times.

    `F1 = 2 P R / (P + R)`, P and R the shared words by those of the reply and by those of the accepted answer. Where
    nothing is left of one of the two, F1 is 1 if nothing is left of either, else 0 (as SQuAD 2.0 has it; v1.1 gives 0
    to equal answers such as "A", of which an exact match is 1).

    Args:
        reply: what the system wrote.
        accepted: one answer or several.
        hotpotqa: its convention: "yes", "no" and "noanswer" share nothing with anything but themselves, so that "no"
            earns nothing for a word of a longer answer.

    Raises:
        EvaluationError: there is no accepted answer, or one is no text.

    Source: Rajpurkar et al., EMNLP 2016; Yang et al., EMNLP 2018, arXiv:1809.09600, for HotpotQA.
    """
    said = normalise_answer(reply)
    return max(_f1(said, answer, hotpotqa) for answer in _normalised(accepted))


def contains_answer(reply: str, accepted: Accepted) -> float:
    """Return 1 if an accepted answer stands in the reply as a run of whole words, both normalised; else 0.

    IIER reports an "Acc" beside EM and F1 without a definition. This is the usual choice where models write
    sentences, and fits its remark that a reply such as "Yes, both in Iran." lowers EM and F1. It is generous to long
    replies: one that names every candidate is right. An answer of which nothing is left must be matched exactly.

    Raises:
        EvaluationError: there is no accepted answer, or one is no text.

    Source: IIER, arXiv:2408.02907, section 4.2; the definition is ours.
    """
    said = f" {normalise_answer(reply)} "  # of nothing, two spaces, which stand in nothing else
    return max(float(f" {answer} " in said) for answer in _normalised(accepted))


def answer_score(reply: str, accepted: Accepted, *, hotpotqa: bool = False) -> AnswerScore:
    """Return the three scores of a reply; a blank one scores 0, whatever is accepted."""
    answers = _normalised(accepted)  # also of a blank reply: gold that is malformed is an error
    said = normalise_answer(reply)
    if not said and not reply.strip():
        return AnswerScore()
    same, shared = exact_match(reply, answers), f1(reply, answers, hotpotqa=hotpotqa)
    return AnswerScore(accuracy=contains_answer(reply, answers), exact_match=same, f1=shared)


def squad_scores(
    accepted: Mapping[str, Accepted],
    replies: Mapping[str, str | None],
    *,
    hotpotqa: bool = False,
    level: float = LEVEL,
    rounds: int = ROUNDS,
    seed: int = SEED,
) -> SquadScores:
    """Return Accuracy, EM and F1 over questions, with bootstrap intervals.

    Args:
        accepted: the accepted answers by question id: one text, or at least one of several.
        replies: by question id. One that is missing, None (the system failed, or said that nothing answers the
            question) or blank counts 0, and the question is named.
        hotpotqa: as in `f1`.
        level: of the intervals, in (0, 1).
        rounds: bootstrap samples.
        seed: of the samples.

    Raises:
        EvaluationError: there are no questions, one has no accepted answer, an answer is no text, or there are
            replies and all are to other questions.
        ParameterError: level or rounds is outside its domain.
    """
    check_ids(accepted, "questions")
    check_ids(replies, "replies")
    if not accepted:
        raise EvaluationError("scores need at least one question with its accepted answers")
    if replies and not any(question in accepted for question in replies):
        raise EvaluationError(
            f"no reply is to a question: there is a reply to {min(replies)!r}, the questions have {min(accepted)!r}. "
            "Try: the same ids in both"
        )
    said = {question: "" if (reply := replies.get(question)) is None else reply for question in sorted(accepted)}
    scores = {question: _scored(question, reply, accepted[question], hotpotqa) for question, reply in said.items()}

    def mean(values: Sequence[float]) -> MeanScore:
        return mean_score(values, level=level, rounds=rounds, seed=seed)

    return SquadScores(
        accuracy=mean([score.accuracy for score in scores.values()]),
        exact_match=mean([score.exact_match for score in scores.values()]),
        f1=mean([score.f1 for score in scores.values()]),
        per_question=scores,
        unanswered=tuple(question for question, reply in said.items() if not reply.strip()),
        unasked=tuple(sorted(set(replies) - set(accepted))),
    )


def _scored(question: str, reply: str, accepted: Accepted, hotpotqa: bool) -> AnswerScore:
    with named(f"question {question!r}"):
        return answer_score(reply, accepted, hotpotqa=hotpotqa)


def _normalised(accepted: Accepted) -> tuple[str, ...]:
    answers = (accepted,) if isinstance(accepted, str) else accepted
    if not isinstance(answers, Sequence) or not answers:
        raise EvaluationError(f"expected an accepted answer or several, got {accepted!r}")
    return tuple(map(normalise_answer, answers))


def _f1(said: str, answer: str, hotpotqa: bool) -> float:
    if said == answer or not said or not answer:
        return float(said == answer)
    if hotpotqa and (said in _CLOSED or answer in _CLOSED):
        return 0.0
    words, wanted = said.split(), answer.split()
    shared = (Counter(words) & Counter(wanted)).total()
    return 2 * shared / (len(words) + len(wanted))  # 2 P R / (P + R), without the roundings of P and R

"""Judge pairs of answers by a language model against a reference answer, each pair in both orders, as a step.

verdicts = run(judge_pairs(pairs), services)
result = pairwise_result(verdicts)
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import comb, fsum, sqrt
from statistics import NormalDist, variance
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from catena import prompts
from catena.effects import Complete, Failed, Step, answer_of
from catena.evaluation import MeanScore, mean_score, randomisation_p
from catena.evaluation.judgements import check_ids
from catena.model import EvaluationError, InvalidReplyError, ParameterError, ServiceError
from catena.text import last_placed

Side: TypeAlias = Literal["a", "b"]
Decision: TypeAlias = Literal["win", "lose", "tie"]
Outcome: TypeAlias = Literal["win", "lose", "tie", "undecided"]

Scores: TypeAlias = tuple[float, float]  # of a, of b

LOWEST, HIGHEST = 0.0, 10.0  # of a judge's scores
_DIGITS = 9  # behind which sums of scores are equal: 0.1 + 0.2 is 0.3


PURPOSE = "judge"
"""The purpose of every request made here, as a plan counts it."""
_KEYS = ("answer_1_score", "answer_2_score")
_TAGS = ("question", "reference_answer", "answer_1", "answer_2")
_SCORE = re.compile(r"\s*+(\d{1,2}(?:[.,]\d{1,6})?)\s*+(?:(?:/|out of)\s*+10\s*+)?", re.ASCII)
_NO_ANSWER = "(no answer was given)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One look of the judge at both answers.

    Attributes:
        first: the system whose answer was shown first.
        repeat: from 1; each repeat shows both orders.
        score_a, score_b: from 0 to 10, by system, in either order; None where the judge gave no valid scores.
        reasoning: what it wrote before the scores.
        failure: why there are no scores, "" where there are.
    """

    first: Side
    repeat: int = 1
    score_a: float | None = None
    score_b: float | None = None
    reasoning: str = ""
    failure: str = ""

    @property
    def scores(self) -> Scores | None:
        """The scores of a and b, None without them."""
        return None if self.score_a is None or self.score_b is None else (self.score_a, self.score_b)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of one question, from the side of system a.

    Attributes:
        rounds: both orders, as often as they were repeated; empty where the answers are the same.
        by_score: who has the higher sum of scores over both orders.
        by_round: who has the higher score in both orders; a tie where neither has.
        document: which the question is about; "" where that is not known.
        same: whether both answers say the same: a tie without a judge.
    """

    question: str
    rounds: tuple[Round, ...] = ()
    by_score: Outcome
    by_round: Outcome
    document: str = ""
    same: bool = False


def verdict_of(question: str, rounds: Iterable[Round], *, document: str = "") -> Verdict:
    """Decide a question by its rounds.

    - By score: each answer's scores of both orders are added; the higher sum wins, equal sums are a tie.
    - By round: the winner of an order is the answer with the higher score; who wins both orders wins. One order each,
      two tied orders, and one order won with the other tied are a tie.

    Of repeats, each order counts with the mean of its valid rounds. An order without a valid round leaves the
    question undecided, by either rule: one order alone would carry the judge's liking for a place.

    Source: MC-indexing, section 5.2, which leaves open an order won beside one tied: it is not "wins both rounds".
    """
    given = tuple(rounds)
    first, second = order_means(given)
    if first is None or second is None:
        return Verdict(question=question, rounds=given, by_score="undecided", by_round="undecided", document=document)
    leads = {_decision(*first), _decision(*second)}
    return Verdict(
        question=question,
        rounds=given,
        by_score=_decision(first[0] + second[0], first[1] + second[1]),
        by_round=leads.pop() if len(leads) == 1 else "tie",
        document=document,
    )


def order_means(rounds: Iterable[Round]) -> tuple[Scores | None, Scores | None]:
    """Return the mean scores (of a, of b) with a shown first and with b shown first; None without a valid round."""
    given = tuple(rounds)
    first, second = ([each.scores for each in given if each.first == side] for side in ("a", "b"))
    return _mean(first), _mean(second)


def _mean(scores: Iterable[Scores | None]) -> Scores | None:
    valid = [pair for pair in scores if pair is not None]
    if not valid:
        return None
    return fsum(a for a, _ in valid) / len(valid), fsum(b for _, b in valid) / len(valid)


def _decision(a: float, b: float) -> Decision:
    lead = round(a - b, _DIGITS)
    return "win" if lead > 0 else "lose" if lead < 0 else "tie"


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
    """A judge's scores of the answers shown first and second, and its reasons."""

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
    full stop aside, are a tie by definition: no model is asked. A reply without two scores from 0 to 10 behind a
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
        CatenaError: not a failure of the model, but of what surrounds it (no service, the budget, the journal).

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
    again = [
        place
        for place, reply in enumerate(replies)
        if isinstance(reply, Failed) and isinstance(reply.error, InvalidReplyError)
    ]
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
    if repeat > 1:  # the same words again would be answered from the journal, which is no second opinion
        prompt = replace(prompt, version=f"{prompt.version}, repeat {repeat}")
    request = Complete.of(
        prompt,
        PURPOSE,
        max_tokens=max_tokens,
        validate=read_scores,
        question=prompts.shut_in(pair.question.strip(), *_TAGS),
        reference=prompts.shut_in(pair.reference.strip(), *_TAGS),
        answer_one=prompts.shut_in(one.strip(), *_TAGS) or _NO_ANSWER,
        answer_two=prompts.shut_in(two.strip(), *_TAGS) or _NO_ANSWER,
    )
    return _Asked(place, Round(first=first, repeat=repeat), request)


def _scored(empty: Round, reply: Any) -> Round:
    scores = answer_of(reply, read_scores)
    if isinstance(scores, ServiceError):
        return replace(empty, failure=str(scores))
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


_POINTS = {"win": 1, "tie": 0, "lose": -1}
_CELLS = 1 << 22  # numbers drawn at a time: 32 MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRate:
    """A count of questions as a share, with its confidence interval at `level`; None where one document is all."""

    count: int
    n: int
    value: float
    interval: tuple[float, float] | None
    level: float

    def __str__(self) -> str:
        around = "" if self.interval is None else f" [{self.interval[0]:.1%}, {self.interval[1]:.1%}]"
        return f"{self.value:.1%}{around}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Wins, ties and losses of system a by one of the two rules, over the questions that are decided.

    Attributes:
        margin: win rate minus loss rate, in [-1, 1].
        p: two-sided, of a margin at least as far from 0 were the systems alike: the exact sign test; where documents
            are known, the randomisation test that swaps the systems document by document.
    """

    win: OutcomeRate
    tie: OutcomeRate
    lose: OutcomeRate
    margin: MeanScore
    p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseResult:
    """System a against system b over all questions.

    Attributes:
        n: questions that are decided: what the rates are shares of.
        undecided: ids of those that are not, in order; they count in no rate.
        same: decided questions whose answers say the same.
        clusters: documents, where every question names its own; the intervals draw them, not questions. Else 0.
        position_bias: mean score of the answer shown first minus that of the one shown second, over the questions
            that were judged in both orders: 0 for a judge who does not mind the place. None where none was.
        judge_variance: mean variance of a score over repeats (sample variance, in squared points of the scale): what
            the judge's mood adds. None where nothing was repeated.
    """

    by_score: Tally
    by_round: Tally
    n: int
    undecided: tuple[str, ...]
    same: int
    clusters: int
    position_bias: MeanScore | None
    judge_variance: float | None


def pairwise_result(
    verdicts: Sequence[Verdict], *, level: float = 0.95, rounds: int = 10_000, seed: int = 0
) -> PairwiseResult:
    """Add up verdicts: win, tie and loss rates with intervals, and what they say of the judge.

    Intervals are Wilson's for the rates; where every verdict names its document, several questions about one are not
    independent, and the intervals are percentiles of a bootstrap that draws documents (of a rate of 0 or 1, Wilson's
    over documents). The margin is bootstrapped in both cases.

    Args:
        verdicts: one per question.
        level: of the intervals, in (0, 1).
        rounds: bootstrap samples and random sign patterns, at least 1.
        seed: of both.

    Raises:
        EvaluationError: no question is decided, or one is there twice.
        ParameterError: level or rounds is outside its domain.
    """
    if not 0 < level < 1:
        raise ParameterError("level", level, "a share in (0, 1)")
    if rounds < 1:
        raise ParameterError("rounds", rounds, "1 or more")
    check_ids([verdict.question for verdict in verdicts], "judged questions")
    ordered = sorted(verdicts, key=lambda verdict: verdict.question)
    if twice := [name for name, times in Counter(verdict.question for verdict in ordered).items() if times > 1]:
        raise EvaluationError(
            f"question {twice[0]!r} has several verdicts. Try: repeats of the judge, in one verdict"
        )
    decided = [verdict for verdict in ordered if _is_decided(verdict)]
    if not decided:
        raise EvaluationError(f"none of {len(ordered)} questions is decided; each verdict's rounds say why")
    documents = [verdict.document for verdict in decided]
    groups = documents if all(documents) else None
    return PairwiseResult(
        by_score=_tally([verdict.by_score for verdict in decided], groups, level, rounds, seed),
        by_round=_tally([verdict.by_round for verdict in decided], groups, level, rounds, seed),
        n=len(decided),
        undecided=tuple(verdict.question for verdict in ordered if not _is_decided(verdict)),
        same=sum(verdict.same for verdict in decided),
        clusters=len(set(groups)) if groups else 0,
        position_bias=_position_bias(decided, level, rounds, seed),
        judge_variance=_judge_variance(decided),
    )


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p of the exact sign test; ties count for neither side.

    `min(1, 2 sum_(i >= max(wins, losses)) C(n, i) / 2^n)` with n = wins + losses; 1 where n is 0.

    Args:
        wins: a count >= 0.
        losses: the same.
    """
    n, most = wins + losses, max(wins, losses)
    ways, tail = comb(n, most), 0
    for i in range(most, n + 1):
        tail += ways
        ways = ways * (n - i) // (i + 1)
    return min(1.0, 2 * tail / (1 << n))  # of whole numbers: exact whatever their size


def wilson_interval(count: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a share: `(p + z²/2n ± z sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n)`.

    Args:
        count: between 0 and n.
        n: at least 1.
        level: in (0, 1).

    Source: Wilson, Journal of the American Statistical Association 22 (1927), 209-212.
    """
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    share = count / n
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    low = 0.0 if count == 0 else middle - half
    return low, 1.0 if count == n else middle + half


def _is_decided(verdict: Verdict) -> bool:
    return "undecided" not in (verdict.by_score, verdict.by_round)


def _tally(
    outcomes: Sequence[Outcome], documents: Sequence[str] | None, level: float, rounds: int, seed: int
) -> Tally:
    n = len(outcomes)
    counts = Counter(outcomes)
    members: defaultdict[str, Counter[Outcome]] = defaultdict(Counter)
    for document, outcome in zip(documents or (), outcomes, strict=documents is not None):
        members[document][outcome] += 1
    groups = [members[document] for document in sorted(members)]
    leads = [float(group["win"] - group["lose"]) for group in groups]
    sizes = [float(group.total()) for group in groups]

    def rate(name: Outcome) -> OutcomeRate:
        if documents is None:
            interval: tuple[float, float] | None = wilson_interval(counts[name], n, level=level)
        elif counts[name] in (0, n) and len(groups) > 1:  # every sample is the same: no draw shows what may be
            interval = wilson_interval(len(groups) if counts[name] else 0, len(groups), level=level)
        else:
            interval = _drawn([float(group[name]) for group in groups], sizes, level, rounds, seed)
        return OutcomeRate(count=counts[name], n=n, value=counts[name] / n, interval=interval, level=level)

    if documents is None:
        points = [float(_POINTS[outcome]) for outcome in outcomes]
        margin = mean_score(points, level=level, rounds=rounds, seed=seed)
        p = sign_test(counts["win"], counts["lose"])
    else:
        interval = _drawn(leads, sizes, level, rounds, seed)
        margin = MeanScore(value=fsum(leads) / n, interval=interval, level=level, n=n)
        p = randomisation_p(leads, rounds=rounds, seed=seed)
    return Tally(win=rate("win"), tie=rate("tie"), lose=rate("lose"), margin=margin, p=p)


def _drawn(
    sums: Sequence[float], sizes: Sequence[float], level: float, rounds: int, seed: int
) -> tuple[float, float] | None:
    """Return the percentile interval of `sum / size` over groups drawn with replacement; None for a single group."""
    if len(sums) < 2:
        return None
    draw = np.random.default_rng(seed)
    total, size = np.asarray(sums), np.asarray(sizes)
    step = max(1, _CELLS // len(sums))
    shares = []
    for start in range(0, rounds, step):
        places = draw.integers(0, len(sums), (min(step, rounds - start), len(sums)))
        shares.append(total[places].sum(axis=1) / size[places].sum(axis=1))
    low, high = np.quantile(np.concatenate(shares), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _position_bias(verdicts: Sequence[Verdict], level: float, rounds: int, seed: int) -> MeanScore | None:
    leads: list[float] = []
    for verdict in verdicts:
        a_first, b_first = order_means(verdict.rounds)
        if a_first is not None and b_first is not None:
            leads.append(fsum((a_first[0], -a_first[1], b_first[1], -b_first[0])) / 2)
    return mean_score(leads, level=level, rounds=rounds, seed=seed) if leads else None


def _judge_variance(verdicts: Sequence[Verdict]) -> float | None:
    variances: list[float] = []
    for verdict in verdicts:
        for side in ("a", "b"):
            scores = [each.scores for each in verdict.rounds if each.first == side and each.scores is not None]
            if len(scores) > 1:
                variances += [variance(of_answer) for of_answer in zip(*scores, strict=True)]
    return fsum(variances) / len(variances) if variances else None

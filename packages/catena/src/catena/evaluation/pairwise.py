"""One question, two answers, and the scores a judge gave them in both orders: which system wins the question."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum
from typing import Literal, TypeAlias

from catena.model.errors import ParameterError

Side: TypeAlias = Literal["a", "b"]
Decision: TypeAlias = Literal["win", "lose", "tie"]
Outcome: TypeAlias = Literal["win", "lose", "tie", "undecided"]

Scores: TypeAlias = tuple[float, float]  # of a, of b

LOWEST, HIGHEST = 0.0, 10.0  # of a judge's scores
_DIGITS = 9  # behind which sums of scores are equal: 0.1 + 0.2 is 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One look of the judge at both answers.

    Attributes:
        first: the system whose answer was shown first.
        repeat: from 1; each repeat shows both orders.
        score_a, score_b: from 0 to 10, by system, whatever the order; None where the judge gave no valid scores.
        reasoning: what it wrote before the scores.
        failure: why there are no scores, "" where there are.
    """

    first: Side
    repeat: int = 1
    score_a: float | None = None
    score_b: float | None = None
    reasoning: str = ""
    failure: str = ""

    def __post_init__(self) -> None:
        for name, score in (("score_a", self.score_a), ("score_b", self.score_b)):
            if score is not None and not LOWEST <= score <= HIGHEST:
                raise ParameterError(name, score, "from 0 to 10")
        if (self.score_a is None) != (self.score_b is None):
            raise ParameterError("scores", (self.score_a, self.score_b), "both given, or neither")

    @property
    def scores(self) -> Scores | None:
        """The scores of a and b, None without them."""
        return None if self.score_a is None or self.score_b is None else (self.score_a, self.score_b)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How one question ends, from the side of system a.

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

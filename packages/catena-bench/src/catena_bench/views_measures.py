"""The figures of one method: recall at k with what it returns, and recall at equal tokens, with intervals."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from catena.evaluation import (
    Span,
    at_cutoff,
    bootstrap_interval,
    coverage,
    equal_length_cutoff,
    read_within,
    whole_cutoffs,
)
from catena.evaluation.answer_scope import recall_at
from catena_bench.views_data import AskedDocument

CUTOFFS = (1.5, 3, 5, 10)  # the paper's k
BUDGETS = (250, 500, 1_000, 2_000)  # word pieces
ROUNDS = 2_000  # bootstrap samples
PERCENT = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What one method returns for each question of one document.

    Attributes:
        ranked: all pieces, best first; k of them are the first k.
        read: what a reader with a budget of tokens is given, in order; None for the same.
        at: by question and k of the paper, the sets of pieces that are equally likely to be returned; None for the
            first k of `ranked`.
    """

    ranked: Sequence[Sequence[Span]]
    read: Sequence[Sequence[Span]] | None = None
    at: Callable[[int, float], Sequence[Sequence[Span]]] | None = None

    def mean(self, question: int, k: float, measure: Callable[[Sequence[Span]], float]) -> float:
        """Return the mean of a measure over what may be returned at k."""
        if self.at is None:
            ranked = self.ranked[question]
            return at_cutoff(k, lambda cutoff: measure(ranked[:cutoff]))
        return fmean(measure(spans) for spans in self.at(question, k))


def figures(asked: AskedDocument, results: Results) -> dict[str, float]:
    """Return the figures of a method, recall in percent.

    `k1.5`, `k3`, `k5`, `k10`: mean coverage of the evidence, each with `.low` and `.high` (95%, bootstrap over
    questions), `.mean_tokens`, `.mean_pieces` and `.mean_sections` (distinct sections that what is returned touches);
    `k1.5.as_stated`: one piece for every other question and two for the rest. `tokens250` … `tokens2000`: the same
    recall where a reader stops after so many word pieces, the last piece cut.
    """
    found: dict[str, float] = {}
    text, questions = asked.document.text, asked.questions
    each = range(len(questions))

    def recall(question: int) -> Callable[[Sequence[Span]], float]:
        return lambda spans: coverage(spans, questions[question].evidence, text)

    def sections(spans: Sequence[Span]) -> float:
        return len(_sections(asked, spans))

    def tokens(spans: Sequence[Span]) -> float:
        return sum(asked.tokens(*span) for span in spans)

    for k in CUTOFFS:
        key = f"k{k:g}"
        found |= with_interval(key, [results.mean(number, k, recall(number)) for number in each])
        for name, measure in (("mean_tokens", tokens), ("mean_pieces", len), ("mean_sections", sections)):
            found[f"{key}.{name}"] = fmean(results.mean(number, k, measure) for number in each)
    if results.at is None:
        cutoffs = whole_cutoffs(CUTOFFS[0], len(questions))
        values = [recall(number)(results.ranked[number][: cutoffs[number]]) for number in each]
        found[f"k{CUTOFFS[0]:g}.as_stated"] = PERCENT * fmean(values)
    for budget in BUDGETS:
        read = [read_within((results.read or results.ranked)[number], text, budget, asked.tokens) for number in each]
        found |= with_interval(f"tokens{budget}", [recall(number)(read[number]) for number in each])
    return found


def at_equal_length(asked: AskedDocument, results: Results, tokens: Mapping[float, float]) -> dict[str, float]:
    """Return `k3.equal_length` and so on, in percent: recall at as many pieces as give the tokens of a reference.

    The paper's Table 10: `k` grows by the tokens that the reference returns at k over those that this method does.

    Args:
        asked: the document.
        results: of a method that returns the first k pieces of its ranking.
        tokens: of the reference, the mean number at each k.
    """
    text, found = asked.document.text, {}
    for k, of_reference in tokens.items():
        own = fmean(
            results.mean(number, k, lambda spans: sum(asked.tokens(*span) for span in spans))
            for number in range(len(asked.questions))
        )
        longer = equal_length_cutoff(k, own, of_reference)
        recalls = [
            recall_at(ranked, question.evidence, text, longer)
            for ranked, question in zip(results.ranked, asked.questions, strict=True)
        ]
        found[f"k{k:g}.equal_length"] = PERCENT * fmean(recalls)
    return found


def with_interval(key: str, shares: Sequence[float]) -> dict[str, float]:
    """Return a mean share in percent with its interval; a single question has none."""
    low, high = bootstrap_interval(shares, rounds=ROUNDS) if len(shares) > 1 else (shares[0], shares[0])
    return {key: PERCENT * fmean(shares), f"{key}.low": PERCENT * low, f"{key}.high": PERCENT * high}


def _sections(asked: AskedDocument, spans: Sequence[Span]) -> set[int]:
    """Return the positions of the sections, which tile the text, that spans share a character with."""
    starts = asked.section_starts
    return {
        number for start, end in spans for number in range(bisect_right(starts, start) - 1, bisect_left(starts, end))
    }

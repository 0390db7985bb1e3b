"""Answer-scope recall: how much of what answers a question stands in what was returned, in characters.

A span is [start, end), 0-based code points into one text. For several documents lay their texts end to end. Only
visible characters count, those that are not white space: how a chunker trims changes nothing.

Choices made, where MC-indexing leaves them open: recall is the coverage by the union of what is returned, so that
nothing counts twice (`summed_recall` is the paper's sum); a cutoff of 1.5 is the mean of the cutoffs 1 and 2 on every
question (`whole_cutoffs` is the paper's half and half).

Source: MC-indexing (Dong et al., 2024), sections 5.2, appendices A, E and F.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import floor, fsum, inf
from typing import Annotated, Protocol, TypeAlias

from annotated_types import Ge, Gt, Lt

from catena.model import EvaluationError, ParameterError, check_given
from catena.text.words import UNSPACED

Span: TypeAlias = tuple[int, int]
Cutoff: TypeAlias = Annotated[float, Gt(0), Lt(inf)]

DocumentSpan: TypeAlias = tuple[str, int, int]
"""A document's id and a span in its text."""

_UNSPACED = re.compile(f"[{UNSPACED}]")


class Spanned(Protocol):
    """Anything with a place in a document: a chunk, a segment, a section, a gold span."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


def spans_of(pieces: Iterable[Spanned]) -> tuple[Span, ...]:
    """Return where pieces of one document stand, in their order."""
    return tuple((piece.start, piece.end) for piece in pieces)


def coverage(returned: Iterable[Span], evidence: Iterable[Span], text: str) -> float:
    """Return the share of the evidence that the union of what is returned covers.

    `|visible characters in (union of returned) and (union of evidence)| / |visible characters in union of evidence|`

    Args:
        returned: spans in any order; they may overlap, repeat or be empty.
        evidence: the answer scope of one question, in any order; overlaps count once.
        text: what all spans point into.

    Returns:
        A share in [0, 1].

    Raises:
        EvaluationError: the evidence has no visible character, so that the share is undefined, or a span does not
            lie in the text.
    """
    scope, total = _scope(evidence, text)
    return _shared(_union(returned, text, "returned"), scope, text) / total


def summed_recall(returned: Iterable[Span], evidence: Iterable[Span], text: str) -> float:
    """Return the sum over what is returned of the share of the evidence that each covers: recall as the paper has it.

    Overlapping pieces count more than once, so the sum may pass 1; it is never below `coverage`, and equal to it
    where no two pieces overlap.

    Raises:
        EvaluationError: as `coverage`.
    """
    scope, total = _scope(evidence, text)
    return sum(_shared(_union([span], text, "returned"), scope, text) for span in returned) / total


def scope_recall_at(ranked: Sequence[Span], evidence: Iterable[Span], text: str, k: float) -> float:
    """Return the coverage by the first k pieces; k = 1.5 is `(R@1 + R@2) / 2`.

    Args:
        ranked: pieces, best first.
        evidence: the answer scope of one question.
        text: what all spans point into.
        k: pieces, as `at_cutoff` reads it.

    Raises:
        ParameterError: k is not a finite number > 0.
        EvaluationError: as `coverage`.
    """
    scope = tuple(evidence)
    return at_cutoff(k, lambda cutoff: coverage(ranked[:cutoff], scope, text))


def scope_recall_in(
    ranked: Iterable[DocumentSpan], evidence: Sequence[DocumentSpan], text_of: Callable[[str], str], k: float
) -> float:
    """Return the coverage by the first k pieces of several documents, whose texts are laid end to end.

    Args:
        ranked: pieces, best first; one of a document without evidence covers nothing at its rank.
        evidence: the answer scope of one question.
        text_of: from a document's id to its text; asked for documents with evidence.
        k: pieces, as `at_cutoff` reads it.

    Raises:
        ParameterError, EvaluationError: as `scope_recall_at`.
    """
    at: dict[str, int] = {}  # where each document begins
    whole = ""
    for name in dict.fromkeys(name for name, _, _ in evidence):
        at[name] = len(whole)
        whole += text_of(name)
    wanted = [(at[name] + start, at[name] + end) for name, start, end in evidence]
    found = [(at[name] + start, at[name] + end) if name in at else (0, 0) for name, start, end in ranked]
    return scope_recall_at(found, wanted, whole, k)


def recall_at_tokens(
    ranked: Sequence[Span], evidence: Iterable[Span], text: str, budget: int, count: Callable[[str], int]
) -> float:
    """Return the coverage by what a reader with a budget of tokens reads, as `read_within` has it.

    Args:
        ranked: pieces, best first.
        evidence: the answer scope of one question.
        text: what all spans point into.
        budget: tokens, at least 0.
        count: tokens of a text.

    Raises:
        ParameterError: the budget is negative.
        EvaluationError: as `coverage`.
    """
    return coverage(read_within(ranked, text, budget, lambda start, end: count(text[start:end])), evidence, text)


def read_within(
    ranked: Sequence[Span], text: str, budget: int, tokens: Callable[[int, int], int]
) -> tuple[Span, ...]:
    """Return what a reader with a budget of tokens reads: pieces in rank order, the last one truncated.

    A piece that overlaps an earlier one costs its tokens again, because it is read again. The last piece is cut
    after the last whole word that fits (the last character, in scripts without spaces), so no token is torn; nothing
    after it is read, also where it would fit.

    Args:
        ranked: pieces, best first.
        text: what they point into.
        budget: tokens, at least 0.
        tokens: tokens of text[start:end]; of two prefixes of a piece that end with a word, the longer has no fewer.

    Returns:
        Spans in rank order, whose tokens do not pass the budget in sum.

    Raises:
        ParameterError: the budget is negative.
    """
    if budget < 0:
        raise ParameterError("budget", budget, "a number of tokens >= 0")
    read: list[Span] = []
    left = budget
    for start, end in ranked:
        cost = tokens(start, end)
        if cost > left:
            read.append((start, _last_fitting(text, start, end, left, tokens)))
            break
        read.append((start, end))
        left -= cost
    return tuple(span for span in read if span[0] < span[1])


def chunking_error(pieces: Iterable[Span], evidence: Iterable[Span], text: str) -> float:
    """Return the share of the evidence spans that do not lie whole inside one piece (Table 7).

    White space at the ends of an evidence span may lie outside, since chunkers trim it. A span outside all pieces is
    an error too: nothing that is returned can hold it.

    Args:
        pieces: everything a chunker made of the text, in any order.
        evidence: spans of any number of questions; equal ones count as often as they are given.
        text: what all spans point into.

    Returns:
        A share in [0, 1].

    Raises:
        EvaluationError: there is no evidence, a span of it is blank, or a span does not lie in the text.
    """
    spans = [_visible_part(span, text) for span in evidence]
    if not spans:
        raise EvaluationError("the chunking error is undefined without evidence. Try: leave the document out")
    whole = sorted(_checked(pieces, text, "pieces"))
    starts = [start for start, _ in whole]
    reach: list[int] = []  # the furthest end of the pieces up to each
    for _, end in whole:
        reach.append(max(end, reach[-1]) if reach else end)
    broken = sum(1 for start, end in spans if not (at := bisect_right(starts, start)) or reach[at - 1] < end)
    return broken / len(spans)


def _visible(text: str, start: int, end: int) -> int:
    return sum(map(len, text[start:end].split()))


def _checked(spans: Iterable[Span], text: str, what: str) -> list[Span]:
    checked = list(spans)
    for start, end in checked:
        if not 0 <= start <= end <= len(text):
            raise EvaluationError(
                f"{what}: [{start}, {end}) does not lie in the text of {len(text)} characters. "
                "Try: offsets into the text that was given, of this document only"
            )
    return checked


def _union(spans: Iterable[Span], text: str, what: str) -> list[Span]:
    """Return disjoint spans, ascending, that hold the same characters."""
    union: list[Span] = []
    for start, end in sorted(_checked(spans, text, what)):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((start, end))
    return union


def _scope(evidence: Iterable[Span], text: str) -> tuple[list[Span], int]:
    scope = _union(evidence, text, "evidence")
    total = sum(_visible(text, start, end) for start, end in scope)
    if not total:
        raise EvaluationError(
            "recall is undefined for evidence without a visible character. Try: leave the question out, and count it"
        )
    return scope, total


def _shared(ones: Sequence[Span], others: Sequence[Span], text: str) -> int:
    """Return the visible characters in both of two sets of spans, each disjoint."""
    shared = ((max(one[0], other[0]), min(one[1], other[1])) for one in ones for other in others)
    return sum(_visible(text, start, end) for start, end in shared if start < end)


def _visible_part(span: Span, text: str) -> Span:
    start, end = _checked([span], text, "evidence")[0]
    inside = text[start:end]
    if not inside.strip():
        raise EvaluationError(f"evidence: [{start}, {end}) is blank. Try: leave the span out, and count it")
    return start + len(inside) - len(inside.lstrip()), start + len(inside.rstrip())


def _last_fitting(text: str, start: int, end: int, budget: int, tokens: Callable[[int, int], int]) -> int:
    """Return the last end of a word of text[start:end] up to which no more than `budget` tokens stand."""

    def back_to_word_end(position: int) -> int:
        while start < position < end and not _ends_word(text, position):
            position -= 1
        return position

    places = range(start, end + 1)
    fitting = bisect_right(places, budget, key=lambda position: tokens(start, back_to_word_end(position)))
    return back_to_word_end(places[fitting - 1]) if fitting else start


def _ends_word(text: str, position: int) -> bool:
    before, after = text[position - 1], text[position]
    return not before.isspace() and (after.isspace() or bool(_UNSPACED.match(before) or _UNSPACED.match(after)))


def at_cutoff(k: Cutoff, value: Callable[[int], float]) -> float:
    """Return a measure at a cutoff that need not be whole: `(1 - f) v(floor k) + f v(ceil k)`.

    It is what one expects of drawing the upper cutoff with probability f = k - floor k, as the paper's half and half
    does with f = 0.5. The k' = 1.5 and 6.5 results per view of MC-indexing, "1 or 2" and "6 or 7", are read in
    the same way, with `value` the coverage of the union of the first k' of each view.

    Args:
        k: pieces.
        value: v, the measure at a whole cutoff of 0 or more.

    Raises:
        ParameterError: k is not a finite number > 0.
    """
    check_given({"k": k}, at_cutoff)
    lower = floor(k)
    share = k - lower
    return value(lower) if share == 0 else (1 - share) * value(lower) + share * value(lower + 1)


def whole_cutoffs(k: Cutoff, questions: Annotated[int, Ge(0)]) -> tuple[int, ...]:
    """Return a whole cutoff for each question, in their order, with the mean k: 1, 2, 1, 2, … for k = 1.5.

    Question i (from 0) gets `floor(k (i + 1)) - floor(k i)`: the two cutoffs take turns, so that neither falls on
    one document only where questions are ordered by document.

    Args:
        k: pieces.
        questions: how many there are, at least 0.

    Raises:
        ParameterError: k is not a finite number > 0, or questions is negative.
    """
    check_given({"k": k, "questions": questions}, whole_cutoffs)
    ends = [floor(Fraction(str(k)) * number) for number in range(questions + 1)]  # 0.29 * 100 is 29
    return tuple(end - start for start, end in pairwise(ends))


def at_equal_count(points: Iterable[tuple[float, float]], k: float) -> float:
    """Return the recall at a mean of exactly k unique pieces, read off linearly between two measured points.

    Multi-view retrieval returns as many unique pieces as its views disagree; measured at k' = 1, 2, 3, … it gives
    points (mean unique pieces, mean recall). Recall is concave in k, so the line is a little pessimistic.

    Args:
        points: of one system over the same questions, in any order.
        k: pieces, between the lowest and the highest measured.

    Raises:
        EvaluationError: there are no points, or k lies outside them: nothing is extrapolated.
    """
    ordered = sorted(points)
    if not ordered or not ordered[0][0] <= k <= ordered[-1][0]:
        span = f"{ordered[0][0]:g} to {ordered[-1][0]:g}" if ordered else "none"
        raise EvaluationError(f"recall at {k:g} pieces lies outside what was measured ({span}). Try: more results")
    for (low, below), (high, above) in pairwise(ordered):
        if low <= k <= high and low < high:
            return below + (above - below) * (k - low) / (high - low)
    return fsum(recall for count, recall in ordered if count == k) / sum(1 for count, _ in ordered if count == k)


def equal_length_cutoff(k: Cutoff, tokens: Cutoff, of_reference: Cutoff) -> float:
    """Return the cutoff at which pieces of `tokens` tokens give as much text as k reference pieces (Table 10).

    `k of_reference / tokens`, both the mean tokens of a returned piece; it is seldom whole (see `at_cutoff`).

    Raises:
        ParameterError: an argument is not a finite number > 0.
    """
    check_given({"k": k, "tokens": tokens, "of_reference": of_reference}, equal_length_cutoff)
    return k * of_reference / tokens

"""The figures of one scheme by one retriever over the questions of all documents, each question counting the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from catena.evaluation import Span, coverage, equal_length_cutoff, whole_cutoffs
from catena.evaluation.answer_scope import recall_at
from catena_bench.tables_schemes import Searched
from catena_bench.views_measures import CUTOFFS, PERCENT, with_interval

_HALF = CUTOFFS[0]  # k = 1.5: of two cutoffs, one for half of the questions


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number of a table, and what belongs to it.

    Attributes:
        value: in percent, or whatever the table is about.
        more: further figures by their names: the ends of the interval, tokens, …
    """

    value: float
    more: Mapping[str, float] = field(default_factory=dict)


def recall(found: Sequence[Searched], scheme: str, k: float) -> Cell:
    """Return the mean coverage of the evidence at k, in percent, with its interval and what was returned.

    `low`, `high`: 95%, bootstrap over questions; `mean_tokens` and `mean_pieces` of what is returned; at k = 1.5
    `as_stated`: one set for every other question and the longer one for the rest, where there are two. Over several
    documents `of.<document>` too.

    Args:
        found: one per document.
        scheme: its name.
        k: as the paper counts it.
    """
    shares = _means(found, scheme, k, _coverage)
    cell = _with_ends([share for _, share in shares])
    more = dict(cell.more)
    more["mean_tokens"] = mean_tokens(found, scheme, k)
    more["mean_pieces"] = fmean(value for _, value in _means(found, scheme, k, lambda *_: len))
    if k == _HALF:
        more["as_stated"] = PERCENT * fmean(_as_stated(found, scheme))
    if len(found) > 1:
        for each in found:
            of_document = [share for name, share in shares if name == each.asked.name]
            more[f"of.{each.asked.name}"] = PERCENT * fmean(of_document)
    return Cell(value=cell.value, more=more)


def mean_tokens(found: Sequence[Searched], scheme: str, k: float) -> float:
    """Return the mean number of word pieces that are returned for a question."""
    return fmean(value for _, value in _means(found, scheme, k, _tokens))


def recall_at_length(found: Sequence[Searched], scheme: str, reference: str, k: float) -> Cell:
    """Return the recall at as many pieces as give the tokens of a reference at k, in percent (Table 10).

    The number of pieces is found for each document: sections of one are not as long as those of another.

    Args:
        found: one per document.
        scheme: one that returns the first pieces of its ranking.
        reference: the scheme whose tokens count.
        k: of the reference.
    """
    shares = []
    for each in found:
        tokens, own = mean_tokens([each], reference, k), mean_tokens([each], scheme, k)
        longer = equal_length_cutoff(k, own, tokens) if tokens and own else k  # where nothing is found, k is nothing
        shares += [
            recall_at(ranked, question.evidence, each.asked.document.text, longer)
            for ranked, question in zip(each.schemes[scheme].ranked, each.asked.questions, strict=True)
        ]
    return _with_ends(shares)


def mean_cell(cells: Sequence[Cell]) -> Cell:
    """Return the mean over retrievers, which has no interval: the same questions are in all of them."""
    return Cell(value=fmean(cell.value for cell in cells))


def _with_ends(shares: Sequence[float]) -> Cell:
    told = with_interval("", shares)
    return Cell(value=told[""], more={"low": told[".low"], "high": told[".high"]})


Measure = Callable[[Searched, int], Callable[[Sequence[Span]], float]]


def _means(found: Sequence[Searched], scheme: str, k: float, measure: Measure) -> list[tuple[str, float]]:
    """Return per question its document, and the mean of a measure over what may be returned."""
    return [
        (each.asked.name, each.schemes[scheme].mean(number, k, measure(each, number)))
        for each in found
        for number in range(len(each.asked.questions))
    ]


def _coverage(each: Searched, question: int) -> Callable[[Sequence[Span]], float]:
    evidence, text = each.asked.questions[question].evidence, each.asked.document.text
    return lambda spans: coverage(spans, evidence, text)


def _tokens(each: Searched, question: int) -> Callable[[Sequence[Span]], float]:
    return lambda spans: float(sum(each.asked.tokens(*span) for span in spans))


def _as_stated(found: Sequence[Searched], scheme: str) -> Iterator[float]:
    cutoffs = iter(whole_cutoffs(_HALF, sum(len(each.asked.questions) for each in found)))
    for each in found:
        results = each.schemes[scheme]
        for number in range(len(each.asked.questions)):
            cutoff = next(cutoffs)
            if results.at is None:
                spans = results.ranked[number][:cutoff]
            else:
                of_k = results.at(number, _HALF)
                spans = of_k[min(cutoff, len(of_k)) - 1]
            yield _coverage(each, number)(spans)

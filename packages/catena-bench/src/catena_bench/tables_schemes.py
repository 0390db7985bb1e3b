"""Cut documents in all ways that are compared, and search each by one retriever; make cells of what is found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from math import ceil, floor
from statistics import fmean
from typing import Any, Literal, TypeAlias

import numpy as np

from catena import Chunk, Degraded
from catena.effects import Failed, Step, together
from catena.enrichment import KEYWORDS, SUMMARY, Keywords, Summaries, make_views
from catena.evaluation import Span, coverage, spans_of, whole_cutoffs
from catena.structure import cut_fixed
from catena_bench import baselines, views_data
from catena_bench.figures import PERCENT, ROUNDS, mean_figures
from catena_bench.views import (
    CUTOFFS,
    RAW,
    Results,
    ablation,
    best_text,
    by_question,
    by_quota,
    by_score,
    ranked_spans,
    recalls_at_length,
)
from catena_bench.views_retrievers import KNOWN, Dense, Retriever, Scores

By: TypeAlias = Literal["llm", "offline"]
SECTIONS = "sections"
LEAVES = 300  # word pieces of a leaf of the tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The parts to make, and their makers.

    Attributes:
        viewed: which chunks get keywords and summaries: "sections", "fixed200", "fixed300".
        units: whether there are atomic units, or sentences where no model is asked.
        tree: whether RAPTOR's tree is grown.
        views_by: who makes views.
        by: who divides into units and summarises the clusters of the tree.
    """

    viewed: tuple[str, ...]
    units: bool
    tree: bool
    views_by: By
    by: By


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMaterial:
    """One document, cut in every way that is compared.

    Attributes:
        chunks: by name: "fixed100", "fixed100_content", …, "sections".
        views: by the name of the chunks and the kind of view; a chunk of which none could be made offline has its own
            text there, what a model failed at is missing.
        units: atomic units, or sentences; None where no table has them.
        tree: of summaries over "fixed300"; None where no table has it.
        degraded: what a model was asked for and did not give.
    """

    asked: views_data.AskedDocument
    chunks: Mapping[str, tuple[Chunk, ...]]
    views: Mapping[str, Mapping[str, views_data.Units]]
    units: tuple[Chunk, ...] | None
    tree: baselines.SummaryTree | None
    degraded: tuple[Degraded, ...]


def make_material(documents: Sequence[views_data.AskedDocument], wanted: Wanted) -> Step[tuple[TableMaterial, ...]]:
    """Cut all documents, and make of them what is wanted, side by side.

    Raises:
        CatenaError: not a failure of a model, but of what surrounds it (no service, the budget, the journal).
    """
    made: list[Any] = yield from together([_of_document(asked, wanted) for asked in documents])
    return tuple(_succeeded(made))


def _of_document(asked: views_data.AskedDocument, wanted: Wanted) -> Step[TableMaterial]:
    count = views_data.word_pieces()
    chunks = {f"fixed{size}": cut_fixed(asked.document, tokens=size, count=count) for size in views_data.LENGTHS}
    for size in views_data.LENGTHS:
        chunks[f"fixed{size}_content"] = cut_fixed(asked.document, asked.sections, tokens=size, count=count)
    chunks[SECTIONS] = views_data.section_chunks(asked)
    makers = (Keywords(by=wanted.views_by), Summaries(by=wanted.views_by))
    results: list[Any] = yield from together(
        [
            *(make_views(chunks[name], makers, title=asked.document.title) for name in wanted.viewed),
            *([_units(asked, wanted.by)] if wanted.units else []),
            *([_tree(asked, chunks[f"fixed{LEAVES}"], wanted.by)] if wanted.tree else []),
        ]
    )
    rest = iter(_succeeded(results))
    views = {name: next(rest) for name in wanted.viewed}
    units: baselines.AtomicChunks | None = next(rest) if wanted.units else None
    tree: baselines.RaptorTree | None = next(rest) if wanted.tree else None
    offline = wanted.views_by == "offline"
    made_by = [lost for _, lost in views.values()] + [each.degraded for each in (units, tree) if each is not None]
    return TableMaterial(
        asked=asked,
        chunks=chunks,
        views={
            name: views_data.units_by_kind(found, chunks[name], filled=offline) for name, (found, _) in views.items()
        },
        units=None if units is None else units.chunks,
        tree=None if tree is None else tree.tree,
        degraded=tuple(chain.from_iterable(made_by)),
    )


def _units(asked: views_data.AskedDocument, by: By) -> Step[baselines.AtomicChunks]:
    if by == "llm":
        return (yield from baselines.cut_atomic(asked.document, count=views_data.word_pieces()))
    return baselines.AtomicChunks(chunks=baselines.cut_sentences(asked.document, count=views_data.word_pieces()))


def _tree(asked: views_data.AskedDocument, leaves: tuple[Chunk, ...], by: By) -> Step[baselines.RaptorTree]:
    options = baselines.RaptorOptions(summaries=baselines.ClusterSummaries(by=by))
    title, count = asked.document.title, views_data.word_pieces()
    return (yield from baselines.raptor_tree(asked.document.id, leaves, options, title=title, count=count))


def _succeeded(results: Iterable[Any]) -> list[Any]:
    found = list(results)
    for each in found:
        if isinstance(each, Failed):
            raise each.error
    return found


DEEPEST = 1_000  # pieces of a ranking that are kept: more than any cutoff reads

FIXED = tuple(f"fixed{size}" for size in views_data.LENGTHS)
UNITS, PLUS, RAPTOR = "units", "units_plus", "raptor"
CONTENT, MULTI_VIEW, SHIPPED = "content_raw", "mc_indexing", "catena"

Schemes: TypeAlias = Mapping[str, Results]


_HALF = CUTOFFS[0]  # k = 1.5: of two cutoffs, one for half of the questions


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """The results of all schemes for the questions of one document, by one retriever."""

    asked: views_data.AskedDocument
    schemes: Schemes


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeRun:
    """The schemes to search, besides those for which something was made.

    Attributes:
        chunks: names of chunks, as `TableMaterial.chunks` has them; those with views are among them.
        shipped: whether sections are searched as Catena does, by a retriever that embeds.
        factor: by how much k grows for units, so that they cost the tokens of sections.
    """

    chunks: Collection[str]
    shipped: bool
    factor: int


def searched(material: TableMaterial, retriever: Retriever, how: SchemeRun) -> Searched:
    """Return the results of all schemes for one document."""
    found = dict(_schemes(material, retriever, how))
    if how.shipped and isinstance(retriever, Dense):
        found[SHIPPED] = _shipped(material, retriever)
    return Searched(asked=material.asked, schemes=found)


def factor_of(materials: Sequence[TableMaterial]) -> int:
    """Return the factor of "Atomic Unit: Plus" over all documents; 1 where there are no units."""
    if any(material.units is None for material in materials):
        return 1

    def mean(chunks_of: Callable[[TableMaterial], Sequence[Chunk]]) -> float:
        return fmean(material.asked.tokens(*span) for material in materials for span in spans_of(chunks_of(material)))

    return baselines.plus_factor(
        mean(lambda material: material.chunks[SECTIONS]), mean(lambda material: material.units or ())
    )


def _schemes(material: TableMaterial, retriever: Retriever, how: SchemeRun) -> Iterator[tuple[str, Results]]:
    asked = material.asked
    chunks = {name: of_name for name, of_name in material.chunks.items() if name in how.chunks}
    scores: dict[str, Scores] = {}
    for name, of_name in chunks.items():
        scores[name] = _scores(asked, views_data.whole(of_name), retriever)
        yield (name if name != SECTIONS else CONTENT), Results(ranked=ranked_spans(scores[name], of_name, DEEPEST))
    if material.units is not None:
        ranked = ranked_spans(_scores(asked, views_data.whole(material.units), retriever), material.units, DEEPEST)
        yield UNITS, Results(ranked=ranked)
        yield PLUS, Results(ranked=ranked, at=_longer(ranked, how.factor))
    if material.tree is not None:
        yield RAPTOR, _traversed(asked, material.tree, retriever)
    for name, views in material.views.items():
        made = {kind: _scores(asked, units, retriever) for kind, units in views.items()}
        rankings = by_question({RAW: scores[name], **made}, chunks[name])
        if name != SECTIONS:
            yield f"{name}_views", by_quota(rankings)
            continue
        for kind in (KEYWORDS, SUMMARY):
            yield f"content_{kind}", Results(ranked=ranked_spans(made[kind], chunks[name], DEEPEST))
        yield MULTI_VIEW, by_quota(rankings)
        for left_out, results in ablation(rankings):
            yield left_out.replace("paper", MULTI_VIEW), results


def _scores(asked: views_data.AskedDocument, units: views_data.Units, retriever: Retriever) -> Scores:
    """Return shape (questions, chunks); nothing is cut off, even beyond an encoder's window."""
    texts = [question.text for question in asked.questions]
    if not units.texts:  # a document of tables has no summary, say
        return np.full((len(texts), len(units.chunks)), -np.inf)
    return best_text(retriever.scores(units.texts, texts, truncated=False), units)


def _longer(ranked: Sequence[Sequence[Span]], factor: int) -> Callable[[int, float], Sequence[Sequence[Span]]]:
    def at(question: int, k: float) -> Sequence[Sequence[Span]]:
        return [ranked[question][:cutoff] for cutoff in (floor(factor * k), ceil(factor * k))]

    return at


def _traversed(asked: views_data.AskedDocument, tree: baselines.SummaryTree, retriever: Retriever) -> Results:
    """Go down the tree by the retriever's scores of its nodes' texts; a node without a word asked comes last."""
    texts = [question.text for question in asked.questions]
    scores = retriever.scores([node.text for node in tree.nodes], texts, truncated=False)
    finite = np.where(np.isfinite(scores), scores, np.min(scores, initial=0.0, where=np.isfinite(scores)) - 1)

    @cache
    def taken(question: int, k: int) -> tuple[Span, ...]:
        return spans_of(hit.chunk for hit in baselines.traverse(tree, finite[question].tolist(), k=k).hits)

    def at(question: int, k: float) -> Sequence[Sequence[Span]]:
        return [taken(question, cutoff) for cutoff in (floor(k), ceil(k))]

    return Results(ranked=(), at=at)


def _shipped(material: TableMaterial, dense: Retriever) -> Results:
    """Rank sections as Catena does: by all their words, their best passage's words and its meaning."""
    asked, bm25 = material.asked, KNOWN["bm25"]()
    words, passages = views_data.sections_headed(asked), views_data.best_passage(asked)
    scores = (_scores(asked, words, bm25), _scores(asked, passages, dense), _scores(asked, passages, bm25))
    sections = material.chunks[SECTIONS]
    return Results(ranked=ranked_spans(by_score(sections, *scores), sections, DEEPEST))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number of a table, and what belongs to it.

    Attributes:
        value: in percent, or in the unit of the table.
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
        shares += recalls_at_length(each.asked, each.schemes[scheme], k, mean_tokens([each], reference, k))
    return _with_ends(shares)


def mean_cell(cells: Sequence[Cell]) -> Cell:
    """Return the mean over retrievers, which has no interval: the same questions are in all of them."""
    return Cell(value=fmean(cell.value for cell in cells))


def _with_ends(shares: Sequence[float]) -> Cell:
    value, low, high = mean_figures("", shares, unit=PERCENT, rounds=ROUNDS).values()
    return Cell(value=value, more={"low": low, "high": high})


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

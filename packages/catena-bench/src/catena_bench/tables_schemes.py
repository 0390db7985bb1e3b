"""What each way of chunking returns for each question, by one retriever: the rows of the paper's tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, floor
from statistics import fmean
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from catena.enrichment import KEYWORDS, SUMMARY, SummaryTree
from catena.evaluation import Span, plus_factor, spans_of
from catena.model import Chunk
from catena.retrieval import traverse
from catena_bench.tables_material import SECTIONS, Material
from catena_bench.views_data import AskedDocument
from catena_bench.views_measures import Results
from catena_bench.views_multi import RAW, ablation, by_question, by_quota
from catena_bench.views_ranking import best_text, by_score
from catena_bench.views_retrievers import Bm25, Dense, Retriever, Scores
from catena_bench.views_units import LENGTHS, Units, best_passage, sections_headed, whole

DEEPEST = 1_000  # pieces of a ranking that are kept: more than any cutoff reads

FIXED = tuple(f"fixed{size}" for size in LENGTHS)
UNITS, PLUS, RAPTOR = "units", "units_plus", "raptor"
CONTENT, MULTI_VIEW, SHIPPED = "content_raw", "mc_indexing", "catena"

Schemes: TypeAlias = Mapping[str, Results]


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What all schemes return for the questions of one document, by one retriever."""

    asked: AskedDocument
    schemes: Schemes


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Which schemes are searched, besides those for which something was made.

    Attributes:
        chunks: names of chunks, as `Material.chunks` has them; those with views are among them.
        shipped: whether sections are searched as Catena does, by a retriever that embeds.
        factor: by how much k grows for units, so that they cost the tokens of sections.
    """

    chunks: Collection[str]
    shipped: bool
    factor: int


def searched(material: Material, retriever: Retriever, how: Search) -> Searched:
    """Return what is found of one document."""
    found = dict(_schemes(material, retriever, how))
    if how.shipped and isinstance(retriever, Dense):
        found[SHIPPED] = _shipped(material, retriever)
    return Searched(asked=material.asked, schemes=found)


def factor_of(materials: Sequence[Material]) -> int:
    """Return the factor of "Atomic Unit: Plus" over all documents; 1 where there are no units."""
    if any(material.units is None for material in materials):
        return 1

    def mean(chunks_of: Callable[[Material], Sequence[Chunk]]) -> float:
        return fmean(material.asked.tokens(*span) for material in materials for span in spans_of(chunks_of(material)))

    return plus_factor(mean(lambda material: material.chunks[SECTIONS]), mean(lambda material: material.units or ()))


def _schemes(material: Material, retriever: Retriever, how: Search) -> Iterator[tuple[str, Results]]:
    asked = material.asked
    chunks = {name: of_name for name, of_name in material.chunks.items() if name in how.chunks}
    scores: dict[str, Scores] = {}
    for name, of_name in chunks.items():
        scores[name] = _scores(asked, whole(of_name), retriever)
        yield (name if name != SECTIONS else CONTENT), Results(ranked=_ranked(scores[name], of_name))
    if material.units is not None:
        ranked = _ranked(_scores(asked, whole(material.units), retriever), material.units)
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
            yield f"content_{kind}", Results(ranked=_ranked(made[kind], chunks[name]))
        yield MULTI_VIEW, by_quota(rankings)
        for left_out, results in ablation(rankings):
            yield left_out.replace("paper", MULTI_VIEW), results


def _scores(asked: AskedDocument, units: Units, retriever: Retriever) -> Scores:
    """Return shape (questions, chunks); nothing is cut off, whatever window an encoder has."""
    texts = [question.text for question in asked.questions]
    if not units.texts:  # a document of tables has no summary, say
        return np.full((len(texts), len(units.chunks)), -np.inf)
    return best_text(retriever.scores(units.texts, texts, truncated=False), units)


def _ranked(scores: Scores, chunks: Sequence[Chunk]) -> list[list[Span]]:
    spans = spans_of(chunks)
    return [[spans[at] for at in _order(row)] for row in scores]


def _order(row: NDArray[np.float64]) -> NDArray[np.intp]:
    order = np.argsort(-row, kind="stable")[:DEEPEST]
    return order[np.isfinite(row[order])]


def _longer(ranked: Sequence[Sequence[Span]], factor: int) -> Callable[[int, float], Sequence[Sequence[Span]]]:
    def at(question: int, k: float) -> Sequence[Sequence[Span]]:
        return [ranked[question][:cutoff] for cutoff in (floor(factor * k), ceil(factor * k))]

    return at


def _traversed(asked: AskedDocument, tree: SummaryTree, retriever: Retriever) -> Results:
    """Go down the tree by the retriever's scores of its nodes' texts; a node without a word asked comes last."""
    texts = [question.text for question in asked.questions]
    scores = retriever.scores([node.text for node in tree.nodes], texts, truncated=False)
    finite = np.where(np.isfinite(scores), scores, np.min(scores, initial=0.0, where=np.isfinite(scores)) - 1)

    @cache
    def taken(question: int, k: int) -> tuple[Span, ...]:
        return spans_of(hit.chunk for hit in traverse(tree, finite[question].tolist(), k=k).hits)

    def at(question: int, k: float) -> Sequence[Sequence[Span]]:
        return [taken(question, cutoff) for cutoff in (floor(k), ceil(k))]

    return Results(ranked=(), at=at)


def _shipped(material: Material, dense: Retriever) -> Results:
    """Rank sections as Catena does: by all their words, their best passage's words and its meaning."""
    asked, bm25 = material.asked, Bm25()
    words, passages = sections_headed(asked), best_passage(asked)
    fused = by_score(_scores(asked, words, bm25), _scores(asked, passages, dense), _scores(asked, passages, bm25))
    return Results(ranked=_ranked(fused, material.chunks[SECTIONS]))

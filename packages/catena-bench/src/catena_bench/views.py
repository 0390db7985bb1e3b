"""Compare sections, windows, views and fixed lengths by several retrievers: recall at k and at tokens.

The paper's Tables 4, 6, 7, 9, 10 and 11, with views made offline, on documents whose evidence is known in characters.

| method | what is returned | what it is found by |
|---|---|---|
| fixed100, fixed200, fixed300 | sentences up to so many word pieces | their text, as far as the encoder reads it |
| fixed100_content, … | the same, inside sections | the same |
| sections_truncated | a section | its text, as far as the encoder reads it |
| sections, sections_headed | a section | all its text, as one vector; under its titles |
| windows, windows_headed | a section | its best window of 200 word pieces; under its titles |
| passages | a section | its best passage, as the library cuts them |
| default | a section; within a budget its passages | what Catena ships: all its words, and its best passage |
| views_paper, views_exact, views_rrf | a section | its text under its titles, its keywords and its summary |
| views_paper_without_raw, … | a section | two of these |
| fixed200_views_paper, … | fixed lengths | their text, keywords and summary |
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from catena import Chunk, Hit, Ranking, Scale, Services, evaluation, retrieval
from catena import run as drive
from catena.effects import Embedder
from catena.enrichment import Keywords, StaticEmbedder, Summaries, make_views
from catena.model import EvaluationError
from catena.structure import passages_of
from catena_bench.figures import PERCENT, ROUNDS, Figures, Tell, mean_figures, silent
from catena_bench.views_data import METHODS, AskedDocument, Units, read_asked_documents, units_by_kind
from catena_bench.views_retrievers import Dense, Retriever, Scores, retrievers

DEPTH = 100  # chunks of a ranking: more than any cutoff or budget of the figures reads
RRF = 60.0


CUTOFFS = (1.5, 3, 5, 10)  # the paper's k
BUDGETS = (250, 500, 1_000, 2_000)  # word pieces
RAW, KEYWORDS, SUMMARY = "raw", "keywords", "summary"
RULES: Mapping[str, retrieval.ViewRule] = {
    "exact": retrieval.ExactUnion(),
    "rrf": retrieval.ViewRankFusion(),
}  # the paper's has its own quotas
LONGEST = 40  # chunks of a view's ranking
MOST_PER_VIEW = 12  # up to so many of each view a mean of k unique chunks is looked for
Views = Mapping[str, Scores]  # by kind of view, shape (questions, chunks)
Asked = Sequence[Mapping[str, Ranking]]  # per question, by kind of view


def best_text(scores: Scores, units: Units) -> Scores:
    """Return shape (questions, chunks): each chunk scores as its best text, one without a text as nothing (-inf)."""
    best = np.full((len(scores), len(units.chunks)), -np.inf)
    np.maximum.at(best.T, np.array(units.owner, np.intp), scores.T)
    return best


def by_score(chunks: Sequence[Chunk], lexical: Scores, cosines: Scores, passages: Scores | None = None) -> Scores:
    """Return the library's fusion by score, of whole texts or of best passages, too; -inf where nothing was found."""
    how = retrieval.ScoreFusion() if passages is None else retrieval.SECTION_FUSION
    routes = {"lexical": lexical, "dense": cosines, **({} if passages is None else {"passages": passages})}
    number_of = {chunk.id: number for number, chunk in enumerate(chunks)}
    fused = np.full(lexical.shape, -np.inf)
    for question, row in enumerate(fused):
        rankings = {name: ranking(scores[question], chunks) for name, scores in routes.items()}
        for hit in retrieval.weighted_sum(rankings, how.parts(rankings)).hits:
            row[number_of[hit.chunk.id]] = hit.score
    return fused


def by_rank(*several: Scores) -> Scores:
    """Return reciprocal-rank fusion of the first hundred of each: `sum 1 / (60 + rank)`, ranks from 1."""
    fused = np.zeros_like(several[0])
    for scores in several:
        for row, order in enumerate(map(best_first, scores)):
            fused[row, order] += 1 / (RRF + np.arange(1, len(order) + 1))
    return np.where(fused > 0, fused, -np.inf)


def best_first(row: NDArray[np.float64], depth: int = DEPTH) -> NDArray[np.intp]:
    """Return the numbers of the best chunks of one question, ties in reading order, nothing that was not found."""
    order = np.argsort(-row, kind="stable")[:depth]
    return order[np.isfinite(row[order])]


def ranked_spans(scores: Scores, chunks: Sequence[Chunk], depth: int = DEPTH) -> list[list[evaluation.Span]]:
    """Return for each question the spans of the best chunks, best first."""
    spans = evaluation.spans_of(chunks)
    return [[spans[at] for at in best_first(row, depth)] for row in scores]


def ranking(row: NDArray[np.float64], chunks: Sequence[Chunk]) -> Ranking:
    """Return the best chunks of one question as the library's rankings are."""
    return Ranking(tuple(Hit(chunks[at], float(row[at])) for at in best_first(row)), Scale.SIMILARITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The pieces that one method returns for each question of one document.

    Attributes:
        ranked: all pieces, best first; k of them are the first k.
        read: what a reader with a budget of tokens is given, in order; None for the same.
        at: by question and k of the paper, the sets of pieces that are equally likely to be returned; None for the
            first k of `ranked`.
    """

    ranked: Sequence[Sequence[evaluation.Span]]
    read: Sequence[Sequence[evaluation.Span]] | None = None
    at: Callable[[int, float], Sequence[Sequence[evaluation.Span]]] | None = None

    def mean(self, question: int, k: float, measure: Callable[[Sequence[evaluation.Span]], float]) -> float:
        """Return the mean of a measure over what may be returned at k."""
        if self.at is None:
            ranked = self.ranked[question]
            return evaluation.at_cutoff(k, lambda cutoff: measure(ranked[:cutoff]))
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

    def recall(question: int) -> Callable[[Sequence[evaluation.Span]], float]:
        return lambda spans: evaluation.coverage(spans, questions[question].evidence, text)

    def sections(spans: Sequence[evaluation.Span]) -> float:
        return len(_sections(asked, spans))

    def tokens(spans: Sequence[evaluation.Span]) -> float:
        return sum(asked.tokens(*span) for span in spans)

    for k in CUTOFFS:
        key = f"k{k:g}"
        found |= mean_figures(
            key, [results.mean(number, k, recall(number)) for number in each], unit=PERCENT, rounds=ROUNDS
        )
        for name, measure in (("mean_tokens", tokens), ("mean_pieces", len), ("mean_sections", sections)):
            found[f"{key}.{name}"] = fmean(results.mean(number, k, measure) for number in each)
    if results.at is None:
        cutoffs = evaluation.whole_cutoffs(CUTOFFS[0], len(questions))
        values = [recall(number)(results.ranked[number][: cutoffs[number]]) for number in each]
        found[f"k{CUTOFFS[0]:g}.as_stated"] = PERCENT * fmean(values)
    for budget in BUDGETS:
        read = [
            evaluation.read_within((results.read or results.ranked)[number], text, budget, asked.tokens)
            for number in each
        ]
        found |= mean_figures(
            f"tokens{budget}", [recall(number)(read[number]) for number in each], unit=PERCENT, rounds=ROUNDS
        )
    return found


def at_equal_length(asked: AskedDocument, results: Results, tokens: Mapping[float, float]) -> dict[str, float]:
    """Return `k3.equal_length` and so on, in percent: recall at as many pieces as give the tokens of a reference.

    The paper's Table 10: `k` grows by the tokens that the reference returns at k over those that this method does.

    Args:
        asked: the document.
        results: of a method that returns the first k pieces of its ranking.
        tokens: of the reference, the mean number at each k.
    """
    return {
        f"k{k:g}.equal_length": PERCENT * fmean(recalls_at_length(asked, results, k, of_reference))
        for k, of_reference in tokens.items()
    }


def recalls_at_length(asked: AskedDocument, results: Results, k: float, tokens: float) -> list[float]:
    """Return the recall of each question at as many pieces as give so many tokens; see `at_equal_length`."""
    own = fmean(
        results.mean(number, k, lambda spans: sum(asked.tokens(*span) for span in spans))
        for number in range(len(asked.questions))
    )
    longer = (
        evaluation.equal_length_cutoff(k, own, tokens) if tokens and own else k
    )  # where nothing is found, k is nothing
    return [
        evaluation.scope_recall_at(ranked, question.evidence, asked.document.text, longer)
        for ranked, question in zip(results.ranked, asked.questions, strict=True)
    ]


def _sections(asked: AskedDocument, spans: Sequence[evaluation.Span]) -> set[int]:
    """Return the positions of the sections, which tile the text, that spans share a character with."""
    starts = [section.start for section in asked.sections]
    return {
        number for start, end in spans for number in range(bisect_right(starts, start) - 1, bisect_left(starts, end))
    }


def offline_views(asked: AskedDocument, chunks: tuple[Chunk, ...]) -> dict[str, Units]:
    """Return the keyword and summary views of chunks, made without a language model, by kind.

    A chunk that has none of a kind, because it is too short for a summary, stands there with its own text: else a
    rule that counts views would hold its length against it.
    """
    makers = (Keywords(by="offline"), Summaries(by="offline"))
    services = Services(embedder=StaticEmbedder())
    views, _ = drive(make_views(chunks, makers, title=asked.document.title), services)
    return units_by_kind(views, chunks, filled=True)


def by_question(views: Views, chunks: Sequence[Chunk]) -> Asked:
    """Return the rankings of each question by kind of view."""
    questions = len(next(iter(views.values())))
    return [
        {kind: ranking(scores[row], chunks).top(LONGEST) for kind, scores in views.items()}
        for row in range(questions)
    ]


def rules(asked: Asked) -> Iterator[tuple[str, Results]]:
    """Yield the rows of one retriever: each rule over all views."""
    yield "paper", by_quota(asked)
    for name, rule in RULES.items():
        yield name, Results(ranked=[_spans(retrieval.multi_view(each, rule, LONGEST)) for each in asked])


def ablation(asked: Asked) -> Iterator[tuple[str, Results]]:
    """Yield the paper's rule without each view: of two views, it returns fewer chunks (Tables 4 and 11)."""
    for left_out in asked[0]:
        fewer = [{kind: each for kind, each in of_kinds.items() if kind != left_out} for of_kinds in asked]
        yield f"paper_without_{left_out}", by_quota(fewer)


def by_quota(asked: Asked) -> Results:
    """Return the paper's rule: the union of the first k' of each view, a mean over both k' where it names two."""

    @cache
    def union(question: int, per_view: int) -> tuple[evaluation.Span, ...]:
        return _union(asked[question], per_view)

    def at(question: int, k: float) -> list[tuple[evaluation.Span, ...]]:
        return [union(question, per_view) for per_view in retrieval.quota(k)]

    return Results(ranked=[_union(each, LONGEST) for each in asked], at=at)


def at_equal_counts(document: AskedDocument, asked: Asked) -> dict[str, float]:
    """Return `k3.equal_count` and so on: recall where the union has a mean of exactly k chunks, in percent.

    A k below what one chunk of each view gives in the mean has no such figure.
    """
    text, points = document.document.text, []
    for per_view in range(1, MOST_PER_VIEW + 1):
        unions = [_union(each, per_view) for each in asked]
        recalls = [
            evaluation.coverage(spans, question.evidence, text)
            for spans, question in zip(unions, document.questions, strict=True)
        ]
        points.append((fmean(map(len, unions)), fmean(recalls)))
    found = {}
    for k in CUTOFFS:
        try:
            found[f"k{k:g}.equal_count"] = PERCENT * evaluation.at_equal_count(points, k)
        except EvaluationError:
            continue
    return found


def _union(rankings: Mapping[str, Ranking], per_view: int) -> tuple[evaluation.Span, ...]:
    return _spans(retrieval.multi_view(rankings, retrieval.PaperQuota(per_view=per_view), per_view))


def _spans(ranked: Ranking) -> tuple[evaluation.Span, ...]:
    return evaluation.spans_of(hit.chunk for hit in ranked.hits)


BY_WORDS, BY_MEANING = retrieval.ReadingOptions(alpha=0.0), retrieval.ReadingOptions(alpha=1.0)


OURS = "lexical"  # what is fused, and shipped; "bm25" is the usual one, which other figures can be compared with
LEXICAL = (OURS, "bm25")
SLOW = "minilm"  # minutes for each method, so it is left out of those below and of views of fixed lengths
LEFT_OUT = ("fixed100_content", "fixed200_content", "fixed300_content", "sections_headed")
FUSED = "fused_"
WITH_VIEWS = ("fixed200", "fixed300")  # of the fixed lengths: Tables 6 and 9
OfRetrievers = Mapping[str, Scores]  # by retriever, shape (questions, chunks)


def passages_read(
    asked: AskedDocument,
    scores: Scores,
    chunks: Sequence[Chunk],
    embedder: Embedder | None,
    options: retrieval.ReadingOptions | None = None,
) -> Iterator[tuple[evaluation.Span, ...]]:
    """Yield for each question the passages of its first hits, in the order in which they are read.

    Args:
        asked: the document.
        scores: shape (questions, chunks).
        chunks: sections, or anything long.
        embedder: compares passages with the question; None where only their words count.
        options: as the library has them by default.
    """
    services = Services(embedder=embedder)

    @cache
    def passages(chunk: Chunk) -> tuple[Chunk, ...]:
        return passages_of(chunk, document=asked.document)

    for question, row in zip(asked.questions, scores, strict=True):
        step = retrieval.rank_passages(question.text, ranking(row, chunks), passages, options)
        yield evaluation.spans_of(hit.chunk for hit in drive(step, services).hits)


def run(data: Path, *, questions: int | None = None, tell: Tell = silent) -> Figures:
    """Ask every question of its own document, by every method and retriever, and return the figures.

    Args:
        data: a directory of the layout, see `views_data.read_asked_documents`.
        questions: ask only so many of each document.
        tell: is told how far the run is.

    Returns:
        `<document>.<retriever>.<method>.<figure>`, the figures as `views.figures` has them, in percent and
        word pieces, for fixed lengths `k3.equal_length` too (Table 10), and for the paper's rule `k3.equal_count`;
        `<document>.chunking_error.<method>` in percent (Table 7); `<document>.n_questions`, `.n_tokens`,
        `.n_sections`; `skipped.<retriever>` 1 for one whose packages are not installed. "lexical" is
        the library's own BM25, which is fused: "fused_static" and "fused_minilm" with that embedding, "fused" the
        latter where it is there, else the former. "bm25" is the usual BM25 (bm25s, English stop words and stemmer);
        its "default" is what Catena ships without an embedding, so the same as that of "lexical".
    """
    documents = read_asked_documents(data, questions)
    engines, skipped = retrievers(tell)
    measured: dict[str, float] = {f"skipped.{name}": 1.0 for name in skipped}
    for asked in documents:
        tell(f"{asked.name}: {len(asked.questions)} questions, {len(asked.token_starts):,} word pieces")
        for key, value in _of_document(asked, engines, tell).items():
            measured[f"{asked.name}.{key}"] = value
    return measured


def _of_document(asked: AskedDocument, engines: Sequence[Retriever], tell: Tell) -> Figures:
    units = {method: units_of(asked) for method, units_of in METHODS.items()}
    sections = units["sections"].chunks
    measured: dict[str, float] = {
        "n_questions": len(asked.questions),
        "n_tokens": len(asked.token_starts),
        "n_sections": len(sections),
    }
    evidence = [span for question in asked.questions for span in question.evidence]
    scores: dict[str, OfRetrievers] = {}
    for method, of_method in units.items():
        tell(f"{asked.name}: {method}")
        error = evaluation.chunking_error(evaluation.spans_of(of_method.chunks), evidence, asked.document.text)
        measured[f"chunking_error.{method}"] = PERCENT * error
        scores[method] = with_fused(
            of_method.chunks, _scores(asked, of_method, _fast(engines) if method in LEFT_OUT else engines)
        )
        for retriever, matrix in scores[method].items():
            measured |= _told(asked, f"{retriever}.{method}", Results(ranked=ranked_spans(matrix, of_method.chunks)))
    tell(f"{asked.name}: default")
    measured |= _default(asked, scores, sections, engines)
    tell(f"{asked.name}: views")
    raw = with_fused(sections, {name: _own_text(name, scores) for name in scores["sections"]})
    measured |= _views(asked, "views", raw, sections, engines, ablated=True)
    for method in WITH_VIEWS:
        measured |= _views(asked, f"{method}_views", scores[method], units[method].chunks, _fast(engines))
    tell(f"{asked.name}: equal lengths")
    measured |= _equal_lengths(asked, measured, scores, units)
    strongest = f"{FUSED}{'minilm' if any(engine.name == SLOW for engine in engines) else 'static'}."
    fused = {key.removeprefix(strongest): value for key, value in measured.items() if key.startswith(strongest)}
    return measured | {f"fused.{key}": value for key, value in fused.items()}


def _scores(asked: AskedDocument, units: Units, engines: Sequence[Retriever]) -> dict[str, Scores]:
    texts = [question.text for question in asked.questions]
    return {
        engine.name: best_text(engine.scores(units.texts, texts, truncated=units.truncated), units)
        for engine in engines
    }


def _fast(engines: Sequence[Retriever]) -> list[Retriever]:
    return [engine for engine in engines if engine.name != SLOW]


def _told(asked: AskedDocument, name: str, results: Results) -> dict[str, float]:
    return {f"{name}.{key}": value for key, value in figures(asked, results).items()}


def with_fused(chunks: Sequence[Chunk], single: OfRetrievers, passages: Scores | None = None) -> dict[str, Scores]:
    """Add the library's words fused with each embedding: "fused_static" and, where it is there, "fused_minilm"."""
    alone = {name: scores for name, scores in single.items() if not name.startswith(FUSED)}
    dense = [name for name in alone if name not in LEXICAL]
    return {**alone, **{f"{FUSED}{name}": by_score(chunks, alone[OURS], alone[name], passages) for name in dense}}


def _own_text(retriever: str, scores: Mapping[str, OfRetrievers]) -> Scores:
    """Return how the library finds a section by its own text: all its words, or the meaning of its best passage."""
    return scores["sections_headed" if retriever in LEXICAL else "passages"][retriever]


def _default(
    asked: AskedDocument,
    scores: Mapping[str, OfRetrievers],
    sections: tuple[Chunk, ...],
    engines: Sequence[Retriever],
) -> dict[str, float]:
    """Return the figures of what Catena ships, and of each of its routes alone."""
    embedders = {engine.name: engine for engine in engines if isinstance(engine, Dense)}
    single = {name: _own_text(name, scores) for name in (OURS, *embedders)}
    shipped = with_fused(sections, single, scores["passages"][OURS])
    measured: dict[str, float] = {}
    for retriever, matrix in shipped.items():
        embedder = embedders.get(retriever.removeprefix(FUSED))
        options = BY_WORDS if retriever == OURS else BY_MEANING if retriever in embedders else None
        read = list(passages_read(asked, matrix, sections, embedder, options))
        measured |= _told(asked, f"{retriever}.default", Results(ranked=ranked_spans(matrix, sections), read=read))
    without_embedding = f"{OURS}.default"
    for key in [key for key in measured if key.startswith(without_embedding)]:
        measured["bm25" + key.removeprefix(OURS)] = measured[key]
    by_ranks = by_rank(single[OURS], single.get("minilm", single["static"]))
    return measured | _told(asked, "rrf.default", Results(ranked=ranked_spans(by_ranks, sections)))


def _views(
    asked: AskedDocument,
    name: str,
    raw: OfRetrievers,
    chunks: tuple[Chunk, ...],
    engines: Sequence[Retriever],
    *,
    ablated: bool = False,
) -> dict[str, float]:
    """Return the figures of the rules over the chunks' own text, keywords and summaries."""
    made = {
        kind: with_fused(chunks, _scores(asked, units, engines))
        for kind, units in offline_views(asked, chunks).items()
    }
    measured: dict[str, float] = {}
    for retriever in made[KEYWORDS]:
        of_kinds = {RAW: raw[retriever], **{kind: scores[retriever] for kind, scores in made.items()}}
        rankings = by_question(of_kinds, chunks)
        for rule, results in chain(rules(rankings), ablation(rankings) if ablated else ()):
            measured |= _told(asked, f"{retriever}.{name}_{rule}", results)
        if ablated:
            for key, value in at_equal_counts(asked, rankings).items():
                measured[f"{retriever}.{name}_paper.{key}"] = value
    return measured


def _equal_lengths(
    asked: AskedDocument,
    measured: Mapping[str, float],
    scores: Mapping[str, OfRetrievers],
    units: Mapping[str, Units],
) -> dict[str, float]:
    """Return the recall of fixed lengths at as many tokens as the paper's rule over sections returns (Table 10)."""
    found: dict[str, float] = {}
    for method in (method for method in units if method.startswith("fixed")):
        for retriever in scores[method]:
            tokens = {k: measured[f"{retriever}.views_paper.k{k:g}.mean_tokens"] for k in CUTOFFS}
            results = Results(ranked=ranked_spans(scores[method][retriever], units[method].chunks))
            for key, value in at_equal_length(asked, results, tokens).items():
                found[f"{retriever}.{method}.{key}"] = value
    return found

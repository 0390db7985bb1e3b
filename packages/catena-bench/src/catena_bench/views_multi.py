"""Several views of the same chunks, made offline, under the rules of multi-view retrieval (Tables 4, 6, 9 and 11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from statistics import fmean

from catena.effects import Services
from catena.effects import run as drive
from catena.enrichment import StaticEmbedder, make_views
from catena.enrichment.views import Keywords, Summaries
from catena.evaluation import Span, at_equal_count, coverage, spans_of
from catena.model import Chunk, EvaluationError, Ranking
from catena.retrieval import ExactUnion, PaperQuota, ViewRankFusion, ViewRule, multi_view, quota
from catena_bench.views_data import AskedDocument
from catena_bench.views_measures import CUTOFFS, PERCENT, Results
from catena_bench.views_ranking import ranking
from catena_bench.views_retrievers import Scores
from catena_bench.views_units import Units

RAW, KEYWORDS, SUMMARY = "raw", "keywords", "summary"
RULES: Mapping[str, ViewRule] = {"exact": ExactUnion(), "rrf": ViewRankFusion()}  # the paper's has its own quotas
LONGEST = 40  # chunks of a view's ranking
MOST_PER_VIEW = 12  # up to so many of each view a mean of k unique chunks is looked for

Views = Mapping[str, Scores]  # by kind of view, shape (questions, chunks)
Asked = Sequence[Mapping[str, Ranking]]  # per question, by kind of view


def offline_views(asked: AskedDocument, chunks: tuple[Chunk, ...]) -> dict[str, Units]:
    """Return the keyword and summary views of chunks, made without a language model, by kind.

    A chunk that has none of a kind, because it is too short for a summary, stands there with its own text: else a
    rule that counts views would hold its length against it.
    """
    makers = (Keywords(by="offline"), Summaries(by="offline"))
    services = Services(embedder=StaticEmbedder())
    views, _ = drive(make_views(chunks, makers, title=asked.document.title), services)
    texts = {(view.kind, view.chunk_id): view.text for view in views}
    return {
        kind: Units(
            chunks=chunks,
            texts=tuple(texts.get((kind, chunk.id), chunk.text) for chunk in chunks),
            owner=tuple(range(len(chunks))),
        )
        for kind in (KEYWORDS, SUMMARY)
    }


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
        yield name, Results(ranked=[_spans(multi_view(each, rule, LONGEST)) for each in asked])


def ablation(asked: Asked) -> Iterator[tuple[str, Results]]:
    """Yield the paper's rule without each view: of two views, it returns fewer chunks (Tables 4 and 11)."""
    for left_out in asked[0]:
        fewer = [{kind: each for kind, each in of_kinds.items() if kind != left_out} for of_kinds in asked]
        yield f"paper_without_{left_out}", by_quota(fewer)


def by_quota(asked: Asked) -> Results:
    """Return the paper's rule: the union of the first k' of each view, a mean over both k' where it names two."""

    @cache
    def union(question: int, per_view: int) -> tuple[Span, ...]:
        return _union(asked[question], per_view)

    def at(question: int, k: float) -> list[tuple[Span, ...]]:
        return [union(question, per_view) for per_view in quota(k)]

    return Results(ranked=[_union(each, LONGEST) for each in asked], at=at)


def at_equal_counts(document: AskedDocument, asked: Asked) -> dict[str, float]:
    """Return `k3.equal_count` and so on: recall where the union has a mean of exactly k chunks, in percent.

    A k below what one chunk of each view gives in the mean has no such figure.
    """
    text, points = document.document.text, []
    for per_view in range(1, MOST_PER_VIEW + 1):
        unions = [_union(each, per_view) for each in asked]
        recalls = [
            coverage(spans, question.evidence, text)
            for spans, question in zip(unions, document.questions, strict=True)
        ]
        points.append((fmean(map(len, unions)), fmean(recalls)))
    found = {}
    for k in CUTOFFS:
        try:
            found[f"k{k:g}.equal_count"] = PERCENT * at_equal_count(points, k)
        except EvaluationError:
            continue
    return found


def _union(rankings: Mapping[str, Ranking], per_view: int) -> tuple[Span, ...]:
    return _spans(multi_view(rankings, PaperQuota(per_view=per_view), per_view))


def _spans(ranked: Ranking) -> tuple[Span, ...]:
    return spans_of(hit.chunk for hit in ranked.hits)

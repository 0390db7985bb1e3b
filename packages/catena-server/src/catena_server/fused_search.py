"""Rank by HiQA's whole formula on a server: in one request, and as many more as make the ranking exact.

Counts first (which words and terms there are) and the best documents, then the best BM25, then the formula. What that
leaves open is asked next: the chunks that words and terms alone may lift into the ranking, and vectors that were not
compared.

Words and terms are exact for every chunk that a server returns; only the vectors of the nearest k are compared. So a
chunk whose vector was not has at most the score of its words and terms, and the part of the k-th neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from math import inf, log1p
from typing import Annotated, Any

from annotated_types import Ge, Le

from catena import Hit, Provenance, Ranking, Scale
from catena.effects import Certificate, Fused, SearchFused, Step
from catena.model import DEFAULT_VIEW, Checked, ServerError
from catena_server.calls import side_by_side
from catena_server.index_layout import IndexLayout
from catena_server.queries import (
    DENSE,
    KEYWORD,
    LEXICAL,
    MOST,
    MOST_VALUES,
    Formula,
    Nearest,
    Query,
    count_of,
    explained,
    formula_body,
    rows_of,
    words_body,
    words_query,
)
from catena_server.restoring import SOURCE_FIELDS, chunk_of, embedded_of, rows_found, sources
from catena_server.route_search import (
    DECIMALS,
    ROUTES,
    TERMS_VIEW,
    QueryOptions,
    best_documents,
    check_k,
    checked_vector,
    cosine_of,
    emptiness,
    filters_of,
    find_values,
    nearest_to,
    over_all_shards,
    spans_of,
    words_asked,
)

MOST_COMPARED = 1_000  # chunks whose vectors are compared by one further request
_SCORES = {"filter_path": "hits.hits._id,hits.hits._score"}
PARTS = {"filter_path": "hits.hits._id,hits.hits._score,hits.hits.matched_queries"} | {
    "include_named_queries_score": True
}
_ROWS = PARTS | {"filter_path": f"{PARTS['filter_path']},hits.hits._source"}
_LEAST_PART = 1e-5  # of a nested vector, which is what the named parts leave of a score: less is rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedOptions(Checked):
    """Limits of the requests for one ranking by the formula.

    Attributes:
        neighbours: nearest vectors that the formula's request compares.
        rows: chunks that it returns; scoring each of them part by part is most of its cost.
        word_rows: chunks that a second request beside it returns, the best by words and terms alone.
        most_rounds: further requests, at most, to be sure of the ranking.
        exact: whether anything but the formula's request is asked to be sure of the ranking; without, the
            certificate says how sure that one is.
    """

    neighbours: Annotated[int, Ge(1), Le(MOST)] = 100
    rows: Annotated[int, Ge(1), Le(MOST)] = 40
    word_rows: Annotated[int, Ge(1), Le(MOST)] = 100
    most_rounds: Annotated[int, Ge(0)] = 6
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedQuestion:
    """One question in all its forms: as it is scored, as it is asked, and of whom."""

    scoring: FormulaWeights
    formula: Formula
    layout: IndexLayout
    how: QueryOptions
    rows: int


def search_fused(
    request: SearchFused, layout: IndexLayout, how: QueryOptions, options: FusedOptions | None = None
) -> Step[Fused | None]:
    """Return the k best chunks by the whole formula, each with the raw score of every route that found it.

    Args:
        request: of routes other than "dense", "lexical" and "keyword" a server knows no parts.
        layout: of the set.
        how: how it is asked.
        options: how far.

    Returns:
        The ranking, equal to the embedded library's over all its chunks within 1e-4 of score; None where the formula
        has a part that this server cannot sum: another route, or more critical terms than one request takes.

    Raises:
        ParameterError: k or the vector is out of range.
        FilterError: the filter is malformed.
        ServerError: the server refused, cannot be reached, or has no vectors.
    """
    options = options or FusedOptions()
    weights = weights_of(request)
    if weights is None:
        return None
    if request.k == 0 or request.documents == ():
        certificate = Certificate(exact=True, neighbours=0, rows=0, gap=0.0)
        return Fused(ranking=Ranking((), Scale.NORMALIZED), best=0.0, certificate=certificate)
    question = yield from prepared(request, weights, layout, how, options)
    if question is None:
        return None
    try:
        seen, sources_by_id = yield from _first(question, word_rows=options.word_rows if options.exact else 0)
        top = top_chunks(seen, question.scoring, request.k)
        size = options.word_rows * 4
        for _ in range(options.most_rounds if options.exact else 0):
            if top.is_exact:
                break
            if top.unseen > top.threshold and seen.by_words > max(top.threshold - seen.farthest, 0.0):
                least = top.least(seen, question.scoring)
                found, last = yield from _by_words(question, rows=size, least=least)
                seen = replace(seen.with_parts(found), by_words=last)
                size = min(size * 4, MOST)
            elif not top.lacking:
                bounded = yield from _bounded(question, seen)
                if bounded.farthest == seen.farthest:  # chunks may tie that no request tells apart
                    break
                seen = bounded
            else:
                likely = [*(chunk_id for chunk_id, _ in top.best), *top.lacking[: request.k]]
                wanted = [chunk_id for chunk_id in likely if chunk_id not in sources_by_id]
                seen, more = yield from side_by_side(_compared(question, seen, top), sources(wanted, layout))
                sources_by_id |= more
            top = top_chunks(seen, question.scoring, request.k)
    except ServerError as error:
        raise explained(error) from error
    sources_by_id |= yield from sources((one for one, _ in top.best if one not in sources_by_id), layout)
    hits = hits_of(top.best, seen.parts, sources_by_id)
    ranking = Ranking(hits, Scale.NORMALIZED, () if hits else (yield from emptiness(layout)))
    nearest = question.formula.nearest
    return top.fused(ranking, question.scoring.best, seen, nearest.k if nearest else 0)


def weights_of(request: SearchFused) -> dict[str, float] | None:
    """Return the weight of each route, None where one is not known here."""
    check_k(request.k)
    given = {route: weight for route, weight in request.weights if weight}
    if given.keys() - set(ROUTES):
        return None
    return {route: given.get(route, 0.0) for route in ROUTES}


def prepared(
    request: SearchFused, weights: Mapping[str, float], layout: IndexLayout, how: QueryOptions, options: FusedOptions
) -> Step[FusedQuestion | None]:
    """Return the question with all that its one request needs to know; None where that cannot hold its terms."""
    by_words = request.query if weights[LEXICAL] else ""
    spans = spans_of(request.query if weights[KEYWORD] else "")
    (words, counts), documents = yield from side_by_side(
        words_asked(by_words, layout, how.counts, spans=spans), best_documents(by_words, layout, how)
    )
    filters = filters_of(request)
    asked = words_query(words, layout, documents=documents)
    best, values = yield from side_by_side(
        _best(asked if words else None, filters, layout, how),
        find_values(counts.named_in(request.query), layout, how.counts),
    )
    if len(values) > MOST_VALUES:
        return None
    neighbours = min(max(options.neighbours, request.k + 1), MOST)  # one beyond the k-th bounds all further ones
    nearest = _nearest(request, weights[DENSE], layout, how, neighbours)
    rows = min(max(options.rows, request.k + 1), MOST)
    return FusedQuestion(
        scoring=FormulaWeights.of(weights, best),
        formula=Formula(
            nearest=nearest,
            words=words if best > 0 else (),
            values=values,
            lexical=weights[LEXICAL],
            keyword=weights[KEYWORD],
            best=best / how.dialect.bm25_unit,
            documents=documents,
            filters=filters,
        ),
        layout=layout,
        how=how,
        rows=rows,
    )


def _best(asked: Query | None, filters: Sequence[Query], layout: IndexLayout, how: QueryOptions) -> Step[float]:
    """Return the BM25 that counts as 1: the best of any chunk under the filter."""
    if asked is None:
        return 0.0
    body = {**how.dialect.body(should=[asked], filters=filters), **rows_of(1)}
    rows = yield from rows_found(layout, body, _SCORES | over_all_shards(layout))
    return max((round(row["_score"] * how.dialect.bm25_unit, DECIMALS) for row in rows), default=0.0)


def _nearest(request: SearchFused, weight: float, layout: IndexLayout, how: QueryOptions, k: int) -> Nearest | None:
    """Return the neighbours to look at, None where vectors count nothing."""
    vector = checked_vector(request.vector, layout.dim) if weight else None
    if vector is None or not vector.any():
        return None
    nearest = nearest_to(vector, k, layout, how, filters=filters_of(request))
    return replace(nearest, boost=weight, name=DENSE)


def _first(question: FusedQuestion, *, word_rows: int) -> Step[tuple[SeenChunks, dict[str, Any]]]:
    """Ask the formula in one request, and beside it for so many chunks that words and terms alone find best.

    Returns:
        What was seen, and what the server keeps of the formula's rows, by chunk id.
    """
    if not word_rows or question.formula.nearest is None:
        return (yield from _formula(question))
    whole: tuple[SeenChunks, dict[str, Any]]
    whole, (found, last) = yield from side_by_side(_formula(question), _by_words(question, rows=word_rows, least=0.0))
    seen, sources_by_id = whole
    return (replace(seen.with_parts(found), by_words=last) if seen.farthest else seen), sources_by_id


def _bounded(question: FusedQuestion, seen: SeenChunks) -> Step[SeenChunks]:
    """Ask for the neighbours alone: what the farthest of them adds is more than any chunk that is none can add."""
    nearest = question.formula.nearest
    if nearest is None:
        return seen
    cosines = yield from _cosines(question, nearest)
    if len(cosines) < nearest.k:  # no vector is left that was not compared
        return replace(seen, farthest=0.0)
    return replace(seen, farthest=min(question.scoring.most(min(cosines.values())), seen.farthest))


def _cosines(question: FusedQuestion, nearest: Nearest) -> Step[dict[str, float]]:
    """Return the cosines of the neighbours alone, by chunk id."""
    wanted = replace(nearest, boost=1.0, name="")
    body = {**question.how.dialect.body(nearest=wanted, filters=nearest.filters), **rows_of(nearest.k)}
    rows = yield from rows_found(question.layout, body, _SCORES)
    return {row["_id"]: cosine_of(row["_score"]) for row in rows}


def _formula(question: FusedQuestion) -> Step[tuple[SeenChunks, dict[str, Any]]]:
    formula, rows = question.formula, question.rows
    body = formula_body(formula, question.layout, question.how.dialect, rows=rows)
    if body is None:
        return SeenChunks(parts={}, farthest=0.0, last=-inf), {}
    body["_source"] = list(SOURCE_FIELDS)
    beside = "knn" in body  # such a search counts words over all shards by itself
    params = _ROWS if beside else _ROWS | over_all_shards(question.layout)
    found = yield from rows_found(question.layout, body, params)
    parts = {row["_id"]: parts_of(row, question) for row in found}
    last = found[-1]["_score"] if len(found) >= rows else -inf
    seen = SeenChunks.first(parts, last, question.scoring, neighbours=formula.nearest.k if formula.nearest else 0)
    return seen, {row["_id"]: row["_source"] for row in found}


def _by_words(question: FusedQuestion, *, rows: int, least: float) -> Step[tuple[dict[str, ScoreParts], float]]:
    """Return the chunks that words and terms find best, and the most that any other can have of them."""
    body = words_body(question.formula, question.layout, question.how.dialect, rows=rows, least=least)
    if body is None:
        return {}, 0.0
    params = PARTS | over_all_shards(question.layout)
    found = yield from rows_found(question.layout, body, params)
    last = found[-1]["_score"] if len(found) >= rows else least
    return {row["_id"]: parts_of(row, question) for row in found}, last


def _compared(question: FusedQuestion, seen: SeenChunks, top: TopChunks) -> Step[SeenChunks]:
    """Ask the vectors of chunks that may rise by them; one that has none has no more to gain."""
    asked = top.lacking[:MOST_COMPARED]
    nearest = question.formula.nearest
    assert nearest is not None  # nothing lacks where no vector is asked
    filters = [*nearest.filters, {"ids": {"values": list(asked)}}]
    wanted = replace(nearest, k=len(asked), candidates=len(asked), filters=filters)
    return seen.compared(asked, (yield from _cosines(question, wanted)))


def parts_of(row: Mapping[str, Any], question: FusedQuestion) -> ScoreParts:
    """Return the parts of a row's score, each in its route's raw unit, from the scores of named clauses."""
    formula, unit = question.formula, question.how.dialect.bm25_unit
    named: Mapping[str, float] = row.get("matched_queries") or {}
    dense, nearest = named.get(DENSE), formula.nearest
    if nearest is not None and nearest.nested is not None and not question.how.dialect.names_nested:
        rest = row["_score"] - named.get(LEXICAL, 0.0) - named.get(KEYWORD, 0.0)
        dense = rest if rest > _LEAST_PART else None
    lexical = named.get(LEXICAL, 0.0)
    return ScoreParts(
        cosine=None if dense is None or nearest is None else cosine_of(dense / nearest.boost),
        bm25=round(lexical / formula.lexical * formula.best * unit, DECIMALS) if lexical else 0.0,
        count=count_of(named[KEYWORD], formula.keyword) if KEYWORD in named else 0,
        is_compared=dense is not None,
    )


def hits_of(
    best: Sequence[tuple[str, float]], parts: Mapping[str, ScoreParts], sources_by_id: Mapping[str, Mapping[str, Any]]
) -> tuple[Hit, ...]:
    """Return hits with the raw score of every route that found them, without those deleted meanwhile.

    Args:
        best: (chunk id, score), in order.
        parts: of each.
        sources_by_id: what the server keeps of them.
    """
    hits = []
    for chunk_id, score in best:
        if chunk_id in sources_by_id:
            views = {DENSE: embedded_of(sources_by_id[chunk_id]), KEYWORD: TERMS_VIEW, LEXICAL: DEFAULT_VIEW}
            hits.append(Hit(chunk_of(sources_by_id[chunk_id], chunk_id), score, parts[chunk_id].ways(views)))
    return tuple(hits)


_ROUNDING = 1e-6  # of a sum of a server's floats of 32 bits
_HALF_UNIT = 0.5e-4  # by which rounding changes a BM25


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreParts:
    """The known parts of one chunk's score, each in the raw unit of its route.

    Attributes:
        cosine: None where it has no vector, or where that was not compared.
        is_compared: whether nothing of it is left to be known.
    """

    cosine: float | None = None
    bm25: float = 0.0
    count: int = 0
    is_compared: bool = False

    def raw(self) -> dict[str, float]:
        """Return the raw score by each route that found it, in the order of the routes' names."""
        dense = {} if self.cosine is None else {DENSE: self.cosine}
        keyword = {KEYWORD: float(self.count)} if self.count else {}
        return {**dense, **keyword, **({LEXICAL: self.bm25} if self.bm25 > 0 else {})}

    def ways(self, views: Mapping[str, str]) -> tuple[Provenance, ...]:
        """Return by which routes it was found, and through which view of each."""
        raw = self.raw().items()
        return tuple(Provenance(route=route, rank=None, score=score, view=views[route]) for route, score in raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulaWeights:
    """The formula with its weights; `best` is the BM25 that counts as 1, 0 where none does."""

    dense: float
    lexical: float
    keyword: float
    best: float

    def score(self, parts: ScoreParts) -> float:
        """Return a chunk's score from what is known of it, summed in the order of the embedded library."""
        shares = []
        if parts.cosine is not None:
            shares.append(self.dense * half(parts.cosine))
        if parts.count:
            shares.append(self.keyword * log1p(parts.count))
        if parts.bm25 > 0 and self.best > 0:
            shares.append(self.lexical * (parts.bm25 / self.best))
        return sum(shares)

    @classmethod
    def of(cls, weights: Mapping[str, float], best: float) -> FormulaWeights:
        """Return the weights of the routes by name; one that is not there weighs nothing."""
        dense, lexical, keyword = (weights.get(route, 0.0) for route in (DENSE, LEXICAL, KEYWORD))
        return cls(dense=dense, lexical=lexical, keyword=keyword, best=best)

    def most(self, cosine: float) -> float:
        """Return the most that a vector can add which is no nearer than another one."""
        return self.score(ScoreParts(cosine=cosine)) + self.slack

    @property
    def slack(self) -> float:
        """By how much a score may differ from the server's, which does not round its BM25."""
        return _ROUNDING + (self.lexical * _HALF_UNIT / self.best if self.best > 0 else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenChunks:
    """All that was seen of one ranking so far.

    Attributes:
        parts: by chunk id.
        farthest: the most that a vector which was not compared can add; 0 where all were.
        last: server's score of the last row of the whole formula; -inf where every chunk that matches was a row.
        by_words: the same of words and terms alone; inf before they were asked.
    """

    parts: Mapping[str, ScoreParts]
    farthest: float
    last: float
    by_words: float = inf

    @classmethod
    def first(
        cls, parts: Mapping[str, ScoreParts], last: float, scoring: FormulaWeights, *, neighbours: int
    ) -> SeenChunks:
        """Return what the formula's request has shown: its rows, of which `neighbours` may have been compared."""
        cosines = [one.cosine for one in parts.values() if one.cosine is not None]
        if neighbours and (len(cosines) >= neighbours or last > -inf):
            return cls(parts=parts, farthest=scoring.most(min(cosines, default=1.0)), last=last)
        compared = {one: replace(found, is_compared=True) for one, found in parts.items()}
        return cls(parts=compared, farthest=0.0, last=last)  # no vector is left that was not compared

    def compared(self, asked: Sequence[str], cosines: Mapping[str, float | None]) -> SeenChunks:
        """Return all that was seen with the vectors that were asked; a chunk without one has no more to gain."""
        return self.with_parts(
            {one: replace(self.parts[one], cosine=cosines.get(one), is_compared=True) for one in asked}
        )

    def with_parts(self, parts: Mapping[str, ScoreParts]) -> SeenChunks:
        """Return all that was seen with more chunks; what is compared already stays."""
        fresh = {one: found for one, found in parts.items() if one not in self.parts or found.is_compared}
        return replace(self, parts={**self.parts, **fresh})

    def unseen(self) -> float:
        """Return the most that a chunk can score that was no row.

        One whose vector was compared comes after the last row of the formula; one whose vector was not comes, without
        it, after the last row of either request, or has neither words nor terms.
        """
        if not self.farthest:
            return self.last
        return max(self.last, max(min(self.last, self.by_words), 0.0) + self.farthest)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopChunks:
    """The best chunks as far as known, and what might still displace one.

    Attributes:
        best: (chunk id, score), best first, ties by id.
        threshold: score of the last of them; -inf where there are fewer than asked.
        unseen: the most that a chunk can score that was not seen.
        lacking: ids of chunks whose vectors were not compared and may lift them to the threshold, likeliest first.
        gap: threshold, less the most that any chunk can have which is not sure to be below.
    """

    best: tuple[tuple[str, float], ...]
    threshold: float
    unseen: float
    lacking: tuple[str, ...]
    gap: float

    def least(self, seen: SeenChunks, scoring: FormulaWeights) -> float:
        """Return the least that words and terms must give a chunk for it to be lifted into the ranking."""
        return max(self.threshold - seen.farthest - 2 * scoring.slack, 0.0)

    def fused(self, ranking: Ranking, best: float, seen: SeenChunks, neighbours: int) -> Fused:
        """Return a ranking with the certificate that it has."""
        certificate = Certificate(exact=self.is_exact, neighbours=neighbours, rows=len(seen.parts), gap=self.gap)
        return Fused(ranking=ranking, best=best, certificate=certificate)

    @property
    def is_exact(self) -> bool:
        """Return whether no other chunk can score more than the last of the best."""
        return self.gap >= 0


def top_chunks(seen: SeenChunks, scoring: FormulaWeights, k: int) -> TopChunks:
    """Return the k best of the chunks that were seen, and how sure that is.

    Args:
        seen: rows of the requests so far.
        scoring: the formula.
        k: length of the ranking, >= 1.
    """
    scores = {chunk_id: scoring.score(parts) for chunk_id, parts in seen.parts.items()}
    ordered = nsmallest(k + 1, scores.items(), key=lambda item: (-item[1], item[0]))
    best = tuple(ordered[:k])
    threshold = best[-1][1] if len(best) == k else -inf
    most = {one: scores[one] + seen.farthest for one, parts in seen.parts.items() if not parts.is_compared}
    lacking = [one for one in most if seen.farthest and most[one] >= threshold]
    lacking.sort(key=lambda one: (-most[one], one))
    unseen = seen.unseen() + scoring.slack
    others = [unseen, *(most[one] for one in lacking[:1]), *(score for _, score in ordered[k:])]
    gap = threshold - max(0.0, *others) if threshold > -inf else 0.0  # fewer than k match: none is left out
    return TopChunks(best=best, threshold=threshold, unseen=unseen, lacking=tuple(lacking), gap=gap)


def half(cosine: float) -> float:
    """Return the part of a vector: `(1 + cos) / 2`, in [0, 1]."""
    return min(max((1.0 + cosine) / 2.0, 0.0), 1.0)

"""The ranking of HiQA's whole formula from a server: one request for it, and as many as it takes to be sure of it.

Facts first (which words and terms there are), then the best BM25, then the formula. What that leaves open is asked
next: the chunks that words and terms alone may lift into the ranking, and vectors that were not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Annotated, Any

from annotated_types import Ge, Le

from catena.effects.steps import Certificate, Failed, Fused, SearchFused, Step, ask, together
from catena.model import Hit, Provenance, Ranking, Scale
from catena.model.errors import ParameterError, ServerError
from catena.model.options import check_options
from catena.model.vectors import DEFAULT_VIEW
from catena.server.certificate import Parts, Scoring, Seen, Verdict, judge
from catena.server.dialect import MOST, Nearest, explained
from catena.server.facts import Facts, find_facts, find_values, spans_of
from catena.server.formula import (
    DENSE,
    KEYWORD,
    LEXICAL,
    MOST_VALUES,
    Formula,
    count_of,
    formula_body,
    rows_of,
    words_body,
    words_query,
)
from catena.server.hits import SOURCE_FIELDS, chunk_of, embedded_of, rows_in, search_call, sources
from catena.server.layout import IndexLayout
from catena.server.searching import (
    DECIMALS,
    ROUTES,
    TERMS_VIEW,
    QueryOptions,
    asked_words,
    checked_vector,
    cosine_of,
    emptiness,
    filters_of,
    nearest_to,
    over_all_shards,
    words_of,
)

MOST_COMPARED = 1_000  # chunks whose vectors are compared by one further request
_SCORES = {"filter_path": "hits.hits._id,hits.hits._score"}
PARTS = {"filter_path": "hits.hits._id,hits.hits._score,hits.hits.matched_queries"} | {
    "include_named_queries_score": True
}
_ROWS = PARTS | {"filter_path": f"{PARTS['filter_path']},hits.hits._source"}
_LEAST_PART = 1e-5  # of a nested vector, which is what the named parts leave of a score: less is rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedOptions:
    """How far a server is asked for a ranking of the formula.

    Attributes:
        neighbours: nearest vectors that the formula's request compares.
        rows: chunks that it returns; scoring each of them part by part is most of its cost.
        spoken: chunks that a second request beside it returns, the best by words and terms alone.
        most_rounds: further requests, at most, to be sure of the ranking.
        exact: whether anything but the formula's request is asked to be sure of the ranking; without, the
            certificate says how sure that one is.
    """

    neighbours: Annotated[int, Ge(1), Le(MOST)] = 100
    rows: Annotated[int, Ge(1), Le(MOST)] = 40
    spoken: Annotated[int, Ge(1), Le(MOST)] = 100
    most_rounds: Annotated[int, Ge(0)] = 6
    exact: bool = True

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question in all its forms: as it is scored, as it is asked, and of whom."""

    scoring: Scoring
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
        return _nothing(0.0)
    question = yield from prepared(request, weights, layout, how, options)
    if question is None:
        return None
    try:
        seen, held = yield from _first(question, spoken=options.spoken if options.exact else 0)
        verdict = judge(seen, question.scoring, request.k)
        size = options.spoken * 4
        for _ in range(options.most_rounds if options.exact else 0):
            if verdict.is_exact:
                break
            if verdict.unseen > verdict.threshold and seen.spoken > max(verdict.threshold - seen.farthest, 0.0):
                seen = yield from _spoken(question, seen, verdict, size)
                size = min(size * 4, MOST)
            elif not verdict.lacking:
                bounded = yield from _bounded(question, seen)
                if bounded.farthest == seen.farthest:  # chunks may tie that no request tells apart
                    break
                seen = bounded
            else:
                likely = [*(chunk_id for chunk_id, _ in verdict.best), *verdict.lacking[: request.k]]
                wanted = [chunk_id for chunk_id in likely if chunk_id not in held]
                seen, more = yield from _both(_compared(question, seen, verdict), sources(wanted, layout))
                held |= more
            verdict = judge(seen, question.scoring, request.k)
    except ServerError as error:
        raise explained(error) from error
    held |= yield from sources((one for one, _ in verdict.best if one not in held), layout)
    hits = hits_of(verdict.best, seen.parts, held)
    ranking = Ranking(hits, Scale.NORMALIZED, () if hits else (yield from emptiness(layout)))
    nearest = question.formula.nearest
    certificate = Certificate(
        exact=verdict.is_exact, neighbours=nearest.k if nearest else 0, rows=len(seen.parts), gap=verdict.gap
    )
    return Fused(ranking=ranking, best=question.scoring.best, certificate=certificate)


def weights_of(request: SearchFused) -> dict[str, float] | None:
    """Return the weight of each route, None where one is not known here."""
    if not isinstance(request.k, int) or isinstance(request.k, bool) or not 0 <= request.k <= MOST:
        raise ParameterError("k", request.k, f"a whole number in [0, {MOST}], as many as a server gives at once")
    given = {route: weight for route, weight in request.weights if weight}
    if given.keys() - set(ROUTES):
        return None
    return {route: given.get(route, 0.0) for route in ROUTES}


def _nothing(best: float) -> Fused:
    certificate = Certificate(exact=True, neighbours=0, rows=0, gap=0.0)
    return Fused(ranking=Ranking((), Scale.NORMALIZED), best=best, certificate=certificate)


def prepared(
    request: SearchFused, weights: Mapping[str, float], layout: IndexLayout, how: QueryOptions, options: FusedOptions
) -> Step[Question | None]:
    """Return the question with all that its one request needs to know; None where that cannot hold its terms."""
    said = words_of(request.query if weights[LEXICAL] else "")
    spans = spans_of(request.query if weights[KEYWORD] else "")
    facts: Facts = yield from find_facts(layout, how.facts, words=said, spans=spans)
    words = asked_words(said, facts.telling(), facts.words)
    filters = filters_of(request)
    best, values = yield from _both(
        _best(request, words, filters, layout, how), find_values(facts.named_in(request.query), layout, how.facts)
    )
    if len(values) > MOST_VALUES:
        return None
    neighbours = min(max(options.neighbours, request.k + 1), MOST)  # one beyond the k-th bounds all further ones
    nearest = _nearest(request, weights[DENSE], layout, how, neighbours)
    rows = min(max(options.rows, request.k + 1), MOST)
    return Question(
        scoring=Scoring(dense=weights[DENSE], lexical=weights[LEXICAL], keyword=weights[KEYWORD], best=best),
        formula=Formula(
            nearest=nearest,
            words=words if best > 0 else (),
            values=values,
            lexical=weights[LEXICAL],
            keyword=weights[KEYWORD],
            best=best / how.dialect.bm25_unit,
            filters=filters,
        ),
        layout=layout,
        how=how,
        rows=rows,
    )


def _both(one: Step[Any], other: Step[Any]) -> Step[list[Any]]:
    """Return what two steps give that need not wait for each other."""
    results = yield from together([one, other])
    for result in results:
        if isinstance(result, Failed):
            raise result.error
    return results


def _best(
    request: SearchFused,
    words: Sequence[tuple[str, int]],
    filters: Sequence[Mapping[str, Any]],
    layout: IndexLayout,
    how: QueryOptions,
) -> Step[float]:
    """Return the BM25 that counts as 1: that which was given, or the best of any chunk under the filter."""
    if request.best is not None or not words:
        return request.best or 0.0
    body = {**how.dialect.body(should=[words_query(words, layout)], filters=filters), **rows_of(1)}
    (reply,) = yield from ask([search_call(layout, body, params=_SCORES | over_all_shards(layout))])
    return max((round(row["_score"] * how.dialect.bm25_unit, DECIMALS) for row in rows_in(reply)), default=0.0)


def _nearest(request: SearchFused, weight: float, layout: IndexLayout, how: QueryOptions, k: int) -> Nearest | None:
    """Return the neighbours to look at, None where vectors count nothing."""
    vector = checked_vector(request.vector, layout.dim) if weight else None
    if vector is None or not vector.any():
        return None
    nearest = nearest_to(vector, k, layout, how, filters=filters_of(request))
    return replace(nearest, boost=weight, name=DENSE)


def _first(question: Question, *, spoken: int) -> Step[tuple[Seen, dict[str, Any]]]:
    """Ask the formula in one request, and beside it for so many chunks that words and terms alone find best.

    Returns:
        What was seen, and what the server keeps of the formula's rows, by chunk id.
    """
    if not spoken or question.formula.nearest is None:
        return (yield from _formula(question))
    whole: tuple[Seen, dict[str, Any]]
    whole, (found, last) = yield from _both(_formula(question), _by_words(question, rows=spoken, least=0.0))
    seen, held = whole
    return (replace(seen.with_parts(found), spoken=last) if seen.farthest else seen), held


def _bounded(question: Question, seen: Seen) -> Step[Seen]:
    """Ask for the neighbours alone: what the farthest of them adds is more than any chunk that is none can add."""
    nearest = question.formula.nearest
    if nearest is None:
        return seen
    wanted = replace(nearest, boost=1.0, name="")
    body = {**question.how.dialect.body(nearest=wanted, filters=nearest.filters), **rows_of(nearest.k)}
    (reply,) = yield from ask([search_call(question.layout, body, params=_SCORES)])
    cosines = [cosine_of(row["_score"]) for row in rows_in(reply)]
    if len(cosines) < nearest.k:  # no vector is left that was not compared
        return replace(seen, farthest=0.0)
    part = question.scoring.score(Parts(cosine=min(cosines))) + question.scoring.slack
    return replace(seen, farthest=min(part, seen.farthest))


def _formula(question: Question) -> Step[tuple[Seen, dict[str, Any]]]:
    formula, rows = question.formula, question.rows
    body = formula_body(formula, question.layout, question.how.dialect, rows=rows)
    if body is None:
        return Seen(parts={}, farthest=0.0, last=-inf), {}
    body["_source"] = list(SOURCE_FIELDS)
    beside = "knn" in body  # such a search counts words over all shards by itself
    params = _ROWS if beside else _ROWS | over_all_shards(question.layout)
    (reply,) = yield from ask([search_call(question.layout, body, params=params)])
    found = rows_in(reply)
    parts = {row["_id"]: parts_of(row, question) for row in found}
    last = found[-1]["_score"] if len(found) >= rows else -inf
    cosines = [one.cosine for one in parts.values() if one.cosine is not None]
    farthest = 0.0
    if formula.nearest is not None and (len(cosines) >= formula.nearest.k or last > -inf):
        part = question.scoring.score(Parts(cosine=min(cosines))) if cosines else formula.nearest.boost
        farthest = part + question.scoring.slack
    if not farthest:  # no vector is left that was not compared
        parts = {one: replace(found, is_compared=True) for one, found in parts.items()}
    held = {row["_id"]: row["_source"] for row in found}
    return Seen(parts=parts, farthest=farthest, last=last), held


def _spoken(question: Question, seen: Seen, verdict: Verdict, rows: int) -> Step[Seen]:
    """Ask for the chunks that words and terms alone may lift into the ranking."""
    least = max(verdict.threshold - seen.farthest - 2 * question.scoring.slack, 0.0)
    found, last = yield from _by_words(question, rows=rows, least=least)
    return replace(seen.with_parts(found), spoken=last)


def _by_words(question: Question, *, rows: int, least: float) -> Step[tuple[dict[str, Parts], float]]:
    """Return the chunks that words and terms find best, and the most that any other can have of them."""
    body = words_body(question.formula, question.layout, question.how.dialect, rows=rows, least=least)
    if body is None:
        return {}, 0.0
    params = PARTS | over_all_shards(question.layout)
    (reply,) = yield from ask([search_call(question.layout, body, params=params)])
    found = rows_in(reply)
    last = found[-1]["_score"] if len(found) >= rows else least
    return {row["_id"]: parts_of(row, question) for row in found}, last


def _compared(question: Question, seen: Seen, verdict: Verdict) -> Step[Seen]:
    """Ask the vectors of chunks that may rise by them; one that has none has no more to gain."""
    asked = verdict.lacking[:MOST_COMPARED]
    nearest = question.formula.nearest
    assert nearest is not None  # nothing lacks where no vector is asked
    filters = [*nearest.filters, {"ids": {"values": list(asked)}}]
    wanted = replace(nearest, k=len(asked), candidates=len(asked), filters=filters, boost=1.0, name="")
    body = {**question.how.dialect.body(nearest=wanted, filters=filters), **rows_of(len(asked))}
    (reply,) = yield from ask([search_call(question.layout, body, params=_SCORES)])
    cosines = {row["_id"]: cosine_of(row["_score"]) for row in rows_in(reply)}
    return seen.with_parts(
        {one: replace(seen.parts[one], cosine=cosines.get(one), is_compared=True) for one in asked}
    )


def parts_of(row: Mapping[str, Any], question: Question, *, by_rest: bool = False) -> Parts:
    """Return the parts of a row's score, each in its route's raw unit.

    Args:
        row: with the scores of the named clauses it matched.
        question: that was asked.
        by_rest: whether the vector's part is what the others leave of the score, also where it has a name.
    """
    formula, unit = question.formula, question.how.dialect.bm25_unit
    named: Mapping[str, float] = row.get("matched_queries") or {}
    dense, nearest = named.get(DENSE), formula.nearest
    if nearest is not None and (by_rest or (nearest.nested is not None and not question.how.dialect.names_nested)):
        rest = row["_score"] - named.get(LEXICAL, 0.0) - named.get(KEYWORD, 0.0)
        dense = rest if rest > _LEAST_PART else None
    lexical = named.get(LEXICAL, 0.0)
    return Parts(
        cosine=None if dense is None or nearest is None else cosine_of(dense / nearest.boost),
        bm25=round(lexical / formula.lexical * formula.best * unit, DECIMALS) if lexical else 0.0,
        count=count_of(named[KEYWORD], formula.keyword) if KEYWORD in named else 0,
        is_compared=dense is not None,
    )


def hits_of(
    best: Sequence[tuple[str, float]], parts: Mapping[str, Parts], held: Mapping[str, Mapping[str, Any]]
) -> tuple[Hit, ...]:
    """Return hits with the raw score of every route that found them, without those deleted meanwhile.

    Args:
        best: (chunk id, score), in order.
        parts: of each.
        held: what the server keeps of them.
    """
    hits = []
    for chunk_id, score in best:
        if chunk_id in held:
            views = {DENSE: embedded_of(held[chunk_id]), KEYWORD: TERMS_VIEW, LEXICAL: DEFAULT_VIEW}
            ways = tuple(
                Provenance(route=route, rank=None, score=raw, view=views[route])
                for route, raw in parts[chunk_id].raw().items()
            )
            hits.append(Hit(chunk_of(held[chunk_id], chunk_id), score, ways))
    return tuple(hits)

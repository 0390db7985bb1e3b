"""The queries of the routes and of HiQA's whole formula, as pure functions: no script, one request.

`score = dense * (1 + cos) / 2 + lexical * bm25 / best + keyword * ln(1 + |C|)`; the logarithm of a count is the sum
of a ladder of constant scores, `ln(1 + c) = sum over j = 1..m of ln((j + 1) / j) * [c >= j]` for c <= m.
Source: HiQA, arXiv:2402.01767, formula 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import expm1, log
from typing import Any

from catena.model.vectors import DEFAULT_VIEW
from catena.server.dialect import Dialect, Nearest, Query
from catena.server.layout import IndexLayout

DENSE, LEXICAL, KEYWORD = "dense", "lexical", "keyword"  # names of the routes, and of the parts of a score
MOST_VALUES = 30  # of terms in one ladder, which has m * m clauses: the servers' default limit is 1,024


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """One question of the formula, ready to be asked.

    Attributes:
        nearest: the neighbours to look at, with `dense` as boost; None where vectors count nothing.
        words: (word, count in the question) of the words that are asked.
        values: of critical terms, as `layout.repeated` spells them.
        lexical, keyword: weights.
        best: BM25 in the server's unit that counts as 1, > 0 where there are words.
        filters: which every part obeys.
    """

    nearest: Nearest | None
    words: Sequence[tuple[str, int]]
    values: Sequence[str]
    lexical: float
    keyword: float
    best: float
    filters: Sequence[Query] = ()


def words_query(words: Sequence[tuple[str, int]], layout: IndexLayout, view: str = DEFAULT_VIEW) -> dict[str, Any]:
    """Return the clause whose score is the BM25 of words in the views of a kind, the best view of each chunk.

    Args:
        words: (word, how often the question says it); a word counts as often.
        layout: says where the views lie.
        view: their kind.
    """
    field, path = layout.words(view), layout.nested(view)
    clauses = [
        {"term": {field: {"value": word, **({"boost": float(count)} if count != 1 else {})}}} for word, count in words
    ]
    query: dict[str, Any] = {"bool": {"should": clauses}}
    if path is None:
        return query
    return {"nested": {"path": path, "score_mode": "max", "ignore_unmapped": True, "query": query}}


def count_query(values: Sequence[str]) -> dict[str, Any]:
    """Return the clause whose score is the number of the values of critical terms that a chunk holds."""
    return {"bool": {"should": [{"constant_score": {"filter": _term(value)}} for value in values]}}


def ladder(values: Sequence[str], weight: float) -> dict[str, Any]:
    """Return the clause whose score is `weight * ln(1 + c)`, c the number of the values that a chunk holds."""
    terms = [_term(value) for value in values]
    rungs = [
        {
            "constant_score": {
                "boost": weight * log((count + 1) / count),
                "filter": {"bool": {"should": terms, "minimum_should_match": count}},
            }
        }
        for count in range(1, len(terms) + 1)
    ]
    return {"bool": {"should": rungs}}


def count_of(score: float, weight: float) -> int:
    """Return the count whose ladder gave a score: the inverse of `ladder`."""
    return round(expm1(score / weight))


def spoken(formula: Formula, layout: IndexLayout) -> list[dict[str, Any]]:
    """Return the clauses of words and terms, each under its route's name."""
    clauses = []
    if formula.words and formula.lexical > 0:
        words = words_query(formula.words, layout)
        clauses.append(_named(words, LEXICAL, formula.lexical / formula.best))
    if formula.values and formula.keyword > 0:
        clauses.append(_named(ladder(formula.values, formula.keyword), KEYWORD))
    return clauses


def formula_body(formula: Formula, layout: IndexLayout, dialect: Dialect, *, rows: int) -> dict[str, Any] | None:
    """Return the body of the one request, None where nothing is asked.

    Args:
        formula: the question.
        layout: where its parts are looked for.
        dialect: how the server is asked.
        rows: chunks to return, best first.
    """
    asked = dialect.body(nearest=formula.nearest, should=spoken(formula, layout), filters=formula.filters)
    return {**asked, **rows_of(rows)} if asked else None


def words_body(
    formula: Formula, layout: IndexLayout, dialect: Dialect, *, rows: int, least: float
) -> dict[str, Any] | None:
    """Return the body that asks for words and terms alone, of chunks that score at least `least` by them."""
    clauses = spoken(formula, layout)
    if not clauses:
        return None
    return {**dialect.body(should=clauses, filters=formula.filters), **rows_of(rows), "min_score": max(least, 0.0)}


def rows_of(rows: int) -> dict[str, Any]:
    """Return how many chunks a request gives, in which order, and that nothing else is counted or fetched."""
    order = [{"_score": "desc"}, {"id": "asc"}]
    return {"size": rows, "track_total_hits": False, "_source": False, "sort": order}


def _term(value: str) -> dict[str, Any]:
    return {"term": {"terms": value}}


def _named(clause: Mapping[str, Any], name: str, boost: float = 1.0) -> dict[str, Any]:
    ((kind, inner),) = clause.items()
    return {kind: {**inner, "_name": name, **({"boost": boost} if boost != 1.0 else {})}}

"""HiQA's whole formula over an index that others have filled: one request, and more where that is not certain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from catena.effects.steps import Step
from catena.server.certificate import Parts, Scoring, Seen, Verdict, judge
from catena.server.foreign_fields import FieldType, cosine_of
from catena.server.foreign_filters import ALL, Clause, both, ids_clause
from catena.server.foreign_queries import MOST, ForeignIndex, dense_body
from catena.server.formula import DENSE, KEYWORD, LEXICAL, count_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEIGHBOURS: Final = 200  # nearest vectors that the formula's request compares
ROWS: Final = 300  # hits that it returns, without their texts
ROUNDS: Final = 4  # further requests, at most, to be sure of the ranking
MOST_TERMS: Final = 30  # in one ladder, which has as many clauses squared
FORMULA_ROUTES: Final = (DENSE, KEYWORD, LEXICAL)
_NAMED: Final = {"include_named_queries_score": True}

Ask: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], Step[Mapping[str, Any]]]
"""Asks one search of the index: its body and further parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFormula:
    """One question of the formula, ready to be asked.

    Attributes:
        scoring: weights, and the BM25 that counts as 1.
        vector: of the question, of unit length; None where vectors count nothing.
        field: of the vectors.
        terms: critical terms that the question says.
        allowed: the clause that each part obeys.
    """

    query: str
    k: int
    at: ForeignIndex
    scoring: Scoring
    vector: NDArray[np.float32] | None
    field: FieldType | None
    terms: Sequence[str]
    allowed: Clause

    @property
    def neighbours(self) -> int:
        """How many nearest vectors are compared at first."""
        return 0 if self.vector is None else min(max(NEIGHBOURS, self.k), MOST)

    @property
    def rows(self) -> int:
        """How many hits are returned at first."""
        return min(max(ROWS, self.neighbours + self.k), MOST)

    def spoken(self) -> list[Clause]:
        """Return the clauses of words and of terms, each under its route's name."""
        clauses: list[Clause] = []
        if self.scoring.best > 0 and self.scoring.lexical > 0:
            asked = {"query": self.query, "boost": self.scoring.lexical / self.scoring.best, "_name": LEXICAL}
            clauses.append({"match": {self.at.text_field: asked}})
        if self.terms and self.scoring.keyword > 0:
            clauses.append({"bool": {"should": self._ladder(), "_name": KEYWORD}})
        return clauses

    def _ladder(self) -> list[Clause]:
        """Return clauses whose scores sum to `keyword * ln(1 + c)`, c the number of the terms that a hit carries."""
        terms: list[Clause] = [{"term": {self.at.critical_field: term}} for term in self.terms]
        return [
            {
                "constant_score": {
                    "boost": self.scoring.keyword * log((count + 1) / count),
                    "filter": {"bool": {"should": terms, "minimum_should_match": count}},
                }
            }
            for count in range(1, len(terms) + 1)
        ]

    def body(self) -> dict[str, Any] | None:
        """Return the one request, None where nothing is asked."""
        said = self._words_body(self.rows)
        if self.vector is None or self.field is None:
            return said
        nearest = dense_body(self.vector, self.neighbours, self.at, self.field, self.allowed)
        knn = {**nearest["knn"], "boost": self.scoring.dense, "_name": DENSE}
        return {**(said or _frame(self.rows)), "knn": knn}

    def spoken_body(self, rows: int, least: float) -> dict[str, Any] | None:
        """Return the request for hits that score at least so much by words and terms alone."""
        said = self._words_body(rows)
        return None if said is None else {**said, "min_score": max(least, 0.0)}

    def _words_body(self, rows: int) -> dict[str, Any] | None:
        clauses = self.spoken()
        if not clauses:
            return None
        filters = [] if self.allowed == ALL else [self.allowed]
        return {
            **_frame(rows),
            "query": {"bool": {"should": clauses, "minimum_should_match": 1, "filter": filters}},
        }

    def cosines_body(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return the request for the vectors' scores of given hits."""
        assert self.vector is not None and self.field is not None  # noqa: PT018 - nothing lacks without a vector
        among = both([self.allowed, ids_clause(ids)])
        return {**dense_body(self.vector, len(ids), self.at, self.field, among), "_source": False}

    def parts(self, row: Mapping[str, Any]) -> Parts:
        """Return the parts of a hit's score, each in its route's raw unit."""
        named: Mapping[str, float] = row.get("matched_queries") or {}
        lexical = named.get(LEXICAL, 0.0)
        return Parts(
            cosine=2.0 * named[DENSE] / self.scoring.dense - 1.0 if DENSE in named else None,
            bm25=lexical / self.scoring.lexical * self.scoring.best if lexical else 0.0,
            count=count_of(named[KEYWORD], self.scoring.keyword) if KEYWORD in named else 0,
            is_compared=DENSE in named,
        )


def certified(formula: ForeignFormula, asked: Ask) -> Step[tuple[Verdict, Seen]]:
    """Return the best hits of a formula by id, and all that was seen, after as many requests as it takes."""
    seen = yield from _first(formula, asked)
    verdict = judge(seen, formula.scoring, formula.k)
    size = formula.rows
    for _ in range(ROUNDS):
        if verdict.is_exact:
            break
        if verdict.unseen > verdict.threshold and seen.spoken > verdict.threshold - seen.farthest:
            least = max(verdict.threshold - seen.farthest - 2 * formula.scoring.slack, 0.0)
            seen, size = (yield from _spoken(formula, asked, seen, size, least)), min(size * 4, MOST)
        elif verdict.lacking:
            ids = verdict.lacking[: formula.rows]
            reply = yield from asked(formula.cosines_body(ids), {})
            similarity = formula.field.similarity if formula.field else ""
            cosines = {row["_id"]: cosine_of(row["_score"], similarity) for row in reply["hits"]["hits"]}
            seen = seen.with_parts(
                {one: replace(seen.parts[one], cosine=cosines.get(one), is_compared=True) for one in ids}
            )
        else:
            break
        verdict = judge(seen, formula.scoring, formula.k)
    return verdict, seen


def _first(formula: ForeignFormula, asked: Ask) -> Step[Seen]:
    body = formula.body()
    if body is None:
        return Seen(parts={}, farthest=0.0, last=-inf)
    reply = yield from asked(body, _NAMED)
    rows = reply["hits"]["hits"]
    parts = {row["_id"]: formula.parts(row) for row in rows}
    last = float(rows[-1]["_score"]) if len(rows) >= formula.rows else -inf
    cosines = [one.cosine for one in parts.values() if one.cosine is not None]
    farthest = 0.0
    if formula.neighbours and (len(cosines) >= formula.neighbours or last > -inf):
        nearest = Parts(cosine=min(cosines)) if cosines else Parts(cosine=1.0)
        farthest = formula.scoring.score(nearest) + formula.scoring.slack
    if not farthest:  # no vector is left that was not compared
        parts = {one: replace(found, is_compared=True) for one, found in parts.items()}
    return Seen(parts=parts, farthest=farthest, last=last)


def _spoken(formula: ForeignFormula, asked: Ask, seen: Seen, rows: int, least: float) -> Step[Seen]:
    """Ask for the hits that words and terms alone may lift into the ranking."""
    body = formula.spoken_body(rows, least)
    if body is None:
        return replace(seen, spoken=0.0)
    found = (yield from asked(body, _NAMED))["hits"]["hits"]
    spoken = float(found[-1]["_score"]) if len(found) >= rows else least
    return replace(seen.with_parts({row["_id"]: formula.parts(row) for row in found}), spoken=spoken)


def _frame(rows: int) -> dict[str, Any]:
    return {"size": rows, "track_total_hits": False, "_source": False}
